//! What was used of the windows that run now.

use super::Scope;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::store::Spent;
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Plan;
use rpcgate_core::usage::{Period, UsageWindow};
use std::collections::BTreeMap;

/// The ceiling that gateways hold a project to, by its name in a quota. The other figures of a quota in Compute Units
/// are recorded, and nobody is refused because of them.
pub const ENFORCED_BY: &str = "cu_per_day";

/// The windows that run now. They count what the projects in scope have used, whose ceilings they are measured against: a
/// project that was deleted has no ceiling any more, so what it used is left out. It stays in rows and totals.
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

/// A window that runs now, and what each project has used in it.
pub(super) struct Used {
    window: UsageWindow,
    by_project: BTreeMap<ProjectId, Spent>,
}

impl Used {
    pub(super) async fn of(
        app: &AppState,
        scope: &Scope,
        period: Period,
        now: Time,
    ) -> Result<Self, ActionError> {
        let window = UsageWindow::of(period, now);
        let by_project = app.usage.spent(scope.tenant.id, scope.asked, &window).await?;
        Ok(Used { window, by_project })
    }

    /// What one project has used.
    pub(super) fn by(&self, project: ProjectId) -> Spent {
        self.by_project.get(&project).copied().unwrap_or_default()
    }

    /// What all projects of `scope` have used.
    fn within(&self, scope: &Scope) -> Spent {
        scope.quotas.iter().fold(Spent::default(), |sum, (project, _)| sum.plus(self.by(*project)))
    }

    fn running(&self, scope: &Scope, limit: Option<u64>, enforced: bool) -> Running {
        let Spent { requests, billable_units, .. } = self.within(scope);
        let budget = if scope.quotas.is_empty() { Budget::NONE } else { Budget::of(billable_units, limit) };
        let (from, to) = (self.window.from(), self.window.to());
        Running { from, to, billable_units, requests, budget, enforced }
    }
}

pub(super) async fn current(
    app: &AppState,
    scope: &Scope,
    plan: &Plan,
    rolling: &Used,
    now: Time,
) -> Result<Current, ActionError> {
    let today = Used::of(app, scope, Period::Today, now).await?;
    let month = Used::of(app, scope, Period::Month, now).await?;
    let keys = app.store.active_keys(scope.tenant.id, scope.asked, now).await?;
    let per_day = Some(scope.cu_per_day());
    let requests = today.within(scope).admitted;
    Ok(Current {
        rolling: rolling.running(scope, per_day, true),
        today: Running { requests, ..today.running(scope, per_day, false) },
        requests_limit: plan.per_day.saturating_mul(keys),
        month: month.running(scope, scope.cu_per_month(), false),
    })
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
