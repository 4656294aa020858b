//! The session cookie, which keeps a browser logged in.
//!
//! The cookie holds only a page token, and every page issues a fresh one. The API refuses page tokens, and pages refuse
//! access tokens, so that a stolen token works for only one of them. A refresh token would last longer but can be used
//! only once: two tabs that used it at the same moment would look like a thief and the owner, and the session would
//! end. So the log-in ends when no page was opened for the lifetime of a token, and at the latest when the session
//! itself expires. Requests of a page that refreshes itself do not extend it. A valid token is not sufficient: the
//! session is looked up for each page, so an ended session is over at once.

use super::background_request::is_unattended;
use super::cookies::{VisitorCookie, is_secure, of_name};
use super::frame::root_of;
use super::relative_address::redirect;
use super::view;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::{HeaderValue, SET_COOKIE};
use ring::rand::{SecureRandom, SystemRandom};
use rpcgate_core::secret::NoRandomness;
use rpcgate_management::access::{AuthSession, session_of};
use rpcgate_management::action::sessions::SessionTokens;
use rpcgate_management::app_state::{AppState, Settings};
use rpcgate_management::error::{ActionError, ErrorCode};
use rpcgate_management::extract::Client;
use rpcgate_management::identity::token::Claims;
use rpcgate_management::request_traces::UserMark;
use std::sync::Arc;
use std::time::Duration;

/// The pages that need no log-in, below the root.
const GATES: [&str; 16] = [
    "/confirm",
    "/confirm-again",
    "/forgot",
    "/invitation",
    "/login",
    "/login/passkey",
    "/login/passkey/start",
    "/login/second-factor",
    "/logout",
    "/password/forgot",
    "/password/reset",
    "/register",
    "/reset",
    "/second-factor",
    "/theme",
    "/static",
];

/// The pages on which a user can add a required second factor. The secret of a new app is the result of a form, which
/// is shown below `/result`.
const FACTOR_PAGES: [&str; 5] = ["/totp", "/step-up", "/account/security", "/account/security/", "/result/"];

/// Reports whether the page at `path` needs no log-in.
pub(super) fn is_gate(path: &str) -> bool {
    GATES.contains(&path)
}

/// Reports whether a visitor may have opened the page at `path` before the browser sent the session cookie.
pub(super) fn takes_visitors(path: &str) -> bool {
    is_gate(path) && !["/confirm-again", "/logout", "/theme"].contains(&path)
}

/// Reports whether the page at `path` is open to users who lack a required second factor.
fn is_open_without_factor(path: &str) -> bool {
    let is_below = |page: &str| page.ends_with('/') && path.starts_with(page);
    is_gate(path) || FACTOR_PAGES.into_iter().any(|page| page == path || is_below(page))
}

/// Looks up the session of the request and renews its cookie, unless the request is unattended.
pub(super) async fn authenticate(State(app): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    let authenticated = match received(request.headers(), &app.settings) {
        Some(token) => match session_of(&app, &app.page_tokens, token).await {
            Ok((claims, session)) => Some((claims, session.proved_by_log_in())),
            Err(ActionError::Unauthenticated(_)) => None,
            Err(error) => return error.into_response(),
        },
        None => None,
    };
    let visitor = visitor(request.headers(), &app.settings);
    let Some((claims, session)) = authenticated else {
        return for_visitor(&app, visitor, request, next).await;
    };
    UserMark::set(request.extensions());
    let path = request.uri().path();
    if !is_open_without_factor(path) {
        match session.demand_factor(&app, request.method()).await {
            Ok(()) => {}
            Err(ActionError::Refused(ErrorCode::FactorRequired, _)) => {
                return redirect(&root_of(path), view::ADD_FACTOR);
            }
            Err(error) => return with_session(session, error.into_response()),
        }
    }
    let (mut parts, body) = request.into_parts();
    let renews = !is_unattended(&parts.headers);
    match Client::from_request_parts(&mut parts, &app).await {
        Ok(client) if renews => session.note_use(&app, &client).await,
        Ok(_) => {}
        Err(error) => return with_session(session, error.into_response()),
    }
    parts.extensions.insert(session.clone());
    if let Some(value) = visitor {
        parts.extensions.insert(VisitorCookie(value.to_owned()));
    }
    let request = Request::from_parts(parts, body);
    let mut answer = with_session(session, next.run(request).await);
    // A log-in or log-out sets the cookie itself.
    if renews && !answer.headers().contains_key(SET_COOKIE) {
        match issued(&app, &claims) {
            Ok(cookie) => drop(answer.headers_mut().insert(SET_COOKIE, cookie)),
            Err(error) => tracing::warn!(%error, "the session cookie of a page could not be renewed"),
        }
    }
    answer
}

/// Returns the session of a request that no page has answered, if it can be found.
pub(super) async fn current(app: &AppState, headers: &HeaderMap) -> Option<AuthSession> {
    let token = received(headers, &app.settings)?;
    session_of(app, &app.page_tokens, token).await.ok().map(|(_, session)| session)
}

/// Passes the session to the layer that shows errors.
fn with_session(session: AuthSession, mut answer: Response) -> Response {
    answer.extensions_mut().insert(session);
    answer
}

/// Answers a browser that is not logged in. It has or gets a random cookie, which distinguishes its forms from those of
/// other sites.
async fn for_visitor(app: &AppState, known: Option<String>, mut request: Request, next: Next) -> Response {
    let value = match known.clone().map_or_else(fresh_visitor, Ok) {
        Ok(value) => value,
        Err(error) => return error.into_response(),
    };
    let visitor = VisitorCookie(value);
    request.extensions_mut().insert(visitor.clone());
    let mut answer = next.run(request).await;
    answer.extensions_mut().insert(visitor.clone());
    if known.is_none() && !answer.headers().contains_key(SET_COOKIE) {
        let (name, secure) = visitor_name(&app.settings);
        // Not `Strict`: the browser would omit the cookie for a link in a mail, and the new one would replace that of
        // open pages.
        let cookie = format!("{name}={}; Path=/; HttpOnly; SameSite=Lax{secure}", visitor.0);
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            answer.headers_mut().insert(SET_COOKIE, cookie);
        }
    }
    answer
}

const VISITOR_BYTES: usize = 16;

fn fresh_visitor() -> Result<String, ActionError> {
    let mut bytes = [0; VISITOR_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(hex::encode(bytes))
}

/// Returns the value of a visitor's cookie, if it is well-formed.
fn visitor(headers: &HeaderMap, settings: &Settings) -> Option<String> {
    let value = of_name(headers, visitor_name(settings).0)?;
    let is_ours = value.len() == 2 * VISITOR_BYTES && value.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_ours.then(|| value.to_owned())
}

fn visitor_name(settings: &Settings) -> (&'static str, &'static str) {
    if is_secure(settings) { ("__Host-rpcgate-visitor", "; Secure") } else { ("rpcgate-visitor", "") }
}

/// Returns the `Set-Cookie` value that keeps a user logged in.
///
/// # Errors
/// [`ActionError::Broken`] if no token can be issued, or if it does not fit into a cookie.
pub(super) fn issued(app: &AppState, claims: &Claims) -> Result<HeaderValue, ActionError> {
    let token = app.page_tokens.issue(claims, app.now())?;
    cookie(&app.settings, &token, app.page_tokens.ttl())
}

fn cookie(settings: &Settings, token: &str, life: Duration) -> Result<HeaderValue, ActionError> {
    let (name, secure) = name(settings);
    let life = life.as_secs();
    let cookie = format!("{name}={token}; Path=/; Max-Age={life}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::try_from(cookie).map_err(|_| ActionError::Broken("a token does not fit a cookie".into()))
}

/// Returns the `Set-Cookie` value that removes the cookie.
///
/// # Errors
/// Those of [`issued`].
pub(super) fn removed(settings: &Settings) -> Result<HeaderValue, ActionError> {
    cookie(settings, "", Duration::ZERO)
}

/// Returns the cookie's name, and its last attribute. Browsers accept the prefix `__Host-` only over TLS and only from
/// this very host, so that no other host of the domain can set the cookie.
fn name(settings: &Settings) -> (&'static str, &'static str) {
    if is_secure(settings) { ("__Host-rpcgate", "; Secure") } else { ("rpcgate", "") }
}

fn received<'h>(headers: &'h HeaderMap, settings: &Settings) -> Option<&'h str> {
    of_name(headers, name(settings).0)
}

/// Returns the answer that keeps a user logged in and redirects to `next`, below the root; `root` is the relative path
/// to it.
pub(super) fn logged_in(
    app: &AppState,
    tokens: &SessionTokens,
    root: &str,
    next: &str,
) -> Result<Response, ActionError> {
    let cookie = issued(app, &tokens.claims)?;
    Ok(([(SET_COOKIE, cookie)], redirect(root, next)).into_response())
}

#[cfg(test)]
mod tests {
    use super::super::background_request::UNATTENDED;
    use super::*;
    use crate::testing::Site;
    use crate::tests::{HtmlPage, answered, cookie, get};
    use axum::body::Body;
    use http::StatusCode;
    use http::header::{COOKIE, LOCATION};
    use rpcgate_store::Role;

    const QUARTER: Duration = Duration::from_secs(900);

    /// Sends the request that the script of a page that refreshes itself sends.
    async fn refreshed(site: &Site, path: &str, own: &str) -> HtmlPage {
        let request = http::Request::get(path).header(COOKIE, own).header(UNATTENDED, "1");
        answered(site, request, Body::empty()).await
    }

    // Shows (Traces, logs and metrics).
    #[tokio::test]
    async fn only_the_page_request_of_a_user_is_marked_as_such() {
        let site = Site::new().await;
        let own = cookie(&site, &site.member(Role::Viewer).await);
        for (cookie, is_users) in [(own.as_str(), true), ("rpcgate=x", false)] {
            let mark = UserMark::default();
            let request = http::Request::get("/projects").header(COOKIE, cookie).extension(mark.clone());
            answered(&site, request, Body::empty()).await;
            assert_eq!(mark.is_set(), is_users);
        }
    }

    // Shows (Dashboard): A page that refreshes itself does not extend the session, and reports when it has ended.
    #[tokio::test]
    async fn a_self_refreshing_page_does_not_extend_the_session() {
        let site = Site::of("[admin.jwt]\naccess_ttl = \"1h\"\nrefresh_ttl = \"24h\"\n").await;
        let visitor = site.member(Role::Viewer).await;
        let own = cookie(&site, &visitor);
        let seen_at = async || {
            let found = site.app.store.session(visitor.session, site.app.now()).await.unwrap();
            found.unwrap().0.seen_at
        };
        let first = seen_at().await;
        for _ in 0..3 {
            site.clock.advance(QUARTER);
            let page = refreshed(&site, "/projects", &own).await;
            assert_eq!((page.status, page.headers.get(SET_COOKIE)), (StatusCode::OK, None));
            assert_eq!(seen_at().await, first);
        }
        let opened = get(&site, "/projects", &own).await;
        assert!(opened.header(SET_COOKIE).starts_with("rpcgate="), "{opened:?}");
        assert!(seen_at().await > first);
        site.clock.advance(2 * QUARTER);
        let over = refreshed(&site, "/projects", &own).await;
        assert_eq!((over.status, over.headers.get(LOCATION)), (StatusCode::UNAUTHORIZED, None));
        assert!(over.text.contains("Your session has ended: log in again."), "{}", over.text);
        assert!(!over.text.contains("type=\"password\""), "{}", over.text);
        let led = get(&site, "/projects", &own).await;
        assert_eq!(led.leads_to(), (StatusCode::SEE_OTHER, "login?next=projects"));
    }

    // Shows (Dashboard).
    #[tokio::test]
    async fn a_self_refreshing_page_has_the_message_for_the_end_of_the_session() {
        let site = Site::new().await;
        let operator = cookie(&site, &site.operator().await);
        let page = get(&site, "/operator/nodes", &operator).await;
        let words = page.text.split("<template id=\"session-ended\">").nth(1).unwrap();
        let words = words.split("</template>").next().unwrap();
        assert!(words.contains("Your session has ended"), "{words}");
        assert!(words.contains("href=\"../login?next=operator%2Fnodes\""), "{words}");
        let still = get(&site, "/operator/users", &operator).await;
        assert!(!still.text.contains("session-ended"), "{}", still.text);
    }
}
