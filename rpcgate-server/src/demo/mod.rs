//! The demo: a gateway, a simulated node for every chain that has no real one, and a key, in one process.
//!
//! Everything that a second start needs is kept in one folder, so that key, ids and blocks stay the same: `state.json`
//! with the seed and the secrets, and a file for each chain on which a client submitted something, so that the
//! transactions, what came of them and what still waits are there again. What a program needs to use the demo stands
//! in `demo.json` there, which is written once everything is ready.

mod chosen;
mod dir;
mod node;
mod settings;
mod sheet;
mod state;
mod submissions;
#[cfg(test)]
mod tests;
mod welcome;

pub use chosen::BadNode;
pub use dir::{Dir, DirError};
pub use node::{NodeServer, Seat};
pub use sheet::FILE;
pub use state::StateError;

use crate::command::Failure;
use crate::command::demo::DemoOptions;
use crate::gateway::{Drained, Gateway, StartError, StartOptions};
use chosen::ChosenNode;
use rpcgate_chains::simulate::{self, Dial};
use rpcgate_core::config::{Config, ConfigErrors, LoadError};
use settings::{Settings, fit_key};
use sheet::Sheet;
use state::State;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use submissions::Submissions;

/// The name of the demo's tenant, project and key in the configuration.
const NAME: &str = "demo";

/// A demo that is about to start: its folder is locked, its configuration read.
#[derive(Debug)]
pub struct Prepared {
    dir: Dir,
    seed: u64,
    seats: Vec<(&'static str, Seat)>,
    settings: Settings,
    config: Config,
}

/// A demo that is ready.
#[derive(Debug)]
pub struct Demo {
    gateway: Gateway,
    sheet: Sheet,
    plan: &'static str,
    settings: Settings,
    nodes: Vec<NodeServer>,
    dir: Dir,
}

/// Why a demo cannot start. Displayed with the option or the file that is to blame.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// Its folder.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// What it kept from its last start.
    #[error(transparent)]
    State(#[from] StateError),
    /// A `--node`.
    #[error(transparent)]
    Node(#[from] BadNode),
    /// The configuration: its own settings, a file, the environment and options together.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A `--node` that the configuration does not take.
    #[error(transparent)]
    Part(#[from] ConfigErrors),
    /// The configuration took the demo's key away.
    #[error("keys.demo: the demo needs a key in the clear")]
    NoKey,
    /// No socket for a simulated node.
    #[error("no port for a simulated node: {0}")]
    Seat(io::Error),
    /// The gateway.
    #[error("{0}{hint}", hint = hint(.0))]
    Start(#[from] StartError),
}

fn hint(error: &StartError) -> &'static str {
    match error {
        StartError::Listen { .. } => "; --gateway names another address, port 0 picks a free one",
        _ => "",
    }
}

impl From<DemoError> for Failure {
    fn from(error: DemoError) -> Self {
        let text = error.to_string();
        match error {
            DemoError::Node(_) | DemoError::Load(_) | DemoError::Part(_) | DemoError::NoKey => {
                Failure::Configuration(text)
            }
            DemoError::Start(error) if error.is_configuration() => Failure::Configuration(text),
            _ => Failure::Other(text),
        }
    }
}

impl Prepared {
    /// Locks the folder, takes ports for the simulated nodes and reads the configuration.
    ///
    /// # Errors
    /// [`DemoError`]; nothing is left behind then but the folder.
    pub async fn new(options: &DemoOptions) -> Result<Prepared, DemoError> {
        let chosen = options.nodes.iter().map(ChosenNode::new).collect::<Result<Vec<_>, _>>()?;
        let dir = Dir::open(&options.dir)?;
        // The last start's would say that this one is ready.
        dir.remove(FILE)?;
        let mut state = State::open(&dir)?;
        let mut seats = Vec::new();
        for adapter in rpcgate_chains::catalog() {
            let chain = adapter.facts().name.as_str();
            if !chosen::is_replaced(&chosen, chain) && simulate::node(chain, state.seed).is_some() {
                seats.push((chain, Seat::take().await.map_err(DemoError::Seat)?));
            }
        }
        let urls: Vec<_> = seats.iter().map(|(chain, seat)| (*chain, seat.url())).collect();
        let mut settings = Settings::new(options, chosen.clone(), &state, &urls);
        let mut config = settings.read()?;
        if fit_key(&mut config, &mut state, &dir)? {
            settings = Settings::new(options, chosen, &state, &urls);
        }
        Ok(Prepared { dir, seed: state.seed, seats, settings, config })
    }

    /// The configuration that it will start with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Starts the nodes and the gateway, all by the clock of `options`, and writes `demo.json`.
    ///
    /// # Errors
    /// [`DemoError`]; nothing is left running then.
    pub async fn start(self, options: StartOptions) -> Result<Demo, DemoError> {
        let Prepared { dir, seed, seats, settings, config } = self;
        let clock = options.clock.clone();
        let mut nodes = Vec::new();
        for (chain, seat) in seats {
            if let Some(mut node) = simulate::node(chain, seed) {
                let (submissions, past) = Submissions::open(&dir, chain, seed)?;
                node.replay(&past);
                nodes.push(seat.serve_kept(node, submissions, Dial::new(seed), clock.clone()));
            }
        }
        let plan = plan(&config).ok_or(DemoError::NoKey)?;
        let gateway = Gateway::start(config.clone(), options).await?;
        let sheet = Sheet::new(&config, gateway.addr(), NAME).ok_or(DemoError::NoKey)?;
        sheet.publish(&dir)?;
        Ok(Demo { gateway, sheet, plan, settings, nodes, dir })
    }
}

/// The plan that the demo's key has in the end.
fn plan(config: &Config) -> Option<&'static str> {
    let project = config.projects.get(&config.keys.get(NAME)?.project)?;
    Some(config.tenants.get(&project.tenant)?.plan.name())
}

impl Demo {
    /// Starts everything, as [`Prepared::new`] and [`Prepared::start`] do.
    ///
    /// # Errors
    /// [`DemoError`]; nothing is left running then.
    pub async fn start(options: &DemoOptions) -> Result<Demo, DemoError> {
        Prepared::new(options).await?.start(StartOptions::default()).await
    }

    /// Where the gateway listens.
    pub fn addr(&self) -> SocketAddr {
        self.gateway.addr()
    }

    /// Its gateway.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Where `demo.json` stands.
    pub fn file(&self) -> PathBuf {
        self.dir.file(FILE)
    }

    /// Lines to paste into a shell, and what else a newcomer should know.
    pub fn welcome(&self) -> String {
        welcome::text(&self.sheet, self.plan, &self.file())
    }

    /// The configuration as it is now, the file read again: for [`Gateway::reload`].
    ///
    /// # Errors
    /// [`DemoError`] with everything that is wrong.
    pub fn read_again(&self) -> Result<Config, DemoError> {
        self.settings.read()
    }

    /// Finishes the calls in flight, then stops the gateway and the nodes. `demo.json` stays.
    pub async fn stop(self) -> Drained {
        let drained = self.gateway.drain().await;
        drop(self.nodes);
        drained
    }
}
