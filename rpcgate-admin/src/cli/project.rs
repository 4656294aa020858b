//! The commands for projects.

use super::figures::QuotaArgs;
use super::options::{CommandOptions, Confirmation, ListLength};
use clap::{Args, Subcommand};

/// The commands for projects.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum ProjectCommand {
    /// List projects, of one tenant or of all
    List(ProjectListArgs),
    /// Show a project and its quota
    Show(ProjectArgs),
    /// Set the quota of a project; limits that are left out get their defaults
    SetQuota(ProjectQuotaArgs),
    /// Remove the quota of a project, so that the default holds again
    ClearQuota(ProjectClearArgs),
}

impl ProjectCommand {
    /// Returns the shared options.
    pub fn options(&self) -> &CommandOptions {
        match self {
            ProjectCommand::List(args) => &args.options,
            ProjectCommand::Show(args) => &args.options,
            ProjectCommand::SetQuota(args) => &args.one.options,
            ProjectCommand::ClearQuota(args) => &args.one.options,
        }
    }
}

/// The arguments of `project list`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct ProjectListArgs {
    /// The tenant whose projects to list: its identifier or name
    #[arg(long, value_name = "TENANT")]
    pub tenant: Option<String>,
    /// The length of the list.
    #[command(flatten)]
    pub length: ListLength,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// A project.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct ProjectArgs {
    /// The project: its identifier, or its name if no other project has it
    pub project: String,
    /// The tenant of the project, if projects of several tenants have the name
    #[arg(long, value_name = "TENANT")]
    pub tenant: Option<String>,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// The arguments of `project set-quota`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
#[group(id = "limits", required = true, multiple = true, args = ["cu_per_day", "cu_per_month", "rps_limit"])]
pub struct ProjectQuotaArgs {
    /// The project.
    #[command(flatten)]
    pub one: ProjectArgs,
    /// The limits.
    #[command(flatten)]
    pub quota: QuotaArgs,
}

/// The arguments of `project clear-quota`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct ProjectClearArgs {
    /// The project.
    #[command(flatten)]
    pub one: ProjectArgs,
    /// The confirmation option.
    #[command(flatten)]
    pub confirmation: Confirmation,
}
