//! Options that several commands share.

use clap::Args;
use rpcgate_process::ConfigFile;

/// The options of every command that opens the database.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct CommandOptions {
    /// The configuration file.
    #[command(flatten)]
    pub file: ConfigFile,
    /// Print JSON, one object on each line, as the management API answers it; errors too, on standard error
    #[arg(long)]
    pub json: bool,
}

/// The option of commands that ask before they act.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Args)]
pub struct Confirmation {
    /// Do not ask for confirmation; needed if standard input is not a terminal
    #[arg(long, short = 'y')]
    pub yes: bool,
}

/// The option of commands that list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Args)]
pub struct ListLength {
    /// List at most this many; all by default
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
}
