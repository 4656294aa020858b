//! Weights of methods in Compute Units.

use crate::management::action;
use crate::management::action::actor::Actor;
use crate::management::action::versions::current;
use crate::management::api::etag::Tagged;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::{Body, PathParams};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// The weight of a method.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Weight)]
pub struct WeightJson {
    /// The chain.
    #[schema(example = "btc")]
    pub chain: String,
    /// The method.
    pub method: String,
    /// Compute Units of a call, as in force.
    pub cu: u32,
    /// Whether an operator has set it.
    pub is_set: bool,
}

impl From<action::operator::weights::Weight> for WeightJson {
    fn from(weight: action::operator::weights::Weight) -> Self {
        let action::operator::weights::Weight { chain, method, cu, is_set } = weight;
        WeightJson { chain: chain.to_owned(), method, cu, is_set }
    }
}

/// A new weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWeight {
    /// Compute Units of a call.
    pub cu: u32,
}

/// Read the weight of a method
///
/// The weight that operators set, or else the deployed one.
#[utoipa::path(get, path = "/operator/cu-weights/{chain}/{method}", operation_id = "operator_get_weight",
    tag = "operator",
    params(("chain" = String, Path, description = "The chain's path."),
        ("method" = String, Path, description = "The method, percent-encoded.")),
    responses((status = 200, description = "The weight.", body = WeightJson,
        headers(("ETag" = String, description = "The version, for `If-Match`."))),
        (status = 400, description = "No method can have this name.")))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    PathParams((chain, method)): PathParams<(String, String)>,
) -> Result<Tagged<WeightJson>, ActionError> {
    let version = current(&app, action::operator::weights::versioned(&chain, &method)?).await?;
    Ok(Tagged::new(version, action::operator::weights::get(&app, &chain, &method).await?.into()))
}

/// Set the weight of a method
///
/// Gateways apply it within a second.
#[utoipa::path(put, path = "/operator/cu-weights/{chain}/{method}", operation_id = "operator_put_weight",
    tag = "operator",
    params(("chain" = String, Path, description = "The chain's path."),
        ("method" = String, Path, description = "The method, percent-encoded."),
        ("If-Match" = Option<String>, Header, pattern = r#"^(\*|"[!#-~]*")$"#,
            description = "The `ETag` of the version that is to be changed.")),
    request_body = NewWeight,
    responses((status = 200, description = "The weight.", body = WeightJson)))]
pub async fn put(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    PathParams((chain, method)): PathParams<(String, String)>,
    Body(NewWeight { cu }): Body<NewWeight>,
) -> Result<Json<WeightJson>, ActionError> {
    Ok(Json(action::operator::weights::put(&app, &actor, &chain, &method, cu).await?.into()))
}

/// Delete the weight that was set for a method
///
/// The deployed weight holds again.
#[utoipa::path(delete, path = "/operator/cu-weights/{chain}/{method}", operation_id = "operator_delete_weight",
    tag = "operator",
    params(("chain" = String, Path, description = "The chain's path."),
        ("method" = String, Path, description = "The method, percent-encoded."),
        ("If-Match" = Option<String>, Header, pattern = r#"^(\*|"[!#-~]*")$"#,
            description = "The `ETag` of the version that is to be changed.")),
    responses((status = 204, description = "The deployed weight holds again."),
        (status = 400, description = "No method can have this name.")))]
pub async fn delete(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    PathParams((chain, method)): PathParams<(String, String)>,
) -> Result<StatusCode, ActionError> {
    action::operator::weights::delete(&app, &actor, &chain, &method).await?;
    Ok(StatusCode::NO_CONTENT)
}
