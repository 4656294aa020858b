//! The usage of the current windows.

use super::Scope;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Plan;
use rpcgate_core::usage::{Period, UsageWindow};
use rpcgate_store::Spent;
use std::collections::BTreeMap;

/// The enforced ceiling of a project, by its name in a quota. The other limits of a quota in Compute Units are
/// recorded, but gateways do not refuse calls because of them.
pub const ENFORCED_BY: &str = "cu_per_day";

/// The current windows: the usage of the projects in scope, compared with their ceilings. A deleted project no longer
/// has a ceiling, so its usage is left out here; it stays in rows and totals.
#[derive(Clone, PartialEq, Debug)]
pub struct CurrentUsage {
    /// The current hour and the 23 before.
    pub rolling: CurrentWindow,
    /// Since the last UTC midnight. Its requests are those counted in the plan windows.
    pub today: CurrentWindow,
    /// The requests that the plan allows all keys in scope today, in total.
    pub requests_limit: u64,
    /// Since the begin of the UTC month.
    pub month: CurrentWindow,
}

/// A window that contains the current time.
#[derive(Clone, PartialEq, Debug)]
pub struct CurrentWindow {
    /// The begin.
    pub from: Time,
    /// The end of the current hour.
    pub to: Time,
    /// The charged Compute Units.
    pub billable_units: u64,
    /// The requests.
    pub requests: u64,
    /// The sum of the remaining ceilings of all projects in scope.
    pub budget: Budget,
    /// True if gateways refuse calls because of those ceilings, each project by its own.
    pub enforced: bool,
}

/// The remainder of a ceiling.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Budget {
    /// The ceiling, if there is one.
    pub limit: Option<u64>,
    /// The amount below it.
    pub remaining: Option<u64>,
    /// The used part in percent.
    pub percent: Option<f64>,
    /// True if it is reached.
    pub over: bool,
}

impl Budget {
    /// Computes the remainder of `limit` after `used`. A ceiling of 0 is reached from the start.
    pub fn of(used: u64, limit: Option<u64>) -> Self {
        let percent = |limit: u64| if limit == 0 { 100.0 } else { used as f64 / limit as f64 * 100.0 };
        Budget {
            limit,
            remaining: limit.map(|limit| limit.saturating_sub(used)),
            percent: limit.map(percent),
            over: limit.is_some_and(|limit| used >= limit),
        }
    }

    /// Without a project nothing can be used and no ceiling reached.
    const NONE: Budget = Budget { limit: Some(0), remaining: Some(0), percent: Some(0.0), over: false };
}

/// A current window, with the usage of each project in it.
pub(super) struct WindowUsage {
    window: UsageWindow,
    by_project: BTreeMap<ProjectId, Spent>,
}

impl WindowUsage {
    pub(super) async fn of(
        app: &AppState,
        scope: &Scope,
        period: Period,
        now: Time,
    ) -> Result<Self, ActionError> {
        let window = UsageWindow::of(period, now);
        let by_project = app.usage.spent(scope.tenant.id, scope.requested, &window).await?;
        Ok(WindowUsage { window, by_project })
    }

    pub(super) fn by(&self, project: ProjectId) -> Spent {
        self.by_project.get(&project).copied().unwrap_or_default()
    }

    fn within(&self, scope: &Scope) -> Spent {
        scope.quotas.iter().fold(Spent::default(), |sum, (project, _)| sum.plus(self.by(*project)))
    }

    fn current_window(&self, scope: &Scope, limit: Option<u64>, enforced: bool) -> CurrentWindow {
        let Spent { requests, billable_units, .. } = self.within(scope);
        let budget = if scope.quotas.is_empty() { Budget::NONE } else { Budget::of(billable_units, limit) };
        let from = self.window.from();
        let to = self.window.to();
        CurrentWindow { from, to, billable_units, requests, budget, enforced }
    }
}

pub(super) async fn current(
    app: &AppState,
    scope: &Scope,
    plan: &Plan,
    rolling: &WindowUsage,
    now: Time,
) -> Result<CurrentUsage, ActionError> {
    let today = WindowUsage::of(app, scope, Period::Today, now).await?;
    let month = WindowUsage::of(app, scope, Period::Month, now).await?;
    let keys = app.store.active_keys(scope.tenant.id, scope.requested, now).await?;
    let per_day = Some(scope.cu_per_day());
    let requests = today.within(scope).admitted;
    Ok(CurrentUsage {
        rolling: rolling.current_window(scope, per_day, true),
        today: CurrentWindow { requests, ..today.current_window(scope, per_day, false) },
        requests_limit: plan.per_day.saturating_mul(keys),
        month: month.current_window(scope, scope.cu_per_month(), false),
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
