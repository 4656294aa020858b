//! The binary of the management side.

use clap::Parser;
use rpcgate_admin::{cli::AdminCli, command};
use std::process::ExitCode;

fn main() -> ExitCode {
    command::execute(&AdminCli::parse())
}
