//! The commands for API keys. None takes the text of a key, because every user of a machine can see arguments.

use super::options::{CommandOptions, Confirmation, ListLength};
use super::project::ProjectArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// The commands for API keys.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum KeyCommand {
    /// List keys, also revoked and expired ones
    List(KeyListArgs),
    /// Show a key, without its text
    Show(KeyArgs),
    /// Create a key. Its text is printed only once
    Create(KeyCreateArgs),
    /// Revoke a key for good: gateways refuse it within a second
    Revoke(KeyRevokeArgs),
}

impl KeyCommand {
    /// Returns the shared options.
    pub fn options(&self) -> &CommandOptions {
        match self {
            KeyCommand::List(args) => &args.options,
            KeyCommand::Show(args) => &args.options,
            KeyCommand::Create(args) => &args.one.options,
            KeyCommand::Revoke(args) => &args.one.options,
        }
    }
}

/// The arguments of `key list`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct KeyListArgs {
    /// The project whose keys to list: its identifier or name
    #[arg(long, value_name = "PROJECT")]
    pub project: Option<String>,
    /// The tenant whose keys to list: its identifier or name
    #[arg(long, value_name = "TENANT")]
    pub tenant: Option<String>,
    /// Only keys that can be used: not revoked, and not expired
    #[arg(long)]
    pub usable: bool,
    /// The length of the list.
    #[command(flatten)]
    pub length: ListLength,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// A key.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct KeyArgs {
    /// The key: its identifier, or its first 12 characters
    #[arg(value_name = "ID_OR_PREFIX")]
    pub id: String,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// The arguments of `key create`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct KeyCreateArgs {
    /// The project.
    #[command(flatten)]
    pub one: ProjectArgs,
    /// The description of the key, for people
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub description: String,
    /// The chains that the key may use, separated by commas; all by default
    #[arg(long = "chains", value_name = "CHAINS", value_delimiter = ',')]
    pub chains: Option<Vec<String>>,
    /// The time at which the key expires, as in 2027-01-31T12:00:00Z; never by default
    #[arg(long, value_name = "TIME")]
    pub expires_at: Option<String>,
    /// Write the key into this new file, which only its owner may read, instead of printing it
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// The arguments of `key revoke`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct KeyRevokeArgs {
    /// The key.
    #[command(flatten)]
    pub one: KeyArgs,
    /// The confirmation option.
    #[command(flatten)]
    pub confirmation: Confirmation,
}
