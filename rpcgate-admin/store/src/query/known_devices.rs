//! The devices from which users have logged in, so that they can be notified about a new one. A device is stored as a
//! digest: it can be recognised but not read.

use super::digest::Digest;
use super::id::UserId;
use super::value::insert_error;
use crate::entity::known_devices::{ActiveModel, Column, Entity};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use std::time::Duration;

/// The number of devices remembered per user. Beyond it, the least recently used one is removed.
const MAX_DEVICES: u64 = 50;

const DEVICE_KEPT: Duration = Duration::from_secs(180 * 86_400);

/// The history of a user's log-ins from a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceFamiliarity {
    /// The user has logged in from it before.
    Known,
    /// The user has only logged in from others.
    New,
    /// No log-in of the user is remembered.
    First,
}

pub(super) fn is_forgotten(now: Time) -> Condition {
    Condition::all().add(Column::SeenAt.lte(now.minus(DEVICE_KEPT)))
}

impl Store {
    /// Records a user's log-in from a `device`, a text that identifies it, and returns its familiarity before.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the user does not exist, [`StoreError::Unavailable`].
    pub async fn note_device(
        &self,
        user: UserId,
        device: &str,
        now: Time,
    ) -> Result<DeviceFamiliarity, StoreError> {
        let id = user;
        let digest = Digest::of(&format!("{user}\n{device}")).bytes();
        self.transact(async |transaction| {
            let mine = Column::UserId.eq(id);
            Entity::delete_many().filter(mine.clone()).filter(is_forgotten(now)).exec(transaction).await?;
            let seen = Entity::update_many()
                .col_expr(Column::SeenAt, Expr::value(now))
                .filter(Column::Digest.eq(digest.clone()));
            if seen.exec(transaction).await?.rows_affected > 0 {
                return Ok(DeviceFamiliarity::Known);
            }
            let others = Entity::find().select_only().column(Column::Digest).filter(mine);
            let others: Vec<Vec<u8>> =
                others.order_by_desc(Column::SeenAt).into_tuple().all(transaction).await?;
            let kept = usize::try_from(MAX_DEVICES).unwrap_or(usize::MAX) - 1;
            let surplus: Vec<_> = others.iter().skip(kept).cloned().collect();
            Entity::delete_many().filter(Column::Digest.is_in(surplus)).exec(transaction).await?;
            let row = ActiveModel { digest: Set(digest), user_id: Set(id), seen_at: Set(now) };
            let inserted = Entity::insert(row).exec_without_returning(transaction).await;
            inserted.map_err(|error| insert_error(error, "device", "user", None))?;
            Ok(if others.is_empty() { DeviceFamiliarity::First } else { DeviceFamiliarity::New })
        })
        .await
    }
}
