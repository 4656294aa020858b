//! The access of each route of the API. The router declares it once: the check before the handler and the statement in
//! the OpenAPI document both derive from that declaration, so they cannot differ.

use crate::empty_body::{WithoutBody, expect_empty};
use crate::idempotency;
use crate::query_parameters::{QueryParameters, expect_known};
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Method};
use rpcgate_management::access::{Access, AuthSession, session_of};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Client;
use rpcgate_management::identity::refresh::{OpaqueHash, OpaqueKind};
use rpcgate_management::identity::role::Permission;
use rpcgate_management::identity::token_scope::{TokenScope, TokenScopes};
use rpcgate_management::request_traces::UserMark;
use rpcgate_store::{Digest, SessionId};
use std::fmt;
use std::sync::Arc;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa_axum::router::{UtoipaMethodRouter, UtoipaMethodRouterExt};

/// The OpenAPI extension with the least role of an operation: a role of a tenant, `none` without a token, `user` for
/// any logged-in user, or `operator`.
pub const LEAST_ROLE: &str = "x-least-role";

/// The OpenAPI extension that lists all roles of an operation. Roles have no order, because none includes all rights of
/// the others.
pub const ROLES: &str = "x-roles";

/// The OpenAPI extension with the scope that a personal access token needs for an operation, or null if no token may
/// use it. Operators' tokens need `operator_read` where this is `read`, unless the operation is for members.
pub const TOKEN_SCOPE: &str = "x-token-scope";

/// The result of `routes!`.
pub type Routes = UtoipaMethodRouter<Arc<AppState>>;

const MISSING: &str = "a bearer token is needed";
const INVALID: &str = "the token is not valid or has expired";

/// Adds access checks to routes.
pub struct RouteGuard(Arc<AppState>);

impl fmt::Debug for RouteGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RouteGuard")
    }
}

impl RouteGuard {
    /// Makes a guard that looks up the sessions of `app`.
    pub fn new(app: &Arc<AppState>) -> Self {
        RouteGuard(app.clone())
    }

    /// Opens `routes` to all clients, limited by client address.
    pub fn anyone(&self, routes: Routes) -> Routes {
        let limit = from_fn_with_state(self.0.clone(), admit_anyone);
        let known = from_fn_with_state(QueryParameters::of(&routes.1), expect_known);
        let empty = from_fn_with_state((self.0.clone(), WithoutBody::of(&routes.1)), expect_empty);
        marked(routes, Access::Anyone)
            .map(|routes| routes.route_layer(empty).route_layer(known).route_layer(limit))
    }

    /// Opens `routes` to every logged-in user.
    pub fn user(&self, routes: Routes) -> Routes {
        self.guarded(routes, Access::User)
    }

    /// Opens `routes` to every user, including personal access tokens that read.
    pub fn reader(&self, routes: Routes) -> Routes {
        self.guarded(routes, Access::Reader)
    }

    /// Opens `routes` to every logged-in user, also without a required second factor: to add one, and to manage the own
    /// sessions.
    pub fn user_without_factor(&self, routes: Routes) -> Routes {
        self.guarded_by(routes, Access::User, FactorRule::Ignored)
    }

    /// Like [`reader`](Self::reader), but also for users who lack a required second factor.
    pub fn reader_without_factor(&self, routes: Routes) -> Routes {
        self.guarded_by(routes, Access::Reader, FactorRule::Ignored)
    }

    /// Opens `routes` to members of a tenant whose role has `permission`.
    pub fn member(&self, permission: Permission, routes: Routes) -> Routes {
        self.guarded(routes, Access::Member(permission))
    }

    /// Opens `routes` to operators.
    pub fn operator(&self, routes: Routes) -> Routes {
        self.guarded(routes, Access::Operator)
    }

    fn guarded(&self, routes: Routes, access: Access) -> Routes {
        self.guarded_by(routes, access, FactorRule::Kept)
    }

    fn guarded_by(&self, mut routes: Routes, access: Access, rule: FactorRule) -> Routes {
        let guard = from_fn_with_state((self.0.clone(), access, rule), admit);
        let known = from_fn_with_state(QueryParameters::of(&routes.1), expect_known);
        let empty = from_fn_with_state((self.0.clone(), WithoutBody::of(&routes.1)), expect_empty);
        let posts = routes.1.paths.values_mut().filter_map(|item| item.post.as_mut());
        let mut creates = false;
        for operation in posts.filter(|operation| idempotency::takes_key(operation)) {
            operation.parameters.get_or_insert_default().push(idempotency::parameter());
            creates |= !idempotency::is_upload(operation);
        }
        let once = from_fn_with_state(self.0.clone(), idempotency::once);
        marked(routes, access).map(|routes| {
            let routes = if creates { routes.route_layer(once) } else { routes };
            routes.route_layer(empty).route_layer(known).route_layer(guard)
        })
    }
}

/// The treatment of users who lack a required second factor: `Kept` refuses them, `Ignored` admits them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FactorRule {
    Kept,
    Ignored,
}

fn marked(mut routes: Routes, access: Access) -> Routes {
    for (method, operation) in routes.1.paths.values_mut().flat_map(operations) {
        let extensions = operation.extensions.get_or_insert_default();
        let roles = access.roles();
        extensions.insert(LEAST_ROLE.to_owned(), roles.first().copied().into());
        extensions.insert(ROLES.to_owned(), roles.into());
        if access != Access::Anyone {
            let scope = access.scope(&method, false).map(TokenScope::as_str);
            extensions.insert(TOKEN_SCOPE.to_owned(), scope.into());
        }
    }
    routes
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let PathItem { get, put, post, delete, options, head, patch, trace, .. } = item;
    let all = [
        (Method::GET, get),
        (Method::PUT, put),
        (Method::POST, post),
        (Method::DELETE, delete),
        (Method::OPTIONS, options),
        (Method::HEAD, head),
        (Method::PATCH, patch),
        (Method::TRACE, trace),
    ];
    all.into_iter().filter_map(|(method, operation)| operation.as_mut().map(|operation| (method, operation)))
}

async fn admit(
    State((app, access, rule)): State<(Arc<AppState>, Access, FactorRule)>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let (session, scopes) = match credential(&app, &mut parts).await {
        Ok(credential) => credential,
        Err(error @ ActionError::Unauthenticated(_)) => {
            return match limit_anonymous(&app, &mut parts).await {
                Ok(()) => error.into_response(),
                Err(often) => often.into_response(),
            };
        }
        Err(error) => return error.into_response(),
    };
    UserMark::set(&parts.extensions);
    let mut admitted = access.admit(&session.user).and_then(|()| match &scopes {
        Some(scopes) => access.admit_token(scopes, &parts.method, &session.user),
        None => Ok(()),
    });
    if admitted.is_ok() && rule == FactorRule::Kept {
        admitted = session.demand_factor(&app, &parts.method).await;
    }
    if let Err(error) = admitted {
        return error.into_response();
    }
    match Client::from_request_parts(&mut parts, &app).await {
        Ok(client) => session.note_use(&app, &client).await,
        Err(error) => return error.into_response(),
    }
    parts.extensions.insert(session.user.clone());
    parts.extensions.insert(session);
    if let Some(scopes) = scopes {
        parts.extensions.insert(scopes);
    }
    next.run(Request::from_parts(parts, body)).await
}

async fn credential(
    app: &Arc<AppState>,
    parts: &mut Parts,
) -> Result<(AuthSession, Option<TokenScopes>), ActionError> {
    let Some(hash) = OpaqueHash::of(OpaqueKind::Access, bearer(&parts.headers)?) else {
        return Ok((session(app, &parts.headers).await?, None));
    };
    let now = app.now();
    let found = app.store.access_token(&Digest(hash.0), now).await?;
    let (token, user) = found.ok_or(ActionError::Unauthenticated(INVALID))?;
    app.limits.users.admit(user.id)?;
    let Client { address, .. } = Client::from_request_parts(parts, app).await?;
    // A database that accepts no writes still answers reads.
    if let Err(error) = app.store.use_access_token(&token, &address.to_string(), now).await {
        tracing::warn!(%error, "the use of a personal access token could not be recorded");
    }
    let session = AuthSession::of_token(SessionId(token.id.0), user);
    Ok((session, Some(TokenScopes::of(&token.scopes))))
}

async fn admit_anyone(State(app): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match limit_anonymous(&app, &mut parts).await {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(often) => often.into_response(),
    }
}

/// Counts a request of an anonymous client.
async fn limit_anonymous(app: &Arc<AppState>, parts: &mut Parts) -> Result<(), ActionError> {
    let client = Client::from_request_parts(parts, app).await?;
    Ok(app.limits.anonymous.admit(client.address)?)
}

/// Returns the session of a request's bearer token.
pub(crate) async fn session(app: &AppState, headers: &HeaderMap) -> Result<AuthSession, ActionError> {
    session_of(app, &app.tokens, bearer(headers)?).await.map(|(_, session)| session)
}

/// Returns the bearer token of a request: RFC 6750, section 2.1.
fn bearer(headers: &HeaderMap) -> Result<&str, ActionError> {
    let mut given = headers.get_all(AUTHORIZATION).into_iter();
    let header = given.next().ok_or(ActionError::Unauthenticated(MISSING))?;
    let (scheme, token) = header.to_str().unwrap_or_default().split_once(' ').unwrap_or_default();
    if given.next().is_some() || !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
        return Err(ActionError::Unauthenticated(MISSING));
    }
    Ok(token)
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ApiAnswer, NOON, Site, Visitor};
    use axum::body::Body;
    use axum::extract::ConnectInfo;
    use axum::routing::get;
    use http::{HeaderValue, StatusCode};
    use rpcgate_core::caller::TenantId;
    use rpcgate_management::identity::role::Role;
    use std::time::Duration;
    use utoipa::openapi::path::{HttpMethod, OperationBuilder, PathsBuilder};

    const PATH: &str = "/api/v1/plans";

    async fn plans(site: &Site, visitor: &Visitor) -> StatusCode {
        site.ask(Some(visitor), Method::GET, PATH, Body::empty()).await.status
    }

    async fn with(site: &Site, headers: &[&str]) -> ApiAnswer {
        let mut request = http::Request::get(PATH);
        for header in headers {
            request = request.header(AUTHORIZATION, HeaderValue::from_str(header).unwrap());
        }
        site.send(request.body(Body::empty()).unwrap()).await
    }

    #[tokio::test]
    async fn a_valid_token_is_admitted_and_everything_else_is_not() {
        let site = Site::new().await;
        let token = site.member(Role::Viewer).await.token;
        for good in [format!("Bearer {token}"), format!("bearer {token}")] {
            assert_eq!(with(&site, &[&good]).await.status, StatusCode::OK, "{good}");
        }
        let good = format!("Bearer {token}");
        let basic = format!("Basic {token}");
        let alone = token.as_str();
        let longer = format!("{good}x");
        for (headers, text) in [
            (&[][..], MISSING),
            (&[""], MISSING),
            (&["Bearer"], MISSING),
            (&["Bearer "], MISSING),
            (&[&basic], MISSING),
            (&[alone], MISSING),
            (&[&good, &good], MISSING),
            (&["Bearer x"], INVALID),
            (&[&longer], INVALID),
        ] {
            let answer = with(&site, headers).await;
            assert_eq!(
                (answer.status, answer.body["error"].as_str()),
                (StatusCode::UNAUTHORIZED, Some(text))
            );
            assert_eq!(answer.headers[http::header::WWW_AUTHENTICATE], "Bearer realm=\"rpcgate\"");
        }
    }

    // Shows (Traces, logs and metrics).
    #[tokio::test]
    async fn only_the_request_of_a_user_is_marked_as_such() {
        let site = Site::new().await;
        let token = site.member(Role::Viewer).await.token;
        for (header, is_users) in [(format!("Bearer {token}"), true), ("Bearer x".to_owned(), false)] {
            let mark = UserMark::default();
            let request = http::Request::get(PATH).header(AUTHORIZATION, header).extension(mark.clone());
            site.send(request.body(Body::empty()).unwrap()).await;
            assert_eq!(mark.is_set(), is_users);
        }
    }

    // Shows (Management): A user has 600 management requests a minute, an address 60 unauthenticated ones; then 429
    // with `Retry-After` (promise 68).
    #[tokio::test]
    async fn a_user_makes_600_requests_a_minute_and_others_are_not_affected() {
        let site = Site::new().await;
        let busy = site.member(Role::Viewer).await;
        let other = site.member(Role::Viewer).await;
        for _ in 0..600 {
            assert_eq!(plans(&site, &busy).await, StatusCode::OK);
        }
        let refused = with(&site, &[&format!("Bearer {}", busy.token)]).await;
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(refused.headers.contains_key(http::header::RETRY_AFTER));
        assert_eq!(plans(&site, &other).await, StatusCode::OK);
        site.clock.advance(Duration::from_secs(60));
        assert_eq!(plans(&site, &busy).await, StatusCode::OK);
    }

    // Shows (Management).
    #[tokio::test]
    async fn an_address_asks_60_times_a_minute_without_being_logged_in() {
        let site = Site::new().await;
        let invented = async |number: usize| {
            let body = serde_json::json!({"refresh_token": format!("invented {number}")}).to_string();
            site.ask(None, Method::POST, "/api/v1/auth/refresh", body).await.status
        };
        for number in 0..30 {
            assert_eq!(with(&site, &["Bearer x"]).await.status, StatusCode::UNAUTHORIZED);
            assert_eq!(invented(number).await, StatusCode::UNAUTHORIZED);
        }
        assert_eq!(invented(60).await, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(with(&site, &[]).await.status, StatusCode::TOO_MANY_REQUESTS);
        let member = site.member(Role::Viewer).await;
        assert_eq!(plans(&site, &member).await, StatusCode::OK, "a user who is logged in there is served");
    }

    // Shows (Accounts and second factors).
    #[tokio::test]
    async fn a_token_ends_with_its_time() {
        let site = Site::new().await;
        let visitor = site.member(Role::Viewer).await;
        site.clock.advance(site.app.settings.config.admin.jwt.access_ttl);
        assert_eq!(plans(&site, &visitor).await, StatusCode::OK, "clocks may differ a little");
        site.clock.advance(Duration::from_secs(6));
        assert_eq!(plans(&site, &visitor).await, StatusCode::UNAUTHORIZED);
    }

    #[tokio::test]
    async fn a_session_that_was_ended_is_refused_at_once_and_others_are_not() {
        let site = Site::new().await;
        let one = site.member(Role::Owner).await;
        let other = site.member(Role::Owner).await;
        site.app.store.end_session(one.user.id, one.session).await.unwrap();
        assert_eq!(plans(&site, &one).await, StatusCode::UNAUTHORIZED);
        assert_eq!(plans(&site, &other).await, StatusCode::OK);
    }

    #[tokio::test]
    async fn a_token_with_the_session_of_another_user_is_refused() {
        let site = Site::new().await;
        let one = site.member(Role::Owner).await;
        let other = site.operator().await;
        let claims = rpcgate_management::identity::token::Claims {
            sub: one.user.id,
            sid: other.session.0,
            tenant: TenantId::default(),
            role: Role::Owner,
            operator: true,
        };
        let token = site.app.tokens.issue(&claims, NOON).unwrap();
        assert_eq!(plans(&site, &Visitor { token, ..one }).await, StatusCode::UNAUTHORIZED);
    }

    #[tokio::test]
    async fn an_unreachable_database_is_not_a_refusal() {
        let site = Site::new().await;
        let visitor = site.member(Role::Viewer).await;
        site.app.close().await;
        assert_eq!(plans(&site, &visitor).await, StatusCode::SERVICE_UNAVAILABLE);
    }

    fn unknown() -> Request {
        let peer = ConnectInfo(std::net::SocketAddr::from(([192, 0, 2, 1], 7)));
        http::Request::get("/x").extension(peer).body(Body::empty()).unwrap()
    }

    /// Returns routes at `/x` that answer with the session they found.
    fn routes() -> Routes {
        let item = PathItem::new(HttpMethod::Get, OperationBuilder::new().build());
        let paths = PathsBuilder::new().path("/x", item).build();
        (Vec::new(), paths, get(async |session: AuthSession| session.user.id.to_string()))
    }

    #[tokio::test]
    async fn the_checked_roles_are_the_documented_ones() {
        let site = Site::new().await;
        let guard = RouteGuard::new(&site.app);
        let mut visitors = vec![("operator", site.operator().await)];
        for role in [Role::Viewer, Role::Billing, Role::Developer, Role::Admin, Role::Owner] {
            visitors.push((role.as_str(), site.member(role).await));
        }
        let mut guarded_routes = vec![guard.user(routes()), guard.reader(routes()), guard.operator(routes())];
        guarded_routes.extend(Permission::ALL.map(|permission| guard.member(permission, routes())));
        for guarded in guarded_routes {
            let operation = guarded.1.paths["/x"].get.clone().unwrap().extensions.unwrap();
            let reported: Vec<_> =
                operation[ROLES].as_array().unwrap().iter().filter_map(|r| r.as_str()).collect();
            assert_eq!(operation[LEAST_ROLE], reported[0]);
            let router = axum::Router::new().route("/x", guarded.2).with_state(site.app.clone());
            for (name, visitor) in &visitors {
                let request =
                    http::Request::get("/x").header(AUTHORIZATION, format!("Bearer {}", visitor.token));
                let peer = ConnectInfo(std::net::SocketAddr::from(([192, 0, 2, 1], 9)));
                let request = request.extension(peer).body(Body::empty()).unwrap();
                let answer = tower::ServiceExt::oneshot(router.clone(), request).await.unwrap();
                let expected = if reported == ["user"] || reported.contains(name) { 200 } else { 403 };
                assert_eq!(answer.status().as_u16(), expected, "{name} at a guard for {reported:?}");
            }
            let answer = tower::ServiceExt::oneshot(router, unknown()).await.unwrap();
            assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
        }
    }

    // Shows (Management): Unknown query parameters of the management API get 400.
    #[tokio::test]
    async fn a_parameter_that_the_document_does_not_list_is_refused() {
        let site = Site::new().await;
        let owner = site.member(Role::Owner).await;
        let ask = async |visitor: Option<&Visitor>, path: &str| {
            let answer = site.ask(visitor, Method::GET, path, Body::empty()).await;
            (answer.status.as_u16(), answer.body["error"].as_str().unwrap_or_default().to_owned())
        };
        let audit = "/api/v1/auth/audit";
        assert_eq!(ask(Some(&owner), &format!("{audit}?limit=3")).await.0, 200);
        let (status, error) = ask(Some(&owner), &format!("{audit}?limt=3")).await;
        assert_eq!(status, 400);
        assert!(error.starts_with("unknown parameter `limt`: expected `action`, "), "{error}");
        let none = (400, "unknown parameter `x`: expected none".to_owned());
        assert_eq!(ask(Some(&owner), "/api/v1/plans?x").await, none);
        assert_eq!(ask(None, "/api/v1/auth/challenge?x=").await, none);
        assert_eq!(ask(None, "/api/v1/plans?x").await.0, 401, "the caller is checked first");
    }

    #[tokio::test]
    async fn a_public_route_has_no_session() {
        let site = Site::new().await;
        let open = RouteGuard::new(&site.app).anyone(routes());
        let access = open.1.paths["/x"].get.clone().unwrap().extensions.unwrap()[LEAST_ROLE].clone();
        assert_eq!(access, "none");
        let router = axum::Router::new().route("/x", open.2).with_state(site.app.clone());
        let answer = tower::ServiceExt::oneshot(router, unknown()).await.unwrap();
        assert_eq!(
            answer.status(),
            StatusCode::INTERNAL_SERVER_ERROR,
            "a fault of the router's, not of the client"
        );
    }
}
