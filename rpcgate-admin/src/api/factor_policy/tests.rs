//! Tests of the rule that members need a second factor.

use crate::api::accounts::tests::{EMAIL, ask, site};
use crate::api::factors::tests::account_with_app;
use crate::testing::second_factors::Authenticator;
use crate::testing::{ApiAnswer, Site, Visitor};
use http::{Method, StatusCode};
use rpcgate_core::caller::TenantId;
use rpcgate_store::{AuditSubject, Role};
use serde_json::{Value, json};

const MEMBERS_NEED: (StatusCode, &str) =
    (StatusCode::FORBIDDEN, "your organisation requires a second factor: add one to your account first");
const OPERATORS_NEED: (StatusCode, &str) = (
    StatusCode::FORBIDDEN,
    "operators need a second factor to change anything: add one to your account first",
);

fn reported(answer: &ApiAnswer) -> (StatusCode, &str) {
    (answer.status, answer.body["error"].as_str().unwrap_or_default())
}

async fn get(site: &Site, token: &str, path: &str) -> ApiAnswer {
    ask(site, Some(token), Method::GET, path, None).await
}

async fn policy(site: &Site, token: &str, tenant: TenantId, required: bool) -> ApiAnswer {
    let form = json!({"required": required});
    ask(site, Some(token), Method::PUT, &format!("/tenants/{tenant}/mfa"), Some(form)).await
}

async fn add_app(site: &Site, token: &str) {
    let offered = ask(site, Some(token), Method::POST, "/auth/mfa/totp/enroll", None).await;
    assert_eq!(offered.status, StatusCode::OK, "{}", offered.body);
    let form = json!({"code": Authenticator::typed(&offered).shows(site)});
    let active = ask(site, Some(token), Method::POST, "/auth/mfa/totp/activate", Some(form)).await;
    assert_eq!(active.status, StatusCode::OK, "{}", active.body);
}

/// Returns a tenant whose members need a second factor, with its owner's access token and a member without a factor.
async fn strict_tenant(site: &Site) -> (String, TenantId, Visitor) {
    let (owner, _, _) = account_with_app(site).await;
    let tenant = site.app.store.user_by_email(EMAIL).await.unwrap().unwrap().tenant.unwrap();
    let member = site.visitor(Some(tenant), Role::Admin).await;
    assert_eq!(get(site, &member.token, "/tenants").await.status, StatusCode::OK);
    let done = policy(site, &owner, tenant, true).await;
    assert_eq!((done.status, done.body), (StatusCode::OK, json!({"required": true})));
    (owner, tenant, member)
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn members_without_a_required_factor_can_only_add_one() {
    let site = site().await;
    let (owner, tenant, member) = strict_tenant(&site).await;
    assert_eq!(get(&site, &owner, "/tenants").await.status, StatusCode::OK);
    let token = member.token.as_str();
    let projects = format!("/tenants/{tenant}/projects");
    for path in ["/tenants", "/plans", "/notifications", "/usage", projects.as_str()] {
        assert_eq!(reported(&get(&site, token, path).await), MEMBERS_NEED, "{path}");
    }
    for (method, path, body) in [
        (Method::POST, projects.as_str(), json!({"name": "p"})),
        (Method::PUT, "/auth/me", json!({"name": "Another"})),
        (Method::POST, "/auth/mfa/totp/disable", json!({"code": "123456"})),
    ] {
        assert_eq!(
            reported(&ask(&site, Some(token), method, path, Some(body)).await),
            MEMBERS_NEED,
            "{path}"
        );
    }
    for path in ["/auth/me", "/auth/mfa", "/auth/sessions"] {
        assert_eq!(get(&site, token, path).await.status, StatusCode::OK, "{path}");
    }
    add_app(&site, token).await;
    assert_eq!(get(&site, token, "/tenants").await.status, StatusCode::OK);
    let shown = get(&site, token, &format!("/tenants/{tenant}/mfa")).await;
    assert_eq!(shown.body, json!({"required": true}));

    let other = site.member(Role::Viewer).await;
    assert_eq!(get(&site, &other.token, "/tenants").await.status, StatusCode::OK, "others are not concerned");
    let late = site.visitor(Some(tenant), Role::Viewer).await;
    assert_eq!(reported(&get(&site, &late.token, "/tenants").await), MEMBERS_NEED);
    assert_eq!(policy(&site, &owner, tenant, false).await.status, StatusCode::OK);
    assert_eq!(get(&site, &late.token, "/tenants").await.status, StatusCode::OK);
    let entries = site.app.store.audit(AuditSubject::Tenant(tenant), 100).await.unwrap();
    let actions: Vec<_> = entries.iter().map(|entry| entry.action.as_str()).collect();
    assert!(
        actions.contains(&"tenant.mfa_required") && actions.contains(&"tenant.mfa_optional"),
        "{actions:?}"
    );
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn only_an_owner_with_a_factor_requires_one() {
    let site = site().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let refused = policy(&site, &owner.token, tenant, true).await;
    assert_eq!(reported(&refused), (StatusCode::CONFLICT, "add a second factor to your own account first"));
    assert_eq!(policy(&site, &owner.token, tenant, false).await.status, StatusCode::OK);
    let admin = site.visitor(Some(tenant), Role::Admin).await;
    add_app(&site, &admin.token).await;
    assert_eq!(policy(&site, &admin.token, tenant, true).await.status, StatusCode::FORBIDDEN);
    add_app(&site, &owner.token).await;
    let form = json!({"name": "for a script", "scopes": ["read", "manage_owners"]});
    let made = ask(&site, Some(&owner.token), Method::POST, "/auth/tokens", Some(form)).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
    let token = made.body["token"].as_str().unwrap();
    for required in [true, false] {
        assert_eq!(policy(&site, token, tenant, required).await.body, json!({"required": required}));
    }
}

#[tokio::test]
async fn a_member_who_removes_the_factor_is_restricted_again() {
    let site = site().await;
    let (_, _, member) = strict_tenant(&site).await;
    let token = member.token.as_str();
    let offered = ask(&site, Some(token), Method::POST, "/auth/mfa/totp/enroll", None).await;
    let app = Authenticator::typed(&offered);
    let form = json!({"code": app.shows(&site)});
    ask(&site, Some(token), Method::POST, "/auth/mfa/totp/activate", Some(form)).await;
    let form = json!({"code": app.shows_at(&site, 1)});
    let off = ask(&site, Some(token), Method::POST, "/auth/mfa/totp/disable", Some(form)).await;
    assert_eq!(off.status, StatusCode::NO_CONTENT, "{}", off.body);
    assert_eq!(reported(&get(&site, token, "/tenants").await), MEMBERS_NEED);
}

// Shows (Accounts and second factors): Operators need a second factor to change anything if `admin.operator_mfa` is
// set; an owner may require one of all members.
#[tokio::test]
async fn operators_change_nothing_without_a_factor_if_it_is_configured() {
    for (text, is_required) in [("", false), ("[admin]\noperator_mfa = true\n", true)] {
        let site = Site::of(text).await;
        let operator = site.operator().await;
        let member = site.member(Role::Owner).await;
        let tenant = member.user.tenant.unwrap();
        let suspend = async |body: Value| {
            let path = format!("/operator/tenants/{tenant}");
            ask(&site, Some(&operator.token), Method::PUT, &path, Some(body)).await
        };
        assert_eq!(get(&site, &operator.token, "/operator/tenants").await.status, StatusCode::OK);
        let answer = suspend(json!({"status": "suspended"})).await;
        if is_required {
            assert_eq!(reported(&answer), OPERATORS_NEED);
            let renamed = json!({"name": "Another"});
            let renamed = ask(&site, Some(&operator.token), Method::PUT, "/auth/me", Some(renamed)).await;
            assert_eq!(reported(&renamed), OPERATORS_NEED);
            let suspended = site.app.store.tenant(tenant).await.unwrap().unwrap().suspended;
            assert!(!suspended);
            add_app(&site, &operator.token).await;
            assert_eq!(suspend(json!({"status": "suspended"})).await.status, StatusCode::OK);
        } else {
            assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        }
        let path = format!("/tenants/{tenant}");
        let renamed = ask(&site, Some(&member.token), Method::PUT, &path, Some(json!({"name": "A"}))).await;
        assert_eq!(renamed.status, StatusCode::OK, "members are not concerned: {}", renamed.body);
    }
}
