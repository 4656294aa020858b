//! Metrics of the chain watcher.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use rpcgate_store::MatchedEvent;

type Labels = Vec<(&'static str, &'static str)>;

/// Metrics of the watcher, by chain. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct WatchMetrics {
    height: Family<Labels, Gauge>,
    behind: Family<Labels, Gauge>,
    lag: Family<Labels, Gauge>,
    events: Family<Labels, Counter>,
    withheld: Family<Labels, Counter>,
    reorganisations: Family<Labels, Counter>,
    taken_back: Family<Labels, Counter>,
    lost: Family<Labels, Counter>,
    skipped: Family<Labels, Counter>,
    unread: Family<Labels, Counter>,
}

fn labels(chain: &'static str) -> Labels {
    vec![("chain", chain)]
}

fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl WatchMetrics {
    /// Adds the metrics to a registry.
    pub fn register(&self, registry: &mut Registry) {
        let r = registry;
        r.register("watched_height", "The newest block whose events are stored", self.height.clone());
        r.register("watched_blocks_behind", "Blocks of the nodes that are not read yet", self.behind.clone());
        let help = "Age of the newest block whose events are stored";
        r.register_with_unit("watched_lag", help, Unit::Seconds, self.lag.clone());
        r.register("watched_events", "Events that subscriptions match, by type", self.events.clone());
        let help = "Deliveries that were not made because too many of the endpoint are waiting";
        r.register("withheld_deliveries", help, self.withheld.clone());
        r.register("reorganisations", "Reorganisations that were followed", self.reorganisations.clone());
        r.register("taken_back_blocks", "Blocks that were reverted", self.taken_back.clone());
        let help = "Reorganisations that reached below every known block";
        r.register("lost_reorganisations", help, self.lost.clone());
        r.register("skipped_blocks", "Blocks that were skipped after an outage", self.skipped.clone());
        let help = "Blocks that were reported without their events, which no node showed";
        r.register("unread_blocks", help, self.unread.clone());
    }

    /// Records that the chain was followed up to this height.
    pub fn followed(&self, chain: &'static str, height: u64, behind: u64, lag_seconds: i64) {
        let labels = labels(chain);
        self.height.get_or_create(&labels).set(gauge(height));
        self.behind.get_or_create(&labels).set(gauge(behind));
        self.lag.get_or_create(&labels).set(lag_seconds.max(0));
    }

    /// Removes the gauges of a chain that is no longer followed here.
    pub fn forget(&self, chain: &'static str) {
        let labels = labels(chain);
        for gauges in [&self.height, &self.behind, &self.lag] {
            gauges.remove(&labels);
        }
    }

    /// Counts stored events.
    pub fn count_events(&self, chain: &'static str, events: &[MatchedEvent]) {
        events.iter().for_each(|event| self.count(chain, event.event.kind.name()));
    }

    /// Counts an event.
    pub fn count(&self, chain: &'static str, event_type: &'static str) {
        self.events.get_or_create(&vec![("chain", chain), ("event_type", event_type)]).inc();
    }

    /// Counts deliveries that were not made.
    pub fn withheld(&self, chain: &'static str, deliveries: u64) {
        if deliveries > 0 {
            self.withheld.get_or_create(&labels(chain)).inc_by(deliveries);
        }
    }

    /// Counts a reorganisation that removed `depth` blocks.
    pub fn reorganised(&self, chain: &'static str, depth: usize) {
        self.reorganisations.get_or_create(&labels(chain)).inc();
        self.taken_back.get_or_create(&labels(chain)).inc_by(depth as u64);
    }

    /// Counts that no known block is part of the chain any more.
    pub fn lost(&self, chain: &'static str) {
        self.lost.get_or_create(&labels(chain)).inc();
    }

    /// Counts a block whose events could not be read.
    pub fn unread(&self, chain: &'static str) {
        self.unread.get_or_create(&labels(chain)).inc();
    }

    /// Counts blocks that were not read.
    pub fn skipped(&self, chain: &'static str, blocks: u64) {
        self.skipped.get_or_create(&labels(chain)).inc_by(blocks);
    }
}
