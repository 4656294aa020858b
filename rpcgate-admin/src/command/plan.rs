//! `rpcgate-admin plan`: the figures of plans.

use super::command_error::CommandError;
use super::console::Console;
use super::figures::plan_change;
use super::printer::{Printable, or_dash};
use super::time_argument::time;
use crate::cli::plan::PlanCommand;
use crate::management::action::operator::plans;
use crate::management::shape::operator::plans::{PlanFigures, ScheduledChangeJson};
use rpcgate_core::plan::Tier;
use rpcgate_store::Figures;

impl Printable for PlanFigures {
    const COLUMNS: &'static [(&'static str, usize)] = &[
        ("PLAN", 10),
        ("PER MINUTE", 13),
        ("PER HOUR", 13),
        ("PER DAY", 13),
        ("HEAVY", 13),
        ("USD PER CU", 0),
    ];

    fn cells(&self) -> Vec<String> {
        let windows = [self.per_minute, self.per_hour, self.per_day, self.heavy_per_minute];
        let mut cells = vec![self.tier.to_string()];
        cells.extend(windows.map(|limit| limit.to_string()));
        cells.push(self.price_per_cu.to_string());
        cells
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("plan", self.tier.to_string()),
            ("requests per minute", self.per_minute.to_string()),
            ("requests per hour", self.per_hour.to_string()),
            ("requests per day", self.per_day.to_string()),
            ("heavy calls per minute", self.heavy_per_minute.to_string()),
            ("US dollars per CU", self.price_per_cu.to_string()),
            ("streams per project", self.ws_connections.to_string()),
            ("streams per key", self.ws_connections_per_key.to_string()),
            ("projects", self.projects.to_string()),
            ("keys per project", self.keys_per_project.to_string()),
            ("members", self.members.to_string()),
            ("webhooks per project", self.webhooks_per_project.to_string()),
            ("subscriptions per webhook", self.subscriptions_per_webhook.to_string()),
            ("cu per day", self.cu_per_day.to_string()),
            ("cu per month", or_dash(self.cu_per_month)),
            ("requests per second", or_dash(self.rps_limit)),
            ("monthly fee in cents", self.monthly_fee_cents.to_string()),
            ("later changes", self.scheduled.iter().map(later).collect::<Vec<_>>().join("\n")),
        ]
    }
}

fn later(change: &ScheduledChangeJson) -> String {
    let figures = change.figures.clone().change().map(Figures::from).unwrap_or_default().list();
    let figures = figures.iter().filter(|figure| figure.value.is_some()).map(ToString::to_string);
    format!("{} from {}: {}", change.id, change.from, figures.collect::<Vec<_>>().join(", "))
}

pub(super) async fn execute(console: &mut Console<'_>, command: &PlanCommand) -> Result<(), CommandError> {
    let plan = match command {
        PlanCommand::List(_) => {
            for tier in Tier::ALL {
                let plan = plans::get(&console.app, tier.name()).await?;
                console.printer.entry(&PlanFigures::from(plan))?;
            }
            return Ok(());
        }
        PlanCommand::Show(args) => plans::get(&console.app, args.plan.name()).await?,
        PlanCommand::Set(args) => {
            let from = args.from.as_deref().map(|text| time("--from", text)).transpose()?;
            let (tier, change) = (args.one.plan.name(), plan_change(&args.figures));
            plans::update(&console.app, &console.actor(), tier, change, from).await?
        }
        PlanCommand::Withdraw(args) => {
            let wrong = |_| CommandError::usage("a change is named by its identifier: see plan show");
            let (tier, id) = (args.one.plan.name(), args.change.parse().map_err(wrong)?);
            plans::withdraw(&console.app, &console.actor(), tier, id).await?;
            plans::get(&console.app, tier).await?
        }
    };
    Ok(console.printer.object(&PlanFigures::from(plan))?)
}
