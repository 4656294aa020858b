//! The command line.

use crate::process::ConfigFile;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// The management side of rpcgate.
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(name = "rpcgate-admin", version, arg_required_else_help = true)]
pub struct AdminCli {
    /// The command.
    #[command(subcommand)]
    pub command: AdminCommand,
}

/// The commands.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum AdminCommand {
    /// Read and check the configuration, and print the effective one with its secrets masked
    Check(ConfigFile),
    /// Bring the schema of the database up to date
    Migrate(ConfigFile),
    /// Serve until stopped: SIGTERM drains, SIGHUP reloads the configuration
    Run(RunArgs),
    /// Manage operators of the service
    Operator {
        /// The command
        #[command(subcommand)]
        command: OperatorCommand,
    },
}

/// The commands for operators.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum OperatorCommand {
    /// Create an operator account
    Create(OperatorArgs),
}

/// The arguments of `run`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct RunArgs {
    /// The configuration file.
    #[command(flatten)]
    pub file: ConfigFile,
    /// The services to run; all implemented ones by default
    #[arg(long = "role", value_name = "ROLES", value_delimiter = ',')]
    pub roles: Vec<Service>,
}

/// A part of the management side that can run on hosts of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Service {
    /// The management API
    Api,
    /// Sends webhooks
    Dispatcher,
    /// Watches chains for events
    Watcher,
    /// Sends mails, and removes expired rows
    Janitor,
}

/// A new operator.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct OperatorArgs {
    /// The configuration file.
    #[command(flatten)]
    pub file: ConfigFile,
    /// The address to log in with
    #[arg(long, value_name = "ADDRESS")]
    pub email: String,
    /// Read the password from the first line of standard input; otherwise one is generated and printed once
    #[arg(long)]
    pub password_stdin: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_openapi_definition_is_valid() {
        AdminCli::command().debug_assert();
    }

    #[test]
    fn commands_take_a_file() {
        let parse = |line: &str| AdminCli::try_parse_from(line.split_whitespace());
        let file = ConfigFile { config: "a.toml".into() };
        assert_eq!(
            parse("rpcgate-admin check --config a.toml").unwrap().command,
            AdminCommand::Check(file.clone())
        );
        assert_eq!(
            parse("rpcgate-admin migrate --config a.toml").unwrap().command,
            AdminCommand::Migrate(file)
        );
        let config = ConfigFile { config: "a.toml".into() };
        assert_eq!(
            parse("rpcgate-admin run --config a.toml --role api,janitor").unwrap().command,
            AdminCommand::Run(RunArgs { file: config.clone(), roles: vec![Service::Api, Service::Janitor] })
        );
        let operator = OperatorArgs { file: config, email: "o@example.com".into(), password_stdin: true };
        assert_eq!(
            parse("rpcgate-admin operator create --email o@example.com --password-stdin --config a.toml")
                .unwrap()
                .command,
            AdminCommand::Operator { command: OperatorCommand::Create(operator) }
        );
        for wrong in [
            "rpcgate-admin",
            "rpcgate-admin serve",
            "rpcgate-admin check --config",
            "rpcgate-admin run --config a.toml --role cook",
            "rpcgate-admin operator create --config a.toml",
        ] {
            assert_eq!(parse(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
    }
}
