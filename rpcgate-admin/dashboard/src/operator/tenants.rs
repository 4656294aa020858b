//! The list of tenants.

use crate::context::{OperatorPage, PageResult};
use crate::cursor;
use crate::filters;
use crate::form::QueryFields;
use crate::frame::{Frame, PageSection};
use crate::parts::{Choice, PageLinks};
use crate::plans::label;
use crate::problems::{Labels, Problems};
use crate::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::caller::TenantId;
use rpcgate_management::action::operator::{lookup, tenants};
use rpcgate_management::action::plans::{self, ListedPlan, PlanNames};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::routing::get;
use rpcgate_store::{FoundTenants, Tenant, TenantFilter};
use std::sync::Arc;

const LABELS: Labels =
    &[("name", "the name, address or identifier"), ("plan", "the plan"), ("state", "the state")];

const SHOWN: u64 = 50;

/// The maximum number of characters of a search: the maximum length of an e-mail address.
const MAX_SEARCHED: usize = 254;

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/operator/tenants", get(list))
}

#[derive(Template)]
#[template(path = "operator_tenants.html")]
struct TenantsPage {
    frame: Frame,
    problems: Problems,
    rows: Vec<TenantRow>,
    plans: Vec<Choice>,
    states: Vec<Choice>,
    name: String,
    plan: String,
    state: String,
    is_filtered: bool,
    links: PageLinks,
}

struct TenantRow {
    tenant: Tenant,
    plan: String,
    state: &'static str,
}

/// Returns the tone and the text of a tenant's badge.
pub(super) const fn state_badge(tenant: &Tenant) -> (&'static str, &'static str) {
    if tenant.suspended { ("bad", "Suspended") } else { ("ok", "Active") }
}

/// Returns the form value of a plan: the name of one of the four, or the identifier of a custom plan.
pub(super) fn plan_value(plan: &ListedPlan) -> String {
    plan.of.custom.map_or_else(|| plan.of.tier.name().to_owned(), |id| id.to_string())
}

async fn list(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    QueryFields(query): QueryFields,
) -> PageResult {
    let all_plans = plans::plans(&app, &page.actor).await?;
    let choices = all_plans.iter().map(|plan| Choice::new(plan_value(plan), label(plan)));
    let rest = query.query_without(&[cursor::AFTER, "done"]);
    let mut shown = TenantsPage {
        frame: page.frame(PageSection::Tenants),
        problems: Problems::default(),
        rows: Vec::new(),
        plans: [Choice::new("", "All plans")].into_iter().chain(choices).collect(),
        states: vec![
            Choice::new("", "All"),
            Choice::new("active", "Active"),
            Choice::new("suspended", "Suspended"),
        ],
        name: query.one("name").to_owned(),
        plan: query.one("plan").to_owned(),
        state: query.one("state").to_owned(),
        is_filtered: ["name", "plan", "state"].into_iter().any(|name| query.filled(name).is_some()),
        links: PageLinks::default(),
    };
    let found = async {
        let plan = query.filled("plan").map(|value| {
            let known = all_plans.iter().find(|plan| plan_value(plan) == value);
            known.map(|plan| plan.of).ok_or_else(|| ActionError::field("plan", "choose a plan from the list"))
        });
        let suspended = match query.one("state") {
            "" => None,
            "active" => Some(false),
            "suspended" => Some(true),
            _ => return Err(ActionError::field("state", "choose a state from the list")),
        };
        let after = query.filled(cursor::AFTER).map(str::parse::<TenantId>).transpose();
        let after = after.map_err(|_| ActionError::invalid("this is not a position in this list"))?;
        let filter = TenantFilter { plan: plan.transpose()?, suspended };
        match query.filled("name") {
            Some(text) if text.chars().count() > MAX_SEARCHED => {
                Err(ActionError::field("name", format!("write at most {MAX_SEARCHED} characters")))
            }
            Some(text) => lookup::search_tenants(&app, text, filter, after, SHOWN).await,
            None => {
                let tenants = tenants::list(&app, filter, after, SHOWN).await?;
                let next = tenants.last().filter(|_| tenants.len() as u64 == SHOWN).map(|last| last.id);
                Ok(FoundTenants { tenants, next })
            }
        }
    };
    match found.await {
        Ok(FoundTenants { tenants, next }) => {
            let path = |last: TenantId| cursor::newer("operator/tenants", &rest, &last.to_string());
            shown.links.newer = next.map(path);
            let names = PlanNames::read(&app).await?;
            let row = |tenant: Tenant| TenantRow {
                plan: names.of(tenant.plan()).to_owned(),
                state: state_badge(&tenant).1,
                tenant,
            };
            shown.rows = tenants.into_iter().map(row).collect();
            Ok(ok(&shown))
        }
        Err(error) => rejected(error, LABELS, |problems| TenantsPage { problems, ..shown }),
    }
}

#[cfg(test)]
mod tests;
