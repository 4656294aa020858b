//! The tickets of all tenants.

use super::names::NamesOfAll;
use crate::context::{OperatorPage, PageResult};
use crate::form::QueryFields;
use crate::frame::{Frame, PageSection};
use crate::parts::{Choice, PageLinks};
use crate::problems::{Labels, Problems};
use crate::tickets::category_text;
use crate::view::{ok, rejected};
use crate::{cursor, filters};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::caller::TenantId;
use rpcgate_management::action::operator::tickets;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::routing::get;
use rpcgate_management::shape::list::time_cursor;
use rpcgate_store::{SupportTicket, TicketCategory, TicketFilter, TicketStatus};
use std::sync::Arc;

const LABELS: Labels = &[("tenant", "the tenant"), ("category", "the category"), ("status", "the status")];

const SHOWN: u64 = 50;

const LIST: &str = "operator/tickets";

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/operator/tickets", get(list))
}

/// Returns the tone and the text of a ticket's badge, as operators see it.
pub(super) const fn status_badge(status: TicketStatus) -> (&'static str, &'static str) {
    match status {
        TicketStatus::Open => ("warn", "Waiting for us"),
        TicketStatus::Answered => ("info", "Waiting for the tenant"),
        TicketStatus::Closed => ("", "Closed"),
    }
}

#[derive(Template)]
#[template(path = "operator_tickets.html")]
struct WaitingTicketsPage {
    frame: Frame,
    problems: Problems,
    /// The name of the selected status, or `all`.
    status: String,
    category: String,
    categories: Vec<Choice>,
    tenant: String,
    rows: Vec<TicketRow>,
    links: PageLinks,
}

impl WaitingTicketsPage {
    fn is_status(&self, name: &str) -> bool {
        self.status == name
    }
}

struct TicketRow {
    ticket: SupportTicket,
    tenant: String,
    category: &'static str,
    badge: (&'static str, &'static str),
}

async fn list(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    QueryFields(query): QueryFields,
) -> PageResult {
    let status = query.filled("status").unwrap_or(TicketStatus::Open.name());
    let status = TicketStatus::ALL.into_iter().find(|known| known.name() == status);
    let categories = TicketCategory::ALL.into_iter();
    let mut shown = WaitingTicketsPage {
        frame: page.frame(PageSection::OperatorTickets),
        problems: Problems::default(),
        status: status.map_or("all", TicketStatus::name).to_owned(),
        category: query.one("category").to_owned(),
        categories: [Choice::new("", "All")]
            .into_iter()
            .chain(categories.map(|one| Choice::new(one.name(), category_text(one))))
            .collect(),
        tenant: query.one("tenant").to_owned(),
        rows: Vec::new(),
        links: PageLinks::default(),
    };
    let rest = query.query_without(&[cursor::BEFORE, cursor::AFTER, "done"]);
    let found = async {
        let tenant = query.filled("tenant").map(str::parse::<TenantId>).transpose();
        let tenant = tenant.map_err(|_| ActionError::field("tenant", "enter the identifier of a tenant"))?;
        let category = query.filled("category").map(|name| {
            let known = TicketCategory::ALL.into_iter().find(|category| category.name() == name);
            known.ok_or_else(|| ActionError::field("category", "choose a category from the list"))
        });
        let category = category.transpose()?;
        // Waiting tickets are listed oldest first, closed ones newest first.
        let is_waiting = status == Some(TicketStatus::Open) && tenant.is_none() && category.is_none();
        let tickets = if is_waiting {
            tickets::waiting(&app, cursor::read(query.one(cursor::AFTER))?, SHOWN).await?
        } else {
            let filter = TicketFilter { status, category };
            tickets::list(&app, tenant, filter, cursor::read(query.one(cursor::BEFORE))?, SHOWN).await?
        };
        Ok((tickets, is_waiting))
    };
    match found.await {
        Ok((tickets, is_waiting)) => {
            let last = tickets.last().filter(|_| tickets.len() as u64 == SHOWN);
            let last = last.map(|last| time_cursor(last.created_at, last.id));
            if is_waiting {
                shown.links.newer = last.map(|last| cursor::newer(LIST, &rest, &last));
            } else {
                shown.links.older = last.map(|last| cursor::older(LIST, &rest, &last));
            }
            let tenants = tickets.iter().map(|ticket| ticket.tenant).collect();
            let names = NamesOfAll::read(&app, tenants, Vec::new()).await?;
            let row = |ticket: SupportTicket| TicketRow {
                tenant: names.tenant(ticket.tenant),
                category: category_text(ticket.category),
                badge: status_badge(ticket.status),
                ticket,
            };
            shown.rows = tickets.into_iter().map(row).collect();
            Ok(ok(&shown))
        }
        Err(error) => rejected(error, LABELS, |problems| WaitingTicketsPage { problems, ..shown }),
    }
}

#[cfg(test)]
mod tests;
