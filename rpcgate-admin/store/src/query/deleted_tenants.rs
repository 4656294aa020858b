//! The deletion of tenants.
//!
//! A tenant can have more rows than one transaction should remove. Its deletion therefore marks it as not found,
//! removes its users and notifies the gateways; the sweep removes the rest in small steps. Audit entries expire as
//! usual. Invoices stay, and with them the emptied row of their tenant.

use super::billing_accounts::forget_suspension;
use super::changes::{NewChange, record};
use super::config_versions;
use super::invoices::InvoiceStatus;
use super::live_tenants::live_tenant;
use super::projects;
use super::removal::{RemovalBatch, remove, remove_pairs};
use crate::entity::tenants::{Column, Entity};
use crate::entity::{
    checkouts, contracts, deliveries, invitations, invoices, keys, limit_requests, notices, project_events,
    projects as stored_projects, subscriptions, tickets, tier_changes, users, webhooks,
};
use crate::{Store, StoreError};
use rpcgate_core::caller::{CustomPlanId, ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait, Select,
};

/// The number of tickets removed in one step, together with their files.
const TICKETS: u64 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RemovalStep {
    /// Some rows were removed.
    Some,
    /// The last rows of a tenant were removed, except for its invoices.
    Last,
    /// No deleted tenant has any rows.
    Nothing,
}

/// Removes up to `batch.limit` rows of one deleted tenant, after skipping `batch.skip` others.
pub(super) async fn remove_some(
    transaction: &DatabaseTransaction,
    batch: RemovalBatch,
) -> Result<RemovalStep, StoreError> {
    let deleted = Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::DeletedAt.is_not_null())
        .filter(Column::IsEmpty.eq(false))
        .order_by_asc(Column::Id)
        .offset(batch.skip)
        .limit(1);
    let Some(id) = deleted.into_tuple::<TenantId>().one(transaction).await? else {
        return Ok(RemovalStep::Nothing);
    };
    if remove_some_of(transaction, id, batch.limit).await? > 0 {
        return Ok(RemovalStep::Some);
    }
    if invoices::Entity::find().filter(invoices::Column::TenantId.eq(id)).count(transaction).await? == 0 {
        Entity::delete_by_id(id).exec(transaction).await?;
    } else {
        let update = Entity::update_many()
            .col_expr(Column::IsEmpty, Expr::value(true))
            .col_expr(Column::BillingName, Expr::value(None::<String>))
            .col_expr(Column::BillingAddress, Expr::value("[]"))
            .col_expr(Column::BillingTaxId, Expr::value(None::<String>));
        update.filter(Column::Id.eq(id)).exec(transaction).await?;
    }
    Ok(RemovalStep::Last)
}

fn its_projects(id: TenantId) -> Select<stored_projects::Entity> {
    let its = stored_projects::Column::TenantId.eq(id);
    stored_projects::Entity::find().select_only().column(stored_projects::Column::Id).filter(its)
}

fn of_projects(project: impl ColumnTrait, id: TenantId) -> Condition {
    Condition::all().add(project.in_subquery(its_projects(id).into_query()))
}

fn of_webhooks(webhook: impl ColumnTrait, id: TenantId) -> Condition {
    use webhooks::{Column, Entity};
    let its = Entity::find().select_only().column(Column::Id).filter(of_projects(Column::ProjectId, id));
    Condition::all().add(webhook.in_subquery(its.into_query()))
}

/// Removes up to `limit` rows of one kind that belong to the webhooks of a tenant, and returns their number. The
/// removal of their project would cascade to them, but in one transaction, and one endpoint can have 100,000
/// deliveries.
async fn remove_some_of_webhooks(
    transaction: &DatabaseTransaction,
    id: TenantId,
    limit: u64,
) -> Result<u64, StoreError> {
    let its = of_webhooks(deliveries::Column::WebhookId, id);
    let mut removed = remove::<deliveries::Entity>(transaction, deliveries::Column::Id, its, limit).await?;
    if removed == 0 {
        use subscriptions::{Column, Entity};
        let its = of_webhooks(Column::WebhookId, id);
        removed = remove::<Entity>(transaction, Column::Id, its, limit).await?;
    }
    if removed == 0 {
        use webhooks::{Column, Entity};
        let its = of_projects(Column::ProjectId, id);
        removed = remove::<Entity>(transaction, Column::Id, its, limit).await?;
    }
    if removed == 0 {
        use project_events::{Column, Entity};
        let its = of_projects(Column::ProjectId, id);
        removed =
            remove_pairs::<Entity>(transaction, [Column::ProjectId, Column::EventId], its, limit).await?;
    }
    Ok(removed)
}

/// Removes up to `limit` rows whose column `tenant` names a tenant, and returns their number.
async fn remove_own<E: EntityTrait>(
    transaction: &DatabaseTransaction,
    [id, tenant]: [E::Column; 2],
    of: TenantId,
    limit: u64,
) -> Result<u64, StoreError> {
    remove::<E>(transaction, id, Condition::all().add(tenant.eq(of)), limit).await
}

/// Removes up to `limit` rows of one kind that belong to a tenant, and returns their number.
async fn remove_some_of(
    transaction: &DatabaseTransaction,
    id: TenantId,
    limit: u64,
) -> Result<u64, StoreError> {
    let its = of_projects(keys::Column::ProjectId, id);
    let mut removed = remove::<keys::Entity>(transaction, keys::Column::Id, its, limit).await?;
    if removed == 0 {
        removed = remove_some_of_webhooks(transaction, id, limit).await?;
    }
    if removed == 0 {
        let some: Vec<ProjectId> = its_projects(id).limit(limit).into_tuple().all(transaction).await?;
        removed = projects::remove(transaction, some).await?;
    }
    if removed == 0 {
        use tickets::{Column, Entity};
        removed = remove_own::<Entity>(transaction, [Column::Id, Column::TenantId], id, TICKETS).await?;
    }
    if removed == 0 {
        use limit_requests::{Column, Entity};
        removed = remove_own::<Entity>(transaction, [Column::Id, Column::TenantId], id, limit).await?;
    }
    if removed == 0 {
        use notices::{Column, Entity};
        removed = remove_own::<Entity>(transaction, [Column::Id, Column::TenantId], id, limit).await?;
    }
    if removed == 0 {
        use contracts::{Column, Entity};
        removed = remove_own::<Entity>(transaction, [Column::Id, Column::TenantId], id, limit).await?;
    }
    if removed == 0 {
        removed = config_versions::remove_of_tenant(transaction, id, limit).await?;
    }
    if removed == 0 {
        use checkouts::{Column, Entity};
        removed = remove_own::<Entity>(transaction, [Column::Id, Column::TenantId], id, limit).await?;
    }
    if removed == 0 {
        use tier_changes::{Column, Entity};
        removed = remove_own::<Entity>(transaction, [Column::Number, Column::TenantId], id, limit).await?;
    }
    Ok(removed)
}

impl Store {
    /// Deletes a tenant with its users. From then on it is not found and its keys are refused; gateways are notified.
    /// The sweep removes the rest; usage and audit entries expire as usual, and invoices stay.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::WrongState`] while an invoice of it is open,
    /// [`StoreError::Unavailable`].
    pub async fn delete_tenant(&self, tenant: TenantId, now: Time) -> Result<(), StoreError> {
        self.write(async |transaction| {
            live_tenant(transaction, tenant).await?;
            let open = invoices::Entity::find()
                .filter(invoices::Column::TenantId.eq(tenant))
                .filter(invoices::Column::Status.eq(InvoiceStatus::Open));
            if open.count(transaction).await? > 0 {
                return Err(StoreError::WrongState(
                    "an invoice of this tenant is open: let it be paid, or cancel it, first",
                ));
            }
            users::Entity::delete_many().filter(users::Column::TenantId.eq(tenant)).exec(transaction).await?;
            let invited = invitations::Entity::delete_many().filter(invitations::Column::TenantId.eq(tenant));
            invited.exec(transaction).await?;
            // No delivery is sent for it any more, not even one that already waits.
            let its_webhooks = webhooks::Entity::update_many()
                .col_expr(webhooks::Column::Active, Expr::value(false))
                .col_expr(webhooks::Column::DeletedAt, Expr::value(now))
                .filter(webhooks::Column::ProjectId.in_subquery(its_projects(tenant).into_query()))
                .filter(webhooks::Column::DeletedAt.is_null());
            its_webhooks.exec(transaction).await?;
            forget_suspension(transaction, tenant).await?;
            // The row drops its custom plan, which could not be deleted otherwise.
            let update = Entity::update_many()
                .col_expr(Column::DeletedAt, Expr::value(now))
                .col_expr(Column::Suspended, Expr::value(true))
                .col_expr(Column::Tier, Expr::value(Tier::Free))
                .col_expr(Column::CustomPlanId, Expr::value(None::<CustomPlanId>))
                .filter(Column::Id.eq(tenant));
            update.exec(transaction).await?;
            record(transaction, NewChange::Tenant(tenant), now).await
        })
        .await
    }
}
