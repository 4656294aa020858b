//! The content of an invoice: lines for plans and usage, and their sum. Amounts are exact; the sum is rounded once.

use super::month::BillingMonth;
use rpcgate_config::{BillingSettings, MonthlyFees};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::{Price, Tier};
use rpcgate_core::usage::{Amount, Charged};
use rpcgate_store::{
    CustomPlan, InvoiceAmounts, InvoiceLine, LineKind, PlanFee, TenantContract, TenantPlan, TierChange,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A cent in the unit of [`Amount`].
const CENT: u64 = 10_000_000_000;

/// The time in which a plan was in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanSpan {
    /// The plan.
    pub plan: TenantPlan,
    /// The time.
    pub span: Range<Time>,
}

/// Returns the plans of a tenant within `span`, in order. `changes` are the changes from its begin on, and `now` is the
/// plan after all of them.
pub fn plan_spans(span: Range<Time>, changes: &[TierChange], now: TenantPlan) -> Vec<PlanSpan> {
    let mut spans = Vec::new();
    let mut start = span.start;
    let mut plan = changes.first().map_or(now, |first| first.before);
    for change in changes.iter().take_while(|change| change.at < span.end) {
        let at = change.at.max(start);
        if at > start {
            spans.push(PlanSpan { plan, span: start..at });
        }
        (start, plan) = (at, change.after);
    }
    if span.end > start {
        spans.push(PlanSpan { plan, span: start..span.end });
    }
    spans
}

/// The time in which a plan had one fee.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeeSpan {
    /// The plan, or its base.
    pub tier: Tier,
    /// The name of the plan, if it is a custom one.
    pub custom_plan: Option<String>,
    /// The fee of a whole month, in cents.
    pub fee: u64,
    /// The time.
    pub span: Range<Time>,
}

/// The fees of plans over time.
#[derive(Clone, Copy, Debug)]
pub struct FeeHistory<'h> {
    /// The recorded fees, for each plan the oldest first.
    pub recorded: &'h [PlanFee],
    /// The custom plans with their current figures, which apply where nothing is recorded.
    pub custom_plans: &'h [CustomPlan],
    /// The configured fees of the four plans, which apply where nothing is recorded.
    pub configured: &'h MonthlyFees,
}

impl FeeHistory<'_> {
    /// Returns a plan's fee of a whole month at a time, in cents.
    fn at(&self, plan: TenantPlan, at: Time) -> u64 {
        let own = plan.custom.and_then(|id| {
            let current = || self.custom(plan).and_then(|custom| custom.figures.plan.monthly_fee);
            let is_its = |fee: &PlanFee| fee.plan.custom == Some(id);
            self.recorded(is_its, at).map_or_else(current, |fee| fee.cents)
        });
        let base = || {
            let is_its = |fee: &PlanFee| fee.plan == TenantPlan::from(plan.tier);
            let recorded = self.recorded(is_its, at).and_then(|fee| fee.cents);
            recorded.unwrap_or_else(|| self.configured.of(plan.tier))
        };
        own.unwrap_or_else(base)
    }

    fn recorded(&self, is_its: impl Fn(&PlanFee) -> bool, at: Time) -> Option<&PlanFee> {
        self.recorded.iter().rfind(|fee| is_its(fee) && fee.since <= at)
    }

    fn custom(&self, plan: TenantPlan) -> Option<&CustomPlan> {
        self.custom_plans.iter().find(|custom| Some(custom.id) == plan.custom)
    }
}

/// Returns the fees within `spans`: the fee of a contract in force, if it has one, or the fee of the plan at that time.
/// `contracts` has the oldest first.
pub fn fee_spans(spans: &[PlanSpan], contracts: &[TenantContract], fees: &FeeHistory<'_>) -> Vec<FeeSpan> {
    let agreed: Vec<_> = contracts
        .iter()
        .filter_map(|contract| Some((contract, contract.figures.plan.monthly_fee?)))
        .collect();
    let bounds = agreed.iter().flat_map(|(contract, _)| [Some(contract.from), contract.until]);
    let bounds = bounds.flatten().chain(fees.recorded.iter().map(|fee| fee.since));
    let bounds: BTreeSet<Time> = bounds.collect();
    let mut found = Vec::new();
    for PlanSpan { plan, span } in spans {
        let custom_plan = fees.custom(*plan).map(|custom| custom.name.clone());
        let mut start = span.start;
        let within = bounds.iter().filter(|bound| span.start < **bound && **bound < span.end);
        for end in within.chain([&span.end]) {
            let last = agreed.iter().rev().find(|(contract, _)| contract.is_in_force(start));
            let fee = last.map_or_else(|| fees.at(*plan, start), |(_, fee)| *fee);
            found.push(FeeSpan { tier: plan.tier, custom_plan: custom_plan.clone(), fee, span: start..*end });
            start = *end;
        }
    }
    found
}

/// Returns one line for each plan and fee, with the part of the fee for the seconds in which it was in force. A change
/// takes effect in the second in which it is made.
pub fn plan_lines(month: BillingMonth, spans: &[FeeSpan]) -> Vec<InvoiceLine> {
    let mut seconds: BTreeMap<(Tier, Option<&str>, u64), u64> = BTreeMap::new();
    for FeeSpan { tier, custom_plan, fee, span } in spans {
        let length = span.end.secs().saturating_sub(span.start.secs());
        *seconds.entry((*tier, custom_plan.as_deref(), *fee)).or_default() += length;
    }
    let all = u128::from(month.seconds().max(1));
    let line = |((tier, custom_plan, fee), units): ((Tier, Option<&str>, u64), u64)| {
        let price = Price(fee.saturating_mul(CENT));
        (price.0 > 0 && units > 0).then(|| InvoiceLine {
            month: month.start(),
            kind: LineKind::Plan,
            chain: String::new(),
            tier,
            price,
            calls: 0,
            units,
            amount: Amount(u128::from(price.0) * u128::from(units) / all),
            custom_plan: custom_plan.map(str::to_owned),
        })
    };
    seconds.into_iter().filter_map(line).collect()
}

/// A charge, and the name of its plan if it is a custom one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanCharge {
    /// The charge.
    pub charged: Charged,
    /// The name of the custom plan.
    pub custom_plan: Option<String>,
}

/// Returns one line for each chain, plan and price: the usage of `month` that is not in `invoiced`.
///
/// An invoiced line may have a former name of its plan, because plans can be renamed. What it has beyond the charges
/// under its name is settled against charges with the same base and price. So nothing is billed twice, whatever the
/// names.
pub fn usage_lines(
    month: BillingMonth,
    charges: &[PlanCharge],
    invoiced: &[InvoiceLine],
) -> Vec<InvoiceLine> {
    type Account<'c> = (&'c str, Tier, Price, Option<&'c str>);
    let mut sums: BTreeMap<Account<'_>, (u64, u64)> = BTreeMap::new();
    for PlanCharge { charged, custom_plan } in charges {
        let account = (charged.chain.as_str(), charged.tier, charged.price, custom_plan.as_deref());
        let (calls, units) = sums.entry(account).or_default();
        *calls = calls.saturating_add(charged.calls);
        *units = units.saturating_add(charged.units);
    }
    let mut rest = Vec::new();
    for line in invoiced.iter().filter(|line| line.month == month.start() && line.kind == LineKind::Usage) {
        let mut remaining = (line.calls, line.units);
        let account = (line.chain.as_str(), line.tier, line.price, line.custom_plan.as_deref());
        if let Some(sum) = sums.get_mut(&account) {
            settle(sum, &mut remaining);
        }
        rest.push((line, remaining));
    }
    for (line, mut told) in rest {
        let has_same = |(chain, tier, price, _): &Account<'_>| {
            (*chain, *tier, *price) == (line.chain.as_str(), line.tier, line.price)
        };
        for (_, sum) in sums.iter_mut().filter(|(account, _)| has_same(account)) {
            settle(sum, &mut told);
        }
    }
    let line = |((chain, tier, price, custom_plan), (calls, units)): (Account<'_>, (u64, u64))| {
        (units > 0).then(|| InvoiceLine {
            month: month.start(),
            kind: LineKind::Usage,
            chain: chain.to_owned(),
            tier,
            price,
            calls,
            units,
            amount: Amount(u128::from(units) * u128::from(price.0)),
            custom_plan: custom_plan.map(str::to_owned),
        })
    };
    sums.into_iter().filter_map(line).collect()
}

/// Subtracts the calls and units of an invoiced line from a sum, down to zero.
fn settle((calls, units): &mut (u64, u64), (told_calls, told_units): &mut (u64, u64)) {
    let both_calls = (*calls).min(*told_calls);
    let both_units = (*units).min(*told_units);
    (*calls, *units) = (*calls - both_calls, *units - both_units);
    (*told_calls, *told_units) = (*told_calls - both_calls, *told_units - both_units);
}

/// Returns the exact sum of lines.
pub fn sum(lines: &[InvoiceLine]) -> Amount {
    lines.iter().map(|line| line.amount).sum()
}

/// Returns the amounts of an invoice with these lines. The sum is rounded half up to the cent, and so is the tax on it.
pub fn amounts(lines: &[InvoiceLine], settings: &BillingSettings) -> InvoiceAmounts {
    let rounded = |numerator: u128, divisor: u128| {
        let doubled = numerator.saturating_mul(2).saturating_add(divisor);
        u64::try_from(doubled / (2 * divisor)).unwrap_or(u64::MAX)
    };
    let subtotal = rounded(sum(lines).0, u128::from(CENT));
    let rate = settings.tax_basis_points;
    let tax = rounded(u128::from(subtotal) * u128::from(rate), 10_000);
    let tax_name = settings.tax_name.clone();
    InvoiceAmounts { subtotal, tax_name, tax_basis_points: rate, tax, total: subtotal.saturating_add(tax) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rpcgate_config::PlanChange;
    use rpcgate_core::caller::{CustomPlanId, ProjectId, TenantId};
    use rpcgate_store::ContractId;

    fn december() -> BillingMonth {
        BillingMonth::of(Time::from_secs(1_798_718_400))
    }

    fn at(secs: u64) -> Time {
        Time::from_secs(december().start().secs() + secs)
    }

    fn change(secs: u64, before: Tier, after: Tier) -> TierChange {
        TierChange { at: at(secs), before: before.into(), after: after.into() }
    }

    fn charged(chain: &str, tier: Tier, price: u64, units: u64) -> PlanCharge {
        let project = ProjectId(u128::from(units));
        let chain = chain.to_owned();
        let charged = Charged { project, chain, tier, price: Price(price), calls: 1, units };
        PlanCharge { charged, custom_plan: None }
    }

    fn on(name: &str, charge: PlanCharge) -> PlanCharge {
        PlanCharge { custom_plan: Some(name.into()), ..charge }
    }

    fn settings(rate: u32) -> BillingSettings {
        let mut settings = BillingSettings::default();
        settings.tax_basis_points = rate;
        settings
    }

    fn fees() -> MonthlyFees {
        let mut fees = MonthlyFees::default();
        (fees.standard, fees.premium) = (3_100, 31_000);
        fees
    }

    fn history<'h>(
        recorded: &'h [PlanFee],
        custom_plans: &'h [CustomPlan],
        configured: &'h MonthlyFees,
    ) -> FeeHistory<'h> {
        FeeHistory { recorded, custom_plans, configured }
    }

    // Shows (Plans, bills and payments).
    #[test]
    fn a_fee_applies_from_the_day_of_its_change_and_never_before() {
        let month = december();
        let own = TenantPlan { tier: Tier::Standard, custom: Some(CustomPlanId(1)) };
        let plans = [CustomPlan {
            id: CustomPlanId(1),
            name: "gold".into(),
            base: Tier::Standard,
            is_visible: true,
            figures: PlanChange { monthly_fee: Some(999_999), ..PlanChange::default() }.into(),
            created_at: at(0),
        }];
        let since = |plan, since, cents| PlanFee { plan, since, cents };
        let always = Time::from_secs(0);
        let sums = |recorded: &[PlanFee], plan| {
            let spans = plan_spans(month.span(), &[], plan);
            let lines = plan_lines(month, &fee_spans(&spans, &[], &history(recorded, &plans, &fees())));
            lines.iter().map(|line| (line.units / 86_400, line.amount.to_string())).collect::<Vec<_>>()
        };
        let whole = |amount: &str| vec![(31, format!("{amount}.000000000000"))];
        // Raised after the month, and before it is closed.
        let raised = [since(own, always, Some(12_400)), since(own, month.end(), Some(999_999))];
        assert_eq!(sums(&raised, own), whole("124"));
        // Raised on the 11th: ten days at the first fee, and 21 at the other one.
        let within = [since(own, always, Some(3_100)), since(own, at(10 * 86_400), Some(6_200))];
        let parts = vec![(10, "10.000000000000".to_owned()), (21, "42.000000000000".to_owned())];
        assert_eq!(sums(&within, own), parts);
        // From the 11th on it has the fee of its base, which is raised on the 21st.
        let based = [
            since(Tier::Standard.into(), always, Some(3_100)),
            since(own, always, Some(6_200)),
            since(own, at(10 * 86_400), None),
            since(Tier::Standard.into(), at(20 * 86_400), Some(9_300)),
        ];
        let mut found = sums(&based, own);
        found.sort_unstable();
        let expected = [(10, "10.000000000000"), (10, "20.000000000000"), (11, "33.000000000000")];
        assert_eq!(found, expected.map(|(days, amount)| (days, amount.to_owned())));
        assert_eq!(sums(&[], own), [(31, "9999.990000000000".to_owned())], "as it is now");
        assert_eq!(sums(&[], Tier::Standard.into()), whole("31"), "nothing is recorded: as configured");
    }

    // Shows (Plans, bills and payments): A plan is paid for the seconds in which it was in force.
    #[test]
    fn a_plan_in_force_for_a_part_of_the_month_costs_that_part_of_its_fee() {
        let month = december();
        let lines = |changes: &[TierChange], now| {
            let spans = plan_spans(month.span(), changes, TenantPlan::from(now));
            plan_lines(month, &fee_spans(&spans, &[], &history(&[], &[], &fees())))
                .into_iter()
                .map(|line| (line.tier, line.units, line.amount.to_string()))
                .collect::<Vec<_>>()
        };
        let whole = (Tier::Standard, 31 * 86_400, "31.000000000000".to_owned());
        assert_eq!(lines(&[], Tier::Standard), [whole]);
        assert_eq!(lines(&[], Tier::Free), []);
        let up = change(86_400, Tier::Standard, Tier::Premium);
        let parts = [
            (Tier::Standard, 86_400, "1.000000000000".to_owned()),
            (Tier::Premium, 30 * 86_400, "300.000000000000".to_owned()),
        ];
        assert_eq!(lines(&[up], Tier::Premium), parts);
        let later = change(31 * 86_400, Tier::Premium, Tier::Enterprise);
        assert_eq!(
            lines(&[up, later], Tier::Enterprise),
            parts,
            "a change of the next month is not of this one"
        );
        assert_eq!(lines(&[later], Tier::Enterprise)[0].1, 31 * 86_400);
        let back = [
            change(10, Tier::Standard, Tier::Free),
            change(10, Tier::Free, Tier::Premium),
            change(30, Tier::Premium, Tier::Standard),
        ];
        let seconds: Vec<_> = lines(&back, Tier::Standard).into_iter().map(|line| (line.0, line.1)).collect();
        assert_eq!(seconds, [(Tier::Standard, 31 * 86_400 - 20), (Tier::Premium, 20)]);
    }

    #[test]
    fn usage_that_is_on_an_invoice_is_not_put_on_another() {
        let month = december();
        let first = [
            charged("eth", Tier::Standard, 5, 10),
            charged("eth", Tier::Standard, 5, 7),
            charged("eth", Tier::Premium, 3, 1),
            charged("btc", Tier::Standard, 5, 2),
        ];
        let lines = usage_lines(month, &first, &[]);
        let rows: Vec<_> = lines
            .iter()
            .map(|line| (&*line.chain, line.tier, line.calls, line.units, line.amount.0))
            .collect();
        assert_eq!(
            rows,
            [
                ("btc", Tier::Standard, 1, 2, 10),
                ("eth", Tier::Standard, 2, 17, 85),
                ("eth", Tier::Premium, 1, 1, 3),
            ]
        );
        assert_eq!(usage_lines(month, &first, &lines), []);
        let late = [&first[..], &[charged("eth", Tier::Standard, 5, 4)]].concat();
        let rest = usage_lines(month, &late, &lines);
        assert_eq!((rest.len(), rest[0].calls, rest[0].units, rest[0].amount), (1, 1, 4, Amount(20)));
        let both = [lines, rest].concat();
        assert_eq!(usage_lines(month, &late, &both), []);
        assert_eq!(usage_lines(month.next(), &late, &both).len(), 3, "lines of another month do not count");
        assert_eq!(usage_lines(month, &[], &both), [], "removed charges are not credited");
    }

    // Shows (Plans, bills and payments).
    #[test]
    fn usage_on_a_custom_plan_names_it_and_a_new_name_bills_nothing_twice() {
        let month = december();
        let eth = |units| charged("eth", Tier::Standard, 5, units);
        let first = [eth(10), on("startup", eth(7)), on("startup", eth(1)), on("school", eth(2))];
        let lines = usage_lines(month, &first, &[]);
        let rows_of = |lines: &[InvoiceLine]| -> Vec<_> {
            lines.iter().map(|line| (line.custom_plan.clone(), line.calls, line.units)).collect()
        };
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(rows_of(&lines), [(None, 1, 10), (named("school"), 1, 2), (named("startup"), 2, 8)]);
        assert_eq!(usage_lines(month, &first, &lines), []);
        let renamed =
            [eth(10), on("grown", eth(7)), on("grown", eth(1)), on("school", eth(2)), on("grown", eth(4))];
        assert_eq!(rows_of(&usage_lines(month, &renamed, &lines)), [(named("grown"), 1, 4)]);
        let unnamed = [InvoiceLine { custom_plan: None, units: 20, ..lines[0].clone() }];
        assert_eq!(usage_lines(month, &first, &unnamed), [], "an invoice from before lines had names");
        let dearer = [on("startup", charged("eth", Tier::Standard, 6, 3))];
        assert_eq!(rows_of(&usage_lines(month, &dearer, &lines)), [(named("startup"), 1, 3)]);
    }

    // Shows (Plans, bills and payments): Amounts are rounded once, to cents; the tax is on the rounded sum.
    #[test]
    fn the_sum_is_rounded_once_and_the_tax_is_on_the_rounded_sum() {
        let line = |amount| InvoiceLine {
            amount: Amount(amount),
            ..usage_lines(december(), &[charged("eth", Tier::Standard, 1, 1)], &[]).remove(0)
        };
        let of = |amounts_of: &[u128], rate| {
            let lines: Vec<_> = amounts_of.iter().map(|amount| line(*amount)).collect();
            let amounts = amounts(&lines, &settings(rate));
            (amounts.subtotal, amounts.tax, amounts.total)
        };
        let half = u128::from(CENT / 2);
        assert_eq!(of(&[half - 1], 0), (0, 0, 0));
        assert_eq!(of(&[half], 0), (1, 0, 1));
        assert_eq!(of(&[half - 1, half - 1], 0), (1, 0, 1), "the lines are not rounded");
        assert_eq!(of(&[u128::from(CENT) * 100], 1_900), (100, 19, 119));
        assert_eq!(of(&[u128::from(CENT) * 3], 1_900), (3, 1, 4));
        assert_eq!(of(&[], 1_900), (0, 0, 0));
        assert_eq!(of(&[u128::MAX], 10_000).2, u64::MAX, "a sum beyond all bounds does not wrap");
    }

    fn agreed(from: u64, until: Option<u64>, fee: Option<u64>) -> TenantContract {
        TenantContract {
            id: ContractId(1),
            tenant: TenantId(1),
            figures: PlanChange { monthly_fee: fee, ..PlanChange::default() }.into(),
            from: at(from),
            until: until.map(at),
            note: String::new(),
            created_at: at(0),
        }
    }

    // Shows (Plans, bills and payments): The fee of a contract is charged for the seconds in which it is in force.
    #[test]
    fn the_fee_of_a_contract_is_charged_for_the_seconds_in_which_it_is_in_force() {
        let month = december();
        let day = 86_400;
        let contracts = [
            agreed(day, Some(11 * day), Some(6_200)),
            agreed(6 * day, Some(11 * day), Some(0)),
            agreed(0, None, None),
        ];
        let spans = plan_spans(month.span(), &[], Tier::Standard.into());
        let lines = plan_lines(month, &fee_spans(&spans, &contracts, &history(&[], &[], &fees())));
        let rows: Vec<_> = lines
            .iter()
            .map(|line| (line.tier, line.price.usd(), line.units, line.amount.to_string()))
            .collect();
        assert_eq!(
            rows,
            [
                (Tier::Standard, 31.0, 21 * day, "21.000000000000".to_owned()),
                (Tier::Standard, 62.0, 5 * day, "10.000000000000".to_owned()),
            ],
            "five days are free, and a contract without a fee changes none"
        );
    }

    // Shows (Plans, bills and payments): The fee of a custom plan is charged for the seconds in which a tenant was on
    // it.
    #[test]
    fn a_custom_plan_has_its_own_fee_or_its_bases_and_a_contract_replaces_both() {
        let month = december();
        let day = 86_400;
        let own = |id, name: &str, monthly_fee| CustomPlan {
            id: CustomPlanId(id),
            name: name.into(),
            base: Tier::Standard,
            is_visible: true,
            figures: PlanChange { monthly_fee, ..PlanChange::default() }.into(),
            created_at: at(0),
        };
        let plans = [own(1, "startup", Some(6_200)), own(2, "school", None)];
        let on = |id| TenantPlan { tier: Tier::Standard, custom: Some(CustomPlanId(id)) };
        let moved = |secs, before, after| TierChange { at: at(secs), before, after };
        let changes = [
            moved(day, Tier::Standard.into(), on(1)),
            moved(11 * day, on(1), on(2)),
            moved(21 * day, on(2), on(3)),
        ];
        let spans = plan_spans(month.span(), &changes, on(3));
        let rows_of = |contracts: &[TenantContract]| -> Vec<_> {
            let lines = plan_lines(month, &fee_spans(&spans, contracts, &history(&[], &plans, &fees())));
            let rows = lines.into_iter().map(|line| (line.custom_plan, line.price.usd(), line.units / day));
            rows.collect()
        };
        let startup = Some("startup".to_owned());
        let school = Some("school".to_owned());
        assert_eq!(
            rows_of(&[]),
            [(None, 31.0, 11), (school.clone(), 31.0, 10), (startup.clone(), 62.0, 10)],
            "a plan that is not known any more has the fee of its base"
        );
        assert_eq!(
            rows_of(&[agreed(6 * day, Some(16 * day), Some(3_100))]),
            [(None, 31.0, 11), (school, 31.0, 10), (startup.clone(), 31.0, 5), (startup, 62.0, 5)]
        );
    }

    proptest! {
        // Shows (Plans, bills and payments).
        #[test]
        fn each_second_has_the_fee_of_the_last_contract_in_force_or_of_the_plan(
            agreements in prop::collection::vec(
                (0_u64..90, prop::option::of(1_u64..60), prop::option::of(1_u64..9)), 0..6,
            ),
            moves in prop::collection::vec((0_u64..100, 0_usize..4), 0..4),
        ) {
            let month = december();
            let contracts: Vec<_> = agreements
                .iter()
                .map(|(from, length, fee)| agreed(*from, length.map(|length| from + length), *fee))
                .collect();
            let mut moves = moves;
            moves.sort_unstable();
            let mut tier = Tier::Free;
            let changes: Vec<_> = moves
                .iter()
                .map(|(second, index)| change(*second, std::mem::replace(&mut tier, Tier::ALL[*index]), Tier::ALL[*index]))
                .collect();
            let spans = plan_spans(at(0)..at(100), &changes, tier.into());
            let lines = plan_lines(month, &fee_spans(&spans, &contracts, &history(&[], &[], &fees())));
            let mut expected: BTreeMap<(Tier, u64), u64> = BTreeMap::new();
            for second in 0..100 {
                let moved = moves.iter().rev().find(|(at, _)| *at <= second);
                let tier = moved.map_or(Tier::Free, |(_, index)| Tier::ALL[*index]);
                let agreed = agreements.iter().rev().find_map(|(from, length, fee)| {
                    fee.filter(|_| *from <= second && length.is_none_or(|length| second < from + length))
                });
                *expected.entry((tier, agreed.unwrap_or(fees().of(tier)))).or_default() += 1;
            }
            let charged = expected.into_iter().filter(|((_, fee), _)| *fee > 0);
            let charged: Vec<_> = charged.map(|((tier, fee), units)| (tier, fee * CENT, units)).collect();
            let rows: Vec<_> = lines.iter().map(|line| (line.tier, line.price.0, line.units)).collect();
            prop_assert_eq!(rows, charged);
            for line in lines {
                let exact = u128::from(line.price.0) * u128::from(line.units) / u128::from(month.seconds());
                prop_assert_eq!(line.amount, Amount(exact));
            }
        }

        #[test]
        fn spans_of_plans_cover_the_whole_time_once(
            times in prop::collection::vec(0u64..3_000_000, 0..12), start in 0u64..2_678_400,
        ) {
            let mut times = times;
            times.sort_unstable();
            let mut tier = Tier::Free;
            let mut changes = Vec::new();
            for (n, time) in times.into_iter().enumerate() {
                let after = Tier::ALL[(n + 1) % 4];
                changes.push(change(time, tier, after));
                tier = after;
            }
            let span = at(start)..december().end();
            changes.retain(|change| change.at >= span.start);
            let spans = plan_spans(span.clone(), &changes, tier.into());
            let mut reached = span.start;
            for PlanSpan { plan, span } in &spans {
                prop_assert_eq!(span.start, reached);
                prop_assert!(span.end > span.start);
                reached = span.end;
                let in_force = changes.iter().rev().find(|change| change.at <= span.start);
                let first = changes.first().map(|change| change.before);
                prop_assert_eq!(Some(*plan), in_force.map(|change| change.after).or(first).or(Some(*plan)));
            }
            prop_assert_eq!(reached, span.end);
        }
    }
}
