use crate::testing::{Site, Visitor};
use crate::tests::{HtmlPage, attributes, cookie, followed, form_token, get, sent, site};
use axum::body::Body;
use http::header::{CONTENT_TYPE, COOKIE};
use http::{Method, StatusCode};
use rpcgate_store::Role;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns the files below a folder with this ending.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            all.extend(files(&entry, ending));
        } else if entry.extension().is_some_and(|own| own == ending) {
            all.push(entry);
        }
    }
    all
}

fn crate_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns the paths of all pages that take a form, as the modules of pages declare them.
fn form_paths() -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for file in files(&crate_folder("src"), "rs") {
        let text = std::fs::read_to_string(file).unwrap().replace("RESET_PATH,", "\"/password/reset\",");
        for route in text.split(".route(").skip(1) {
            let (declared, _) = route.split_once(".route(").unwrap_or((route, ""));
            let declared = declared.split(';').next().unwrap().split("\n}").next().unwrap();
            if !declared.contains("post(") && !declared.contains("confirmed::<") {
                continue;
            }
            let path = declared.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
            paths.extend(path.filter(|path| path.starts_with('/')).map(str::to_owned));
        }
    }
    paths
}

/// Sends a form with the value `once`.
async fn submit(site: &Site, path: &str, cookie: &str, once: &str, fields: &[(&str, &str)]) -> HtmlPage {
    let token = form_token(site, cookie);
    let own = [("csrf", token.as_str()), ("once", once)];
    sent(site, path, cookie, fields.iter().copied().chain(own)).await
}

/// Opens the page that another page redirects to.
async fn follow(site: &Site, from: &str, page: &HtmlPage, cookie: &str) -> (String, HtmlPage) {
    let (status, target) = page.leads_to();
    assert_eq!(status, StatusCode::SEE_OTHER, "{}", page.text);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = followed(from, path);
    let shown = get(site, &format!("{path}?{query}"), cookie).await;
    (target.to_owned(), shown)
}

async fn owner(site: &Site) -> (Visitor, String) {
    let owner = site.member(Role::Owner).await;
    let cookie = cookie(site, &owner);
    (owner, cookie)
}

async fn projects(site: &Site, owner: &Visitor) -> usize {
    site.app.store.projects(owner.user.tenant.unwrap()).await.unwrap().len()
}

// Shows (Dashboard): A form that is sent twice, at the same moment or after a reload, takes effect once, and its result
// is shown once (promise 83).
#[test]
fn every_form_that_posts_has_the_hidden_fields() {
    let mut forms = 0;
    for file in files(&crate_folder("templates"), "html") {
        let text = std::fs::read_to_string(&file).unwrap();
        for form in text.split("<form").skip(1) {
            let (form, _) = form.split_once("</form>").unwrap();
            if !form.contains("method=\"post\"") {
                continue;
            }
            forms += 1;
            assert!(form.contains("f::csrf()"), "{}: {form}", file.display());
            let (tag, _) = form.split_once("f::csrf()").unwrap();
            let is_named = tag.contains("?once={{ frame.submissions.next() }}");
            assert_eq!(tag.contains("multipart/form-data"), is_named, "{}: {form}", file.display());
        }
    }
    assert!(forms > 60, "{forms}");
    let macros = std::fs::read_to_string(crate_folder("templates/macros/form.html")).unwrap();
    assert!(macros.contains("name=\"once\" value=\"{{ frame.submissions.next() }}\""));
}

// Shows (Dashboard).
#[tokio::test]
async fn each_form_of_a_page_has_a_value_of_its_own() {
    let site = site().await;
    let (_, cookie) = owner(&site).await;
    let mut seen = BTreeSet::new();
    for path in ["/projects", "/projects", "/account", "/account/security", "/team"] {
        let page = get(&site, path, &cookie).await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        let values: Vec<_> =
            page.text.split("name=\"once\"").skip(1).map(|rest| attributes(rest, "value")[0]).collect();
        assert!(values.len() > 1, "{path}");
        for value in values {
            assert!(seen.insert(value.to_owned()), "{path}: {value}");
        }
    }
}

/// Replaces the parameters of a form's path with identifiers of objects that do not exist.
fn of_no_object(path: &str) -> String {
    let is_config = path.starts_with("/operator/config/");
    let part = |part| match part {
        "{number}" if is_config => "7",
        "{number}" => "2026-000007",
        _ if str::starts_with(part, '{') => "0190163d-8694-739b-aea5-966c26f8ad91",
        _ => part,
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn every_form_of_the_router_needs_the_token_of_its_browser() {
    let site = site().await;
    let (_, owners) = owner(&site).await;
    let operators = cookie(&site, &site.operator().await);
    let theirs = form_token(&site, &cookie(&site, &site.member(Role::Owner).await));
    for path in form_paths().iter().filter(|path| !path.ends_with("/files")) {
        let cookie = if path.starts_with("/operator") { &operators } else { &owners };
        for token in ["", theirs.as_str()] {
            let page = sent(&site, &of_no_object(path), cookie, [("csrf", token)]).await;
            assert_eq!(page.status, StatusCode::FORBIDDEN, "{path}: {}", page.text);
        }
    }
}

// Shows (Dashboard).
#[tokio::test]
async fn every_form_of_the_router_is_looked_at_before_it_is_carried_out() {
    let site = site().await;
    let (_, cookie) = owner(&site).await;
    let paths = form_paths();
    assert!(paths.len() > 70, "{paths:?}");
    let strange = "x".repeat(65);
    for path in paths {
        let path = of_no_object(&path);
        let page = if path.ends_with("/files") {
            let token = form_token(&site, &cookie);
            let request = http::Request::builder().method(Method::POST).uri(format!("{path}?once={strange}"));
            let request = request.header("sec-fetch-site", "same-origin").header(COOKIE, &cookie);
            let request = request.header(CONTENT_TYPE, "multipart/form-data; boundary=x");
            crate::tests::answered(&site, request, Body::from(token)).await
        } else {
            submit(&site, &path, &cookie, &strange, &[]).await
        };
        assert_eq!(page.status, StatusCode::BAD_REQUEST, "{path}: {}", page.text);
        assert!(page.text.contains("not from one of our pages"), "{path}: {}", page.text);
    }
}

// Shows (Dashboard).
#[tokio::test]
async fn two_clicks_make_one_thing_and_lead_to_it() {
    let site = site().await;
    let (owner, cookie) = owner(&site).await;
    let fields = [("name", "Pressed twice")];
    let click = || submit(&site, "/projects", &cookie, "one-0", &fields);
    let (first, second) = tokio::join!(click(), click());
    assert_eq!(first.leads_to().0, StatusCode::SEE_OTHER, "{}", first.text);
    assert_eq!(first.leads_to(), second.leads_to());
    assert_eq!(projects(&site, &owner).await, 1);
    site.clock.advance(std::time::Duration::from_secs(600));
    assert_eq!(click().await.leads_to(), first.leads_to());
    assert_eq!(projects(&site, &owner).await, 1);
    // Another form, or the same one with other values, is another submission.
    submit(&site, "/projects", &cookie, "one-1", &fields).await;
    submit(&site, "/projects", &cookie, "one-0", &[("name", "Another")]).await;
    assert_eq!(projects(&site, &owner).await, 3);
}

// Shows (Dashboard).
#[tokio::test]
async fn a_form_that_was_refused_can_be_sent_again() {
    let site = site().await;
    let (owner, cookie) = owner(&site).await;
    let refused = submit(&site, "/projects", &cookie, "one-0", &[("name", " ")]).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        submit(&site, "/projects", &cookie, "one-0", &[("name", " ")]).await.status,
        StatusCode::BAD_REQUEST
    );
    submit(&site, "/projects", &cookie, "one-0", &[("name", "Good")]).await;
    assert_eq!(projects(&site, &owner).await, 1);
}

// Shows (Dashboard).
#[tokio::test]
async fn a_new_key_is_shown_once_after_a_redirect_and_only_to_its_maker() {
    let site = site().await;
    let (owner, cookie) = owner(&site).await;
    submit(&site, "/projects", &cookie, "one-0", &[("name", "P")]).await;
    let tenant = owner.user.tenant.unwrap();
    let project = site.app.store.projects(tenant).await.unwrap()[0].id;
    let path = format!("/projects/{project}/keys");
    let click = || submit(&site, &path, &cookie, "two-0", &[("description", "ci"), ("scope", "all")]);
    let (first, second) = tokio::join!(click(), click());
    assert_eq!(first.leads_to(), second.leads_to(), "{}", second.text);
    assert_eq!(site.app.store.keys(tenant, project).await.unwrap().len(), 1);
    let (target, _) = follow(&site, &path, &first, &self::owner(&site).await.1).await;
    assert!(!target.contains("rpcg_"), "{target}");
    let (_, shown) = follow(&site, &path, &first, &cookie).await;
    let key = site.app.store.keys(tenant, project).await.unwrap().remove(0);
    assert!(shown.text.contains(&key.prefix) && shown.text.contains("Copy the key now"), "{}", shown.text);
    assert_eq!(shown.status, StatusCode::OK);
    // The page below `/result` is one folder deep, the form two.
    let links = ["href", "src", "action"].map(|name| attributes(&shown.text, name)).concat();
    let stylesheet = links.iter().find(|link| link.contains("static/app.") && link.ends_with(".css"));
    assert!(
        stylesheet.is_some_and(|link| link.starts_with("../static/")),
        "links begin at the result: {stylesheet:?}"
    );
    let is_from_result = |link: &&str| link.starts_with('#') || link.starts_with("../");
    assert!(links.iter().all(is_from_result), "{links:?}");
    assert!(!links.iter().any(|link| link.starts_with("../..")), "{links:?}");
    let (_, again) = follow(&site, &path, &first, &cookie).await;
    assert_eq!(again.leads_to(), (StatusCode::SEE_OTHER, format!("../projects/{project}/keys").as_str()));
    let stored = site.app.store.stored_answers().await.unwrap();
    let is_plain =
        |stored: &Vec<u8>| stored.windows(key.prefix.len()).any(|part| part == key.prefix.as_bytes());
    assert!(!stored.iter().any(is_plain), "what is kept is encrypted");
}

// Shows (Dashboard).
#[tokio::test]
async fn a_form_of_another_browser_is_not_answered_from_memory() {
    let site = site().await;
    let (_, one) = owner(&site).await;
    let (other, another) = owner(&site).await;
    let fields = [("name", "P")];
    let first = submit(&site, "/projects", &one, "one-0", &fields).await;
    let second = submit(&site, "/projects", &another, "one-0", &fields).await;
    assert_ne!(first.leads_to(), second.leads_to());
    assert_eq!(projects(&site, &other).await, 1);
    // A form without its token is refused, whatever was sent before.
    let forged = sent(&site, "/projects", &one, [("name", "P"), ("once", "one-0"), ("csrf", "00")]).await;
    assert_eq!(forged.status, StatusCode::FORBIDDEN);
}
