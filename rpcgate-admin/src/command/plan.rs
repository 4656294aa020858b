//! `rpcgate-admin plan`: the figures of plans.

use super::command_error::CommandError;
use super::console::Console;
use super::printer::{Printable, or_dash};
use super::time_argument::time;
use crate::cli::plan::PlanCommand;
use rpcgate_core::plan::{FigureUnit, PlanFigure, Price, Tier};
use rpcgate_management::action::operator::plans;
use rpcgate_management::shape::figures::FiguresJson;
use rpcgate_management::shape::operator::plans::{PlanFigures, ScheduledChangeJson};
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
        let mut fields = vec![("plan", self.tier.to_string())];
        fields.extend(PlanFigure::ALL.iter().zip(self.numbers()).map(|(figure, number)| {
            let text = match figure.unit {
                FigureUnit::Price => or_dash(number.map(|price| Price(price).usd())),
                _ => or_dash(number),
            };
            (figure.title, text)
        }));
        fields.push(("later changes", self.scheduled.iter().map(later).collect::<Vec<_>>().join("\n")));
        fields
    }
}

fn later(change: &ScheduledChangeJson) -> String {
    let figures = change.figures.clone().change().map(Figures::from).unwrap_or_default();
    format!("{} from {}: {}", change.id, change.from, joined(&figures, ", "))
}

/// Lists the figures that are set, one per line.
pub(super) fn lines(figures: &FiguresJson) -> String {
    joined(&figures.clone().figures().unwrap_or_default(), "\n")
}

fn joined(figures: &Figures, separator: &str) -> String {
    figures.given().map(|figure| figure.to_string()).collect::<Vec<_>>().join(separator)
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
            let tier = args.one.plan.name();
            let change = args.figures.change();
            plans::update(&console.app, &console.actor(), tier, change, from).await?
        }
        PlanCommand::Withdraw(args) => {
            let wrong = |_| CommandError::usage("a change is named by its identifier: see plan show");
            let tier = args.one.plan.name();
            let id = args.change.parse().map_err(wrong)?;
            plans::withdraw(&console.app, &console.actor(), tier, id).await?;
            plans::get(&console.app, tier).await?
        }
    };
    Ok(console.printer.object(&PlanFigures::from(plan))?)
}
