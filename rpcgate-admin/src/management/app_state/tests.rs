//! A test [`AppState`] with its own databases.

use super::*;
use crate::management::identity::challenge::solve;
use crate::management::identity::form_token::FormHolder;
use crate::management::identity::token::Claims;
use crate::management::router::router;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use http::header::AUTHORIZATION;
use http::response::Parts;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt;
use rpcgate_config::{ChallengeKind, Input, Setting, Sources};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::ManualClock;
use rpcgate_core::plan::Tier;
use rpcgate_store::{
    Audit, Digest, LogInMethod, Role, Session, SessionId, Tenant, User, UserId, fresh_id, testing, url_of,
};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::OnceLock;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

pub(crate) const NOON: Time = Time::from_secs(1_798_718_400);

/// The stored password hash of the users created here. Its password is unknown.
const LOCKED: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$\
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// A test [`AppState`] with its own databases, whose clock shows [`NOON`].
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) app: Arc<AppState>,
    pub(crate) clock: Arc<ManualClock>,
    /// All routes. They are built once, because building them with their documentation is slow.
    router: OnceLock<Router>,
    dir: TempDir,
}

#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    pub(crate) user: User,
    pub(crate) session: SessionId,
    pub(crate) token: String,
}

/// A response of the whole router. The body is parsed as JSON, or null if it is empty.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Site {
    /// Opens a state configured by `text`, with the required secrets.
    pub(crate) async fn of(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(NOON));
        let app = AppState::open(configured(&dir, text), clock.clone()).await.unwrap();
        Site { app: Arc::new(app), clock, router: OnceLock::new(), dir }
    }

    pub(crate) async fn new() -> Self {
        Site::of("").await
    }

    /// Sets the numbers of rows above which a usage query counts as large, and is refused. The state must not be shared yet.
    pub(crate) fn bound_usage(&mut self, large: u64, max: u64) {
        let app = Arc::get_mut(&mut self.app).unwrap();
        app.usage = app.usage.clone().bounded_by(large, max);
    }

    pub(crate) fn reloaded(self, config: Config) -> Self {
        let app = Arc::new(self.app.reload(config).unwrap());
        Site { app, router: OnceLock::new(), ..self }
    }

    /// Creates a tenant on the free plan.
    pub(crate) async fn tenant(&self) -> TenantId {
        let (id, created_at) = (TenantId(fresh_id(NOON)), NOON);
        let tenant = Tenant::new(id, "Site", Tier::Free, created_at);
        self.app.store.create_tenant(&tenant).await.unwrap();
        id
    }

    /// Creates a confirmed, logged-in user with a new tenant.
    pub(crate) async fn member(&self, role: Role) -> Visitor {
        let tenant = self.tenant().await;
        self.visitor(Some(tenant), role).await
    }

    pub(crate) async fn operator(&self) -> Visitor {
        self.visitor(None, Role::Viewer).await
    }

    /// Creates a confirmed, logged-in user.
    pub(crate) async fn visitor(&self, tenant: Option<TenantId>, role: Role) -> Visitor {
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

    pub(crate) async fn ask(
        &self,
        visitor: Option<&Visitor>,
        method: Method,
        path: &str,
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = http::Request::builder().method(method).uri(path);
        if let Some(Visitor { token, .. }) = visitor {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        self.send(request.body(body.into()).unwrap()).await
    }

    pub(crate) async fn send(&self, request: http::Request<Body>) -> Answer {
        let (head, body) = self.raw(request).await;
        let body = serde_json::from_slice(&body).unwrap_or_default();
        Answer { status: head.status, headers: head.headers, body }
    }

    /// Returns the recipient and the subject of each sent mail, oldest first.
    pub(crate) async fn handed_over_mails(&self) -> Vec<(String, String)> {
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

    pub(crate) async fn text(&self, path: &str) -> String {
        let (_, body) = self.raw(http::Request::get(path).body(Body::empty()).unwrap()).await;
        String::from_utf8(body.to_vec()).unwrap()
    }

    /// Sends the mails that are due, as the janitor does.
    pub(crate) async fn send_mails(&self) {
        while let Ok(1..) = self.app.mails.deliver(self.app.now()).await {}
    }

    /// Sends a request to the whole router, and then the mails that it has caused. The response need not be JSON.
    pub(crate) async fn raw(&self, mut request: http::Request<Body>) -> (Parts, Bytes) {
        if request.extensions().get::<ConnectInfo<SocketAddr>>().is_none() {
            request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([192, 0, 2, 1], 9))));
        }
        let router = self.router.get_or_init(|| router(&self.app, &CancellationToken::new())).clone();
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

#[test]
#[cfg_attr(not(have_postgres), ignore = "needs postgresql (apt install postgresql)")]
fn the_management_side_behaves_the_same_on_postgresql_and_sqlite() {
    let mut tests = std::process::Command::new(std::env::current_exe().unwrap());
    let done = tests
        .args([
            "api::",
            "command::",
            "page::",
            "router::",
            "billing::",
            "mail::queue",
            "action::security",
            "action::resealing",
            "operator::rollback",
            "operator::config_versions",
            "dispatcher::",
        ])
        .env(ON_POSTGRES, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && !said.contains(" 0 passed"), "{said}");
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

#[tokio::test]
async fn the_error_for_a_missing_secret_names_the_way_to_set_it() {
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
    assert!(!Arc::ptr_eq(&reload.limits, &site.app.limits), "another bound counts anew");
    config.admin.jwt.secret = Some(Secret::new("another secret of thirty-two bytes or so"));
    assert!(reload.reload(config.clone()).unwrap().tokens.check(&visitor.token, NOON).is_err());
    config.admin.jwt.secret = None;
    assert!(reload.reload(config).unwrap_err().is_configuration());
}

/// Returns the configurations before, during and after a rotation of secrets.
pub(crate) fn rotation(site: &Site) -> [Config; 3] {
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

// Shows (Commands and configuration).
#[tokio::test]
async fn secrets_rotate_over_two_reloads_without_ending_a_session() {
    let site = Site::of("[admin.challenge]\ndifficulty = 50\n").await;
    let visitor = site.member(Role::Owner).await;
    let holder = FormHolder::Session(visitor.session);
    let [_, during, after] = rotation(&site);
    let (old_key, old_form) = (site.app.forge.make().unwrap(), site.app.form_tokens.issue(holder));
    let puzzle = solve(&site.app.challenges.issue(NOON).unwrap()).unwrap();
    let me = async |site: &Site, token: &str| {
        let mut visitor = visitor.clone();
        visitor.token = token.to_owned();
        site.ask(Some(&visitor), Method::GET, "/api/v1/auth/me", Body::empty()).await.status
    };

    let site = site.reloaded(during);
    assert_eq!(me(&site, &visitor.token).await, StatusCode::OK);
    let app = &site.app;
    assert!(app.forge.is_genuine(&old_key) && app.form_tokens.is_valid(&old_form, holder));
    assert!(app.challenges.check(&puzzle, NOON).is_ok());
    let claims = app.tokens.check(&visitor.token, NOON).unwrap();
    let (new, new_key) = (app.tokens.issue(&claims, NOON).unwrap(), app.forge.make().unwrap());
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
