//! Routes for the liveness and readiness probes of the process supervisor. They need no token.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::StatusCode;
use http::header::RETRY_AFTER;
use rpcgate_management::app_state::AppState;
use serde::Serialize;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[derive(Serialize)]
struct Health {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// Handles `GET /healthz`: the process is alive.
pub(crate) async fn live() -> Response {
    Json(Health { status: "ok", reason: None }).into_response()
}

/// Handles `GET /readyz`: the process is not draining, and the database answers.
pub(crate) async fn ready(
    State(app): State<Arc<AppState>>,
    Extension(leaving): Extension<CancellationToken>,
) -> Response {
    let reason = if leaving.is_cancelled() {
        Some("draining")
    } else {
        app.store.newest_change().await.err().map(|error| {
            tracing::warn!(%error, "not ready");
            "the database does not answer"
        })
    };
    match reason {
        None => live().await,
        reason => {
            let retry = [(RETRY_AFTER, "1")];
            let health = Json(Health { status: "unready", reason });
            (StatusCode::SERVICE_UNAVAILABLE, retry, health).into_response()
        }
    }
}
