//! Converts the figures of plans and contracts from options and to text.

use crate::cli::figures::{FigureArgs, QuotaArgs};
use crate::management::shape::figures::FiguresJson;
use rpcgate_config::{CountsChange, PlanChange, QuotaChange};
use rpcgate_store::Figures;

pub(super) fn plan_change(FigureArgs { limits: args, quota, monthly_fee_cents }: &FigureArgs) -> PlanChange {
    let QuotaArgs { cu_per_day, cu_per_month, rps_limit } = *quota;
    PlanChange {
        per_minute: args.per_minute,
        per_hour: args.per_hour,
        per_day: args.per_day,
        heavy_per_minute: args.heavy_per_minute,
        price: args.price_per_cu,
        ws_connections: args.ws_connections,
        ws_connections_per_key: args.ws_connections_per_key,
        counts: CountsChange {
            projects: args.projects,
            keys_per_project: args.keys_per_project,
            members: args.members,
            webhooks_per_project: args.webhooks_per_project,
            subscriptions_per_webhook: args.subscriptions_per_webhook,
        },
        quota: QuotaChange { cu_per_day, cu_per_month, rps_limit },
        monthly_fee: *monthly_fee_cents,
    }
}

pub(super) fn figures(args: &FigureArgs) -> Figures {
    plan_change(args).into()
}

/// Lists the figures that are set, one per line.
pub(super) fn lines(figures: &FiguresJson) -> String {
    let Ok(figures) = figures.clone().figures() else { return String::new() };
    let set = figures.list().into_iter().filter(|figure| figure.value.is_some());
    set.map(|figure| figure.to_string()).collect::<Vec<_>>().join("\n")
}
