//! Suspending, reactivating and deleting a tenant, after a question with current figures.

use crate::confirm::{ConfirmQuestion, ConfirmRequest, Confirmed, confirmed};
use crate::context::{OperatorPage, PageContext, PageResult};
use crate::filters::grouped;
use crate::form::FieldList;
use crate::frame::PageSection;
use crate::outcome::Done;
use crate::versions::FormVersion;
use axum::Router;
use rpcgate_core::caller::TenantId;
use rpcgate_management::action::operator::tenant_profile::{TenantProfile, profile};
use rpcgate_management::action::operator::tenants;
use rpcgate_management::action::usage::if_readable;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_store::{InvoiceStatus, Tenant, TenantChange, Versioned};
use std::sync::Arc;

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/operator/tenants/{id}/suspend", confirmed::<Suspension>())
        .route("/operator/tenants/{id}/reactivate", confirmed::<Reactivation>())
        .route("/operator/tenants/{id}/delete", confirmed::<TenantDeletion>())
}

/// For example `1 member`, `1,204 keys`.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count.into()), if count == 1 { one } else { many })
}

/// A tenant, and its profile unless its usage cannot be read at the moment: the tenant can be suspended anyway.
struct TenantState {
    version: FormVersion,
    tenant: Tenant,
    found: Option<TenantProfile>,
}

impl TenantState {
    async fn read(app: &AppState, id: TenantId) -> Result<Self, ActionError> {
        let version = FormVersion::current(app, Versioned::Tenant(id)).await?;
        let tenant = tenants::get(app, id).await?;
        Ok(TenantState { version, tenant, found: if_readable(profile(app, id).await)? })
    }

    /// Reports whether the tenant is or may be in use.
    fn is_in_use(&self) -> bool {
        self.found.as_ref().is_none_or(|found| found.usage.view.totals.requests > 0)
    }

    fn question(&self, page: &PageContext, question: &str, act: &str) -> ConfirmQuestion {
        let name = &self.tenant.name;
        let path = format!("operator/tenants/{}", self.tenant.id);
        let warning = match &self.found {
            None => "The usage of this tenant cannot be read at the moment.".to_owned(),
            Some(found) => format!(
                "This tenant is in use: {} in the last 24 hours, with {} on {}.",
                counted(found.usage.view.totals.requests, "request", "requests"),
                counted(found.keys, "key", "keys"),
                counted(found.all_projects as u64, "project", "projects"),
            ),
        };
        let frame = page.frame(PageSection::Tenants);
        ConfirmQuestion::new(frame, format!("{question} {name}?"), act, path.clone())
            .crumb("Tenants", "operator/tenants")
            .crumb(name, path)
            .warning(self.is_in_use().then_some(warning))
            .version(&self.version)
    }

    async fn set(
        &self,
        app: &AppState,
        page: &PageContext,
        fields: &FieldList,
        (suspended, done): (bool, Done),
    ) -> PageResult {
        let id = self.tenant.id;
        let suspended = Some(suspended);
        let change = TenantChange { suspended, ..TenantChange::default() };
        tenants::update(app, &page.expecting(fields), id, change).await?;
        Ok(page.done(&format!("operator/tenants/{id}"), done))
    }
}

struct Suspension(TenantState);

impl Confirmed for Suspension {
    type Reader = OperatorPage;
    type Path = Id<TenantId>;

    async fn load(request: ConfirmRequest<'_>, Id(id): Id<TenantId>) -> Result<Self, ActionError> {
        TenantState::read(request.app, id).await.map(Suspension)
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        let Suspension(state) = self;
        let (keys, members) = match &state.found {
            Some(found) => (
                counted(found.keys, "key", "keys"),
                counted(found.members.len() as u64, "member is", "members are"),
            ),
            None => ("keys".to_owned(), "members are".to_owned()),
        };
        state
            .question(page, "Suspend", "Suspend the tenant")
            .consequence(format!("Within a second, calls with its {keys} are refused with 402."))
            .consequence(format!("Its {members} notified. They can still log in, read and pay."))
            .consequence("Its fee is still charged. You can reactivate it at any time.")
            .typed_if(state.is_in_use(), &state.tenant.name)
    }

    async fn act(self, ConfirmRequest { app, page, fields }: ConfirmRequest<'_>) -> PageResult {
        self.0.set(app, page, fields, (true, Done::TenantSuspended)).await
    }
}

struct Reactivation(TenantState);

impl Confirmed for Reactivation {
    type Reader = OperatorPage;
    type Path = Id<TenantId>;

    async fn load(request: ConfirmRequest<'_>, Id(id): Id<TenantId>) -> Result<Self, ActionError> {
        TenantState::read(request.app, id).await.map(Reactivation)
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        let keys = self.0.found.as_ref().map(|found| counted(found.keys, "key", "keys"));
        let keys = keys.unwrap_or_else(|| "its keys".to_owned());
        self.0
            .question(page, "Reactivate", "Reactivate the tenant")
            .consequence(format!("Within a second, calls with {keys} are served again."))
            .consequence("An invoice that stays overdue suspends it again.")
            .keep("Leave it suspended")
    }

    async fn act(self, ConfirmRequest { app, page, fields }: ConfirmRequest<'_>) -> PageResult {
        self.0.set(app, page, fields, (false, Done::TenantReactivated)).await
    }
}

struct TenantDeletion {
    state: TenantState,
    counts: String,
    owes: bool,
}

impl Confirmed for TenantDeletion {
    type Reader = OperatorPage;
    type Path = Id<TenantId>;

    async fn load(request: ConfirmRequest<'_>, Id(id): Id<TenantId>) -> Result<Self, ActionError> {
        let version = FormVersion::current(request.app, Versioned::Tenant(id)).await?;
        let found = profile(request.app, id).await?;
        let counts = format!(
            "{}, {} and {}",
            counted(found.members.len() as u64, "member", "members"),
            counted(found.all_projects as u64, "project", "projects"),
            counted(found.keys, "key that can be used", "keys that can be used"),
        );
        let is_open = found.invoices.iter().any(|invoice| invoice.status == InvoiceStatus::Open);
        let owes = is_open || found.unbilled.0 > 0;
        let state = TenantState { version, tenant: found.tenant.clone(), found: Some(found) };
        Ok(TenantDeletion { state, counts, owes })
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        let question = self
            .state
            .question(page, "Delete", "Delete the tenant")
            .consequence(format!(
                "{} are deleted, with their webhooks and tickets. That cannot be undone.",
                self.counts
            ))
            .consequence("Within a second, its keys are refused. Its members cannot log in.")
            .consequence("Its usage and its audit entries expire as usual. Its invoices are kept.")
            .typed_if(true, &self.state.tenant.name);
        if !self.owes {
            return question;
        }
        question.consequence(
            "It owes something. A tenant is deleted only when its invoices are settled and its months are closed: until then, \
             suspend it and move it to a plan without a fee.",
        )
    }

    async fn act(self, ConfirmRequest { app, page, fields }: ConfirmRequest<'_>) -> PageResult {
        page.actor.expect_proof()?;
        tenants::delete(app, &page.expecting(fields), self.state.tenant.id).await?;
        Ok(page.done("operator/tenants", Done::TenantDeleted))
    }
}
