use crate::testing::{ApiAnswer, Site, Visitor};
use axum::body::Body;
use http::header::{AUTHORIZATION, ETAG, IF_MATCH};
use http::{Method, StatusCode};
use rpcgate_store::{AuditSubject, Role};
use serde_json::{Value, json};
use std::time::Duration;

const PLANS: &str = "/operator/custom-plans";

async fn ask(site: &Site, visitor: &Visitor, method: Method, path: &str, body: &Value) -> ApiAnswer {
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    site.ask(Some(visitor), method, &format!("/api/v1{path}"), body).await
}

async fn shown(site: &Site, visitor: &Visitor, path: &str) -> Value {
    let answer = ask(site, visitor, Method::GET, path, &Value::Null).await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.body);
    answer.body
}

/// Creates a plan and returns its path.
async fn made(
    site: &Site,
    operator: &Visitor,
    name: &str,
    visibility: &str,
    figures: Value,
) -> (Value, String) {
    // Plans of the same millisecond have no order.
    site.clock.advance(Duration::from_millis(5));
    let form = json!({"name": name, "base_tier": "standard", "visibility": visibility, "figures": figures});
    let made = ask(site, operator, Method::POST, PLANS, &form).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
    let path = format!("{PLANS}/{}", made.body["id"].as_str().unwrap());
    (made.body, path)
}

fn names(plans: &Value) -> Vec<&str> {
    plans.as_array().unwrap().iter().map(|plan| plan["name"].as_str().unwrap()).collect()
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn visible_plans_are_listed_to_everybody_and_others_to_tenants_that_are_on_them() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let other = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let figures = json!({"limits": {"per_minute": 77, "price_per_cu": 0.25}, "monthly_fee_cents": 900});
    let (startup, path) = made(&site, &operator, "startup", "visible", figures.clone()).await;
    let (school, _) = made(&site, &operator, "school", "by_invitation", json!({})).await;
    assert_eq!(shown(&site, &operator, &path).await, startup);
    assert_eq!(startup["figures"], figures);
    assert_eq!(shown(&site, &operator, PLANS).await, json!([startup, school]));
    let four = ["free", "standard", "premium", "enterprise"];
    let plans = shown(&site, &owner, "/plans").await;
    assert_eq!(names(&plans), [&four[..], &["startup"]].concat());
    let listed = json!({"name": "startup", "tier": "standard", "per_minute": 77, "per_hour": 2_500,
        "per_day": 50_000, "price_per_cu": 0.25, "cu_per_day": 100_000, "cu_per_month": null, "rps_limit": null, "monthly_fee_cents": 900});
    assert_eq!(plans[4], listed);

    let tenant = format!("/operator/tenants/{}", other.user.tenant.unwrap());
    let moved = ask(&site, &operator, Method::PUT, &tenant, &json!({"custom_plan_id": school["id"]})).await;
    assert_eq!(moved.status, StatusCode::OK, "{}", moved.body);
    assert_eq!((&moved.body["plan"], &moved.body["tier"]), (&json!("school"), &json!("standard")));
    assert_eq!(names(&shown(&site, &other, "/plans").await)[4..], ["startup", "school"]);
    assert_eq!(names(&shown(&site, &owner, "/plans").await)[4..], ["startup"]);
    assert_eq!(shown(&site, &other, "/tenants").await[0]["plan"], "school");
    let all = shown(&site, &operator, "/operator/tenants").await;
    let mut plans: Vec<_> = all.as_array().unwrap().iter().map(|one| one["plan"].as_str().unwrap()).collect();
    plans.sort_unstable();
    assert_eq!(plans, ["free", "school"]);
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_tenant_on_a_custom_plan_has_its_limits_until_it_is_moved() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let figures =
        json!({"limits": {"per_minute": 77}, "default_quota": {"cu_per_day": 5}, "monthly_fee_cents": 9});
    let (plan, path) = made(&site, &operator, "startup", "visible", figures).await;
    let id = owner.user.tenant.unwrap();
    let tenant = format!("/operator/tenants/{id}");
    let form = json!({"name": "one"});
    let projects = format!("/tenants/{id}/projects");
    assert_eq!(ask(&site, &owner, Method::POST, &projects, &form).await.status, StatusCode::CREATED);
    let limits = async || {
        let limits = shown(&site, &owner, "/usage").await["limits"].clone();
        let plan = shown(&site, &owner, &format!("/tenants/{id}/billing")).await["plan"].clone();
        (
            limits["requests_per_minute"].clone(),
            limits["cu_per_day"].clone(),
            plan["name"].clone(),
            plan["monthly_fee_cents"].clone(),
        )
    };
    let free = (json!(10), json!(100_000), json!("free"), json!(0));
    assert_eq!(limits().await, free);
    ask(&site, &operator, Method::PUT, &tenant, &json!({"custom_plan_id": plan["id"]})).await;
    assert_eq!(limits().await, (json!(77), json!(5), json!("startup"), json!(9)));
    let agreed = json!({"figures": {"limits": {"per_minute": 78}}});
    let contract = ask(&site, &operator, Method::POST, &format!("{tenant}/contracts"), &agreed).await;
    assert_eq!(contract.status, StatusCode::CREATED);
    let change = json!({"name": "small", "figures": {"limits": {"per_minute": 7}}});
    let changed = ask(&site, &operator, Method::PUT, &path, &change).await;
    assert_eq!((changed.status, &changed.body["name"]), (StatusCode::OK, &json!("small")));
    let now = (json!(78), json!(100_000), json!("small"), json!(0));
    assert_eq!(limits().await, now, "the contract outlasts the change, and all figures were replaced");
    let details: Vec<_> = site.app.store.audit(AuditSubject::Tenant(id), 9).await.unwrap();
    let moves = details.iter().filter(|entry| entry.action == "tenant.changed");
    assert_eq!(moves.map(|entry| entry.detail.as_str()).collect::<Vec<_>>(), ["startup"]);

    let gone = ask(&site, &operator, Method::DELETE, &path, &Value::Null).await;
    let why = "tenants are on this plan: move them to another one before you delete it";
    assert_eq!((gone.status, gone.body["error"].as_str()), (StatusCode::CONFLICT, Some(why)));
    ask(&site, &operator, Method::PUT, &tenant, &json!({"tier": "free"})).await;
    assert_eq!(limits().await, (json!(78), json!(100_000), json!("free"), json!(0)));
    let gone = ask(&site, &operator, Method::DELETE, &path, &Value::Null).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    assert_eq!(ask(&site, &operator, Method::GET, &path, &Value::Null).await.status, StatusCode::NOT_FOUND);
    let late = ask(&site, &operator, Method::PUT, &tenant, &json!({"custom_plan_id": plan["id"]})).await;
    assert_eq!((late.status, &late.body["field"]), (StatusCode::BAD_REQUEST, &json!("custom_plan_id")));
    made(&site, &operator, "small", "visible", json!({})).await;
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_plan_is_checked_and_its_name_is_its_own() {
    let site = Site::new().await;
    let operator = site.operator().await;
    let valid = json!({"name": "a", "base_tier": "free", "visibility": "visible", "figures": {}});
    let long = "a".repeat(41);
    for (field, value) in [
        ("name", json!("")),
        ("name", json!("1a")),
        ("name", json!("Startup")),
        ("name", json!("a plan")),
        ("name", json!(long)),
        ("base_tier", json!("gold")),
        ("visibility", json!("hidden")),
        ("figures", json!({"limits": {"gold": 1}})),
    ] {
        let mut form = valid.clone();
        form[field] = value.clone();
        let refused = ask(&site, &operator, Method::POST, PLANS, &form).await;
        let expected = (StatusCode::BAD_REQUEST, &json!(field));
        assert_eq!((refused.status, &refused.body["field"]), expected, "{value}: {}", refused.body);
    }
    let mut form = valid.clone();
    form["figures"] = json!({"limits": {"per_minute": 0}});
    let refused = ask(&site, &operator, Method::POST, PLANS, &form).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    form["figures"] = json!({"limits": {"price_per_cu": 0.5}});
    let priced = ask(&site, &operator, Method::POST, PLANS, &form).await;
    assert_eq!(priced.status, StatusCode::CREATED, "what is based on free may have a price: {}", priced.body);
    made(&site, &operator, "startup", "visible", json!({})).await;
    let (_, other) = made(&site, &operator, "school", "visible", json!({})).await;
    for name in ["premium", "startup"] {
        let mut form = valid.clone();
        form["name"] = json!(name);
        let renamed = ask(&site, &operator, Method::PUT, &other, &json!({"name": name})).await;
        for refused in [ask(&site, &operator, Method::POST, PLANS, &form).await, renamed] {
            assert_eq!(
                (refused.status, &refused.body["code"]),
                (StatusCode::CONFLICT, &json!("already_exists"))
            );
        }
    }
    let same = ask(&site, &operator, Method::PUT, &other, &json!({"name": "school"})).await;
    assert_eq!(same.status, StatusCode::OK, "it may keep its name");
    let owner = site.member(Role::Owner).await;
    let tenant = format!("/operator/tenants/{}", owner.user.tenant.unwrap());
    for form in [json!({"custom_plan_id": "x"}), json!({"custom_plan_id": operator.user.id.to_string()})] {
        let refused = ask(&site, &operator, Method::PUT, &tenant, &form).await;
        assert_eq!(
            (refused.status, &refused.body["field"]),
            (StatusCode::BAD_REQUEST, &json!("custom_plan_id"))
        );
    }
}

#[tokio::test]
async fn only_an_operator_who_has_seen_a_plan_changes_or_deletes_it() {
    let site = Site::new().await;
    let operator = site.operator().await;
    let (_, path) = made(&site, &operator, "startup", "visible", json!({})).await;
    let tag = ask(&site, &operator, Method::GET, &path, &Value::Null).await.headers[ETAG].clone();
    let conditional = async |method: Method, body: &Value| {
        let request = http::Request::builder().method(method).uri(format!("/api/v1{path}"));
        let request = request.header(AUTHORIZATION, format!("Bearer {}", operator.token));
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        site.send(request.header(IF_MATCH, &tag).body(body).unwrap()).await
    };
    let changed = conditional(Method::PUT, &json!({"visibility": "by_invitation"})).await;
    assert_eq!((changed.status, &changed.body["visibility"]), (StatusCode::OK, &json!("by_invitation")));
    for (method, body) in
        [(Method::PUT, json!({"name": "other"})), (Method::PUT, json!({})), (Method::DELETE, Value::Null)]
    {
        let refused = conditional(method, &body).await;
        assert_eq!(refused.status, StatusCode::PRECONDITION_FAILED, "{}", refused.body);
    }
    let gone = ask(&site, &operator, Method::DELETE, &path, &Value::Null).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    let entries = site.app.store.audit(AuditSubject::User(operator.user.id), 9).await.unwrap();
    let entries = entries.iter().filter(|entry| entry.action.starts_with("custom_plan."));
    let actions: Vec<_> = entries.map(|entry| (entry.action.as_str(), entry.detail.as_str())).collect();
    assert_eq!(
        actions,
        [
            ("custom_plan.deleted", "startup"),
            ("custom_plan.changed", "by invitation"),
            ("custom_plan.created", "startup, based on standard, visible"),
        ]
    );
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_visible_plan_can_be_requested_and_approval_moves_the_tenant_to_it() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let (_, startup) = made(&site, &operator, "startup", "visible", json!({})).await;
    made(&site, &operator, "school", "by_invitation", json!({})).await;
    let request = async |form: Value| ask(&site, &owner, Method::POST, "/limit-requests", &form).await;
    for form in [
        json!({"requested_plan": "school", "reason": "x"}),
        json!({"requested_plan": "gold", "reason": "x"}),
        json!({"requested_plan": "startup", "requested_tier": "premium", "reason": "x"}),
        json!({"reason": "x"}),
    ] {
        let refused = request(form.clone()).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{form}: {}", refused.body);
    }
    let created = request(json!({"requested_plan": "startup", "reason": "We grow."})).await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.body);
    let plan = (&created.body["requested_plan"], &created.body["requested_tier"]);
    assert_eq!(plan, (&json!("startup"), &json!("standard")));
    let review = format!("/operator/limit-requests/{}", created.body["id"].as_str().unwrap());
    let listed = shown(&site, &operator, "/operator/limit-requests").await;
    assert_eq!(listed[0]["requested_plan"], "startup");
    let approved = ask(&site, &operator, Method::PUT, &review, &json!({"status": "approved"})).await;
    assert_eq!(approved.status, StatusCode::OK, "{}", approved.body);
    assert_eq!(shown(&site, &owner, "/tenants").await[0]["plan"], "startup");

    let tenant = format!("/operator/tenants/{}", owner.user.tenant.unwrap());
    ask(&site, &operator, Method::PUT, &tenant, &json!({"tier": "free"})).await;
    let created = request(json!({"requested_plan": "startup", "reason": "Again."})).await.body;
    assert_eq!(ask(&site, &operator, Method::DELETE, &startup, &Value::Null).await.status, 204);
    let review = format!("/operator/limit-requests/{}", created["id"].as_str().unwrap());
    let late = ask(&site, &operator, Method::PUT, &review, &json!({"status": "approved"})).await;
    assert_eq!((late.status, &late.body["code"]), (StatusCode::CONFLICT, &json!("conflict")));
    let rejected = ask(&site, &operator, Method::PUT, &review, &json!({"status": "rejected"})).await;
    assert_eq!((rejected.status, &rejected.body["requested_plan"]), (StatusCode::OK, &json!("startup")));
}
