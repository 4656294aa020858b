//! `[webhooks]`: deliveries.

use super::fields::{Fields, Table};
use super::problem::Problem;
use super::units::{DAY, HOUR, MILLI, SECOND};
use super::url::Url;
use std::path::PathBuf;
use std::time::Duration;

/// `[webhooks]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Webhooks {
    /// Allows deliveries to private and local addresses, for tests.
    pub allow_private_targets: bool,
    /// The time limit of a receiver.
    pub timeout: Duration,
    /// The total number of attempts.
    pub attempts: u32,
    /// The waiting times before the second attempt, the third and so on.
    pub waits: Vec<Duration>,
    /// The retention of events and their deliveries.
    pub retention: Duration,
    /// An HTTP proxy for connections to receivers.
    pub egress_proxy: Option<Url>,
    /// A PEM file with certificate authorities of receivers, trusted in addition to the public ones.
    pub ca_file: Option<PathBuf>,
    /// The maximum number of concurrent attempts of a dispatcher.
    pub concurrency: u32,
    /// The maximum number of concurrent attempts of a dispatcher to one endpoint.
    pub per_endpoint: u32,
    /// The time with only failures after which an endpoint is switched off; zero: never.
    pub disable_after: Duration,
    /// The blocks of a chain that are read per second while it is behind.
    pub catch_up_per_second: u32,
    /// The maximum number of blocks that a chain may be behind. Further ones are skipped.
    pub catch_up_blocks: u64,
    /// The maximum time to wait for a block that no node shows whole. After it, the watcher skips the block.
    pub block_patience: Duration,
}

impl Default for Webhooks {
    fn default() -> Self {
        let waits = vec![SECOND, 5 * SECOND, 30 * SECOND, 300 * SECOND, 1_800 * SECOND];
        Webhooks {
            allow_private_targets: false,
            timeout: 10 * SECOND,
            attempts: 5,
            waits,
            retention: 30 * DAY,
            egress_proxy: None,
            ca_file: None,
            concurrency: 512,
            per_endpoint: 8,
            disable_after: 3 * DAY,
            catch_up_per_second: 20,
            catch_up_blocks: 100_000,
            block_patience: 600 * SECOND,
        }
    }
}

impl Table for Webhooks {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("allow_private_targets", &mut self.allow_private_targets);
        f.duration("timeout", &mut self.timeout, MILLI..=300 * SECOND);
        f.number("attempts", &mut self.attempts, 1..=20);
        f.value("waits", &mut self.waits);
        f.duration("retention", &mut self.retention, HOUR..=90 * DAY);
        f.url("egress_proxy", &mut self.egress_proxy, &["http"]);
        f.value("ca_file", &mut self.ca_file);
        f.number("concurrency", &mut self.concurrency, 1..=10_000);
        f.number("per_endpoint", &mut self.per_endpoint, 1..=1_000);
        f.duration("disable_after", &mut self.disable_after, Duration::ZERO..=365 * DAY);
        f.number("catch_up_per_second", &mut self.catch_up_per_second, 1..=10_000);
        f.number("catch_up_blocks", &mut self.catch_up_blocks, 1..=100_000_000);
        f.duration("block_patience", &mut self.block_patience, SECOND..=DAY);
        let waits = self.attempts.saturating_sub(1) as usize;
        if self.waits.len() < waits {
            let why =
                format!("has {} entries, but {} attempts need {waits}", self.waits.len(), self.attempts);
            f.wrong(&["waits", "attempts"], |key| Problem::Invalid { key, why });
        }
        if self.waits.iter().any(|wait| *wait > 7 * DAY) {
            f.wrong(&["waits"], |key| Problem::Invalid { key, why: "has an entry longer than 7d".into() });
        }
    }
}
