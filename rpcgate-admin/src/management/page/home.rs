//! The user's home page.

use super::notifications::Unread;
use super::session_cookie::Visitor;
use super::view::{refusal, refused, shown};
use crate::management::access::AuthSession;
use crate::management::action::actor::Actor;
use crate::management::action::tenants;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Client;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    name: String,
    email: String,
    role: &'static str,
    organisation: Option<String>,
    unread: Unread,
    is_confirmed: bool,
    has_factor: bool,
    is_sent: bool,
    problem: Option<String>,
}

/// Shows the home page.
pub(crate) async fn show(
    State(app): State<Arc<AppState>>,
    Visitor(session): Visitor,
    client: Client,
) -> Response {
    page(&app, session, &client, None).await
}

/// The home page, with the outcome of sending a mail if one was requested.
pub(super) async fn page(
    app: &AppState,
    AuthSession { user, has_second_factor, .. }: AuthSession,
    client: &Client,
    sent: Option<Result<(), ActionError>>,
) -> Response {
    let is_operator = user.is_operator();
    let actor = Actor::of_page(user, client);
    let of_tenant = if is_operator { Ok((None, Unread::default())) } else { of_tenant(app, &actor).await };
    let (organisation, unread) = match of_tenant {
        Ok(found) => found,
        Err(error) => return refusal(error),
    };
    let user = actor.user;
    let home = HomePage {
        name: user.name.clone(),
        email: user.email.clone(),
        role: user.role_name(),
        organisation,
        unread,
        is_confirmed: user.confirmed_at.is_some(),
        has_factor: has_second_factor,
        is_sent: matches!(sent, Some(Ok(()))),
        problem: None,
    };
    match sent {
        Some(Err(error)) => refused(error, |problem| HomePage { problem: Some(problem), ..home }),
        _ => shown(StatusCode::OK, &home),
    }
}

/// What a member sees of its tenant: its name and the unread notifications.
async fn of_tenant(app: &AppState, actor: &Actor) -> Result<(Option<String>, Unread), ActionError> {
    let tenants = tenants::list(app, actor).await?;
    let name = tenants.into_iter().next().map(|tenant| tenant.name);
    Ok((name, Unread::of(app, actor).await?))
}
