//! Projects: listing, creating, renaming and deleting.

use super::confirm::{ConfirmQuestion, ConfirmRequest, Confirmed, confirmed};
use super::context::{PageContext, PageResult};
use super::cut_list::cut;
use super::filters;
use super::filters::{grouped, minute_text};
use super::form::{FieldList, QueryFields};
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::parts::{LimitMeter, PageLinks};
use super::problems::{Labels, Problems};
use super::versions::FormVersion;
use super::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::{Cell, Metrics, Params, UsageFilter};
use rpcgate_management::action::usage::recent::{RecentUse, recent_use};
use rpcgate_management::action::usage::{if_readable, plan, usage};
use rpcgate_management::action::{keys, projects, tenants, webhooks};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::{get, post};
use rpcgate_store::{Key, Project, ProjectChange, Versioned};
use std::collections::BTreeMap;
use std::sync::Arc;

const LABELS: Labels = &[("name", "the name")];

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/projects", get(list).merge(post(create)))
        .route("/projects/{id}/settings", get(settings).merge(post(rename)))
        .route("/projects/{id}/delete", confirmed::<ProjectDeletion>())
}

/// A project with its usage of 24 hours.
struct ProjectLine {
    project: Project,
    quota: LimitMeter,
    metrics: Metrics,
}

#[derive(Template)]
#[template(path = "projects.html")]
struct ProjectsPage {
    frame: Frame,
    problems: Problems,
    projects: Vec<ProjectLine>,
    links: PageLinks,
    /// False while usage cannot be read.
    is_use_known: bool,
    allowed: u32,
    number: usize,
    name: String,
}

#[derive(Template)]
#[template(path = "project_settings.html")]
struct ProjectSettingsPage {
    frame: Frame,
    problems: Problems,
    project: Project,
    tab: &'static str,
    version: FormVersion,
    name: String,
}

async fn list(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    QueryFields(query): QueryFields,
) -> PageResult {
    page.permitted(Permission::Read)?;
    let shown = projects_page(&app, &page, &query).await?;
    Ok(ok(&shown))
}

async fn create(State(app): State<Arc<AppState>>, page: PageContext, fields: FieldList) -> PageResult {
    let tenant = page.permitted(Permission::ManageProjects)?;
    let name = fields.one("name").to_owned();
    match projects::create(&app, &page.actor, tenant, &name).await {
        Ok(made) => Ok(page.done(&format!("projects/{}", made.id), Done::ProjectCreated)),
        Err(error) => {
            let shown = projects_page(&app, &page, &FieldList::default()).await?;
            rejected(error, LABELS, |problems| ProjectsPage { problems, name, ..shown })
        }
    }
}

async fn projects_page(
    app: &AppState,
    page: &PageContext,
    query: &FieldList,
) -> Result<ProjectsPage, ActionError> {
    let tenant = page.tenant()?;
    let params = Params { group_by: Some("project"), limit: Some("5000"), ..Params::default() };
    let used = if_readable(usage(app, tenant, &params).await)?;
    let is_use_known = used.is_some();
    let (rows, quotas, plan) = match used {
        Some(used) => (used.view.rows, used.quotas, used.limits.plan),
        None => {
            let tenant = tenants::get(app, &page.actor, tenant).await?;
            (Vec::new(), Vec::new(), plan(app, &tenant).await?)
        }
    };
    let all = projects::list(app, &page.actor, tenant).await?;
    let number = all.len();
    let (part, links) = cut(all, query, "projects");
    let mut metrics = BTreeMap::new();
    for row in rows {
        if let [Cell::Project(project)] = row.cells[..] {
            metrics.insert(project, row.metrics);
        }
    }
    let line = |project: Project| {
        let quota = quotas.iter().find(|quota| quota.project == project.id);
        let (spent, limit) = quota.map_or((0, None), |quota| (quota.used, Some(quota.quota.cu_per_day)));
        ProjectLine {
            quota: LimitMeter::new(format!("Compute Units of {} in 24 hours", project.name), spent, limit),
            metrics: metrics.remove(&project.id).unwrap_or_default(),
            project,
        }
    };
    Ok(ProjectsPage {
        frame: page.frame(PageSection::Projects),
        problems: Problems::default(),
        projects: part.into_iter().map(line).collect(),
        links,
        is_use_known,
        allowed: plan.counts.projects,
        number,
        name: String::new(),
    })
}

async fn settings(State(app): State<Arc<AppState>>, page: PageContext, Id(id): Id<ProjectId>) -> PageResult {
    page.permitted(Permission::Read)?;
    Ok(ok(&settings_page(&app, &page, id).await?))
}

async fn settings_page(
    app: &AppState,
    page: &PageContext,
    id: ProjectId,
) -> Result<ProjectSettingsPage, ActionError> {
    let version = FormVersion::current(app, Versioned::Project(page.tenant()?, id)).await?;
    let project = projects::get(app, &page.actor, id).await?;
    Ok(ProjectSettingsPage {
        frame: page.frame(PageSection::Projects),
        problems: Problems::default(),
        name: project.name.clone(),
        project,
        tab: "settings",
        version,
    })
}

async fn rename(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<ProjectId>,
    fields: FieldList,
) -> PageResult {
    page.permitted(Permission::ManageProjects)?;
    let name = fields.one("name").to_owned();
    let change = ProjectChange { name: Some(name.clone()), ..ProjectChange::default() };
    match projects::update(&app, &page.expecting(&fields), id, change).await {
        Ok(_) => Ok(page.done(&format!("projects/{id}/settings"), Done::ProjectRenamed)),
        Err(error) => {
            let shown = settings_page(&app, &page, id).await?;
            rejected(error, LABELS, |problems| ProjectSettingsPage {
                version: shown.version.again(&problems, &fields),
                problems: problems.with_values([("Name", shown.project.name.clone(), name.clone())]),
                name,
                ..shown
            })
        }
    }
}

struct ProjectDeletion {
    version: FormVersion,
    project: Project,
    recent: Option<RecentUse>,
    usable_keys: usize,
    endpoints: usize,
}

impl Confirmed for ProjectDeletion {
    type Reader = PageContext;
    type Path = Id<ProjectId>;

    async fn load(request: ConfirmRequest<'_>, Id(id): Id<ProjectId>) -> Result<Self, ActionError> {
        let ConfirmRequest { app, page, .. } = request;
        let tenant = page.permitted(Permission::ManageProjects)?;
        let version = FormVersion::current(app, Versioned::Project(tenant, id)).await?;
        let project = projects::get(app, &page.actor, id).await?;
        let only = UsageFilter { project: Some(id), ..UsageFilter::default() };
        let recent = recent_use(app, project.tenant, only).await?;
        let keys = keys::list(app, &page.actor, id).await?;
        let usable_keys = keys.iter().filter(|key| is_usable(key, app.now())).count();
        let endpoints = webhooks::list(app, &page.actor, id).await?.len();
        Ok(ProjectDeletion { version, project, recent, usable_keys, endpoints })
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        let Project { id, name, .. } = &self.project;
        ConfirmQuestion::new(
            page.frame(PageSection::Projects),
            format!("Delete {name}?"),
            "Delete the project",
            format!("projects/{id}/settings"),
        )
        .crumb("Projects", "projects")
        .crumb(name, format!("projects/{id}"))
        .warning(warning("project", self.recent))
        .consequence(match self.usable_keys {
            0 => "It has no usable API key.".to_owned(),
            1 => "Its API key is revoked: within a second, calls with it get 401.".to_owned(),
            keys => format!(
                "Its {} API keys are revoked: within a second, calls with them get 401.",
                grouped(keys as u128)
            ),
        })
        .consequence(match self.endpoints {
            0 => "It has no webhook.".to_owned(),
            1 => "Its webhook is deleted, with its subscriptions and deliveries.".to_owned(),
            endpoints => format!(
                "Its {} webhooks are deleted, with their subscriptions and deliveries.",
                grouped(endpoints as u128)
            ),
        })
        .consequence("Its usage is kept and billed.")
        .consequence("A deleted project cannot be restored.")
        .typed_if(self.usable_keys > 0 || self.recent.is_none_or(|recent| recent.month > 0), name)
        .version(&self.version)
    }

    async fn act(self, ConfirmRequest { app, page, fields }: ConfirmRequest<'_>) -> PageResult {
        projects::delete(app, &page.expecting(fields), self.project.id).await?;
        Ok(page.done("projects", Done::ProjectDeleted))
    }
}

pub(super) fn is_usable(key: &Key, now: Time) -> bool {
    key.revoked_at.is_none() && key.expires_at.is_none_or(|end| end > now)
}

/// Warns about ending a `thing` that is or may be in use.
pub(super) fn warning(thing: &str, recent: Option<RecentUse>) -> Option<String> {
    let Some(RecentUse { week, month, newest }) = recent else {
        return Some(format!("The usage of this {thing} cannot be read at the moment."));
    };
    if month == 0 {
        return None;
    }
    let requests = |number: u64| match number {
        1 => "1 request".to_owned(),
        _ => format!("{} requests", grouped(number.into())),
    };
    let newest = match newest {
        Some(hour) => format!(", the newest in the hour from {}", minute_text(hour)),
        None => String::new(),
    };
    Some(format!(
        "This {thing} is in use: {} in the last 7 days, {} in the last 30{newest}.",
        requests(week),
        requests(month)
    ))
}

#[cfg(test)]
pub(super) mod tests;
