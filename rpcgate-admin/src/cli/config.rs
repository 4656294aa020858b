//! The commands for former configurations.

use super::options::{CommandOptions, Confirmation, ListLength};
use clap::{Args, Subcommand, ValueEnum};
use rpcgate_config::ConfigProgram;
use std::path::PathBuf;

/// The commands for former configurations and former operators' settings.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum ConfigCommand {
    /// List versions, the newest first: of the settings of operators, and of the configurations of programs
    History(ConfigHistoryArgs),
    /// Show a version with all its settings, without secrets
    Show(ConfigShowArgs),
    /// Show what changed between two versions, or compare one with a file or the running configuration
    Diff(ConfigDiffArgs),
    /// Restore the settings of operators from a version; or write the configuration of a program to a file
    Rollback(ConfigRollbackArgs),
}

impl ConfigCommand {
    /// Returns the shared options.
    pub fn options(&self) -> &CommandOptions {
        match self {
            ConfigCommand::History(args) => &args.options,
            ConfigCommand::Show(args) => &args.options,
            ConfigCommand::Diff(args) => &args.options,
            ConfigCommand::Rollback(args) => &args.options,
        }
    }
}

/// The subject of a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum VersionSource {
    /// Plans, weights, switches of chains and custom plans, which operators set
    Settings,
    /// Contracts and quotas, which operators have agreed with a tenant
    Tenant,
    /// The configuration of a gateway
    Gateway,
    /// The configuration of the management side
    Management,
}

impl VersionSource {
    /// Returns the name in stored versions.
    pub const fn name(self) -> &'static str {
        match self {
            VersionSource::Settings => "settings",
            VersionSource::Tenant => "tenant",
            VersionSource::Gateway => "gateway",
            VersionSource::Management => "management",
        }
    }
}

/// The arguments of `config history`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct ConfigHistoryArgs {
    /// List only versions about this
    #[arg(long, value_name = "WHAT")]
    pub of: Option<VersionSource>,
    /// List only versions of this gateway, tenant or file, as the list names it
    #[arg(long, value_name = "PLACE")]
    pub place: Option<String>,
    /// List only versions of programs on this machine
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// The length of the list.
    #[command(flatten)]
    pub length: ListLength,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// The arguments of `config show`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct ConfigShowArgs {
    /// The number of the version
    pub version: u64,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// The program whose configuration is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ComparedProgram {
    /// A gateway, rpcgate-server
    Gateway,
    /// The management side, rpcgate-admin
    Management,
}

impl From<ComparedProgram> for ConfigProgram {
    fn from(program: ComparedProgram) -> Self {
        match program {
            ComparedProgram::Gateway => ConfigProgram::Gateway,
            ComparedProgram::Management => ConfigProgram::Management,
        }
    }
}

/// The arguments of `config diff`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct ConfigDiffArgs {
    /// A version's number, `running`, or a configuration file; a number alone is compared with the version before it
    pub a: String,
    /// A version's number, `running`, or a configuration file
    pub b: Option<String>,
    /// The program on this machine whose running configuration a file is compared with
    #[arg(long, value_name = "PROGRAM", default_value = "management")]
    pub program: ComparedProgram,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// The arguments of `config rollback`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct ConfigRollbackArgs {
    /// The number of the version
    pub version: u64,
    /// Write the version to this new file, with `***` instead of each secret; nothing else is changed
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The confirmation option.
    #[command(flatten)]
    pub confirmation: Confirmation,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}
