//! A browser that uses the pages.

use super::{SiteRoutes, TestSite, Visitor};
use crate::identity::form_token::FormHolder;
use axum::body::Body;
use http::header::{CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use http::{HeaderMap, StatusCode};
use rpcgate_store::SessionId;

/// An answer for a browser.
#[derive(Debug)]
pub struct HtmlPage {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The HTML.
    pub text: String,
}

impl HtmlPage {
    /// Returns a header, or an empty text.
    pub fn header(&self, name: http::HeaderName) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the first cookie that the page sets.
    pub fn cookie(&self) -> String {
        self.header(SET_COOKIE).split(';').next().unwrap().to_owned()
    }

    /// Checks that the page reports an error at a field, has the status 400, and begins its title with `title`.
    pub fn assert_wrong(&self, field: &str, title: &str) {
        assert_eq!(self.status, StatusCode::BAD_REQUEST, "{}", self.text);
        assert!(self.text.contains(&format!("id=\"{field}-error\"")), "{field}: {}", self.text);
        assert!(self.text.contains(&format!("<title>{title}")), "{field}: {}", self.text);
        assert!(self.text.contains("role=\"alert\""), "{field}: {}", self.text);
        assert!(self.text.contains(" autofocus"), "the page opens at what is wrong: {}", self.text);
    }

    /// Returns the status and the `Location`.
    pub fn leads_to(&self) -> (StatusCode, &str) {
        (self.status, self.header(LOCATION))
    }
}

/// Sends a request and returns the page.
pub async fn answered<R: SiteRoutes>(
    site: &TestSite<R>,
    request: http::request::Builder,
    body: impl Into<Body>,
) -> HtmlPage {
    let (head, body) = site.raw(request.body(body.into()).unwrap()).await;
    HtmlPage { status: head.status, headers: head.headers, text: String::from_utf8(body.to_vec()).unwrap() }
}

/// Opens a page with these cookies.
pub async fn get<R: SiteRoutes>(site: &TestSite<R>, path: &str, cookie: &str) -> HtmlPage {
    answered(site, http::Request::get(path).header(COOKIE, cookie), Body::empty()).await
}

/// The cookie of a browser that is not logged in.
pub const VISITOR: &str = "00112233445566778899aabbccddeeff";

/// Returns the form token for a browser with this cookie.
pub fn form_token<R>(site: &TestSite<R>, cookie: &str) -> String {
    let session = cookie.split("rpcgate=").nth(1).map(|token| token.split(';').next().unwrap_or_default());
    let claims = session.and_then(|token| site.app.page_tokens.check(token, site.app.now()).ok());
    let holder =
        claims.map_or(FormHolder::Visitor(VISITOR), |claims| FormHolder::Session(SessionId(claims.sid)));
    site.app.form_tokens.issue(holder)
}

/// Sends a form as one of our pages does, with its token.
pub async fn post<R: SiteRoutes>(
    site: &TestSite<R>,
    path: &str,
    cookie: &str,
    fields: &[(&str, &str)],
) -> HtmlPage {
    let token = form_token(site, cookie);
    let fields = fields.iter().copied().chain([("csrf", token.as_str())]);
    sent(site, path, cookie, fields).await
}

/// Sends exactly these fields.
pub async fn sent<'f, R: SiteRoutes>(
    site: &TestSite<R>,
    path: &str,
    cookie: &str,
    fields: impl IntoIterator<Item = (&'f str, &'f str)>,
) -> HtmlPage {
    let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let cookies = format!("{cookie}; rpcgate-visitor={VISITOR}");
    let request = http::Request::post(path).header("sec-fetch-site", "same-origin").header(COOKIE, cookies);
    answered(site, request.header(CONTENT_TYPE, "application/x-www-form-urlencoded"), form).await
}

/// Returns the cookie of a user with the session of an access token.
pub fn cookie<R>(site: &TestSite<R>, visitor: &Visitor) -> String {
    let now = site.app.now();
    let claims = site.app.tokens.check(&visitor.token, now).unwrap();
    format!("rpcgate={}", site.app.page_tokens.issue(&claims, now).unwrap())
}
