//! The notification preferences of users that differ from the defaults.

use crate::query::{NotificationKind, UserId};
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "notification_preferences")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) user_id: UserId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) kind: NotificationKind,
    pub(crate) shown: bool,
    pub(crate) mail: bool,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
