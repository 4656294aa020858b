//! The subscriptions of an endpoint.

use super::confirm::{ConfirmQuestion, ConfirmRequest, Confirmed, confirmed};
use super::context::{PageContext, PageResult};
use super::cut_list::{cursor, cursor_links};
use super::filters;
use super::form::{FieldList, QueryFields};
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::parts::{Choice, PageLinks};
use super::problems::{Labels, Problems};
use super::view::{ok, rejected};
use super::webhooks::{EndpointState, address};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::clock::Time;
use rpcgate_core::event::EventType;
use rpcgate_management::action::chains::chains;
use rpcgate_management::action::subscriptions::{self, NewSubscription};
use rpcgate_management::action::webhooks;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Id, Ids};
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::{get, post};
use rpcgate_store::{SubscriptionId, Webhook, WebhookId, WebhookSubscription};
use serde_json::{Map, Value};
use std::sync::Arc;

const LABELS: Labels = &[
    ("chain", "the chain"),
    ("event_type", "the event type"),
    ("filter", "the filter"),
    ("confirmations", "the number of confirmations"),
];

const ENTRIES: usize = 50;

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/webhooks/{id}/subscriptions", get(list).merge(post(create)))
        .route("/webhooks/{id}/subscriptions/{subscription}/delete", confirmed::<SubscriptionDeletion>())
}

pub(super) struct SubscriptionLine {
    pub(super) id: SubscriptionId,
    pub(super) kind: &'static str,
    pub(super) chain: String,
    pub(super) filter: Vec<String>,
    pub(super) confirmations: u32,
    pub(super) created_at: Time,
}

impl From<WebhookSubscription> for SubscriptionLine {
    fn from(subscription: WebhookSubscription) -> Self {
        let member = |(name, value): (String, Value)| match value {
            Value::String(text) if is_plain(&text) => format!("{name} = {text}"),
            value => format!("{name} = {value}"),
        };
        SubscriptionLine {
            id: subscription.id,
            kind: subscription.kind.name(),
            chain: subscription.chain,
            filter: subscription.filter.unwrap_or_default().into_iter().map(member).collect(),
            confirmations: subscription.confirmations,
            created_at: subscription.created_at,
        }
    }
}

/// Reports whether a text needs no quotes in the form.
fn is_plain(text: &str) -> bool {
    let is_kept = !text.is_empty() && text.trim() == text && !text.chars().any(char::is_control);
    is_kept && read_value(text) == Value::String(text.to_owned())
}

/// Reads a value of a filter: a number, `true`, `false`, or a text, which may be quoted.
fn read_value(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_) | Value::String(_))) => value,
        _ => Value::String(text.to_owned()),
    }
}

/// Reads the filter from a field with one member a line, such as `to = 0x71c7…`. `None` if the field has no lines.
fn read_filter(text: &str) -> Result<Option<Map<String, Value>>, ActionError> {
    let mut filter = Map::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let Some((name, value)) = line.split_once('=') else {
            return Err(ActionError::field(
                "filter",
                "write a name, = and a value on each line, such as to = 0x71c7…",
            ));
        };
        if filter.insert(name.trim().to_owned(), read_value(value.trim())).is_some() {
            return Err(ActionError::field("filter", "name each member once"));
        }
    }
    Ok((!filter.is_empty()).then_some(filter))
}

#[derive(Clone, Debug, Default)]
struct SubscriptionForm {
    chain: String,
    event_type: String,
    filter: String,
    confirmations: String,
}

impl SubscriptionForm {
    fn of(fields: &FieldList) -> Self {
        let text = |name| fields.one(name).to_owned();
        SubscriptionForm {
            chain: text("chain"),
            event_type: text("event_type"),
            filter: text("filter"),
            confirmations: text("confirmations"),
        }
    }
}

#[derive(Template)]
#[template(path = "subscriptions.html")]
struct SubscriptionsPage {
    frame: Frame,
    problems: Problems,
    webhook: Webhook,
    state: EndpointState,
    address: String,
    tab: &'static str,
    subscriptions: Vec<SubscriptionLine>,
    links: PageLinks,
    chains: Vec<Choice>,
    kinds: Vec<Choice>,
    form: SubscriptionForm,
}

pub(super) fn kinds() -> Vec<Choice> {
    let choice = |kind: EventType| Choice::new(kind.name(), format!("{kind}: {}", kind.summary()));
    EventType::ALL.map(choice).into()
}

async fn list(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<WebhookId>,
    QueryFields(query): QueryFields,
) -> PageResult {
    page.permitted(Permission::Read)?;
    Ok(ok(&list_page(&app, &page, id, &query).await?))
}

async fn list_page(
    app: &AppState,
    page: &PageContext,
    id: WebhookId,
    query: &FieldList,
) -> Result<SubscriptionsPage, ActionError> {
    let webhook = webhooks::get(app, &page.actor, id).await?;
    let mut some = subscriptions::list(app, &page.actor, id, cursor(query)?, ENTRIES as u64 + 1).await?;
    let has_more = some.len() > ENTRIES;
    some.truncate(ENTRIES);
    let next = some.last().filter(|_| has_more).map(|last| (last.created_at, last.id));
    let enabled = chains(app).await?.into_iter().filter(|entry| entry.enabled);
    // The list begins with the oldest.
    let PageLinks { summary, newer, older } =
        cursor_links(query, &format!("webhooks/{id}/subscriptions"), next);
    Ok(SubscriptionsPage {
        frame: page.frame(PageSection::Webhooks),
        problems: Problems::default(),
        state: EndpointState::of(&webhook),
        address: address(&webhook),
        webhook,
        tab: "subscriptions",
        subscriptions: some.into_iter().map(SubscriptionLine::from).collect(),
        links: PageLinks { summary, newer: older, older: newer },
        chains: enabled
            .map(|entry| {
                Choice::new(
                    entry.facts.name.as_str(),
                    format!("{} ({})", entry.facts.name, entry.facts.title),
                )
            })
            .collect(),
        kinds: kinds(),
        form: SubscriptionForm::default(),
    })
}

async fn create(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<WebhookId>,
    fields: FieldList,
) -> PageResult {
    page.permitted(Permission::ManageWebhooks)?;
    let made = async {
        let kind = fields.one("event_type").parse::<EventType>();
        let new = NewSubscription {
            chain: fields.one("chain").to_owned(),
            kind: kind.map_err(|_| ActionError::field("event_type", "choose an event"))?,
            filter: read_filter(fields.one("filter"))?,
            confirmations: fields.number::<u32>("confirmations")?.unwrap_or_default(),
        };
        subscriptions::create(&app, &page.actor, id, new).await
    };
    match made.await {
        Ok(_) => Ok(page.done(&format!("webhooks/{id}/subscriptions"), Done::SubscriptionCreated)),
        Err(error) => {
            let again = list_page(&app, &page, id, &FieldList::default()).await?;
            let form = SubscriptionForm::of(&fields);
            rejected(error, LABELS, |problems| SubscriptionsPage { problems, form, ..again })
        }
    }
}

struct SubscriptionDeletion {
    endpoint: Webhook,
    line: SubscriptionLine,
}

impl Confirmed for SubscriptionDeletion {
    type Reader = PageContext;
    type Path = Ids<WebhookId, SubscriptionId>;

    async fn load(
        request: ConfirmRequest<'_>,
        Ids(webhook, id): Ids<WebhookId, SubscriptionId>,
    ) -> Result<Self, ActionError> {
        let ConfirmRequest { app, page, .. } = request;
        page.permitted(Permission::ManageWebhooks)?;
        let endpoint = webhooks::get(app, &page.actor, webhook).await?;
        let line = subscriptions::get(app, &page.actor, webhook, id).await?.into();
        Ok(SubscriptionDeletion { endpoint, line })
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        let webhook = self.endpoint.id;
        let name = address(&self.endpoint);
        let SubscriptionLine { kind, chain, filter, .. } = &self.line;
        let of = match filter.is_empty() {
            true => String::new(),
            false => format!(" where {}", filter.join(" and ")),
        };
        ConfirmQuestion::new(
            page.frame(PageSection::Webhooks),
            format!("Delete the subscription to {kind} on {chain}?"),
            "Delete the subscription",
            format!("webhooks/{webhook}/subscriptions"),
        )
        .crumb("Webhooks", "webhooks")
        .crumb(&name, format!("webhooks/{webhook}"))
        .consequence(format!("Within a second, {name} gets no more events of {kind} on {chain}{of}."))
        .consequence("Its existing deliveries are still sent.")
    }

    async fn act(self, ConfirmRequest { app, page, .. }: ConfirmRequest<'_>) -> PageResult {
        subscriptions::delete(app, &page.actor, self.line.id).await?;
        let list = format!("webhooks/{}/subscriptions", self.endpoint.id);
        Ok(page.done(&list, Done::SubscriptionDeleted))
    }
}

#[cfg(test)]
mod tests;
