//! The form fields for the figures of the four plans, of custom plans and of contracts.

use crate::management::action::operator::plans::{self, PricedPlan};
use crate::management::error::ActionError;
use crate::management::page::filters::grouped;
use crate::management::page::form::FieldList;
use crate::management::page::problems::Labels;
use rpcgate_config::{CountsChange, PlanChange, QuotaChange};
use rpcgate_core::plan::{Plan, Price};
use rpcgate_store::{Figure, Figures};

const PRICE: &str = "price_per_cu";

/// The figures by name, together with the other fields of their forms, as sentences name them.
pub(super) const LABELS: Labels = &[
    ("per_minute", "the requests a minute"),
    ("per_hour", "the requests an hour"),
    ("per_day", "the requests a day"),
    ("heavy_per_minute", "the heavy calls a minute"),
    ("price_per_cu", "the price of a CU"),
    ("ws_connections", "the number of streams of a project"),
    ("ws_connections_per_key", "the number of streams of a key"),
    ("projects", "the number of projects"),
    ("keys_per_project", "the number of keys of a project"),
    ("members", "the number of members"),
    ("webhooks_per_project", "the number of webhooks of a project"),
    ("subscriptions_per_webhook", "the number of subscriptions of a webhook"),
    ("cu_per_day", "the quota of CU in 24 hours"),
    ("cu_per_month", "the CU a month"),
    ("rps_limit", "the requests a second of a project"),
    ("monthly_fee_cents", "the monthly fee"),
    ("name", "the name"),
    ("figures", "the figures"),
    ("plans", "the plan"),
    ("from", "the begin"),
    ("until", "the end"),
    ("note", "the note"),
    ("notify", "whom to tell"),
];

const FIELD_LABELS: [(&str, &str); 16] = [
    ("per_minute", "Requests a minute"),
    ("per_hour", "Requests an hour"),
    ("per_day", "Requests a day"),
    ("heavy_per_minute", "Heavy calls a minute"),
    ("price_per_cu", "Price of a CU in US dollars"),
    ("ws_connections", "Streams of a project"),
    ("ws_connections_per_key", "Streams of a key"),
    ("projects", "Projects"),
    ("keys_per_project", "Keys of a project"),
    ("members", "Members"),
    ("webhooks_per_project", "Webhooks of a project"),
    ("subscriptions_per_webhook", "Subscriptions of a webhook"),
    ("cu_per_day", "Quota: CU in 24 hours"),
    ("cu_per_month", "CU a month"),
    ("rps_limit", "Requests a second of a project"),
    ("monthly_fee_cents", "Monthly fee in cents"),
];

fn label(name: &str) -> &'static str {
    FIELD_LABELS.iter().find(|(known, _)| *known == name).map_or("", |(_, label)| label)
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FigureField {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) value: String,
    pub(super) hint: String,
}

/// Formats a figure for a field.
fn plain(figure: &Figure) -> String {
    match figure.value {
        Some(value) if figure.name == PRICE => decimal(Price(value)),
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

fn shown(figure: &Figure) -> String {
    match figure.value {
        Some(value) if figure.name == PRICE => format!("${}", decimal(Price(value))),
        Some(value) => grouped(value.into()),
        None => "–".to_owned(),
    }
}

/// Formats a price in US dollars without trailing zeros.
pub(super) fn decimal(Price(price): Price) -> String {
    const DOLLAR: u64 = 1_000_000_000_000;
    let text = format!("{}.{:012}", price / DOLLAR, price % DOLLAR);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Makes the fields for `figures` or for the typed values. `before` has the name of the plan in force and its figures,
/// which are shown where a field differs or is empty.
pub(super) fn fields(
    figures: &Figures,
    (before, below): (&str, &Figures),
    typed: Option<&FieldList>,
) -> Vec<FigureField> {
    let of = |(figure, below): (Figure, Figure)| {
        let value =
            typed.filter(|typed| typed.has(figure.name)).map(|typed| typed.one(figure.name).to_owned());
        let value = value.unwrap_or_else(|| plain(&figure));
        let is_other = below.value.is_some() && value.replace(',', "") != plain(&below);
        let hint = if is_other { format!("{before} {}", shown(&below)) } else { String::new() };
        FigureField { name: figure.name, label: label(figure.name), value, hint }
    };
    figures.list().into_iter().zip(below.list()).map(of).collect()
}

pub(super) fn of_plan(PricedPlan { plan, monthly_fee, .. }: &PricedPlan) -> Figures {
    let Plan { counts, quota, .. } = plan;
    let change = PlanChange {
        per_minute: Some(plan.per_minute),
        per_hour: Some(plan.per_hour),
        per_day: Some(plan.per_day),
        heavy_per_minute: Some(plan.heavy_per_minute),
        price: Some(plan.price),
        ws_connections: Some(plan.ws_connections),
        ws_connections_per_key: Some(plan.ws_connections_per_key),
        counts: CountsChange {
            projects: Some(counts.projects),
            keys_per_project: Some(counts.keys_per_project),
            members: Some(counts.members),
            webhooks_per_project: Some(counts.webhooks_per_project),
            subscriptions_per_webhook: Some(counts.subscriptions_per_webhook),
        },
        quota: QuotaChange {
            cu_per_day: Some(quota.cu_per_day),
            cu_per_month: quota.cu_per_month,
            rps_limit: quota.rps_limit,
        },
        monthly_fee: Some(*monthly_fee),
    };
    change.into()
}

/// Reads the figures of a form.
///
/// # Errors
/// [`ActionError::InvalidField`] for a text that is not a number, or a number that the figure cannot have.
pub(super) fn typed(fields: &FieldList) -> Result<Figures, ActionError> {
    let mut figures = Figures::default();
    for Figure { name, .. } in Figures::default().list() {
        let value = match fields.filled(name) {
            None => continue,
            Some(text) if name == PRICE => {
                let no_price = || ActionError::field(PRICE, "give a price, such as 0.0005");
                let usd = text.trim_start_matches('$').parse().map_err(|_| no_price())?;
                plans::price(usd)?.0
            }
            Some(_) => fields.number::<u64>(name)?.unwrap_or_default(),
        };
        if !figures.set(name, value) {
            return Err(ActionError::field(name, "this cannot be as large as that"));
        }
    }
    Ok(figures)
}

/// Refuses a field that was emptied although its figure is set: a plan keeps each figure until it gets another value.
///
/// # Errors
/// [`ActionError::InvalidField`].
pub(super) fn refuse_emptied(fields: &FieldList, present: &Figures) -> Result<(), ActionError> {
    let is_emptied = |name| fields.has(name) && fields.filled(name).is_none();
    match present.list().into_iter().find(|figure| figure.value.is_some() && is_emptied(figure.name)) {
        Some(figure) => Err(ActionError::field(figure.name, "this cannot be emptied: give a number")),
        None => Ok(()),
    }
}

/// Returns those of `figures` that differ from `present`.
pub(super) fn changed(figures: &Figures, present: &Figures) -> Figures {
    let mut changes = Figures::default();
    for (figure, present) in figures.list().into_iter().zip(present.list()) {
        if let Some(value) = figure.value.filter(|value| present.value != Some(*value)) {
            changes.set(figure.name, value);
        }
    }
    changes
}

/// Returns the number of figures that differ.
pub(super) fn difference(one: &Figures, other: &Figures) -> usize {
    one.list().iter().zip(other.list()).filter(|(one, other)| one.value != other.value).count()
}

pub(super) fn words(figures: &Figures) -> String {
    let given = figures.list().into_iter().filter(|figure| figure.value.is_some());
    let words: Vec<_> = given.map(|figure| format!("{} {}", label(figure.name), shown(&figure))).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::plan::Tier;

    #[test]
    fn every_figure_has_a_label() {
        for figure in Figures::default().list() {
            assert!(!label(figure.name).is_empty(), "{}", figure.name);
            assert!(LABELS.iter().any(|(name, _)| *name == figure.name), "{}", figure.name);
        }
    }

    #[test]
    fn prices_are_exact_and_short() {
        for (price, text) in
            [(0, "0"), (500_000_000, "0.0005"), (1_000_000_000_000, "1"), (1, "0.000000000001")]
        {
            assert_eq!(decimal(Price(price)), text);
            assert_eq!(Price::from_usd(text.parse().unwrap()), Some(Price(price)));
        }
    }

    #[test]
    fn only_what_differs_is_a_change() {
        let present = of_plan(&PricedPlan {
            plan: Plan::of(Tier::Standard),
            monthly_fee: 1_900,
            scheduled: Vec::new(),
        });
        let mut asked = present;
        asked.set("per_hour", 7);
        let changes = changed(&asked, &present);
        assert_eq!((difference(&asked, &present), difference(&changes, &Figures::default())), (1, 1));
        assert_eq!(words(&changes), "Requests an hour 7");
        assert!(changed(&present, &present).is_empty());
        let of_hour = |figures: &Figures| {
            let all = fields(figures, ("Was", &present), None);
            let one = all.iter().find(|field| field.name == "per_hour").unwrap();
            (all.len(), one.value.clone(), one.hint.clone())
        };
        assert_eq!(of_hour(&asked), (16, "7".into(), "Was 2,500".into()));
        assert_eq!(of_hour(&Figures::default()), (16, String::new(), "Was 2,500".into()));
    }
}
