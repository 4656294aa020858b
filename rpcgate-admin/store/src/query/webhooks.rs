//! Webhook endpoints.

use super::changes::{NewChange, record};
use super::id::WebhookId;
use super::plans::{counts, full};
use super::projects::expect_live;
use super::value::{insert_error, moment, time};
use crate::entity::projects;
use crate::entity::webhooks::{ActiveModel, Column, Entity, Model, Relation};
use crate::{Store, StoreError};
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::{NotSet, Set};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, JoinType, PaginatorTrait, QueryFilter,
    QueryOrder, QuerySelect, RelationTrait, Select,
};
use uuid::Uuid;

const UNKNOWN: StoreError = StoreError::NotFound("webhook");

/// The refusal of deliveries that would wait until the endpoint is switched on.
const SWITCHED_OFF: StoreError = StoreError::WrongState("the webhook is switched off: switch it on first");

/// A webhook endpoint: a URL that gets the events of its subscriptions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Webhook {
    /// Its identifier.
    pub id: WebhookId,
    /// Its project.
    pub project: ProjectId,
    /// The URL of its deliveries.
    pub url: String,
    /// The signing secret, sealed.
    pub secret: Vec<u8>,
    /// The secret that replaces it, sealed, and the time from which it signs alone; until then both sign.
    pub next_secret: Option<(Vec<u8>, Time)>,
    /// True if events are delivered.
    pub active: bool,
    /// True if deliveries also have the headers of Standard Webhooks.
    pub standard_headers: bool,
    /// The start of the period without a successful delivery; `None` while the last one succeeded.
    pub failing_since: Option<Time>,
    /// The time when it was switched off because its deliveries had failed for too long.
    pub disabled_at: Option<Time>,
    /// The creation time.
    pub created_at: Time,
    /// The time of the last change.
    pub updated_at: Time,
}

impl From<Model> for Webhook {
    fn from(row: Model) -> Self {
        Webhook {
            id: WebhookId(row.id.as_u128()),
            project: ProjectId(row.project_id.as_u128()),
            url: row.url,
            secret: row.secret,
            next_secret: row.next_secret.zip(row.next_secret_at.map(time)),
            active: row.active,
            standard_headers: row.standard_headers,
            failing_since: row.failing_since.map(time),
            disabled_at: row.disabled_at.map(time),
            created_at: time(row.created_at),
            updated_at: time(row.updated_at),
        }
    }
}

/// A change of an endpoint; fields that are `None` stay as they are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WebhookChange {
    /// The URL of its deliveries.
    pub url: Option<String>,
    /// True if events are delivered.
    pub active: Option<bool>,
    /// True if deliveries also have the headers of Standard Webhooks.
    pub standard_headers: Option<bool>,
}

/// The secrets of an endpoint, sealed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SealedSecrets {
    /// The one that signs.
    pub secret: Vec<u8>,
    /// The one that replaces it, and the time from which it signs alone.
    pub next: Option<(Vec<u8>, Time)>,
}

pub(super) fn of_tenant(tenant: TenantId) -> Select<Entity> {
    of_tenants_webhooks(Entity::find(), tenant)
}

/// Restricts rows that are joined with their endpoints to undeleted endpoints of a tenant.
pub(super) fn of_tenants_webhooks<E: EntityTrait>(some: Select<E>, tenant: TenantId) -> Select<E> {
    some.join(JoinType::InnerJoin, Relation::Project.def())
        .filter(projects::Column::TenantId.eq(tenant))
        .filter(projects::Column::DeletedAt.is_null())
        .filter(Column::DeletedAt.is_null())
}

pub(super) async fn expect(
    database: &impl ConnectionTrait,
    tenant: TenantId,
    id: WebhookId,
) -> Result<Model, StoreError> {
    let found = of_tenant(tenant).filter(Column::Id.eq(id)).one(database).await?;
    found.ok_or(UNKNOWN)
}

/// Returns the endpoint of a tenant with this id, which must be switched on.
pub(super) async fn expect_active(
    database: &impl ConnectionTrait,
    tenant: TenantId,
    id: WebhookId,
) -> Result<Model, StoreError> {
    let found = expect(database, tenant, id).await?;
    if found.active { Ok(found) } else { Err(SWITCHED_OFF) }
}

/// Notifies watchers and other hosts that the endpoints or subscriptions of a project have changed.
pub(super) async fn record_change(
    transaction: &DatabaseTransaction,
    project: Uuid,
    now: Time,
) -> Result<(), StoreError> {
    record(transaction, NewChange::Project(ProjectId(project.as_u128())), now).await
}

pub(super) fn row(webhook: &Webhook) -> ActiveModel {
    let (next_secret, next_secret_at) = webhook.next_secret.clone().unzip();
    ActiveModel {
        id: Set(Uuid::from_u128(webhook.id.0)),
        project_id: Set(Uuid::from_u128(webhook.project.0)),
        url: Set(webhook.url.clone()),
        secret: Set(webhook.secret.clone()),
        next_secret: Set(next_secret),
        next_secret_at: Set(next_secret_at.map(moment)),
        active: Set(webhook.active),
        standard_headers: Set(webhook.standard_headers),
        failing_since: Set(webhook.failing_since.map(moment)),
        disabled_at: Set(webhook.disabled_at.map(moment)),
        created_at: Set(moment(webhook.created_at)),
        updated_at: Set(moment(webhook.updated_at)),
        deleted_at: Set(None),
    }
}

async fn update(
    transaction: &DatabaseTransaction,
    row: &Model,
    columns: ActiveModel,
    now: Time,
) -> Result<Webhook, StoreError> {
    let columns = ActiveModel { updated_at: Set(moment(now)), ..columns };
    Entity::update_many().set(columns).filter(Column::Id.eq(row.id)).exec(transaction).await?;
    record_change(transaction, row.project_id, now).await?;
    let stored = Entity::find_by_id(row.id).one(transaction).await?;
    stored.map(Webhook::from).ok_or(UNKNOWN)
}

impl Store {
    /// Adds an endpoint to a project of a tenant.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the project is not this tenant's, [`StoreError::Full`] if the number of endpoints
    /// that the plan allows is reached, [`StoreError::Unavailable`].
    pub async fn create_webhook(
        &self,
        tenant: TenantId,
        webhook: &Webhook,
        now: Time,
    ) -> Result<(), StoreError> {
        let project = Uuid::from_u128(webhook.project.0);
        let row = row(webhook);
        self.write(async |transaction| {
            if expect_live(transaction, webhook.project).await? != tenant {
                return Err(StoreError::NotFound("project"));
            }
            let max = counts(transaction, &self.plans, tenant, now).await?.webhooks_per_project;
            let its =
                Entity::find().filter(Column::ProjectId.eq(project)).filter(Column::DeletedAt.is_null());
            if its.count(transaction).await? >= max.into() {
                return Err(full(max, "webhooks of a project", "delete one that is not needed"));
            }
            let done = Entity::insert(row).exec_without_returning(transaction).await;
            done.map_err(|error| insert_error(error, "webhook", "project", None))?;
            record_change(transaction, project, now).await
        })
        .await
    }

    /// Returns an endpoint of a tenant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn webhook(&self, tenant: TenantId, id: WebhookId) -> Result<Option<Webhook>, StoreError> {
        self.read(async |database| {
            let found = of_tenant(tenant).filter(Column::Id.eq(id));
            Ok(found.one(database).await?.map(Webhook::from))
        })
        .await
    }

    /// Returns the endpoints of a tenant's project, the oldest first; nothing for another tenant's project.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn webhooks(&self, tenant: TenantId, project: ProjectId) -> Result<Vec<Webhook>, StoreError> {
        self.read(async |database| {
            let oldest = of_tenant(tenant)
                .filter(Column::ProjectId.eq(project))
                .order_by_asc(Column::CreatedAt)
                .order_by_asc(Column::Id);
            Ok(oldest.all(database).await?.into_iter().map(Webhook::from).collect())
        })
        .await
    }

    /// Applies `change` to an endpoint of a tenant and returns it. An endpoint that is switched on, or gets another
    /// URL, no longer counts as failing.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it is not this tenant's, [`StoreError::Unavailable`].
    pub async fn update_webhook(
        &self,
        tenant: TenantId,
        id: WebhookId,
        change: &WebhookChange,
        now: Time,
    ) -> Result<Webhook, StoreError> {
        let WebhookChange { url, active, standard_headers } = change;
        self.write(async |transaction| {
            let row = expect(transaction, tenant, id).await?;
            let is_switched_on = *active == Some(true) && !row.active;
            let is_moved = url.as_ref().is_some_and(|url| *url != row.url);
            let columns = ActiveModel {
                url: url.clone().map_or(NotSet, Set),
                active: active.map_or(NotSet, Set),
                standard_headers: standard_headers.map_or(NotSet, Set),
                failing_since: if is_switched_on || is_moved { Set(None) } else { NotSet },
                disabled_at: if is_switched_on { Set(None) } else { NotSet },
                ..Default::default()
            };
            update(transaction, &row, columns, now).await
        })
        .await
    }

    /// Replaces the secrets of an endpoint, if they are still those of `webhook`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it is not `tenant`'s, [`StoreError::WrongState`] if its secrets have been replaced
    /// meanwhile, [`StoreError::Unavailable`].
    pub async fn replace_secrets(
        &self,
        tenant: TenantId,
        webhook: &Webhook,
        secrets: &SealedSecrets,
        now: Time,
    ) -> Result<Webhook, StoreError> {
        self.write(async |transaction| {
            let row = expect(transaction, tenant, webhook.id).await?;
            let next = webhook.next_secret.as_ref().map(|(secret, _)| secret);
            if row.secret != webhook.secret || row.next_secret.as_ref() != next {
                return Err(StoreError::WrongState("the secret was replaced in the meantime: try again"));
            }
            let (next_secret, next_secret_at) = secrets.next.clone().unzip();
            let columns = ActiveModel {
                secret: Set(secrets.secret.clone()),
                next_secret: Set(next_secret),
                next_secret_at: Set(next_secret_at.map(moment)),
                ..Default::default()
            };
            update(transaction, &row, columns, now).await
        })
        .await
    }

    /// Deletes an endpoint of a tenant: it is no longer found, and nothing is sent to it. The next sweep removes its
    /// subscriptions and deliveries, because there may be many.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it is not this tenant's, [`StoreError::Unavailable`].
    pub async fn delete_webhook(&self, tenant: TenantId, id: WebhookId, now: Time) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let row = expect(transaction, tenant, id).await?;
            let deleted =
                ActiveModel { active: Set(false), deleted_at: Set(Some(moment(now))), ..Default::default() };
            Entity::update_many().set(deleted).filter(Column::Id.eq(row.id)).exec(transaction).await?;
            record_change(transaction, row.project_id, now).await
        })
        .await
    }
}
