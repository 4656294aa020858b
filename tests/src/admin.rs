//! The whole service: the management API and gateways on the same databases, each on its own socket.

#![expect(clippy::unwrap_used, reason = "a service of the tests that cannot start fails its test")]

use crate::TIMEOUT;
use crate::client::{TestClient, TestReply};
use crate::gateway::Setup;
use rpcgate_admin::services::api::Api;
use rpcgate_admin::services::dispatcher::Dispatcher;
use rpcgate_admin::services::janitor::Janitor;
use rpcgate_admin::services::watcher::Watcher;
use rpcgate_config::Config;
use rpcgate_core::clock::Clock;
use rpcgate_management::action::billing::closing::close_months;
use rpcgate_management::action::billing::dunning::remind;
use rpcgate_management::app_state::AppState;
use rpcgate_management::identity::challenge::solve;
use rpcgate_management::identity::password::Password;
use rpcgate_process::traces::TraceExporter;
use rpcgate_server::state::State;
use rpcgate_server::{Gateway, StartOptions};
use rpcgate_store::{Role, User, UserId, fresh_id, url_of};
use serde_json::{Value, json};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tempfile::TempDir;
use tokio::time::timeout;

/// The password of every account in tests.
pub const PASSWORD: &str = "correct horse battery staple";

/// The management API with its janitor, on a folder of databases. Gateways can be added while it runs.
#[derive(Debug)]
pub struct TestService {
    setup: Setup,
    clock: Arc<dyn Clock>,
    app: Arc<AppState>,
    api: Api,
    janitor: Janitor,
    /// The watcher and the dispatcher, if the test uses webhooks.
    webhooks: Option<(Watcher, Dispatcher)>,
    gateways: AtomicUsize,
    _traces: Option<TraceExporter>,
    folder: TempDir,
}

impl TestService {
    /// Starts the service with this setup and clock, on its own files.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(setup: Setup, clock: Arc<dyn Clock>) -> Self {
        Self::start_on(None, setup, clock).await
    }

    /// Starts the service on the empty database at `url`, or on its own files without one.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start_on(url: Option<String>, setup: Setup, clock: Arc<dyn Clock>) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), url, setup, clock).await
    }

    /// Starts the service in this folder, which may have the files of an earlier one.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start_in(folder: TempDir, url: Option<String>, setup: Setup, clock: Arc<dyn Clock>) -> Self {
        let url = url.unwrap_or_else(|| url_of(&folder.path().join("rpcgate.db")));
        let outbox = folder.path().join("outbox");
        let setup = setup
            .set("gateway", "key_secret = \"the same at every host\"")
            .set("admin", "listen = \"127.0.0.1:0\"")
            .set("admin.jwt", "secret = \"the same at every host, and long enough\"")
            .set("admin.mail", &format!("outbox = \"{}\"", outbox.display()))
            .set("database", &format!("url = \"{url}\""));
        let mut config = setup.config();
        let mut app = AppState::open(config.clone(), clock.clone()).await.unwrap();
        let traces = app.start_traces().unwrap();
        let app = Arc::new(app);
        let api = Api::start(&app, config.admin.listen, None).unwrap();
        // Links in mails contain the port, which is known only now.
        config.admin.listen = api.addr();
        let app = Arc::new(app.reload(config).unwrap());
        api.serve(&app);
        let janitor = Janitor::start(&app);
        let webhooks = None;
        let gateways = AtomicUsize::new(0);
        TestService { setup, clock, app, api, janitor, webhooks, gateways, _traces: traces, folder }
    }

    /// Also watches chains and delivers webhooks.
    #[must_use]
    pub fn with_webhooks(mut self) -> Self {
        self.webhooks = Some((Watcher::start(&self.app), Dispatcher::start(&self.app)));
        self
    }

    /// Returns the height up to which a chain is followed for webhooks.
    ///
    /// # Panics
    /// When the database cannot be read.
    pub async fn followed(&self, chain: &str) -> Option<u64> {
        let followed = self.app.store.followed(chain).await.unwrap();
        followed.blocks.last().map(|block| block.height)
    }

    /// Starts another gateway on the same databases, with its own journal, and waits until it is ready.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn gateway(&self) -> Gateway {
        let number = self.gateways.fetch_add(1, Relaxed);
        let name = if number == 0 { "journal".into() } else { format!("journal-{number}") };
        let journal = self.folder.path().join(name);
        let setup = self.setup.clone().set("journal", &format!("dir = \"{}\"", journal.display()));
        let config = Config { admin: Default::default(), ..setup.config() };
        let state = Arc::new(State::open(&config, self.clock.clone()).unwrap());
        let options =
            StartOptions { clock: self.clock.clone(), state: Some(state.clone()), ..StartOptions::default() };
        let gateway = Gateway::start(config, options).await.unwrap();
        assert_eq!(timeout(TIMEOUT, state.ready()).await, Ok(true), "the gateway is not ready");
        gateway
    }

    /// Writes the configuration to a file, for commands that open the databases.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn config_file(&self) -> PathBuf {
        let file = self.folder.path().join("rpcgate.toml");
        fs::write(&file, self.setup.text()).unwrap();
        file
    }

    /// Returns the folder with the journals of the gateways and, unless they are on a server, the databases. The
    /// journal of the first gateway is called `journal`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the address of the management API.
    pub fn addr(&self) -> SocketAddr {
        self.api.addr()
    }

    /// Returns the clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Returns the state of the management side.
    pub fn app(&self) -> &Arc<AppState> {
        &self.app
    }

    /// Returns a user who is not logged in.
    pub fn anonymous(&self) -> ApiUser {
        ApiUser::at(self.addr())
    }

    /// Returns an operator, logged in. Operators can be created only with access to the database.
    ///
    /// # Panics
    /// When that fails.
    pub async fn operator(&self) -> ApiUser {
        let now = self.clock.now();
        let id = UserId(fresh_id(now));
        let email = "operator@example.com";
        let user = User {
            id,
            tenant: None,
            email: email.into(),
            name: String::new(),
            role: Role::Viewer,
            password: Some(self.app.passwords.hash(Password::new(PASSWORD).unwrap()).await.unwrap()),
            confirmed_at: Some(now),
            created_at: now,
        };
        self.app.store.create_user(&user).await.unwrap();
        let mut operator = self.anonymous();
        operator.log_in(email).await;
        operator
    }

    /// Returns the owner of a new tenant: registered, confirmed by the mailed link, and logged in.
    ///
    /// # Panics
    /// When one of these steps fails.
    pub async fn owner(&self, email: &str) -> ApiUser {
        let mut owner = self.anonymous();
        owner.register(email).await;
        let confirmed =
            owner.ask("POST", "/auth/confirm", Some(&json!({ "token": self.mailed(email).await }))).await;
        assert_eq!(confirmed.status, 204, "{confirmed:?}");
        owner.log_in(email).await;
        owner
    }

    /// Bills the tenants, as the janitor does from time to time.
    ///
    /// # Panics
    /// When that fails.
    pub async fn bill(&self) {
        close_months(&self.app).await.unwrap();
        remind(&self.app).await.unwrap();
    }

    /// Returns the number of mails that wait to be sent.
    ///
    /// # Panics
    /// When the database cannot be read.
    pub async fn waiting_mails(&self) -> u64 {
        self.app.store.waiting_mails().await.unwrap()
    }

    /// Returns the number of mails with this outcome, a value of the metric's label.
    pub fn mails_counted(&self, outcome: &'static str) -> u64 {
        self.app.mails.counts().of(outcome)
    }

    /// Waits until no mail waits to be sent and returns the mails to an address, oldest first.
    ///
    /// # Panics
    /// When the outbox cannot be read, or mails cannot be sent.
    pub async fn mails(&self, email: &str) -> Vec<String> {
        let sent = async {
            while self.waiting_mails().await > 0 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        timeout(TIMEOUT, sent).await.unwrap();
        let folder = self.folder.path().join("outbox");
        let mut files: Vec<PathBuf> =
            fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        let mails = files.iter().map(|file| fs::read_to_string(file).unwrap());
        mails.filter(|mail| mail.contains(&format!("To: {email}\r\n"))).collect()
    }

    /// Returns the token in the link of the last mail to an address.
    ///
    /// # Panics
    /// If the mail does not exist, or has no link to this service.
    pub async fn mailed(&self, email: &str) -> String {
        let mails = self.mails(email).await;
        let mail = mails.last().unwrap();
        let link = mail.lines().find(|line| line.contains("?token="));
        let Some(link) = link else { panic!("no link in {mail}") };
        let configured = self.setup.config().admin.dash_url;
        let site =
            configured.map_or_else(|| format!("http://{}", self.addr()), |url| url.expose().to_owned());
        assert!(link.starts_with(&format!("{site}/")), "{link}");
        link.split_once("?token=").unwrap().1.to_owned()
    }

    /// Stops the service and returns its folder. Gateways stop when they are dropped.
    pub async fn stop(self) -> TempDir {
        self.api.drain().await;
        self.janitor.stop().await;
        if let Some((watcher, dispatcher)) = self.webhooks {
            dispatcher.stop().await;
            watcher.stop().await;
        }
        self.app.close().await;
        self.folder
    }
}

/// A user of the management API, on a kept-alive connection.
#[derive(Debug)]
pub struct ApiUser {
    api: TestClient,
    email: String,
    token: Option<String>,
}

impl ApiUser {
    /// Creates a user who is not logged in, at the management API with this address.
    pub fn at(addr: SocketAddr) -> Self {
        ApiUser { api: TestClient::new(addr, None), email: String::new(), token: None }
    }

    /// Moves the user to another address of the management API.
    #[must_use]
    pub fn moved(self, addr: SocketAddr) -> Self {
        ApiUser { api: TestClient::new(addr, None), ..self }
    }

    /// Registers with an address, as a browser does.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn register(&self, email: &str) {
        let challenge = self.shown("/auth/challenge").await;
        let solution = solve(&serde_json::from_value(challenge).unwrap()).unwrap();
        let form = json!({ "email": email, "password": PASSWORD, "name": "Ada", "challenge": solution });
        let made = self.made("/auth/register", &form).await;
        assert_eq!(made, json!({ "email": email, "name": "Ada", "confirmed": false }));
    }

    /// Logs in.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn log_in(&mut self, email: &str) {
        let form = json!({ "email": email, "password": PASSWORD });
        let reply = self.ask("POST", "/auth/login", Some(&form)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        self.token = Some(reply.json()["token"].as_str().unwrap().to_owned());
        email.clone_into(&mut self.email);
    }

    /// Uses the access token in the answer to a log-in from now on.
    ///
    /// # Panics
    /// When it has none.
    pub fn enter(&mut self, answer: &Value) {
        self.token = Some(answer["token"].as_str().unwrap().to_owned());
    }

    /// Logs in again, because tokens expire.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn log_in_again(&mut self) {
        let email = self.email.clone();
        self.log_in(&email).await;
    }

    /// Returns the value of the header `Authorization`.
    pub fn bearer(&self) -> String {
        format!("Bearer {}", self.token.as_deref().unwrap_or_default())
    }

    /// Sends a request.
    pub async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> TestReply {
        let bearer = self.bearer();
        let headers = [("authorization", bearer.as_str())];
        let headers = if self.token.is_some() { &headers[..] } else { &[] };
        let body = body.map(Value::to_string).unwrap_or_default();
        self.api.send(method, &format!("/api/v1{path}"), headers, body.as_bytes()).await
    }

    /// Gets a resource.
    ///
    /// # Panics
    /// When the status is not 200.
    pub async fn shown(&self, path: &str) -> Value {
        let reply = self.ask("GET", path, None).await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        reply.json()
    }

    /// Gets all entries of a list, page by page. `path` has a query.
    ///
    /// # Panics
    /// When the status is not 200.
    pub async fn all(&self, path: &str) -> Vec<Value> {
        let mut all = Vec::new();
        let mut page = path.to_owned();
        loop {
            let reply = self.ask("GET", &page, None).await;
            assert_eq!(reply.status, 200, "{page}: {reply:?}");
            all.extend(reply.json().as_array().unwrap().iter().cloned());
            let Some(link) = reply.header("link") else { return all };
            let query = link.strip_prefix("<?").and_then(|link| link.strip_suffix(">; rel=\"next\""));
            page = format!("{}?{}", path.split('?').next().unwrap(), query.unwrap());
        }
    }

    /// Creates a resource and returns it.
    ///
    /// # Panics
    /// When the status is not 201.
    pub async fn made(&self, path: &str, body: &Value) -> Value {
        let reply = self.ask("POST", path, Some(body)).await;
        assert_eq!(reply.status, 201, "{path}: {reply:?}");
        reply.json()
    }

    /// Changes a resource and returns it.
    ///
    /// # Panics
    /// When the status is not 200.
    pub async fn put(&self, path: &str, body: &Value) -> Value {
        let reply = self.ask("PUT", path, Some(body)).await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        reply.json()
    }

    /// Deletes a resource.
    ///
    /// # Panics
    /// When the status is not 204.
    pub async fn delete(&self, path: &str) {
        let reply = self.ask("DELETE", path, None).await;
        assert_eq!((reply.status, reply.text().as_str()), (204, ""), "{path}: {reply:?}");
    }

    /// Returns the id of the user's tenant.
    ///
    /// # Panics
    /// When the user has none.
    pub async fn tenant(&self) -> String {
        self.shown("/auth/me").await["tenant_id"].as_str().unwrap().to_owned()
    }

    /// Creates a project and returns its id.
    ///
    /// # Panics
    /// When it is not created.
    pub async fn project(&self, name: &str) -> String {
        let path = format!("/tenants/{}/projects", self.tenant().await);
        self.made(&path, &json!({ "name": name })).await["id"].as_str().unwrap().to_owned()
    }

    /// Creates a webhook endpoint of a project and returns its id and its secret.
    ///
    /// # Panics
    /// When it is not created.
    pub async fn webhook(&self, project: &str, url: &str) -> (String, String) {
        let webhook = self.made(&format!("/projects/{project}/webhooks"), &json!({ "url": url })).await;
        let text = |name: &str| webhook[name].as_str().unwrap().to_owned();
        (text("id"), text("secret"))
    }

    /// Subscribes a webhook endpoint.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn subscribe(&self, webhook: &str, subscription: &Value) {
        self.made(&format!("/webhooks/{webhook}/subscriptions"), subscription).await;
    }

    /// Creates a key of a project and returns its id and its text.
    ///
    /// # Panics
    /// When it is not created.
    pub async fn key(&self, project: &str) -> (String, String) {
        self.key_with(project, &json!({ "description": "a key" })).await
    }

    /// Creates a key of a project from this body and returns its id and its text.
    ///
    /// # Panics
    /// When it is not created.
    pub async fn key_with(&self, project: &str, body: &Value) -> (String, String) {
        let key = self.made(&format!("/projects/{project}/keys"), body).await;
        let text = |name: &str| key[name].as_str().unwrap().to_owned();
        (text("id"), text("key"))
    }
}
