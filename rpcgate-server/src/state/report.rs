//! What operators are to see of this gateway: how its nodes stand, told to the management database.

use parking_lot::Mutex;
use rpcgate_admin::store::{GatewayReport, NodeState, Store};
use rpcgate_core::clock::Clock;
use rpcgate_core::journal::GatewayId;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time between two reports.
const EVERY: Duration = Duration::from_secs(5);

type Source = Box<dyn Fn() -> Vec<NodeState> + Send + Sync>;

/// Who knows how the nodes stand; nobody does before the gateway has started.
#[derive(Default)]
pub(super) struct Nodes(Mutex<Option<Source>>);

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nodes")
    }
}

impl Nodes {
    pub(super) fn ask(&self, source: impl Fn() -> Vec<NodeState> + Send + Sync + 'static) {
        *self.0.lock() = Some(Box::new(source));
    }

    fn now(&self) -> Option<Vec<NodeState>> {
        self.0.lock().as_ref().map(|source| source())
    }
}

/// Tells it again and again, until `closing`. What could not be told is not told later: it is old by then.
pub(super) async fn run(
    store: Store,
    gateway: GatewayId,
    nodes: Arc<Nodes>,
    clock: Arc<dyn Clock>,
    closing: CancellationToken,
) {
    let mut told = true;
    loop {
        if let Some(nodes) = nodes.now() {
            let report = GatewayReport { id: gateway.0, at: clock.now(), nodes };
            let done = tokio::select! {
                done = store.put_report(&report) => done,
                () = closing.cancelled() => return,
            };
            match done {
                Ok(()) => told = true,
                Err(error) if told => {
                    tracing::warn!("operators are not told how the nodes stand: {error}");
                    told = false;
                }
                Err(_) => {}
            }
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = closing.cancelled() => return,
        }
    }
}
