//! The notifications that a user receives, and their delivery channels.

use super::context::{PageContext, PageResult};
use super::filters;
use super::form::FieldList;
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::view::ok;
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_management::action::notification_preferences;
use rpcgate_management::app_state::AppState;
use rpcgate_management::routing::{get, post};
use rpcgate_store::{NotificationKind, NotificationPreference};
use std::sync::Arc;

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/account/notifications", get(show).merge(post(save)))
}

#[derive(Template)]
#[template(path = "notification_preferences.html")]
struct PreferencesPage {
    frame: Frame,
    rows: Vec<PreferenceRow>,
}

struct PreferenceRow {
    name: &'static str,
    label: &'static str,
    shown: bool,
    mail: bool,
    /// True if the user cannot turn its mails off.
    is_always_mailed: bool,
}

impl From<(NotificationKind, NotificationPreference)> for PreferenceRow {
    fn from(
        (kind, NotificationPreference { shown, mail }): (NotificationKind, NotificationPreference),
    ) -> Self {
        let is_always_mailed = kind == NotificationKind::Security;
        PreferenceRow { name: kind.name(), label: kind_text(kind), shown, mail, is_always_mailed }
    }
}

/// Describes the notifications of a kind.
pub(super) fn kind_text(kind: NotificationKind) -> &'static str {
    match kind {
        NotificationKind::DailyRequests80 => "80 % of the daily requests are used",
        NotificationKind::DailyRequests95 => "95 % of the daily requests are used",
        NotificationKind::DailyRequests100 => "All daily requests are used",
        NotificationKind::RateLimitedSpike => "Many requests were refused at once",
        NotificationKind::Invoice => "Invoices: issued, due soon, overdue, paid",
        NotificationKind::Suspension => "Suspension of the organisation, and its end",
        NotificationKind::Security => "The security of your account",
        NotificationKind::WebhookHealth => "Webhook endpoints that fail",
        NotificationKind::Prices => "Calls that cost more",
        NotificationKind::LimitDecision => "Decisions about requests for another plan",
    }
}

async fn show(State(app): State<Arc<AppState>>, page: PageContext) -> PageResult {
    page.tenant()?;
    let all = notification_preferences::list(&app, &page.actor).await?;
    let rows = all.into_iter().map(PreferenceRow::from).collect();
    Ok(ok(&PreferencesPage { frame: page.frame(PageSection::Nowhere), rows }))
}

/// Saves all boxes. An unchanged box is not a change.
async fn save(State(app): State<Arc<AppState>>, page: PageContext, fields: FieldList) -> PageResult {
    page.tenant()?;
    for (kind, before) in notification_preferences::list(&app, &page.actor).await? {
        let is_ticked = |column: &str| fields.has(&format!("{column}.{}", kind.name()));
        let shown = Some(is_ticked("shown")).filter(|shown| *shown != before.shown);
        let mail = Some(is_ticked("mail")).filter(|mail| *mail != before.mail);
        let mail = mail.filter(|_| kind != NotificationKind::Security);
        if shown.is_some() || mail.is_some() {
            notification_preferences::update(&app, &page.actor, kind, shown, mail).await?;
        }
    }
    Ok(page.done("account/notifications", Done::PreferencesSaved))
}
