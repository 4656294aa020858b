//! Routes of support tickets.

use super::limit_requests::requested;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Id, Query};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest, time_cursor};
use rpcgate_management::shape::tickets::{
    NewSatisfaction, NewTicketJson, TicketCategoryJson, TicketJson, TicketStatusJson,
};
use rpcgate_store::TicketId;
use serde::Deserialize;
use std::sync::Arc;

/// The filter of tickets.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct TicketQuery {
    /// Only tickets with this status.
    pub status: Option<TicketStatusJson>,
    /// Only tickets of this category.
    pub category: Option<TicketCategoryJson>,
}

impl From<TicketQuery> for rpcgate_store::TicketFilter {
    fn from(TicketQuery { status, category }: TicketQuery) -> Self {
        rpcgate_store::TicketFilter { status: status.map(Into::into), category: category.map(Into::into) }
    }
}

/// Write a support ticket
///
/// Operators answer tickets; the author is notified by mail. A tenant can have a limited number of tickets that are not
/// closed, 50 by default. The newest 1,000 of its closed tickets are kept. A ticket of the category `limit_increase` is
/// linked to a request for another plan and answered with the decision about it.
#[utoipa::path(post, path = "/support/tickets", operation_id = "create_ticket", tag = "support",
    request_body = NewTicketJson,
    responses((status = 201, description = "The ticket.", body = TicketJson),
        (status = 403, description = "The role does not permit this, or the e-mail address is not confirmed."),
        (status = 409, description = "Too many tickets are not closed, or a request for another plan is pending.")))]
pub async fn create(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Body(new): Body<NewTicketJson>,
) -> Result<(StatusCode, Json<TicketJson>), ActionError> {
    let NewTicketJson { category, subject, text, requested_tier, requested_plan } = new;
    let requested = requested(requested_tier, requested_plan)?;
    let new = action::tickets::NewTicket { category: category.into(), subject, text, requested };
    let ticket = action::tickets::create(&app, &actor, new).await?;
    Ok((StatusCode::CREATED, Json(ticket.into())))
}

/// List the support tickets
///
/// Newest first.
#[utoipa::path(get, path = "/support/tickets", operation_id = "list_tickets", tag = "support",
    params(("status" = Option<TicketStatusJson>, Query, description = "Only tickets with this status."),
        ("category" = Option<TicketCategoryJson>, Query, description = "Only tickets of this category."), Page),
    responses((status = 200, description = "The tenant's tickets.", body = [TicketJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    actor: Actor,
    Query(query): Query<TicketQuery>,
) -> Result<ListPage<TicketJson>, ActionError> {
    let before = page.time_cursor()?;
    let tickets = action::tickets::list(&app, &actor, query.into(), before, page.limit).await?;
    let page = page.cut(tickets, |last| time_cursor(last.created_at, last.id));
    Ok(page.map(TicketJson::from))
}

/// Read a support ticket
#[utoipa::path(get, path = "/support/tickets/{id}", operation_id = "get_ticket", tag = "support",
    responses((status = 200, description = "The ticket.", body = TicketJson)))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<TicketId>,
) -> Result<Json<TicketJson>, ActionError> {
    Ok(Json(action::tickets::get(&app, &actor, id).await?.into()))
}

/// Close a support ticket
#[utoipa::path(post, path = "/support/tickets/{id}/close", operation_id = "close_ticket", tag = "support",
    responses((status = 200, description = "The ticket as it is now.", body = TicketJson),
        (status = 409, description = "It is closed already.")))]
pub async fn close(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<TicketId>,
) -> Result<Json<TicketJson>, ActionError> {
    Ok(Json(action::tickets::close(&app, &actor, id).await?.into()))
}

/// Reopen a support ticket
///
/// It waits for the operators again.
#[utoipa::path(post, path = "/support/tickets/{id}/reopen", operation_id = "reopen_ticket", tag = "support",
    responses((status = 200, description = "The ticket as it is now.", body = TicketJson),
        (status = 409, description = "It is not closed, or too many other tickets are not closed.")))]
pub async fn reopen(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<TicketId>,
) -> Result<Json<TicketJson>, ActionError> {
    Ok(Json(action::tickets::reopen(&app, &actor, id).await?.into()))
}

/// Rate the support on a ticket
///
/// Once after each closing of the ticket. A later rating replaces the previous one.
#[utoipa::path(post, path = "/support/tickets/{id}/csat", operation_id = "rate_ticket", tag = "support",
    request_body = NewSatisfaction,
    responses((status = 200, description = "The ticket as it is now.", body = TicketJson),
        (status = 409, description = "It is not closed, or has been rated since it was closed.")))]
pub async fn rate(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<TicketId>,
    Body(NewSatisfaction { rating, text }): Body<NewSatisfaction>,
) -> Result<Json<TicketJson>, ActionError> {
    Ok(Json(action::tickets::rate(&app, &actor, id, rating, text.as_deref()).await?.into()))
}

#[cfg(test)]
pub(crate) mod tests;
