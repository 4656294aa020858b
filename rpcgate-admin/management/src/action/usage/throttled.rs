//! Keys whose limits the gateways' safeguard has scaled down after a storm of refusals.

use super::Scope;
use crate::action::operator::nodes::at_work;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::{KeyId, ProjectId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Plan;
use rpcgate_core::safeguard::CoolDown;
use std::collections::BTreeMap;

/// The remaining limits of a key that is scaled down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThrottledKey {
    /// The key.
    pub key: KeyId,
    /// Its project.
    pub project: ProjectId,
    /// The end of the scaling.
    pub until: Time,
    /// Requests per UTC minute.
    pub per_minute: u64,
    /// Requests per UTC hour.
    pub per_hour: u64,
    /// Requests per UTC day.
    pub per_day: u64,
    /// Requests per second, if the project has such a limit.
    pub rps_limit: Option<u64>,
}

/// Returns the keys in `scope` that a running gateway has scaled down, by key. Each gateway counts on its own. If
/// several have scaled a key down, the result has the smallest limits and the latest end.
pub(super) async fn throttled(
    app: &AppState,
    scope: &Scope,
    plan: &Plan,
    now: Time,
) -> Result<Vec<ThrottledKey>, ActionError> {
    let mut keys: BTreeMap<KeyId, CoolDown> = BTreeMap::new();
    for report in app.store.throttled_keys(scope.tenant.id, at_work(now), now).await? {
        let known = keys.entry(report.key).or_insert(report);
        (known.percent, known.end) = (known.percent.min(report.percent), known.end.max(report.end));
    }
    // The keys of a deleted project make no calls.
    let remaining = |throttled: CoolDown| {
        let (_, quota) = scope.quotas.iter().find(|(project, _)| *project == throttled.project)?;
        Some(ThrottledKey {
            key: throttled.key,
            project: throttled.project,
            until: throttled.end,
            per_minute: throttled.scale(plan.per_minute),
            per_hour: throttled.scale(plan.per_hour),
            per_day: throttled.scale(plan.per_day),
            rps_limit: quota.rps_limit.map(|limit| throttled.scale(limit)),
        })
    };
    Ok(keys.into_values().filter_map(remaining).collect())
}
