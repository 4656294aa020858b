//! The view of a what-if answer next to its form.

use crate::filters::{day_text, dollars, grouped};
use crate::outcome::Done;
use rpcgate_core::usage::Amount;
use rpcgate_management::action::operator::price_notices::NotifiedTenants;
use rpcgate_management::action::operator::what_if::{BeforeAfter, PlanMove, TOO_SLOW, WhatIfAnswer};
use rpcgate_management::error::ActionError;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AnswerView {
    pub(super) scope: String,
    /// The sums: a label and its change.
    pub(super) sums: Vec<(&'static str, String)>,
    /// The tenants with the largest changes.
    pub(super) rows: Vec<AnswerRow>,
    /// A sentence about the tenants that are not in the rows.
    pub(super) rest: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AnswerRow {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) plan: String,
    pub(super) before: String,
    pub(super) after: String,
    pub(super) refused: String,
    pub(super) quota_hours: String,
    pub(super) change: String,
}

impl AnswerView {
    /// Makes the view of the answer to a question with `changes` changes.
    pub(super) fn of(changes: usize, answer: &WhatIfAnswer) -> Self {
        let noun = if changes == 1 { "change" } else { "changes" };
        let from = day_text(answer.from);
        let total = &answer.total;
        let affected = &answer.affected;
        let mut sums = vec![
            ("Compute Units", sum(&total.units, |units| grouped(units.into()))),
            ("Amount", sum(&total.amount, money)),
            ("Tenants that pay more", grouped(affected.pay_more.into())),
            ("Tenants that pay less", grouped(affected.pay_less.into())),
        ];
        if total.refused.differs() || affected.refused_more + affected.refused_less > 0 {
            sums.push(("Requests refused by windows, at least", arrow(&total.refused)));
            sums.push(("Tenants with more refusals", grouped(affected.refused_more.into())));
            sums.push(("Tenants with fewer refusals", grouped(affected.refused_less.into())));
        }
        if affected.quota_more + affected.quota_less > 0 {
            sums.push(("Tenants at a quota for longer", grouped(affected.quota_more.into())));
            sums.push(("Tenants at a quota for less time", grouped(affected.quota_less.into())));
        }
        sums.push(("Charged in these days", money(total.charged)));
        let rows = answer.tenants.iter().map(|one| AnswerRow {
            id: one.tenant.to_string(),
            name: one.name.clone(),
            plan: one.plan.clone(),
            before: money(one.effect.amount.before),
            after: money(one.effect.amount.after),
            refused: arrow(&one.effect.refused),
            quota_hours: arrow(&one.effect.quota_hours),
            change: percent(&one.effect.amount),
        });
        AnswerView {
            scope: format!(
                "{} {noun}, applied to the usage since {from}, including today.",
                grouped(changes as u128)
            ),
            sums,
            rows: rows.collect(),
            rest: rest(answer),
        }
    }
}

/// The outcome of a form that asks or saves.
pub(super) enum WhatIfOutcome {
    Answered(AnswerView),
    /// The change is saved. If requested, the affected tenants were notified.
    Saved(Option<NotifiedTenants>),
}

/// Returns the outcome after saving; `saved` if no tenant had to be notified.
pub(super) fn done(saved: Done, told: Option<NotifiedTenants>) -> Done {
    match told {
        Some(NotifiedTenants { left: 1.., .. }) => Done::NotAllTold,
        Some(NotifiedTenants { told: 1.., .. }) => Done::SavedAndTold,
        _ => saved,
    }
}

/// Returns the reason why a question has no answer at the moment, with advice, if `error` is such a reason.
pub(super) fn unanswered(error: &ActionError) -> Option<&'static str> {
    match error {
        ActionError::Unavailable(why) if why == TOO_SLOW => Some(
            "The answer was aborted because it took longer than 30 seconds. Nothing is changed. Ask about less at \
             a time: the weights of fewer methods, or the price of a plan apart from its windows.",
        ),
        ActionError::Unavailable(_) => {
            Some("Usage cannot be read at the moment, so there is no answer, and nothing is changed.")
        }
        ActionError::TooMany { .. } => Some(
            "Other questions are being answered: one at a time for each operator, and few in all. Nothing is changed. Ask again \
             in some seconds.",
        ),
        _ => None,
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MoveView {
    pub(super) scope: String,
    pub(super) rows: Vec<MoveRow>,
    /// A sentence about what is not in the rows.
    pub(super) rest: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MoveRow {
    pub(super) label: &'static str,
    pub(super) now: String,
    pub(super) then: String,
}

impl MoveView {
    pub(super) fn of(answer: &PlanMove) -> Self {
        fn row<T: Copy>(label: &'static str, change: &BeforeAfter<T>, text: impl Fn(T) -> String) -> MoveRow {
            MoveRow { label, now: text(change.before), then: text(change.after) }
        }
        const CENT: u128 = 10_000_000_000;
        let count = |number: u64| grouped(number.into());
        let effect = &answer.effect;
        let fee = |cents: u64| money(Amount(u128::from(cents).saturating_mul(CENT)));
        let rest = match answer.unfollowed_projects {
            0 => String::new(),
            many => {
                format!(
                    "The quotas of {} projects with fewer units were not simulated.",
                    grouped(many.into())
                )
            }
        };
        MoveView {
            scope: format!("Applied to the usage since {}, including today.", day_text(answer.from)),
            rows: vec![
                row("Monthly fee", &answer.fee, fee),
                row("Compute Units", &effect.units, count),
                row("Charge for Compute Units", &effect.amount, money),
                row("Requests refused by windows, at least", &effect.refused, count),
                row("Hours of projects at their quota", &effect.quota_hours, count),
            ],
            rest,
        }
    }
}

fn rest(answer: &WhatIfAnswer) -> String {
    let mut text = match answer.others {
        0 => "No other tenant has used anything.".to_owned(),
        1 => "1 other tenant".to_owned(),
        others => format!("{} other tenants", grouped(others.into())),
    };
    if answer.others > 0 {
        let units = &answer.of_others.units;
        if answer.of_others.differs() {
            text += &format!(": {}, units {}.", sum(&answer.of_others.amount, money), arrow(units));
        } else {
            text += ": no change.";
        }
    }
    if answer.unfollowed_projects > 0 {
        let many = grouped(answer.unfollowed_projects.into());
        text += &format!(" The quotas of {many} projects with fewer units were not simulated.");
    }
    text
}

fn arrow(change: &BeforeAfter<u64>) -> String {
    format!("{} → {}", grouped(change.before.into()), grouped(change.after.into()))
}

/// For example `+1.4 %, to 2,639`.
fn sum<T: Copy + PartialEq>(change: &BeforeAfter<T>, text: impl Fn(T) -> String) -> String
where
    BeforeAfter<T>: Relative,
{
    if change.differs() {
        format!("{}, to {}", percent(change), text(change.after))
    } else {
        format!("no change, {}", text(change.after))
    }
}

trait Relative {
    fn numbers(&self) -> (u128, u128);
}

impl Relative for BeforeAfter<u64> {
    fn numbers(&self) -> (u128, u128) {
        (self.before.into(), self.after.into())
    }
}

impl Relative for BeforeAfter<Amount> {
    fn numbers(&self) -> (u128, u128) {
        (self.before.0, self.after.0)
    }
}

/// Formats the change in percent, rounded to a tenth: `+9.1 %`. A change from 0 has no percentage.
fn percent(change: &impl Relative) -> String {
    let (before, after) = change.numbers();
    if before == after {
        return "0 %".to_owned();
    }
    if before == 0 {
        return "new".to_owned();
    }
    let sign = if after > before { '+' } else { '−' };
    let tenths =
        after.abs_diff(before).saturating_mul(2_000).saturating_add(before) / before.saturating_mul(2).max(1);
    match (tenths / 10, tenths % 10) {
        (0, 0) => format!("{sign}0.1 % or less"),
        (whole, tenth) => format!("{sign}{}.{tenth} %", grouped(whole)),
    }
}

/// Formats an amount to the cent; below a dollar, with all decimals.
fn money(amount: Amount) -> String {
    const DOLLAR: u128 = 1_000_000_000_000;
    const CENT: u128 = DOLLAR / 100;
    if amount.0 < DOLLAR {
        return format!("${}", dollars(amount));
    }
    let cents = amount.0.saturating_add(CENT / 2) / CENT;
    format!("${}.{:02}", grouped(cents / 100), cents % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_shown_in_tenths_of_a_percent() {
        for (before, after, text) in [
            (100, 109, "+9.0 %"),
            (48_210, 52_597, "+9.1 %"),
            (71_804, 63_618, "−11.4 %"),
            (5, 5, "0 %"),
            (0, 5, "new"),
            (5, 0, "−100.0 %"),
            (1_000_000, 1_000_001, "+0.1 % or less"),
            (1, 20_001, "+2,000,000.0 %"),
        ] {
            assert_eq!(percent(&BeforeAfter::<u64> { before, after }), text, "{before} {after}");
        }
    }

    #[test]
    fn amounts_are_shown_to_the_cent_and_small_ones_exactly() {
        assert_eq!(money(Amount(150_000_000_000)), "$0.15");
        assert_eq!(money(Amount(750)), "$0.00000000075");
        assert_eq!(money(Amount(1_234_565_000_000_000)), "$1,234.57");
        assert_eq!(sum(&BeforeAfter::<u64> { before: 4, after: 5 }, |n| grouped(n.into())), "+25.0 %, to 5");
        assert_eq!(sum(&BeforeAfter::<u64> { before: 5, after: 5 }, |n| grouped(n.into())), "no change, 5");
    }
}
