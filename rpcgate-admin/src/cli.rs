//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// The management side of rpcgate.
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(name = "rpcgate-admin", version, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be done.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum Command {
    /// Read and check the configuration, and print what is in force with its secrets masked
    Check(FileArgs),
    /// Bring the schema of the database up to date
    Migrate(FileArgs),
}

/// Where the configuration is.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct FileArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE", env = "RPCGATE_CONFIG")]
    pub config: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn commands_take_a_file() {
        let parse = |line: &str| Cli::try_parse_from(line.split_whitespace());
        let file = FileArgs { config: "a.toml".into() };
        assert_eq!(
            parse("rpcgate-admin check --config a.toml").unwrap().command,
            Command::Check(file.clone())
        );
        assert_eq!(parse("rpcgate-admin migrate --config a.toml").unwrap().command, Command::Migrate(file));
        for wrong in ["rpcgate-admin", "rpcgate-admin serve", "rpcgate-admin check --config"] {
            assert_eq!(parse(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
    }
}
