//! Deliveries of events to webhook endpoints.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "deliveries")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) webhook_id: Uuid,
    pub(crate) subscription_id: Option<Uuid>,
    pub(crate) event_id: Uuid,
    /// `held` until the block has its confirmations, `pending`, `delivered`, `failed` or `withheld`.
    pub(crate) status: String,
    pub(crate) replay: bool,
    pub(crate) attempts: i16,
    /// The due time of the next attempt. A claim moves it by the length of the lease.
    pub(crate) due_at: i64,
    /// True if a claim can take it. A claimed delivery, or one that is due later, is not ready until a claim finds that
    /// it is due.
    #[sea_orm(default_value = true)]
    pub(crate) ready: bool,
    /// The chain whose height is awaited; null unless `held`.
    pub(crate) held_chain: Option<String>,
    pub(crate) held_until: Option<i64>,
    pub(crate) last_status: Option<i16>,
    pub(crate) last_error: Option<String>,
    pub(crate) created_at: i64,
    pub(crate) finished_at: Option<i64>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {
    #[sea_orm(
        belongs_to = "super::webhooks::Entity",
        from = "Column::WebhookId",
        to = "super::webhooks::Column::Id"
    )]
    Webhook,
    #[sea_orm(
        belongs_to = "super::chain_events::Entity",
        from = "Column::EventId",
        to = "super::chain_events::Column::Id"
    )]
    Event,
}

impl Related<super::webhooks::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Webhook.def()
    }
}

impl Related<super::chain_events::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Event.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
