//! Suspending, reactivating and deleting a tenant, after a question with current figures.

use crate::management::action::actor::Actor;
use crate::management::action::operator::tenant_profile::{TenantProfile, profile};
use crate::management::action::operator::tenants;
use crate::management::action::usage::if_readable;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Id;
use crate::management::page::confirm::ConfirmQuestion;
use crate::management::page::context::{OperatorPage, PageContext, PageResult};
use crate::management::page::filters::grouped;
use crate::management::page::form::FieldList;
use crate::management::page::frame::PageSection;
use crate::management::page::outcome::Done;
use crate::management::page::problems::Labels;
use crate::management::page::step_up::to_step_up;
use crate::management::page::versions::FormVersion;
use crate::management::page::view::{ok, rejected};
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use rpcgate_core::caller::TenantId;
use rpcgate_store::{InvoiceStatus, Tenant, TenantChange, Versioned};
use std::sync::Arc;

const LABELS: Labels = &[("confirm", "the name")];

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/operator/tenants/{id}/suspend", get(ask_suspend).post(suspend))
        .route("/operator/tenants/{id}/reactivate", get(ask_reactivate).post(reactivate))
        .route("/operator/tenants/{id}/delete", get(ask_delete).post(delete))
}

/// For example `1 member`, `1,204 keys`.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count.into()), if count == 1 { one } else { many })
}

/// Reads a tenant, and its profile unless its usage cannot be read at the moment: the tenant can be suspended anyway.
async fn find_tenant(app: &AppState, id: TenantId) -> Result<(Tenant, Option<TenantProfile>), ActionError> {
    let tenant = tenants::get(app, id).await?;
    Ok((tenant, if_readable(profile(app, id).await)?))
}

fn question(
    page: &PageContext,
    (tenant, found): (&Tenant, Option<&TenantProfile>),
    question: &str,
    act: &str,
) -> ConfirmQuestion {
    let path = format!("operator/tenants/{}", tenant.id);
    let frame = page.frame(PageSection::Tenants);
    let title = format!("{question} {}?", tenant.name);
    let asked = ConfirmQuestion::new(frame, title, act, path.clone())
        .crumb("Tenants", "operator/tenants")
        .crumb(tenant.name.clone(), path);
    let Some(found) = found else {
        return asked.warning("How much this tenant uses cannot be read at the moment.");
    };
    let requests = found.usage.view.totals.requests;
    if requests == 0 {
        return asked;
    }
    let in_use = format!(
        "This tenant is in use: {} in the last 24 hours, with {} on {}.",
        counted(requests, "request", "requests"),
        counted(found.keys, "key", "keys"),
        counted(found.all_projects as u64, "project", "projects"),
    );
    asked.warning(in_use)
}

/// Returns the question, the tenant, and whether its name must be typed because the tenant is or may be in use.
async fn suspension(
    app: &AppState,
    page: &PageContext,
    id: TenantId,
) -> Result<(ConfirmQuestion, Tenant, bool), ActionError> {
    let (tenant, found) = find_tenant(app, id).await?;
    let (keys, members) = match &found {
        Some(found) => (
            counted(found.keys, "key", "keys"),
            counted(found.members.len() as u64, "member is", "members are"),
        ),
        None => ("keys".to_owned(), "members are".to_owned()),
    };
    let asked = question(page, (&tenant, found.as_ref()), "Suspend", "Suspend the tenant")
        .consequence(format!("Within a second, calls with its {keys} are refused with 402."))
        .consequence(format!("Its {members} told of it. They can still log in, read and pay."))
        .consequence("Its fee goes on. You can reactivate it at any time.");
    let is_typed = found.is_none_or(|found| found.usage.view.totals.requests > 0);
    let asked = if is_typed { asked.typed(tenant.name.clone()) } else { asked };
    Ok((asked, tenant, is_typed))
}

async fn ask_suspend(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<TenantId>,
) -> PageResult {
    let version = FormVersion::current(&app, Versioned::Tenant(id)).await?;
    Ok(ok(&suspension(&app, &page, id).await?.0.version(&version)))
}

async fn set(app: &AppState, actor: &Actor, id: TenantId, suspended: bool) -> Result<(), ActionError> {
    let change = TenantChange { suspended: Some(suspended), ..TenantChange::default() };
    tenants::update(app, actor, id, change).await.map(drop)
}

async fn suspend(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<TenantId>,
    fields: FieldList,
) -> PageResult {
    let version = FormVersion::current(&app, Versioned::Tenant(id)).await?;
    let (asked, tenant, is_typed) = suspension(&app, &page, id).await?;
    let done = async {
        if is_typed {
            fields.confirms(&tenant.name)?;
        }
        set(&app, &page.expecting(&fields), id, true).await
    };
    match done.await {
        Ok(()) => Ok(page.done(&format!("operator/tenants/{id}"), Done::TenantSuspended)),
        Err(error) => rejected(error, LABELS, |problems| asked.again(version, &fields, problems)),
    }
}

/// Returns the question whether to reactivate a tenant, and the version of the tenant.
async fn reactivation(
    app: &AppState,
    page: &PageContext,
    id: TenantId,
) -> Result<(ConfirmQuestion, FormVersion), ActionError> {
    let version = FormVersion::current(app, Versioned::Tenant(id)).await?;
    let (tenant, found) = find_tenant(app, id).await?;
    let keys =
        found.as_ref().map_or_else(|| "its keys".to_owned(), |found| counted(found.keys, "key", "keys"));
    let asked = question(page, (&tenant, found.as_ref()), "Reactivate", "Reactivate the tenant")
        .consequence(format!("Within a second, calls with {keys} are served again."))
        .consequence("An invoice that stays overdue suspends it again.")
        .keep("Leave it suspended");
    Ok((asked, version))
}

async fn ask_reactivate(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<TenantId>,
) -> PageResult {
    let (asked, version) = reactivation(&app, &page, id).await?;
    Ok(ok(&asked.version(&version)))
}

async fn reactivate(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<TenantId>,
    fields: FieldList,
) -> PageResult {
    match set(&app, &page.expecting(&fields), id, false).await {
        Ok(()) => Ok(page.done(&format!("operator/tenants/{id}"), Done::TenantReactivated)),
        Err(error) => {
            let (asked, version) = reactivation(&app, &page, id).await?;
            rejected(error, LABELS, |problems| asked.again(version, &fields, problems))
        }
    }
}

async fn deletion(
    app: &AppState,
    page: &PageContext,
    id: TenantId,
) -> Result<(ConfirmQuestion, TenantProfile), ActionError> {
    let found = profile(app, id).await?;
    let open = found.invoices.iter().filter(|invoice| invoice.status == InvoiceStatus::Open).count();
    let mut asked = question(page, (&found.tenant, Some(&found)), "Delete", "Delete the tenant")
        .consequence(format!(
            "{}, {} and {} are deleted, with their webhooks and tickets. That cannot be undone.",
            counted(found.members.len() as u64, "member", "members"),
            counted(found.all_projects as u64, "project", "projects"),
            counted(found.keys, "key that can be used", "keys that can be used"),
        ))
        .consequence("Within a second, its keys are refused. Nobody of it can log in.")
        .consequence("Its usage and its audit entries expire as always, and its invoices stay.")
        .typed(found.tenant.name.clone());
    if open > 0 || found.unbilled.0 > 0 {
        asked = asked.consequence(
            "It owes something. A tenant is deleted only when its invoices are settled and its months are closed: until then, \
             suspend it and move it to a plan without a fee.",
        );
    }
    Ok((asked, found))
}

async fn ask_delete(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<TenantId>,
) -> PageResult {
    let version = FormVersion::current(&app, Versioned::Tenant(id)).await?;
    Ok(ok(&deletion(&app, &page, id).await?.0.version(&version)))
}

async fn delete(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<TenantId>,
    fields: FieldList,
) -> PageResult {
    if !page.session.is_proved(app.now()) {
        return Ok(to_step_up(&page, &format!("operator/tenants/{id}/delete")));
    }
    let version = FormVersion::current(&app, Versioned::Tenant(id)).await?;
    let (asked, found) = deletion(&app, &page, id).await?;
    let done = async {
        fields.confirms(&found.tenant.name)?;
        tenants::delete(&app, &page.expecting(&fields), id).await
    };
    match done.await {
        Ok(()) => Ok(page.done("operator/tenants", Done::TenantDeleted)),
        Err(error) => rejected(error, LABELS, |problems| asked.again(version, &fields, problems)),
    }
}
