//! The usage of a month by the tenant's plans.
//!
//! The ledger stores the base plan and the price of each charge. The history of the tenant's plans tells for each hour
//! which custom plan was in force.

use super::lines::{PlanCharge, PlanSpan, plan_spans};
use super::month::BillingMonth;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::Charged;
use rpcgate_store::{CustomPlan, Tenant, TenantPlan};
use std::collections::BTreeSet;
use std::ops::Range;

/// The plans in force in some hours, in order: several only in a single hour in which the plan was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
struct PlanHours {
    hours: Range<u64>,
    plans: Vec<TenantPlan>,
}

/// Returns the charges of a tenant in `month`. `custom_plans` are all custom plans that it may have had.
pub(super) async fn of_month(
    app: &AppState,
    tenant: &Tenant,
    month: BillingMonth,
    custom_plans: &[CustomPlan],
) -> Result<Vec<PlanCharge>, ActionError> {
    let changes = app.store.tier_changes(tenant.id, month.start()).await?;
    let spans = plan_spans(month.span(), &changes, tenant.plan());
    let mut charges = Vec::new();
    for PlanHours { hours, plans } in plan_hours(month, &spans) {
        for charged in app.usage.bill(tenant.id, hours).await? {
            let custom_plan = plan_of(&charged, &plans, custom_plans).map(|plan| plan.name.clone());
            charges.push(PlanCharge { charged, custom_plan });
        }
    }
    Ok(charges)
}

/// Returns the hours of a month by the plans in force. They are one range if no custom plan was in force.
fn plan_hours(month: BillingMonth, spans: &[PlanSpan]) -> Vec<PlanHours> {
    let hours = month.hours();
    let mut bounds = BTreeSet::from([hours.start, hours.end]);
    if spans.iter().any(|span| span.plan.custom.is_some()) {
        for span in spans.iter().skip(1) {
            let hour = span.span.start.hour();
            bounds.extend([hour, hour + 1]);
        }
    }
    let bounds: Vec<u64> =
        bounds.into_iter().filter(|hour| (hours.start..=hours.end).contains(hour)).collect();
    let plans = |hours: &Range<u64>| {
        let start = begin_of(hours.start);
        let end = begin_of(hours.end);
        let in_force = spans.iter().filter(|PlanSpan { span, .. }| span.start < end && span.end > start);
        in_force.map(|span| span.plan).collect()
    };
    let pairs = bounds.iter().zip(bounds.iter().skip(1)).map(|(start, end)| *start..*end);
    pairs.map(|hours| PlanHours { plans: plans(&hours), hours }).collect()
}

fn begin_of(hour: u64) -> Time {
    Time::from_secs(hour.saturating_mul(3_600))
}

/// Returns the custom plan on which a charge was made, if any. Of several plans with the charge's base in its hour, it
/// is the last one with exactly the charge's price, or else the last one without a price of its own, because a contract
/// may have set the price.
fn plan_of<'p>(
    charged: &Charged,
    plans: &[TenantPlan],
    custom_plans: &'p [CustomPlan],
) -> Option<&'p CustomPlan> {
    let known = |plan: &TenantPlan| custom_plans.iter().find(|custom| Some(custom.id) == plan.custom);
    let same_base: Vec<_> = plans.iter().filter(|plan| plan.tier == charged.tier).map(known).collect();
    let price = |plan: &CustomPlan| plan.figures.plan.price;
    let exact = |plan: &&Option<&CustomPlan>| plan.is_some_and(|plan| price(plan) == Some(charged.price));
    let open = |plan: &&Option<&CustomPlan>| plan.is_none_or(|plan| price(plan).is_none());
    let found = same_base.iter().rev().find(exact).or_else(|| same_base.iter().rev().find(open));
    found.or(same_base.last()).copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::caller::{CustomPlanId, ProjectId};
    use rpcgate_core::plan::{Price, Tier};
    use rpcgate_store::Figures;

    fn month() -> BillingMonth {
        BillingMonth::of(Time::from_secs(1_798_718_400))
    }

    fn own(id: u128, price: Option<u64>) -> CustomPlan {
        let mut figures = Figures::default();
        figures.plan.price = price.map(Price);
        CustomPlan {
            id: CustomPlanId(id),
            name: format!("own-{id}"),
            base: Tier::Standard,
            is_visible: true,
            figures,
            created_at: month().start(),
        }
    }

    fn span(plan: TenantPlan, start: u64, end: u64) -> PlanSpan {
        let at = |secs| Time::from_secs(month().start().secs() + secs);
        PlanSpan { plan, span: at(start)..at(end) }
    }

    #[test]
    fn hours_are_divided_at_a_change_from_or_to_a_custom_plan() {
        let standard = TenantPlan::from(Tier::Standard);
        let first = month().hours().start;
        let all = month().seconds();
        let custom = own(1, None).plan();
        let rows_of = |spans: &[PlanSpan]| -> Vec<_> {
            let hours = plan_hours(month(), spans).into_iter();
            hours.map(|one| (one.hours.start - first, one.hours.end - first, one.plans)).collect()
        };
        assert_eq!(rows_of(&[span(custom, 0, all)]), [(0, 744, vec![custom])]);
        let four = [span(standard, 0, 5_000), span(Tier::Premium.into(), 5_000, all)];
        assert_eq!(
            rows_of(&four),
            [(0, 744, vec![standard, Tier::Premium.into()])],
            "names follow from the base"
        );
        assert_eq!(
            rows_of(&[span(standard, 0, 5_000), span(custom, 5_000, 5_100), span(standard, 5_100, all)]),
            [(0, 1, vec![standard]), (1, 2, vec![standard, custom, standard]), (2, 744, vec![standard])]
        );
        assert_eq!(
            rows_of(&[span(standard, 0, 7_200), span(custom, 7_200, all)]),
            [(0, 2, vec![standard]), (2, 3, vec![custom]), (3, 744, vec![custom])]
        );
        let last = all - 10;
        assert_eq!(
            rows_of(&[span(standard, 0, last), span(custom, last, all)]),
            [(0, 743, vec![standard]), (743, 744, vec![standard, custom])]
        );
        assert_eq!(rows_of(&[]), [(0, 744, vec![])], "before the tenant was created");
    }

    // Shows (Plans, bills and payments).
    #[test]
    fn a_charge_is_priced_by_the_plan_of_its_hour_and_by_the_change_within_it() {
        let plans = [own(1, Some(7)), own(2, None), own(3, Some(9))];
        let charged = |tier, price| Charged {
            project: ProjectId(1),
            chain: "eth".into(),
            tier,
            price: Price(price),
            calls: 1,
            units: 1,
        };
        let standard = TenantPlan::from(Tier::Standard);
        let premium = TenantPlan::from(Tier::Premium);
        let [priced, open, dear] = [plans[0].plan(), plans[1].plan(), plans[2].plan()];
        let name = |tier, price, in_force: &[TenantPlan]| {
            plan_of(&charged(tier, price), in_force, &plans).map(|plan| plan.name.as_str())
        };
        assert_eq!(name(Tier::Standard, 5, &[standard]), None);
        assert_eq!(name(Tier::Standard, 5, &[priced]), Some("own-1"), "a contract has another price");
        assert_eq!(name(Tier::Standard, 7, &[standard, priced]), Some("own-1"));
        assert_eq!(name(Tier::Standard, 5, &[standard, priced]), None);
        assert_eq!(name(Tier::Standard, 7, &[priced, standard]), Some("own-1"));
        assert_eq!(name(Tier::Standard, 5, &[standard, open]), Some("own-2"), "both are possible: the last");
        assert_eq!(name(Tier::Standard, 5, &[open, standard]), None);
        assert_eq!(name(Tier::Standard, 9, &[priced, dear]), Some("own-3"));
        assert_eq!(name(Tier::Standard, 5, &[priced, dear]), Some("own-3"));
        assert_eq!(name(Tier::Premium, 5, &[premium, priced]), None);
        assert_eq!(
            name(Tier::Enterprise, 5, &[premium, priced]),
            None,
            "a gateway that heard of a move late"
        );
        assert_eq!(
            name(Tier::Standard, 7, &[TenantPlan { custom: Some(CustomPlanId(9)), ..standard }]),
            None
        );
    }
}
