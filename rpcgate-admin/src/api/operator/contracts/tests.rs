use crate::testing::{ApiAnswer, NOON, Site, Visitor};
use axum::body::Body;
use http::header::{AUTHORIZATION, ETAG, IF_MATCH};
use http::{Method, StatusCode};
use rpcgate_core::caller::{ProjectId, ProjectQuota};
use rpcgate_store::{AuditSubject, Project, Role, fresh_id};
use serde_json::{Value, json};
use std::time::Duration;

async fn ask(site: &Site, visitor: &Visitor, method: Method, path: &str, body: &Value) -> ApiAnswer {
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    site.ask(Some(visitor), method, &format!("/api/v1{path}"), body).await
}

async fn shown(site: &Site, visitor: &Visitor, path: &str) -> Value {
    let answer = ask(site, visitor, Method::GET, path, &Value::Null).await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.body);
    answer.body
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_contract_shows_in_the_limits_of_the_tenant_while_it_is_in_force() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let tenant = owner.user.tenant.unwrap();
    let path = format!("/operator/tenants/{tenant}/contracts");
    let form = json!({"figures": {"limits": {"per_minute": 77, "price_per_cu": 0.25}, "monthly_fee_cents": 900},
        "from": "2026-12-31T12:00:10.000Z", "until": "2026-12-31T12:00:20.000Z", "note": "2027-44"});
    let made = ask(&site, &operator, Method::POST, &path, &form).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
    let expected = json!({"id": made.body["id"], "tenant_id": tenant.to_string(),
        "figures": {"limits": {"per_minute": 77, "price_per_cu": 0.25}, "monthly_fee_cents": 900},
        "from": "2026-12-31T12:00:10.000Z", "until": "2026-12-31T12:00:20.000Z", "note": "2027-44",
        "created_at": "2026-12-31T12:00:00.000Z"});
    assert_eq!(made.body, expected);
    assert_eq!(shown(&site, &operator, &path).await, json!([expected]));
    let one = format!("{path}/{}", made.body["id"].as_str().unwrap());
    assert_eq!(shown(&site, &operator, &one).await, expected);
    assert_eq!(shown(&site, &owner, &format!("/tenants/{tenant}/contracts")).await, json!([expected]));
    for (second, per_minute, fee) in [(0, 10, 0), (10, 77, 900), (19, 77, 900), (20, 10, 0)] {
        site.clock.set(NOON.plus(Duration::from_secs(second)));
        let usage = shown(&site, &owner, "/usage").await;
        assert_eq!(usage["limits"]["requests_per_minute"], json!(per_minute), "{second}");
        let plan = &shown(&site, &owner, &format!("/tenants/{tenant}/billing")).await["plan"];
        assert_eq!(plan["monthly_fee_cents"], json!(fee), "{second}");
    }
    let entry = &site.app.store.audit(AuditSubject::Tenant(tenant), 1).await.unwrap()[0];
    assert_eq!(entry.action, "contract.created");
    let detail = "per_minute 77, price_per_cu 0.25, monthly_fee_cents 900, until 2026-12-31T12:00:20Z";
    assert_eq!(entry.detail, detail);
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn the_default_quota_of_a_contract_is_that_of_projects_without_one_of_their_own() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let tenant = owner.user.tenant.unwrap();
    let now = site.app.now();
    let mut projects = Vec::new();
    for name in ["one", "two"] {
        let id = ProjectId(fresh_id(now));
        let project = Project::new(id, tenant, name, now);
        site.app.store.create_project(&project).await.unwrap();
        projects.push(id);
    }
    let own = ProjectQuota { cu_per_day: 5, has_row: true, ..ProjectQuota::default() };
    site.app.store.put_quota(projects[1], &own, now).await.unwrap();
    let form = json!({"figures": {"default_quota": {"cu_per_day": 700, "rps_limit": u64::MAX}}});
    let path = format!("/operator/tenants/{tenant}/contracts");
    let made = ask(&site, &operator, Method::POST, &path, &form).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
    for (project, cu_per_day, rps, has_row) in
        [(projects[0], 700, json!(u64::MAX), false), (projects[1], 5, Value::Null, true)]
    {
        for (visitor, path) in [(&owner, "/projects/{}/quota"), (&operator, "/operator/projects/{}/quota")] {
            let quota = shown(&site, visitor, &path.replace("{}", &project.to_string())).await;
            let expected = json!({"project_id": project.to_string(), "cu_per_day": cu_per_day,
                "cu_per_month": null, "rps_limit": rps, "has_quota_row": has_row});
            assert_eq!(quota, expected);
        }
    }
    let usage = shown(&site, &owner, "/usage").await;
    assert_eq!(usage["limits"]["cu_per_day"], json!(705));
}

#[tokio::test]
async fn a_contract_is_checked_and_ends_on_request() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let path = format!("/operator/tenants/{}/contracts", owner.user.tenant.unwrap());
    for (form, field) in [
        (json!({}), "figures"),
        (json!({"figures": {}}), "figures"),
        (json!({"figures": {"limits": {}, "default_quota": {}}}), "figures"),
        (json!({"figures": {"limits": {"per_minute": 0}}}), "per_minute"),
        (json!({"figures": {"tier": "free"}}), "figures"),
        (json!({"figures": {"limits": {"tier": "free"}}}), "figures"),
        (json!({"figures": {"limits": [1, 2]}}), "figures"),
        (json!({"figures": {"limits": {"projects": 1_000_001}}}), "projects"),
        (json!({"figures": {"limits": {"price_per_cu": -1}}}), "price_per_cu"),
        (json!({"figures": {"default_quota": {"cu_per_day": -1}}}), "figures"),
        (json!({"figures": {"monthly_fee_cents": 100_000_001}}), "monthly_fee_cents"),
        (json!({"figures": {"monthly_fee_cents": 1}, "until": "2026-12-31T12:00:00.000Z"}), "until"),
        (
            json!({"figures": {"monthly_fee_cents": 1}, "from": "2027-01-02T00:00:00.000Z", "until": "2027-01-01T00:00:00.000Z"}),
            "until",
        ),
    ] {
        let refused = ask(&site, &operator, Method::POST, &path, &form).await;
        let expected = (StatusCode::BAD_REQUEST, &json!(field));
        assert_eq!((refused.status, &refused.body["field"]), expected, "{form}: {}", refused.body);
    }
    let form = json!({"figures": {"limits": {"per_minute": 5}}});
    let unknown = "/operator/tenants/0190163d-8694-739b-aea5-966c26f8ad91/contracts";
    assert_eq!(ask(&site, &operator, Method::POST, unknown, &form).await.status, StatusCode::NOT_FOUND);
    assert_eq!(ask(&site, &operator, Method::GET, unknown, &Value::Null).await.status, StatusCode::NOT_FOUND);
    let made = ask(&site, &operator, Method::POST, &path, &form).await.body;
    let one = format!("{path}/{}", made["id"].as_str().unwrap());
    site.clock.advance(Duration::from_secs(5));
    let ended = ask(&site, &operator, Method::DELETE, &one, &Value::Null).await;
    assert_eq!(ended.status, StatusCode::NO_CONTENT);
    let listed = shown(&site, &operator, &path).await;
    assert_eq!(listed[0]["until"], "2026-12-31T12:00:05.000Z");
    assert!(site.app.store.terms(owner.user.tenant.unwrap(), site.app.now()).await.unwrap().is_empty());
    for (method, form) in
        [(Method::DELETE, Value::Null), (Method::PUT, json!({"until": "2100-01-01T00:00:00.000Z"}))]
    {
        let again = ask(&site, &operator, method, &one, &form).await;
        let refusal = (again.status, again.body["error"].as_str().unwrap());
        assert_eq!(refusal, (StatusCode::CONFLICT, "the contract has ended"));
    }
}

// Shows (Plans, bills and payments): Contracts have versions, are bounded, and are never changed for the past.
#[tokio::test]
async fn only_an_operator_who_has_seen_a_contract_moves_its_end() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let path = format!("/operator/tenants/{}/contracts", owner.user.tenant.unwrap());
    let form = json!({"figures": {"limits": {"per_minute": 5}}, "from": "2027-01-01T00:00:00.000Z"});
    let made = ask(&site, &operator, Method::POST, &path, &form).await.body;
    let one = format!("{path}/{}", made["id"].as_str().unwrap());
    let tag = ask(&site, &operator, Method::GET, &one, &Value::Null).await.headers[ETAG].clone();
    let conditional = async |method: Method, body: &Value| {
        let request = http::Request::builder().method(method).uri(format!("/api/v1{one}"));
        let request = request.header(AUTHORIZATION, format!("Bearer {}", operator.token));
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        site.send(request.header(IF_MATCH, &tag).body(body).unwrap()).await
    };
    let moved = conditional(Method::PUT, &json!({"until": "2027-02-01T00:00:00.000Z"})).await;
    assert_eq!((moved.status, &moved.body["until"]), (StatusCode::OK, &json!("2027-02-01T00:00:00.000Z")));
    for (method, body) in [(Method::PUT, json!({"until": null})), (Method::DELETE, Value::Null)] {
        let refused = conditional(method, &body).await;
        assert_eq!(refused.status, StatusCode::PRECONDITION_FAILED, "{}", refused.body);
    }
    let endless = ask(&site, &operator, Method::PUT, &one, &json!({"until": null})).await;
    assert_eq!((endless.status, &endless.body["until"]), (StatusCode::OK, &Value::Null));
    for (until, status) in [("2026-12-31T11:00:00.000Z", 400), ("2026-12-31T13:00:00.000Z", 409)] {
        let refused = ask(&site, &operator, Method::PUT, &one, &json!({"until": until})).await;
        assert_eq!(refused.status.as_u16(), status, "before now, or before it begins: {}", refused.body);
    }
    let gone = ask(&site, &operator, Method::DELETE, &one, &Value::Null).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    assert_eq!(shown(&site, &operator, &path).await, json!([]), "it had not begun");
}
