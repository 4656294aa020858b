//! Notifications that the management side raises. Those about usage are in the usage database, because shipments raise
//! them.

use super::id::{NotificationId, UserId};
use super::outgoing_mails::{self, MailStored, OutgoingMail};
use super::value::insert_error;
use crate::entity::notices::{Column, Entity};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use sea_orm::sea_query::Condition;
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder, QuerySelect,
};
use uuid::Uuid;

pub use crate::entity::notices::{Model as AccountNotice, NotificationKind};

/// The number of notices kept for all members of a tenant, and for each user; beyond it, the oldest is removed. The two
/// are counted separately, so that notices about one account cannot push out those about the whole tenant.
const MAX_NOTICES: u64 = 1_000;

/// The number of old notices that each new one removes: more than it adds.
const REMOVED_PER_NOTICE: u64 = 8;

/// A notice with the mails about it.
#[derive(Clone, Copy, Debug)]
pub struct MailedNotice<'a> {
    /// The notice.
    pub notice: &'a AccountNotice,
    /// The mails.
    pub mails: &'a [OutgoingMail],
}

pub(super) fn visible(tenant: TenantId, user: UserId) -> Condition {
    let concerned = Condition::any().add(Column::UserId.is_null()).add(Column::UserId.eq(user));
    Condition::all().add(Column::TenantId.eq(tenant)).add(concerned)
}

pub(super) async fn put(transaction: &DatabaseTransaction, notice: &AccountNotice) -> Result<(), StoreError> {
    let tenant = notice.tenant;
    let row = notice.clone().into_active_model();
    let audience = match notice.user {
        Some(user) => Column::UserId.eq(user),
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
        let id = told.notice.id;
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
            Ok(newest.all(database).await?)
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
            let found = Entity::find_by_id(id).filter(visible(tenant, user));
            Ok(found.one(database).await?)
        })
        .await
    }
}
