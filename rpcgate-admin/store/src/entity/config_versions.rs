//! Versions of configurations, and of the settings of operators. Numbers rise in the order of commits.

use crate::query::UserId;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "config_versions")]
pub(crate) struct Model {
    #[sea_orm(primary_key)]
    pub(crate) number: i64,
    /// The subject of the text: `settings`, `tenant`, `gateway` or `management`.
    pub(crate) source: String,
    /// The identifier of the subject within its kind.
    pub(crate) place: String,
    /// The machine of a program, or empty.
    pub(crate) host: String,
    /// The tenant of the settings. The row is removed with it.
    pub(crate) tenant_id: Option<TenantId>,
    pub(crate) at: Time,
    pub(crate) seen_at: Time,
    pub(crate) user_id: Option<UserId>,
    pub(crate) who: String,
    /// The settings, one on each line, without secrets.
    #[sea_orm(column_type = "Text")]
    pub(crate) text: String,
    /// The identifier of the key of the fingerprints in the text, or empty.
    pub(crate) fingerprint_key: String,
    /// The version with which the program that has this one was started.
    pub(crate) started: Option<i64>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
