//! Tests of registrations with the challenge of a provider.

use super::{ask, mails, post};
use crate::testing::service::{json as reply, service};
use crate::testing::{ApiAnswer, Site};
use http::Method;
use http::header::RETRY_AFTER;
use serde_json::json;

async fn site(kind: &str, url: &str) -> Site {
    let text = format!(
        "[admin]\nauth_per_minute = 1000\n[admin.challenge]\nkind = \"{kind}\"\nsite_key = \"the site\"\n\
         secret = \"the secret\"\nverify_url = \"{url}\"\ntimeout = \"1s\"\n"
    );
    Site::of(&text).await
}

async fn register(site: &Site, email: &str, token: &str) -> ApiAnswer {
    let form = json!({"email": email, "password": "correct horse battery staple", "challenge": token});
    post(site, "/auth/register", form).await
}

#[tokio::test]
async fn the_challenge_names_the_provider_and_its_public_key_alone() {
    for kind in ["hcaptcha", "turnstile"] {
        let site = site(kind, "http://127.0.0.1:1/").await;
        let posed = ask(&site, None, Method::GET, "/auth/challenge", None).await.body;
        assert_eq!(posed, json!({"kind": kind, "site_key": "the site"}));
    }
    let own = ask(&Site::new().await, None, Method::GET, "/auth/challenge", None).await.body;
    assert_eq!((&own["kind"], &own["algorithm"]), (&json!("altcha"), &json!("SHA-256")));
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_token_that_the_provider_accepts_opens_one_account() {
    for kind in ["hcaptcha", "turnstile"] {
        let good = r#"{"success":true,"hostname":"any.example","action":"register"}"#;
        let (url, mut requests) = service(move |_| Some(reply(good))).await;
        let site = site(kind, &url).await;
        assert_eq!(register(&site, "ada@example.com", "a.token").await.status, 201);
        let form = requests.recv().await.unwrap();
        assert!(form.contains("response=a.token&remoteip=192.0.2.1"), "{form}");
        let again = register(&site, "bob@example.com", "a.token").await;
        let text = "the challenge's solution was used before, ask for a new challenge";
        assert_eq!((again.status.as_u16(), &again.body["error"]), (400, &json!(text)));
        assert_eq!(register(&site, "bob@example.com", "another").await.status, 201);
        assert_eq!(mails(&site).len(), 2);
    }
}

#[tokio::test]
async fn a_token_that_the_provider_refuses_opens_none() {
    let used = r#"{"success":false,"error-codes":["timeout-or-duplicate"]}"#;
    let (url, _requests) = service(move |_| Some(reply(used))).await;
    let site = site("turnstile", &url).await;
    let refused = register(&site, "ada@example.com", "a.token").await;
    let text = "the challenge has expired or its solution was used before, solve it again";
    assert_eq!((refused.status.as_u16(), &refused.body["error"]), (400, &json!(text)));
    assert!(mails(&site).is_empty());
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_registration_without_a_verdict_is_refused_with_the_reason() {
    let (silent, _requests) = service(|_| None).await;
    let misconfigured = r#"{"success":false,"error-codes":["invalid-input-secret"]}"#;
    let (strict, _strict_requests) = service(move |_| Some(reply(misconfigured))).await;
    for url in [silent.as_str(), strict.as_str(), "http://127.0.0.1:1/"] {
        let site = site("hcaptcha", url).await;
        let refused = register(&site, "ada@example.com", "a.token").await;
        let text = "the challenge cannot be checked at the moment, try again later";
        assert_eq!((refused.status.as_u16(), &refused.body["error"]), (503, &json!(text)));
        assert!(refused.headers.contains_key(RETRY_AFTER));
        assert!(mails(&site).is_empty());
    }
}
