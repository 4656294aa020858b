//! The quota of a project, the windows of its keys, and its lists of methods.

use super::context::{PageContext, PageResult};
use super::filters;
use super::form::FieldList;
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::parts::LimitMeter;
use super::problems::{Labels, Problems};
use super::versions::FormVersion;
use super::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::caller::{ProjectId, ProjectQuota};
use rpcgate_core::plan::Plan;
use rpcgate_core::usage::Params;
use rpcgate_management::action::usage::current::CurrentUsage;
use rpcgate_management::action::usage::throttled::ThrottledKey;
use rpcgate_management::action::usage::{if_readable, plan, usage};
use rpcgate_management::action::{projects, quotas, tenants};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::{get, post};
use rpcgate_store::{Project, ProjectChange, Versioned};
use std::sync::Arc;

const LABELS: Labels =
    &[("allowed_methods", "the allowed methods"), ("blocked_methods", "the blocked methods")];

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/projects/{id}/limits", get(show).merge(post(save)))
}

#[derive(Template)]
#[template(path = "project_limits.html")]
struct LimitsPage {
    frame: Frame,
    problems: Problems,
    project: Project,
    tab: &'static str,
    quota: ProjectQuota,
    /// The used part of the quota; `None` while usage cannot be read.
    meters: Option<QuotaMeters>,
    plan: Plan,
    throttled: Vec<ThrottledKey>,
    version: FormVersion,
    /// One method a line.
    allowed_methods: String,
    blocked_methods: String,
}

/// The used Compute Units of 24 hours and of the current month.
struct QuotaMeters {
    rolling: LimitMeter,
    month: LimitMeter,
}

impl QuotaMeters {
    fn of(current: &CurrentUsage, quota: &ProjectQuota) -> Self {
        let rolling = current.rolling.billable_units;
        let month = current.month.billable_units;
        let rolling = LimitMeter::new("Compute Units in 24 hours", rolling, Some(quota.cu_per_day));
        let month = LimitMeter::new("Compute Units this month", month, quota.cu_per_month);
        QuotaMeters {
            rolling: rolling.hint(
                "Enforced: calls that cost CU are refused at the limit, until old hours have left the window.",
            ),
            month: month.hint("Recorded, not enforced. The month is in UTC."),
        }
    }
}

/// Splits a field at white space and commas.
fn names(text: &str) -> Vec<String> {
    let separated = text.split(|c: char| c.is_whitespace() || c == ',');
    separated.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

async fn show(State(app): State<Arc<AppState>>, page: PageContext, Id(id): Id<ProjectId>) -> PageResult {
    page.permitted(Permission::Read)?;
    Ok(ok(&limits_page(&app, &page, id).await?))
}

async fn save(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<ProjectId>,
    fields: FieldList,
) -> PageResult {
    page.permitted(Permission::ManageProjects)?;
    let [allowed_methods, blocked_methods] =
        ["allowed_methods", "blocked_methods"].map(|name| fields.one(name));
    let change = ProjectChange {
        allowed_methods: Some(names(allowed_methods)),
        blocked_methods: Some(names(blocked_methods)),
        ..ProjectChange::default()
    };
    match projects::update(&app, &page.expecting(&fields), id, change).await {
        Ok(_) => Ok(page.done(&format!("projects/{id}/limits"), Done::MethodListsSaved)),
        Err(error) => {
            let shown = limits_page(&app, &page, id).await?;
            let lists = [
                ("Allowed methods", shown.allowed_methods, names(allowed_methods).join("\n")),
                ("Blocked methods", shown.blocked_methods, names(blocked_methods).join("\n")),
            ];
            rejected(error, LABELS, |problems| LimitsPage {
                version: shown.version.again(&problems, &fields),
                problems: problems.with_values(lists),
                allowed_methods: allowed_methods.to_owned(),
                blocked_methods: blocked_methods.to_owned(),
                ..shown
            })
        }
    }
}

async fn limits_page(app: &AppState, page: &PageContext, id: ProjectId) -> Result<LimitsPage, ActionError> {
    let version = FormVersion::current(app, Versioned::Project(page.tenant()?, id)).await?;
    let project = projects::get(app, &page.actor, id).await?;
    let name = id.to_string();
    let params = Params { project_id: Some(&name), ..Params::default() };
    // Lists of methods can be changed while usage cannot be read.
    let used = if_readable(usage(app, project.tenant, &params).await)?;
    let (quota, meters, plan, throttled) = match used {
        Some(used) => {
            let quota = used.quotas.first().map(|quota| quota.quota).unwrap_or_default();
            (quota, Some(QuotaMeters::of(&used.current, &quota)), used.limits.plan, used.limits.throttled)
        }
        None => {
            let tenant = tenants::get(app, &page.actor, project.tenant).await?;
            let quota = quotas::get(app, &page.actor, id).await?;
            (quota, None, plan(app, &tenant).await?, Vec::new())
        }
    };
    Ok(LimitsPage {
        frame: page.frame(PageSection::Projects),
        problems: Problems::default(),
        tab: "limits",
        version,
        quota,
        meters,
        plan,
        throttled,
        allowed_methods: project.allowed_methods.join("\n"),
        blocked_methods: project.blocked_methods.join("\n"),
        project,
    })
}

#[cfg(test)]
mod tests;
