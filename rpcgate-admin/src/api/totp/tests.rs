use crate::api::accounts::tests::{
    EMAIL, PASSWORD, ask, login, mails, pair, register, register_confirmed, site, tokens,
};
use crate::api::factors::tests::{account_with_app, begun, verify};
use crate::testing::second_factors::Authenticator;
use crate::testing::{ApiAnswer, Site};
use http::{Method, StatusCode};
use serde_json::{Value, json};

async fn call(site: &Site, token: &str, path: &str, body: Option<Value>) -> ApiAnswer {
    ask(site, Some(token), Method::POST, &format!("/auth/mfa/totp/{path}"), body).await
}

fn proof() -> Option<Value> {
    Some(json!({"current_password": PASSWORD}))
}

fn reported(answer: &ApiAnswer) -> (StatusCode, &str) {
    (answer.status, answer.body["error"].as_str().unwrap_or_default())
}

async fn me(site: &Site, token: &str) -> StatusCode {
    ask(site, Some(token), Method::GET, "/auth/me", None).await.status
}

fn is_mailed(site: &Site, text: &str) -> bool {
    mails(site).iter().any(|mail| mail.contains(text))
}

// Shows (Accounts and second factors): TOTP has `POST /auth/mfa/totp/enroll` → {secret, uri, qr_svg}; `activate` {code}
// → {recovery_codes}; `disable` {code} requires a factor and ends other sessions.
#[tokio::test]
async fn an_app_becomes_a_factor_by_a_code_that_it_shows() {
    let site = site().await;
    register_confirmed(&site, EMAIL).await;
    let (token, _) = tokens(&site, EMAIL).await;
    let (other, _) = tokens(&site, EMAIL).await;
    let offered = call(&site, &token, "enroll", proof()).await;
    assert_eq!(offered.status, StatusCode::OK, "{}", offered.body);
    assert_eq!(offered.headers[http::header::CACHE_CONTROL], "no-store");
    let secret = offered.body["secret"].as_str().unwrap();
    let uri = format!("otpauth://totp/rpcgate:ada%40example.com?secret={secret}&issuer=rpcgate");
    assert_eq!(offered.body["uri"], uri);
    assert!(offered.body["qr_svg"].as_str().unwrap().starts_with("<svg "), "{}", offered.body);
    assert_eq!(offered.body.as_object().unwrap().len(), 3);
    tokens(&site, EMAIL).await;

    let app = Authenticator::typed(&offered);
    let wrong = call(&site, &token, "activate", Some(json!({"code": app.wrong(&site)}))).await;
    assert_eq!(reported(&wrong), (StatusCode::BAD_REQUEST, "`code` is not the one that the app shows"));
    let sent = mails(&site).len();
    let activated = call(&site, &token, "activate", Some(json!({"code": app.shows(&site)}))).await;
    assert_eq!(activated.status, StatusCode::OK, "{}", activated.body);
    let codes = activated.body["recovery_codes"].as_array().unwrap();
    assert_eq!((codes.len(), activated.body.as_object().unwrap().len()), (10, 1));
    assert_eq!(me(&site, &token).await, StatusCode::OK);
    assert_eq!(me(&site, &other).await, StatusCode::UNAUTHORIZED, "other sessions have ended");
    assert_eq!(mails(&site).len(), sent + 1);
    assert!(is_mailed(&site, "It is the authenticator app."));
    assert_eq!(login(&site, EMAIL, PASSWORD).await.body["mfa_required"], true);

    let again = call(&site, &token, "activate", Some(json!({"code": app.shows_at(&site, 1)}))).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    assert_eq!(call(&site, &token, "enroll", proof()).await.status, StatusCode::CONFLICT);
    let pending = begun(&site).await;
    let reused = verify(&site, &pending, ("code", &app.shows(&site))).await;
    assert_eq!(reused.status, StatusCode::UNAUTHORIZED, "the code was used by the activation");
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_secret_that_was_replaced_activates_nothing() {
    let site = site().await;
    register_confirmed(&site, EMAIL).await;
    let (token, _) = tokens(&site, EMAIL).await;
    let form = json!({"code": "123456", "current_password": PASSWORD});
    let none = call(&site, &token, "activate", Some(form)).await;
    assert_eq!(none.status, StatusCode::CONFLICT);
    let first = Authenticator::typed(&call(&site, &token, "enroll", proof()).await);
    let second = Authenticator::typed(&call(&site, &token, "enroll", proof()).await);
    let code = first.shows(&site);
    assert_ne!(code, second.shows(&site));
    assert_eq!(
        call(&site, &token, "activate", Some(json!({"code": code}))).await.status,
        StatusCode::BAD_REQUEST
    );
    let code = second.shows(&site);
    assert_eq!(call(&site, &token, "activate", Some(json!({"code": code}))).await.status, StatusCode::OK);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn an_account_that_may_belong_to_another_person_gets_no_factor() {
    let site = site().await;
    assert_eq!(register(&site, EMAIL).await.status, StatusCode::CREATED);
    let (token, _) = tokens(&site, EMAIL).await;
    let refused = call(&site, &token, "enroll", proof()).await;
    assert_eq!(
        reported(&refused),
        (StatusCode::FORBIDDEN, "confirm your e-mail address before you add a second factor")
    );
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn the_secret_of_an_app_is_stored_encrypted() {
    let site = site().await;
    register_confirmed(&site, EMAIL).await;
    let (token, _) = tokens(&site, EMAIL).await;
    let offered = call(&site, &token, "enroll", proof()).await;
    let user = site.app.store.user_by_email(EMAIL).await.unwrap().unwrap().id;
    let stored = site.app.store.totp(user).await.unwrap().unwrap().sealed;
    let secret = crate::testing::second_factors::from_base32(offered.body["secret"].as_str().unwrap());
    assert_eq!(stored.len(), secret.len() + 28);
    assert!(!stored.windows(secret.len()).any(|window| window == secret));
}

// Shows (Accounts and second factors): A removed factor ends all other sessions at once (promise 38).
#[tokio::test]
async fn switching_the_app_off_asks_for_a_factor_and_ends_other_sessions() {
    let site = site().await;
    let (token, app, recovery) = account_with_app(&site).await;
    let pending = begun(&site).await;
    let (other, _) = pair(&verify(&site, &pending, ("code", &app.shows(&site))).await);
    assert_eq!(me(&site, &other).await, StatusCode::OK);
    let wrong = call(&site, &token, "disable", Some(json!({"code": app.wrong(&site)}))).await;
    assert_eq!(reported(&wrong), (StatusCode::FORBIDDEN, "the code is wrong or was used before"));
    let none = call(&site, &token, "disable", Some(json!({}))).await;
    assert_eq!((none.status, &none.body["code"]), (StatusCode::UNAUTHORIZED, &json!("proof_required")));
    assert_eq!(login(&site, EMAIL, PASSWORD).await.body["mfa_required"], true);
    assert!(!is_mailed(&site, "It was the authenticator app."));
    let off = call(&site, &token, "disable", Some(json!({"recovery_code": recovery[0]}))).await;
    assert_eq!(off.status, StatusCode::NO_CONTENT, "{}", off.body);
    assert!(is_mailed(&site, "It was the authenticator app."));
    assert_eq!(me(&site, &token).await, StatusCode::OK);
    assert_eq!(me(&site, &other).await, StatusCode::UNAUTHORIZED);
    let twice = call(&site, &token, "disable", Some(json!({"recovery_code": recovery[1]}))).await;
    assert_eq!(reported(&twice), (StatusCode::CONFLICT, "no authenticator app is activated"));
    let form = Some(json!({"recovery_code": recovery[1]}));
    let renewed = ask(&site, Some(&token), Method::POST, "/auth/mfa/recovery-codes", form).await;
    assert_eq!(renewed.status, StatusCode::CONFLICT, "{}", renewed.body);
    let (plain, _) = tokens(&site, EMAIL).await;
    let left = ask(&site, Some(&plain), Method::GET, "/auth/mfa", None).await.body;
    assert_eq!(left, json!({"totp": false, "passkeys": 0, "recovery_codes": 0}));
}

#[tokio::test]
async fn five_wrong_factors_also_lock_the_removal_of_factors() {
    let site = site().await;
    let (token, app, _) = account_with_app(&site).await;
    for _ in 0..5 {
        let wrong = call(&site, &token, "disable", Some(json!({"code": app.wrong(&site)}))).await;
        assert_eq!(wrong.status, StatusCode::FORBIDDEN);
    }
    let right = call(&site, &token, "disable", Some(json!({"code": app.shows(&site)}))).await;
    assert_eq!(reported(&right), (StatusCode::FORBIDDEN, "account temporarily locked"));
}
