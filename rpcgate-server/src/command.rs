//! The commands of the binary. Only they write to standard output.

pub mod check;
#[cfg(feature = "demo")]
pub mod demo;
#[cfg(not(feature = "demo"))]
#[path = "command/without_demo.rs"]
pub mod demo;
pub mod health;
pub mod import;
pub mod run;

use crate::cli::{ServerCli, ServerCommand};
use crate::start_error::StartError;
use clap::CommandFactory;
use rpcgate_process::command_docs::{write_completions, write_manual};
use rpcgate_process::{CommandOutput, Failure};
use rpcgate_store::ReloadPlan;
use std::io;
use std::process::ExitCode;

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Failure::new(error.is_configuration(), &error)
    }
}

/// Executes the command. The exit code is 0 for success, 2 for an unusable configuration and 1 for any other failure.
pub fn execute(cli: ServerCli) -> ExitCode {
    rpcgate_process::exit(match cli.command {
        ServerCommand::Check(args) if args.against.is_some() => {
            let mut out = CommandOutput::stdout();
            let plan = on_runtime(check::against(&args.file.config, &mut out));
            return rpcgate_process::exit_with_code(plan.map(ReloadPlan::code));
        }
        ServerCommand::Check(args) => {
            check::execute(&args.file.config, &mut CommandOutput::stdout(), &mut io::stderr().lock())
        }
        ServerCommand::Import(args) => {
            import::execute(&args, &mut CommandOutput::stdout(), &mut io::stderr().lock())
        }
        ServerCommand::Run(file) => on_runtime(run::execute(&file.config)),
        ServerCommand::Demo(args) => on_runtime(demo::execute(args.into())),
        ServerCommand::Health(args) => on_runtime(health::execute(&args)),
        ServerCommand::Completions(args) => {
            write_completions(ServerCli::command(), args.shell, &mut CommandOutput::stdout())
        }
        ServerCommand::Man(args) => write_manual(ServerCli::command(), &args.dir),
    })
}

fn on_runtime<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    rpcgate_process::runtime("rpcgate")?.block_on(command)
}
