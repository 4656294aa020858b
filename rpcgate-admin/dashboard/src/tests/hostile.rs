//! Texts that would run a script if a page did not escape them, and the checks for every page with a form.

use super::{HtmlPage, get, post};
use crate::testing::{Site, Visitor};
use axum::body::Body;
use http::StatusCode;
use http::header::{CONTENT_TYPE, COOKIE};

/// Injections for a text, an attribute, the end of an element, an address, a template and a comment, each on one line.
pub(crate) const HOSTILE: [&str; 8] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'><svg/onload=alert(1)>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "javascript:alert(1)",
    "{{7*7}}<%= 7*7 %>",
    "<!--<img src=\"--><img src=x onerror=alert(1)//\">",
];

pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&#38;"),
            '<' => safe.push_str("&#60;"),
            '>' => safe.push_str("&#62;"),
            '"' => safe.push_str("&#34;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

pub(crate) fn assert_shown(page: &HtmlPage, text: &str) {
    assert_eq!(page.status, StatusCode::OK, "{text}: {}", page.text);
    assert!(page.text.contains(&escaped(text)), "{text} is not shown: {}", page.text);
    for own in ["alert(1)</script>", "onerror=alert(1)>", "onload=alert(1)>", "href=\"javascript:"] {
        assert!(!page.text.contains(own), "{text}: {}", page.text);
    }
}

/// Sends a form with a wrong token, as another site would.
pub(crate) async fn forged(site: &Site, path: &str, cookie: &str, fields: &[(&str, &str)]) -> HtmlPage {
    let fields = fields.iter().chain(&[("csrf", "0123456789abcdef")]);
    let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let request = http::Request::post(path).header("sec-fetch-site", "same-origin").header(COOKIE, cookie);
    let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    let (head, body) = site.raw(request.body(Body::from(form)).unwrap()).await;
    HtmlPage { status: head.status, headers: head.headers, text: String::from_utf8_lossy(&body).into_owned() }
}

/// Checks that only the `admitted` visitors may open a page. Other members get 403, operators get 404, and visitors who
/// are not logged in are redirected to the log-in.
pub(crate) async fn assert_for(site: &Site, path: &str, all: &[(&str, &str)], admitted: &[&str]) {
    for (name, cookie) in all {
        let page = get(site, path, cookie).await;
        let expected = match *name {
            "operator" => StatusCode::NOT_FOUND,
            name if admitted.contains(&name) => StatusCode::OK,
            _ => StatusCode::FORBIDDEN,
        };
        assert_eq!(page.status, expected, "{path} for {name}: {}", page.text);
    }
    let page = get(site, path, "").await;
    let (status, place) = page.leads_to();
    assert_eq!(status, StatusCode::SEE_OTHER, "{path}");
    assert!(place.contains("login"), "{path}: {place}");
}

/// Checks that a form is refused without a token, and for a role that lacks the permission.
pub(crate) async fn assert_protected(site: &Site, path: &str, may: &str, may_not: &str) {
    assert_eq!(forged(site, path, may, &[]).await.status, StatusCode::FORBIDDEN, "{path} without a token");
    let refused = post(site, path, may_not, &[]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{path}: {}", refused.text);
}

/// Returns the identifier at the end of the address that an answer redirects to.
pub(crate) fn led_id(page: &HtmlPage) -> String {
    let (status, place) = page.leads_to();
    assert_eq!(status, StatusCode::SEE_OTHER, "{}", page.text);
    let path = place.split('?').next().unwrap();
    path.rsplit('/').next().unwrap().to_owned()
}

/// Makes a member of each role, and an operator, with names and cookies.
pub(crate) async fn everybody(site: &Site) -> Vec<(&'static str, String, Visitor)> {
    use super::cookie;
    use rpcgate_store::Role;
    let tenant = site.tenant().await;
    let mut all = Vec::new();
    for role in Role::ALL {
        let visitor = site.visitor(Some(tenant), role).await;
        all.push((role.as_str(), cookie(site, &visitor), visitor));
    }
    let operator = site.operator().await;
    all.push(("operator", cookie(site, &operator), operator));
    all
}

pub(crate) fn cookies<'a>(all: &'a [(&'static str, String, Visitor)]) -> Vec<(&'a str, &'a str)> {
    all.iter().map(|(name, cookie, _)| (*name, cookie.as_str())).collect()
}
