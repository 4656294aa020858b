//! The organisation's details on invoices.

use super::context::{PageContext, PageResult};
use super::filters;
use super::form::FieldList;
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::problems::{Labels, Problems};
use super::versions::FormVersion;
use super::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_management::action::tenants::{self, TenantUpdate};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::{get, post};
use rpcgate_store::Versioned;
use std::sync::Arc;

const LABELS: Labels = &[
    ("billing_name", "the name on invoices"),
    ("billing_address", "the address"),
    ("billing_tax_id", "the tax number"),
];

const DETAILS: &str = "billing/details";

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/billing/details", get(show).merge(post(save)))
}

#[derive(Template)]
#[template(path = "billing_details.html")]
struct BillingDetailsPage {
    frame: Frame,
    problems: Problems,
    version: FormVersion,
    name: String,
    address: String,
    tax_id: String,
}

impl BillingDetailsPage {
    async fn of(app: &AppState, page: &PageContext) -> Result<Self, ActionError> {
        let tenant = page.permitted(Permission::ManageTenant)?;
        let version = FormVersion::current(app, Versioned::Tenant(tenant)).await?;
        let party = tenants::billing_party(app, &page.actor, tenant).await?;
        Ok(BillingDetailsPage {
            frame: page.frame(PageSection::Billing),
            problems: Problems::default(),
            version,
            name: party.name.unwrap_or_default(),
            address: party.address.join("\n"),
            tax_id: party.tax_id.unwrap_or_default(),
        })
    }
}

async fn show(State(app): State<Arc<AppState>>, page: PageContext) -> PageResult {
    Ok(ok(&BillingDetailsPage::of(&app, &page).await?))
}

async fn save(State(app): State<Arc<AppState>>, page: PageContext, fields: FieldList) -> PageResult {
    let tenant = page.permitted(Permission::ManageTenant)?;
    let sent = |name: &str| fields.one(name).to_owned();
    let update = TenantUpdate {
        name: None,
        billing_name: Some(sent("billing_name")),
        billing_address: Some(fields.one("billing_address").lines().map(str::to_owned).collect()),
        billing_tax_id: Some(sent("billing_tax_id")),
    };
    let Err(error) = tenants::update(&app, &page.expecting(&fields), tenant, update).await else {
        return Ok(page.done(DETAILS, Done::BillingDetailsSaved));
    };
    let now = BillingDetailsPage::of(&app, &page).await?;
    rejected(error, LABELS, |problems| BillingDetailsPage {
        version: now.version.again(&problems, &fields),
        problems: problems.with_values([
            ("Name", now.name.clone(), sent("billing_name")),
            ("Address", now.address.clone(), sent("billing_address")),
            ("Tax number", now.tax_id.clone(), sent("billing_tax_id")),
        ]),
        name: sent("billing_name"),
        address: sent("billing_address"),
        tax_id: sent("billing_tax_id"),
        ..now
    })
}
