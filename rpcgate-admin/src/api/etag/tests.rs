use crate::testing::fixtures::error_body;
use crate::testing::{ApiAnswer, Site, Visitor};
use axum::body::Body;
use http::header::{AUTHORIZATION, ETAG, IF_MATCH};
use http::{Method, StatusCode};
use rpcgate_store::Role;
use serde_json::{Value, json};

async fn ask(
    site: &Site,
    visitor: &Visitor,
    (method, path): (Method, &str),
    tag: Option<&str>,
    body: &Value,
) -> ApiAnswer {
    let request = http::Request::builder().method(method).uri(format!("/api/v1{path}"));
    let mut request = request.header(AUTHORIZATION, format!("Bearer {}", visitor.token));
    if let Some(tag) = tag {
        request = request.header(IF_MATCH, tag);
    }
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    site.send(request.body(body).unwrap()).await
}

async fn tag(site: &Site, visitor: &Visitor, path: &str) -> String {
    let answer = ask(site, visitor, (Method::GET, path), None, &Value::Null).await;
    assert_eq!(answer.status, StatusCode::OK, "{path} {}", answer.body);
    answer.headers[ETAG].to_str().unwrap().to_owned()
}

// Shows (Management): `ETag` and `If-Match` protect objects that several people change: it is 412 if another user
// changed the object, also at the same time.
#[tokio::test]
async fn a_change_that_expects_an_older_version_is_refused_an_unconditional_one_passes() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let colleague = site.visitor(owner.user.tenant, Role::Viewer).await;
    let tenant = owner.user.tenant.unwrap();
    let projects = format!("/tenants/{tenant}/projects");
    let made = ask(&site, &owner, (Method::POST, &projects), None, &json!({"name": "one"})).await;
    let project = made.body["id"].as_str().unwrap();
    let webhooks = format!("/projects/{project}/webhooks");
    let made = json!({"url": "https://hooks.example/"});
    let made = ask(&site, &owner, (Method::POST, &webhooks), None, &made).await;
    let webhook = made.body["id"].as_str().unwrap();
    let changed = error_body("precondition_failed", "it was changed in the meantime");
    for (visitor, path, forms) in [
        (&owner, format!("/projects/{project}"), [json!({"name": "a"}), json!({"name": "b"})]),
        (&owner, format!("/webhooks/{webhook}"), [json!({"active": false}), json!({"active": true})]),
        (&owner, format!("/tenants/{tenant}"), [json!({"name": "a"}), json!({"name": "b"})]),
        (
            &owner,
            format!("/tenants/{tenant}/members/{}", colleague.user.id),
            [json!({"role": "admin"}), json!({"role": "developer"})],
        ),
        (
            &operator,
            format!("/operator/tenants/{tenant}"),
            [json!({"tier": "premium"}), json!({"tier": "free"})],
        ),
        (
            &operator,
            format!("/operator/projects/{project}/quota"),
            [json!({"cu_per_day": 1}), json!({"cu_per_day": 2})],
        ),
        (&operator, "/operator/plans/free".into(), [json!({"per_minute": 1}), json!({"per_minute": 2})]),
        (&operator, "/operator/cu-weights/eth/eth_call".into(), [json!({"cu": 1}), json!({"cu": 2})]),
        (&operator, "/operator/chains/eth".into(), [json!({"enabled": false}), json!({"enabled": true})]),
    ] {
        let [first, second] = forms;
        let put = (Method::PUT, path.as_str());
        let old = tag(&site, visitor, &path).await;
        assert_eq!(old, tag(&site, visitor, &path).await, "{path}: reading changes nothing");
        assert_eq!(
            ask(&site, visitor, put.clone(), Some(&old), &first).await.status,
            StatusCode::OK,
            "{path}"
        );
        let refused = ask(&site, visitor, put.clone(), Some(&old), &second).await;
        assert_eq!(
            (refused.status, refused.body),
            (StatusCode::PRECONDITION_FAILED, changed.clone()),
            "{path}"
        );
        let now = tag(&site, visitor, &path).await;
        assert_ne!(now, old, "{path}");
        let either = format!("{old}, {now}");
        for condition in [Some(either.as_str()), Some("*"), None] {
            let form = if condition == Some("*") { &first } else { &second };
            assert_eq!(
                ask(&site, visitor, put.clone(), condition, form).await.status,
                StatusCode::OK,
                "{path}"
            );
        }
    }
}

// Shows (Management).
#[tokio::test]
async fn a_deletion_and_an_empty_change_have_a_condition_too() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let projects = format!("/tenants/{}/projects", owner.user.tenant.unwrap());
    let made = ask(&site, &owner, (Method::POST, &projects), None, &json!({"name": "one"})).await;
    let path = format!("/projects/{}", made.body["id"].as_str().unwrap());
    let old = tag(&site, &owner, &path).await;
    ask(&site, &owner, (Method::PUT, &path), None, &json!({"name": "two"})).await;
    for (method, body) in [(Method::DELETE, Value::Null), (Method::PUT, json!({}))] {
        let refused = ask(&site, &owner, (method, &path), Some(&old), &body).await;
        assert_eq!(refused.status, StatusCode::PRECONDITION_FAILED);
    }
    let quota = format!("/operator{path}/quota");
    let unset = tag(&site, &operator, &quota).await;
    ask(&site, &operator, (Method::PUT, &quota), Some(&unset), &json!({"cu_per_day": 1})).await;
    let refused = ask(&site, &operator, (Method::DELETE, &quota), Some(&unset), &Value::Null).await;
    assert_eq!(refused.status, StatusCode::PRECONDITION_FAILED);
    let now = tag(&site, &owner, &path).await;
    assert_eq!(ask(&site, &owner, (Method::PUT, &path), Some(&now), &json!({})).await.status, StatusCode::OK);
    let gone = ask(&site, &owner, (Method::DELETE, &path), Some(&now), &Value::Null).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    let missing = ask(&site, &owner, (Method::DELETE, &path), Some(&now), &Value::Null).await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_condition_that_is_not_a_tag_is_refused() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let path = format!("/tenants/{}", owner.user.tenant.unwrap());
    let put =
        async |tag: &str| ask(&site, &owner, (Method::PUT, &path), Some(tag), &json!({"name": "a"})).await;
    let refused = put("version 1").await;
    assert_eq!((refused.status, &refused.body["field"]), (StatusCode::BAD_REQUEST, &json!("If-Match")));
    assert_eq!(put("\"another\"").await.status, StatusCode::PRECONDITION_FAILED);
    let weak = format!("W/{}", tag(&site, &owner, &path).await);
    assert_eq!(put(&weak).await.status, StatusCode::PRECONDITION_FAILED, "a weak tag never matches");
}
