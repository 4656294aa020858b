//! Routes of versions of configurations and of operators' settings.

use axum::Json;
use axum::extract::State;
use rpcgate_management::action::operator::config_versions::{self};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{PathParams, Query};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_management::shape::operator::config_versions::{
    ConfigChangesJson, ConfigVersionJson, WholeVersionJson,
};
use rpcgate_store::ConfigVersionFilter;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// The filter of versions: a version must match all given parameters.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ConfigVersionQuery {
    /// The subject: `settings`, `tenant`, `gateway` or `management`.
    pub source: Option<String>,
    /// The tenant, the gateway, or the file of the management side.
    pub place: Option<String>,
    /// The host of the program.
    pub host: Option<String>,
}

/// List versions of configurations
///
/// The configurations that programs have accepted at a start or a reload, and the operators' settings after each
/// change. Newest first.
#[utoipa::path(get, path = "/operator/config/history", operation_id = "operator_list_config_versions",
    tag = "operator", params(ConfigVersionQuery, Page),
    responses((status = 200, description = "The versions.", body = [ConfigVersionJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    Query(ConfigVersionQuery { source, place, host }): Query<ConfigVersionQuery>,
) -> Result<ListPage<ConfigVersionJson>, ActionError> {
    let before = page.read(|cursor| cursor.parse().ok())?;
    let filter = ConfigVersionFilter { source, place, host };
    let versions = config_versions::list(&app, &filter, before, page.limit).await?;
    Ok(page.cut(versions, |one| one.version.number.to_string()).map(ConfigVersionJson::from))
}

/// Read a version of a configuration
///
/// Includes all its settings, without secrets.
#[utoipa::path(get, path = "/operator/config/history/{number}", operation_id = "operator_get_config_version",
    tag = "operator", params(("number" = u64, Path, description = "The number of the version.")),
    responses((status = 200, description = "The version.", body = WholeVersionJson)))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    PathParams(number): PathParams<u64>,
) -> Result<Json<WholeVersionJson>, ActionError> {
    Ok(Json(config_versions::get(&app, number).await?.into()))
}

/// The version to compare with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ComparedVersion {
    /// The number of the other version; the previous one by default.
    pub from: Option<u64>,
}

/// Compare two versions of a configuration
///
/// Lists each setting that differs.
#[utoipa::path(get, path = "/operator/config/history/{number}/changes",
    operation_id = "operator_compare_config_versions", tag = "operator",
    params(("number" = u64, Path, description = "The number of the version."), ComparedVersion),
    responses((status = 200, description = "What has changed.", body = ConfigChangesJson)))]
pub async fn changes(
    State(app): State<Arc<AppState>>,
    PathParams(number): PathParams<u64>,
    Query(ComparedVersion { from }): Query<ComparedVersion>,
) -> Result<Json<ConfigChangesJson>, ActionError> {
    let changes = match from {
        Some(from) => config_versions::compare(&app, from, number).await?,
        None => config_versions::get(&app, number).await?.changes.unwrap_or_default(),
    };
    Ok(Json(changes.into()))
}

#[cfg(test)]
mod tests {
    use crate::testing::{NOON, Site};
    use axum::body::Body;
    use http::{Method, StatusCode};
    use rpcgate_config::ConfigLines;
    use rpcgate_store::{AcceptedConfig, ConfigScope, Role};
    use serde_json::json;

    #[tokio::test]
    async fn operators_read_the_changes_and_members_do_not() {
        let site = Site::new().await;
        let operator = site.operator().await;
        let ask = async |path: &str| {
            let path = format!("/api/v1/operator/config/history{path}");
            site.ask(Some(&operator), Method::GET, &path, Body::empty()).await
        };
        assert_eq!(ask("").await.body, json!([]));
        for cu in [7, 9] {
            let path = "/api/v1/operator/cu-weights/eth/eth_call";
            let body = json!({ "cu": cu }).to_string();
            let done = site.ask(Some(&operator), Method::PUT, path, body).await;
            assert_eq!(done.status, StatusCode::OK, "{}", done.body);
        }
        let listed = ask("?source=settings").await.body;
        assert_eq!(listed.as_array().unwrap().len(), 3, "{listed}");
        assert_eq!(listed[0]["changed"], json!(["weights.eth.eth_call"]));
        assert_eq!(listed[0]["user_id"], operator.user.id.to_string());
        assert_eq!(listed[2]["changes"], json!(null));
        let number = listed[0]["number"].as_u64().unwrap();
        let whole = ask(&format!("/{number}")).await.body;
        assert_eq!(whole["text"], "weights.eth.eth_call = 9\n");
        let changes = ask(&format!("/{number}/changes?from={}", number - 2)).await.body;
        let expected =
            json!({"changes": [{"key": "weights.eth.eth_call", "before": null, "after": "9"}], "unknown": 0});
        assert_eq!(changes, expected);
        assert_eq!(ask(&format!("/{number}/changes")).await.body["changes"][0]["before"], "7");
        assert_eq!(ask("/999").await.status, StatusCode::NOT_FOUND);
        assert_eq!(ask("?source=gateway").await.body, json!([]));
        let owner = site.member(Role::Owner).await;
        let path = "/api/v1/operator/config/history";
        let refused = site.ask(Some(&owner), Method::GET, path, Body::empty()).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN);
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn no_secret_of_a_nodes_url_is_in_an_answer_about_versions() {
        let site = Site::new().await;
        let visitor = site.operator().await;
        let scope = ConfigScope::Gateway("one".into());
        let accept = async |text: &str| {
            let texts = vec![(String::new(), ConfigLines::parse(text).unwrap())];
            let host = "web-1".to_owned();
            let who = "web-1: rpcgate.toml".to_owned();
            let accepted =
                AcceptedConfig { scope: scope.clone(), host, who, texts, is_start: true, at: NOON };
            site.app.store.record_config(&accepted, NOON).await.unwrap()
        };
        // Earlier programs stored short keys of paths.
        let node = "chains.eth.nodes[0].url = \"https://h/v2/planted/rpc/Planted3?apikey=***\"\n\
                    chains.eth.nodes[0].user = \"planted1User\"\n";
        let first = accept("chains.eth.nodes[0].url = \"https://h/v1/planted\"\n").await;
        let second = accept(node).await;
        for path in [
            "/api/v1/operator/config/history".to_owned(),
            format!("/api/v1/operator/config/history/{second}"),
            format!("/api/v1/operator/config/history/{second}/changes?from={first}"),
        ] {
            let answer = site.ask(Some(&visitor), http::Method::GET, &path, Body::empty()).await;
            let text = answer.body.to_string();
            assert!(
                answer.status == StatusCode::OK
                    && (text.contains("chains.eth.nodes") || path.ends_with("history")),
                "{path}: {text}"
            );
            assert!(!text.to_lowercase().contains("planted"), "{path}: {text}");
        }
    }
}
