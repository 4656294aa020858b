//! Tests of the account: factors, sessions, tokens, and step-up authentication.

use super::*;
use crate::testing::second_factors::Authenticator;
use crate::testing::{Site, Visitor};
use crate::tests::hostile::{HOSTILE, assert_shown, forged};
use crate::tests::{cookie, get, post};
use http::StatusCode;
use http::header::CACHE_CONTROL;
use rpcgate_management::access::RECENT;
use rpcgate_store::{Audit, Digest, Role, fresh_id};
use std::time::Duration;

/// Returns the first text between `before` and `after`.
fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before} in {text}"));
    rest.split_once(after).unwrap().0
}

/// Adds an app for a user and returns it with the recovery codes. The app's code has not been used since.
pub(crate) async fn with_app(site: &Site, own: &str) -> (Authenticator, Vec<String>) {
    let begun = post(site, "/account/security/totp", own, &[]).await;
    assert_eq!(begun.status, StatusCode::OK, "{}", begun.text);
    let app = Authenticator::of(between(&begun.text, "<code class=\"id\">", "<"));
    let added = post(site, "/account/security/totp/activate", own, &[("code", &app.shows(site))]).await;
    assert_eq!(added.status, StatusCode::OK, "{}", added.text);
    let codes = added.text.split("<li><code>").skip(1).map(|rest| rest.split('<').next().unwrap().to_owned());
    let codes: Vec<_> = codes.collect();
    assert_eq!(codes.len(), RECOVERY_CODES);
    site.clock.advance(Duration::from_secs(30));
    (app, codes)
}

// Shows (Dashboard): Secrets are shown once on pages that browsers do not store.
#[tokio::test]
async fn an_app_is_added_by_a_picture_and_its_codes_are_shown_once() {
    let site = Site::new().await;
    let visitor = site.member(Role::Viewer).await;
    let own = cookie(&site, &visitor);
    let before = get(&site, "/account/security", &own).await;
    assert!(
        before.text.contains("Set up an app") && !before.text.contains("Recovery codes"),
        "{}",
        before.text
    );
    assert_eq!(get(&site, "/totp", &own).await.leads_to(), (StatusCode::SEE_OTHER, "account/security"));

    let begun = post(&site, "/account/security/totp", &own, &[]).await;
    assert_eq!(begun.header(CACHE_CONTROL), "no-store");
    assert!(
        begun.text.contains("<svg ") && begun.text.contains("role=\"img\" aria-label=\"QR code"),
        "{}",
        begun.text
    );
    assert!(!begun.text.contains(" style="), "the policy forbids it");
    let app = Authenticator::of(between(&begun.text, "<code class=\"id\">", "<"));
    let wrong = post(&site, "/account/security/totp/activate", &own, &[("code", &app.wrong(&site))]).await;
    wrong.assert_wrong("code", "Not added: ");
    assert!(!wrong.text.contains("<code class=\"id\">"), "the secret is shown once");
    let added = post(&site, "/account/security/totp/activate", &own, &[("code", &app.shows(&site))]).await;
    assert_eq!((added.status, added.header(CACHE_CONTROL)), (StatusCode::OK, "no-store"));
    assert_eq!(added.text.matches("<li><code>").count(), RECOVERY_CODES, "{}", added.text);
    let after = get(&site, "/account/security", &own).await;
    assert!(after.text.contains("10 of 10 left") && after.text.contains("totp/off"), "{}", after.text);
    assert!(!after.text.contains("<li><code>"));
    let again = post(&site, "/account/security/totp", &own, &[]).await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.text);
}

#[tokio::test]
async fn an_app_is_switched_off_and_codes_are_renewed_by_a_factor_alone() {
    let site = Site::new().await;
    let own = cookie(&site, &site.member(Role::Viewer).await);
    let (app, codes) = with_app(&site, &own).await;
    for path in ["/account/security/totp/off", "/account/security/recovery-codes"] {
        let page = get(&site, path, &own).await;
        assert!(
            page.text.contains("id=\"factor\"") && page.text.contains("or a recovery code"),
            "{}",
            page.text
        );
        post(&site, path, &own, &[]).await.assert_wrong("factor", "Not done: ");
        let wrong = post(&site, path, &own, &[("factor", &app.wrong(&site))]).await;
        assert_eq!(wrong.status, StatusCode::FORBIDDEN, "{}", wrong.text);
        assert!(wrong.text.contains("The code is wrong or was used before."), "{}", wrong.text);
        assert_eq!(
            forged(&site, path, &own, &[("factor", &app.shows(&site))]).await.status,
            StatusCode::FORBIDDEN
        );
    }
    let code = app.shows(&site);
    let renewed = post(&site, "/account/security/recovery-codes", &own, &[("factor", &code)]).await;
    assert_eq!((renewed.status, renewed.header(CACHE_CONTROL)), (StatusCode::OK, "no-store"));
    assert_eq!(renewed.text.matches("<li><code>").count(), RECOVERY_CODES);
    assert!(!renewed.text.contains(&codes[0]), "the earlier ones are invalid");
    let used = post(&site, "/account/security/totp/off", &own, &[("factor", &code)]).await;
    assert_eq!(used.status, StatusCode::FORBIDDEN, "a code works once");
    let new = between(&renewed.text, "<li><code>", "<");
    let off = post(&site, "/account/security/totp/off", &own, &[("factor", new)]).await;
    assert_eq!(off.leads_to(), (StatusCode::SEE_OTHER, "../../../account/security?done=app-removed"));
    assert!(get(&site, "/account/security", &own).await.text.contains("Set up an app"));
}

// Shows (Dashboard): A second factor is required again after ten minutes before access tokens are made and factors are
// added.
#[tokio::test]
async fn a_factor_is_given_again_after_ten_minutes_and_the_user_is_led_back() {
    let site = Site::new().await;
    let visitor = site.member(Role::Developer).await;
    let own = cookie(&site, &visitor);
    let token = [("name", "ci"), ("scopes", "read"), ("days", "30")];
    assert_eq!(
        get(&site, "/step-up?next=account/tokens", &own).await.leads_to(),
        (StatusCode::SEE_OTHER, "account/tokens"),
        "a user without a factor has none to give"
    );
    let (app, _) = with_app(&site, &own).await;
    assert_eq!(
        post(&site, "/account/tokens", &own, &token).await.status,
        StatusCode::CREATED,
        "one was just given"
    );

    site.clock.advance(RECENT);
    let led = post(&site, "/account/tokens", &own, &token).await;
    assert_eq!(led.leads_to(), (StatusCode::SEE_OTHER, "../step-up?next="));
    assert!(get(&site, "/account/tokens", &own).await.text.contains("step-up?next=account/tokens"));
    let page = get(&site, "/step-up?next=account/tokens", &own).await;
    assert!(page.text.contains("name=\"next\" value=\"account/tokens\""), "{}", page.text);
    let give = async |code: &str, next: &str| {
        post(&site, "/step-up", &own, &[("factor", code), ("next", next)]).await
    };
    give("", "account/tokens").await.assert_wrong("factor", "Not confirmed: ");
    let wrong = give(&app.wrong(&site), "account/tokens").await;
    assert_eq!(wrong.status, StatusCode::FORBIDDEN);
    assert!(wrong.text.contains("value=\"account/tokens\""), "{}", wrong.text);
    let code = app.shows(&site);
    let given = give(&code, "account/tokens").await;
    assert_eq!(given.leads_to(), (StatusCode::SEE_OTHER, "account/tokens"));
    assert_eq!(post(&site, "/account/tokens", &own, &token).await.status, StatusCode::CREATED);
    let again = give(&code, "").await;
    assert_eq!(again.status, StatusCode::FORBIDDEN, "a code works once");
    assert_eq!(give("x", "https://evil.example").await.text.matches("evil.example").count(), 0);
}

// Shows (Dashboard).
#[tokio::test]
async fn a_token_is_shown_once_and_revoked_after_a_question() {
    let site = Site::new().await;
    let own = cookie(&site, &site.member(Role::Developer).await);
    let other = cookie(&site, &site.member(Role::Developer).await);
    let form = [("name", HOSTILE[0]), ("scopes", "read"), ("scopes", "manage_keys"), ("days", "7")];
    let made = post(&site, "/account/tokens", &own, &form).await;
    assert_eq!((made.status, made.header(CACHE_CONTROL)), (StatusCode::CREATED, "no-store"), "{}", made.text);
    let secret = between(&made.text, "secret\"><code>", "<").to_owned();
    let list = get(&site, "/account/tokens", &own).await;
    assert!(!list.text.contains(&secret), "{}", list.text);
    assert_shown(&list, HOSTILE[0]);
    let id = between(&list.text, "account/tokens/", "/revoke").to_owned();
    let path = format!("/account/tokens/{id}/revoke");
    assert_shown(&get(&site, &path, &own).await, HOSTILE[0]);
    for foreign in [get(&site, &path, &other).await, post(&site, &path, &other, &[]).await] {
        assert_eq!(foreign.status, StatusCode::NOT_FOUND, "{}", foreign.text);
    }
    assert_eq!(forged(&site, &path, &own, &[]).await.status, StatusCode::FORBIDDEN);
    let revoked = post(&site, &path, &own, &[]).await;
    assert_eq!(revoked.leads_to(), (StatusCode::SEE_OTHER, "../../../account/tokens?done=token-revoked"));
    assert!(get(&site, "/account/tokens", &own).await.text.contains("No access tokens yet"));

    let wrong = async |name: &str, scopes: &str, days: &str| {
        post(&site, "/account/tokens", &own, &[("name", name), ("scopes", scopes), ("days", days)]).await
    };
    wrong("", "read", "7").await.assert_wrong("name", "Not created: ");
    wrong("x", "manage_owners", "7").await.assert_wrong("scopes", "Not created: ");
    wrong("x", "read", "soon").await.assert_wrong("days", "Not created: ");
    assert_eq!(wrong("x", "read", "367").await.status, StatusCode::BAD_REQUEST);
}

// Shows (Dashboard).
#[tokio::test]
async fn the_profile_is_changed_or_its_errors_are_shown() {
    let site = Site::new().await;
    let own = cookie(&site, &site.member(Role::Viewer).await);
    for name in [HOSTILE[1], HOSTILE[4]] {
        let saved = post(&site, "/account/name", &own, &[("name", name)]).await;
        assert_eq!(saved.leads_to(), (StatusCode::SEE_OTHER, "../account?done=profile-saved"));
        assert_shown(&get(&site, "/account", &own).await, name);
    }
    let long = "x".repeat(201);
    post(&site, "/account/name", &own, &[("name", &long)]).await.assert_wrong("name", "Not saved: ");
    let short = [("current_password", "x"), ("new_password", "short")];
    post(&site, "/account/password", &own, &short).await.assert_wrong("new_password", "Not saved: ");
    for path in ["/account/name", "/account/password"] {
        let form = [("name", "x"), ("current_password", "x"), ("new_password", "x")];
        assert_eq!(forged(&site, path, &own, &form).await.status, StatusCode::FORBIDDEN, "{path}");
    }
}

async fn second_session(site: &Site, visitor: &Visitor, agent: &str) -> SessionId {
    let now = site.app.now();
    let session = Session {
        id: SessionId(fresh_id(now)),
        user: visitor.user.id,
        created_at: now,
        seen_at: now,
        expires_at: now.plus(Duration::from_secs(3_600)),
        address: "198.51.100.7".into(),
        agent: agent.into(),
        method: LogInMethod::Password,
        factor_at: None,
        proved_at: None,
        seen_address: "198.51.100.7".into(),
    };
    let entry = Audit {
        tenant: visitor.user.tenant,
        user: Some(visitor.user.id),
        action: "session.opened".into(),
        subject: session.id.to_string(),
        address: session.address.clone(),
        at: now,
        detail: String::new(),
    };
    let refresh = Digest::of(&session.id.to_string());
    let hash = visitor.user.password.clone().unwrap();
    assert!(site.app.store.open_session(&session, &refresh, &hash, &entry).await.unwrap());
    session.id
}

#[tokio::test]
async fn sessions_are_ended_one_by_one_or_all_others() {
    let site = Site::new().await;
    let visitor = site.member(Role::Viewer).await;
    let outsider = site.member(Role::Viewer).await;
    let own = cookie(&site, &visitor);
    let phone = second_session(&site, &visitor, "Mozilla/5.0 (iPhone) Version/1 Safari/1").await;
    let list = get(&site, "/account/security", &own).await;
    assert!(list.text.contains("Safari on iPhone") && list.text.contains("198.51.100.7"), "{}", list.text);
    assert_eq!(list.text.matches("This one").count(), 1);
    let path = format!("/account/security/sessions/{phone}/end");
    let foreign = post(&site, &path, &cookie(&site, &outsider), &[]).await;
    assert_eq!(foreign.status, StatusCode::NOT_FOUND);
    assert_eq!(forged(&site, &path, &own, &[]).await.status, StatusCode::FORBIDDEN);
    let ended = post(&site, &path, &own, &[]).await;
    assert_eq!(ended.leads_to(), (StatusCode::SEE_OTHER, "../../../../account/security?done=session-ended"));
    assert_eq!(post(&site, &path, &own, &[]).await.status, StatusCode::NOT_FOUND, "it has ended");

    for agent in ["curl/8.5.0", HOSTILE[1]] {
        second_session(&site, &visitor, agent).await;
    }
    let shown = get(&site, "/account/security", &own).await;
    assert!(!shown.text.contains("<img src=x"), "{}", shown.text);
    let ended = post(&site, "/account/security/sessions/end-others", &own, &[]).await;
    assert_eq!(ended.status, StatusCode::SEE_OTHER);
    let left = site.app.store.sessions(visitor.user.id, site.app.now()).await.unwrap();
    assert_eq!(left.iter().map(|session| session.id).collect::<Vec<_>>(), [visitor.session]);
    assert_eq!(get(&site, "/account", &own).await.status, StatusCode::OK, "this one goes on");
}

#[tokio::test]
async fn preferences_are_saved_together_and_mails_about_safety_stay() {
    let site = Site::new().await;
    let visitor = site.member(Role::Developer).await;
    let own = cookie(&site, &visitor);
    let page = get(&site, "/account/notifications", &own).await;
    assert!(
        page.text.contains("name=\"shown.account.security\"") && !page.text.contains("mail.account.security")
    );
    assert!(!page.text.contains("billing.invoice"), "developers do not read bills");
    let form = [("shown.usage.daily_requests_80", "yes"), ("mail.usage.daily_requests_80", "yes")];
    let saved = post(&site, "/account/notifications", &own, &form).await;
    assert_eq!(saved.leads_to(), (StatusCode::SEE_OTHER, "../account/notifications?done=preferences-saved"));
    let chosen = site.app.store.notification_preferences(visitor.user.id).await.unwrap();
    let of = |name: &str| {
        chosen.iter().find(|(kind, _)| kind.name() == name).map(|(_, one)| (one.shown, one.mail))
    };
    assert_eq!(of("usage.daily_requests_80"), Some((true, true)));
    assert_eq!(of("account.security"), Some((false, true)), "not listed, but mailed");
    assert_eq!(of("webhook.health"), Some((false, false)));
    assert_eq!(forged(&site, "/account/notifications", &own, &form).await.status, StatusCode::FORBIDDEN);
    let operator = cookie(&site, &site.operator().await);
    assert_eq!(get(&site, "/account/notifications", &operator).await.status, StatusCode::NOT_FOUND);
    for path in ["/account", "/account/security", "/account/tokens"] {
        assert_eq!(get(&site, path, &operator).await.status, StatusCode::OK, "{path} is for operators too");
    }
}

mod with_passkeys {
    use super::*;
    use crate::testing::second_factors::{ORIGIN, SoftwareKey};
    use crate::tests::HtmlPage;
    use http::header::SET_COOKIE;
    use rpcgate_management::identity::password::Typed;
    use serde_json::Value;

    /// The cookie of a browser that is not logged in.
    const VISITOR: &str = "__Host-rpcgate-visitor=00112233445566778899aabbccddeeff";

    async fn site() -> Site {
        Site::of(&format!("[admin]\nauth_per_minute = 1000\ndash_url = \"{ORIGIN}\"\n")).await
    }

    fn secure(site: &Site, visitor: &Visitor) -> String {
        format!("__Host-{}", cookie(site, visitor))
    }

    /// Starts a ceremony as the script does: returns its token and its options.
    async fn begun(site: &Site, path: &str, own: &str, fields: &[(&str, &str)]) -> (String, Value) {
        let begun = post(site, path, own, fields).await;
        assert_eq!(begun.status, StatusCode::OK, "{}", begun.text);
        let mut begun: Value = serde_json::from_str(&begun.text).unwrap();
        (begun["ceremony"].as_str().unwrap().to_owned(), begun["options"].take())
    }

    async fn added(site: &Site, own: &str, key: &mut SoftwareKey, name: &str) -> HtmlPage {
        let (ceremony, options) = begun(site, "/account/security/passkeys/start", own, &[]).await;
        let credential = key.make(&options).await.to_string();
        let form = [("ceremony", ceremony.as_str()), ("credential", &credential), ("name", name)];
        post(site, "/account/security/passkeys", own, &form).await
    }

    // Shows (Dashboard): Passkeys are added, used and removed on pages without a token in a script.
    #[tokio::test]
    async fn a_passkey_is_added_with_a_name_and_logs_its_user_in_alone() {
        let site = site().await;
        let visitor = site.member(Role::Viewer).await;
        let own = secure(&site, &visitor);
        let mut key = SoftwareKey::default();
        let form = get(&site, "/account/security/passkeys/new", &own).await;
        assert!(
            form.text.contains("data-passkey=\"create\"") && form.text.contains("static/passkeys."),
            "{}",
            form.text
        );
        let first = added(&site, &own, &mut key, HOSTILE[0]).await;
        assert_eq!(
            (first.status, first.header(CACHE_CONTROL)),
            (StatusCode::OK, "no-store"),
            "{}",
            first.text
        );
        assert_eq!(first.text.matches("<li><code>").count(), RECOVERY_CODES);
        assert_shown(&get(&site, "/account/security", &own).await, HOSTILE[0]);

        let (ceremony, options) = begun(&site, "/login/passkey/start", VISITOR, &[]).await;
        let credential = key.use_here(&options).await.to_string();
        let form = [("ceremony", ceremony.as_str()), ("credential", &credential), ("next", "account")];
        let opened = post(&site, "/login/passkey", VISITOR, &form).await;
        assert_eq!(opened.leads_to(), (StatusCode::SEE_OTHER, "../account"), "{}", opened.text);
        assert!(opened.header(SET_COOKIE).starts_with("__Host-rpcgate="));
        let again = post(&site, "/login/passkey", VISITOR, &form).await;
        assert_eq!(again.status, StatusCode::BAD_REQUEST, "a ceremony is used once: {}", again.text);
        for path in ["/login/passkey", "/login/passkey/start"] {
            assert_eq!(forged(&site, path, VISITOR, &[]).await.status, StatusCode::FORBIDDEN, "{path}");
        }
    }

    // Shows (Dashboard).
    #[tokio::test]
    async fn a_passkey_is_given_again_and_removes_itself() {
        let site = site().await;
        let visitor = site.member(Role::Viewer).await;
        let own = secure(&site, &visitor);
        let mut key = SoftwareKey::default();
        assert_eq!(added(&site, &own, &mut key, "Telephone").await.status, StatusCode::OK);
        site.clock.advance(RECENT);
        let led = get(&site, "/account/security/passkeys/new", &own).await;
        let next = "account%2Fsecurity%2Fpasskeys%2Fnew";
        assert_eq!(led.leads_to(), (StatusCode::SEE_OTHER, format!("../../../step-up?next={next}").as_str()));
        let refused = post(&site, "/account/security/passkeys/start", &own, &[]).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.text);
        assert!(refused.text.starts_with("{\"error\":\"Give one of your second factors"), "{}", refused.text);

        let (ceremony, options) = begun(&site, "/account/security/factor/start", &own, &[]).await;
        let credential = key.use_here(&options).await.to_string();
        let form =
            [("ceremony", ceremony.as_str()), ("credential", &credential), ("next", "account/security")];
        let given = post(&site, "/step-up", &own, &form).await;
        assert_eq!(given.leads_to(), (StatusCode::SEE_OTHER, "account/security"), "{}", given.text);
        assert_eq!(get(&site, "/account/security/passkeys/new", &own).await.status, StatusCode::OK);

        let list = get(&site, "/account/security", &own).await;
        let id = between(&list.text, "account/security/passkeys/", "/remove\"").rsplit('/').next().unwrap();
        let path = format!("/account/security/passkeys/{id}/remove");
        let outsider = secure(&site, &site.member(Role::Viewer).await);
        assert_eq!(get(&site, &path, &outsider).await.status, StatusCode::NOT_FOUND);
        assert!(get(&site, &path, &own).await.text.contains("Remove Telephone?"));
        let (ceremony, options) = begun(&site, "/account/security/factor/start", &own, &[]).await;
        let credential = key.use_here(&options).await.to_string();
        let form = [("ceremony", ceremony.as_str()), ("credential", &credential)];
        let removed = post(&site, &path, &own, &form).await;
        assert_eq!(removed.status, StatusCode::SEE_OTHER, "{}", removed.text);
        assert!(get(&site, "/account/security", &own).await.text.contains("You have no second factor"));
    }

    async fn choose_password(site: &Site, visitor: &Visitor, password: &str) {
        let new = site.app.passwords.hash(Typed::from(password).choose().unwrap()).await.unwrap();
        let entry = Audit {
            tenant: visitor.user.tenant,
            user: Some(visitor.user.id),
            action: "password.changed".into(),
            subject: String::new(),
            address: String::new(),
            at: site.app.now(),
            detail: String::new(),
        };
        let user = visitor.user.id;
        let before = visitor.user.password.clone().unwrap();
        let keep = visitor.session;
        assert!(site.app.store.change_password(user, &before, &new, Some(keep), &entry).await.unwrap());
    }

    #[tokio::test]
    async fn a_passkey_is_the_second_factor_of_a_log_in() {
        const PASSWORD: &str = "correct horse battery staple";
        let site = site().await;
        let visitor = site.member(Role::Viewer).await;
        let own = secure(&site, &visitor);
        let mut key = SoftwareKey::default();
        choose_password(&site, &visitor, PASSWORD).await;
        assert_eq!(added(&site, &own, &mut key, "Telephone").await.status, StatusCode::OK);
        let login = [("email", visitor.user.email.as_str()), ("password", PASSWORD), ("next", "account")];
        let page = post(&site, "/login", VISITOR, &login).await;
        assert!(page.text.contains("data-passkey=\"get\""), "{}", page.text);
        let token = between(&page.text, "name=\"token\" value=\"", "\"").to_owned();
        let wrong = post(
            &site,
            "/login/second-factor",
            VISITOR,
            &[("token", &token), ("code", "x"), ("passkey", "yes")],
        )
        .await;
        assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
        assert!(wrong.text.contains("data-passkey=\"get\""), "it is offered again: {}", wrong.text);
        let (ceremony, options) = begun(&site, "/login/passkey/start", VISITOR, &[("token", &token)]).await;
        let credential = key.use_here(&options).await.to_string();
        let form = [
            ("token", token.as_str()),
            ("next", "account"),
            ("ceremony", &ceremony),
            ("credential", &credential),
        ];
        let opened = post(&site, "/login/second-factor", VISITOR, &form).await;
        assert_eq!(opened.leads_to(), (StatusCode::SEE_OTHER, "../account"), "{}", opened.text);
    }
}
