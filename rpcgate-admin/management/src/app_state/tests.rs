//! Tests of the state and of its secrets.

use super::*;
use crate::access::session_of;
use crate::identity::challenge::solve;
use crate::identity::form_token::FormHolder;
use crate::testing::{NOON, Site, rotation, run_on_postgres};
use http::StatusCode;
use rpcgate_config::{ChallengeKind, Input};
use rpcgate_core::clock::ManualClock;
use rpcgate_store::Role;
#[tokio::test]
async fn the_error_for_a_missing_secret_says_how_to_set_it() {
    let mut config = Config::default();
    config.gateway.key_secret = Some(Secret::new("0123456789abcdef"));
    let error = AppState::open(config, Arc::new(ManualClock::at(NOON))).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "admin.jwt.secret: is needed here and is not set: write secret = { file = \"…\" } below [admin.jwt], a \
         file with at least 32 random bytes that is the same for every host, or set RPCGATE_ADMIN__JWT__SECRET"
    );
}

#[tokio::test]
async fn a_verifier_to_which_the_secret_would_go_unencrypted_is_refused() {
    let mut config = Config::default();
    config.gateway.key_secret = Some(Secret::new("0123456789abcdef"));
    config.admin.jwt.secret = Some(Secret::new("0123456789abcdef0123456789abcdef"));
    config.admin.challenge.kind = ChallengeKind::Turnstile;
    config.admin.challenge.verify_url = Some(Url::parse("http://a.example/", &["http"]).unwrap());
    let error = AppState::open(config, Arc::new(ManualClock::at(NOON))).await.unwrap_err();
    let text = "admin.challenge.verify_url: must begin with https://, or with http:// and name this machine";
    assert_eq!(error.to_string(), text);
    assert!(error.is_configuration());
}

#[test]
fn unset_urls_default_to_the_listener() {
    let settings = Settings::new(Config::default());
    assert_eq!(settings.dash_url, "http://127.0.0.1:8081");
    let text = "[admin]\ndash_url = \"https://dash.example.com/\"\n";
    let config = Config::read(&Input { file: Some(("f", text)), ..Input::default() }).unwrap();
    let settings = Settings::new(config);
    assert_eq!(settings.dash_url, "https://dash.example.com");
    assert_eq!(settings.api_url, "http://127.0.0.1:8081");
}

#[tokio::test]
async fn a_state_that_is_reloaded_keeps_its_store_and_takes_the_new_settings() {
    let site = Site::new().await;
    let visitor = site.member(Role::Owner).await;
    let mut config = site.app.settings.config.clone();
    config.plans.free.per_minute = 77;
    config.admin.auth_per_minute = 3;
    let reload = site.app.reload(config.clone()).unwrap();
    assert_eq!(reload.settings.config.plans.free.per_minute, 77);
    assert!(reload.store.session(visitor.session, NOON).await.unwrap().is_some());
    assert!(reload.tokens.check(&visitor.token, NOON).is_ok());
    assert!(!Arc::ptr_eq(&reload.limits, &site.app.limits), "another bound starts a new count");
    config.admin.jwt.secret = Some(Secret::new("another secret of thirty-two bytes or so"));
    assert!(reload.reload(config.clone()).unwrap().tokens.check(&visitor.token, NOON).is_err());
    config.admin.jwt.secret = None;
    assert!(reload.reload(config).unwrap_err().is_configuration());
}

// Shows (Commands and configuration).
#[tokio::test]
async fn secrets_rotate_over_two_reloads_without_ending_a_session() {
    let site = Site::of("[admin.challenge]\ndifficulty = 50\n").await;
    let visitor = site.member(Role::Owner).await;
    let holder = FormHolder::Session(visitor.session);
    let [_, during, after] = rotation(&site);
    let old_key = site.app.forge.make().unwrap();
    let old_form = site.app.form_tokens.issue(holder);
    let puzzle = solve(&site.app.challenges.issue(NOON).unwrap()).unwrap();
    let me = async |site: &Site, token: &str| {
        let session = session_of(&site.app, &site.app.tokens, token).await;
        session.map_or_else(|refused| refused.status(), |_| StatusCode::OK)
    };

    let site = site.reloaded(during);
    assert_eq!(me(&site, &visitor.token).await, StatusCode::OK);
    let app = &site.app;
    assert!(app.forge.is_genuine(&old_key) && app.form_tokens.is_valid(&old_form, holder));
    assert!(app.challenges.check(&puzzle, NOON).is_ok());
    let claims = app.tokens.check(&visitor.token, NOON).unwrap();
    let new = app.tokens.issue(&claims, NOON).unwrap();
    let new_key = app.forge.make().unwrap();
    let new_form = app.form_tokens.issue(holder);

    let site = site.reloaded(after);
    assert_eq!(me(&site, &visitor.token).await, StatusCode::UNAUTHORIZED);
    assert_eq!(me(&site, &new).await, StatusCode::OK);
    let app = &site.app;
    assert!(!app.forge.is_genuine(&old_key) && app.forge.is_genuine(&new_key));
    assert!(!app.form_tokens.is_valid(&old_form, holder) && app.form_tokens.is_valid(&new_form, holder));
    assert!(app.challenges.check(&puzzle, NOON).is_err());
}

// Shows (Management): The attempts of a client are counted over all hosts together.
#[tokio::test]
async fn two_hosts_with_one_database_admit_as_many_attempts_of_a_client_as_one_would() {
    let site = Site::of("[admin]\nauth_per_minute = 7\n").await;
    let second = AppState::open(site.app.settings.config.clone(), site.clock.clone()).await.unwrap();
    let address = "2001:db8::1".parse().unwrap();
    let mut admitted = 0;
    for _ in 0..10 {
        for app in [&*site.app, &second] {
            match app.admit_attempt(address).await {
                Ok(()) => admitted += 1,
                Err(error) => assert_eq!(error.status(), StatusCode::TOO_MANY_REQUESTS),
            }
        }
    }
    assert_eq!(admitted, 7);
    assert!(second.admit_attempt("2001:db8:0:1::1".parse().unwrap()).await.is_ok(), "others are not held");
    site.clock.advance(Duration::from_secs(60));
    assert!(second.admit_attempt(address).await.is_ok());
}

#[test]
#[cfg_attr(not(have_postgres), ignore = "needs postgresql (apt install postgresql)")]
fn actions_do_the_same_on_postgresql_and_sqlite() {
    run_on_postgres(&["billing::", "mail::queue", "operator::config_versions", "operator::rollback"]);
}
