//! The comparison of plans, and the plan in force.

use super::context::{PageContext, PageResult, plan_label};
use super::filters;
use super::frame::{Frame, PageSection};
use super::view::ok;
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::{FigureUnit, PlanFigure};
use rpcgate_core::usage::Amount;
use rpcgate_management::action::plans::{self, ListedPlan};
use rpcgate_management::action::{contracts, limit_requests, tenants};
use rpcgate_management::app_state::AppState;
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::get;
use rpcgate_store::{LimitRequest, RequestStatus};
use std::sync::Arc;

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/plan", get(show))
}

#[derive(Template)]
#[template(path = "plan.html")]
struct PlanPage {
    frame: Frame,
    current: String,
    columns: Vec<PlanColumn>,
    rows: Vec<PlanRow>,
    contracts: Vec<ContractNote>,
    pending: Option<LimitRequest>,
    /// True if plans can be paid for online.
    takes_payments: bool,
}

struct PlanColumn {
    name: String,
    label: String,
    is_current: bool,
    is_paid: bool,
}

struct PlanRow {
    label: &'static str,
    values: Vec<String>,
}

struct ContractNote {
    from: Time,
    until: Option<Time>,
    is_in_force: bool,
}

pub(super) fn label(plan: &ListedPlan) -> String {
    if plan.of.custom.is_some() { plan.name.clone() } else { plan_label(plan.of.tier) }
}

fn price(picos: u64) -> String {
    if picos == 0 { "none".to_owned() } else { format!("${}", filters::dollars(Amount(picos.into()))) }
}

fn fee(cents: u64) -> String {
    if cents == 0 { "none".to_owned() } else { price(cents.saturating_mul(10_000_000_000)) }
}

/// Returns the labels of the compared figures, and the functions that format them.
pub(super) fn figures() -> impl Iterator<Item = (&'static str, impl Fn(&ListedPlan) -> String)> {
    let all = PlanFigure::ALL.iter().enumerate();
    let mut compared: Vec<_> = all.filter_map(|(index, figure)| Some((figure.comparison?, index))).collect();
    compared.sort_unstable();
    compared.into_iter().map(|((_, label), index)| {
        let text = move |one: &ListedPlan| {
            let value = one.plan.figures(one.monthly_fee).values()[index].unwrap_or_default();
            match PlanFigure::ALL[index].unit {
                FigureUnit::Price => price(value),
                FigureUnit::Cents => fee(value),
                _ => filters::grouped(value.into()),
            }
        };
        (label, text)
    })
}

async fn show(State(app): State<Arc<AppState>>, page: PageContext) -> PageResult {
    let tenant = page.permitted(Permission::Read)?;
    let own = tenants::get(&app, &page.actor, tenant).await?.plan();
    let all = plans::plans(&app, &page.actor).await?;
    let column = |one: &ListedPlan| PlanColumn {
        name: one.name.clone(),
        label: label(one),
        is_current: one.of == own,
        is_paid: one.plan.price.0 > 0 || one.monthly_fee > 0,
    };
    let rows = figures().map(|(label, value)| PlanRow { label, values: all.iter().map(value).collect() });
    let contracts = contracts::list(&app, &page.actor, tenant).await?.into_iter();
    let requests = limit_requests::list(&app, &page.actor).await?.into_iter();
    let now = app.now();
    Ok(ok(&PlanPage {
        frame: page.frame(PageSection::Plan),
        current: all.iter().find(|one| one.of == own).map(label).unwrap_or_default(),
        columns: all.iter().map(column).collect(),
        rows: rows.collect(),
        contracts: contracts
            .map(|one| ContractNote { is_in_force: one.is_in_force(now), from: one.from, until: one.until })
            .collect(),
        pending: requests.into_iter().find(|one| one.status == RequestStatus::Pending),
        takes_payments: app.payments.is_some(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_and_fees_are_written_exactly() {
        assert_eq!((price(0).as_str(), price(500_000_000).as_str()), ("none", "$0.0005"));
        assert_eq!((fee(0).as_str(), fee(3_100).as_str()), ("none", "$31.00"));
    }
}
