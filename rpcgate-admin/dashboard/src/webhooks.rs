//! Webhook endpoints: listing, creating, settings, secrets, replays, tests and deleting.

use super::confirm::{ConfirmQuestion, ConfirmRequest, Confirmed, confirmed};
use super::context::{PageContext, PageResult};
use super::cut_list::cut;
use super::filters;
use super::filters::grouped;
use super::form::{FieldList, PlainForm, QueryFields};
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::parts::{Choice, CodeSnippet, PageLinks};
use super::problems::{Labels, Problems};
use super::step_up::SteppedUp;
use super::submissions::shown_once;
use super::utc_field::time_field;
use super::verifying;
use super::versions::FormVersion;
use super::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use rpcgate_management::action::{projects, webhooks};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::identity::role::Permission;
use rpcgate_management::identity::webhook_secret::WebhookSecret;
use rpcgate_management::routing::{get, post};
use rpcgate_store::{EndpointHealth, Project, Versioned, Webhook, WebhookChange, WebhookId};
use std::sync::Arc;

const LABELS: Labels = &[("project_id", "the project"), ("url", "the address")];
const SECRET: Labels = &[("overlap_hours", "the overlap")];
const REPLAY: Labels = &[("from", "the begin"), ("to", "the end")];

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/webhooks", get(list).merge(post(create)))
        .route("/webhooks/{id}/settings", get(settings).merge(post(save)))
        .route("/webhooks/{id}/secret", get(secret).merge(post(replace_secret)))
        .route("/webhooks/{id}/test", post(test))
        .route("/webhooks/{id}/replay", get(range).merge(post(replay)))
        .route("/webhooks/{id}/delete", confirmed::<WebhookDeletion>())
}

pub(super) struct EndpointState {
    pub(super) tone: &'static str,
    pub(super) text: &'static str,
    /// The begin of this state.
    pub(super) since: Option<Time>,
}

impl EndpointState {
    pub(super) fn of(webhook: &Webhook) -> Self {
        let (tone, text, since) = match webhook {
            Webhook { disabled_at: Some(at), .. } => ("bad", "Switched off after failures", Some(*at)),
            Webhook { active: false, .. } => ("", "Switched off", None),
            Webhook { failing_since: Some(at), .. } => ("warn", "Failing", Some(*at)),
            _ => ("ok", "Active", None),
        };
        EndpointState { tone, text, since }
    }

    pub(super) fn is_well(&self) -> bool {
        self.tone == "ok"
    }
}

/// Returns the address of an endpoint as a name: without the scheme, and without the query, which may hold a secret.
pub(super) fn address(webhook: &Webhook) -> String {
    let url = webhook.url.split(['?', '#']).next().unwrap_or_default();
    url.split_once("://").map_or(url, |(_, rest)| rest).trim_end_matches('/').to_owned()
}

struct EndpointLine {
    id: WebhookId,
    address: String,
    project: String,
    project_id: ProjectId,
    state: EndpointState,
    created_at: Time,
}

#[derive(Template)]
#[template(path = "webhooks.html")]
struct WebhooksPage {
    frame: Frame,
    problems: Problems,
    endpoints: Vec<EndpointLine>,
    links: PageLinks,
    /// The only project whose endpoints are shown.
    project: Option<Project>,
    projects: Vec<Choice>,
    is_confirmed: bool,
    project_id: String,
    url: String,
    standard_headers: bool,
}

#[derive(Template)]
#[template(path = "webhook_secret.html")]
struct WebhookSecretPage {
    frame: Frame,
    webhook: Webhook,
    address: String,
    /// The secret, which is shown once.
    secret: WebhookSecret,
    is_new: bool,
    /// The time until which the old secret signs too.
    overlap_until: Option<Time>,
    snippet: CodeSnippet,
}

#[derive(Template)]
#[template(path = "webhook_settings.html")]
struct WebhookSettingsPage {
    frame: Frame,
    problems: Problems,
    secret_problems: Problems,
    webhook: Webhook,
    state: EndpointState,
    address: String,
    tab: &'static str,
    version: FormVersion,
    url: String,
    active: bool,
    standard_headers: bool,
    overlaps: Vec<Choice>,
    overlap: String,
    overlap_until: Option<Time>,
}

#[derive(Template)]
#[template(path = "webhook_replay.html")]
struct WebhookReplayPage {
    frame: Frame,
    problems: Problems,
    webhook: Webhook,
    address: String,
    tab: &'static str,
    from: String,
    to: String,
}

async fn list(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    QueryFields(query): QueryFields,
) -> PageResult {
    page.permitted(Permission::Read)?;
    Ok(ok(&list_page(&app, &page, &query).await?))
}

fn project_field(fields: &FieldList) -> Result<Option<ProjectId>, ActionError> {
    let given = fields.filled("project_id").map(str::parse::<ProjectId>).transpose();
    given.map_err(|_| ActionError::NotFound("project"))
}

async fn list_page(
    app: &AppState,
    page: &PageContext,
    query: &FieldList,
) -> Result<WebhooksPage, ActionError> {
    let all = projects::list(app, &page.actor, page.tenant()?).await?;
    let only = project_field(query)?;
    let project = match only {
        Some(id) => Some(projects::get(app, &page.actor, id).await?),
        None => None,
    };
    let name = |id: ProjectId| {
        all.iter().find(|project| project.id == id).map(|project| project.name.clone()).unwrap_or_default()
    };
    let endpoints = match only {
        Some(id) => webhooks::list(app, &page.actor, id).await?,
        None => webhooks::all(app, &page.actor).await?,
    };
    let (part, links) = cut(endpoints, query, "webhooks");
    let line = |webhook: Webhook| EndpointLine {
        id: webhook.id,
        address: address(&webhook),
        project: name(webhook.project),
        project_id: webhook.project,
        state: EndpointState::of(&webhook),
        created_at: webhook.created_at,
    };
    let endpoints = part.into_iter().map(line).collect();
    Ok(WebhooksPage {
        frame: page.frame(PageSection::Webhooks),
        problems: Problems::default(),
        endpoints,
        links,
        project_id: only.map(|id| id.to_string()).unwrap_or_default(),
        project,
        projects: all.iter().map(|project| Choice::new(project.id.to_string(), &project.name)).collect(),
        is_confirmed: page.actor.user.confirmed_at.is_some(),
        url: String::new(),
        standard_headers: false,
    })
}

async fn create(
    State(app): State<Arc<AppState>>,
    SteppedUp(page): SteppedUp,
    fields: FieldList,
) -> PageResult {
    page.permitted(Permission::ManageWebhooks)?;
    let url = fields.one("url").to_owned();
    let standard_headers = fields.has("standard_headers");
    let made = async {
        let project = project_field(&fields)?;
        let project = project.ok_or_else(|| ActionError::field("project_id", "choose a project"))?;
        let new = webhooks::NewWebhook { url: url.clone(), standard_headers };
        webhooks::create(&app, &page.actor, project, new).await
    };
    match made.await {
        Ok((webhook, secret)) => Ok(secret_page(&app, &page, webhook, secret, true)),
        Err(error) => {
            let again = list_page(&app, &page, &FieldList::default()).await?;
            let project_id = fields.one("project_id").to_owned();
            rejected(error, LABELS, |problems| WebhooksPage {
                problems,
                url,
                standard_headers,
                project_id,
                ..again
            })
        }
    }
}

fn secret_page(
    app: &AppState,
    page: &PageContext,
    webhook: Webhook,
    secret: WebhookSecret,
    is_new: bool,
) -> Response {
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let once = WebhookSecretPage {
        frame: page.result_frame(PageSection::Webhooks),
        address: address(&webhook),
        overlap_until: overlap_until(&webhook, app.now()),
        webhook,
        secret,
        is_new,
        snippet: verifying::snippet(),
    };
    shown_once(status, &once)
}

/// Returns the time until which two secrets sign.
fn overlap_until(webhook: &Webhook, now: Time) -> Option<Time> {
    webhook.next_secret.as_ref().map(|(_, until)| *until).filter(|until| *until > now)
}

async fn settings_page(
    app: &AppState,
    page: &PageContext,
    id: WebhookId,
) -> Result<WebhookSettingsPage, ActionError> {
    let version = FormVersion::current(app, Versioned::Webhook(page.tenant()?, id)).await?;
    let webhook = webhooks::get(app, &page.actor, id).await?;
    let overlaps = [
        ("0", "None: the new secret signs at once"),
        ("1", "1 hour"),
        ("24", "24 hours"),
        ("72", "72 hours"),
    ];
    Ok(WebhookSettingsPage {
        frame: page.frame(PageSection::Webhooks),
        problems: Problems::default(),
        secret_problems: Problems::default(),
        state: EndpointState::of(&webhook),
        address: address(&webhook),
        tab: "settings",
        version,
        url: webhook.url.clone(),
        active: webhook.active,
        standard_headers: webhook.standard_headers,
        overlaps: overlaps.map(|(value, label)| Choice::new(value, label)).into(),
        overlap: "24".into(),
        overlap_until: overlap_until(&webhook, app.now()),
        webhook,
    })
}

async fn settings(State(app): State<Arc<AppState>>, page: PageContext, Id(id): Id<WebhookId>) -> PageResult {
    page.permitted(Permission::Read)?;
    Ok(ok(&settings_page(&app, &page, id).await?))
}

async fn save(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<WebhookId>,
    fields: FieldList,
) -> PageResult {
    page.permitted(Permission::ManageWebhooks)?;
    let webhook = webhooks::get(&app, &page.actor, id).await?;
    let url = fields.one("url").to_owned();
    let active = fields.has("active");
    let standard_headers = fields.has("standard_headers");
    // Only changed values are sent, so that the audit log shows what changed.
    let change = WebhookChange {
        url: Some(url.clone()).filter(|url| *url != webhook.url),
        active: Some(active).filter(|active| *active != webhook.active),
        standard_headers: Some(standard_headers).filter(|standard| *standard != webhook.standard_headers),
    };
    match webhooks::update(&app, &page.expecting(&fields), id, change).await {
        Ok(_) => Ok(page.done(&format!("webhooks/{id}/settings"), Done::WebhookSaved)),
        Err(error) => {
            let shown = settings_page(&app, &page, id).await?;
            let word = |is_ticked: bool| if is_ticked { "yes" } else { "no" }.to_owned();
            let values = [
                ("Address", shown.url, url.clone()),
                ("Deliver events to it", word(shown.active), word(active)),
                ("Headers of Standard Webhooks", word(shown.standard_headers), word(standard_headers)),
            ];
            rejected(error, LABELS, |problems| WebhookSettingsPage {
                version: shown.version.again(&problems, &fields),
                problems: problems.with_values(values),
                url,
                active,
                standard_headers,
                ..shown
            })
        }
    }
}

/// Redirects a browser that reloads the page with a secret to the settings.
async fn secret(page: PageContext, Id(id): Id<WebhookId>) -> PageResult {
    page.permitted(Permission::Read)?;
    Ok(page.to(&format!("webhooks/{id}/settings")))
}

async fn replace_secret(
    State(app): State<Arc<AppState>>,
    SteppedUp(page): SteppedUp,
    Id(id): Id<WebhookId>,
    fields: FieldList,
) -> PageResult {
    page.permitted(Permission::ManageWebhooks)?;
    let replaced = async {
        let overlap = fields.number::<u32>("overlap_hours")?;
        webhooks::replace_secret(&app, &page.actor, id, overlap).await
    };
    match replaced.await {
        Ok((webhook, secret)) => Ok(secret_page(&app, &page, webhook, secret, false)),
        Err(error) => {
            let overlap = fields.one("overlap_hours").to_owned();
            let again = WebhookSettingsPage { overlap, ..settings_page(&app, &page, id).await? };
            rejected(error, SECRET, |secret_problems| WebhookSettingsPage { secret_problems, ..again })
        }
    }
}

/// Sends a test event, and redirects to its delivery.
async fn test(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<WebhookId>,
    _: PlainForm,
) -> PageResult {
    page.permitted(Permission::ManageWebhooks)?;
    let delivery = webhooks::send_test(&app, &page.actor, id).await?;
    Ok(page.done(&format!("deliveries/{}", delivery.id), Done::TestEventSent))
}

fn replay_page(page: &PageContext, webhook: Webhook, fields: &FieldList) -> WebhookReplayPage {
    WebhookReplayPage {
        frame: page.frame(PageSection::Webhooks),
        problems: Problems::default(),
        address: address(&webhook),
        webhook,
        tab: "replay",
        from: fields.one("from").to_owned(),
        to: fields.one("to").to_owned(),
    }
}

async fn range(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<WebhookId>,
    QueryFields(query): QueryFields,
) -> PageResult {
    page.permitted(Permission::ManageWebhooks)?;
    let webhook = webhooks::get(&app, &page.actor, id).await?;
    Ok(ok(&replay_page(&page, webhook, &query)))
}

async fn replay(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<WebhookId>,
    fields: FieldList,
) -> PageResult {
    page.permitted(Permission::ManageWebhooks)?;
    let webhook = webhooks::get(&app, &page.actor, id).await?;
    let replayed = async {
        let missing = |name| ActionError::field(name, "enter a time, such as 2026-11-19T14:26, in UTC");
        let from = time_field(&fields, "from")?.ok_or_else(|| missing("from"))?;
        let to = time_field(&fields, "to")?.ok_or_else(|| missing("to"))?;
        webhooks::replay(&app, &page.actor, id, from, to).await
    };
    match replayed.await {
        Ok(0) => {
            let problems = Problems::at_field("from", "Nothing was sent to this endpoint in that time.");
            Ok(ok(&WebhookReplayPage { problems, ..replay_page(&page, webhook, &fields) }))
        }
        Ok(_) => Ok(page.done(&format!("webhooks/{id}"), Done::ReplayBegun)),
        Err(error) => {
            let again = replay_page(&page, webhook, &fields);
            rejected(error, REPLAY, |problems| WebhookReplayPage { problems, ..again })
        }
    }
}

struct WebhookDeletion {
    version: FormVersion,
    webhook: Webhook,
    health: EndpointHealth,
}

impl Confirmed for WebhookDeletion {
    type Reader = PageContext;
    type Path = Id<WebhookId>;

    async fn load(request: ConfirmRequest<'_>, Id(id): Id<WebhookId>) -> Result<Self, ActionError> {
        let ConfirmRequest { app, page, .. } = request;
        let tenant = page.permitted(Permission::ManageWebhooks)?;
        let version = FormVersion::current(app, Versioned::Webhook(tenant, id)).await?;
        let webhook = webhooks::get(app, &page.actor, id).await?;
        let health = webhooks::health(app, &page.actor, id).await?;
        Ok(WebhookDeletion { version, webhook, health })
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        let WebhookDeletion { version, webhook, health } = self;
        let name = address(webhook);
        let back = format!("webhooks/{}/settings", webhook.id);
        let made = health.delivered + health.failed;
        let in_use = format!(
            "This endpoint is in use: {} of {} deliveries of the last 24 hours have arrived.",
            grouped(health.delivered.into()),
            grouped(made.into())
        );
        let frame = page.frame(PageSection::Webhooks);
        ConfirmQuestion::new(frame, format!("Delete {name}?"), "Delete the endpoint", back)
            .crumb("Webhooks", "webhooks")
            .crumb(&name, format!("webhooks/{}", webhook.id))
            .warning((made > 0).then_some(in_use))
            .consequence("Nothing is sent to it any more, and its subscriptions and secret are deleted.")
            .consequence(match health.pending + health.held {
                0 => "No deliveries are waiting.".to_owned(),
                1 => "1 waiting delivery is not sent.".to_owned(),
                waiting => format!("{} waiting deliveries are not sent.", grouped(waiting.into())),
            })
            .consequence("Its deliveries are no longer shown. The events stay in the log of the project.")
            .typed_if(made > 0, name)
            .version(version)
    }

    async fn act(self, ConfirmRequest { app, page, fields }: ConfirmRequest<'_>) -> PageResult {
        webhooks::delete(app, &page.expecting(fields), self.webhook.id).await?;
        Ok(page.done("webhooks", Done::WebhookDeleted))
    }
}

#[cfg(test)]
mod tests;
