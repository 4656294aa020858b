//! Keys that the gateways' safeguard has cooled down after a storm of refusals.

use super::Scope;
use crate::management::action::operator::nodes::at_work;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use rpcgate_core::caller::{KeyId, ProjectId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Plan;
use rpcgate_core::safeguard::Cooled;
use std::collections::BTreeMap;

/// What is left of the limits of a key that is cooled down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CooledKey {
    /// The key.
    pub key: KeyId,
    /// Its project.
    pub project: ProjectId,
    /// Until when.
    pub until: Time,
    /// Requests in a UTC minute.
    pub per_minute: u64,
    /// Requests in a UTC hour.
    pub per_hour: u64,
    /// Requests in a UTC day.
    pub per_day: u64,
    /// Requests in a second, where the project has such a bound.
    pub rps_limit: Option<u64>,
}

/// The keys in `scope` that a gateway at work has cooled down, by key. Each gateway counts for itself: where several have
/// cooled a key down, the smallest limits are told, and until when the last of them holds to them.
pub(super) async fn cooled(
    app: &AppState,
    scope: &Scope,
    plan: &Plan,
    now: Time,
) -> Result<Vec<CooledKey>, ActionError> {
    let mut keys: BTreeMap<KeyId, Cooled> = BTreeMap::new();
    for told in app.store.cooled_keys(scope.tenant.id, at_work(now), now).await? {
        let known = keys.entry(told.key).or_insert(told);
        (known.percent, known.end) = (known.percent.min(told.percent), known.end.max(told.end));
    }
    // A key of a project that was deleted calls no more.
    let left = |cooled: Cooled| {
        let (_, quota) = scope.quotas.iter().find(|(project, _)| *project == cooled.project)?;
        Some(CooledKey {
            key: cooled.key,
            project: cooled.project,
            until: cooled.end,
            per_minute: cooled.scale(plan.per_minute),
            per_hour: cooled.scale(plan.per_hour),
            per_day: cooled.scale(plan.per_day),
            rps_limit: quota.rps_limit.map(|limit| cooled.scale(limit)),
        })
    };
    Ok(keys.into_values().filter_map(left).collect())
}
