//! The commands for contracts with tenants.

use super::figures::FigureArgs;
use super::options::{CommandOptions, Confirmation};
use super::tenant::TenantArgs;
use clap::{Args, Subcommand};

/// The commands for contracts with tenants.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum ContractCommand {
    /// List the contracts with a tenant, also those that have not begun and those that have ended
    List(TenantArgs),
    /// Show a contract
    Show(ContractArgs),
    /// Create a contract: figures that override those of the tenant's plan
    Create(Box<ContractCreateArgs>),
    /// Change the end of a contract, or remove it
    SetEnd(ContractSetEndArgs),
    /// End a contract now
    End(ContractEndArgs),
}

impl ContractCommand {
    /// Returns the shared options.
    pub fn options(&self) -> &CommandOptions {
        match self {
            ContractCommand::List(args) => &args.options,
            ContractCommand::Show(args) => &args.one.options,
            ContractCommand::Create(args) => &args.one.options,
            ContractCommand::SetEnd(args) => &args.contract.one.options,
            ContractCommand::End(args) => &args.contract.one.options,
        }
    }
}

/// A contract.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct ContractArgs {
    /// The tenant.
    #[command(flatten)]
    pub one: TenantArgs,
    /// The identifier of the contract
    pub contract: String,
}

/// The arguments of `contract create`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct ContractCreateArgs {
    /// The tenant.
    #[command(flatten)]
    pub one: TenantArgs,
    /// The time at which it begins, as in 2027-01-31T12:00:00Z; now by default
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// The time at which it ends, as in 2028-01-31T12:00:00Z; never by default
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// A note, for people
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub note: String,
    /// The figures.
    #[command(flatten)]
    pub figures: FigureArgs,
}

/// The arguments of `contract set-end`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
#[group(id = "end", required = true, multiple = false, args = ["until", "never"])]
pub struct ContractSetEndArgs {
    /// The contract.
    #[command(flatten)]
    pub contract: ContractArgs,
    /// The time at which it ends, as in 2028-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// It has no end
    #[arg(long)]
    pub never: bool,
}

/// The arguments of `contract end`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct ContractEndArgs {
    /// The contract.
    #[command(flatten)]
    pub contract: ContractArgs,
    /// The confirmation option.
    #[command(flatten)]
    pub confirmation: Confirmation,
}
