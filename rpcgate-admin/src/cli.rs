//! The definition of the command line, with one file per resource that operators manage.

pub mod cache;
pub mod config;
pub mod contract;
pub mod custom_plan;
pub mod doctor;
pub mod figures;
pub mod invoice;
pub mod key;
pub mod node;
pub mod options;
pub mod plan;
pub mod project;
pub mod tenant;
pub mod transfer;
pub mod user;

use clap::{Args, Parser, Subcommand, ValueEnum};
use options::CommandOptions;
use rpcgate_process::{CheckArgs, CompletionArgs, ConfigFile, HealthArgs, ManualArgs};

/// The end of the `--help` text.
const AFTER_HELP: &str = "\
Exit codes: 0 done; 1 any other error; 2 the configuration or an argument cannot be used, or a name \
belongs to several; 3 not found; 4 refused by a rule; 5 the database cannot be reached now; 6 a check of doctor has failed.

No argument takes a secret: the configuration names the file or the variable of each.";

/// The management side of rpcgate.
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(name = "rpcgate-admin", version, arg_required_else_help = true, after_help = AFTER_HELP)]
pub struct AdminCli {
    /// The command.
    #[command(subcommand)]
    pub command: AdminCommand,
}

/// The commands.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum AdminCommand {
    /// Check the configuration and print the effective one with its secrets masked; or compare it with the running one
    Check(CheckArgs),
    /// Check everything that the service depends on, and say what to do; changes nothing
    #[command(after_help = AFTER_HELP)]
    Doctor(doctor::DoctorArgs),
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
    /// Check the health of the management API on this host; exit code 1 if it is unhealthy
    Health(HealthArgs),
    /// Print completions for a shell
    Completions(CompletionArgs),
    /// Write manual pages into a folder
    Man(ManualArgs),
    /// Move all data from one database to another, as from SQLite to PostgreSQL or back
    #[command(after_help = AFTER_HELP)]
    Transfer(transfer::TransferArgs),
    /// Manage something.
    #[command(flatten)]
    Managed(ManagedCommand),
}

/// The commands for managing resources. Each opens the database.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum ManagedCommand {
    /// Manage tenants: their status and their plan
    #[command(after_help = AFTER_HELP)]
    Tenant {
        /// The command
        #[command(subcommand)]
        command: tenant::TenantCommand,
    },
    /// Manage projects and their quotas
    #[command(after_help = AFTER_HELP)]
    Project {
        /// The command
        #[command(subcommand)]
        command: project::ProjectCommand,
    },
    /// Manage API keys
    #[command(after_help = AFTER_HELP)]
    Key {
        /// The command
        #[command(subcommand)]
        command: key::KeyCommand,
    },
    /// Show nodes as the gateways see them, and drain them
    #[command(after_help = AFTER_HELP)]
    Node {
        /// The command
        #[command(subcommand)]
        command: node::NodeCommand,
    },
    /// Empty the cache of a chain at every gateway
    #[command(after_help = AFTER_HELP)]
    Cache {
        /// The command
        #[command(subcommand)]
        command: cache::CacheCommand,
    },
    /// Manage the limits of plans
    #[command(after_help = AFTER_HELP)]
    Plan {
        /// The command
        #[command(subcommand)]
        command: plan::PlanCommand,
    },
    /// Manage custom plans, in addition to the four built-in ones
    #[command(after_help = AFTER_HELP)]
    CustomPlan {
        /// The command
        #[command(subcommand)]
        command: custom_plan::CustomPlanCommand,
    },
    /// Manage contracts: figures that override those of a tenant's plan
    #[command(after_help = AFTER_HELP)]
    Contract {
        /// The command
        #[command(subcommand)]
        command: contract::ContractCommand,
    },
    /// Manage invoices
    #[command(after_help = AFTER_HELP)]
    Invoice {
        /// The command
        #[command(subcommand)]
        command: invoice::InvoiceCommand,
    },
    /// Explain a request to a gateway: what decided its answer
    #[command(after_help = AFTER_HELP)]
    Explain(doctor::ExplainArgs),
    /// Manage the accounts of users
    #[command(after_help = AFTER_HELP)]
    User {
        /// The command
        #[command(subcommand)]
        command: user::UserCommand,
    },
    /// Read former configurations and settings of operators, and return to one
    #[command(after_help = AFTER_HELP)]
    Config {
        /// The command
        #[command(subcommand)]
        command: config::ConfigCommand,
    },
}

impl ManagedCommand {
    /// Returns the shared options.
    pub fn options(&self) -> &CommandOptions {
        match self {
            ManagedCommand::Tenant { command } => command.options(),
            ManagedCommand::Project { command } => command.options(),
            ManagedCommand::Key { command } => command.options(),
            ManagedCommand::Node { command } => command.options(),
            ManagedCommand::Cache { command } => command.options(),
            ManagedCommand::Plan { command } => command.options(),
            ManagedCommand::CustomPlan { command } => command.options(),
            ManagedCommand::Contract { command } => command.options(),
            ManagedCommand::Invoice { command } => command.options(),
            ManagedCommand::Explain(args) => &args.options,
            ManagedCommand::User { command } => command.options(),
            ManagedCommand::Config { command } => command.options(),
        }
    }
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
    /// The services to run; all by default
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
    fn the_definition_is_valid() {
        AdminCli::command().debug_assert();
    }

    /// Returns every argument of every command with the path of the command.
    fn arguments() -> Vec<(String, clap::Arg)> {
        fn collect(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Arg)>) {
            let path = format!("{path} {}", command.get_name());
            found.extend(command.get_arguments().map(|argument| (path.clone(), argument.clone())));
            for command in command.get_subcommands() {
                collect(command, &path, found);
            }
        }
        let mut found = Vec::new();
        collect(&AdminCli::command(), "", &mut found);
        found
    }

    // Shows (Commands and configuration): No argument takes a secret; a new key is printed once, or written into a new
    // file of mode 0600.
    #[test]
    fn no_argument_takes_a_secret() {
        let all = arguments();
        assert!(all.len() > 100, "{}", all.len());
        for (path, argument) in all {
            let id = argument.get_id().as_str();
            let names =
                format!("{id} {}", argument.get_value_names().unwrap_or_default().join(" ")).to_lowercase();
            let is_secret =
                ["password", "secret", "token", "credential"].iter().any(|word| names.contains(word));
            let takes_value = argument.get_action().takes_values();
            assert!(!(is_secret && takes_value), "{path}: {names}");
            assert!(argument.get_env().is_none_or(|name| name == "RPCGATE_CONFIG"), "{path}: {names}");
        }
    }

    #[test]
    fn every_command_that_opens_the_database_takes_a_file_and_explains_its_arguments() {
        let all = arguments();
        for (path, argument) in &all {
            assert!(argument.get_help().is_some(), "{path}: {}", argument.get_id());
        }
        for resource in [
            "tenant",
            "project",
            "key",
            "node",
            "plan",
            "custom-plan",
            "contract",
            "invoice",
            "user",
            "config",
        ] {
            let of = |id: &str| {
                let start = format!(" rpcgate-admin {resource} ");
                all.iter()
                    .filter(|(path, argument)| path.starts_with(&start) && argument.get_id() == id)
                    .count()
            };
            assert!(of("config") >= 3 && of("config") == of("json"), "{resource}");
        }
    }

    // Shows (Commands and configuration).
    #[test]
    fn wrong_arguments_of_operators_are_refused_as_usage() {
        let exit_code = |line: &str| {
            let line = format!("rpcgate-admin {line} --config a.toml");
            AdminCli::try_parse_from(line.split_whitespace()).map_err(|error| error.exit_code())
        };
        for line in [
            "tenant list --status active --plan free --limit 5 --json",
            "tenant set-plan bank premium",
            "project set-quota one --tenant bank --rps-limit 3",
            "key list --project one --usable",
            "key create one --description x --chains eth,bitcoin --expires-at 2027-01-31T12:00:00Z --out key.txt",
            "plan set free --price-per-cu 0.001 --members 0",
            "node drain eth http://10.0.0.1:8545 --force",
            "cache clear --chain eth",
            "invoice list --month 2026-12 --status overdue",
            "invoice credit 2026-000001 --cents 5 --reason x --yes",
            "user reset ada@example.com -y",
            "config history --of settings --limit 3 --json",
            "config diff 41 running",
            "config diff running other.toml --program gateway",
            "config rollback 38 --out former.toml --yes",
            "doctor --json",
            "explain 0199a3c4-5d11-7c2e-9a53-0f8f6a0c2d11",
        ] {
            assert!(exit_code(line).is_ok(), "{line}");
        }
        for line in [
            "tenant list --status closed",
            "tenant list --limit 0",
            "tenant suspend",
            "project set-quota one",
            "project set-quota one --cu-per-day -1",
            "plan set free",
            "node drain eth",
            "cache clear",
            "contract set-end bank x",
            "contract set-end bank x --never --until 2027-01-31T12:00:00Z",
            "custom-plan create startup",
            "user reset-factors ada@example.com",
            "plan set free --price-per-cu 1001",
            "plan set free --price-per-cu much",
            "invoice list --month 2026-13",
            "invoice credit 2026-000001 --cents 5",
            "key create one --key rpcg_0123456",
            "config diff",
            "config history --of plans",
            "config rollback x",
            "doctor now",
            "explain",
        ] {
            assert_eq!(exit_code(line), Err(2), "{line}");
        }
    }

    #[test]
    fn commands_take_a_file() {
        let parse = |line: &str| AdminCli::try_parse_from(line.split_whitespace());
        let file = ConfigFile { config: "a.toml".into() };
        assert_eq!(
            parse("rpcgate-admin check --config a.toml").unwrap().command,
            AdminCommand::Check(CheckArgs { file: file.clone(), against: None })
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
        let health = HealthArgs { file: ConfigFile { config: "a.toml".into() }, ready: true };
        assert_eq!(
            parse("rpcgate-admin health --ready --config a.toml").unwrap().command,
            AdminCommand::Health(health)
        );
        assert!(parse("rpcgate-admin completions zsh").is_ok() && parse("rpcgate-admin man d").is_ok());
        for wrong in [
            "rpcgate-admin",
            "rpcgate-admin completions",
            "rpcgate-admin man",
            "rpcgate-admin serve",
            "rpcgate-admin check --config",
            "rpcgate-admin run --config a.toml --role cook",
            "rpcgate-admin operator create --config a.toml",
        ] {
            assert_eq!(parse(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
    }
}
