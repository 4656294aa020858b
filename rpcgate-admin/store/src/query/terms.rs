//! The figures that override those of a tenant's tier, now and later.

use super::contracts::{self, TenantContract};
use super::custom_plans::{self, CustomPlan};
use super::figures::Figures;
use super::live_tenants::live_tenants;
use super::tenants::Tenant;
use crate::entity::tenants;
use crate::{Store, StoreError};
use rpcgate_core::caller::{CustomPlanId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Plan;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use std::collections::BTreeMap;

/// The figures that override those of a tenant's tier, now and later. They can be evaluated at any later time without
/// the database.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Terms {
    plan: Option<(CustomPlanId, Figures)>,
    /// The periods of contracts that have not ended, the oldest first. Gateways keep this for each key, so it has no
    /// notes.
    periods: Vec<Period>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Period {
    figures: Figures,
    from: Time,
    until: Option<Time>,
}

impl Terms {
    /// Returns the terms of a tenant on `plan`, if that is a custom plan, with `contracts`, the oldest first, from
    /// `now` on.
    pub fn of(plan: Option<&CustomPlan>, contracts: Vec<TenantContract>, now: Time) -> Self {
        let open = contracts.into_iter().filter(|contract| !contract.has_ended(now));
        let period = |TenantContract { figures, from, until, .. }| Period { figures, from, until };
        let plan = plan.map(|plan| (plan.id, plan.figures));
        Terms { plan, periods: open.map(period).collect() }
    }

    /// Reports whether the tenant has the figures of its tier now, and at any later time.
    pub fn is_empty(&self) -> bool {
        self.plan.is_none() && self.periods.is_empty()
    }

    /// Returns the custom plan, if the tenant is on one.
    pub fn custom_plan(&self) -> Option<CustomPlanId> {
        self.plan.map(|(id, _)| id)
    }

    /// Returns the figures in force. Those of contracts override those of the plan; of several contracts that set the
    /// same figure, the last made one prevails.
    pub fn figures(&self, now: Time) -> Figures {
        let is_on = |period: &&Period| period.from <= now && period.until.is_none_or(|until| now < until);
        let in_force = self.periods.iter().filter(is_on);
        let own = self.plan.map(|(_, figures)| figures).unwrap_or_default();
        in_force.fold(own, |below, period| period.figures.over(&below))
    }

    /// Returns the next time when the figures in force may change without another write.
    pub fn next_bound(&self, now: Time) -> Option<Time> {
        let bounds = self.periods.iter().flat_map(|period| [Some(period.from), period.until]);
        bounds.flatten().filter(|bound| *bound > now).min()
    }

    /// Returns the plan of a tenant whose tier has the figures of `plan`.
    pub fn plan(&self, plan: Plan, now: Time) -> Plan {
        self.figures(now).plan(plan)
    }

    /// Returns the same terms with these figures for the custom plan.
    #[must_use]
    pub fn with_plan_figures(&self, figures: Figures) -> Terms {
        Terms { plan: self.plan.map(|(id, _)| (id, figures)), periods: self.periods.clone() }
    }

    /// Returns the same terms on another custom plan, or on a built-in plan.
    #[must_use]
    pub fn on_plan(&self, plan: Option<&CustomPlan>) -> Terms {
        Terms { plan: plan.map(|plan| (plan.id, plan.figures)), periods: self.periods.clone() }
    }
}

pub(super) async fn of_tenant(
    database: &impl ConnectionTrait,
    tenant: TenantId,
    now: Time,
) -> Result<Terms, StoreError> {
    let plan = custom_plans::of_tenant(database, tenant).await?;
    Ok(Terms::of(plan.as_ref(), contracts::of_tenant(database, tenant).await?, now))
}

/// Returns the terms of a tenant whose custom plan is known.
pub(super) async fn of_tenant_on(
    database: &impl ConnectionTrait,
    tenant: TenantId,
    plan: Option<CustomPlanId>,
    now: Time,
) -> Result<Terms, StoreError> {
    let plan = match plan {
        Some(id) => custom_plans::find(database, id).await?,
        None => None,
    };
    Ok(Terms::of(plan.as_ref(), contracts::of_tenant(database, tenant).await?, now))
}

pub(super) async fn of_tenants(
    database: &impl ConnectionTrait,
    tenants: &[TenantId],
    now: Time,
) -> Result<BTreeMap<TenantId, Terms>, StoreError> {
    let plans = custom_plans::all(database).await?;
    let on_them = tenants::Entity::find()
        .select_only()
        .columns([tenants::Column::Id, tenants::Column::CustomPlanId])
        .filter(tenants::Column::Id.is_in(tenants.iter().copied()))
        .filter(tenants::Column::CustomPlanId.is_not_null());
    let on_them: Vec<(TenantId, Option<CustomPlanId>)> = on_them.into_tuple().all(database).await?;
    let on_them: BTreeMap<TenantId, &CustomPlan> = on_them
        .into_iter()
        .filter_map(|(tenant, id)| Some((tenant, plans.iter().find(|plan| id == Some(plan.id))?)))
        .collect();
    let mut all: BTreeMap<TenantId, Vec<TenantContract>> =
        on_them.keys().map(|tenant| (*tenant, Vec::new())).collect();
    for contract in contracts::of_tenants(database, tenants).await? {
        all.entry(contract.tenant).or_default().push(contract);
    }
    let of = |(tenant, contracts): (TenantId, Vec<TenantContract>)| {
        (tenant, Terms::of(on_them.get(&tenant).copied(), contracts, now))
    };
    Ok(all.into_iter().map(of).collect())
}

const MOST_TENANTS: u64 = 100_000;

/// The number of tenants that are read before other tasks run: about a millisecond.
const TENANTS_AT_ONCE: usize = 4_096;

impl Store {
    /// Returns all tenants by ascending identifier, with the figures that override those of their tiers.
    ///
    /// # Errors
    /// [`StoreError::TooWide`] for more than 100,000, [`StoreError::Unavailable`].
    pub async fn terms_of_all(&self, now: Time) -> Result<Vec<(Tenant, Terms)>, StoreError> {
        let (rows, plans, contracts) = self
            .database
            .snapshot(async |database| {
                let tenants = live_tenants().order_by_asc(tenants::Column::Id).limit(MOST_TENANTS + 1);
                let tenants = tenants.all(database).await?;
                Ok::<_, StoreError>((
                    tenants,
                    custom_plans::all(database).await?,
                    contracts::open(database, now).await?,
                ))
            })
            .await?;
        if rows.len() as u64 > MOST_TENANTS {
            return Err(StoreError::TooWide(format!("there are more than {MOST_TENANTS} tenants")));
        }
        let mut by_tenant: BTreeMap<TenantId, Vec<TenantContract>> = BTreeMap::new();
        for contract in contracts {
            by_tenant.entry(contract.tenant).or_default().push(contract);
        }
        let mut all = Vec::with_capacity(rows.len());
        for (number, row) in rows.into_iter().enumerate() {
            let tenant = Tenant::from(row);
            let plan = plans.iter().find(|plan| Some(plan.id) == tenant.custom_plan);
            let contracts = by_tenant.remove(&tenant.id).unwrap_or_default();
            let terms = Terms::of(plan, contracts, now);
            all.push((tenant, terms));
            if number % TENANTS_AT_ONCE == TENANTS_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
        }
        Ok(all)
    }

    /// Returns the figures that override those of a tenant's tier.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn terms(&self, tenant: TenantId, now: Time) -> Result<Terms, StoreError> {
        self.read(async |database| of_tenant(database, tenant, now).await).await
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::any_figures;
    use super::*;
    use crate::ContractId;
    use proptest::prelude::*;
    use rpcgate_core::plan::Tier;

    prop_compose! {
        fn any_contract()(
            figures in any_figures(), from in 0_u64..20, length in prop::option::of(1_u64..20),
        ) -> TenantContract {
            TenantContract {
                id: ContractId(1),
                tenant: TenantId(1),
                figures,
                from: Time::from_secs(from),
                until: length.map(|length| Time::from_secs(from + length)),
                note: String::new(),
                created_at: Time::from_secs(0),
            }
        }
    }

    proptest! {
        // Shows (Plans, bills and payments).
        #[test]
        fn each_figure_comes_from_the_last_contract_in_force_else_from_the_plan(
            own in prop::option::of(any_figures()),
            contracts in prop::collection::vec(any_contract(), 0..6), since in 0_u64..40,
        ) {
            let own = own.map(|figures| CustomPlan {
                id: CustomPlanId(1),
                name: "own".into(),
                base: Tier::Premium,
                is_visible: true,
                figures,
                created_at: Time::from_secs(0),
            });
            let terms = Terms::of(own.as_ref(), contracts.clone(), Time::from_secs(since));
            let mut bound = terms.next_bound(Time::from_secs(since));
            for second in since..45 {
                let now = Time::from_secs(second);
                let figures = terms.figures(now);
                for (index, figure) in figures.list().iter().enumerate() {
                    let mut expected = own.as_ref().and_then(|plan| plan.figures.list()[index].value);
                    for contract in &contracts {
                        let is_on = contract.from <= now && contract.until.is_none_or(|until| now < until);
                        expected = if is_on { contract.figures.list()[index].value.or(expected) } else { expected };
                    }
                    prop_assert_eq!(figure.value, expected, "{} at {}", figure.of.name, second);
                }
                if second > since && terms.figures(Time::from_secs(second - 1)) != figures {
                    prop_assert_eq!(bound, Some(now), "a gateway that waits for the bound sees the change");
                }
                if bound.is_some_and(|bound| bound <= now) {
                    bound = terms.next_bound(now);
                }
                let base = Plan::of(Tier::Premium);
                prop_assert_eq!(terms.plan(base, now), figures.plan(base));
                if terms.is_empty() {
                    prop_assert!(figures.is_empty());
                }
            }
        }
    }
}
