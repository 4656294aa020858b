//! The calls that nodes have received this month, which persist across restarts and are shared by gateways that count
//! together.
//!
//! Once a second the counts go to a file in the gateway's folder, if it has one, and to Redis, if it is configured. A
//! clean shutdown writes them once more. A killed gateway loses the calls of its last second, unless Redis has them.

mod file;

use crate::counting;
use crate::start_error::StartError;
use crate::state::State;
use file::SpendingFile;
use parking_lot::Mutex;
use rpcgate_config::Config;
use rpcgate_core::clock::Clock;
use rpcgate_core::journal::GatewayId;
use rpcgate_layers::nodes::{NodeMonth, NodeSpendings};
use rpcgate_layers::redis::{NotShared, SharedNodeMonths};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The interval of saves.
const EVERY: Duration = Duration::from_secs(1);
/// The time limit of the final save.
const LAST: Duration = Duration::from_secs(2);

/// Saves the counts until it is closed or dropped.
#[derive(Debug)]
pub(crate) struct NodeSpendingStore {
    closing: CancellationToken,
    work: Mutex<Option<JoinHandle<()>>>,
}

impl NodeSpendingStore {
    /// Restores the counts from before a restart and starts to save them. Must run inside a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`] if Redis cannot be used as it is configured.
    pub(crate) fn start(
        config: &Config,
        state: Option<&State>,
        spendings: Arc<NodeSpendings>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let gateway = state.map_or_else(|| GatewayId::new(clock.now()), |state| state.journal().gateway());
        let file = state.map(|_| SpendingFile::in_folder(&config.journal.dir));
        let redis = counting::settings(config);
        let shared =
            redis.map(|settings| SharedNodeMonths::new(&settings, &gateway.to_string())).transpose()?;
        Ok(Self::run(file, shared, spendings, clock))
    }

    fn run(
        file: Option<SpendingFile>,
        shared: Option<SharedNodeMonths>,
        spendings: Arc<NodeSpendings>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let restored = file.as_ref().map(SpendingFile::read).transpose().unwrap_or_else(|error| {
            tracing::error!(
                "the calls made to nodes this month cannot be read and are counted from 0: {error}"
            );
            None
        });
        let restored = restored.unwrap_or_default();
        spendings.restore(&restored, clock.now());
        let closing = CancellationToken::new();
        let work = SpendingWork {
            file,
            shared,
            spendings,
            clock,
            restored: Some(restored.clone()),
            written: restored,
            is_written: true,
            is_shared: true,
        };
        let work = tokio::spawn(work.run(closing.clone()));
        NodeSpendingStore { closing, work: Mutex::new(Some(work)) }
    }

    /// Saves the counts once more, after the last call. A second close does nothing.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        let work = self.work.lock().take();
        if let Some(mut work) = work
            && tokio::time::timeout(LAST, &mut work).await.is_err()
        {
            tracing::warn!("the calls made to nodes in the last second were not stored in time");
            work.abort();
        }
    }
}

impl Drop for NodeSpendingStore {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

struct SpendingWork {
    file: Option<SpendingFile>,
    shared: Option<SharedNodeMonths>,
    spendings: Arc<NodeSpendings>,
    clock: Arc<dyn Clock>,
    /// The content of the file at the start, until it is compared with this gateway's counts in Redis.
    restored: Option<Vec<NodeMonth>>,
    /// The present content of the file.
    written: Vec<NodeMonth>,
    /// The result of the last write, so that a failure is logged once.
    is_written: bool,
    is_shared: bool,
}

impl SpendingWork {
    async fn run(mut self, closing: CancellationToken) {
        loop {
            let is_closing = closing.is_cancelled();
            self.write().await;
            self.share().await;
            if is_closing {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = closing.cancelled() => {}
            }
        }
    }

    async fn write(&mut self) {
        let Some(file) = self.file.clone() else { return };
        let months = self.spendings.months(self.clock.now());
        if months == self.written {
            return;
        }
        let content = months.clone();
        let done = tokio::task::spawn_blocking(move || file.write(&content)).await;
        match done {
            Ok(Ok(())) => (self.written, self.is_written) = (months, true),
            Ok(Err(error)) => {
                if std::mem::take(&mut self.is_written) {
                    tracing::error!("the calls made to nodes this month cannot be stored: {error}");
                }
            }
            Err(error) => tracing::error!("the calls made to nodes were not stored: {error}"),
        }
    }

    async fn share(&mut self) {
        match self.exchange().await {
            Ok(()) => self.is_shared = true,
            Err(why) => {
                if std::mem::take(&mut self.is_shared) {
                    tracing::warn!("redis: {why}; this gateway counts only its own calls to nodes");
                }
            }
        }
    }

    async fn exchange(&mut self) -> Result<(), NotShared> {
        let Some(shared) = &mut self.shared else { return Ok(()) };
        if let Some(restored) = &self.restored {
            let months = self.spendings.months(self.clock.now());
            let names: Vec<_> = months.iter().map(name).collect();
            let former = shared.former(&names).await?;
            // A killed gateway may have sent more to Redis than it wrote to its file.
            let more = months.into_iter().zip(former).map(|(month, former)| {
                let known = restored.iter().find(|known| name(known) == name(&month));
                let calls = former.saturating_sub(known.map_or(0, |known| known.calls));
                NodeMonth { calls, ..month }
            });
            self.spendings.restore(&more.collect::<Vec<_>>(), self.clock.now());
            self.restored = None;
        }
        let mut months = self.spendings.months(self.clock.now());
        let own: Vec<_> = months.iter().map(|month| (name(month), month.calls)).collect();
        let others = shared.exchange(&own).await?;
        let now = self.clock.now();
        for (month, others) in months.iter_mut().zip(others) {
            month.calls = others;
            self.spendings.set_others(month, now);
        }
        Ok(())
    }
}

/// Returns the Redis name of a node's month.
fn name(NodeMonth { chain, node, month, .. }: &NodeMonth) -> String {
    format!("{month}:{chain}:{node}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::tests::{KEY, Node, is_served, post, send};
    use crate::gateway::{Gateway, StartOptions};
    use crate::journal::JournalError;
    use rpcgate_config::Input;
    use rpcgate_core::clock::{ManualClock, Time};
    use rpcgate_core::month::CalendarMonth;
    use rpcgate_store::url_of;

    /// 2026-11-01T00:00:00Z.
    const NOVEMBER: Time = Time::from_secs(1_793_491_200);

    fn sent(calls: u64) -> NodeMonth {
        let month = CalendarMonth::of(NOVEMBER);
        NodeMonth { chain: "eth".into(), node: "https://a/".into(), month, calls }
    }

    fn keeper(folder: &std::path::Path, clock: &Arc<ManualClock>) -> (NodeSpendingStore, Arc<NodeSpendings>) {
        let spendings = Arc::<NodeSpendings>::default();
        let file = SpendingFile::in_folder(folder);
        (NodeSpendingStore::run(Some(file), None, spendings.clone(), clock.clone()), spendings)
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn counts_survive_a_restart_within_their_month() {
        let home = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(NOVEMBER));
        let (first, spendings) = keeper(home.path(), &clock);
        // Simulates sent calls.
        spendings.restore(&[sent(7)], NOVEMBER);
        first.close().await;
        first.close().await;
        let (second, spendings) = keeper(home.path(), &clock);
        assert_eq!(spendings.months(NOVEMBER), [sent(7)]);
        spendings.restore(&[sent(2)], NOVEMBER);
        second.close().await;
        let (third, spendings) = keeper(home.path(), &clock);
        assert_eq!(spendings.months(NOVEMBER), [sent(9)]);
        third.close().await;
        clock.advance(Duration::from_secs(30 * 86_400));
        let (_fourth, spendings) = keeper(home.path(), &clock);
        assert_eq!(spendings.months(clock.now()), []);
    }

    #[tokio::test]
    async fn counts_are_written_while_the_gateway_runs_and_an_unreadable_file_counts_as_empty() {
        let home = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(NOVEMBER));
        std::fs::write(home.path().join("node-spending"), "nonsense").unwrap();
        let (_running, spendings) = keeper(home.path(), &clock);
        assert_eq!(spendings.months(NOVEMBER), []);
        spendings.restore(&[sent(7)], NOVEMBER);
        let file = SpendingFile::in_folder(home.path());
        let written = async {
            while file.read().ok() != Some(vec![sent(7)]) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), written).await.unwrap();
    }

    /// Starts a gateway whose only node allows `calls` calls a month, with all its state in this folder.
    async fn gateway(home: &std::path::Path, node: &Node, clock: &Arc<ManualClock>, calls: u64) -> Gateway {
        let config = config(home, node, calls);
        // A process that an earlier gateway spawned may hold the journal for a moment longer.
        let opened = async {
            loop {
                match State::open(&config, clock.clone()) {
                    Err(StartError::Journal(JournalError::InUse { .. })) => {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    opened => return opened.unwrap(),
                }
            }
        };
        let state = Arc::new(tokio::time::timeout(Duration::from_secs(30), opened).await.unwrap());
        assert!(state.ready().await);
        let options = StartOptions { clock: clock.clone(), state: Some(state), ..StartOptions::default() };
        Gateway::start(config, options).await.unwrap()
    }

    fn config(home: &std::path::Path, node: &Node, calls: u64) -> Config {
        let text = format!(
            "[gateway]\nlisten = \"127.0.0.1:0\"\n[database]\nurl = {:?}\n[journal]\ndir = {:?}\n\
             [tenants.default]\nplan = \"enterprise\"\n[keys.k]\nkey = {KEY:?}\n[chains.eth]\n\
             probe_interval = \"1d\"\nnodes = [{{ url = \"http://{}\", monthly_calls = {calls} }}]\n",
            url_of(&home.join("rpcgate.db")),
            home.join("journal"),
            node.addr,
        );
        let input = Input { chains: &["eth"], file: Some(("f", &text)), ..Input::default() };
        Config::read(&input).unwrap_or_else(|errors| panic!("{errors}"))
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn a_gateway_keeps_a_nodes_count_over_reloads_and_restarts_until_the_month_ends() {
        let home = tempfile::tempdir().unwrap();
        let node = Node::start().await;
        let clock = Arc::new(ManualClock::at(NOVEMBER));
        let got = |gateway: &Gateway| gateway.nodes()[0].month_calls.unwrap();
        let first = gateway(home.path(), &node, &clock, 1_000).await;
        for _ in 0..6 {
            assert!(is_served(&send(first.addr(), &post("/eth", KEY, "some_method")).await));
        }
        let before = got(&first);
        assert!(before >= 6, "with the probes: {before}");
        first.reload(config(home.path(), &node, 2_000)).unwrap();
        assert!(got(&first) >= before);
        let before = got(&first);
        first.drain().await;
        // It holds the journal.
        drop(first);
        let second = gateway(home.path(), &node, &clock, 1_000).await;
        assert!(got(&second) >= before, "{} {before}", got(&second));
        // The new limit is below what the node has received.
        second.reload(config(home.path(), &node, 6)).unwrap();
        assert_eq!(second.nodes()[0].standing, "spent");
        let refused = send(second.addr(), &post("/eth", KEY, "some_method")).await;
        assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("retry-after: 1"), "{refused}");
        assert!(
            refused.ends_with(r#""message":"all nodes are at their limits, retry later"}}"#),
            "{refused}"
        );
        clock.advance(Duration::from_secs(30 * 86_400));
        assert_eq!(second.nodes()[0].standing, "well");
        assert!(is_served(&send(second.addr(), &post("/eth", KEY, "some_method")).await));
        second.drain().await;
    }
}
