//! What the binary does when it is called. Only here something is written to standard output.

pub mod check;
pub mod demo;
pub mod run;

use crate::cli::{Cli, Command};
use crate::gateway::StartError;
use rpcgate_core::chain::Facts;
use rpcgate_core::config::{Config, LoadError, Setting, Sources};
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

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
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
pub fn execute(cli: Cli) -> ExitCode {
    let done = match cli.command {
        Command::Check(file) => check::execute(&file.config, &mut io::stdout().lock()),
        Command::Run(file) => runtime().and_then(|runtime| runtime.block_on(run::execute(&file.config))),
        Command::Demo(args) => runtime().and_then(|runtime| runtime.block_on(demo::execute(args.into()))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody is left to hear that nobody can be told.
            let _ = writeln!(io::stderr().lock(), "{failure}");
            ExitCode::from(failure.code())
        }
    }
}

/// As many worker threads as there are cores, or as `TOKIO_WORKER_THREADS` says.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("rpcgate").build()?)
}

/// The configuration in `file`, with `base` below it, the environment above it and `flags` above all.
///
/// # Errors
/// [`LoadError`] with everything that is wrong.
#[expect(clippy::redundant_closure_for_method_calls, reason = "the method itself is not general enough")]
pub fn load(file: Option<&Path>, base: &[Setting], flags: &[Setting]) -> Result<Config, LoadError> {
    with_sources(file, base, flags, |sources| sources.load())
}

/// A failure that begins with a key of the configuration, with the file and line, or the variable, in front of it that
/// gives that key.
pub fn placed(file: Option<&Path>, failure: impl Into<Failure>) -> Failure {
    let place = |text: String| with_sources(file, &[], &[], |sources| sources.placed(&text));
    match failure.into() {
        Failure::Configuration(text) => Failure::Configuration(place(text)),
        Failure::Other(text) => Failure::Other(place(text)),
    }
}

fn with_sources<T>(
    file: Option<&Path>,
    base: &[Setting],
    flags: &[Setting],
    act: impl FnOnce(&Sources<'_>) -> T,
) -> T {
    let env: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let chains: Vec<&Facts> = rpcgate_chains::catalog().map(|adapter| adapter.facts()).collect();
    let name = file.map(Path::to_string_lossy);
    let read = |name: &str| std::fs::read_to_string(name).map_err(|error| error.to_string());
    act(&Sources { file: name.as_deref(), chains: &chains, base, env: &env, flags, read: &read })
}
