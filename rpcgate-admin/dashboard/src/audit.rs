//! The audit log of the tenant, or of the user's own actions.

use super::context::{PageContext, PageResult};
use super::form::{FieldList, QueryFields};
use super::frame::{Frame, PageSection};
use super::parts::{Choice, PageLinks};
use super::problems::{Labels, Problems};
use super::view::{ok, rejected};
use super::{cursor, filters};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::clock::Time;
use rpcgate_management::action::{audit, members};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::get;
use rpcgate_management::shape::audit::csv_file;
use rpcgate_management::shape::list::time_cursor;
use rpcgate_management::shape::moment::Moment;
use rpcgate_store::{Audit, AuditFilter, User, UserId};
use std::sync::Arc;
use std::time::Duration;

const LABELS: Labels = &[("from", "the begin"), ("to", "the end"), ("user", "the member")];

const SHOWN: u64 = 50;

/// The entries in a CSV file.
pub(super) const IN_FILE: u64 = 1_000;

pub(super) const DAY: Duration = Duration::from_secs(86_400);

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/audit", get(list)).route("/audit.csv", get(file))
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    problems: Problems,
    /// True if the entries are those of the whole tenant.
    reads_all: bool,
    rows: Vec<AuditRow>,
    users: Vec<Choice>,
    action: String,
    user: String,
    subject: String,
    from: String,
    to: String,
    /// The filters, as a query string.
    query: String,
    links: PageLinks,
}

struct AuditRow {
    at: Time,
    who: String,
    action: String,
    subject: String,
    detail: String,
    address: String,
}

impl AuditRow {
    fn of(entry: Audit, members: &[User]) -> Self {
        let who = match entry.user {
            Some(id) => members.iter().find(|member| member.id == id).map_or_else(
                || format!("former member {id}"),
                |member| if member.name.is_empty() { member.email.clone() } else { member.name.clone() },
            ),
            None if entry.address.is_empty() => "our support".to_owned(),
            None => "not logged in".to_owned(),
        };
        let Audit { at, action, subject, detail, address, .. } = entry;
        AuditRow { at, who, action, subject, detail, address }
    }
}

/// Reads the beginning of a day from a form field.
pub(super) fn day(fields: &FieldList, name: &'static str) -> Result<Option<Time>, ActionError> {
    let Some(text) = fields.filled(name) else { return Ok(None) };
    let moment = Moment::parse(&format!("{text}T00:00:00Z"));
    let Moment(at) = moment.ok_or_else(|| ActionError::field(name, "give a day, such as 2026-11-19"))?;
    Ok(Some(at))
}

fn filter_of(fields: &FieldList) -> Result<AuditFilter, ActionError> {
    let user = fields.filled("user").map(str::parse::<UserId>).transpose();
    Ok(AuditFilter {
        user: user.map_err(|_| ActionError::field("user", "choose a member"))?,
        action: fields.filled("action").map(str::to_owned),
        subject: fields.filled("subject").map(str::to_owned),
        from: day(fields, "from")?,
        until: day(fields, "to")?.map(|at| at.plus(DAY)),
    })
}

async fn list(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    QueryFields(query): QueryFields,
) -> PageResult {
    let tenant = page.permitted(Permission::Read)?;
    let members = members::list(&app, &page.actor, tenant).await?;
    let choice = |member: &User| Choice::new(member.id.to_string(), member.email.clone());
    let rest = query.query_without(&[cursor::BEFORE, "done"]);
    let mut shown = AuditPage {
        frame: page.frame(PageSection::Audit),
        problems: Problems::default(),
        reads_all: Permission::ReadAudit.is_granted_to(page.actor.user.role),
        rows: Vec::new(),
        users: [Choice::new("", "Everybody")].into_iter().chain(members.iter().map(choice)).collect(),
        action: query.one("action").to_owned(),
        user: query.one("user").to_owned(),
        subject: query.one("subject").to_owned(),
        from: query.one("from").to_owned(),
        to: query.one("to").to_owned(),
        query: rest.clone(),
        links: PageLinks::default(),
    };
    let found = async {
        let before = cursor::read(query.one(cursor::BEFORE))?;
        audit::list(&app, &page.actor, &filter_of(&query)?, before, SHOWN).await
    };
    match found.await {
        Ok(entries) => {
            let last = entries.last().filter(|_| entries.len() as u64 == SHOWN);
            shown.links.older =
                last.map(|(number, last)| cursor::older("audit", &rest, &time_cursor(last.at, number)));
            shown.rows = entries.into_iter().map(|(_, entry)| AuditRow::of(entry, &members)).collect();
            Ok(ok(&shown))
        }
        Err(error) => rejected(error, LABELS, |problems| AuditPage { problems, ..shown }),
    }
}

/// Returns the newest entries that match the filters, as a file.
async fn file(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    QueryFields(query): QueryFields,
) -> PageResult {
    page.permitted(Permission::Read)?;
    let entries = audit::list(&app, &page.actor, &filter_of(&query)?, None, IN_FILE).await?;
    Ok(csv_file(entries))
}
