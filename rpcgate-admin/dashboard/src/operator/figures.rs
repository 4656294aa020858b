//! The form fields for the figures of the four plans, of custom plans and of contracts.

use crate::filters::grouped;
use crate::form::FieldList;
use crate::problems::Labels;
use rpcgate_core::plan::{FigureUnit, PlanFigure, Price};
use rpcgate_management::action::operator::plans;
use rpcgate_management::error::ActionError;
use rpcgate_store::{Figure, Figures};

/// The other fields of forms with figures, as sentences name them.
const OTHERS: Labels = &[
    ("name", "the name"),
    ("figures", "the figures"),
    ("plans", "the plan"),
    ("from", "the begin"),
    ("until", "the end"),
    ("note", "the note"),
    ("notify", "the notification"),
];

/// The figures by name, together with the other fields of their forms, as sentences name them.
pub(super) const LABELS: Labels = &{
    let mut labels = [("", ""); PlanFigure::COUNT + OTHERS.len()];
    let mut index = 0;
    while index < labels.len() {
        labels[index] = match index.checked_sub(PlanFigure::COUNT) {
            Some(other) => OTHERS[other],
            None => (PlanFigure::ALL[index].name, PlanFigure::ALL[index].phrase),
        };
        index += 1;
    }
    labels
};

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
        Some(value) if figure.of.unit == FigureUnit::Price => decimal(Price(value)),
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

fn shown(figure: &Figure) -> String {
    match figure.value {
        Some(value) if figure.of.unit == FigureUnit::Price => format!("${}", decimal(Price(value))),
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
        let PlanFigure { name, label, .. } = *figure.of;
        let value = typed.filter(|typed| typed.has(name)).map(|typed| typed.one(name).to_owned());
        let value = value.unwrap_or_else(|| plain(&figure));
        let is_other = below.value.is_some() && value.replace(',', "") != plain(&below);
        let hint = if is_other { format!("{before} {}", shown(&below)) } else { String::new() };
        FigureField { name, label, value, hint }
    };
    figures.list().into_iter().zip(below.list()).map(of).collect()
}

/// Reads the figures of a form.
///
/// # Errors
/// [`ActionError::Invalid`] for a text that is not a number, or a number that the figure cannot have.
pub(super) fn typed(fields: &FieldList) -> Result<Figures, ActionError> {
    let mut figures = Figures::default();
    for &PlanFigure { name, unit, .. } in PlanFigure::ALL {
        let value = match fields.filled(name) {
            None => continue,
            Some(text) if unit == FigureUnit::Price => {
                let no_price = || ActionError::field(name, "enter a price, such as 0.0005");
                let usd = text.trim_start_matches('$').parse().map_err(|_| no_price())?;
                plans::price(usd)?.0
            }
            Some(_) => fields.number::<u64>(name)?.unwrap_or_default(),
        };
        if !figures.set(name, value) {
            return Err(ActionError::field(name, "this value is too large"));
        }
    }
    Ok(figures)
}

/// Refuses a field that was emptied although its figure is set: a plan keeps each figure until it gets another value.
///
/// # Errors
/// [`ActionError::Invalid`].
pub(super) fn refuse_emptied(fields: &FieldList, present: &Figures) -> Result<(), ActionError> {
    let is_emptied = |name| fields.has(name) && fields.filled(name).is_none();
    match present.list().into_iter().find(|figure| figure.value.is_some() && is_emptied(figure.of.name)) {
        Some(figure) => Err(ActionError::field(figure.of.name, "this cannot be empty: enter a number")),
        None => Ok(()),
    }
}

/// Returns those of `figures` that differ from `present`.
pub(super) fn changed(figures: &Figures, present: &Figures) -> Figures {
    let mut changes = Figures::default();
    for (figure, present) in figures.list().into_iter().zip(present.list()) {
        if let Some(value) = figure.value.filter(|value| present.value != Some(*value)) {
            changes.set(figure.of.name, value);
        }
    }
    changes
}

/// Returns the number of figures that differ.
pub(super) fn difference(one: &Figures, other: &Figures) -> usize {
    one.list().iter().zip(other.list()).filter(|(one, other)| one.value != other.value).count()
}

pub(super) fn words(figures: &Figures) -> String {
    let words: Vec<_> =
        figures.given().map(|figure| format!("{} {}", figure.of.label, shown(&figure))).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::plan::{Plan, Tier};

    #[test]
    fn every_figure_has_a_label() {
        for figure in PlanFigure::ALL {
            assert!(!figure.label.is_empty(), "{}", figure.name);
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
    fn only_differences_are_changes() {
        let present = Figures::from(Plan::of(Tier::Standard).figures(1_900));
        let mut entered = present;
        entered.set("per_hour", 7);
        let changes = changed(&entered, &present);
        assert_eq!((difference(&entered, &present), difference(&changes, &Figures::default())), (1, 1));
        assert_eq!(words(&changes), "Requests an hour 7");
        assert!(changed(&present, &present).is_empty());
        let of_hour = |figures: &Figures| {
            let all = fields(figures, ("Was", &present), None);
            let one = all.iter().find(|field| field.name == "per_hour").unwrap();
            (all.len(), one.value.clone(), one.hint.clone())
        };
        assert_eq!(of_hour(&entered), (PlanFigure::COUNT, "7".into(), "Was 2,500".into()));
        assert_eq!(of_hour(&Figures::default()), (PlanFigure::COUNT, String::new(), "Was 2,500".into()));
    }
}
