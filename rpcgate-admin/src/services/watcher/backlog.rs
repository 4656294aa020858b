//! Counts of waiting deliveries per endpoint, so that an endpoint that accepts none does not fill the database.

use parking_lot::Mutex;
use rpcgate_core::clock::Time;
use rpcgate_store::{MatchedSubscription, Store, StoreError, WebhookId};
use std::collections::HashMap;
use std::time::Duration;

/// The maximum number of waiting deliveries of an endpoint. An endpoint that accepts 100 a second clears this number in
/// about a quarter of an hour. Above it, deliveries are withheld: their events stay in the log, and a replay sends
/// them.
pub(super) const MOST_WAITING: u64 = 100_000;

/// The time for which a count is trusted. Additions of other watchers may exceed the bound meanwhile.
const TRUSTED: Duration = Duration::from_secs(10);

/// The number of stored counts above which old ones are dropped.
const KEPT: usize = 100_000;

/// The maximum number of deliveries that are counted together. A count has to end within the deadline of reads, even if
/// many endpoints accept none.
const COUNTED: u64 = 200_000;

/// The assumed number of deliveries of an endpoint that has not been counted.
const EXPECTED: u64 = COUNTED / 5;

/// The maximum number of endpoints that are counted together.
const ENDPOINTS: usize = 500;

#[derive(Clone, Copy, Debug)]
struct WaitingCount {
    waiting: u64,
    at: Time,
}

/// The counts of one process, for all chains.
#[derive(Debug)]
pub(super) struct Backlogs {
    counts: Mutex<HashMap<WebhookId, WaitingCount>>,
    most: u64,
}

impl Default for Backlogs {
    fn default() -> Self {
        Self::up_to(MOST_WAITING)
    }
}

impl Backlogs {
    /// Limits the waiting deliveries of an endpoint to `most`.
    pub(super) fn up_to(most: u64) -> Self {
        Backlogs { counts: Mutex::default(), most }
    }

    /// Makes sure that each of these endpoints has a fresh count.
    pub(super) async fn count(
        &self,
        store: &Store,
        endpoints: Vec<WebhookId>,
        now: Time,
    ) -> Result<(), StoreError> {
        let mut unknown: Vec<_> = {
            let counts = self.counts.lock();
            // A clock that was set back must not extend the use of a count, because a count only grows.
            let is_old = |count: &WaitingCount| now < count.at || now.since(count.at) > TRUSTED;
            endpoints.into_iter().filter(|endpoint| counts.get(endpoint).is_none_or(is_old)).collect()
        };
        unknown.sort_unstable();
        unknown.dedup();
        if unknown.is_empty() {
            return Ok(());
        }
        let mut counted = HashMap::with_capacity(unknown.len());
        for group in self.groups(&unknown) {
            counted.extend(store.waiting_deliveries(&group).await?);
        }
        let mut counts = self.counts.lock();
        if counts.len() > KEPT {
            counts.retain(|_, count| now.since(count.at) <= TRUSTED);
        }
        for endpoint in unknown {
            let waiting = counted.get(&endpoint).copied().unwrap_or_default();
            counts.insert(endpoint, WaitingCount { waiting, at: now });
        }
        Ok(())
    }

    /// Splits the endpoints into groups that are counted together.
    fn groups(&self, endpoints: &[WebhookId]) -> Vec<Vec<WebhookId>> {
        let counts = self.counts.lock();
        let mut groups = Vec::new();
        let mut group = Vec::new();
        let mut sum = 0;
        for endpoint in endpoints {
            let expected = counts.get(endpoint).map_or(EXPECTED, |count| count.waiting);
            if !group.is_empty() && (group.len() == ENDPOINTS || sum + expected > COUNTED) {
                groups.push(std::mem::take(&mut group));
                sum = 0;
            }
            group.push(*endpoint);
            sum += expected;
        }
        groups.push(group);
        groups
    }

    /// Decides whether one more delivery may wait, and reports the decision.
    pub(super) fn admit(&self, matched: &mut MatchedSubscription) -> bool {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&matched.webhook) {
            matched.is_delivered = count.waiting < self.most;
            count.waiting += u64::from(matched.is_delivered);
        }
        matched.is_delivered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Webhooks).
    #[test]
    fn endpoints_with_many_waiting_deliveries_are_counted_in_small_groups() {
        let backlogs = Backlogs::default();
        let sizes = |first: u128, number: u128| -> Vec<usize> {
            let endpoints: Vec<_> = (first..first + number).map(WebhookId).collect();
            let groups = backlogs.groups(&endpoints);
            assert_eq!(groups.concat(), endpoints);
            groups.iter().map(Vec::len).collect()
        };
        assert_eq!(sizes(0, 12), [5, 5, 2], "not counted yet");
        for (first, waiting) in [(1_000, 3), (10_000, MOST_WAITING)] {
            for id in first..first + 1_001 {
                let count = WaitingCount { waiting, at: Time::from_micros(0) };
                backlogs.counts.lock().insert(WebhookId(id), count);
            }
        }
        assert_eq!(sizes(1_000, 1_001), [500, 500, 1]);
        assert_eq!(sizes(10_000, 5), [2, 2, 1]);
    }
}
