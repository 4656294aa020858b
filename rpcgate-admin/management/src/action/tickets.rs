//! Support tickets of the caller's tenant.

use super::actor::Actor;
use super::plans::RequestedPlan;
use super::text;
use crate::access::SCOPE_MISSING;
use crate::app_state::AppState;
use crate::error::{ActionError, ErrorCode};
use crate::identity::role::Permission;
use crate::mail::{self, Mail};
use rpcgate_core::clock::Time;
use rpcgate_store::{
    Attempt, AttemptKind, LimitRequest, LimitRequestId, RequestStatus, Satisfaction, StoreError,
    SupportTicket, TenantPlan, TicketCategory, TicketFilter, TicketId, TicketLimitRequest, TicketStatus,
    fresh_id,
};

const UNKNOWN: ActionError = ActionError::NotFound("ticket");

/// The properties of a new ticket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewTicket {
    /// The category.
    pub category: TicketCategory,
    /// The subject, a single line.
    pub subject: String,
    /// The text.
    pub text: String,
    /// The requested plan, for the category `limit_increase`.
    pub requested: Option<RequestedPlan>,
}

/// Creates a ticket. A ticket of the category `limit_increase` is linked to a request for another plan: the tenant's
/// pending one, or a new one for the requested plan with the ticket's text as its reason.
///
/// # Errors
/// `ErrorCode::EmailUnconfirmed` if the caller's e-mail address is not confirmed, because answers are mailed;
/// [`ActionError::Invalid`] for an invalid text, or a plan that is missing or does not fit the category;
/// `ErrorCode::LimitRequestPending` while a request for a plan other than the requested one is pending;
/// [`ActionError::Full`] if the tenant has too many tickets that are not closed.
pub async fn create(app: &AppState, actor: &Actor, new: NewTicket) -> Result<SupportTicket, ActionError> {
    let tenant = actor.tenant()?;
    let now = app.now();
    if actor.user.confirmed_at.is_none() {
        let text = "confirm your e-mail address before you write a ticket";
        return Err(ActionError::Refused(ErrorCode::EmailUnconfirmed, text));
    }
    let ticket = SupportTicket {
        id: TicketId(fresh_id(now)),
        tenant,
        user: actor.user.id,
        category: new.category,
        status: TicketStatus::Open,
        subject: text::name("subject", &new.subject)?,
        text: text::letter("text", &new.text)?,
        limit_request: None,
        satisfaction: None,
        created_at: now,
        updated_at: now,
        closed_at: None,
    };
    let request = match (new.category, new.requested) {
        (TicketCategory::LimitIncrease, Some(requested)) => {
            let plan = requested.find(app, actor, "requested_plan").await?;
            Some((limit_request(&ticket, plan.of), plan.name))
        }
        (_, None) => None,
        (_, Some(requested)) => {
            let field = match requested {
                RequestedPlan::Tier(_) => "requested_tier",
                RequestedPlan::Custom(_) => "requested_plan",
            };
            return Err(ActionError::named(field, "is for tickets of the category `limit_increase`"));
        }
    };
    if new.category == TicketCategory::LimitIncrease {
        if !Permission::RequestLimits.is_granted_to(actor.user.role) {
            return Err(ActionError::Forbidden("your role does not permit this"));
        }
        if !actor.covers(Permission::RequestLimits) {
            return Err(ActionError::Refused(ErrorCode::ScopeMissing, SCOPE_MISSING));
        }
    }
    let entry = request
        .as_ref()
        .map(|(request, name)| actor.entry(Some(tenant), ("limit_request.created", request.id, name), now));
    let link = match (&request, &entry) {
        (Some((request, _)), Some(entry)) => Some(TicketLimitRequest::New(request, entry)),
        _ if new.category == TicketCategory::LimitIncrease => Some(TicketLimitRequest::Pending),
        _ => None,
    };
    let event = ("ticket.created", ticket.id, ticket.category);
    let store = actor.audited_store(&app.store, Some(tenant), event, now);
    let max_open = app.settings.config.admin.tickets.open;
    match store.create_ticket(ticket, link, max_open).await {
        Ok(ticket) => {
            notify_operators(app, &ticket, "A support ticket was written").await;
            Ok(ticket)
        }
        Err(StoreError::NotFound("pending limit request")) => Err(ActionError::named(
            "requested_tier",
            "is missing: no limit request is pending to which the ticket could belong",
        )),
        Err(StoreError::Taken { what: "pending limit request", .. }) => {
            let text = "a limit request is pending already";
            Err(ActionError::Refused(ErrorCode::LimitRequestPending, text))
        }
        Err(error) => Err(error.into()),
    }
}

fn limit_request(ticket: &SupportTicket, plan: TenantPlan) -> LimitRequest {
    LimitRequest {
        id: LimitRequestId(fresh_id(ticket.created_at)),
        tenant: ticket.tenant,
        user: ticket.user,
        requested_tier: plan.tier,
        custom_plan: plan.custom,
        reason: ticket.text.chars().take(text::MAX_PROSE).collect(),
        status: RequestStatus::Pending,
        note: None,
        created_at: ticket.created_at,
        reviewed_at: None,
        reviewer: None,
    }
}

/// Lists at most `limit` of the tenant's tickets that match `filter`, the newest first, after the position `before`.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(
    app: &AppState,
    actor: &Actor,
    filter: TicketFilter,
    before: Option<(Time, TicketId)>,
    limit: u64,
) -> Result<Vec<SupportTicket>, ActionError> {
    Ok(app.store.tickets(actor.tenant()?, filter, before, limit).await?)
}

/// Returns one of the tenant's tickets.
///
/// # Errors
/// [`ActionError::NotFound`] for a ticket that is not the tenant's.
pub async fn get(app: &AppState, actor: &Actor, id: TicketId) -> Result<SupportTicket, ActionError> {
    app.store.ticket(actor.tenant()?, id).await?.ok_or(UNKNOWN)
}

/// Closes a ticket.
///
/// # Errors
/// [`ActionError::NotFound`] for a ticket that is not the tenant's, [`ActionError::Conflict`] if it is closed already.
pub async fn close(app: &AppState, actor: &Actor, id: TicketId) -> Result<SupportTicket, ActionError> {
    let tenant = actor.tenant()?;
    let now = app.now();
    let store = actor.audited_store(&app.store, Some(tenant), ("ticket.closed", id, ""), now);
    Ok(store.close_ticket(tenant, id, now).await?)
}

/// Reopens a closed ticket.
///
/// # Errors
/// [`ActionError::NotFound`] for a ticket that is not the tenant's, [`ActionError::Conflict`] if it is not closed,
/// [`ActionError::Full`] if the tenant has too many tickets that are not closed.
pub async fn reopen(app: &AppState, actor: &Actor, id: TicketId) -> Result<SupportTicket, ActionError> {
    let tenant = actor.tenant()?;
    let now = app.now();
    let max_open = app.settings.config.admin.tickets.open;
    let store = actor.audited_store(&app.store, Some(tenant), ("ticket.reopened", id, ""), now);
    let ticket = store.reopen_ticket(tenant, id, max_open, now).await?;
    notify_operators(app, &ticket, "A support ticket was reopened").await;
    Ok(ticket)
}

/// Rates the support on a closed ticket from 1 to 5, once after each closing.
///
/// # Errors
/// [`ActionError::NotFound`] for a ticket that is not the tenant's, [`ActionError::Invalid`] for an invalid rating or
/// text, [`ActionError::Conflict`] if the ticket is not closed or has been rated already.
pub async fn rate(
    app: &AppState,
    actor: &Actor,
    id: TicketId,
    rating: u8,
    text: Option<&str>,
) -> Result<SupportTicket, ActionError> {
    if !(1..=5).contains(&rating) {
        return Err(ActionError::named("rating", "must be a whole number from 1 to 5"));
    }
    let tenant = actor.tenant()?;
    let now = app.now();
    let text = text.map(|text| text::prose("text", text)).transpose()?;
    let satisfaction = Satisfaction { rating, text, rated_at: now };
    let store = actor.audited_store(&app.store, Some(tenant), ("ticket.rated", id, rating), now);
    Ok(store.rate_ticket(tenant, id, &satisfaction).await?)
}

/// Mails `news` of a ticket that waits for an answer to the addresses in `admin.tickets.mail_to`, a few times in a
/// quarter of an hour for each tenant. The ticket waits in any case, so an error is only logged.
pub(super) async fn notify_operators(app: &AppState, ticket: &SupportTicket, news: &str) {
    if let Err(error) = mail_operators(app, ticket, news).await {
        tracing::warn!(%error, ticket = %ticket.id, "operators could not be notified about a ticket");
    }
}

async fn mail_operators(app: &AppState, ticket: &SupportTicket, news: &str) -> Result<(), ActionError> {
    let addresses = &app.settings.config.admin.tickets.mail_to;
    let now = app.now();
    if addresses.is_empty() {
        return Ok(());
    }
    let counted = AttemptKind::TicketMails(ticket.tenant);
    if let Attempt::Locked(_) = app.store.begin_attempt(counted, now).await? {
        return Ok(());
    }
    for address in addresses {
        let to = mail::address(address).map_err(|error| ActionError::Broken(error.to_string()))?;
        app.mails.send(&Mail::ticket_waits(to, news, ticket, &app.settings.api_url), now).await?;
    }
    Ok(())
}

/// Mails the author of a ticket that an operator has answered it or, without an `answer`, closed it. An author who has
/// left the tenant gets no mail.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub(super) async fn notify_author(
    app: &AppState,
    ticket: &SupportTicket,
    answer: Option<&str>,
    now: Time,
) -> Result<(), ActionError> {
    let author = app.store.member(ticket.tenant, ticket.user).await?;
    let Some(author) = author.filter(|author| author.confirmed_at.is_some()) else { return Ok(()) };
    let to = mail::address(&author.email).map_err(|error| ActionError::Broken(error.to_string()))?;
    let dash_url = &app.settings.dash_url;
    let mail = match answer {
        Some(text) => Mail::ticket_answered(to, dash_url, ticket, text),
        None => Mail::ticket_closed(to, dash_url, ticket),
    };
    app.mails.send(&mail, now).await.map_err(ActionError::from)
}
