//! The commands for the accounts of users.

use super::options::{CommandOptions, Confirmation, ListLength};
use clap::{Args, Subcommand};

/// The commands for the accounts of users.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum UserCommand {
    /// List users of all tenants, and operators
    List(UserListArgs),
    /// Show a user
    Show(UserArgs),
    /// End the locks that wrong passwords and second factors caused
    Unlock(UserArgs),
    /// Remove the password of a user and mail a link that sets another one
    Reset(UserChangeArgs),
    /// Remove the second factors of a user who has lost them
    ResetFactors(UserResetFactorsArgs),
    /// Disable a user: sessions end, and log-ins are refused
    Disable(UserChangeArgs),
    /// Enable a disabled user
    Enable(UserArgs),
}

impl UserCommand {
    /// Returns the shared options.
    pub fn options(&self) -> &CommandOptions {
        match self {
            UserCommand::List(args) => &args.options,
            UserCommand::Show(args) | UserCommand::Unlock(args) | UserCommand::Enable(args) => &args.options,
            UserCommand::Reset(args) | UserCommand::Disable(args) => &args.one.options,
            UserCommand::ResetFactors(args) => &args.change.one.options,
        }
    }
}

/// The arguments of `user list`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct UserListArgs {
    /// The tenant whose users to list: its identifier or name
    #[arg(long, value_name = "TENANT")]
    pub tenant: Option<String>,
    /// The length of the list.
    #[command(flatten)]
    pub length: ListLength,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// A user.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct UserArgs {
    /// The user: the identifier or the e-mail address
    pub user: String,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// The arguments of a command that asks for confirmation.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct UserChangeArgs {
    /// The user.
    #[command(flatten)]
    pub one: UserArgs,
    /// The confirmation option.
    #[command(flatten)]
    pub confirmation: Confirmation,
}

/// The arguments of `user reset-factors`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct UserResetFactorsArgs {
    /// The user.
    #[command(flatten)]
    pub change: UserChangeArgs,
    /// The reason, which is sent to the user
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
}
