//! The commands for plans.

use super::figures::FigureArgs;
use super::options::CommandOptions;
use clap::{Args, Subcommand};
use rpcgate_core::plan::{PlanFigure, Tier};

/// The commands for plans.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum PlanCommand {
    /// List the plans as they are in force
    List(PlanListArgs),
    /// Show all figures of a plan
    Show(PlanArgs),
    /// Change figures of a plan; those that are left out stay as they are
    Set(Box<PlanSetArgs>),
    /// Withdraw a change that has not taken effect
    Withdraw(PlanWithdrawArgs),
}

impl PlanCommand {
    /// Returns the shared options.
    pub fn options(&self) -> &CommandOptions {
        match self {
            PlanCommand::List(args) => &args.options,
            PlanCommand::Show(args) => &args.options,
            PlanCommand::Set(args) => &args.one.options,
            PlanCommand::Withdraw(args) => &args.one.options,
        }
    }
}

/// The arguments of `plan list`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct PlanListArgs {
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// A plan.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct PlanArgs {
    /// The plan: free, standard, premium or enterprise
    pub plan: Tier,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// The arguments of `plan set`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
#[group(id = "figures", required = true, multiple = true, args = PlanFigure::NAMES)]
pub struct PlanSetArgs {
    /// The plan.
    #[command(flatten)]
    pub one: PlanArgs,
    /// The time at which they take effect, as in 2027-01-31T12:00:00Z, at most 366 days ahead; now by default
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// The figures.
    #[command(flatten)]
    pub figures: FigureArgs,
}

/// The arguments of `plan withdraw`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct PlanWithdrawArgs {
    /// The plan.
    #[command(flatten)]
    pub one: PlanArgs,
    /// The identifier of the change: see plan show
    pub change: String,
}
