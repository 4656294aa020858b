//! Routes of what-if questions: hypothetical weights and plans.

use axum::Json;
use axum::extract::State;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Body;
use rpcgate_management::shape::operator::what_if::{WhatIfAnswerJson, WhatIfJson};
use std::sync::Arc;

/// Ask what other weights or plans would have meant
///
/// Computes from the usage of the last 30 days what each tenant would have paid, and how much would have been refused.
/// Changes nothing. One question of an operator is answered at a time. An answer that would take longer than 30 seconds
/// is aborted with 503: ask about less.
#[utoipa::path(post, path = "/operator/what-if", operation_id = "operator_what_if", tag = "operator",
    request_body = WhatIfJson,
    responses((status = 200, description = "The answer.", body = WhatIfAnswerJson)))]
pub async fn ask(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Body(question): Body<WhatIfJson>,
) -> Result<Json<WhatIfAnswerJson>, ActionError> {
    Ok(Json(action::operator::what_if::ask(&app, &actor, &question.question()?).await?.into()))
}

#[cfg(test)]
mod tests;
