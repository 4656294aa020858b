use crate::api::accounts::tests::{
    EMAIL, PASSWORD, ask, login, mailed, mails, pair, post, register_confirmed, site,
};
use crate::api::factors::tests::{account_with_app, begun, verify};
use crate::testing::{ApiAnswer, Site, Visitor};
use http::{Method, StatusCode};
use rpcgate_store::{AuditSubject, Role};
use serde_json::{Value, json};
use std::time::Duration;

async fn operate(site: &Site, operator: &Visitor, method: Method, path: &str) -> ApiAnswer {
    let answer = ask(site, Some(&operator.token), method, &format!("/operator/users{path}"), None).await;
    // Entries and mails of the same time have no order.
    site.clock.advance(Duration::from_secs(1));
    answer
}

/// Returns the account with the address, as operators see it.
async fn reported(site: &Site, operator: &Visitor) -> Value {
    let mut answer = operate(site, operator, Method::GET, &format!("?email={EMAIL}")).await;
    assert_eq!(answer.status, StatusCode::OK);
    answer.body[0].take()
}

fn id(account: &Value) -> &str {
    account["id"].as_str().unwrap()
}

// Shows (Accounts and second factors): Operators have `GET /operator/users` and `POST
// /operator/users/{id}/unlock|reset|disable`; `enable` ends `disable`.
#[tokio::test]
async fn operators_find_the_users_of_all_tenants_in_parts() {
    let site = site().await;
    let operator = site.operator().await;
    let one = site.member(Role::Owner).await;
    let other = site.member(Role::Owner).await;
    register_confirmed(&site, EMAIL).await;
    let list = async |query: &str| operate(&site, &operator, Method::GET, query).await;
    let all = list("").await.body;
    assert_eq!(all.as_array().unwrap().len(), 4);
    let account = reported(&site, &operator).await;
    assert_eq!(account["role"], "owner");
    assert_eq!(account["confirmed"], true);
    assert_eq!((&account["locked_until"], &account["disabled_at"]), (&Value::Null, &Value::Null));
    assert!(account.get("password").is_none());
    let first = list("?limit=3").await;
    let next = first.headers["link"].to_str().unwrap();
    let next = next.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\"")).unwrap();
    let second = list(next).await.body;
    let parts: Vec<_> =
        [first.body, second].iter().flat_map(|part| part.as_array().unwrap().clone()).collect();
    assert_eq!(Value::from(parts), all);
    let of_tenant = list(&format!("?tenant_id={}", one.user.tenant.unwrap())).await.body;
    assert_eq!(of_tenant.as_array().unwrap().len(), 1);
    assert_eq!(of_tenant[0]["id"], one.user.id.to_string());
    let both = format!("?tenant_id={}&email={}", one.user.tenant.unwrap(), other.user.email);
    assert_eq!(list(&both).await.body, json!([]));
    for wrong in ["?tenant_id=x", "?cursor=x", "?role=owner"] {
        assert_eq!(list(wrong).await.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
    let answer = ask(&site, Some(&one.token), Method::GET, "/operator/users", None).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn operators_unlock_an_account_locked_by_wrong_passwords() {
    let site = site().await;
    let operator = site.operator().await;
    register_confirmed(&site, EMAIL).await;
    for _ in 0..5 {
        assert_eq!(login(&site, EMAIL, "wrong horse, wrong staple").await.status, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(login(&site, EMAIL, PASSWORD).await.status, StatusCode::FORBIDDEN);
    let account = reported(&site, &operator).await;
    assert_ne!(account["locked_until"], Value::Null);
    let unlocked = operate(&site, &operator, Method::POST, &format!("/{}/unlock", id(&account))).await;
    assert_eq!((unlocked.status, &unlocked.body["locked_until"]), (StatusCode::OK, &Value::Null));
    assert_eq!(reported(&site, &operator).await["locked_until"], Value::Null);
    assert_eq!(login(&site, EMAIL, PASSWORD).await.status, StatusCode::OK);
}

#[tokio::test]
async fn operators_unlock_an_account_locked_by_wrong_second_factors_and_no_reset_does() {
    let site = site().await;
    let operator = site.operator().await;
    let (_, app, _) = account_with_app(&site).await;
    let token = begun(&site).await;
    for _ in 0..5 {
        let wrong = verify(&site, &begun(&site).await, ("code", &app.wrong(&site))).await;
        assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(verify(&site, &token, ("code", &app.shows(&site))).await.status, StatusCode::FORBIDDEN);
    let account = reported(&site, &operator).await;
    assert_ne!(account["locked_until"], Value::Null);

    let reset = operate(&site, &operator, Method::POST, &format!("/{}/reset", id(&account))).await;
    assert_eq!((reset.status, &reset.body["locked_until"]), (StatusCode::OK, &account["locked_until"]));
    site.send_mails().await;
    let token = mailed(&site, 1, "/reset?token=").await.pop().unwrap();
    // Otherwise the reset removes the app, which was added less than seven days ago.
    let form = json!({"token": token, "password": PASSWORD, "keep_factors": true});
    assert_eq!(post(&site, "/auth/password/reset", form).await.status, StatusCode::NO_CONTENT);
    assert_eq!(reported(&site, &operator).await["locked_until"], account["locked_until"]);

    let unlocked = operate(&site, &operator, Method::POST, &format!("/{}/unlock", id(&account))).await;
    assert_eq!((unlocked.status, &unlocked.body["locked_until"]), (StatusCode::OK, &Value::Null));
    assert_eq!(reported(&site, &operator).await["locked_until"], Value::Null);
    let right = verify(&site, &begun(&site).await, ("code", &app.shows(&site))).await;
    assert_eq!(right.status, StatusCode::OK, "{}", right.body);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_password_that_is_reset_is_worthless_at_once_and_another_one_is_set_by_mail() {
    let site = site().await;
    let operator = site.operator().await;
    register_confirmed(&site, EMAIL).await;
    let access = pair(&login(&site, EMAIL, PASSWORD).await).0;
    let account = reported(&site, &operator).await;
    let reset = operate(&site, &operator, Method::POST, &format!("/{}/reset", id(&account))).await;
    assert_eq!(reset.status, StatusCode::OK);
    let me = ask(&site, Some(&access), Method::GET, "/auth/me", None).await;
    assert_eq!(me.status, StatusCode::UNAUTHORIZED, "its sessions have ended");
    assert_eq!(login(&site, EMAIL, PASSWORD).await.status, StatusCode::UNAUTHORIZED);
    let token = mailed(&site, 2, "/reset?token=").await.pop().unwrap();
    let form = json!({"token": token, "password": "another horse, another staple"});
    assert_eq!(post(&site, "/auth/password/reset", form).await.status, StatusCode::NO_CONTENT);
    assert_eq!(login(&site, EMAIL, "another horse, another staple").await.status, StatusCode::OK);
}

// Shows (Accounts and second factors): Operators remove the second factors of a user who has lost them, with a reason;
// the user is notified, and all sessions end.
#[tokio::test]
async fn an_operator_removes_the_second_factors_of_a_user_who_has_lost_them() {
    let site = site().await;
    let operator = site.operator().await;
    let (access, app, recovery) = account_with_app(&site).await;
    let account = reported(&site, &operator).await;
    assert_eq!(account["mfa"], true);
    let pending = begun(&site).await;
    for _ in 0..5 {
        verify(&site, &begun(&site).await, ("code", &app.wrong(&site))).await;
    }
    // The lock is reported in the background, at the same clock time. It must come before the removal.
    let locked = async {
        let notices = async || ask(&site, Some(&access), Method::GET, "/notifications", None).await.body;
        while notices().await[0]["message"] != "Your account was locked temporarily" {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), locked).await.unwrap();
    let remove = async |user: &str, form: Value| {
        let path = format!("/operator/users/{user}/remove-factors");
        let answer = ask(&site, Some(&operator.token), Method::POST, &path, Some(form)).await;
        site.clock.advance(Duration::from_secs(1));
        answer
    };
    for wrong in [json!({}), json!({"reason": " "}), json!({"reason": 7})] {
        assert_eq!(remove(id(&account), wrong).await.status, StatusCode::BAD_REQUEST);
    }
    let form = json!({"reason": "Lost telephone,\nidentity checked"});
    let removed = remove(id(&account), form.clone()).await;
    assert_eq!((removed.status, &removed.body["mfa"]), (StatusCode::OK, &json!(false)), "{removed:?}");
    assert_eq!(reported(&site, &operator).await, removed.body);
    let me = ask(&site, Some(&access), Method::GET, "/auth/me", None).await;
    assert_eq!(me.status, StatusCode::UNAUTHORIZED, "its sessions have ended");
    for factor in [("code", app.shows(&site)), ("recovery_code", recovery[0].clone())] {
        let late = verify(&site, &pending, (factor.0, &factor.1)).await;
        assert_eq!(late.status, StatusCode::UNAUTHORIZED, "so has the log-in that waited");
    }
    let (access, _) = pair(&login(&site, EMAIL, PASSWORD).await);
    let matching =
        mails(&site).into_iter().filter(|mail| mail.contains("An operator has removed your second factors"));
    let matching: Vec<_> = matching.collect();
    assert!(
        matching.len() == 1 && matching[0].contains("\"Lost telephone, identity checked\""),
        "{matching:?}"
    );
    let all = ask(&site, Some(&access), Method::GET, "/notifications", None).await.body;
    assert_eq!(all[0]["message"], "An operator has removed your second factors");
    let audit = site.app.store.audit(AuditSubject::User(operator.user.id), 100).await.unwrap();
    let entry = audit.iter().find(|entry| entry.action == "user.factors_removed").unwrap();
    assert_eq!(entry.detail, "Lost telephone,\nidentity checked");
    assert_eq!((entry.user, entry.tenant.is_some()), (Some(operator.user.id), true));

    assert_eq!(remove(id(&account), form.clone()).await.status, StatusCode::CONFLICT, "there is none left");
    assert_eq!(remove(&operator.user.id.to_string(), form.clone()).await.status, StatusCode::CONFLICT);
    let unknown = "00000000-0000-7000-8000-000000000000";
    assert_eq!(remove(unknown, form.clone()).await.status, StatusCode::NOT_FOUND);
    let path = format!("/operator/users/{}/remove-factors", id(&account));
    let refused = ask(&site, Some(&access), Method::POST, &path, Some(form)).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let proof = Some(json!({"current_password": PASSWORD}));
    let enrolled = ask(&site, Some(&access), Method::POST, "/auth/mfa/totp/enroll", proof).await;
    assert_eq!(enrolled.status, StatusCode::OK, "the user can add one again");
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn an_operator_without_a_factor_removes_none_if_operators_need_one() {
    let text = "[admin]\nauth_per_minute = 1000\noperator_mfa = true\n[admin.challenge]\ndifficulty = 50\n";
    let site = Site::of(text).await;
    let operator = site.operator().await;
    account_with_app(&site).await;
    let user = site.app.store.user_by_email(EMAIL).await.unwrap().unwrap().id;
    let path = format!("/operator/users/{user}/remove-factors");
    let form = json!({"reason": "Lost."});
    let refused = ask(&site, Some(&operator.token), Method::POST, &path, Some(form)).await;
    assert_eq!((refused.status, &refused.body["code"]), (StatusCode::FORBIDDEN, &json!("factor_required")));
    assert!(site.app.store.factors(user).await.unwrap().any());
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_disabled_user_is_logged_out_at_once_until_operators_enable_the_account() {
    let site = site().await;
    let operator = site.operator().await;
    register_confirmed(&site, EMAIL).await;
    let (access, refresh) = pair(&login(&site, EMAIL, PASSWORD).await);
    post(&site, "/auth/password/forgot", json!({"email": EMAIL})).await;
    let token = mailed(&site, 2, "/reset?token=").await.pop().unwrap();
    let account = reported(&site, &operator).await;
    let disable = format!("/{}/disable", id(&account));
    let disabled = operate(&site, &operator, Method::POST, &disable).await;
    assert_ne!(disabled.body["disabled_at"], Value::Null);
    assert_eq!(reported(&site, &operator).await, disabled.body);
    assert_eq!(
        operate(&site, &operator, Method::POST, &disable).await.body,
        disabled.body,
        "it is so already"
    );

    let me = async |access: &str| ask(&site, Some(access), Method::GET, "/auth/me", None).await.status;
    assert_eq!(me(&access).await, StatusCode::UNAUTHORIZED);
    let refreshed = post(&site, "/auth/refresh", json!({"refresh_token": refresh})).await;
    assert_eq!(refreshed.status, StatusCode::UNAUTHORIZED);
    let refused = login(&site, EMAIL, PASSWORD).await;
    assert_eq!(
        (refused.status, &refused.body["error"]),
        (StatusCode::FORBIDDEN, &json!("this account is disabled"))
    );
    let wrong = login(&site, EMAIL, "wrong horse, wrong staple").await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED, "only a caller with the password learns of it");
    let form = json!({"token": token, "password": "another horse, another staple"});
    assert_eq!(post(&site, "/auth/password/reset", form).await.status, StatusCode::BAD_REQUEST);
    let sent = mails(&site).len();
    let reset = operate(&site, &operator, Method::POST, &format!("/{}/reset", id(&account))).await;
    assert_eq!((reset.status, mails(&site).len()), (StatusCode::CONFLICT, sent));

    let enabled = operate(&site, &operator, Method::POST, &format!("/{}/enable", id(&account))).await;
    assert_eq!(enabled.body["disabled_at"], Value::Null);
    let again = operate(&site, &operator, Method::POST, &format!("/{}/enable", id(&account))).await;
    assert_eq!(again.body, enabled.body, "it is so already");
    let access = pair(&login(&site, EMAIL, PASSWORD).await).0;
    assert_eq!(me(&access).await, StatusCode::OK);
    let notices = ask(&site, Some(&access), Method::GET, "/notifications", None).await.body;
    for message in ["Your account was disabled", "Your account was enabled again"] {
        let matching = notices.as_array().unwrap().iter().filter(|notice| notice["message"] == message);
        assert_eq!(matching.count(), 1, "{notices}");
    }
    let tenant = account["tenant_id"].as_str().unwrap().parse().unwrap();
    let audit = site.app.store.audit(AuditSubject::Tenant(tenant), 100).await.unwrap();
    let done: Vec<_> = audit.iter().filter(|entry| entry.user == Some(operator.user.id)).collect();
    let reported: Vec<_> = done.iter().map(|entry| (entry.action.as_str(), entry.subject.as_str())).collect();
    assert_eq!(reported, [("user.enabled", id(&account)), ("user.disabled", id(&account))]);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn operators_cannot_disable_themselves_or_unknown_users() {
    let site = site().await;
    let operator = site.operator().await;
    let own = format!("/{}/disable", operator.user.id);
    assert_eq!(operate(&site, &operator, Method::POST, &own).await.status, StatusCode::CONFLICT);
    for action in ["unlock", "reset", "disable", "enable"] {
        let path = format!("/00000000-0000-7000-8000-000000000000/{action}");
        let answer = operate(&site, &operator, Method::POST, &path).await;
        assert_eq!((answer.status, &answer.body["error"]), (StatusCode::NOT_FOUND, &json!("user not found")));
    }
}
