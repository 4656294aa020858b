//! Identifiers of rows that only the management side uses.

use rpcgate_core::caller::{NotUuid, TenantId};
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                Uuid::from_u128(self.0).fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = NotUuid;

            fn from_str(s: &str) -> Result<Self, NotUuid> {
                s.parse::<TenantId>().map(|id| Self(id.0))
            }
        }
    };
}

id! {
    /// A user's identifier, a UUID.
    UserId
}
id! {
    /// A session's identifier, a UUID. It grants no access.
    SessionId
}
id! {
    /// The identifier of a scheduled plan change, a UUID.
    ScheduledChangeId
}
id! {
    /// The identifier of a request for another plan, a UUID.
    LimitRequestId
}
id! {
    /// The identifier of an invitation, a UUID. It grants no access.
    InvitationId
}
id! {
    /// The identifier of a notification, a UUID.
    NotificationId
}
id! {
    /// The identifier of a support ticket, a UUID.
    TicketId
}
id! {
    /// The identifier of a comment on a support ticket, a UUID.
    TicketCommentId
}
id! {
    /// The identifier of a file that is attached to a support ticket, a UUID.
    TicketAttachmentId
}
id! {
    /// The identifier of a contract with a tenant, a UUID.
    ContractId
}
id! {
    /// The identifier of a personal access token, a UUID. It grants no access.
    AccessTokenId
}
id! {
    /// The identifier of a payment that was begun, a UUID.
    CheckoutId
}
id! {
    /// The identifier of a passkey, a UUID.
    PasskeyId
}
id! {
    /// The identifier of a webhook endpoint, a UUID.
    WebhookId
}
id! {
    /// The identifier of a subscription, a UUID.
    SubscriptionId
}
id! {
    /// The identifier of an event, a UUID.
    ChainEventId
}
id! {
    /// The identifier of a delivery, a UUID: the value of `X-Delivery-Id`.
    DeliveryId
}

rpcgate_core::sql_ids! {
    UserId, SessionId, ScheduledChangeId, LimitRequestId, InvitationId, NotificationId, TicketId, TicketCommentId, TicketAttachmentId, ContractId, AccessTokenId, CheckoutId, PasskeyId, WebhookId, SubscriptionId, ChainEventId, DeliveryId
}
