use crate::call::heavy::Heavy;
use crate::call::pace::Pace;
use crate::nodes::{Pool, watch_head};
use crate::request::safeguard::Safeguard;
use crate::stack::Parts;
use crate::websocket::OpenStreams;
use futures_util::future::{join_all, join3};
use rpcgate_core::backend::counters::Counters;
use rpcgate_core::chain::Chain;
use rpcgate_core::clock::{Clock, Time};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// The interval at which the clock is read.
const LOOK: Duration = Duration::from_secs(1);
/// The number of reads between two sweeps while the clock goes forward.
const SWEEP: u32 = 30;

/// The background work of a stack. It sweeps counters in memory, so that idle callers use none. It probes the nodes, so
/// that the cache knows which answers are final and the pools know which node to use. And it ends the streams of keys
/// that may not have any. A stack also works without it, but then its memory grows with its callers, it does not know
/// the height of its chains, and it keeps such streams open.
///
/// A [`GatewayBuilder`](super::GatewayBuilder) spawns the housekeeping itself. An embedder that builds a stack from
/// [`Parts`] spawns [`run`](Housekeeping::run), and drops or aborts that task together with the stack.
#[derive(Debug)]
#[must_use = "it does nothing unless it runs"]
pub struct Housekeeping {
    clock: Arc<dyn Clock>,
    counters: Arc<dyn Counters>,
    heavy: Arc<Heavy>,
    pace: Arc<Pace>,
    safeguard: Arc<Safeguard>,
    streams: Arc<OpenStreams>,
    probes: Vec<(Arc<Pool>, Arc<Chain>, Duration)>,
}

impl Housekeeping {
    /// Creates the housekeeping of a stack that is built from `parts`.
    pub fn of(parts: &Parts) -> Self {
        Housekeeping {
            clock: parts.accounting.clock.clone(),
            counters: parts.accounting.counters.clone(),
            heavy: parts.heavy.clone(),
            pace: parts.pace.clone(),
            safeguard: parts.safeguard.clone(),
            streams: parts.streams.clone(),
            probes: Vec::new(),
        }
    }

    /// Also probes the nodes of `pool`, which belongs to `chain`, every `every`. This is for pools that are never
    /// replaced; others have their own tasks ([`watch_head`]).
    pub fn with_probes(mut self, pool: Arc<Pool>, chain: Arc<Chain>, every: Duration) -> Self {
        self.probes.push((pool, chain, every));
        self
    }

    /// Runs until it is dropped. It needs tokio's timer.
    pub async fn run(mut self) {
        let probes = std::mem::take(&mut self.probes);
        let probes = join_all(probes.into_iter().map(|(pool, chain, every)| watch_head(pool, chain, every)));
        join3(probes, self.sweeps(), self.streams.watch()).await;
    }

    /// Sweeps at intervals, and as soon as it notices that the clock was set back.
    async fn sweeps(&self) {
        let mut tick = interval(LOOK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = self.clock.now();
        let mut looks = 0;
        loop {
            tick.tick().await;
            let now = self.clock.now();
            looks = if now < last { SWEEP } else { looks + 1 };
            last = now;
            if looks >= SWEEP {
                looks = 0;
                self.sweep(now);
            }
        }
    }

    fn sweep(&self, now: Time) {
        self.counters.sweep(now);
        self.heavy.sweep(now);
        self.pace.sweep(now);
        self.safeguard.sweep(now);
    }
}
