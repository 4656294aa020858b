//! The commands of the binary. Only this module writes to standard output.
//!
//! The operators' commands translate between the command line and the actions, as the API does between HTTP and the
//! actions. They open the database themselves, so the management service need not run.

mod cache;
pub mod check;
mod command_error;
mod config;
mod console;
mod contract;
mod custom_plan;
mod doctor;
mod explain;
mod export_writer;
mod find;
pub mod health;
mod invoice;
mod key;
pub mod migrate;
mod node;
pub mod operator;
mod out_file;
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
use clap::CommandFactory;
use command_error::CommandError;
use console::Console;
use rpcgate_config::{Config, LoadError};
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_process::command_docs::{write_completions, write_manual};
use rpcgate_process::{CommandOutput, Failure};
use rpcgate_store::{ReloadPlan, StoreError};
use std::io;
use std::path::Path;
use std::process::ExitCode;

#[expect(clippy::needless_pass_by_value, reason = "`map_err` passes it by value")]
fn store_failure(error: StoreError) -> Failure {
    Failure::new(matches!(error, StoreError::Url(_)), &error)
}

/// Runs the command of `cli`. The exit code is 0, or that of the [`Failure`].
pub fn execute(cli: &AdminCli) -> ExitCode {
    let done = match &cli.command {
        AdminCommand::Managed(command) => {
            return console::run(command.options(), async |console: &mut Console<'_>| {
                manage(console, command).await
            });
        }
        AdminCommand::Doctor(args) => return doctor::execute(args),
        AdminCommand::Check(args) if args.against.is_some() => {
            let mut out = CommandOutput::stdout();
            let plan = on_runtime(check::against(&args.file.config, &mut out));
            return rpcgate_process::exit_with_code(plan.map(ReloadPlan::code));
        }
        AdminCommand::Check(args) => {
            check::execute(&args.file.config, &mut CommandOutput::stdout(), &mut io::stderr().lock())
        }
        AdminCommand::Migrate(file) => {
            on_runtime(migrate::execute(&file.config, &mut CommandOutput::stdout()))
        }
        AdminCommand::Transfer(args) => {
            let now = SystemClock::new().now();
            on_runtime(transfer::execute(args, now, &mut CommandOutput::stdout(), &mut io::stderr()))
        }
        AdminCommand::Run(args) => on_runtime(run::execute(&args.file.config, &args.roles)),
        AdminCommand::Operator { command: OperatorCommand::Create(args) } => {
            let mut input = io::stdin().lock();
            let mut out = CommandOutput::stdout();
            let typed = args.password_stdin.then_some(&mut input as &mut dyn io::BufRead);
            on_runtime(operator::create(&args.file.config, &args.email, typed, &mut out))
        }
        AdminCommand::Health(args) => on_runtime(health::execute(args)),
        AdminCommand::Completions(args) => {
            write_completions(AdminCli::command(), args.shell, &mut CommandOutput::stdout())
        }
        AdminCommand::Man(args) => write_manual(AdminCli::command(), &args.dir),
    };
    rpcgate_process::exit(done)
}

async fn manage(console: &mut Console<'_>, command: &ManagedCommand) -> Result<(), CommandError> {
    match command {
        ManagedCommand::Tenant { command } => tenant::execute(console, command).await,
        ManagedCommand::Project { command } => project::execute(console, command).await,
        ManagedCommand::Key { command } => key::execute(console, command).await,
        ManagedCommand::Node { command } => node::execute(console, command).await,
        ManagedCommand::Cache { command } => cache::execute(console, command).await,
        ManagedCommand::Plan { command } => plan::execute(console, command).await,
        ManagedCommand::CustomPlan { command } => custom_plan::execute(console, command).await,
        ManagedCommand::Contract { command } => contract::execute(console, command).await,
        ManagedCommand::Invoice { command } => invoice::execute(console, command).await,
        ManagedCommand::Explain(args) => explain::execute(console, args).await,
        ManagedCommand::User { command } => user::execute(console, command).await,
        ManagedCommand::Config { command } => config::execute(console, command).await,
    }
}

fn on_runtime<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    rpcgate_process::runtime("rpcgate-admin")?.block_on(command)
}

fn configuration(file: &Path) -> Result<Config, LoadError> {
    rpcgate_process::load(Some(file), &[], &[])
}

/// Adds the origin of the setting to a failure that starts with a configuration key.
fn with_origin(file: &Path, failure: impl Into<Failure>) -> Failure {
    rpcgate_process::placed(Some(file), failure)
}
