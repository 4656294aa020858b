//! Tests of every kind of token at every operation that accepts one.

use crate::api::accounts::tests::{
    EMAIL, PASSWORD, ask, login, mailed, post, register, register_confirmed, site, tokens,
};
use crate::testing::{ApiAnswer, Site};
use axum::body::Body;
use http::header::COOKIE;
use http::{Method, StatusCode};
use rpcgate_store::{Audit, SessionId};
use serde_json::json;
use std::time::Duration;

const NEW_PASSWORD: &str = "another horse, another staple";
const RECOVERY_CODE: &str = "0123-4567-89ab-cdef";

/// The purpose of a token and the operation that accepts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TokenHolder {
    Api,
    Page,
    Refresh,
    Confirmation,
    EmailChange,
    Reset,
    Invitation,
    SecondFactor,
}

const PLACES: [TokenHolder; 8] = [
    TokenHolder::Api,
    TokenHolder::Page,
    TokenHolder::Refresh,
    TokenHolder::Confirmation,
    TokenHolder::EmailChange,
    TokenHolder::Reset,
    TokenHolder::Invitation,
    TokenHolder::SecondFactor,
];

impl TokenHolder {
    async fn take(self, site: &Site, token: &str) -> ApiAnswer {
        let (path, form) = match self {
            TokenHolder::Api => return ask(site, Some(token), Method::GET, "/auth/me", None).await,
            TokenHolder::Page => {
                let request = http::Request::get("/").header(COOKIE, format!("rpcgate={token}"));
                let (head, _) = site.raw(request.body(Body::empty()).unwrap()).await;
                return ApiAnswer { status: head.status, headers: head.headers, body: json!(null) };
            }
            TokenHolder::Refresh => ("/auth/refresh", json!({"refresh_token": token})),
            TokenHolder::Confirmation => ("/auth/confirm", json!({"token": token, "password": NEW_PASSWORD})),
            TokenHolder::EmailChange => ("/auth/confirm", json!({"token": token})),
            TokenHolder::Reset => ("/auth/password/reset", json!({"token": token, "password": NEW_PASSWORD})),
            TokenHolder::Invitation => {
                ("/auth/invitation", json!({"token": token, "password": NEW_PASSWORD, "name": "Guest"}))
            }
            TokenHolder::SecondFactor => {
                ("/auth/mfa/verify", json!({"mfa_token": token, "recovery_code": RECOVERY_CODE}))
            }
        };
        post(site, path, form).await
    }
}

/// Creates a site with a token of each kind, in the order of [`PLACES`].
async fn all() -> (Site, [String; 8]) {
    let site = site().await;
    register_confirmed(&site, EMAIL).await;
    // Mails with the same time have no order.
    let next = || site.clock.advance(Duration::from_secs(1));
    next();
    let (access, refresh) = tokens(&site, EMAIL).await;
    let now = site.app.now();
    let page = site.app.page_tokens.issue(&site.app.tokens.check(&access, now).unwrap(), now).unwrap();
    let form = json!({"email": "late@example.com", "current_password": PASSWORD});
    ask(&site, Some(&access), Method::PUT, "/auth/me/email", Some(form)).await;
    let change = mailed(&site, 3, "/confirm?token=").await.pop().unwrap();
    next();
    post(&site, "/auth/password/forgot", json!({"email": EMAIL})).await;
    let reset = mailed(&site, 4, "/reset?token=").await.pop().unwrap();
    next();
    let me = ask(&site, Some(&access), Method::GET, "/auth/me", None).await.body;
    let path = format!("/tenants/{}/invitations", me["tenant_id"].as_str().unwrap());
    let form = json!({"email": "guest@example.com", "role": "developer"});
    ask(&site, Some(&access), Method::POST, &path, Some(form)).await;
    let invitation = mailed(&site, 5, "/invitation?token=").await.pop().unwrap();
    next();
    register(&site, "second@example.com").await;
    let confirmation = mailed(&site, 6, "/confirm?token=").await.pop().unwrap();
    let pending = pending(&site, &access).await;
    (site, [access, page, refresh, confirmation, change, reset, invitation, pending])
}

/// Returns the token of a log-in that waits for a factor. [`RECOVERY_CODE`] is one.
async fn pending(site: &Site, access: &str) -> String {
    let app = &site.app;
    let now = site.app.now();
    let claims = app.tokens.check(access, now).unwrap();
    let entry = Audit {
        tenant: Some(claims.tenant),
        user: Some(claims.sub),
        action: "prepared".into(),
        subject: String::new(),
        address: String::new(),
        at: now,
        detail: String::new(),
    };
    assert!(app.store.start_totp(claims.sub, b"sealed", &entry, now).await.unwrap());
    let codes = [app.recovery_codes.hash(claims.sub, RECOVERY_CODE).unwrap()];
    let whose = (claims.sub, SessionId(claims.sid));
    assert!(app.store.activate_totp(whose, b"sealed", 1, &codes, &entry).await.unwrap());
    let answer = login(site, EMAIL, PASSWORD).await;
    answer.body["mfa_token"].as_str().unwrap().to_owned()
}

// Shows (Accounts and second factors): Tokens of pages, API, refresh, confirmation, e-mail change, reset and invitation
// are of different kinds, and each works only for its own (promise 69).
#[tokio::test]
async fn a_token_works_only_for_its_purpose() {
    let (site, tokens) = all().await;
    for (kind, token) in PLACES.iter().zip(&tokens) {
        for place in PLACES.iter().filter(|place| *place != kind) {
            // A new address is confirmed by the same operation as a new account, but works without a password too.
            if (*kind, *place) == (TokenHolder::Confirmation, TokenHolder::EmailChange) {
                continue;
            }
            let status = place.take(&site, token).await.status;
            let refusals = [StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED, StatusCode::SEE_OTHER];
            assert!(refusals.contains(&status), "a token of {kind:?} at {place:?}: {status}");
        }
    }
    for (own, kind) in PLACES.iter().enumerate() {
        // Some tokens invalidate others.
        let (site, tokens) = all().await;
        let status = kind.take(&site, &tokens[own]).await.status;
        assert!(status.is_success(), "{kind:?}: {status}");
    }
}

// Shows (Management).
#[tokio::test]
async fn a_personal_access_token_works_for_the_api_alone() {
    let (site, tokens) = all().await;
    let form = json!({"name": "deploy", "scopes": ["read"]});
    let made = ask(&site, Some(&tokens[0]), Method::POST, "/auth/tokens", Some(form)).await;
    let token = made.body["token"].as_str().unwrap();
    for place in PLACES {
        let status = place.take(&site, token).await.status;
        let works = place == TokenHolder::Api;
        let refusals = [StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED, StatusCode::SEE_OTHER];
        assert!(status.is_success() == works && (works || refusals.contains(&status)), "{place:?}: {status}");
    }
}
