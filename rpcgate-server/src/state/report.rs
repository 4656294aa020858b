//! What is to be seen of this gateway on the management side: how its nodes stand, and which keys' limits it has scaled
//! down, told to the management database.

use parking_lot::Mutex;
use rpcgate_admin::store::{GatewayReport, NodeState, Store};
use rpcgate_core::clock::Clock;
use rpcgate_core::journal::GatewayId;
use rpcgate_core::safeguard::Cooled;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time between two reports.
const EVERY: Duration = Duration::from_secs(5);

/// How a gateway stands.
#[derive(Debug, Default)]
pub(crate) struct GatewayStatus {
    /// Its nodes.
    pub(crate) nodes: Vec<NodeState>,
    /// The keys whose limits are scaled down.
    pub(crate) cooled: Vec<Cooled>,
}

type Source = Box<dyn Fn() -> GatewayStatus + Send + Sync>;

/// Who knows how the gateway stands; nobody does before it has started.
#[derive(Default)]
pub(super) struct StatusSource(Mutex<Option<Source>>);

impl fmt::Debug for StatusSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StatusSource")
    }
}

impl StatusSource {
    pub(super) fn ask(&self, source: impl Fn() -> GatewayStatus + Send + Sync + 'static) {
        *self.0.lock() = Some(Box::new(source));
    }

    fn now(&self) -> Option<GatewayStatus> {
        self.0.lock().as_ref().map(|source| source())
    }
}

/// Tells it again and again, until `closing`. What could not be told is not told later: it is old by then.
pub(super) async fn run(
    store: Store,
    gateway: GatewayId,
    status_source: Arc<StatusSource>,
    clock: Arc<dyn Clock>,
    closing: CancellationToken,
) {
    let mut told = true;
    loop {
        if let Some(GatewayStatus { nodes, cooled }) = status_source.now() {
            let report = GatewayReport { id: gateway.0, at: clock.now(), nodes };
            let done = tokio::select! {
                done = store.put_report(&report, &cooled) => done,
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
