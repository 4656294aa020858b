//! The phase of a chain's health: Degraded after three failed probes, five seconds apart, and Healthy again after a
//! successful one.

use rpcgate_core::event::HealthPhase;
use rpcgate_core::tally::Transport;
use rpcgate_layers::nodes::{NodeView, Pool};
use std::time::Duration;

/// The interval of checks.
pub(super) const EVERY: Duration = Duration::from_secs(5);

/// The number of consecutive failed checks that make a chain degraded.
const MISSES: u32 = 3;

/// Returns the time between two probes of a chain whose nodes are probed at this interval, so that no failed probe
/// counts twice.
pub(super) fn between_probes(interval: Duration) -> Duration {
    interval.min(EVERY)
}

#[derive(Debug, Default)]
pub(super) struct HealthWatch {
    missed: u32,
}

impl HealthWatch {
    /// Records whether a node is fit, if that is known, and returns the phase, if it is clear.
    pub(super) fn look(&mut self, is_fit: Option<bool>) -> Option<HealthPhase> {
        match is_fit {
            None => None,
            Some(true) => {
                self.missed = 0;
                Some(HealthPhase::Healthy)
            }
            Some(false) => {
                self.missed = self.missed.saturating_add(1).min(MISSES);
                (self.missed == MISSES).then_some(HealthPhase::Degraded)
            }
        }
    }
}

/// Reports whether a node of the pool answers and is not behind, or returns `None` if none was probed yet.
pub(super) fn is_fit(pool: &Pool) -> Option<bool> {
    let is_probed = pool.has(Transport::Http);
    let is_known = |node: &NodeView<'_>| !is_probed || node.height.is_some() || node.misses > 0;
    if !pool.nodes().any(|node| is_known(&node) || !node.health.is_fit()) {
        return None;
    }
    Some(pool.nodes().any(|node| is_known(&node) && node.health.is_fit() && node.misses == 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use HealthPhase::{Degraded, Healthy};

    // Shows (Webhooks).
    #[test]
    fn nodes_are_probed_at_the_health_interval_or_every_five_seconds() {
        let second = Duration::from_secs(1);
        assert_eq!(
            [1, 5, 6, 86_400].map(|interval| between_probes(interval * second).as_secs()),
            [1, 5, 5, 5]
        );
    }

    // Shows (Webhooks): A chain is Degraded after three failed probes 5 s apart, and Healthy after a good one; each
    // change is reported once.
    #[test]
    fn three_failed_looks_make_it_degraded_and_one_good_one_healthy() {
        let mut watch = HealthWatch::default();
        let looks = [None, Some(false), Some(false), Some(true), Some(false), Some(false), Some(false)];
        let phases: Vec<_> = looks.into_iter().map(|fit| watch.look(fit)).collect();
        assert_eq!(phases, [None, None, None, Some(Healthy), None, None, Some(Degraded)]);
        assert_eq!(watch.look(Some(false)), Some(Degraded));
        assert_eq!(watch.look(None), None);
        assert_eq!(watch.look(Some(true)), Some(Healthy));
    }
}
