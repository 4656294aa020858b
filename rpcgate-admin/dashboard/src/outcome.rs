//! The outcome of an action, as a code in the next page's address: `?done=key-revoked`. A page shows the sentence of a
//! known code and nothing for an unknown one, so that a link cannot make our pages show its own text.

macro_rules! outcomes {
    ($($outcome:ident = $code:literal: $sentence:literal,)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Done {
            $($outcome,)*
        }

        impl Done {
            #[cfg(test)]
            pub(crate) const ALL: &[Done] = &[$(Done::$outcome,)*];

            pub(crate) const fn code(self) -> &'static str {
                match self {
                    $(Done::$outcome => $code,)*
                }
            }

            /// Returns the sentence on the next page.
            pub(crate) const fn sentence(self) -> &'static str {
                match self {
                    $(Done::$outcome => $sentence,)*
                }
            }

            pub(crate) fn parse(code: &str) -> Option<Self> {
                match code {
                    $($code => Some(Done::$outcome),)*
                    _ => None,
                }
            }
        }
    };
}

outcomes! {
    // log-in
    SessionOver = "session-over": "Your session has ended, and nothing was sent. Log in, and send the form again.",
    // account
    AddressConfirmed = "address-confirmed": "Your e-mail address is confirmed. You can create API keys now.",
    ConfirmationSent = "confirmation-sent": "A mail is on its way to you. Open the link in it.",
    PasswordReset = "password-reset": "Your password is changed. Log in with it. All earlier sessions of your account have ended.",
    AddressChangeSent = "address-change-sent": "A mail is on its way to the new address. Open the link in it. Nothing changes until then.",
    ProfileSaved = "profile-saved": "Your name is saved.",
    PasswordChanged = "password-changed": "Your password is changed. All your other sessions have ended.",
    PreferencesSaved = "preferences-saved": "Your preferences are saved.",
    TokenRevoked = "token-revoked": "The access token is revoked. Programs that use it are refused from now on.",
    // projects, keys, chains
    ProjectCreated = "project-created": "The project is created. Create an API key for it next.",
    ProjectRenamed = "project-renamed": "The project has its new name.",
    ProjectDeleted = "project-deleted": "The project is deleted, and its API keys are revoked.",
    MethodListsSaved = "method-lists-saved": "The method lists are saved. Gateways apply them within a second.",
    KeyRevoked = "key-revoked": "The API key is revoked. Gateways refuse it within a second.",
    // webhooks
    WebhookSaved = "webhook-saved": "The endpoint is saved.",
    WebhookDeleted = "webhook-deleted": "The endpoint is deleted. Nothing is sent to it any more.",
    SubscriptionCreated = "subscription-created": "The subscription is added. It is in force within a second.",
    SubscriptionDeleted = "subscription-deleted": "The subscription is deleted. Existing deliveries are still sent.",
    TestEventSent = "test-event-sent": "A test event is on its way to the endpoint.",
    DeliveryDueAgain = "delivery-due-again": "The delivery is sent again now.",
    ReplayBegun = "replay-begun": "The deliveries of that time are sent again now.",
    // plan, billing, team, notifications
    AllRead = "all-read": "All notifications are marked as read.",
    BillingDetailsSaved = "billing-details-saved": "The details are saved. They appear on all future invoices.",
    MemberInvited = "member-invited": "The invitation is on its way by mail. It is valid for seven days.",
    InvitationWithdrawn = "invitation-withdrawn": "The invitation is withdrawn. Its link no longer works.",
    RoleChanged = "role-changed": "The role is changed and applies from now on.",
    MemberRemoved = "member-removed": "The member is removed, and can no longer log in.",
    FactorRequired = "factor-required": "Every member needs a second factor from now on.",
    FactorOptional = "factor-optional": "Members decide for themselves whether they have a second factor.",
    TenantRenamed = "tenant-renamed": "The organisation has its new name.",
    LimitRequested = "limit-requested": "Your request is sent. Its status is shown below.",
    NotificationRead = "notification-read": "The notification is marked as read.",
    // security
    AppRemoved = "app-removed": "The authenticator app is off. All your other sessions have ended.",
    PasskeyAdded = "passkey-added": "The passkey is added.",
    PasskeyRemoved = "passkey-removed": "The passkey is removed. All your other sessions have ended.",
    SessionEnded = "session-ended": "The session is ended.",
    OtherSessionsEnded = "other-sessions-ended": "All your other sessions are ended.",
    // support
    TicketWritten = "ticket-written": "We have received your ticket. We answer here and notify you by mail.",
    CommentAdded = "comment-added": "Your comment is added.",
    FileAttached = "file-attached": "The file is attached.",
    TicketClosed = "ticket-closed": "The ticket is closed. You can reopen it.",
    TicketReopened = "ticket-reopened": "The ticket is open again.",
    TicketRated = "ticket-rated": "Thank you for your rating.",
    // operators
    WeightsSaved = "weights-saved": "The weights are saved. Every gateway applies them within a second.",
    SavedAndTold = "saved-and-told": "It is saved. Every gateway applies it within a second, and the tenants that would have paid more are notified.",
    NotAllTold = "not-all-told": "It is saved, but not all tenants that would have paid more could be notified. The log names the others.",
    WeightReset = "weight-reset": "The weight is the default again.",
    PlanCreated = "plan-created": "The plan is created, with the figures of its base. You can change them here.",
    PlanSaved = "plan-saved": "The plan is saved. Every gateway applies it within a second.",
    PlanScheduled = "plan-scheduled": "The change is scheduled. Every gateway applies it at its time.",
    ChangeWithdrawn = "change-withdrawn": "The change is withdrawn. The plan stays as it is.",
    PlanDeleted = "plan-deleted": "The plan is deleted.",
    ContractMade = "contract-made": "The contract is created.",
    ContractChanged = "contract-changed": "The end of the contract is changed.",
    ContractEnded = "contract-ended": "The contract has ended.",
    ChainSwitchedOn = "chain-switched-on": "The chain is switched on.",
    ChainSwitchedOff = "chain-switched-off": "The chain is switched off.",
    CacheCleared = "cache-cleared": "The cache of the chain is emptied at every gateway within a second.",
    RolledBack = "rolled-back": "The settings are those of that version again. Every gateway applies them within a second.",
    RolledBackInPart = "rolled-back-in-part": "Most of that version is in force again. A rule prevented the rest: compare it below.",
    NodeDrained = "node-drained": "The node is drained. Gateways send it nothing new within a second.",
    NodeResumed = "node-resumed": "The node is used again, within a second.",
    TenantMoved = "tenant-moved": "The tenant is on the plan. Every gateway applies it within a second.",
    TenantSuspended = "tenant-suspended": "The tenant is suspended. Every gateway refuses its calls within a second.",
    TenantReactivated = "tenant-reactivated": "The tenant is served again, within a second.",
    TenantDeleted = "tenant-deleted": "The tenant is deleted.",
    QuotaSaved = "quota-saved": "The quota is saved. Every gateway applies it within a second.",
    QuotaRemoved = "quota-removed": "The project has the default quota again.",
    RequestApproved = "request-approved": "The request is approved. The tenant is on the plan and is notified.",
    RequestRejected = "request-rejected": "The request is rejected, and the tenant is notified of the reason.",
    TicketAnswered = "ticket-answered": "The answer is sent. The author is notified by mail.",
    NoteLeft = "note-left": "The note is saved. Only operators see it.",
    TicketStatusSet = "ticket-status-set": "The status of the ticket is changed.",
    InvoicePaid = "invoice-paid": "The invoice is marked as paid.",
    InvoiceCancelled = "invoice-cancelled": "The invoice is cancelled.",
    InvoiceCredited = "invoice-credited": "The credit note is issued.",
    UserUnlocked = "user-unlocked": "The user is unlocked.",
    UserReset = "user-reset": "The password is removed, and a mail with a link to set another is on its way.",
    FactorsRemoved = "factors-removed": "The second factors are removed, and the user is notified.",
    UserDisabled = "user-disabled": "The user is disabled, and all sessions have ended.",
    UserEnabled = "user-enabled": "The user is enabled again.",
}

impl Done {
    /// Reports whether the outcome is that nothing was done.
    pub(crate) const fn is_failure(self) -> bool {
        matches!(self, Done::SessionOver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_plain_and_differ_and_sentences_end() {
        for (at, done) in Done::ALL.iter().enumerate() {
            let code = done.code();
            assert!(code.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{code}");
            assert_eq!(Done::parse(code), Some(*done));
            assert!(Done::ALL[..at].iter().all(|other| other.code() != code), "{code}");
            let sentence = done.sentence();
            assert!(sentence.ends_with('.') && sentence.starts_with(char::is_uppercase), "{sentence}");
        }
        for unknown in ["", "nothing", "Key-Revoked", "<script>"] {
            assert_eq!(Done::parse(unknown), None);
        }
    }
}
