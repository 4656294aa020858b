//! The billing ledger: the charges of a project on one chain in a UTC hour at one price. The tenant is first in the key
//! because a bill adds up a tenant's hours; an index by hour serves removal.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "ledger")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) tenant: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) hour: i64,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) project: Uuid,
    /// Empty for charges that were stored before the ledger had chains.
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) chain: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) tier: String,
    /// The price of a Compute Unit, in 10⁻¹² US dollars.
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) price: i64,
    pub(crate) calls: i64,
    pub(crate) units: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
