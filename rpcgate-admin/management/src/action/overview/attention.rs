//! The items that need a member's attention: the most severe first, at most three.

use super::pace::reached;
use super::{PeriodUse, ProjectUse};
use crate::access::Access;
use crate::action::actor::Actor;
use crate::action::usage::series::series;
use crate::action::usage::{Usage, if_readable};
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::identity::role::Permission;
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::{Period, UsageAsk, UsageFilter, UsageWindow};
use rpcgate_store::{
    Invoice, InvoiceFilter, InvoiceNumber, InvoiceStatus, Tenant, TicketFilter, TicketId, TicketStatus,
    WebhookId,
};

/// The maximum number of items.
pub const MAX_ATTENTION: usize = 3;
/// The percentage of a quota from which it is reported.
const NEAR: f64 = 80.0;
const MAX_INVOICES: u64 = 100;

/// An item that needs a member's attention.
#[derive(Clone, PartialEq, Debug)]
pub enum Attention {
    /// The tenant is suspended.
    Suspended {
        /// True if an invoice is overdue and the member may read bills.
        is_overdue: bool,
    },
    /// A project has used up its quota.
    QuotaReached {
        /// The project.
        project: ProjectId,
        /// The project's name.
        name: String,
    },
    /// An invoice is overdue.
    InvoiceOverdue {
        /// The number.
        number: InvoiceNumber,
        /// The beginning of its month.
        month: Time,
        /// The amount due in cents.
        cents: u64,
        /// The due date.
        due_at: Time,
    },
    /// Deliveries to an endpoint fail.
    WebhookFails {
        /// The endpoint.
        webhook: WebhookId,
        /// The URL.
        url: String,
        /// The time since which nothing was delivered.
        since: Option<Time>,
        /// True if it was switched off because of that.
        is_disabled: bool,
    },
    /// A project has used most of its quota.
    QuotaNear {
        /// The project.
        project: ProjectId,
        /// The project's name.
        name: String,
        /// The used part in percent.
        percent: f64,
        /// The time when the quota is reached at the rate of the last hours.
        until: Option<Time>,
    },
    /// Support has answered a ticket and waits for the tenant.
    TicketAnswered {
        /// The ticket.
        ticket: TicketId,
        /// The subject.
        subject: String,
    },
    /// An invoice is unpaid.
    InvoiceOpen {
        /// The number.
        number: InvoiceNumber,
        /// The beginning of its month.
        month: Time,
        /// The amount due in cents.
        cents: u64,
        /// The due date.
        due_at: Time,
    },
}

/// Returns the items for a member. Quotas are left out while usage cannot be read.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub(super) async fn attention(
    app: &AppState,
    actor: &Actor,
    tenant: &Tenant,
    used: Option<&PeriodUse>,
    projects: &[ProjectUse],
) -> Result<Vec<Attention>, ActionError> {
    let now = app.now();
    let [invoice, webhook, ticket] =
        [invoice(app, actor, tenant, now).await?, webhook(app, tenant).await?, ticket(app, tenant).await?];
    let is_overdue = matches!(invoice, Some(Attention::InvoiceOverdue { .. }));
    let suspended = tenant.suspended.then_some(Attention::Suspended { is_overdue });
    let mut found: Vec<_> = suspended.into_iter().collect();
    if let Some(used) = used {
        found.extend(quota(app, tenant, &used.usage, projects, now).await?);
    }
    found.extend(invoice);
    found.extend(webhook);
    found.extend(ticket);
    found.sort_by_key(rank);
    found.truncate(MAX_ATTENTION);
    Ok(found)
}

/// Returns the position in the order: problems that stop calls first, then failures, then coming problems.
fn rank(one: &Attention) -> u8 {
    match one {
        Attention::Suspended { .. } => 0,
        Attention::QuotaReached { .. } => 1,
        Attention::InvoiceOverdue { .. } => 2,
        Attention::WebhookFails { .. } => 3,
        Attention::QuotaNear { .. } => 4,
        Attention::TicketAnswered { .. } => 5,
        Attention::InvoiceOpen { .. } => 6,
    }
}

/// Returns the project with the largest used part of its quota, if that is at least `NEAR` percent.
async fn quota(
    app: &AppState,
    tenant: &Tenant,
    usage: &Usage,
    projects: &[ProjectUse],
    now: Time,
) -> Result<Option<Attention>, ActionError> {
    let percent = |used: &super::UsedQuota| used.budget.percent.unwrap_or_default();
    let fullest = usage.quotas.iter().max_by(|one, other| percent(one).total_cmp(&percent(other)));
    let Some(fullest) = fullest.filter(|fullest| percent(fullest) >= NEAR) else { return Ok(None) };
    let project = fullest.project;
    let shown = projects.iter().find(|shown| shown.project.id == project);
    let name = match shown {
        Some(shown) => shown.project.name.clone(),
        None => match app.store.project(tenant.id, project).await? {
            Some(found) => found.name,
            // The project was deleted at the same time.
            None => return Ok(None),
        },
    };
    if fullest.budget.over {
        return Ok(Some(Attention::QuotaReached { project, name }));
    }
    let only = UsageFilter { project: Some(project), ..UsageFilter::default() };
    let ask = UsageAsk::new(tenant.id, UsageWindow::of(Period::Day, now)).only(only);
    let until = if_readable(series(app, &ask, None).await)?.and_then(|series| {
        let hours: Vec<_> = series.totals().iter().map(|metrics| metrics.billable_units).collect();
        reached(&hours, fullest.quota.cu_per_day, now)
    });
    Ok(Some(Attention::QuotaNear { project, name, percent: percent(fullest), until }))
}

/// Returns the unpaid invoice that is due first, for members who may read bills.
async fn invoice(
    app: &AppState,
    actor: &Actor,
    tenant: &Tenant,
    now: Time,
) -> Result<Option<Attention>, ActionError> {
    if Access::Member(Permission::ReadBilling).admit(&actor.user).is_err() {
        return Ok(None);
    }
    let filter = InvoiceFilter {
        tenant: Some(tenant.id),
        status: Some(InvoiceStatus::Open),
        ..InvoiceFilter::default()
    };
    let open = app.store.invoices(filter, None, MAX_INVOICES).await?;
    let first =
        open.into_iter().filter(|invoice| invoice.due_cents() > 0).min_by_key(|invoice| invoice.due_at);
    let attention = |invoice: Invoice| {
        let number = invoice.number;
        let month = invoice.period.start;
        let cents = invoice.due_cents();
        let due_at = invoice.due_at;
        if invoice.is_overdue(now) {
            Attention::InvoiceOverdue { number, month, cents, due_at }
        } else {
            Attention::InvoiceOpen { number, month, cents, due_at }
        }
    };
    Ok(first.map(attention))
}

async fn webhook(app: &AppState, tenant: &Tenant) -> Result<Option<Attention>, ActionError> {
    let first = app.store.failing_webhooks(tenant.id, 1).await?.into_iter().next();
    Ok(first.map(|webhook| Attention::WebhookFails {
        webhook: webhook.id,
        url: webhook.url,
        since: webhook.failing_since,
        is_disabled: webhook.disabled_at.is_some(),
    }))
}

async fn ticket(app: &AppState, tenant: &Tenant) -> Result<Option<Attention>, ActionError> {
    let filter = TicketFilter { status: Some(TicketStatus::Answered), ..TicketFilter::default() };
    let newest = app.store.tickets(tenant.id, filter, None, 1).await?.into_iter().next();
    Ok(newest.map(|ticket| Attention::TicketAnswered { ticket: ticket.id, subject: ticket.subject }))
}
