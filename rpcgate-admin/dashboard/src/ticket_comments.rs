//! Comments on a ticket.

use super::context::{PageContext, PageResult};
use super::form::FieldList;
use super::outcome::Done;
use super::tickets::shown;
use axum::Router;
use axum::extract::State;
use rpcgate_management::action::ticket_comments;
use rpcgate_management::app_state::AppState;
use rpcgate_management::extract::Id;
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::post;
use rpcgate_store::TicketId;
use std::sync::Arc;

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/support/{id}/comments", post(create))
}

async fn create(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<TicketId>,
    fields: FieldList,
) -> PageResult {
    page.permitted(Permission::ManageTickets)?;
    match ticket_comments::create(&app, &page.actor, id, fields.one("text")).await {
        Ok(_) => Ok(page.done(&format!("support/{id}"), Done::CommentAdded)),
        Err(error) => shown(&app, &page, id, fields.one("text"), Some(error)).await,
    }
}
