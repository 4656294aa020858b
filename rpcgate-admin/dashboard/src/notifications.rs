//! The notifications of a user.

use super::context::{PageContext, PageResult};
use super::filters;
use super::form::{FieldList, PlainForm, QueryFields};
use super::frame::{Frame, PageSection};
use super::notification_preferences::kind_text;
use super::outcome::Done;
use super::parts::PageLinks;
use super::view::ok;
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::notifications::{self, ReadableNotifications, UserNotification};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::routing::{get, post};
use rpcgate_store::{NotificationId, NotificationKind};
use std::sync::Arc;

const MAX_SHOWN: usize = 10;

const ON_PAGE: usize = 50;

const LIST: &str = "notifications";

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/notifications", get(list))
        .route("/notifications/read", post(read_all))
        .route("/notifications/{id}/read", post(read_one))
        .route("/read-notification", post(read))
}

/// The unread notifications, the newest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Unread {
    pub(super) newest: Vec<UserNotification>,
    pub(super) older: usize,
    /// False while the notifications about usage cannot be read.
    pub(super) is_complete: bool,
}

impl Unread {
    /// Reads the unread notifications of a member.
    ///
    /// # Errors
    /// Those of [`notifications::readable`].
    pub(super) async fn of(app: &AppState, actor: &Actor) -> Result<Self, ActionError> {
        let ReadableNotifications { all, is_complete } = notifications::readable(app, actor).await?;
        let mut newest: Vec<_> = all.into_iter().filter(|one| one.read_at.is_none()).collect();
        let older = newest.len().saturating_sub(MAX_SHOWN);
        newest.truncate(MAX_SHOWN);
        Ok(Unread { newest, older, is_complete })
    }
}

#[derive(Template)]
#[template(path = "notifications.html")]
struct NotificationsPage {
    frame: Frame,
    shown: Vec<UserNotification>,
    /// False while the notifications about usage cannot be read.
    is_complete: bool,
    /// True if only unread notifications are shown.
    is_unread: bool,
    unread: usize,
    links: PageLinks,
}

impl NotificationsPage {
    fn kind(&self, one: &UserNotification) -> &'static str {
        kind_text(one.kind)
    }

    fn icon(&self, one: &UserNotification) -> &'static str {
        match one.kind {
            NotificationKind::DailyRequests80
            | NotificationKind::DailyRequests95
            | NotificationKind::DailyRequests100
            | NotificationKind::RateLimitedSpike
            | NotificationKind::LimitDecision => "gauge",
            NotificationKind::Invoice | NotificationKind::Prices => "card",
            NotificationKind::Suspension => "warn",
            NotificationKind::Security => "shield",
            NotificationKind::WebhookHealth => "send",
        }
    }
}

async fn list(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    QueryFields(query): QueryFields,
) -> PageResult {
    page.tenant()?;
    let ReadableNotifications { mut all, is_complete } = notifications::readable(&app, &page.actor).await?;
    let unread = all.iter().filter(|one| one.read_at.is_none()).count();
    let is_unread = query.one("show") == "unread";
    all.retain(|one| !is_unread || one.read_at.is_none());
    let number = query.number::<usize>("page")?.unwrap_or(1).max(1);
    let from = (number - 1).saturating_mul(ON_PAGE).min(all.len());
    let until = from.saturating_add(ON_PAGE).min(all.len());
    let rest = query.query_without(&["page", "done"]);
    let to = |number: usize| {
        let joint = if rest.is_empty() { "" } else { "&" };
        format!("{LIST}?{rest}{joint}page={number}")
    };
    let summary = if from < until && all.len() > ON_PAGE {
        format!("{} to {until} of {}", from + 1, all.len())
    } else {
        String::new()
    };
    let links = PageLinks {
        summary,
        newer: (number > 1).then(|| to(number - 1)),
        older: (until < all.len()).then(|| to(number + 1)),
    };
    let shown = all.drain(from..until).collect();
    let frame = page.frame(PageSection::Nowhere);
    Ok(ok(&NotificationsPage { frame, shown, is_complete, is_unread, unread, links }))
}

async fn read_one(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<NotificationId>,
    _: PlainForm,
) -> PageResult {
    page.tenant()?;
    notifications::read(&app, &page.actor, id).await?;
    Ok(page.done(LIST, Done::NotificationRead))
}

async fn read_all(State(app): State<Arc<AppState>>, page: PageContext, _: PlainForm) -> PageResult {
    page.tenant()?;
    notifications::read_all(&app, &page.actor).await?;
    Ok(page.done(LIST, Done::AllRead))
}

/// Marks a notification on the first page as read.
async fn read(State(app): State<Arc<AppState>>, page: PageContext, fields: FieldList) -> PageResult {
    let id: NotificationId = fields.one("id").parse().map_err(|_| ActionError::NotFound("notification"))?;
    notifications::read(&app, &page.actor, id).await?;
    Ok(page.done("", Done::NotificationRead))
}
