//! Deliveries: those of an endpoint, with its health, and a single one with all its attempts.

use super::chart::heat::{Heat, HeatStep};
use super::chart::number::share;
use super::context::{PageContext, PageResult};
use super::cut_list::{cursor, cursor_links};
use super::filters::{grouped, minute_text};
use super::form::{FieldList, PlainForm, QueryFields};
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::parts::{Choice, CodeSnippet, PageLinks};
use super::subscriptions::{SubscriptionLine, kinds};
use super::view::ok;
use super::webhooks::{EndpointState, address};
use super::{filters, verifying};
use askama::Template;
use axum::Router;
use axum::extract::State;
use http::StatusCode;
use rpcgate_core::clock::Time;
use rpcgate_core::event::EventType;
use rpcgate_management::action::webhooks::HEALTH_HOURS;
use rpcgate_management::action::{deliveries, projects, subscriptions, webhooks};
use rpcgate_management::app_state::AppState;
use rpcgate_management::extract::Id;
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::{get, post};
use rpcgate_management::shape::deliveries::WholeDeliveryJson;
use rpcgate_store::{
    Delivery, DeliveryAttempt, DeliveryFilter, DeliveryId, DeliveryStatus, EndpointHealth, Project, Webhook,
    WebhookId,
};
use std::sync::Arc;
use std::time::Duration;

const ENTRIES: usize = 50;

/// The subscriptions shown next to the deliveries.
const SUBSCRIPTIONS: u64 = 10;

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/webhooks/{id}", get(list))
        .route("/deliveries/{id}", get(show))
        .route("/deliveries/{id}/retry", post(retry))
}

struct DeliveryState {
    tone: &'static str,
    text: String,
    /// The time of the next attempt.
    due: Option<Time>,
}

impl DeliveryState {
    fn of(delivery: &Delivery) -> Self {
        let state = |tone, text: &str| DeliveryState { tone, text: text.to_owned(), due: None };
        match delivery.status {
            DeliveryStatus::Delivered => state("ok", "Delivered"),
            DeliveryStatus::Failed => state("bad", "Parked"),
            DeliveryStatus::Withheld => state("warn", "Withheld"),
            DeliveryStatus::Held => match delivery.held_until {
                Some(height) => state("info", &format!("Waits for block {}", grouped(height.into()))),
                None => state("info", "Waits for confirmations"),
            },
            DeliveryStatus::Pending if delivery.attempts == 0 => state("info", "Pending"),
            DeliveryStatus::Pending => {
                DeliveryState { tone: "warn", text: "Retry at".into(), due: Some(delivery.due_at) }
            }
        }
    }
}

struct DeliveryLine {
    id: DeliveryId,
    created_at: Time,
    kind: &'static str,
    chain: String,
    state: DeliveryState,
    attempts: u32,
    answer: String,
    note: &'static str,
}

/// Returns a status with its meaning: `503 Service Unavailable`.
fn status_text(status: u16) -> String {
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    reason.map_or_else(|| status.to_string(), |reason| format!("{status} {reason}"))
}

impl From<Delivery> for DeliveryLine {
    fn from(delivery: Delivery) -> Self {
        DeliveryLine {
            id: delivery.id,
            created_at: delivery.created_at,
            kind: delivery.kind.name(),
            state: DeliveryState::of(&delivery),
            attempts: delivery.attempts,
            answer: match (&delivery.last_error, delivery.last_status) {
                (_, Some(status)) => status_text(status),
                (Some(error), None) => error.clone(),
                (None, None) => "–".to_owned(),
            },
            note: match (delivery.replay, delivery.subscription) {
                (true, _) => "replay",
                (false, None) => "test",
                (false, Some(_)) => "",
            },
            chain: delivery.chain,
        }
    }
}

/// A filter by state, as a link.
struct StateLink {
    label: &'static str,
    path: String,
    is_current: bool,
}

#[derive(Template)]
#[template(path = "webhook.html")]
struct EndpointPage {
    frame: Frame,
    webhook: Webhook,
    project: Option<Project>,
    state: EndpointState,
    address: String,
    tab: &'static str,
    health: EndpointHealth,
    arrived: String,
    mean_ms: u64,
    heat: Heat,
    failed_attempts: u64,
    states: Vec<StateLink>,
    status: String,
    kinds: Vec<Choice>,
    kind: String,
    chain: String,
    is_filtered: bool,
    deliveries: Vec<DeliveryLine>,
    links: PageLinks,
    subscriptions: Vec<SubscriptionLine>,
    snippet: CodeSnippet,
}

struct AttemptEntry {
    number: u32,
    title: String,
    is_well: bool,
    at: Time,
    took: String,
    answer: Option<String>,
    /// The delay before the attempt.
    waited: Option<String>,
}

#[derive(Template)]
#[template(path = "delivery.html")]
struct DeliveryPage {
    frame: Frame,
    webhook: Webhook,
    address: String,
    delivery: Delivery,
    kind: &'static str,
    state: DeliveryState,
    summary: String,
    note: &'static str,
    block_num: u64,
    block_hash: String,
    attempts: Vec<AttemptEntry>,
    is_ended: bool,
    head: String,
    body: String,
    body_bytes: usize,
}

async fn list(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<WebhookId>,
    QueryFields(query): QueryFields,
) -> PageResult {
    page.permitted(Permission::Read)?;
    let webhook = webhooks::get(&app, &page.actor, id).await?;
    let filter = filter(&query);
    let mut some =
        deliveries::filtered(&app, &page.actor, id, &filter, cursor(&query)?, ENTRIES as u64 + 1).await?;
    let has_more = some.len() > ENTRIES;
    some.truncate(ENTRIES);
    let next = some.last().filter(|_| has_more).map(|last| (last.created_at, last.id));
    let health = webhooks::health(&app, &page.actor, id).await?;
    let (made, failed_attempts) = sums(&health);
    let listed = subscriptions::list(&app, &page.actor, id, None, SUBSCRIPTIONS).await?;
    let path = format!("webhooks/{id}");
    let ended = health.delivered + health.failed;
    let took: Duration = health.hours.iter().map(|hour| hour.took).sum();
    Ok(ok(&EndpointPage {
        frame: page.frame(PageSection::Webhooks),
        project: projects::get(&app, &page.actor, webhook.project).await.ok(),
        state: EndpointState::of(&webhook),
        address: address(&webhook),
        tab: "deliveries",
        arrived: arrived(health.delivered, ended),
        mean_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX).checked_div(made).unwrap_or_default(),
        heat: heat(&health, app.now()),
        failed_attempts,
        states: state_links(&query, &path),
        status: query.one("status").to_owned(),
        kinds: kinds(),
        kind: query.one("event_type").to_owned(),
        chain: query.one("chain").to_owned(),
        is_filtered: filter != DeliveryFilter::default(),
        deliveries: some.into_iter().map(DeliveryLine::from).collect(),
        links: cursor_links(&query, &path, next),
        subscriptions: listed.into_iter().map(SubscriptionLine::from).collect(),
        snippet: verifying::snippet(),
        health,
        webhook,
    }))
}

/// Reads the filter from a query. An unknown word filters nothing.
fn filter(query: &FieldList) -> DeliveryFilter {
    let chain = query.filled("chain").map(|name| match rpcgate_chains::scoped(name) {
        Some(chain) => chain.as_str().to_owned(),
        None => name.to_owned(),
    });
    DeliveryFilter {
        status: query.filled("status").and_then(|status| status.parse().ok()),
        kind: query.filled("event_type").and_then(|kind| kind.parse::<EventType>().ok()),
        chain,
    }
}

/// Returns the numbers of attempts and of failed attempts.
fn sums(health: &EndpointHealth) -> (u64, u64) {
    health.hours.iter().fold((0, 0), |(made, failed), hour| (made + hour.made, failed + hour.failed))
}

/// Returns the share of deliveries that arrived.
fn arrived(delivered: u64, ended: u64) -> String {
    if ended == 0 {
        return "no delivery has ended".to_owned();
    }
    format!("{} of {}", share(delivered, ended), grouped(ended.into()))
}

/// Returns the attempts of 24 hours as a strip.
fn heat(health: &EndpointHealth, now: Time) -> Heat {
    let first = now.hour().saturating_sub(HEALTH_HOURS - 1);
    let cell = |hour: u64| {
        let of = health.hours.iter().find(|of| of.hour.hour() == hour);
        let (made, failed) = of.map_or((0, 0), |of| (of.made, of.failed));
        let begin = minute_text(Time::from_secs(hour.saturating_mul(3_600)));
        let text = match (made, failed) {
            (0, _) => format!("{begin}: no attempt"),
            (_, 0) => format!("{begin}: none of {} attempts failed", grouped(made.into())),
            _ => format!("{begin}: {} of {} attempts failed", grouped(failed.into()), grouped(made.into())),
        };
        (HeatStep::of(failed, made), text)
    };
    let (made, failed) = sums(health);
    let sentence = format!(
        "Failed attempts in the last 24 hours: {} of {}",
        grouped(failed.into()),
        grouped(made.into())
    );
    Heat::of(sentence, (first..=now.hour()).map(cell).collect())
}

/// Returns the links that filter by state. They keep the other filters.
fn state_links(query: &FieldList, path: &str) -> Vec<StateLink> {
    let rest = query.query_without(&["status", "cursor", "done"]);
    let current = query.one("status");
    let states = [
        ("", "All"),
        ("delivered", "Delivered"),
        ("pending", "Waiting"),
        ("held", "Held"),
        ("failed", "Parked"),
    ];
    let link = |(status, label): (&str, &'static str)| {
        let own = if status.is_empty() { String::new() } else { format!("status={status}") };
        let parts: Vec<_> = [own, rest.clone()].into_iter().filter(|part| !part.is_empty()).collect();
        let path = if parts.is_empty() { path.to_owned() } else { format!("{path}?{}", parts.join("&")) };
        StateLink { label, path, is_current: status == current }
    };
    states.map(link).into()
}

/// Formats a duration: `71 ms`, `10.0 s`, `5 min`.
fn length(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..1_000 => format!("{millis} ms"),
        millis @ 1_000..120_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        millis => format!("{} min", millis / 60_000),
    }
}

fn entries(attempts: Vec<DeliveryAttempt>) -> Vec<AttemptEntry> {
    let mut before: Option<Time> = None;
    let mut entries = Vec::with_capacity(attempts.len());
    for attempt in attempts {
        let waited = before.map(|end| length(attempt.started_at.since(end)));
        before = Some(attempt.started_at.plus(attempt.duration));
        entries.push(AttemptEntry {
            number: attempt.number,
            is_well: attempt.error.is_none(),
            title: match (attempt.status, attempt.error) {
                (Some(status), _) => status_text(status),
                (None, Some(error)) => error,
                (None, None) => "Delivered".to_owned(),
            },
            at: attempt.started_at,
            took: length(attempt.duration),
            answer: attempt.answer.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            waited,
        });
    }
    entries
}

/// Describes the state of a delivery in a sentence.
fn summary(delivery: &Delivery, is_active: bool) -> &'static str {
    match delivery.status {
        DeliveryStatus::Delivered => "It has been delivered.",
        DeliveryStatus::Failed => "All attempts failed. It is sent again only at your request.",
        DeliveryStatus::Withheld => {
            "It was not sent because too many deliveries to this endpoint were waiting. Replay its time to send it."
        }
        DeliveryStatus::Held => "It is sent when its block has enough confirmations.",
        DeliveryStatus::Pending if !is_active => "It waits until the endpoint is switched on.",
        DeliveryStatus::Pending if delivery.attempts == 0 => "It will be sent in a moment.",
        DeliveryStatus::Pending => "It will be retried.",
    }
}

async fn show(State(app): State<Arc<AppState>>, page: PageContext, Id(id): Id<DeliveryId>) -> PageResult {
    page.permitted(Permission::Read)?;
    let whole = deliveries::get(&app, &page.actor, id).await?;
    let delivery = whole.delivery.clone();
    let webhook = whole.webhook.clone();
    let block_num = whole.event.block_num;
    let block_hash = whole.event.block_hash.clone();
    let attempts = whole.attempts.clone();
    let body_bytes = whole.event.body.len();
    let request = WholeDeliveryJson::from(whole).request;
    let lines = request.headers.iter().map(|(name, value)| format!("{name}: {value}"));
    let lines: Vec<_> = std::iter::once(format!("{} {}", request.method, request.url)).chain(lines).collect();
    let line = DeliveryLine::from(delivery.clone());
    Ok(ok(&DeliveryPage {
        frame: page.frame(PageSection::Webhooks),
        address: address(&webhook),
        kind: line.kind,
        state: line.state,
        summary: summary(&delivery, webhook.active).to_owned(),
        note: line.note,
        block_num,
        block_hash,
        attempts: entries(attempts),
        is_ended: delivery.status.is_final(),
        head: lines.join("\n"),
        body: request.body,
        body_bytes,
        delivery,
        webhook,
    }))
}

async fn retry(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<DeliveryId>,
    _: PlainForm,
) -> PageResult {
    page.permitted(Permission::ManageWebhooks)?;
    deliveries::retry(&app, &page.actor, id).await?;
    Ok(page.done(&format!("deliveries/{id}"), Done::DeliveryDueAgain))
}

#[cfg(test)]
mod tests;
