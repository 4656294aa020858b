//! Requests with an idempotency key, by the digest of the key.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "idempotency")]
pub(crate) struct Model {
    /// The tenant, or the user if it belongs to none.
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) owner: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) key: Vec<u8>,
    pub(crate) request: Vec<u8>,
    pub(crate) run: Uuid,
    pub(crate) started_at: i64,
    pub(crate) expires_at: i64,
    /// True if a write of the run was committed.
    pub(crate) carried_out: bool,
    pub(crate) status: Option<i32>,
    /// The encrypted answer; null if it was too large.
    pub(crate) answer: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
