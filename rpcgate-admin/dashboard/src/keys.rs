//! API keys: the keys of a project with their usage, creating a key, which is shown once, and revoking one.

use super::call_snippet::ExampleCall;
use super::chart::number::share;
use super::chart::spark::Spark;
use super::confirm::{ConfirmQuestion, ConfirmRequest, Confirmed, confirmed};
use super::context::{PageContext, PageResult};
use super::cut_list::cut;
use super::filters;
use super::form::{FieldList, QueryFields};
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::parts::{Choice, CodeSnippet, LimitMeter, PageLinks};
use super::problems::{Labels, Problems};
use super::projects::{is_usable, warning};
use super::step_up::SteppedUp;
use super::submissions::shown_once;
use super::view::{ok, rejected, shown};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use rpcgate_core::caller::{KeyId, ProjectId, Scope};
use rpcgate_core::clock::Time;
use rpcgate_core::usage::{Metrics, Params, UsageFilter};
use rpcgate_management::action::chains::chains;
use rpcgate_management::action::usage::recent::{
    KeyUsage, RecentUse, SeenCall, by_key, recent_use, seen_call,
};
use rpcgate_management::action::usage::{if_readable, plan, usage};
use rpcgate_management::action::{keys, projects, tenants};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Id, Ids};
use rpcgate_management::gateway_urls::GatewayUrls;
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::{get, post};
use rpcgate_management::shape::moment::Moment;
use rpcgate_store::{Key, Project};
use std::sync::Arc;
use std::time::Duration;

const LABELS: Labels =
    &[("description", "the description"), ("chains", "the list of chains"), ("expires_at", "the date")];

const DAY: Duration = Duration::from_secs(86_400);

/// The choice of a custom date.
const ON_A_DATE: &str = "date";

/// The chain of the example call, if the key may use it.
const FIRST_CHAIN: &str = "eth";

/// The placeholder for a key that can no longer be shown.
const PLACEHOLDER: &str = "YOUR_API_KEY";

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/projects/{id}", get(project))
        .route("/projects/{id}/keys", get(newest).merge(post(create)))
        .route("/projects/{id}/keys/{key}/revoke", confirmed::<KeyRevocation>())
}

struct KeyLine {
    key: Key,
    name: String,
    /// The allowed chains; `None` for all.
    chains: Option<Vec<String>>,
    metrics: Metrics,
    /// The requests in each of the last 24 hours.
    spark: Option<Spark>,
}

#[derive(Clone, Debug, Default)]
struct KeyForm {
    description: String,
    chains: Vec<String>,
    /// A number of days, empty for no expiry, or `ON_A_DATE`.
    expires_in: String,
    expires_at: String,
}

#[derive(Template)]
#[template(path = "project.html")]
struct ProjectPage {
    frame: Frame,
    problems: Problems,
    project: Project,
    tab: &'static str,
    /// False while usage cannot be read.
    is_use_known: bool,
    /// The usage of the last 24 hours.
    totals: Metrics,
    errors: String,
    cache_hits: String,
    latency_ms: u64,
    quota: LimitMeter,
    keys: Vec<KeyLine>,
    links: PageLinks,
    /// True if the list shows the keys that can no longer be used.
    is_ended: bool,
    usable: usize,
    ended: usize,
    allowed: u32,
    is_confirmed: bool,
    form: KeyForm,
    chains: Vec<Choice>,
    expiries: Vec<Choice>,
    https: String,
    ws: String,
    grpc: Option<String>,
}

#[derive(Template)]
#[template(path = "key_created.html")]
struct KeyCreatedPage {
    frame: Frame,
    project: Project,
    key: Key,
    name: String,
    /// The allowed chains; `None` for all.
    chains: Option<Vec<String>>,
    /// The key itself, right after its creation.
    text: Option<String>,
    call: ExampleCall,
    snippet: CodeSnippet,
    seen: Option<SeenCall>,
    is_suspended: bool,
}

fn name_of(key: &Key) -> String {
    if key.description.is_empty() { format!("{}…", key.prefix) } else { key.description.clone() }
}

/// Returns the chains of a scope; `None` for all.
fn chains_of(scope: &Scope) -> Option<Vec<String>> {
    match scope {
        Scope::All => None,
        Scope::Only(chains) => Some(chains.iter().map(ToString::to_string).collect()),
    }
}

fn expiries() -> Vec<Choice> {
    let choices = [
        ("", "Never"),
        ("30", "In 30 days"),
        ("90", "In 90 days"),
        ("365", "In a year"),
        (ON_A_DATE, "On the date below"),
    ];
    choices.map(|(value, label)| Choice::new(value, label)).into()
}

async fn project(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<ProjectId>,
    QueryFields(query): QueryFields,
) -> PageResult {
    page.permitted(Permission::Read)?;
    Ok(ok(&project_page(&app, &page, id, &query).await?))
}

async fn project_page(
    app: &AppState,
    page: &PageContext,
    id: ProjectId,
    query: &FieldList,
) -> Result<ProjectPage, ActionError> {
    let project = projects::get(app, &page.actor, id).await?;
    let now = app.now();
    let text = id.to_string();
    let params = Params { project_id: Some(&text), ..Params::default() };
    // Keys can be created and revoked while usage cannot be read.
    let used = if_readable(usage(app, project.tenant, &params).await)?;
    let mut by_key = if_readable(by_key(app, project.tenant, id).await)?.unwrap_or_default();
    let (usable, ended): (Vec<_>, Vec<_>) =
        keys::list(app, &page.actor, id).await?.into_iter().partition(|key| is_usable(key, now));
    let usable_number = usable.len();
    let ended_number = ended.len();
    let is_ended = query.one("show") == "ended";
    let mut of_kind = if is_ended { ended } else { usable };
    if is_ended {
        of_kind.reverse();
    }
    let (part, links) = cut(of_kind, query, &format!("projects/{id}"));
    let line = |key: Key| {
        let KeyUsage { totals, hours } = by_key.remove(&key.id).unwrap_or_default();
        KeyLine {
            name: name_of(&key),
            chains: chains_of(&key.scope),
            metrics: totals,
            spark: hours.map(|hours| Spark::of_counts(&hours)),
            key,
        }
    };
    let is_use_known = used.is_some();
    let (totals, (spent, limit), plan) = match used {
        Some(used) => {
            let quota =
                used.quotas.first().map_or((0, None), |quota| (quota.used, Some(quota.quota.cu_per_day)));
            (used.view.totals, quota, used.limits.plan)
        }
        None => {
            let tenant = tenants::get(app, &page.actor, project.tenant).await?;
            (Metrics::default(), (0, None), plan(app, &tenant).await?)
        }
    };
    let config = app.config_in_force().await?;
    let urls = GatewayUrls::of(&config);
    let served = chains(app).await?.into_iter().filter(|entry| entry.enabled);
    Ok(ProjectPage {
        frame: page.frame(PageSection::Projects),
        problems: Problems::default(),
        tab: "keys",
        errors: share(totals.errors, totals.requests),
        cache_hits: share(totals.cache_hits, totals.requests),
        latency_ms: totals.avg_latency_ms().round() as u64,
        is_use_known,
        totals,
        quota: LimitMeter::new("Compute Units in 24 hours", spent, limit),
        keys: part.into_iter().map(line).collect(),
        links,
        is_ended,
        usable: usable_number,
        ended: ended_number,
        allowed: plan.counts.keys_per_project,
        is_confirmed: page.actor.user.confirmed_at.is_some(),
        form: KeyForm::default(),
        chains: served
            .map(|entry| Choice::new(entry.facts.name.as_str(), entry.facts.name.as_str()))
            .collect(),
        expiries: expiries(),
        https: urls.http(FIRST_CHAIN),
        ws: urls.ws(FIRST_CHAIN),
        grpc: urls.grpc().map(str::to_owned),
        project,
    })
}

impl KeyForm {
    fn of(fields: &FieldList) -> Self {
        KeyForm {
            description: fields.one("description").to_owned(),
            chains: fields.all("chains").map(str::to_owned).collect(),
            expires_in: fields.one("expires_in").to_owned(),
            expires_at: fields.one("expires_at").to_owned(),
        }
    }

    fn read(&self, now: Time) -> Result<keys::NewKey, ActionError> {
        let wrong = || ActionError::field("expires_at", "enter a date, such as 2027-01-31");
        let expires_at = match self.expires_in.as_str() {
            "" => None,
            ON_A_DATE => {
                let begin = Moment::parse(&format!("{}T00:00:00Z", self.expires_at));
                Some(begin.map(|Moment(time)| time).ok_or_else(wrong)?)
            }
            days => Some(now.plus(DAY * days.parse::<u16>().map_err(|_| wrong())?.into())),
        };
        let chains = Some(self.chains.clone()).filter(|chains| !chains.is_empty());
        Ok(keys::NewKey::new(self.description.clone(), chains, expires_at))
    }
}

/// Creates a key and shows it once. Opening the address of the form later shows the example call of the newest key, and
/// never a key.
async fn create(
    State(app): State<Arc<AppState>>,
    SteppedUp(page): SteppedUp,
    Id(id): Id<ProjectId>,
    fields: FieldList,
) -> PageResult {
    page.permitted(Permission::ManageKeys)?;
    let form = KeyForm::of(&fields);
    let made = async { keys::create(&app, &page.actor, id, form.read(app.now())?).await };
    match made.await {
        Ok((key, text)) => created_page(&app, &page, id, key, Some(text), StatusCode::CREATED).await,
        Err(error) => {
            let again = project_page(&app, &page, id, &FieldList::default()).await?;
            rejected(error, LABELS, |problems| ProjectPage { problems, form, ..again })
        }
    }
}

/// Shows the example call of the newest key.
async fn newest(State(app): State<Arc<AppState>>, page: PageContext, Id(id): Id<ProjectId>) -> PageResult {
    page.permitted(Permission::Read)?;
    let now = app.now();
    let all = keys::list(&app, &page.actor, id).await?;
    match all.into_iter().rfind(|key| is_usable(key, now)) {
        Some(key) => created_page(&app, &page, id, key, None, StatusCode::OK).await,
        None => Ok(page.to(&format!("projects/{id}"))),
    }
}

async fn created_page(
    app: &AppState,
    page: &PageContext,
    project: ProjectId,
    key: Key,
    text: Option<String>,
    status: StatusCode,
) -> Result<Response, ActionError> {
    let project = projects::get(app, &page.actor, project).await?;
    let tenant = tenants::get(app, &page.actor, project.tenant).await?;
    let config = app.config_in_force().await?;
    let served = chains(app).await?.into_iter().filter(|entry| entry.served);
    let served: Vec<_> =
        served.map(|entry| entry.facts.name).filter(|name| key.scope.allows(*name)).collect();
    let of_scope = || match &key.scope {
        Scope::All => None,
        Scope::Only(chains) => chains.iter().next().map(ToString::to_string),
    };
    let chain = match served.iter().find(|name| name.as_str() == FIRST_CHAIN).or_else(|| served.first()) {
        Some(name) => name.as_str().to_owned(),
        None => of_scope().unwrap_or_else(|| FIRST_CHAIN.to_owned()),
    };
    let adapter = rpcgate_chains::by_path(&chain).ok_or(ActionError::NotFound("chain"))?;
    let call = ExampleCall::of(&*adapter, &GatewayUrls::of(&config));
    let is_result = text.is_some();
    let frame =
        if is_result { page.result_frame(PageSection::Projects) } else { page.frame(PageSection::Projects) };
    let created = KeyCreatedPage {
        frame,
        name: name_of(&key),
        chains: chains_of(&key.scope),
        snippet: call.snippet(text.as_deref().unwrap_or(PLACEHOLDER)),
        // A new key was never called. Its text is shown only here, so it must not be lost because usage cannot be read.
        seen: match &text {
            Some(_) => None,
            None => seen_call(app, project.tenant, key.id).await?,
        },
        is_suspended: tenant.suspended,
        call,
        project,
        key,
        text,
    };
    Ok(if is_result { shown_once(status, &created) } else { shown(status, &created) })
}

struct KeyRevocation {
    project: Project,
    key: Key,
    recent: Option<RecentUse>,
}

impl Confirmed for KeyRevocation {
    type Reader = PageContext;
    type Path = Ids<ProjectId, KeyId>;

    async fn load(
        request: ConfirmRequest<'_>,
        Ids(project, key): Ids<ProjectId, KeyId>,
    ) -> Result<Self, ActionError> {
        let ConfirmRequest { app, page, .. } = request;
        page.permitted(Permission::ManageKeys)?;
        let project = projects::get(app, &page.actor, project).await?;
        let keys = keys::list(app, &page.actor, project.id).await?;
        let key = keys.into_iter().find(|one| one.id == key).ok_or(ActionError::NotFound("key"))?;
        let only = UsageFilter { key: Some(key.id), ..UsageFilter::default() };
        let recent = recent_use(app, project.tenant, only).await?;
        Ok(KeyRevocation { project, key, recent })
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        let KeyRevocation { project, key, recent } = self;
        let name = name_of(key);
        let back = format!("projects/{}", project.id);
        let frame = page.frame(PageSection::Projects);
        ConfirmQuestion::new(frame, format!("Revoke {name}?"), "Revoke the key", back.as_str())
            .crumb("Projects", "projects")
            .crumb(&project.name, back.as_str())
            .warning(warning("key", *recent))
            .consequence(format!(
                "Within a second, calls with {}… get 401, and its open streams are closed.",
                key.prefix
            ))
            .consequence(format!("Other keys of {} continue to work.", project.name))
            .consequence("A revoked key cannot be restored.")
            .typed_if(recent.is_none_or(|recent| recent.month > 0), name)
    }

    async fn act(self, ConfirmRequest { app, page, .. }: ConfirmRequest<'_>) -> PageResult {
        keys::revoke(app, &page.actor, self.key.id).await?;
        Ok(page.done(&format!("projects/{}", self.project.id), Done::KeyRevoked))
    }
}

#[cfg(test)]
mod tests;
