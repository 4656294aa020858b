//! The commands for custom plans of operators.

use super::figures::FigureArgs;
use super::options::{CommandOptions, Confirmation};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use rpcgate_core::plan::Tier;

/// The commands for custom plans of operators.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum CustomPlanCommand {
    /// List the custom plans, the oldest first
    List(CustomPlanListArgs),
    /// Show a plan
    Show(CustomPlanArgs),
    /// Create a plan
    Create(Box<CustomPlanCreateArgs>),
    /// Change a plan. Figures that are given replace all former ones
    Set(Box<CustomPlanSetArgs>),
    /// Delete a plan that no tenant is on
    Delete(CustomPlanDeleteArgs),
}

impl CustomPlanCommand {
    /// Returns the shared options.
    pub fn options(&self) -> &CommandOptions {
        match self {
            CustomPlanCommand::List(args) => &args.options,
            CustomPlanCommand::Show(args) => &args.options,
            CustomPlanCommand::Create(args) => &args.options,
            CustomPlanCommand::Set(args) => &args.one.options,
            CustomPlanCommand::Delete(args) => &args.one.options,
        }
    }
}

/// The arguments of `custom-plan list`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct CustomPlanListArgs {
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// A custom plan of an operator.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct CustomPlanArgs {
    /// The plan: its identifier or its name
    pub plan: String,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// The arguments of `custom-plan create`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct CustomPlanCreateArgs {
    /// The name: lower-case letters, digits and hyphens
    pub name: String,
    /// The built-in plan whose figures apply unless they are overridden
    #[arg(long, value_name = "PLAN")]
    pub base: Tier,
    /// List it to all tenants, not only to those that are on it
    #[arg(long)]
    pub visible: bool,
    /// The figures.
    #[command(flatten)]
    pub figures: FigureArgs,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// The arguments of `custom-plan set`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct CustomPlanSetArgs {
    /// The plan.
    #[command(flatten)]
    pub one: CustomPlanArgs,
    /// Its new name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The visibility of the plan: to all tenants, or only to those that are on it
    #[arg(long, value_name = "VISIBILITY",
        value_parser = PossibleValuesParser::new(["visible", "by-invitation"]).map(|seen| seen == "visible"))]
    pub visibility: Option<bool>,
    /// The figures.
    #[command(flatten)]
    pub figures: FigureArgs,
}

/// The arguments of `custom-plan delete`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct CustomPlanDeleteArgs {
    /// The plan.
    #[command(flatten)]
    pub one: CustomPlanArgs,
    /// The confirmation option.
    #[command(flatten)]
    pub confirmation: Confirmation,
}
