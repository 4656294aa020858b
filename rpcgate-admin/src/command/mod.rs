//! The commands of the binary. This is the only module that writes to standard output.
//!
//! The commands by which operators manage something translate between the command line and the actions, as the API does
//! between HTTP and the actions. They open the database themselves, so the management service need not run.

pub mod check;
mod command_error;
mod console;
mod contract;
mod custom_plan;
mod export_writer;
mod figures;
mod find;
mod invoice;
mod key;
pub mod migrate;
pub mod operator;
mod plan;
mod printer;
mod project;
pub mod run;
mod tenant;
mod tenant_export;
mod tenant_pages;
mod tenant_usage;
mod time_argument;
pub mod transfer;
mod user;

use crate::cli::{AdminCli, AdminCommand, ManagedCommand, OperatorCommand};
use crate::management::app_state::AppStateError;
use crate::process::{self, Failure};
use crate::store::StoreError;
use command_error::CommandError;
use console::Console;
use rpcgate_core::clock::{Clock, SystemClock};
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

/// Runs the command of `cli`. The exit code is 0, or that of the [`Failure`].
pub fn execute(cli: &AdminCli) -> ExitCode {
    let done = match &cli.command {
        AdminCommand::Managed(command) => {
            return console::run(command.options(), async |console: &mut Console<'_>| {
                manage(console, command).await
            });
        }
        AdminCommand::Check(file) => check::execute(&file.config, &mut io::stdout().lock()),
        AdminCommand::Migrate(file) => on_runtime(migrate::execute(&file.config, &mut io::stdout())),
        AdminCommand::Transfer(args) => {
            let now = SystemClock::new().now();
            on_runtime(transfer::execute(args, now, &mut io::stdout(), &mut io::stderr()))
        }
        AdminCommand::Run(args) => on_runtime(run::execute(&args.file.config, &args.roles)),
        AdminCommand::Operator { command: OperatorCommand::Create(args) } => {
            let (mut input, mut out) = (io::stdin().lock(), io::stdout());
            let typed = args.password_stdin.then_some(&mut input as &mut dyn io::BufRead);
            on_runtime(operator::create(&args.file.config, &args.email, typed, &mut out))
        }
    };
    process::exit(done)
}

/// Runs a command by which operators manage something.
async fn manage(console: &mut Console<'_>, command: &ManagedCommand) -> Result<(), CommandError> {
    match command {
        ManagedCommand::Tenant { command } => tenant::execute(console, command).await,
        ManagedCommand::Project { command } => project::execute(console, command).await,
        ManagedCommand::Key { command } => key::execute(console, command).await,
        ManagedCommand::Plan { command } => plan::execute(console, command).await,
        ManagedCommand::CustomPlan { command } => custom_plan::execute(console, command).await,
        ManagedCommand::Contract { command } => contract::execute(console, command).await,
        ManagedCommand::Invoice { command } => invoice::execute(console, command).await,
        ManagedCommand::User { command } => user::execute(console, command).await,
    }
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
