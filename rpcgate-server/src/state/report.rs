//! Reports the gateway's status to the management database: its nodes, and the keys whose limits it has scaled down.

use parking_lot::Mutex;
use rpcgate_core::clock::Clock;
use rpcgate_core::journal::GatewayId;
use rpcgate_core::safeguard::CoolDown;
use rpcgate_store::{GatewayReport, NodeState, Store};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const EVERY: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct GatewayStatus {
    pub(crate) nodes: Vec<NodeState>,
    pub(crate) throttled: Vec<CoolDown>,
}

type Source = Box<dyn Fn() -> GatewayStatus + Send + Sync>;

/// The source of the status; absent before the gateway has started.
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

/// Reports the status at intervals until `closing`. A failed report is not repeated, because it would be outdated.
pub(super) async fn run(
    store: Store,
    gateway: GatewayId,
    status_source: Arc<StatusSource>,
    clock: Arc<dyn Clock>,
    closing: CancellationToken,
) {
    let mut is_reported = true;
    loop {
        if let Some(GatewayStatus { nodes, throttled }) = status_source.now() {
            let report = GatewayReport { id: gateway.0, at: clock.now(), nodes };
            let done = tokio::select! {
                done = store.put_report(&report, &throttled) => done,
                () = closing.cancelled() => return,
            };
            match done {
                Ok(()) => is_reported = true,
                Err(error) if is_reported => {
                    tracing::warn!("the status of the nodes cannot be reported to operators: {error}");
                    is_reported = false;
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
