//! Tests of the routes and of their description.

mod entry;
pub(crate) mod lists;
mod mail_objects;
mod matrix;
mod resealing;
mod security_mails;
mod tokens;

use super::*;
use crate::testing::Site;
use crate::testing::fixtures::error_body;
use axum::body::Body;
use http::{Method, StatusCode};
use openapiv3::{OpenAPI, Operation, ReferenceOr};
use rpcgate_management::error::ErrorCode;
use rpcgate_store::Role;
use serde_json::{Value, json};
use std::collections::BTreeSet;

async fn document(site: &Site) -> Value {
    site.ask(None, Method::GET, OPENAPI, Body::empty()).await.body
}

fn operations(document: &OpenAPI) -> Vec<(&str, &str, &Operation)> {
    document.operations().collect()
}

#[tokio::test]
async fn the_document_is_valid_and_describes_every_operation_for_clients() {
    let site = Site::new().await;
    let value = document(&site).await;
    let document: OpenAPI = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(document.openapi, "3.0.3");
    assert_eq!(document.servers[0].url, "http://127.0.0.1:8081");
    let schemes = &document.components.as_ref().unwrap().security_schemes;
    assert!(schemes.contains_key("bearer"));
    let all = operations(&document);
    assert!(all.len() >= 3, "{}", all.len());
    let mut ids = BTreeSet::new();
    for (path, method, operation) in all {
        let route = format!("{method} {path}");
        assert!(path.starts_with("/api/v1/"), "{route}");
        let described = value["paths"][path][method]["parameters"].as_array().into_iter().flatten();
        let described: BTreeSet<_> = described
            .filter(|parameter| parameter["in"] == "path" && parameter["description"] != "")
            .filter_map(|parameter| parameter["name"].as_str())
            .collect();
        let named = path.split('}').filter_map(|part| Some(part.split_once('{')?.1)).collect();
        assert_eq!(described, named, "{route}");
        let id = operation.operation_id.as_deref().unwrap_or_default();
        assert!(
            !id.is_empty() && ids.insert(id.to_owned()),
            "{route}: operationId {id:?} is missing or taken"
        );
        assert!(operation.summary.as_ref().is_some_and(|text| !text.is_empty()), "{route}: no summary");
        assert!(!operation.tags.is_empty(), "{route}: no tag");
        let least = operation.extensions.get("x-least-role").and_then(Value::as_str);
        let least = least.unwrap_or_else(|| panic!("{route}: no least role"));
        let needs_token = operation.security.as_ref().is_some_and(|schemes| !schemes.is_empty());
        assert_eq!(needs_token, least != "none", "{route}");
        let statuses: Vec<_> = operation.responses.responses.keys().map(ToString::to_string).collect();
        assert!(statuses.iter().any(|status| status.starts_with('2')), "{route}: {statuses:?}");
        assert!(statuses.iter().any(|status| status.starts_with('4')), "{route}: {statuses:?}");
        // Operations without a token may authenticate the client in another way.
        assert!(least == "none" || statuses.contains(&"401".to_owned()), "{route}: {statuses:?}");
        for (status, answer) in &operation.responses.responses {
            let ReferenceOr::Item(answer) = answer else { panic!("{route}: {status} is a reference") };
            assert!(!answer.description.is_empty(), "{route}: {status} has no description");
        }
    }
    let mut references = Vec::new();
    find_references(&value, &mut references);
    assert!(references.iter().any(|reference| reference.ends_with("/Plan")), "{references:?}");
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(value.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

// Shows (Management).
#[tokio::test]
async fn the_document_lists_every_code_of_an_error_with_its_meaning() {
    let document = document(&Site::new().await).await;
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["Error"]["required"], json!(["error", "code"]));
    let words: Vec<_> = ErrorCode::ALL.iter().map(|code| json!(code)).collect();
    assert_eq!(schemas["ErrorCode"]["enum"], json!(words));
    let description = schemas["ErrorCode"]["description"].as_str().unwrap();
    for code in ErrorCode::ALL {
        let line = format!(" ({}): {}", code.status().as_u16(), code.meaning());
        assert!(description.contains(&line), "{code:?}: {description}");
    }
}

// Shows (Management).
#[tokio::test]
async fn the_document_states_when_temporary_refusals_may_be_retried() {
    let value = document(&Site::new().await).await;
    let document: OpenAPI = serde_json::from_value(value).unwrap();
    for (path, method, operation) in operations(&document) {
        for (status, answer) in &operation.responses.responses {
            let ReferenceOr::Item(answer) = answer else { panic!("{method} {path}") };
            let passes = matches!(status.to_string().as_str(), "429" | "503");
            assert_eq!(answer.headers.contains_key("Retry-After"), passes, "{method} {path}: {status}");
        }
        for status in [429, 503] {
            let status = openapiv3::StatusCode::Code(status);
            assert!(operation.responses.responses.contains_key(&status), "{method} {path}: {status}");
        }
    }
}

fn find_references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| find_references(value, found)),
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|value| find_references(value, found));
        }
        _ => {}
    }
}

// Shows (Management).
#[tokio::test]
async fn the_document_has_nothing_of_openapi_3_1() {
    fn check(value: &Value, at: &str) {
        match value {
            Value::Array(values) => values.iter().for_each(|value| check(value, at)),
            Value::Object(members) => {
                for (name, member) in members {
                    let pointer = format!("{at}/{name}");
                    assert!(!(name == "type" && member.is_array()), "{pointer}");
                    assert!(!(name == "type" && member == "null"), "{pointer}");
                    assert!(!(name == "$ref" && members.len() > 1), "{pointer} has siblings");
                    assert!(!matches!(name.as_str(), "const" | "propertyNames" | "prefixItems"), "{pointer}");
                    check(member, &pointer);
                }
            }
            _ => {}
        }
    }
    let site = Site::new().await;
    check(&document(&site).await, "#");
}

// Shows (Management): The OpenAPI 3.0 document and its browser.
// Shows (Management): The API browser works below a path of another host.
#[tokio::test]
async fn the_document_is_served_where_clients_look_for_it_and_can_be_browsed() {
    let site = Site::new().await;
    let below = site.ask(None, Method::GET, "/api/v1/openapi.json", Body::empty()).await;
    assert_eq!(below.headers[CONTENT_TYPE], "application/json");
    assert_eq!(below.body, document(&site).await);
    let page = site.ask(None, Method::GET, "/swagger/", Body::empty()).await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.headers[CONTENT_TYPE].to_str().unwrap().starts_with("text/html"));
    let moved = site.ask(None, Method::GET, "/swagger", Body::empty()).await;
    assert_eq!(
        (moved.status, &moved.headers[http::header::LOCATION]),
        (StatusCode::SEE_OTHER, &"swagger/".parse().unwrap())
    );
    for path in ["/swagger/", "/swagger", "/swagger/swagger-ui-bundle.js", "/swagger/nothing.js"] {
        let answer = site.ask(None, Method::GET, path, Body::empty()).await;
        let policy = answer.headers[http::header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
            "{path}: {policy}"
        );
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
    }
    // The policy requires scripts and styles in separate files.
    let text = site.text("/swagger/").await;
    assert_eq!(text.matches("<script").count(), text.matches("<script src=\"./").count(), "{text}");
    assert!(!text.contains("<style"), "{text}");
    let start = site.text("/swagger/swagger-initializer.js").await;
    assert!(start.contains("\"../openapi.json\""), "from where the page is: {start}");
}

#[tokio::test]
async fn unknown_paths_and_methods_are_answered_in_json() {
    let site = Site::new().await;
    for path in [
        "/index",
        "/static/",
        "/static/nothing",
        "/swagger/nothing.js",
        "/api/v1",
        "/api/v1/",
        "/api/v1/plans/",
        "/api/v2/plans",
        "/nothing",
    ] {
        let answer = site.ask(None, Method::GET, path, Body::empty()).await;
        assert_eq!(
            (answer.status, answer.body),
            (StatusCode::NOT_FOUND, error_body("not_found", "path not found")),
            "{path}"
        );
    }
    for path in ["/api/v1/plans", "/openapi.json", "/healthz"] {
        let answer = site.ask(None, Method::DELETE, path, Body::empty()).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        assert_eq!(answer.body, error_body("method_not_allowed", "method not allowed"));
        assert_eq!(answer.headers[http::header::ALLOW], "GET,HEAD", "{path}");
    }
}

#[tokio::test]
async fn the_catalog_is_shown_to_every_logged_in_user() {
    let site = Site::of("[chains.eth]\nnodes = [\"http://127.0.0.1:1/\"]\n").await;
    let visitor = site.member(Role::Viewer).await;
    let get = async |path| site.ask(Some(&visitor), Method::GET, path, Body::empty()).await.body;
    let plans = get("/api/v1/plans").await;
    assert_eq!(plans.as_array().unwrap().len(), 4);
    assert_eq!(
        plans[1],
        json!({"name": "standard", "tier": "standard", "per_minute": 50, "per_hour": 2500, "per_day": 50000,
            "price_per_cu": 0.001, "cu_per_day": 100_000, "cu_per_month": null, "rps_limit": null, "monthly_fee_cents": 0})
    );
    let chains = get("/api/v1/chains").await;
    assert_eq!(
        chains[0],
        json!({"name": "eth", "title": "Ethereum", "aliases": ["ethereum"], "transports": ["http", "ws"],
            "batch": true, "enabled": true, "served": true})
    );
    assert_eq!(chains[1]["served"], false, "it has no node");
    let roles = get("/api/v1/roles").await;
    assert_eq!(roles[0]["name"], "viewer");
    assert_eq!(roles[0]["permissions"], json!(["read"]));
    for path in ["/api/v1/plans", "/api/v1/chains", "/api/v1/roles"] {
        assert_eq!(site.ask(None, Method::GET, path, Body::empty()).await.status, StatusCode::UNAUTHORIZED);
        let operator = site.operator().await;
        assert_eq!(site.ask(Some(&operator), Method::GET, path, Body::empty()).await.status, StatusCode::OK);
    }
}

// Shows (Management): Health of the management side needs no key.
#[tokio::test]
async fn readiness_requires_a_database() {
    let site = Site::new().await;
    let get = async |path| {
        let answer = site.ask(None, Method::GET, path, Body::empty()).await;
        (answer.status, answer.body)
    };
    assert_eq!(get("/readyz").await, (StatusCode::OK, json!({"status": "ok"})));
    site.app.close().await;
    let unready = json!({"status": "unready", "reason": "the database does not answer"});
    assert_eq!(get("/readyz").await, (StatusCode::SERVICE_UNAVAILABLE, unready));
    assert_eq!(get("/healthz").await, (StatusCode::OK, json!({"status": "ok"})));
}
