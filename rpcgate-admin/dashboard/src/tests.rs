//! Tests of the pages as a browser uses them.

pub(crate) mod hostile;

pub(crate) use crate::testing::browser::{HtmlPage, VISITOR, answered, cookie, form_token, get, post, sent};

use super::frame::root_of;
use super::outcome::Done;
use super::security::tests::with_app;
use super::session_cookie::is_gate;
use crate::testing::fixtures::use_up;
use crate::testing::fixtures::{actor, issue, limit_request, ticket};
use crate::testing::second_factors::Authenticator;
use crate::testing::service::{json, service};
use crate::testing::{NOON, Site, Visitor};
use axum::body::Body;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    COOKIE, ETAG, IF_NONE_MATCH, LOCATION, ORIGIN, REFERRER_POLICY, RETRY_AFTER, SET_COOKIE,
    STRICT_TRANSPORT_SECURITY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, StatusCode};
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::caller::CustomPlanId;
use rpcgate_core::plan::Tier;
use rpcgate_core::usage::sample::{SampleLine, SampleRecord, SampleShipper, deed, item};
use rpcgate_management::access::session_of;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::invitations::invite;
use rpcgate_management::action::notifications::raise;
use rpcgate_management::action::operator::tickets::{self, TicketAnswer};
use rpcgate_management::identity::challenge::solve;
use rpcgate_management::identity::form_token::FormHolder;
use rpcgate_management::mail::MailObject;
use rpcgate_store::{
    AccountNotice, CustomPlan, Figures, NotificationId, NotificationKind, Role, TenantChange,
};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const EMAIL: &str = "ada@example.com";
const PASSWORD: &str = "correct horse battery staple";
const NASTY: &str = "<script>alert(1)</script>\"'&";
const SHOWN: &str = "&#60;script&#62;alert(1)&#60;/script&#62;&#34;&#39;&#38;";

pub(crate) async fn site() -> Site {
    Site::of("[admin]\nauth_per_minute = 1000\n[admin.challenge]\ndifficulty = 50\n").await
}

async fn register(site: &Site, name: &str, email: &str) -> HtmlPage {
    let challenge = solve(&site.app.challenges.issue(site.app.now()).unwrap()).unwrap();
    let fields = [("name", name), ("email", email), ("password", PASSWORD), ("challenge", &challenge)];
    post(site, "/register", "", &fields).await
}

async fn login(site: &Site) -> HtmlPage {
    post(site, "/login", "", &[("email", EMAIL), ("password", PASSWORD)]).await
}

/// Registers a user, logs in, and returns the cookie.
pub(crate) async fn newcomer(site: &Site) -> String {
    assert_eq!(register(site, "Ada", EMAIL).await.status, StatusCode::CREATED);
    login(site).await.cookie()
}

/// Returns the paths with a token in the sent mails, the oldest first.
fn links(site: &Site) -> Vec<String> {
    let folder = &site.app.settings.config.admin.mail.outbox;
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "eml"));
    files.sort();
    let mails = files.iter().map(|file| std::fs::read_to_string(file).unwrap());
    let lines: Vec<_> = mails.flat_map(|mail| mail.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let paths = lines.iter().filter_map(|line| line.strip_prefix("http://127.0.0.1:8081"));
    paths.filter(|path| path.contains("?token=")).map(str::to_owned).collect()
}

/// Waits for `least` links, because some mails are sent in the background.
async fn links_in_the_end(site: &Site, least: usize) -> Vec<String> {
    let enough = async {
        while links(site).len() < least {
            tokio::time::sleep(Duration::from_millis(1)).await;
            site.send_mails().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), enough).await.unwrap();
    links(site)
}

fn token(link: &str) -> &str {
    link.split_once("?token=").unwrap().1
}

/// Returns the values of the attributes `name` in `text`.
pub(crate) fn attributes<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let opening = format!(" {name}=\"");
    text.split(&opening).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

/// Creates a confirmed account with an app, and returns the app with the recovery codes.
pub(crate) async fn account_with_app(site: &Site) -> (Authenticator, Vec<String>) {
    let own = newcomer(site).await;
    let link = links(site).pop().unwrap();
    let page = post(site, "/confirm", &own, &[("token", token(&link))]).await;
    assert_eq!(page.status, StatusCode::SEE_OTHER, "{}", page.text);
    with_app(site, &own).await
}

async fn confirmed(site: &Site) -> bool {
    site.app.store.user_by_email(EMAIL).await.unwrap().unwrap().confirmed_at.is_some()
}

/// Resolves `link` on the page at `path`, as a browser does.
pub(crate) fn followed(path: &str, link: &str) -> String {
    let mut folders: Vec<_> = path.split('?').next().unwrap().trim_start_matches('/').split('/').collect();
    folders.pop();
    for step in link.split('/') {
        match step {
            "." => {}
            ".." => assert!(folders.pop().is_some(), "{path}: {link} leads above the root"),
            step => folders.push(step),
        }
    }
    format!("/{}", folders.join("/")).replace("//", "/")
}

// Shows (Dashboard): Pages load only our own files, run no inline script, and no page of another site may frame them or
// learn their address (promise 41).
#[tokio::test]
async fn a_page_loads_only_its_own_files_and_leaks_no_referrer() {
    let site = site().await;
    let newcomer = newcomer(&site).await;
    let operator = cookie(&site, &site.operator().await);
    for (path, cookie, status) in [
        ("/", newcomer.as_str(), StatusCode::OK),
        ("/operator", operator.as_str(), StatusCode::OK),
        ("/login", "", StatusCode::OK),
        ("/register", "", StatusCode::OK),
        ("/email", newcomer.as_str(), StatusCode::OK),
        ("/account", newcomer.as_str(), StatusCode::OK),
        ("/account", operator.as_str(), StatusCode::OK),
        ("/account/security", newcomer.as_str(), StatusCode::OK),
        ("/account/security/totp", newcomer.as_str(), StatusCode::OK),
        ("/account/security/recovery-codes", newcomer.as_str(), StatusCode::OK),
        ("/account/notifications", newcomer.as_str(), StatusCode::OK),
        ("/account/tokens", newcomer.as_str(), StatusCode::OK),
        ("/notifications", newcomer.as_str(), StatusCode::OK),
        ("/team", newcomer.as_str(), StatusCode::OK),
        ("/audit", newcomer.as_str(), StatusCode::OK),
        ("/audit?from=never", newcomer.as_str(), StatusCode::BAD_REQUEST),
        ("/plan", newcomer.as_str(), StatusCode::OK),
        ("/plan/request", newcomer.as_str(), StatusCode::OK),
        ("/billing", newcomer.as_str(), StatusCode::OK),
        ("/billing/next", newcomer.as_str(), StatusCode::OK),
        ("/support", newcomer.as_str(), StatusCode::OK),
        ("/support/new", newcomer.as_str(), StatusCode::OK),
        ("/confirm?token=x", "", StatusCode::OK),
        ("/password/forgot", "", StatusCode::OK),
        ("/password/reset?token=x", "", StatusCode::OK),
        ("/invitation?token=x", "", StatusCode::OK),
        ("/no/such/page", newcomer.as_str(), StatusCode::NOT_FOUND),
        ("/no/such/page", "", StatusCode::NOT_FOUND),
    ] {
        let request = http::Request::get(path).header(COOKIE, cookie).header(ACCEPT, "text/html,*/*;q=0.8");
        let page = answered(&site, request, Body::empty()).await;
        assert_eq!((page.status, page.header(CONTENT_TYPE)), (status, "text/html; charset=utf-8"), "{path}");
        assert_eq!(
            page.header(CONTENT_SECURITY_POLICY),
            "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
             worker-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
            "{path}"
        );
        assert_eq!(page.header(REFERRER_POLICY), "same-origin", "{path}");
        assert_eq!(page.header(CACHE_CONTROL), "no-store", "{path}");
        assert_eq!(page.header(X_CONTENT_TYPE_OPTIONS), "nosniff", "{path}");
        for stray in [" style=", " onclick=", " onload=", "<style", "javascript:"] {
            assert!(!page.text.contains(stray), "{path}: {stray}");
        }
        let root = root_of(path.split('?').next().unwrap());
        let own = format!("<script src=\"{root}static/");
        assert_eq!(page.text.matches("<script").count(), page.text.matches(&own).count(), "{path}");
        assert!(page.text.contains("<html lang=\"en\"") && page.text.contains("<h1>"), "{path}");
        assert_eq!(page.text.matches("<h1").count(), 1, "{path}");
        for form in page.text.split("<form method=\"post\"").skip(1) {
            let form = form.split("</form>").next().unwrap();
            let token = format!("name=\"csrf\" value=\"{}\"", form_token_of(&page, &site, cookie));
            assert!(form.contains(&token), "{path}: {form}");
        }
        let linked = ["href", "src", "action", "data-challenge", "data-solver"];
        for link in linked.map(|name| attributes(&page.text, name)).concat() {
            let link = link.split('#').next().unwrap();
            assert!(!link.starts_with('/') && !link.contains(':'), "{path}: {link} does not stay below us");
            if link.is_empty() {
                continue;
            }
            let target = followed(path, link);
            let is_act = ["/logout", "/confirm-again", "/theme"].contains(&target.as_str());
            let method = if is_act { Method::POST } else { Method::GET };
            let request = http::Request::builder().method(method).uri(&target).header(COOKIE, cookie);
            let answer = answered(&site, request, "").await;
            // Only the pages of this list are declared here; the others are tested in their modules.
            let is_page =
                target.starts_with("/static/") || is_act || is_gate(target.split('?').next().unwrap());
            assert!(!is_page || answer.status != StatusCode::NOT_FOUND, "{path}: {link} leads nowhere");
        }
        for field in attributes(&page.text, "for") {
            assert!(attributes(&page.text, "id").contains(&field), "{path}: {field}");
        }
    }
}

#[tokio::test]
async fn the_address_of_a_missing_page_does_not_link_elsewhere() {
    let site = site().await;
    let own = cookie(&site, &site.member(Role::Owner).await);
    for path in ["/javascript:alert(1)", "/http:evil.example"] {
        let request = http::Request::get(path).header(COOKIE, &own).header(ACCEPT, "text/html");
        let page = answered(&site, request, Body::empty()).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
        let links = attributes(&page.text, "href");
        assert!(links.contains(&format!(".{path}").as_str()), "{links:?}");
        assert!(links.iter().all(|link| !link.starts_with(&path[1..])), "{links:?}");
    }
}

// Shows (Dashboard): While usage cannot be read, other pages open, and a key can be made, shown and revoked.
#[tokio::test]
async fn pages_without_usage_open_while_the_usage_database_is_unreachable() {
    let site = site().await;
    let own = cookie(&site, &site.member(Role::Owner).await);
    site.app.usage.close().await;
    for path in [
        "/",
        "/account",
        "/account/security",
        "/account/tokens",
        "/billing",
        "/notifications",
        "/team",
        "/webhooks",
        "/plan",
        "/chains/eth",
    ] {
        let page = get(&site, path, &own).await;
        assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.text);
    }
    let page = get(&site, "/usage", &own).await;
    assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE, "{}", page.text);
}

#[tokio::test]
async fn the_registration_form_has_the_rate_limit_of_the_api() {
    let site = Site::new().await;
    let mut status = StatusCode::OK;
    for _ in 0..100 {
        status = get(&site, "/register", "").await.status;
        if status != StatusCode::OK {
            break;
        }
    }
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
}

/// Returns the token that the forms of a page must have. A visitor's token is for the cookie that came with the page.
fn form_token_of(page: &HtmlPage, site: &Site, cookie: &str) -> String {
    match page.cookie().strip_prefix("rpcgate-visitor=") {
        Some(visitor) => site.app.form_tokens.issue(FormHolder::Visitor(visitor)),
        None => form_token(site, cookie),
    }
}

// Shows (Dashboard).
#[tokio::test]
async fn every_entry_of_the_navigation_leads_to_a_page() {
    let site = site().await;
    let owner = site.member(Role::Owner).await;
    let operator = site.operator().await;
    for visitor in [&owner, &operator] {
        let own = cookie(&site, visitor);
        let start = get(&site, "/", &own).await;
        let start = if start.status == StatusCode::SEE_OTHER {
            get(&site, &followed("/", start.header(LOCATION)), &own).await
        } else {
            start
        };
        let menu = start.text.split("<nav aria-label=\"Main\">").nth(1).unwrap();
        let menu = menu.split("</nav>").next().unwrap();
        assert!(attributes(menu, "href").len() >= 10, "{menu}");
        // The document of the API is served next to it, in another package.
        for link in attributes(menu, "href").into_iter().filter(|link| !link.ends_with("swagger/")) {
            let page = get(&site, &followed("/x", link), &own).await;
            assert_ne!(page.status, StatusCode::NOT_FOUND, "{link}");
        }
    }
}

#[tokio::test]
async fn a_user_registers_confirms_and_logs_in_and_out() {
    let site = site().await;
    assert_eq!(get(&site, "/", "").await.leads_to(), (StatusCode::SEE_OTHER, "login"));
    let page = register(&site, "Ada", EMAIL).await;
    assert_eq!(page.status, StatusCode::CREATED);
    assert!(page.text.contains(EMAIL), "{}", page.text);
    let opened = login(&site).await;
    assert_eq!(opened.leads_to(), (StatusCode::SEE_OTHER, "./"));
    let cookie = opened.cookie();
    let home = get(&site, "/", &cookie).await;
    assert!(home.text.contains("Welcome, Ada") && home.text.contains("0 of 4 done"), "{}", home.text);
    assert!(home.text.contains("action=\"confirm-again\""), "{}", home.text);
    for path in ["/login", "/register"] {
        assert_eq!(get(&site, path, &cookie).await.leads_to(), (StatusCode::SEE_OTHER, "./"), "{path}");
    }

    let [link] = &links(&site)[..] else { panic!("there must be one mail") };
    let page = get(&site, link, "").await;
    assert!(page.text.contains(&format!("value=\"{}\"", token(link))), "{}", page.text);
    assert!(!confirmed(&site).await, "to open the link is not to confirm");
    let page = post(&site, "/confirm", &cookie, &[("token", token(link))]).await;
    assert_eq!(page.leads_to(), (StatusCode::SEE_OTHER, "./?done=address-confirmed"));
    assert!(get(&site, "/?done=address-confirmed", &cookie).await.text.contains("address is confirmed."));
    assert!(confirmed(&site).await);
    let home = get(&site, "/", &cookie).await;
    assert!(home.text.contains("1 of 4 done") && !home.text.contains("confirm-again"), "{}", home.text);
    let again = post(&site, "/confirm", &cookie, &[("token", token(link))]).await;
    assert_eq!(again.status, StatusCode::BAD_REQUEST);
    assert!(again.text.contains("The token is not valid, was used, or has expired."), "{}", again.text);

    let left = post(&site, "/logout", &cookie, &[]).await;
    assert_eq!(left.leads_to(), (StatusCode::SEE_OTHER, "login"));
    assert_eq!(left.header(SET_COOKIE), "rpcgate=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
    assert_eq!(get(&site, "/", &cookie).await.leads_to(), (StatusCode::SEE_OTHER, "login"));
    assert_eq!(post(&site, "/logout", &cookie, &[]).await.leads_to(), (StatusCode::SEE_OTHER, "login"));
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_visitor_with_the_link_chooses_the_password_without_being_logged_in() {
    let site = site().await;
    let squatter = newcomer(&site).await;
    let outsider = cookie(&site, &site.member(Role::Owner).await);
    let [link] = &links(&site)[..] else { panic!("there must be one mail") };
    let asks = "name=\"password\"";
    assert!(!get(&site, link, &squatter).await.text.contains(asks), "a logged-in user has given it");
    for cookie in ["", &outsider] {
        assert!(get(&site, link, cookie).await.text.contains(asks));
        let page = post(&site, "/confirm", cookie, &[("token", token(link))]).await;
        assert_eq!(page.status, StatusCode::BAD_REQUEST);
        assert!(page.text.contains("at least 10 characters") && page.text.contains(asks), "{}", page.text);
        assert!(!confirmed(&site).await);
    }
    let new = "the password of the reader";
    let page = post(&site, "/confirm", "", &[("token", token(link)), ("password", new)]).await;
    assert_eq!(page.leads_to(), (StatusCode::SEE_OTHER, "login?done=address-confirmed"));
    assert!(confirmed(&site).await);
    assert_eq!(get(&site, "/", &squatter).await.leads_to(), (StatusCode::SEE_OTHER, "login"));
    assert_eq!(
        login(&site).await.status,
        StatusCode::UNAUTHORIZED,
        "the user who registered it is not the owner"
    );
    let page = post(&site, "/login", "", &[("email", EMAIL), ("password", new)]).await;
    assert_eq!(page.leads_to(), (StatusCode::SEE_OTHER, "./"));
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_forgotten_password_is_reset_by_mail() {
    let site = site().await;
    let cookie = newcomer(&site).await;
    assert!(get(&site, "/login", "").await.text.contains("href=\"password/forgot\""));
    let page = post(&site, "/password/forgot", "", &[("email", EMAIL)]).await;
    assert_eq!(page.status, StatusCode::ACCEPTED);
    let unknown = post(&site, "/password/forgot", "", &[("email", "unknown@example.com")]).await;
    assert_eq!(unknown.text, page.text.replace(EMAIL, "unknown@example.com"));
    let links = links_in_the_end(&site, 2).await;
    let link = links.iter().find(|link| link.starts_with("/password/reset?")).unwrap();
    let earlier = get(&site, &link.replace("/password", ""), "").await;
    assert_eq!(earlier.leads_to(), (StatusCode::SEE_OTHER, &link[1..]), "links of earlier mails");
    assert_eq!(get(&site, "/forgot", "").await.leads_to(), (StatusCode::SEE_OTHER, "password/forgot"));
    assert!(get(&site, link, "").await.text.contains(&format!("value=\"{}\"", token(link))));
    let weak = post(&site, "/password/reset", "", &[("token", token(link)), ("password", "short")]).await;
    assert_eq!(weak.status, StatusCode::BAD_REQUEST);
    assert!(weak.text.contains(token(link)) && weak.text.contains("at least 10 characters"), "{}", weak.text);
    let new = "another horse, another staple";
    let page = post(&site, "/password/reset", "", &[("token", token(link)), ("password", new)]).await;
    assert_eq!(page.leads_to(), (StatusCode::SEE_OTHER, "../login?done=password-reset"));
    assert_eq!(get(&site, "/", &cookie).await.leads_to(), (StatusCode::SEE_OTHER, "login"));
    let page = post(&site, "/login", "", &[("email", EMAIL), ("password", new)]).await;
    assert_eq!(page.leads_to(), (StatusCode::SEE_OTHER, "./"));
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn an_address_is_changed_by_the_mail_to_the_new_one() {
    let site = site().await;
    let owner = site.member(Role::Owner).await;
    let cookie = cookie(&site, &owner);
    assert_eq!(get(&site, "/email", "").await.leads_to(), (StatusCode::SEE_OTHER, "login?next=email"));
    let stored = site
        .app
        .passwords
        .hash(rpcgate_management::identity::password::Password::new(PASSWORD).unwrap())
        .await;
    let before = owner.user.password.as_deref().unwrap();
    assert!(site.app.store.renew_hash(owner.user.id, before, &stored.unwrap()).await.unwrap());
    let change = async |password| {
        post(&site, "/email", &cookie, &[("email", "new@example.com"), ("password", password)]).await
    };
    let wrong = change("a wrong password").await;
    assert_eq!(wrong.status, StatusCode::FORBIDDEN);
    assert!(
        wrong.text.contains("new@example.com") && wrong.text.contains("password is wrong"),
        "{}",
        wrong.text
    );
    let page = change(PASSWORD).await;
    assert_eq!(page.leads_to(), (StatusCode::SEE_OTHER, "./?done=address-change-sent"));
    let [link] = &links(&site)[..] else { panic!("there must be one link") };
    let page = get(&site, link, "").await;
    assert!(!page.text.contains("name=\"password\""), "{}", page.text);
    let page = post(&site, "/confirm", "", &[("token", token(link))]).await;
    assert_eq!(page.leads_to(), (StatusCode::SEE_OTHER, "login?done=address-confirmed"));
    assert!(get(&site, "/", &cookie).await.text.contains("new@example.com"));
}

#[tokio::test]
async fn the_mail_can_be_sent_again() {
    let site = site().await;
    let cookie = newcomer(&site).await;
    site.clock.advance(Duration::from_secs(1));
    let page = post(&site, "/confirm-again", &cookie, &[]).await;
    assert_eq!(page.leads_to(), (StatusCode::SEE_OTHER, "./?done=confirmation-sent"));
    let page = get(&site, "/?done=confirmation-sent", &cookie).await;
    assert!(page.text.contains("A mail is on its way"), "{}", page.text);
    let [old, new] = &links(&site)[..] else { panic!("there must be two mails") };
    let page = post(&site, "/confirm", &cookie, &[("token", token(old))]).await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    let page = post(&site, "/confirm", &cookie, &[("token", token(new))]).await;
    assert_eq!(page.leads_to(), (StatusCode::SEE_OTHER, "./?done=address-confirmed"));
    let page = post(&site, "/confirm-again", &cookie, &[]).await;
    assert_eq!(page.status, StatusCode::CONFLICT);
    assert!(page.text.contains("The e-mail address is confirmed already."), "{}", page.text);
    assert_eq!(post(&site, "/confirm-again", "", &[]).await.leads_to(), (StatusCode::SEE_OTHER, "login"));
    assert_eq!(links(&site).len(), 2);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn the_widget_of_a_provider_is_shown_and_nothing_else_may_be_loaded_for_it() {
    let good = r#"{"success":true,"hostname":"any.example","action":"register"}"#;
    let (url, mut requests) = service(move |_| Some(json(good))).await;
    for (kind, field, script, element, origin) in [
        (
            "hcaptcha",
            "h-captcha-response",
            "https://js.hcaptcha.com/1/api.js",
            "<div class=\"h-captcha\" data-sitekey=\"the &#34;site&#34;\"></div>",
            "https://*.hcaptcha.com",
        ),
        (
            "turnstile",
            "cf-turnstile-response",
            "https://challenges.cloudflare.com/turnstile/v0/api.js",
            "<div class=\"cf-turnstile\" data-sitekey=\"the &#34;site&#34;\" data-action=\"register\"></div>",
            "https://challenges.cloudflare.com",
        ),
    ] {
        let site = Site::of(&format!(
            "[admin]\nauth_per_minute = 1000\n[admin.challenge]\nkind = \"{kind}\"\nsite_key = 'the \"site\"'\n\
             secret = \"the secret\"\nverify_url = \"{url}\"\n"
        ))
        .await;
        let fields = [("name", "Ada"), ("email", "ada"), ("password", PASSWORD), (field, "a.token")];
        let refused = post(&site, "/register", "", &fields).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        for page in [get(&site, "/register", "").await, refused] {
            assert!(page.text.contains(element), "{}", page.text);
            assert!(page.text.contains(&format!("<script src=\"{script}\" async defer></script>")));
            assert!(!page.text.contains("static/register."), "our own puzzle is not solved as well");
            let policy = page.header(CONTENT_SECURITY_POLICY);
            assert!(policy.starts_with("default-src 'none'; script-src 'self' https://"), "{policy}");
            assert!(!policy.contains("unsafe") && policy.contains(origin), "{policy}");
            for scheme in policy.split_whitespace().filter(|source| source.contains("://")) {
                assert!(scheme.contains("hcaptcha.com") == (kind == "hcaptcha"), "{policy}");
            }
        }
        let elsewhere = get(&site, "/login", "").await;
        assert!(!elsewhere.header(CONTENT_SECURITY_POLICY).contains("://"), "only where the widget is");
        let fields = [("name", "Ada"), ("email", EMAIL), ("password", PASSWORD), (field, "a.token")];
        assert_eq!(post(&site, "/register", "", &fields).await.status, StatusCode::CREATED);
        assert!(requests.recv().await.unwrap().contains("response=a.token"));
    }
}

#[tokio::test]
async fn a_refused_form_shows_the_reason_and_keeps_all_input_but_the_password() {
    let site = Site::of("[admin]\nauth_per_minute = 2\n").await;
    let secret = "my secret password";
    let fields = [("name", "Ada"), ("email", "ada"), ("password", secret), ("challenge", "")];
    let page = post(&site, "/register", "", &fields).await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    assert!(page.text.contains("role=\"alert\""), "{}", page.text);
    assert!(page.text.contains("The e-mail address must be of the form name@example.com."), "{}", page.text);
    assert!(page.text.contains("value=\"Ada\"") && page.text.contains("value=\"ada\""), "{}", page.text);
    assert!(!page.text.contains(secret));

    let page = post(&site, "/login", "", &[("email", EMAIL), ("password", secret)]).await;
    assert_eq!(page.status, StatusCode::UNAUTHORIZED);
    assert!(!page.headers.contains_key(WWW_AUTHENTICATE) && !page.headers.contains_key(SET_COOKIE));
    assert_eq!(page.header(CONTENT_TYPE), "text/html; charset=utf-8");
    assert!(page.text.contains("The e-mail address or the password is wrong."), "{}", page.text);
    assert!(page.text.contains(&format!("value=\"{EMAIL}\"")) && !page.text.contains(secret));

    let page = post(&site, "/login", "", &[("email", EMAIL), ("password", secret)]).await;
    assert_eq!(page.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(!page.header(RETRY_AFTER).is_empty());
    let page = post(&site, "/login", "", &[("email", EMAIL)]).await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    assert!(page.text.contains("Password is missing."), "{}", page.text);
}

#[tokio::test]
async fn too_many_wrong_passwords_lock_the_account_here_too() {
    let site = site().await;
    register(&site, "Ada", EMAIL).await;
    for _ in 0..5 {
        let page = post(&site, "/login", "", &[("email", EMAIL), ("password", "wrong")]).await;
        assert_eq!(page.status, StatusCode::UNAUTHORIZED);
    }
    let page = login(&site).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN);
    assert!(page.text.contains("Account temporarily locked."), "{}", page.text);
}

// Shows (Dashboard): No stored or sent text is markup on a page (promise 41).
#[tokio::test]
async fn user_input_is_text_and_never_markup() {
    let site = site().await;
    let page = post(&site, "/login", "", &[("email", NASTY), ("password", "x")]).await;
    assert!(page.text.contains(&format!("value=\"{SHOWN}\"")), "{}", page.text);
    let page = post(&site, "/register", "", &[("name", NASTY), ("email", NASTY), ("password", "x")]).await;
    assert_eq!(page.text.matches(SHOWN).count(), 2, "{}", page.text);
    for path in ["/confirm", "/invitation", "/password/reset"] {
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("token", NASTY).finish();
        let page = get(&site, &format!("{path}?{query}"), "").await;
        assert!(page.text.contains(&format!("value=\"{SHOWN}\"")), "{}", page.text);
    }
    assert_eq!(register(&site, NASTY, EMAIL).await.status, StatusCode::CREATED);
    let page = get(&site, "/", &login(&site).await.cookie()).await;
    // The title, the greeting, the organisation and the account menu.
    assert_eq!(page.text.matches(SHOWN).count(), 4, "{}", page.text);
    assert!(!page.text.contains("<script>"));
}

/// Returns the identifiers of the notifications on a page, in its order.
fn unread(page: &HtmlPage) -> Vec<String> {
    let fields = page.text.split("name=\"id\" value=\"").skip(1);
    fields.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

// Shows (Mails and notifications).
#[tokio::test]
async fn unread_notifications_are_on_the_home_page_until_they_are_marked() {
    let site = site().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let viewer = site.visitor(Some(tenant), Role::Viewer).await;
    let outsider = site.member(Role::Owner).await;
    let own = async |visitor: &Visitor| get(&site, "/", &cookie(&site, visitor)).await;
    let head = "<h2 id=\"notifications\">Notifications</h2>";
    assert!(!own(&owner).await.text.contains(head));
    use_up(&site, tenant).await;
    let page = own(&owner).await;
    let [spike, used] = &unread(&page)[..] else { panic!("{}", page.text) };
    for text in [
        head,
        "aria-label=\"Notifications, 2 unread\"",
        "60 calls were refused with 429 within a minute",
        "80 percent of the day&#39;s requests are used: 90 of 100",
        "<time datetime=\"2026-12-31T12:00:05.000Z\">31 Dec 2026, 12:00 UTC</time>",
    ] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    for name in attributes(&page.text, "aria-describedby") {
        assert!(attributes(&page.text, "id").contains(&name), "{name}");
    }
    for nobody in [&outsider, &site.operator().await] {
        assert_eq!(unread(&own(nobody).await), [""; 0]);
    }

    let read = async |visitor: &Visitor, id: &str| {
        post(&site, "/read-notification", &cookie(&site, visitor), &[("id", id)]).await
    };
    let read_it = (StatusCode::SEE_OTHER, "./?done=notification-read");
    assert_eq!(read(&owner, spike).await.leads_to(), read_it);
    assert_eq!(unread(&own(&owner).await), [used.as_str()]);
    assert_eq!(unread(&own(&viewer).await), [spike.as_str(), used], "others have not read it");
    assert_eq!(read(&owner, spike).await.leads_to(), read_it, "twice is once");
    assert_eq!(read(&owner, used).await.leads_to(), read_it);
    assert!(!own(&owner).await.text.contains(head));

    for id in ["", "1", "00000000-0000-7000-8000-000000000000"] {
        let page = read(&owner, id).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{id}");
        assert!(page.text.contains("Notification not found."), "{}", page.text);
    }
    assert_eq!(read(&outsider, spike).await.status, StatusCode::NOT_FOUND);
    let nobody = post(&site, "/read-notification", "", &[("id", spike)]).await;
    assert_eq!(nobody.leads_to(), (StatusCode::SEE_OTHER, "login"));
    let request = http::Request::post("/read-notification").header(COOKIE, cookie(&site, &viewer));
    let foreign = request.header("sec-fetch-site", "cross-site");
    let page = answered(&site, foreign, format!("id={spike}")).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN);
    assert_eq!(unread(&own(&viewer).await), [spike.as_str(), used], "a form of another site marks nothing");
}

// Shows (Dashboard).
#[tokio::test]
async fn notifications_that_are_not_about_usage_are_read_while_usage_cannot_be() {
    let site = site().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let own = cookie(&site, &owner);
    use_up(&site, tenant).await;
    raise(&site.app, tenant, NotificationKind::Suspension, "Your organisation is suspended").await.unwrap();
    assert_eq!(unread(&get(&site, "/", &own).await).len(), 3);
    site.app.usage.close().await;
    let page = get(&site, "/notifications", &own).await;
    for text in ["notifications about it are missing", "Your organisation is suspended"] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    assert!(!page.text.contains("80 percent"), "{}", page.text);
    let home = get(&site, "/", &own).await;
    let [suspended] = &unread(&home)[..] else { panic!("{}", home.text) };
    let read = post(&site, "/read-notification", &own, &[("id", suspended)]).await;
    assert_eq!(read.leads_to().1, "./?done=notification-read");
    assert_eq!(unread(&get(&site, "/", &own).await), [""; 0]);
    let all = post(&site, "/notifications/read", &own, &[]).await;
    assert_eq!(all.status, StatusCode::SEE_OTHER, "{}", all.text);
}

#[tokio::test]
async fn the_newest_of_many_unread_notifications_are_shown() {
    let site = site().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let storm = |hour: u32| {
        let refused =
            SampleLine { cu: 0, status: 429, outcome: Outcome::Refused, calls: 60 + hour, ..item("a") };
        let at = NOON.plus(Duration::from_secs(u64::from(hour) * 3_600));
        SampleRecord { tenant, windowed: 0, ..deed(1, at, vec![refused]) }
    };
    let storms: Vec<_> = (0..12).map(storm).collect();
    site.app.usage.ship(&SampleShipper::new(1).pack(&storms)).await.unwrap();
    let page = get(&site, "/", &cookie(&site, &owner)).await;
    assert_eq!(unread(&page).len(), 10);
    let reported: Vec<_> = (0..12).filter(|n| page.text.contains(&format!("{} calls", 60 + n))).collect();
    assert_eq!(reported, Vec::from_iter(2..12));
    assert!(page.text.contains("2 older ones not read"), "{}", page.text);
}

// Shows (Dashboard): The frame counts unread notifications to 99, and names an operator's own plan.
#[tokio::test]
async fn the_frame_counts_unread_notifications_to_99() {
    let site = site().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let own = cookie(&site, &owner);
    use_up(&site, tenant).await;
    let count = async || {
        let page = get(&site, "/account", &own).await;
        let label = page.text.split("aria-label=\"Notifications").nth(1).unwrap();
        label.split('"').next().unwrap().to_owned()
    };
    assert_eq!(count().await, ", 2 unread");
    let raise = async |number: u128| {
        let notice = AccountNotice {
            id: NotificationId(number),
            tenant,
            user: None,
            kind: NotificationKind::Suspension,
            text: "x".into(),
            at: NOON,
        };
        site.app.store.put_notice(&notice).await.unwrap();
    };
    for number in 0..97 {
        raise(number).await;
    }
    assert_eq!(count().await, ", 99 unread");
    for number in 97..110 {
        raise(number).await;
    }
    assert_eq!(count().await, ", 99+ unread");
    let page = get(&site, "/account", &own).await;
    assert!(page.text.contains("<span class=\"count dot\">99+</span>"), "{}", page.text);
    site.app.usage.close().await;
    assert_eq!(count().await, ", 99+ unread", "those that are not about usage are counted nevertheless");
}

// Shows (Dashboard): A form that is sent after the session has ended leads back to its page through the log-in, which
// states that nothing was sent.
#[tokio::test]
async fn a_form_that_is_sent_without_a_session_leads_back_to_its_page() {
    let site = site().await;
    for (path, location) in [
        ("/team/name", "../login?next=team&done=session-over"),
        ("/projects", "login?next=projects&done=session-over"),
        ("/logout", "login"),
    ] {
        let sent = post(&site, path, "", &[("name", "Acme")]).await;
        assert_eq!(sent.leads_to(), (StatusCode::SEE_OTHER, location));
    }
    for (sender, next) in [
        ("http://127.0.0.1:8081/team?a=b", "team%3Fa%3Db"),
        ("http://127.0.0.1:8081/team/name", "team"),
        ("https://evil.example/team?a=b", "team"),
    ] {
        let request = http::Request::post("/team/invitations").header("sec-fetch-site", "same-origin");
        let sent = answered(&site, request.header("referer", sender), Body::empty()).await;
        let target = format!("../login?next={next}&done=session-over");
        assert_eq!(sent.leads_to(), (StatusCode::SEE_OTHER, target.as_str()));
    }
    let log_in = get(&site, "/login?next=team&done=session-over", "").await;
    for part in ["Your session has ended, and nothing was sent.", "name=\"next\" value=\"team\""] {
        assert!(log_in.text.contains(part), "{part}: {}", log_in.text);
    }
}

// Shows (Dashboard).
#[tokio::test]
async fn the_frame_names_a_custom_plan() {
    let site = site().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let own = cookie(&site, &owner);
    let badge = async || {
        let page = get(&site, "/account", &own).await;
        let badge = page.text.split("<a class=\"org\"").nth(1).unwrap().split("</a>").next().unwrap();
        badge.split("<span class=\"badge\">").nth(1).unwrap().split('<').next().unwrap().to_owned()
    };
    assert_eq!(badge().await, "Free");
    let plan = CustomPlan {
        id: CustomPlanId(7),
        name: "startup".into(),
        base: Tier::Premium,
        is_visible: false,
        figures: Figures::default(),
        created_at: NOON,
    };
    site.app.store.create_custom_plan(&plan).await.unwrap();
    let change = TenantChange { custom_plan: Some(plan.id), ..TenantChange::default() };
    site.app.store.update_tenant(tenant, &change, NOON).await.unwrap();
    assert_eq!(badge().await, "startup");
}

// Shows (Dashboard).
#[tokio::test]
async fn a_form_of_another_site_changes_nothing() {
    let site = site().await;
    let cookie = newcomer(&site).await;
    let foreign: [&[(&str, &str)]; 5] = [
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "https://evil.example"), ("host", "127.0.0.1:8081")],
        &[("origin", "null"), ("host", "127.0.0.1:8081")],
        &[],
    ];
    for headers in foreign {
        for path in [
            "/logout",
            "/confirm-again",
            "/read-notification",
            "/login",
            "/register",
            "/confirm",
            "/invitation",
            "/password/forgot",
            "/password/reset",
            "/theme",
            "/email",
            "/login/second-factor",
            "/account/security/totp",
            "/account/security/totp/activate",
        ] {
            let mut request = http::Request::post(path).header(COOKIE, &cookie);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let page = answered(&site, request, "email=a&password=b&token=c").await;
            assert_eq!(page.status, StatusCode::FORBIDDEN, "{path} {headers:?}");
            assert!(page.text.contains("This form was not sent from one of our pages."), "{}", page.text);
            assert!(page.headers.contains_key(CONTENT_SECURITY_POLICY));
            assert!(!page.headers.contains_key(SET_COOKIE), "{path} {headers:?}");
        }
    }
    assert_eq!(get(&site, "/", &cookie).await.status, StatusCode::OK, "the session has not ended");
    assert_eq!(links(&site).len(), 1, "no mail was sent");
    let request =
        http::Request::post("/logout").header(COOKIE, &cookie).header(ORIGIN, "http://127.0.0.1:8081");
    let form = format!("csrf={}", form_token(&site, &cookie));
    assert_eq!(answered(&site, request, form).await.status, StatusCode::SEE_OTHER);
}

// Shows (Dashboard).
#[tokio::test]
async fn the_cookie_is_sent_only_to_this_host_and_hidden_from_scripts() {
    let site = site().await;
    register(&site, "Ada", EMAIL).await;
    let page = login(&site).await;
    let (_, rest) = page.header(SET_COOKIE).split_once("; ").unwrap();
    assert_eq!(rest, "Path=/; Max-Age=900; HttpOnly; SameSite=Strict");

    let over_tls = "[admin]\ndash_url = \"https://dash.example.com\"\n";
    let site = Site::of(over_tls).await;
    let visitor = site.member(Role::Viewer).await;
    let cookie = cookie(&site, &visitor);
    let page = get(&site, "/", &format!("a=b; __Host-{cookie}; c=d")).await;
    assert_eq!(page.status, StatusCode::OK);
    let (renewed, rest) = page.header(SET_COOKIE).split_once("; ").unwrap();
    assert!(renewed.starts_with("__Host-rpcgate=ey"), "{renewed}");
    assert_eq!(rest, "Path=/; Max-Age=900; HttpOnly; SameSite=Strict; Secure");
    let page = get(&site, "/", &cookie).await;
    assert_eq!(page.leads_to(), (StatusCode::SEE_OTHER, "login"), "that one another host could have set");
}

#[tokio::test]
async fn a_visitor_that_opens_pages_stays_logged_in_and_an_idle_one_does_not() {
    let site = site().await;
    let mut cookie = newcomer(&site).await;
    let first = cookie.clone();
    for _ in 0..10 {
        site.clock.advance(Duration::from_secs(800));
        let page = get(&site, "/", &cookie).await;
        assert_eq!(page.status, StatusCode::OK);
        assert_ne!(page.cookie(), cookie);
        cookie = page.cookie();
    }
    assert_eq!(get(&site, "/", &first).await.status, StatusCode::SEE_OTHER, "that token has expired");
    // More than the tolerated clock difference.
    site.clock.advance(Duration::from_secs(906));
    assert_eq!(get(&site, "/", &cookie).await.leads_to(), (StatusCode::SEE_OTHER, "login"));
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_token_of_the_api_opens_no_page_and_that_of_a_page_no_call() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let page = cookie(&site, &owner);
    assert_eq!(get(&site, "/", &page).await.status, StatusCode::OK);
    let copied = format!("rpcgate={}", owner.token);
    assert_eq!(get(&site, "/", &copied).await.leads_to(), (StatusCode::SEE_OTHER, "login"));
    let ask = async |token: String| {
        session_of(&site.app, &site.app.tokens, &token).await.map(|(claims, _)| claims.sub)
    };
    assert_eq!(ask(owner.token.clone()).await.unwrap(), owner.user.id);
    let refused = ask(page.replace("rpcgate=", "")).await.unwrap_err();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_session_of_the_pages_ends_on_time_even_if_it_is_busy() {
    let site = Site::of("[admin.jwt]\naccess_ttl = \"10h\"\nrefresh_ttl = \"24h\"\n").await;
    let visitor = site.member(Role::Viewer).await;
    let mut cookie = cookie(&site, &visitor);
    for _ in 0..4 {
        let page = get(&site, "/", &cookie).await;
        assert_eq!(page.status, StatusCode::OK);
        cookie = page.cookie();
        site.clock.advance(Duration::from_secs(6 * 3_600));
    }
    assert_eq!(get(&site, "/", &cookie).await.leads_to(), (StatusCode::SEE_OTHER, "login"));
}

#[tokio::test]
async fn tabs_opened_at_the_same_time_keep_their_session() {
    let site = site().await;
    let cookie = newcomer(&site).await;
    let tab = || get(&site, "/", &cookie);
    let pages: [HtmlPage; 4] = tokio::join!(tab(), tab(), tab(), tab()).into();
    for page in pages {
        assert_eq!(page.status, StatusCode::OK);
        assert_eq!(get(&site, "/", &page.cookie()).await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_session_that_was_ended_elsewhere_is_over_here() {
    let site = site().await;
    let visitor = site.member(Role::Viewer).await;
    let cookie = cookie(&site, &visitor);
    assert_eq!(get(&site, "/", &cookie).await.status, StatusCode::OK);
    assert_eq!(site.app.store.end_sessions(visitor.user.id, None).await.unwrap(), 1);
    assert_eq!(get(&site, "/", &cookie).await.leads_to(), (StatusCode::SEE_OTHER, "login"));
    for strange in ["rpcgate=", "rpcgate=x", "rpcgate", "xrpcgate=x", "=", ";;"] {
        assert_eq!(get(&site, "/", strange).await.status, StatusCode::SEE_OTHER, "{strange}");
    }
}

#[tokio::test]
async fn operators_and_users_without_a_name_have_a_page_too() {
    let site = site().await;
    let operator = site.operator().await;
    let own = cookie(&site, &operator);
    assert_eq!(get(&site, "/", &own).await.leads_to(), (StatusCode::SEE_OTHER, "operator"));
    let page = get(&site, "/operator", &own).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    assert!(!page.text.contains("Organisation"), "{}", page.text);
    register(&site, "", EMAIL).await;
    let page = get(&site, "/", &login(&site).await.cookie()).await;
    assert!(page.text.contains("<h1>Welcome</h1>"), "{}", page.text);
}

#[tokio::test]
async fn an_invited_user_chooses_a_password_and_joins() {
    let site = site().await;
    let owner = site.member(Role::Owner).await;
    let user = Arc::new(owner.user.clone());
    let actor = Actor {
        user,
        address: [192, 0, 2, 1].into(),
        run: None,
        scopes: None,
        if_match: None,
        command_line: None,
        is_proved: false,
    };
    let tenant = owner.user.tenant.unwrap();
    invite(&site.app, &actor, tenant, EMAIL, Role::Developer).await.unwrap();
    site.send_mails().await;
    let [link] = &links(&site)[..] else { panic!("there must be one mail") };
    let page = get(&site, link, "").await;
    assert!(page.text.contains(&format!("value=\"{}\"", token(link))), "{}", page.text);
    assert!(site.app.store.user_by_email(EMAIL).await.unwrap().is_none(), "to open it is not to accept");

    let join = async |password| {
        let fields = [("token", token(link)), ("name", "Ada"), ("password", password)];
        post(&site, "/invitation", "", &fields).await
    };
    let page = join("short").await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    assert!(page.text.contains("The password must have at least 10 characters."), "{}", page.text);
    assert!(page.text.contains(token(link)) && page.text.contains("value=\"Ada\""), "{}", page.text);
    let page = join(PASSWORD).await;
    assert_eq!(page.status, StatusCode::CREATED);
    assert!(page.text.contains(EMAIL), "{}", page.text);
    let home = get(&site, "/", &login(&site).await.cookie()).await;
    assert!(home.text.contains("Welcome, Ada") && home.text.contains("action=\"projects\""), "{}", home.text);
    assert!(!home.text.contains("confirm-again"), "the mail has confirmed the address: {}", home.text);
    assert_eq!(join(PASSWORD).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_page_without_the_database_reports_the_outage() {
    let site = site().await;
    let visitor = site.member(Role::Viewer).await;
    site.app.close().await;
    for page in [get(&site, "/", &cookie(&site, &visitor)).await, login(&site).await] {
        assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(page.text.contains("Service temporarily unavailable."), "{}", page.text);
        assert!(!page.header(RETRY_AFTER).is_empty());
        assert_eq!(page.header(CONTENT_TYPE), "text/html; charset=utf-8");
    }
}

// Shows (Dashboard): Static files are named by their content, compressed and kept for a year.
#[tokio::test]
async fn files_of_pages_are_kept_for_a_year_under_the_name_of_what_is_in_them() {
    let site = site().await;
    let page = get(&site, "/register", "").await;
    let linked = ["href", "src", "data-solver"].map(|name| attributes(&page.text, name)).concat();
    let mut files: Vec<_> = linked.iter().filter(|link| link.starts_with("static/")).collect();
    files.sort();
    files.dedup();
    for (name, kind) in [
        ("app.", "text/css; charset=utf-8"),
        ("register.", "text/javascript; charset=utf-8"),
        ("solver.", "text/javascript; charset=utf-8"),
        ("icon.", "image/svg+xml"),
        ("icons.", "image/svg+xml"),
    ] {
        let start = format!("static/{name}");
        let of_kind =
            |link: &&&&str| link.starts_with(&start) && (!kind.contains("css") || link.ends_with(".css"));
        let path = files.iter().find(of_kind).unwrap_or_else(|| panic!("{name}: {files:?}"));
        let path = format!("/{}", path.split('#').next().unwrap());
        let file = get(&site, &path, "").await;
        assert_eq!((file.status, file.header(CONTENT_TYPE)), (StatusCode::OK, kind), "{path}");
        assert_eq!(file.header(X_CONTENT_TYPE_OPTIONS), "nosniff");
        assert_eq!(file.header(CACHE_CONTROL), "public, max-age=31536000, immutable");
        let conditional = async |tag: &str| {
            let request = http::Request::get(&path).header(IF_NONE_MATCH, tag);
            let answer = answered(&site, request, Body::empty()).await;
            (answer.status, answer.text.is_empty())
        };
        let tag = file.header(ETAG);
        assert_eq!(conditional(tag).await, (StatusCode::NOT_MODIFIED, true));
        assert_eq!(conditional(&format!("\"x\", W/{tag}")).await, (StatusCode::NOT_MODIFIED, true));
        assert_eq!(conditional("\"x\"").await, (StatusCode::OK, false));
        let request = http::Request::get(&path).header(ACCEPT_ENCODING, "gzip").body(Body::empty()).unwrap();
        let (head, body) = site.raw(request).await;
        assert_eq!(head.headers[CONTENT_ENCODING], "gzip");
        let mut whole = String::new();
        flate2::read::GzDecoder::new(&body[..]).read_to_string(&mut whole).unwrap();
        assert_eq!(whole, file.text);
        assert!(body.len() < whole.len(), "{path}");
    }
    let strange = [
        "/static/page.html",
        "/static/app.css",
        "/static/app.0000000000000000.css",
        "/static/..%2FCargo.toml",
        "/static/",
    ];
    for strange in strange {
        assert_eq!(get(&site, strange, "").await.status, StatusCode::NOT_FOUND, "{strange}");
    }
    let vectors = get(&site, "/static/webhook-vectors.json", "").await;
    assert_eq!((vectors.status, vectors.header(CACHE_CONTROL)), (StatusCode::OK, "no-cache"));
}

/// Returns the token of the pending log-in.
fn pending(page: &HtmlPage) -> String {
    let (_, rest) =
        page.text.split_once("name=\"token\" value=\"").unwrap_or_else(|| panic!("{}", page.text));
    rest.split('"').next().unwrap().to_owned()
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_log_in_on_the_page_asks_for_the_second_factor_too() {
    let site = site().await;
    let (app, recovery) = account_with_app(&site).await;
    let begun = login(&site).await;
    assert_eq!((begun.status, begun.header(SET_COOKIE)), (StatusCode::OK, ""));
    assert!(begun.text.contains("<h1>Second factor</h1>"), "{}", begun.text);
    let token = pending(&begun);
    assert!(token.starts_with("rpcgm_"), "{token}");
    assert_eq!(
        get(&site, "/", &format!("rpcgate={token}")).await.leads_to(),
        (StatusCode::SEE_OTHER, "login")
    );
    assert_eq!(get(&site, "/login/second-factor", "").await.leads_to(), (StatusCode::SEE_OTHER, "../login"));

    let verify = async |token: &str, code: &str| {
        post(&site, "/login/second-factor", "", &[("token", token), ("code", code)]).await
    };
    for wrong in [app.wrong(&site), String::new(), NASTY.to_owned()] {
        let page = verify(&token, &wrong).await;
        assert_eq!((page.status, page.header(SET_COOKIE)), (StatusCode::UNAUTHORIZED, ""));
        assert!(page.text.contains("The code is wrong or was used before."), "{}", page.text);
        assert_eq!(pending(&page), token);
        assert!(wrong.is_empty() || !page.text.contains(&wrong), "the code is not kept");
    }
    let spaced = app.shows(&site);
    let page = verify(&token, &format!("{} {}", &spaced[..3], &spaced[3..])).await;
    assert_eq!(page.leads_to(), (StatusCode::SEE_OTHER, "../"), "{}", page.text);
    assert_eq!(get(&site, "/", &page.cookie()).await.status, StatusCode::OK);
    assert_eq!(verify(&token, &recovery[0]).await.status, StatusCode::UNAUTHORIZED, "a token works once");

    let token = pending(&login(&site).await);
    assert_eq!(verify(&token, &recovery[0]).await.leads_to(), (StatusCode::SEE_OTHER, "../"));
    let page = verify(NASTY, &recovery[1]).await;
    assert!(page.text.contains(SHOWN) && !page.text.contains(NASTY), "{}", page.text);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn an_app_is_added_on_the_pages_and_a_required_factor_closes_the_others_until_then() {
    let site = site().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let own = cookie(&site, &owner);
    assert!(get(&site, "/", &own).await.text.contains("Protect your account"));
    site.app.store.set_requires_factor(tenant, true).await.unwrap();
    for path in ["/", "/email"] {
        let status = StatusCode::SEE_OTHER;
        let target = "account/security";
        assert_eq!(get(&site, path, &own).await.leads_to(), (status, target), "{path}");
    }
    let read = post(&site, "/read-notification", &own, &[("id", "x")]).await;
    assert_eq!(read.leads_to(), (StatusCode::SEE_OTHER, "account/security"));
    assert_eq!(get(&site, "/totp", "").await.leads_to(), (StatusCode::SEE_OTHER, "login?next=totp"));
    assert_eq!(get(&site, "/totp", &own).await.leads_to(), (StatusCode::SEE_OTHER, "account/security"));
    let page = get(&site, "/account/security/totp", &own).await;
    assert!(page.text.contains("<h1>Add an authenticator app</h1>"), "{}", page.text);

    // The browser is redirected to the result of the form, which is open to users without a factor too.
    let token = form_token(&site, &own);
    let fields = [("csrf", token.as_str()), ("once", "one-0")];
    let begun = sent(&site, "/account/security/totp", &own, fields).await;
    assert_eq!(begun.status, StatusCode::SEE_OTHER, "{}", begun.text);
    let (path, query) = begun.header(LOCATION).split_once('?').unwrap();
    let result = format!("{}?{query}", followed("/account/security/totp", path));
    assert!(result.starts_with("/result/"), "{result}");
    let offered = get(&site, &result, &own).await;
    assert_eq!(offered.status, StatusCode::OK, "{}", offered.text);
    assert!(offered.text.contains("<svg ") && !offered.text.contains("&#60;svg"), "{}", offered.text);
    let secret = offered.text.split("<code class=\"id\">").nth(1).unwrap().split('<').next().unwrap();
    let app = Authenticator::of(secret);
    let wrong = post(&site, "/account/security/totp/activate", &own, &[("code", &app.wrong(&site))]).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert!(wrong.text.contains("The code is not the one that the app shows."), "{}", wrong.text);
    let added = post(&site, "/account/security/totp/activate", &own, &[("code", &app.shows(&site))]).await;
    assert_eq!(added.status, StatusCode::OK, "{}", added.text);
    assert_eq!(added.text.matches("<li><code>").count(), 10, "{}", added.text);
    let home = get(&site, "/", &own).await;
    assert_eq!(home.status, StatusCode::OK);
    assert!(!home.text.contains("Protect your account"), "{}", home.text);
    assert!(!home.text.contains("href=\"totp\""), "{}", home.text);
    assert_eq!(post(&site, "/account/security/totp", &own, &[]).await.status, StatusCode::CONFLICT);
}

// Shows (Dashboard): A form without its session's token, or from another site, changes nothing.
#[tokio::test]
async fn a_form_without_the_token_of_its_browser_does_nothing() {
    let site = site().await;
    let own = newcomer(&site).await;
    let other = cookie(&site, &site.member(Role::Owner).await);
    let theirs = form_token(&site, &other);
    let visitors = form_token(&site, "");
    for path in ["/logout", "/confirm-again", "/email", "/account/security/totp", "/read-notification"] {
        let forged: [&[(&str, &str)]; 4] =
            [&[], &[("csrf", "")], &[("csrf", theirs.as_str())], &[("csrf", visitors.as_str())]];
        for fields in forged {
            let page = sent(&site, path, &own, fields.iter().copied()).await;
            assert_eq!(page.status, StatusCode::FORBIDDEN, "{path} {fields:?}");
            assert!(page.text.contains("does not belong to your session"), "{}", page.text);
        }
    }
    assert_eq!(get(&site, "/", &own).await.status, StatusCode::OK, "the session has not ended");
    assert_eq!(links(&site).len(), 1, "no mail was sent");

    let visitor = format!("rpcgate-visitor={}", VISITOR.replace('0', "f"));
    let form = form_urlencoded::Serializer::new(String::new())
        .extend_pairs([("email", EMAIL), ("password", PASSWORD), ("csrf", visitors.as_str())])
        .finish();
    for cookies in [visitor.as_str(), "", "rpcgate-visitor=", "rpcgate-visitor=<script>"] {
        let request = http::Request::post("/login").header("sec-fetch-site", "same-origin");
        let page = answered(&site, request.header(COOKIE, cookies), form.clone()).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{cookies}");
    }
    let page = post(&site, "/login", "", &[("email", EMAIL), ("password", PASSWORD)]).await;
    assert_eq!(page.status, StatusCode::SEE_OTHER, "{}", page.text);
}

// Shows (Dashboard).
#[tokio::test]
async fn the_page_of_a_mail_link_is_sent_even_if_the_session_was_not_read_on_opening() {
    let site = site().await;
    let own = newcomer(&site).await;
    let [link] = &links(&site)[..] else { panic!("there must be one mail") };
    let opened = get(&site, link, "").await;
    assert!(opened.cookie().starts_with("rpcgate-visitor="), "{opened:?}");
    let visitors = form_token(&site, "");
    let fields = [("token", token(link)), ("csrf", visitors.as_str())];
    let page = sent(&site, "/confirm", &own, fields).await;
    assert_eq!(page.leads_to(), (StatusCode::SEE_OTHER, "./?done=address-confirmed"), "{}", page.text);
}

// Shows (Dashboard).
#[tokio::test]
async fn a_log_in_leads_to_the_page_that_was_asked_for_and_to_no_other_site() {
    let site = site().await;
    newcomer(&site).await;
    let answer = get(&site, "/email?x=1", "").await;
    assert_eq!(answer.leads_to(), (StatusCode::SEE_OTHER, "login?next=email%3Fx%3D1"));
    let form = get(&site, &format!("/{}", answer.header(LOCATION)), "").await;
    assert!(form.text.contains("name=\"next\" value=\"email?x=1\""), "{}", form.text);
    for (next, target) in [
        ("email?x=1", "email?x=1"),
        ("", "./"),
        ("//evil.example", "./"),
        ("https://evil.example", "./"),
        ("/\\evil.example", "./"),
        ("javascript:alert(1)", "./"),
    ] {
        let fields = [("email", EMAIL), ("password", PASSWORD), ("next", next)];
        let page = post(&site, "/login", "", &fields).await;
        assert_eq!(page.leads_to(), (StatusCode::SEE_OTHER, target), "{next}");
    }
}

// Shows (Dashboard): After an action a page reports the result, and nothing that a link invents; a log-in leads to the
// requested page and to no other site.
#[tokio::test]
async fn a_page_reports_the_completed_action_and_nothing_that_a_link_invents() {
    let site = site().await;
    let own = newcomer(&site).await;
    for done in Done::ALL {
        let page = get(&site, &format!("/?done={}", done.code()), &own).await;
        let note = page.text.split("role=\"status\"").nth(1).unwrap_or_default();
        assert!(note.contains(done.sentence().split('\'').next().unwrap()), "{}", done.code());
        assert!(!page.text.contains("done="), "{}: said once", done.code());
    }
    for invented in ["x", "%3Cscript%3Ealert(1)%3C/script%3E", ""] {
        let page = get(&site, &format!("/?done={invented}"), &own).await;
        assert!(!page.text.contains("role=\"status\"") && !page.text.contains("alert(1)"), "{invented}");
    }
}

// Shows (Dashboard): Light and dark are chosen and stored.
#[tokio::test]
async fn the_colours_are_kept_in_a_cookie_and_lead_back_to_the_page() {
    let site = site().await;
    let own = newcomer(&site).await;
    let page = post(&site, "/theme", &own, &[("theme", "dark"), ("back", "email?x=1")]).await;
    assert_eq!(page.leads_to(), (StatusCode::SEE_OTHER, "./email?x=1"));
    assert_eq!(
        page.header(SET_COOKIE),
        "rpcgate-theme=dark; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax"
    );
    for (cookie, shown) in [("dark", Some("dark")), ("light", Some("light")), ("system", None), (NASTY, None)]
    {
        let page = get(&site, "/", &format!("{own}; rpcgate-theme={cookie}")).await;
        assert_eq!(attributes(&page.text, "data-theme").first().copied(), shown, "{cookie}");
    }
    let page = post(&site, "/theme", &own, &[("theme", "system")]).await;
    assert!(page.header(SET_COOKIE).contains("Max-Age=0"), "{page:?}");
    for elsewhere in
        ["//evil.example", "https://evil.example", "javascript:alert(1)", "../x", "a\r\nset-cookie: x"]
    {
        let page = post(&site, "/theme", &own, &[("theme", "dark"), ("back", elsewhere)]).await;
        assert_eq!(page.leads_to(), (StatusCode::SEE_OTHER, "./"), "{elsewhere}");
    }
}

// Shows (Dashboard).
#[tokio::test]
async fn every_value_of_the_frame_is_text_and_never_markup() {
    let site = site().await;
    assert_eq!(register(&site, NASTY, EMAIL).await.status, StatusCode::CREATED);
    let own = login(&site).await.cookie();
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("q", NASTY).finish();
    let cookies = format!("{own}; rpcgate-theme=\"><script>; rpcgate-language=\"><script>");
    for path in [format!("/?{query}"), format!("/?\"><script>&{query}"), format!("/no/{query}/page")] {
        let Ok(request) =
            http::Request::get(&path).header(COOKIE, &cookies).header(ACCEPT, "text/html").body(())
        else {
            continue;
        };
        let (parts, ()) = request.into_parts();
        let (head, body) = site.raw(http::Request::from_parts(parts, Body::empty())).await;
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert!(head.status == StatusCode::OK || head.status == StatusCode::NOT_FOUND);
        assert!(!text.contains("<script>") && !text.contains("alert(1)</script>"), "{path}: {text}");
        assert!(text.contains(SHOWN), "{path}: the name is shown as text");
    }
}

// Shows (Dashboard): A missing resource is a page for browsers and JSON for programs; every navigation entry leads to a
// page.
#[tokio::test]
async fn a_missing_resource_is_a_page_for_browsers_and_json_for_programs() {
    let site = site().await;
    let own = newcomer(&site).await;
    let ask = async |method: Method, path: &str, accept: &str| {
        let request = http::Request::builder().method(method).uri(path).header(COOKIE, &own);
        answered(&site, request.header(ACCEPT, accept), Body::empty()).await
    };
    let html = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8";
    let page = ask(Method::GET, "/a/b/c", html).await;
    assert_eq!((page.status, page.header(CONTENT_TYPE)), (StatusCode::NOT_FOUND, "text/html; charset=utf-8"));
    assert!(page.text.contains("href=\"../../projects\"") && page.text.contains("<h1>Not found</h1>"));
    let page = ask(Method::GET, "/logout", html).await;
    assert_eq!((page.status, page.header(ALLOW)), (StatusCode::METHOD_NOT_ALLOWED, "POST"));
    assert!(page.text.contains("Method not allowed."), "{}", page.text);
    for (path, accept) in [("/a/b/c", "application/json"), ("/a/b/c", "*/*"), ("/api/v1/nothing", html)] {
        let answer = ask(Method::GET, path, accept).await;
        assert_eq!((answer.status, answer.header(CONTENT_TYPE)), (StatusCode::NOT_FOUND, "application/json"));
    }
}

// Shows (Dashboard).
#[tokio::test]
async fn browsers_are_required_to_use_tls_for_a_year() {
    let site = Site::of("[admin]\ndash_url = \"https://dash.example.com\"\n").await;
    let page = get(&site, "/login", "").await;
    assert_eq!(page.header(STRICT_TRANSPORT_SECURITY), "max-age=31536000");
    let cookie = page.header(SET_COOKIE);
    assert!(cookie.starts_with("__Host-rpcgate-visitor="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax; Secure"), "{cookie}");
    let plain = get(&self::site().await, "/login", "").await;
    assert!(!plain.headers.contains_key(STRICT_TRANSPORT_SECURITY));
}

// Shows (Dashboard): Waiting work is counted next to its navigation entry, only for the users who do it.
#[tokio::test]
async fn waiting_work_is_counted_next_to_the_navigation_entries_of_its_operators() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let outsider = site.member(Role::Owner).await;
    // An error page has the frame too, whatever the reader's first page is.
    let menu = async |visitor: &Visitor| {
        let request = http::Request::get("/no/page").header(COOKIE, cookie(&site, visitor));
        let page = answered(&site, request.header(ACCEPT, "text/html"), Body::empty()).await;
        let (_, menu) = page.text.split_once("<nav aria-label=\"Main\">").unwrap();
        menu.split("</nav>").next().unwrap().to_owned()
    };
    for visitor in [&owner, &operator] {
        assert!(!menu(visitor).await.contains("class=\"count"), "nothing waits");
    }
    let question = ticket(&site, &owner, "Where is it?", "I cannot find it.").await;
    limit_request(&site, &owner, "More calls").await;
    let waits = menu(&operator).await;
    for entry in ["Limit requests", "Tickets"] {
        assert!(waits.contains(&format!("{entry} <span class=\"count plain\">1</span>")), "{waits}");
    }
    assert!(!menu(&owner).await.contains("class=\"count"), "it waits for the operators");
    let answer = TicketAnswer { text: "Below the table.".into(), internal: false, status: None };
    tickets::answer(&site.app, &actor(&operator), question, answer).await.unwrap();
    let waits = menu(&owner).await;
    assert!(waits.contains("Support <span class=\"count plain\">1</span>"), "{waits}");
    assert!(!menu(&operator).await.contains("Tickets <span"));
    assert!(!menu(&outsider).await.contains("class=\"count"), "that of another tenant");
}

// Shows (Mails and notifications).
#[tokio::test]
async fn every_object_has_a_page() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let own = cookie(&site, &owner);
    let invoice = issue(&site, owner.user.tenant.unwrap()).await;
    for object in [
        MailObject::Account,
        MailObject::Security,
        MailObject::AccessTokens,
        MailObject::Start,
        MailObject::LogIn,
        MailObject::ForgottenPassword,
        MailObject::Team,
        MailObject::Webhooks,
        MailObject::Billing,
        MailObject::Invoice(invoice),
        MailObject::Usage,
        MailObject::Chains,
        MailObject::LimitRequests,
    ] {
        let page = get(&site, &format!("/{object}"), &own).await;
        let is_shown = page.status == StatusCode::OK || object == MailObject::LogIn;
        assert!(is_shown, "{object:?}: {} {}", page.status, page.text);
    }
}
