//! What tests of the management need: a state with its own databases, services on sockets, and second factors.

// Tests panic.
#![allow(clippy::expect_used, clippy::unwrap_used)]

pub mod browser;
pub mod fixtures;
pub mod second_factors;
pub mod secure_receiver;
pub mod service;
pub mod stripe;

use crate::app_state::AppState;
use crate::identity::token::Claims;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use http::header::AUTHORIZATION;
use http::response::Parts;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt;
use rpcgate_config::{Config, Secret, Setting, Sources};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::{ManualClock, Time};
use rpcgate_core::plan::Tier;
use rpcgate_store::{
    Audit, Digest, LogInMethod, Role, Session, SessionId, Tenant, User, UserId, fresh_id, testing, url_of,
};
use serde_json::Value;
use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tempfile::TempDir;
use tower::ServiceExt;
/// 2026-12-31 12:00 UTC.
pub const NOON: Time = Time::from_secs(1_798_718_400);

/// The stored password hash of the users created here. Its password is unknown.
const LOCKED: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$\
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// The routes that a [`TestSite`] serves.
pub trait SiteRoutes {
    /// Builds the routes, with the layers that they have in operation.
    fn router(app: &Arc<AppState>) -> Router;
}

/// No routes, for tests of actions.
#[derive(Debug)]
pub enum NoRoutes {}

impl SiteRoutes for NoRoutes {
    fn router(_: &Arc<AppState>) -> Router {
        Router::new()
    }
}

/// A site without routes.
#[cfg(test)]
pub(crate) type Site = TestSite<NoRoutes>;

/// A test [`AppState`] with its own databases, whose clock shows [`NOON`], and with the routes of `R`.
pub struct TestSite<R> {
    /// The state.
    pub app: Arc<AppState>,
    /// The clock of the state.
    pub clock: Arc<ManualClock>,
    /// The routes. They are built once, because building them with their documentation is slow.
    router: OnceLock<Router>,
    dir: TempDir,
    routes: PhantomData<fn() -> R>,
}

impl<R> fmt::Debug for TestSite<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestSite").finish_non_exhaustive()
    }
}

/// A logged-in user.
#[derive(Clone, Debug)]
pub struct Visitor {
    /// The user.
    pub user: User,
    /// The user's session.
    pub session: SessionId,
    /// The access token of the session.
    pub token: String,
}

/// A response of the whole router. The body is parsed as JSON, or null if it is empty.
#[derive(Clone, Debug)]
pub struct ApiAnswer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Value,
}

impl<R: SiteRoutes> TestSite<R> {
    /// Opens a state configured by `text`, with the required secrets.
    pub async fn of(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(NOON));
        let app = AppState::open(configured(&dir, text), clock.clone()).await.unwrap();
        TestSite { app: Arc::new(app), clock, router: OnceLock::new(), dir, routes: PhantomData }
    }

    /// Opens a state with the default configuration.
    pub async fn new() -> Self {
        Self::of("").await
    }

    /// Sets the numbers of rows above which a usage query counts as large, and is refused. The state must not be shared yet.
    pub fn bound_usage(&mut self, large: u64, max: u64) {
        let app = Arc::get_mut(&mut self.app).unwrap();
        app.usage = app.usage.clone().bounded_by(large, max);
    }

    /// Reloads the state with another configuration.
    pub fn reloaded(self, config: Config) -> Self {
        let app = Arc::new(self.app.reload(config).unwrap());
        TestSite { app, router: OnceLock::new(), ..self }
    }

    /// Creates a tenant on the free plan.
    pub async fn tenant(&self) -> TenantId {
        let id = TenantId(fresh_id(NOON));
        let created_at = NOON;
        let tenant = Tenant::new(id, "Site", Tier::Free, created_at);
        self.app.store.create_tenant(&tenant).await.unwrap();
        id
    }

    /// Creates a confirmed, logged-in user with a new tenant.
    pub async fn member(&self, role: Role) -> Visitor {
        let tenant = self.tenant().await;
        self.visitor(Some(tenant), role).await
    }

    /// Creates a logged-in operator.
    pub async fn operator(&self) -> Visitor {
        self.visitor(None, Role::Viewer).await
    }

    /// Creates a confirmed, logged-in user.
    pub async fn visitor(&self, tenant: Option<TenantId>, role: Role) -> Visitor {
        let now = self.app.now();
        let id = UserId(fresh_id(now));
        let user = User {
            id,
            tenant,
            email: format!("{id}@example.com"),
            name: "Somebody".into(),
            role,
            password: Some(LOCKED.into()),
            confirmed_at: Some(now),
            created_at: now,
        };
        self.app.store.create_user(&user).await.unwrap();
        let session = Session {
            id: SessionId(fresh_id(now)),
            user: id,
            created_at: now,
            seen_at: now,
            expires_at: now.plus(self.app.settings.refresh_ttl),
            address: "192.0.2.1".into(),
            agent: "a test".into(),
            method: LogInMethod::Password,
            factor_at: None,
            proved_at: Some(now),
            seen_address: "192.0.2.1".into(),
        };
        let refresh = Digest::of(&session.id.to_string());
        let entry = Audit {
            tenant,
            user: Some(id),
            action: "session.opened".into(),
            subject: session.id.to_string(),
            address: session.address.clone(),
            at: now,
            detail: String::new(),
        };
        assert!(self.app.store.open_session(&session, &refresh, LOCKED, &entry).await.unwrap());
        let claims = Claims {
            sub: id,
            sid: session.id.0,
            tenant: tenant.unwrap_or_default(),
            role,
            operator: tenant.is_none(),
        };
        let token = self.app.tokens.issue(&claims, now).unwrap();
        Visitor { user, session: session.id, token }
    }

    /// Sends a request to the API.
    pub async fn ask(
        &self,
        visitor: Option<&Visitor>,
        method: Method,
        path: &str,
        body: impl Into<Body>,
    ) -> ApiAnswer {
        let mut request = http::Request::builder().method(method).uri(path);
        if let Some(Visitor { token, .. }) = visitor {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        self.send(request.body(body.into()).unwrap()).await
    }

    /// Sends a request whose answer is JSON or empty.
    pub async fn send(&self, request: http::Request<Body>) -> ApiAnswer {
        let (head, body) = self.raw(request).await;
        let body = serde_json::from_slice(&body).unwrap_or_default();
        ApiAnswer { status: head.status, headers: head.headers, body }
    }

    /// Returns the recipient and the subject of each sent mail, oldest first.
    pub async fn handed_over_mails(&self) -> Vec<(String, String)> {
        self.send_mails().await;
        let folder = self.dir.path().join("outbox");
        let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
        files.retain(|file| file.extension().is_some_and(|end| end == "eml"));
        files.sort_unstable();
        let read = |file: &std::path::PathBuf| {
            let text = std::fs::read_to_string(file).unwrap();
            let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
            (of("To: "), of("Subject: "))
        };
        files.iter().map(read).collect()
    }

    /// Returns the body of the answer at `path`.
    pub async fn text(&self, path: &str) -> String {
        let (_, body) = self.raw(http::Request::get(path).body(Body::empty()).unwrap()).await;
        String::from_utf8(body.to_vec()).unwrap()
    }

    /// Sends the mails that are due, as the janitor does.
    pub async fn send_mails(&self) {
        while let Ok(1..) = self.app.mails.deliver(self.app.now()).await {}
    }

    /// Sends a request to the whole router, and then the mails that it has caused. The response need not be JSON.
    pub async fn raw(&self, mut request: http::Request<Body>) -> (Parts, Bytes) {
        if request.extensions().get::<ConnectInfo<SocketAddr>>().is_none() {
            request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([192, 0, 2, 1], 9))));
        }
        let router = self.router.get_or_init(|| R::router(&self.app)).clone();
        let (head, body) = router.oneshot(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        self.send_mails().await;
        (head, body)
    }
}

/// An environment variable that makes the tests of this binary use databases on PostgreSQL.
const ON_POSTGRES: &str = "TEST_STATES_ON_POSTGRES";

/// Returns the URL of a state's databases, which have the newest schema.
fn url(dir: &TempDir) -> String {
    match std::env::var_os(ON_POSTGRES) {
        Some(_) => testing::TestDatabase::server().url().to_owned(),
        None => {
            let file = dir.path().join(testing::FILE);
            if !file.exists() {
                testing::put_files(dir.path());
            }
            url_of(&file)
        }
    }
}

fn configured(dir: &TempDir, text: &str) -> Config {
    let adapters: Vec<_> = rpcgate_chains::catalog().collect();
    let chains: Vec<_> = adapters.iter().map(|adapter| adapter.facts()).collect();
    let base = [
        ("database.url", url(dir)),
        ("gateway.key_secret", "0123456789abcdef".into()),
        ("admin.jwt.secret", "0123456789abcdef0123456789abcdef".into()),
        ("admin.mail.outbox", dir.path().join("outbox").to_string_lossy().into_owned()),
    ];
    let base = base.map(|(path, value)| Setting::new("a test", path, value));
    let read = |_: &str| Ok(text.to_owned());
    let sources =
        Sources { file: Some("a"), chains: &chains, base: &base, env: &[], flags: &[], read: &read };
    sources.load().unwrap()
}

/// Returns the configurations before, during and after a rotation of secrets.
pub fn rotation<R>(site: &TestSite<R>) -> [Config; 3] {
    let before = site.app.settings.config.clone();
    let mut during = before.clone();
    during.admin.jwt.former_secrets.extend(before.admin.jwt.secret.clone());
    during.admin.jwt.secret = Some(Secret::new("another secret of thirty-two bytes or so"));
    during.gateway.former_key_secrets.extend(before.gateway.key_secret.clone());
    during.gateway.key_secret = Some(Secret::new("another secret of keys"));
    let mut after = during.clone();
    after.admin.jwt.former_secrets.clear();
    after.gateway.former_key_secrets.clear();
    [before, during, after]
}

/// Runs the tests of this binary whose names contain one of `filters` again, with databases on PostgreSQL.
///
/// # Panics
/// If a test fails, or if no test matches.
pub fn run_on_postgres(filters: &[&str]) {
    let mut tests = std::process::Command::new(std::env::current_exe().unwrap());
    let done = tests.args(filters).args(["--skip", "postgresql"]).env(ON_POSTGRES, "1").output().unwrap();
    let printed = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && !printed.contains(" 0 passed"), "{printed}");
}
