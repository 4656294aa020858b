//! What was used of the windows that run now.

use super::{Scope, all};
use crate::error::ActionError;
use crate::house::House;
use crate::usage::{Cell, Group, Period, UsageView, Window, ask};
use rpcgate_core::caller::{KeyId, ProjectId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Plan;
use std::collections::BTreeSet;

/// The ceiling that gateways hold a project to, by its name in a quota. The other figures of a quota in Compute Units
/// are recorded, and nobody is refused because of them.
pub const ENFORCED_BY: &str = "cu_per_day";

/// The windows that run now.
#[derive(Clone, PartialEq, Debug)]
pub struct Current {
    /// The hour that runs and the 23 before.
    pub rolling: Running,
    /// Since the last UTC midnight. Its requests are those that were counted in the plan windows.
    pub today: Running,
    /// Requests that the plan lets all keys in scope make today, together.
    pub requests_limit: u64,
    /// Since the UTC month began.
    pub month: Running,
}

/// A window that runs now.
#[derive(Clone, PartialEq, Debug)]
pub struct Running {
    /// Its first moment.
    pub from: Time,
    /// The end of the hour that runs.
    pub to: Time,
    /// Compute Units charged.
    pub billable_units: u64,
    /// Requests.
    pub requests: u64,
    /// What the units leave of the ceilings of all projects in scope, added up.
    pub budget: Budget,
    /// Whether gateways refuse calls because of those ceilings, each project's by its own.
    pub enforced: bool,
}

/// What use leaves of a ceiling.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Budget {
    /// The ceiling, where there is one.
    pub limit: Option<u64>,
    /// What is left below it.
    pub remaining: Option<u64>,
    /// Use in hundredths of it.
    pub percent: Option<f64>,
    /// Whether it is reached.
    pub over: bool,
}

impl Budget {
    /// What `used` leaves of `limit`. A ceiling of 0 is reached from the start.
    pub fn of(used: u64, limit: Option<u64>) -> Self {
        let percent = |limit: u64| if limit == 0 { 100.0 } else { used as f64 / limit as f64 * 100.0 };
        Budget {
            limit,
            remaining: limit.map(|limit| limit.saturating_sub(used)),
            percent: limit.map(percent),
            over: limit.is_some_and(|limit| used >= limit),
        }
    }

    /// Without a project there is nothing to use and nothing to be over.
    const NONE: Budget = Budget { limit: Some(0), remaining: Some(0), percent: Some(0.0), over: false };
}

pub(super) async fn current(
    house: &House,
    scope: &Scope,
    project: Option<ProjectId>,
    plan: &Plan,
    rolling: UsageView,
    now: Time,
) -> Result<Current, ActionError> {
    let tenant = scope.tenant.id;
    let running = |view: &UsageView, limit: Option<u64>, enforced: bool| Running {
        from: view.from,
        to: view.to,
        billable_units: view.totals.billable_units,
        requests: view.totals.requests,
        budget: if scope.quotas.is_empty() {
            Budget::NONE
        } else {
            Budget::of(view.totals.billable_units, limit)
        },
        enforced,
    };
    let look = async |ask| house.usage.usage(&ask).await;
    let by_key = all(tenant, project, Window::of(Period::Today, now)).grouped(&[Group::Key])?;
    let today = look(by_key.limited(ask::MOST_ROWS)?).await?;
    let month = look(all(tenant, project, Window::of(Period::Month, now))).await?;
    let requests = admitted(house, &today, now).await?;
    let keys = house.store.active_keys(tenant, project, now).await?;
    Ok(Current {
        rolling: running(&rolling, Some(scope.cu_per_day()), true),
        today: Running { requests, ..running(&today, Some(scope.cu_per_day()), false) },
        requests_limit: plan.per_day.saturating_mul(keys),
        month: running(&month, scope.cu_per_month(), false),
    })
}

/// Requests of the keys in `today` that were counted in the plan windows of the day of `now`.
async fn admitted(house: &House, today: &UsageView, now: Time) -> Result<u64, ActionError> {
    let key = |cells: &[Cell]| match cells {
        [Cell::Key(key)] => Some(*key),
        _ => None,
    };
    let keys: BTreeSet<KeyId> = today.rows.iter().filter_map(|row| key(&row.cells)).collect();
    if keys.is_empty() {
        return Ok(0);
    }
    let counted = house.usage.restore(now).await?.windows;
    let ours = counted.into_iter().filter(|(key, _)| keys.contains(key));
    Ok(ours.fold(0, |sum, (_, [_, _, day])| day.saturating_add(sum)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_is_over_when_it_is_reached_and_not_before() {
        let shown = |used, limit| {
            let budget = Budget::of(used, limit);
            (budget.remaining, budget.percent, budget.over)
        };
        assert_eq!(shown(99, Some(100)), (Some(1), Some(99.0), false));
        assert_eq!(shown(100, Some(100)), (Some(0), Some(100.0), true));
        assert_eq!(shown(175, Some(100)), (Some(0), Some(175.0), true));
        assert_eq!(shown(0, Some(0)), (Some(0), Some(100.0), true));
        assert_eq!(shown(u64::MAX, None), (None, None, false));
    }
}
