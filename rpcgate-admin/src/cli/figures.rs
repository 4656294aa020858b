//! The figures of plans and contracts, as options.

use crate::management::action::operator::plans::price;
use clap::Args;
use rpcgate_core::plan::Price;

/// The limits of a plan and its price.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct LimitArgs {
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

/// The limits of a quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Args)]
pub struct QuotaArgs {
    /// Compute Units of a project in any 24 hours; 0 refuses every call that costs units
    #[arg(long, value_name = "NUMBER")]
    pub cu_per_day: Option<u64>,
    /// Compute Units of a project in a month; recorded, not enforced
    #[arg(long, value_name = "NUMBER")]
    pub cu_per_month: Option<u64>,
    /// Requests per second over all keys of a project
    #[arg(long, value_name = "NUMBER")]
    pub rps_limit: Option<u64>,
}

/// Figures that replace those of a plan.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct FigureArgs {
    /// The limits.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// The default quota of projects.
    #[command(flatten)]
    pub quota: QuotaArgs,
    /// The fee for a month, in cents
    #[arg(long, value_name = "CENTS")]
    pub monthly_fee_cents: Option<u64>,
}

/// Parses a price in US dollars.
fn price_of(text: &str) -> Result<Price, String> {
    let usd = text.parse().map_err(|_| "not a number".to_owned())?;
    price(usd).map_err(|error| error.to_string())
}
