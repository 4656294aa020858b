//! The commands of the binary. Only they write to standard output.

pub mod check;
#[cfg(feature = "demo")]
pub mod demo;
#[cfg(not(feature = "demo"))]
#[path = "without_demo.rs"]
pub mod demo;
pub mod import;
pub mod run;

use crate::cli::{ServerCli, ServerCommand};
use crate::start_error::StartError;
use rpcgate_admin::process::{self, Failure};
use std::io;
use std::process::ExitCode;

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Failure::new(error.is_configuration(), &error)
    }
}

/// Executes the command. The exit code is 0, 2 for a configuration that cannot be used, 1 for anything else.
pub fn execute(cli: ServerCli) -> ExitCode {
    process::exit(match cli.command {
        ServerCommand::Check(file) => check::execute(&file.config, &mut io::stdout().lock()),
        ServerCommand::Import(args) => {
            import::execute(&args, &mut io::stdout().lock(), &mut io::stderr().lock())
        }
        ServerCommand::Run(file) => on_runtime(run::execute(&file.config)),
        ServerCommand::Demo(args) => on_runtime(demo::execute(args.into())),
    })
}

fn on_runtime(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    process::runtime("rpcgate")?.block_on(command)
}
