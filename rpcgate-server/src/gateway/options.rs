//! The options of a gateway in addition to its configuration, with defaults from the configuration.

use crate::counting::Counting;
use crate::journal::Journal;
use crate::start_error::StartError;
use crate::state::{Keys, State};
use rpcgate_config::Config;
use rpcgate_core::backend::counters::MemoryCounters;
use rpcgate_core::backend::directory::Directory;
use rpcgate_core::backend::usage_sink::{MemoryUsageSink, UsageSink};
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_layers::redis::NoSeed;
use rpcgate_process::file_handles::MAX_CONNECTIONS;
use std::sync::Arc;

/// The options of a start that are not in the configuration.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The persistent state: the journal, the counters, and the keys of the management database, which are looked up
    /// after those of the configuration. The gateway is ready only while its state is, and closes the state at the end
    /// of a drain. If absent, nothing persists except what the next three fields store elsewhere.
    pub state: Option<Arc<State>>,
    /// The sink of records. If absent, the journal of `state`; without a state records are dropped and the log says so.
    pub sink: Option<Arc<dyn UsageSink>>,
    /// The directory of callers. If absent, the configuration's keys, which a reload replaces, and those of `state`.
    pub directory: Option<Arc<dyn Directory>>,
    /// Counters in this process with their present counts. If absent, the configured ones: in Redis, or in this
    /// process, restored from `state`.
    pub counters: Option<Arc<MemoryCounters>>,
    /// The maximum number of open client connections over all listeners; one more is answered 503 and closed. All but
    /// 1/32 of them may be WebSocket streams; further handshakes are refused with 503, while calls are still answered.
    pub connections: usize,
}

impl Default for StartOptions {
    /// Returns the system clock, in-memory state, the configuration's keys and 32,768 connections.
    fn default() -> Self {
        StartOptions {
            clock: Arc::new(SystemClock::new()),
            state: None,
            sink: None,
            directory: None,
            counters: None,
            connections: MAX_CONNECTIONS,
        }
    }
}

/// The backends that result from [`StartOptions`] and a configuration.
pub(super) struct Resolved {
    /// The keys that a reload replaces; `None` if the options supplied a directory.
    pub(super) keys: Option<Arc<Keys>>,
    pub(super) directory: Arc<dyn Directory>,
    pub(super) sink: Arc<dyn UsageSink>,
    /// The journal, if it is the sink.
    pub(super) journal: Option<Arc<Journal>>,
    pub(super) counting: Counting,
}

impl StartOptions {
    /// Returns the maximum number of open WebSocket streams.
    pub fn streams(&self) -> u32 {
        let streams = self.connections - self.connections / 32;
        u32::try_from(streams).unwrap_or(u32::MAX)
    }

    /// Fills absent options from `config`. Must run inside a tokio runtime.
    pub(super) fn resolve(self, config: &Config) -> Result<Resolved, StartError> {
        let StartOptions { state, sink, directory, counters, .. } = self;
        let (keys, directory) = match directory {
            Some(directory) => (None, directory),
            None => {
                let keys = Arc::new(Keys::new(config, state.as_ref().map(|state| state.directory())));
                (Some(keys.clone()), keys as Arc<dyn Directory>)
            }
        };
        let (sink, journal) = match (sink, &state) {
            (Some(sink), _) => (sink, None),
            (None, Some(state)) => (state.sink(), Some(state.journal().clone())),
            (None, None) => {
                tracing::warn!("usage is metered but not stored: there is no usage sink");
                // Nothing in this process reads records, so the sink keeps none.
                (Arc::new(MemoryUsageSink::bounded(0)) as Arc<dyn UsageSink>, None)
            }
        };
        let counting = match (counters, &state) {
            (Some(counters), _) => Counting::Here(counters),
            (None, Some(state)) => state.counters(),
            (None, None) => Counting::open(config, Arc::new(NoSeed))?,
        };
        Ok(Resolved { keys, directory, sink, journal, counting })
    }
}
