//! The commands of the binary. This is the only module that writes to standard output.

pub mod check;
pub mod migrate;
pub mod operator;
pub mod run;

use crate::cli::{AdminCli, AdminCommand, OperatorCommand};
use crate::management::app_state::AppStateError;
use crate::process::{self, Failure};
use crate::store::StoreError;
use rpcgate_core::config::{Config, LoadError};
use std::io;
use std::path::Path;
use std::process::ExitCode;

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::new(matches!(error, StoreError::Url(_)), &error)
    }
}

impl From<AppStateError> for Failure {
    fn from(error: AppStateError) -> Self {
        Failure::new(error.is_configuration(), &error)
    }
}

/// Runs the command of `cli`. The exit code is 0, 2 for an unusable configuration, or 1 for any other error.
pub fn execute(cli: &AdminCli) -> ExitCode {
    process::exit(match &cli.command {
        AdminCommand::Check(file) => check::execute(&file.config, &mut io::stdout().lock()),
        AdminCommand::Migrate(file) => on_runtime(migrate::execute(&file.config, &mut io::stdout())),
        AdminCommand::Run(args) => on_runtime(run::execute(&args.file.config, &args.roles)),
        AdminCommand::Operator { command: OperatorCommand::Create(args) } => {
            let (mut input, mut out) = (io::stdin().lock(), io::stdout());
            let typed = args.password_stdin.then_some(&mut input as &mut dyn io::BufRead);
            on_runtime(operator::create(&args.file.config, &args.email, typed, &mut out))
        }
    })
}

fn on_runtime(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    process::runtime("rpcgate-admin")?.block_on(command)
}

/// The configuration in `file` and the environment.
fn configuration(file: &Path) -> Result<Config, LoadError> {
    process::load(Some(file), &[], &[])
}

/// Adds its origin to a failure that begins with a configuration key.
fn with_origin(file: &Path, failure: impl Into<Failure>) -> Failure {
    process::placed(Some(file), failure)
}
