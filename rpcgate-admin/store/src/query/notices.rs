//! Notifications that the management side raises. Those about usage are in the usage database, because shipments raise
//! them.

use super::id::{NotificationId, UserId};
use super::outgoing_mails::{self, MailStored, OutgoingMail};
use super::value::{insert_error, moment, time, unreadable};
use crate::entity::notices::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::Notice;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::Condition;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use uuid::Uuid;

/// The number of notices kept for all members of a tenant, and for each user; beyond it, the oldest is removed. The two
/// are counted separately, so that notices about one account cannot push out those about the whole tenant.
const MAX_NOTICES: u64 = 1_000;

/// The number of old notices that each new one removes: more than it adds.
const REMOVED_PER_NOTICE: u64 = 8;

/// The subject of a notification.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum NotificationKind {
    /// 80 percent of the day's requests are made.
    #[serde(rename = "usage.daily_requests_80")]
    DailyRequests80,
    /// 95 percent of them.
    #[serde(rename = "usage.daily_requests_95")]
    DailyRequests95,
    /// All of them.
    #[serde(rename = "usage.daily_requests_100")]
    DailyRequests100,
    /// Many calls were refused with 429 within a minute.
    #[serde(rename = "usage.rate_limited_spike")]
    RateLimitedSpike,
    /// An invoice was issued, is due soon, is overdue or was paid.
    #[serde(rename = "billing.invoice")]
    Invoice,
    /// The tenant was suspended, or is active again.
    #[serde(rename = "account.suspension")]
    Suspension,
    /// Something happened that concerns the safety of the user's account.
    #[serde(rename = "account.security")]
    Security,
    /// A webhook's deliveries fail, or succeed again.
    #[serde(rename = "webhook.health")]
    WebhookHealth,
    /// Calls cost more.
    #[serde(rename = "billing.prices")]
    Prices,
    /// An operator has decided a request for another plan.
    #[serde(rename = "limit_request.decided")]
    LimitDecision,
}

impl NotificationKind {
    /// All of them.
    pub const ALL: [NotificationKind; 10] = [
        NotificationKind::DailyRequests80,
        NotificationKind::DailyRequests95,
        NotificationKind::DailyRequests100,
        NotificationKind::RateLimitedSpike,
        NotificationKind::Invoice,
        NotificationKind::Suspension,
        NotificationKind::Security,
        NotificationKind::WebhookHealth,
        NotificationKind::Prices,
        NotificationKind::LimitDecision,
    ];

    /// Returns its name in the API and in the database.
    pub const fn name(self) -> &'static str {
        match self {
            NotificationKind::DailyRequests80 => Notice::DailyRequests80.name(),
            NotificationKind::DailyRequests95 => Notice::DailyRequests95.name(),
            NotificationKind::DailyRequests100 => Notice::DailyRequests100.name(),
            NotificationKind::RateLimitedSpike => Notice::RateLimitedSpike.name(),
            NotificationKind::Invoice => "billing.invoice",
            NotificationKind::Suspension => "account.suspension",
            NotificationKind::Security => "account.security",
            NotificationKind::WebhookHealth => "webhook.health",
            NotificationKind::Prices => "billing.prices",
            NotificationKind::LimitDecision => "limit_request.decided",
        }
    }
}

impl From<Notice> for NotificationKind {
    fn from(notice: Notice) -> Self {
        match notice {
            Notice::DailyRequests80 => NotificationKind::DailyRequests80,
            Notice::DailyRequests95 => NotificationKind::DailyRequests95,
            Notice::DailyRequests100 => NotificationKind::DailyRequests100,
            Notice::RateLimitedSpike => NotificationKind::RateLimitedSpike,
        }
    }
}

impl FromStr for NotificationKind {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let found = NotificationKind::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| unreadable("kind of notification", text))
    }
}

/// A notification that the management side raises.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountNotice {
    /// Its identifier.
    pub id: NotificationId,
    /// The tenant.
    pub tenant: TenantId,
    /// The user concerned; `None` for all members of the tenant.
    pub user: Option<UserId>,
    /// Its kind.
    pub kind: NotificationKind,
    /// The display text.
    pub text: String,
    /// The time when it was raised.
    pub at: Time,
}

impl TryFrom<Model> for AccountNotice {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        Ok(AccountNotice {
            id: NotificationId(row.id.as_u128()),
            tenant: TenantId(row.tenant_id.as_u128()),
            user: row.user_id.map(|id| UserId(id.as_u128())),
            kind: row.kind.parse()?,
            text: row.text,
            at: time(row.at),
        })
    }
}

/// A notice with the mails about it.
#[derive(Clone, Copy, Debug)]
pub struct MailedNotice<'a> {
    /// The notice.
    pub notice: &'a AccountNotice,
    /// The mails.
    pub mails: &'a [OutgoingMail],
}

pub(super) fn visible(tenant: TenantId, user: UserId) -> Condition {
    let concerned =
        Condition::any().add(Column::UserId.is_null()).add(Column::UserId.eq(Uuid::from_u128(user.0)));
    Condition::all().add(Column::TenantId.eq(Uuid::from_u128(tenant.0))).add(concerned)
}

pub(super) async fn put(transaction: &DatabaseTransaction, notice: &AccountNotice) -> Result<(), StoreError> {
    let tenant = Uuid::from_u128(notice.tenant.0);
    let row = ActiveModel {
        id: Set(Uuid::from_u128(notice.id.0)),
        tenant_id: Set(tenant),
        user_id: Set(notice.user.map(|user| Uuid::from_u128(user.0))),
        kind: Set(notice.kind.name().into()),
        text: Set(notice.text.clone()),
        at: Set(moment(notice.at)),
    };
    let audience = match notice.user {
        Some(user) => Column::UserId.eq(Uuid::from_u128(user.0)),
        None => Column::UserId.is_null(),
    };
    let surplus = Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::TenantId.eq(tenant))
        .filter(audience)
        .order_by_desc(Column::At)
        .order_by_desc(Column::Id)
        .offset(MAX_NOTICES - 1)
        .limit(REMOVED_PER_NOTICE);
    let surplus: Vec<Uuid> = surplus.into_tuple().all(transaction).await?;
    if !surplus.is_empty() {
        Entity::delete_many().filter(Column::Id.is_in(surplus)).exec(transaction).await?;
    }
    let inserted = Entity::insert(row).exec_without_returning(transaction).await;
    inserted.map(drop).map_err(|error| insert_error(error, "notification", "tenant or user", None))
}

pub(super) async fn put_mailed(
    transaction: &DatabaseTransaction,
    MailedNotice { notice, mails }: MailedNotice<'_>,
) -> Result<Vec<MailStored>, StoreError> {
    put(transaction, notice).await?;
    let mut rooms = Vec::with_capacity(mails.len());
    for mail in mails {
        rooms.push(outgoing_mails::put(transaction, mail).await?);
    }
    Ok(rooms)
}

impl Store {
    /// Stores a notice.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the tenant or the user does not exist, [`StoreError::Unavailable`].
    pub async fn put_notice(&self, notice: &AccountNotice) -> Result<(), StoreError> {
        self.transact(async |transaction| put(transaction, notice).await).await
    }

    /// Stores a notice and its mails in one transaction.
    ///
    /// # Errors
    /// Those of [`put_notice`](Store::put_notice).
    pub async fn put_mailed_notice(&self, told: MailedNotice<'_>) -> Result<Vec<MailStored>, StoreError> {
        self.transact(async |transaction| put_mailed(transaction, told).await).await
    }

    /// Stores a notice and its mails like [`put_mailed_notice`](Store::put_mailed_notice), with the store's audit
    /// entry, unless a notice with this identifier exists. Then it stores and returns nothing.
    ///
    /// # Errors
    /// Those of [`put_notice`](Store::put_notice).
    pub async fn put_mailed_notice_once(
        &self,
        told: MailedNotice<'_>,
    ) -> Result<Option<Vec<MailStored>>, StoreError> {
        const TAKEN: StoreError = StoreError::Taken { what: "notification", value: "id" };
        let id = Uuid::from_u128(told.notice.id.0);
        let stored = self.write(async |transaction| match Entity::find_by_id(id).one(transaction).await? {
            Some(_) => Err(TAKEN),
            None => put_mailed(transaction, told).await,
        });
        match stored.await {
            Err(StoreError::Taken { .. }) => Ok(None),
            done => done.map(Some),
        }
    }

    /// Returns the notices of a tenant that a user may see, the newest first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn notices(&self, tenant: TenantId, user: UserId) -> Result<Vec<AccountNotice>, StoreError> {
        self.read(async |database| {
            let newest = Entity::find().filter(visible(tenant, user));
            let newest = newest.order_by_desc(Column::At).order_by_desc(Column::Id).limit(MAX_NOTICES);
            newest.all(database).await?.into_iter().map(AccountNotice::try_from).collect()
        })
        .await
    }

    /// Returns a notice of a tenant, if a user may see it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn notice(
        &self,
        tenant: TenantId,
        user: UserId,
        id: NotificationId,
    ) -> Result<Option<AccountNotice>, StoreError> {
        self.read(async |database| {
            let found = Entity::find_by_id(Uuid::from_u128(id.0)).filter(visible(tenant, user));
            found.one(database).await?.map(AccountNotice::try_from).transpose()
        })
        .await
    }
}
