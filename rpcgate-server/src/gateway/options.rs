//! The options of a gateway beside its configuration, and their defaults from the configuration.

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

/// What a gateway is started with beside its configuration.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What outlives the process: its journal, its counters, and the keys of the management database, which are looked
    /// up after those of the configuration. The gateway becomes ready when its state is, and closes it at the end of a
    /// drain. If absent, only the state that the next three fields store elsewhere outlives the process.
    pub state: Option<Arc<State>>,
    /// Where records go. If absent, to the journal of `state`. Without a state either, they are dropped, and the log
    /// says so.
    pub sink: Option<Arc<dyn UsageSink>>,
    /// The callers. If absent, the keys of the configuration, which a reload replaces, and those of `state`.
    pub directory: Option<Arc<dyn Directory>>,
    /// Counters in this process, with their present counts. If absent, those of the configuration: in Redis,
    /// or in this process, continuing from what `state` restores.
    pub counters: Option<Arc<MemoryCounters>>,
    /// Client connections that may be open at a time, over all listeners; one more is answered 503 and closed. All but a 32nd
    /// of them may be WebSocket streams; the handshake of one more is refused with 503, while calls are still answered.
    pub connections: usize,
}

impl Default for StartOptions {
    /// The system's clock, memory and the configuration's keys; 32,768 connections.
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
    /// The keys that a reload replaces; `None` if the directory came with the options.
    pub(super) keys: Option<Arc<Keys>>,
    pub(super) directory: Arc<dyn Directory>,
    pub(super) sink: Arc<dyn UsageSink>,
    /// The journal, if it is the sink.
    pub(super) journal: Option<Arc<Journal>>,
    pub(super) counting: Counting,
}

impl StartOptions {
    /// WebSocket streams that may be open at a time.
    pub fn streams(&self) -> u32 {
        let streams = self.connections - self.connections / 32;
        u32::try_from(streams).unwrap_or(u32::MAX)
    }

    /// Fills absent options from `config`. Runs inside a tokio runtime.
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
                tracing::warn!("usage is metered but not kept: there is no usage sink");
                // Nothing in this process reads records, so it keeps none.
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
