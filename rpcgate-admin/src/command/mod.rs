//! What the binary does when it is called. Only here something is written to standard output.

pub mod check;
mod log;
pub mod migrate;
pub mod operator;
pub mod run;

use crate::cli::{Cli, Command, OperatorCommand};
use crate::house::HouseError;
use crate::store::StoreError;
use rpcgate_core::chain::Facts;
use rpcgate_core::config::{Config, LoadError, Sources};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Why a command ended early. Displayed as one line, or, for a configuration, one line for each fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The configuration cannot be used: exit code 2.
    #[error("{0}")]
    Configuration(String),
    /// Anything else: exit code 1.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// The process's exit code.
    pub const fn code(&self) -> u8 {
        match self {
            Failure::Configuration(_) => 2,
            Failure::Other(_) => 1,
        }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Failure::Configuration(error.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Url(_) => Failure::Configuration(error.to_string()),
            error => Failure::Other(error.to_string()),
        }
    }
}

impl From<HouseError> for Failure {
    fn from(error: HouseError) -> Self {
        if error.is_configuration() {
            Failure::Configuration(error.to_string())
        } else {
            Failure::Other(error.to_string())
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Other(error.to_string())
    }
}

/// Does what `cli` says; the exit code is 0, 2 for a configuration that cannot be used, 1 for anything else.
pub fn execute(cli: &Cli) -> ExitCode {
    let done = match &cli.command {
        Command::Check(file) => check::execute(&file.config, &mut io::stdout().lock()),
        Command::Migrate(file) => {
            runtime().and_then(|runtime| runtime.block_on(migrate::execute(&file.config, &mut io::stdout())))
        }
        Command::Run(args) => {
            runtime().and_then(|runtime| runtime.block_on(run::execute(&args.file.config, &args.roles)))
        }
        Command::Operator { command: OperatorCommand::Create(args) } => runtime().and_then(|runtime| {
            let (mut input, mut out) = (io::stdin().lock(), io::stdout());
            let typed = args.password_stdin.then_some(&mut input as &mut dyn io::BufRead);
            runtime.block_on(operator::create(&args.file.config, &args.email, typed, &mut out))
        }),
    };
    let Err(failure) = done else { return ExitCode::SUCCESS };
    // Nobody is left to hear that nobody can be told.
    let _ = writeln!(io::stderr().lock(), "{failure}");
    ExitCode::from(failure.code())
}

/// As many worker threads as there are cores, or as `TOKIO_WORKER_THREADS` says.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("rpcgate-admin").build()?)
}

/// The configuration in `file` and the environment.
#[expect(clippy::redundant_closure_for_method_calls, reason = "the method itself is not general enough")]
fn configuration(file: &Path) -> Result<Config, LoadError> {
    with_sources(file, |sources| sources.load())
}

/// A failure that begins with a key of the configuration, with the file and line, or the variable, in front of it that
/// gives that key.
fn placed(file: &Path, failure: impl Into<Failure>) -> Failure {
    let place = |text: String| with_sources(file, |sources| sources.placed(&text));
    match failure.into() {
        Failure::Configuration(text) => Failure::Configuration(place(text)),
        Failure::Other(text) => Failure::Other(place(text)),
    }
}

fn with_sources<T>(file: &Path, act: impl FnOnce(&Sources<'_>) -> T) -> T {
    let env: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let chains: Vec<&Facts> = rpcgate_chains::catalog().map(|adapter| adapter.facts()).collect();
    let read = |name: &str| std::fs::read_to_string(name).map_err(|error| error.to_string());
    let name = file.to_string_lossy();
    act(&Sources { file: Some(&name), chains: &chains, base: &[], env: &env, flags: &[], read: &read })
}
