//! The demo in one process: a gateway, the management API, a simulated node for every chain without a real one, an
//! account with a key, and an operator.
//!
//! One folder contains everything that a second start needs, so that key, ids, usage and blocks stay the same:
//! `state.json` with the seed and the secrets, the databases of accounts and usage, the journal, and a file for each
//! chain on which a client submitted something, from which confirmed and pending transactions are restored. `demo.json`
//! in the same folder has everything that a program needs to use the demo; it is written once everything is ready.

mod account;
mod certificate;
mod chosen;
mod dir;
mod echo;
mod enrolment;
mod login;
mod management;
mod node;
mod settings;
mod sheet;
mod state;
mod submissions;
#[cfg(test)]
mod tests;
mod watch;
mod welcome;

pub use certificate::CertificateError;
pub use chosen::BadNode;
pub use dir::{Dir, DirError};
pub use node::{GrpcDisturbance, GrpcNodeListener, GrpcNodeServer, NodeListener, NodeServer};
pub use sheet::FILE;
pub use state::StateError;
pub use watch::NodeWatch;

use crate::demo_options::DemoOptions;
use crate::gateway::{Drained, Gateway, StartOptions};
use crate::start_error::StartError;
use chosen::ChosenNode;
use echo::{Echo, Print};
use enrolment::Enrolment;
use management::{GatewayAddresses, Management};
use rpcgate_config::{Config, ConfigErrors, LoadError};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_core::plan::Tier;
use rpcgate_core::secret::NoRandomness;
use rpcgate_management::app_state::AppStateError;
use rpcgate_management::identity::password::PasswordError;
use rpcgate_process::Failure;
use rpcgate_process::tls::BadCertificate;
use rpcgate_process::traces::BadCollector;
use rpcgate_simulate::Dial;
use rpcgate_store::{NodeState, StoreError};
use settings::{DESCRIPTORS, Settings, SimulatedNode};
use sheet::{Addresses, Sheet};
use state::DemoState;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use submissions::Submissions;
use tokio::sync::watch as step_watch;

/// The name of the demo's tenant and project, and the description of its key.
const NAME: &str = "demo";

/// A demo that is about to start: its folder is locked and its configuration read.
#[derive(Debug)]
pub struct Prepared {
    dir: Dir,
    state: DemoState,
    plan: Option<Tier>,
    listeners: Vec<(Arc<dyn Adapter>, NodeListener, Option<GrpcNodeListener>)>,
    settings: Settings,
    config: Config,
    step: step_watch::Sender<&'static str>,
    echo: Option<SocketAddr>,
}

/// A demo that is ready.
#[derive(Debug)]
pub struct Demo {
    gateway: Gateway,
    management: Management,
    echo: Option<Echo>,
    sheet: Sheet,
    tier: Tier,
    settings: Settings,
    nodes: Vec<NodeServer>,
    grpc_nodes: Vec<GrpcNodeServer>,
    dir: Dir,
}

/// The reason why a demo cannot start. The text names the option or the file at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The folder.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// The state that the last start stored.
    #[error(transparent)]
    State(#[from] StateError),
    /// The certificate for gRPC.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A `--node`.
    #[error(transparent)]
    Node(#[from] BadNode),
    /// The configuration: the demo's own settings, a file, the environment and options together.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A `--node` that the configuration does not accept.
    #[error(transparent)]
    Part(#[from] ConfigErrors),
    /// The database of the account.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No socket for a simulated node is free.
    #[error("no port for a simulated node: {0}")]
    Listen(io::Error),
    /// The certificate of the management side.
    #[error(transparent)]
    AdminCertificate(#[from] BadCertificate),
    /// The certificate of the management side is to be ordered by ACME.
    #[error(
        "admin.tls.acme: a demo orders no certificate for the management side; name the files in admin.tls.cert and key"
    )]
    AdminAcme,
    /// The gateway.
    #[error("{0}{hint}", hint = hint(.0))]
    Start(#[from] StartError),
    /// A password of the account cannot be hashed or compared.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// The management side, for a reason other than its databases.
    #[error(transparent)]
    AppState(AppStateError),
    /// The management API cannot listen at its address.
    #[error("admin.listen: {listen}: {source}; --admin names another address, port 0 picks a free one")]
    Admin {
        /// The address.
        listen: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
    /// The collector of traces cannot be used.
    #[error(transparent)]
    Collector(#[from] BadCollector),
    /// The receiver of webhooks cannot listen.
    #[error("--webhook-echo: {0}")]
    Echo(io::Error),
    /// The operating system has no randomness for a webhook secret.
    #[error(transparent)]
    Random(NoRandomness),
    /// It was stopped before it admitted calls, or a task that must come first was interrupted: the log has the reason.
    #[error("the demo ended before it was ready")]
    Unready,
}

fn hint(error: &StartError) -> &'static str {
    match error {
        StartError::Listen { .. } => "; --gateway names another address, port 0 picks a free one",
        StartError::ListenGrpc { .. } => "; --grpc names another address, port 0 picks a free one",
        _ => "",
    }
}

impl From<AppStateError> for DemoError {
    fn from(error: AppStateError) -> Self {
        match error {
            AppStateError::Store(error) => DemoError::Store(error),
            error => DemoError::AppState(error),
        }
    }
}

impl From<DemoError> for Failure {
    fn from(error: DemoError) -> Self {
        let text = error.to_string();
        match error {
            DemoError::Node(_)
            | DemoError::Load(_)
            | DemoError::Part(_)
            | DemoError::Collector(_)
            | DemoError::AdminCertificate(_)
            | DemoError::AdminAcme
            | DemoError::Store(StoreError::Url(_)) => Failure::Configuration(text),
            DemoError::AppState(error) if error.is_configuration() => Failure::Configuration(text),
            DemoError::Start(error) if error.is_configuration() => Failure::Configuration(text),
            _ => Failure::Other(text),
        }
    }
}

impl Prepared {
    /// Locks the folder, binds ports for the simulated nodes and reads the configuration.
    ///
    /// # Errors
    /// [`DemoError`]; then only the folder is left behind.
    pub async fn new(options: &DemoOptions) -> Result<Prepared, DemoError> {
        let chosen = options.nodes.iter().map(ChosenNode::new).collect::<Result<Vec<_>, _>>()?;
        let dir = Dir::open(&options.dir)?;
        // The file of the last start would claim that this one is ready.
        dir.remove(FILE)?;
        let state = DemoState::open(&dir)?;
        let mut listeners = Vec::new();
        for adapter in rpcgate_chains::catalog() {
            let chain = adapter.facts().name.as_str();
            if !chosen::is_replaced(&chosen, chain) && rpcgate_simulate::node(chain, state.seed).is_some() {
                let http = NodeListener::bind().map_err(DemoError::Listen)?;
                let grpc = rpcgate_simulate::grpc_descriptors(chain).map(|_| GrpcNodeListener::bind());
                listeners.push((adapter, http, grpc.transpose().map_err(DemoError::Listen)?));
            }
        }
        let simulated = listeners.iter().map(|(adapter, http, grpc)| {
            let facts = adapter.facts();
            let url = http.url();
            let ws = http.ws_url();
            let grpc = grpc.as_ref().map(GrpcNodeListener::url);
            let chain = facts.name.as_str();
            if facts.https {
                SimulatedNode { chain, url, ws: facts.ws.then_some(ws), grpc }
            } else {
                SimulatedNode { chain, url: ws, ws: None, grpc }
            }
        });
        let settings = Settings::new(options, chosen, &dir, &state, simulated.collect())?;
        certificate::ensure(&dir, options.grpc.ip(), SystemClock::new().now())?;
        let config = settings.read()?;
        if config.admin.tls.acme {
            return Err(DemoError::AdminAcme);
        }
        let step = step_watch::Sender::new("reading what clients submitted");
        let plan = options.plan;
        let echo = options.webhook_echo;
        Ok(Prepared { dir, state, plan, listeners, settings, config, step, echo })
    }

    /// Returns the configuration of the start.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the current step of the start, as the rest of "it is".
    pub fn step(&self) -> step_watch::Receiver<&'static str> {
        self.step.subscribe()
    }

    /// Starts the nodes, the gateway and the management API by the clock of `options`, creates the account if it is
    /// missing, and writes `demo.json` once calls are admitted. A state in `options` is not used: the demo has its own.
    ///
    /// # Errors
    /// [`DemoError`]; nothing is left running then.
    pub async fn start(self, options: StartOptions) -> Result<Demo, DemoError> {
        let Prepared { dir, mut state, plan, listeners, settings, config, step, echo } = self;
        let clock = options.clock.clone();
        let mut nodes = Vec::new();
        let mut grpc_nodes = Vec::new();
        for (adapter, listener, grpc) in listeners {
            let chain = adapter.facts().name.as_str();
            if let Some(mut node) = rpcgate_simulate::node(chain, state.seed) {
                let (submissions, past) = Submissions::open(&dir, chain, state.seed)?;
                node.replay(&past);
                let server =
                    listener.serve_with_submissions(node, submissions, Dial::new(state.seed), clock.clone());
                grpc_nodes.extend(grpc.map(|grpc| server.serve_grpc(chain, grpc)));
                nodes.push(server);
            }
        }
        // Concatenated descriptor sets are one set, because a set is one repeated field.
        let mut all = Vec::new();
        for adapter in rpcgate_chains::catalog() {
            let chain = adapter.facts().name.as_str();
            if let Some(descriptors) = rpcgate_simulate::grpc_descriptors(chain) {
                all.extend_from_slice(descriptors);
                dir.write(&welcome::protoset(chain), descriptors)?;
            }
        }
        dir.write(DESCRIPTORS, all)?;
        let enrolment = Enrolment { config: &config, dir: &dir, state: &mut state, plan, now: clock.now() };
        step.send_replace("making its account");
        let account = enrolment.finish().await?;
        step.send_replace("waiting for its databases");
        let gateway = serve(&config, options).await?;
        step.send_replace("starting the management side");
        // The gateway is ready, so it does not create or migrate the databases that are opened here at the same time.
        let addresses = GatewayAddresses { http: gateway.addr(), grpc: gateway.grpc_addr() };
        let management = match Management::start(&config, addresses, clock).await {
            Ok(management) => management,
            Err(error) => {
                gateway.drain().await;
                return Err(error);
            }
        };
        let echo = match echo {
            None => None,
            Some(listen) => match Echo::start(listen, management.app(), &account, printer()).await {
                Ok(echo) => Some(echo),
                Err(error) => {
                    tokio::join!(gateway.drain(), management.drain());
                    return Err(error);
                }
            },
        };
        let addresses = Addresses {
            gateway: gateway.addr(),
            admin: management.addr(),
            grpc: gateway.grpc_addr(),
            grpc_ca: settings
                .has_own_certificate(&config)
                .then(|| dir.absolute(certificate::AUTHORITY))
                .transpose()?,
        };
        let sheet = Sheet::new(&config, addresses, &account);
        if let Err(error) = sheet.publish(&dir) {
            tokio::join!(gateway.drain(), management.drain());
            return Err(error.into());
        }
        Ok(Demo { gateway, management, echo, sheet, tier: account.tier, settings, nodes, grpc_nodes, dir })
    }
}

/// Prints deliveries on standard error, for the person at the terminal.
fn printer() -> Print {
    // If standard error is closed, there is nowhere left to report it.
    Arc::new(|line| drop(writeln!(io::stderr().lock(), "{line}")))
}

/// Returns the gateway's part of `config`: the gateway would warn that the rest has no effect.
fn of_gateway(config: &Config) -> Config {
    Config { admin: Default::default(), ..config.clone() }
}

async fn serve(config: &Config, options: StartOptions) -> Result<Gateway, DemoError> {
    let state = Arc::new(crate::state::State::open(config, options.clock.clone())?);
    let options = StartOptions { state: Some(state.clone()), ..options };
    let gateway = match Gateway::start(of_gateway(config), options).await {
        Ok(gateway) => gateway,
        Err(error) => {
            state.close().await;
            return Err(error.into());
        }
    };
    if !state.ready().await {
        gateway.drain().await;
        return Err(DemoError::Unready);
    }
    Ok(gateway)
}

impl Demo {
    /// Starts everything, as [`Prepared::new`] and [`Prepared::start`] do.
    ///
    /// # Errors
    /// [`DemoError`]; nothing is left running then.
    pub async fn start(options: &DemoOptions) -> Result<Demo, DemoError> {
        Prepared::new(options).await?.start(StartOptions::default()).await
    }

    /// Returns the address of the gateway.
    pub fn addr(&self) -> SocketAddr {
        self.gateway.addr()
    }

    /// Returns the address of gRPC; `None` if it is not served.
    pub fn grpc(&self) -> Option<SocketAddr> {
        self.gateway.grpc_addr()
    }

    /// Returns the address of the management API.
    pub fn admin(&self) -> SocketAddr {
        self.management.addr()
    }

    /// Returns the gateway.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Returns the status of the nodes that are not simulated.
    pub fn real_nodes(&self) -> Vec<NodeState> {
        let is_simulated = |node: &str| {
            let url = node.strip_suffix('/').unwrap_or(node);
            self.nodes.iter().any(|server| [server.url(), server.ws_url()].contains(&url))
        };
        self.gateway.nodes().into_iter().filter(|state| !is_simulated(&state.node)).collect()
    }

    /// Queries the networks of real nodes. Returns a line for each node that is not of its chain's network.
    pub fn foreign_nodes(&self) -> impl Future<Output = Vec<String>> + Send + use<> {
        let pools = self.gateway.pools_of_any_network();
        async move {
            let mut lines = Vec::new();
            for (adapter, pool) in pools {
                for (node, why) in pool.foreign_nodes(&*adapter).await {
                    let chain = pool.chain();
                    lines.push(format!("/{chain}: the node {node} is of another network: {why}."));
                }
            }
            lines
        }
    }

    /// Returns the path of `demo.json`.
    pub fn file(&self) -> PathBuf {
        self.dir.file(FILE)
    }

    /// Returns lines to paste into a shell, and hints for new users.
    pub fn welcome(&self) -> String {
        let mut text = welcome::text(&self.sheet, self.tier.name(), &self.file());
        if let Some(echo) = &self.echo {
            text += &format!("\nDeliveries of webhooks to {} are printed as they come.\n", echo.url());
        }
        text
    }

    /// Reads the configuration again, including the file, and applies it to the gateway and the management API. Returns
    /// the changed tables and values that need a restart.
    ///
    /// # Errors
    /// [`DemoError`] with the reason; then nothing has changed.
    pub fn reload(&self) -> Result<Vec<&'static str>, DemoError> {
        let config = self.settings.read()?;
        let app = self.management.reload(config.clone())?;
        let mut asleep = self.gateway.reload(of_gateway(&config))?;
        self.management.serve(&app);
        asleep.extend(self.management.asleep(&config));
        Ok(asleep)
    }

    /// Finishes the calls in flight, ships their records to the usage database, then stops the gateway, the management
    /// API and the nodes. `demo.json` stays.
    pub async fn stop(self) -> Drained {
        let (drained, cut) = tokio::join!(self.gateway.drain(), self.management.drain());
        drop((self.nodes, self.grpc_nodes, self.echo));
        Drained { cut: drained.cut + cut }
    }
}
