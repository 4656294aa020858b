//! What the binary does when it is called. Only here something is written to standard output.

pub mod check;

use crate::cli::{Cli, Command};
use check::Failure;
use std::io::{self, Write};
use std::process::ExitCode;

/// Does what `cli` says; the exit code is 0, 2 for a configuration that cannot be used, 1 for anything else.
pub fn execute(cli: &Cli) -> ExitCode {
    let done = match &cli.command {
        Command::Check(file) => check::execute(&file.config, &mut io::stdout().lock()),
    };
    let Err(failure) = done else { return ExitCode::SUCCESS };
    // Nobody is left to hear that nobody can be told.
    let _ = writeln!(io::stderr().lock(), "{failure}");
    ExitCode::from(match failure {
        Failure::Configuration(_) => 2,
        Failure::Output(_) => 1,
    })
}
