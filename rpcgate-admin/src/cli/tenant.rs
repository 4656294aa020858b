//! The commands for tenants.

use super::options::{CommandOptions, Confirmation, ListLength};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// The commands for tenants.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum TenantCommand {
    /// List tenants, approximately in the order of their creation
    List(TenantListArgs),
    /// Show a tenant
    Show(TenantArgs),
    /// Suspend a tenant: its calls are refused with 402 until it is reactivated, and its keys are kept
    Suspend(ConfirmedTenantArgs),
    /// Serve a suspended tenant again
    Reactivate(TenantArgs),
    /// Move a tenant to another plan
    SetPlan(TenantPlanArgs),
    /// Write all data of a tenant into a file, without secrets
    Export(TenantExportArgs),
    /// Delete a tenant for good, with its users, projects, keys and tickets; refused while it owes something
    Delete(ConfirmedTenantArgs),
}

impl TenantCommand {
    /// Returns the shared options.
    pub fn options(&self) -> &CommandOptions {
        match self {
            TenantCommand::List(args) => &args.options,
            TenantCommand::Show(args) | TenantCommand::Reactivate(args) => &args.options,
            TenantCommand::Suspend(args) | TenantCommand::Delete(args) => &args.one.options,
            TenantCommand::Export(args) => &args.one.options,
            TenantCommand::SetPlan(args) => &args.one.options,
        }
    }
}

/// The arguments of `tenant list`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct TenantListArgs {
    /// The plan of the tenants to list: free, standard, premium, enterprise, or the name or identifier of one of your own
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<String>,
    /// The status of the tenants to list
    #[arg(long = "status", value_name = "STATUS",
        value_parser = PossibleValuesParser::new(["active", "suspended"]).map(|status| status == "suspended"))]
    pub suspended: Option<bool>,
    /// The length of the list.
    #[command(flatten)]
    pub length: ListLength,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// A tenant.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct TenantArgs {
    /// The tenant: its identifier, or its name if no other tenant has it
    pub tenant: String,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// The arguments of `tenant suspend` and `tenant delete`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct ConfirmedTenantArgs {
    /// The tenant.
    #[command(flatten)]
    pub one: TenantArgs,
    /// The confirmation option.
    #[command(flatten)]
    pub confirmation: Confirmation,
}

/// The arguments of `tenant export`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct TenantExportArgs {
    /// The tenant.
    #[command(flatten)]
    pub one: TenantArgs,
    /// The file to write: one JSON object on each line. It must not exist yet
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

/// The arguments of `tenant set-plan`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct TenantPlanArgs {
    /// The tenant.
    #[command(flatten)]
    pub one: TenantArgs,
    /// The plan: free, standard, premium, enterprise, or the name or identifier of one of your own
    pub plan: String,
}
