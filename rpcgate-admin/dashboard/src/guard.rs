//! The protection of pages against other sites: the check of forms, and the headers that limit what a browser may load
//! and store.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY,
};
use http::uri::Authority;
use http::{HeaderMap, Method, Uri};
use rpcgate_management::app_state::{AppState, Settings};
use rpcgate_management::error::ActionError;
use std::sync::Arc;

/// Allows only our own files, and no inline scripts or styles.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
     worker-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
);

/// With `no-referrer`, browsers would omit the origin from forms too. Over plain HTTP, where they send no
/// `Sec-Fetch-Site`, nothing would then identify our forms.
const REFERRER: HeaderValue = HeaderValue::from_static("same-origin");

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

const FOREIGN: ActionError = ActionError::Forbidden("this form was not sent from one of our pages");

pub(super) async fn protect(request: Request, next: Next) -> Response {
    protected(next.run(request).await)
}

/// Returns `answer` with the headers that limit what a browser may load and forbid it to store the page.
pub(super) fn protected(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    // A page with a provider's widget has a policy of its own.
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(POLICY);
    headers.insert(REFERRER_POLICY, REFERRER);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Passes a request on, unless it changes something and comes from another site.
pub(super) async fn check(State(app): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    if changes && !is_own(request.headers(), request.uri(), &app.settings) {
        return FOREIGN.into_response();
    }
    next.run(request).await
}

/// Reports whether the request comes from one of our pages or was entered by the user. A browser sends at least one of
/// these headers with every form, so a request without them is refused.
fn is_own(headers: &HeaderMap, uri: &Uri, settings: &Settings) -> bool {
    if let Some(site) = headers.get(FETCH_SITE) {
        return site == "same-origin" || site == "none";
    }
    let Some(origin) = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok()) else { return false };
    let Some((scheme, rest)) = settings.dash_url.split_once("://") else { return false };
    let Some((given, host)) = origin.split_once("://") else { return false };
    let dashboard = rest.split('/').next();
    // A proxy may or may not keep the host name that the browser requested.
    let requested = headers.get(HOST).and_then(|host| host.to_str().ok());
    let requested = requested.or_else(|| uri.authority().map(Authority::as_str));
    let is_here = |name: Option<&str>| name.is_some_and(|name| name.eq_ignore_ascii_case(host));
    given == scheme && (is_here(dashboard) || is_here(requested))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_config::{Config, Input};

    fn settings(dash_url: &str) -> Settings {
        let text = format!("[admin]\ndash_url = \"{dash_url}\"\n");
        Settings::new(Config::read(&Input { file: Some(("f", &text)), ..Input::default() }).unwrap())
    }

    fn taken(dash_url: &str, headers: &[(HeaderName, &'static str)]) -> bool {
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        is_own(&headers.collect(), &Uri::from_static("/login"), &settings(dash_url))
    }

    #[test]
    fn the_browsers_statement_of_a_forms_origin_is_accepted() {
        let dash = "https://dash.example.com/app";
        for (site, is_taken) in [
            ("same-origin", true),
            ("none", true),
            ("same-site", false),
            ("cross-site", false),
            ("", false),
            ("Same-Origin", false),
        ] {
            assert_eq!(taken(dash, &[(FETCH_SITE, site)]), is_taken, "{site}");
            let with_origin = [(FETCH_SITE, site), (ORIGIN, "https://dash.example.com")];
            assert_eq!(taken(dash, &with_origin), is_taken, "{site}: the origin is not asked");
        }
    }

    #[test]
    fn elsewhere_the_origin_must_be_ours() {
        let dash = "https://dash.example.com/app";
        for (origin, is_taken) in [
            ("https://dash.example.com", true),
            ("https://DASH.example.com", true),
            ("https://inner.example.net", true),
            ("http://dash.example.com", false),
            ("http://inner.example.net", false),
            ("https://dash.example.com:8443", false),
            ("https://dash.example.com.evil.example", false),
            ("https://evil.example", false),
            ("null", false),
            ("", false),
        ] {
            let headers = [(ORIGIN, origin), (HOST, "inner.example.net")];
            assert_eq!(taken(dash, &headers), is_taken, "{origin}");
        }
        assert!(!taken(dash, &[(HOST, "dash.example.com")]), "nothing says where it comes from");
    }

    #[test]
    fn http_2_names_the_host_in_the_address() {
        let headers = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static("http://10.0.0.7:8081"))]);
        let settings = settings("http://127.0.0.1:8081");
        assert!(is_own(&headers, &Uri::from_static("http://10.0.0.7:8081/login"), &settings));
        assert!(!is_own(&headers, &Uri::from_static("http://10.0.0.7:9/login"), &settings));
    }
}
