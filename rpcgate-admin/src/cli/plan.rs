//! The commands for plans.

use super::options::CommandOptions;
use crate::management::action::operator::plans::price;
use clap::{Args, Subcommand};
use rpcgate_core::plan::{Price, Tier};

/// The commands for plans.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum PlanCommand {
    /// List the plans as they are in force
    List(PlanListArgs),
    /// Show all limits of a plan
    Show(PlanArgs),
    /// Change limits of a plan; those that are left out stay as they are
    Set(Box<PlanSetArgs>),
}

impl PlanCommand {
    /// The options that every command has.
    pub fn options(&self) -> &CommandOptions {
        match self {
            PlanCommand::List(args) => &args.options,
            PlanCommand::Show(args) => &args.options,
            PlanCommand::Set(args) => &args.one.options,
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
#[group(id = "figures", required = true, multiple = true, args = [
    "per_minute", "per_hour", "per_day", "heavy_per_minute", "price_per_cu", "ws_connections",
    "ws_connections_per_key", "projects", "keys_per_project", "members", "webhooks_per_project",
    "subscriptions_per_webhook",
])]
pub struct PlanSetArgs {
    /// The plan.
    #[command(flatten)]
    pub one: PlanArgs,
    /// Requests a key may make in a UTC minute
    #[arg(long, value_name = "NUMBER")]
    pub per_minute: Option<u64>,
    /// Requests a key may make in a UTC hour
    #[arg(long, value_name = "NUMBER")]
    pub per_hour: Option<u64>,
    /// Requests a key may make in a UTC day
    #[arg(long, value_name = "NUMBER")]
    pub per_day: Option<u64>,
    /// Heavy calls a project may make in a UTC minute, at each gateway
    #[arg(long, value_name = "NUMBER")]
    pub heavy_per_minute: Option<u64>,
    /// Price of a Compute Unit in US dollars
    #[arg(long, value_name = "DOLLARS", value_parser = price_of)]
    pub price_per_cu: Option<Price>,
    /// WebSocket streams a project may have open, at each gateway
    #[arg(long, value_name = "NUMBER")]
    pub ws_connections: Option<u32>,
    /// WebSocket streams a key may have open, at each gateway
    #[arg(long, value_name = "NUMBER")]
    pub ws_connections_per_key: Option<u32>,
    /// Projects of a tenant
    #[arg(long, value_name = "NUMBER")]
    pub projects: Option<u32>,
    /// Usable keys of a project
    #[arg(long, value_name = "NUMBER")]
    pub keys_per_project: Option<u32>,
    /// Members of a tenant
    #[arg(long, value_name = "NUMBER")]
    pub members: Option<u32>,
    /// Webhooks of a project
    #[arg(long, value_name = "NUMBER")]
    pub webhooks_per_project: Option<u32>,
    /// Subscriptions of a webhook
    #[arg(long, value_name = "NUMBER")]
    pub subscriptions_per_webhook: Option<u32>,
}

/// The price in `text`, in US dollars.
fn price_of(text: &str) -> Result<Price, String> {
    let usd = text.parse().map_err(|_| "not a number".to_owned())?;
    price(usd).map_err(|error| error.to_string())
}
