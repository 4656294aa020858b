use crate::websocket::OpenStreams;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The last part of a drain's grace, in which running gRPC calls are ended.
const LAST: Duration = Duration::from_secs(1);

/// The interval at which a drain checks whether all streams have ended.
const LOOK: Duration = Duration::from_millis(10);

/// The part of a gateway that outlives its connections: open streams and long gRPC calls. The server drains ordinary
/// requests itself; this handle ends what would keep its connections open.
///
/// ```
/// use rpcgate_core::{plan::{Plan, Tier}, toy::Toy};
/// use rpcgate_layers::gateway::GatewayService;
/// use std::{sync::Arc, time::Duration};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let chain = GatewayService::builder().chain(Arc::new(Toy), ["http://127.0.0.1:8545"]);
/// let gateway = chain.open(Plan::of(Tier::Free)).build()?;
/// let handle = gateway.handle();
/// assert_eq!(handle.open_streams(), 0);
/// // In `axum::serve(listener, app).with_graceful_shutdown(…)`, after the signal:
/// assert!(handle.drain(Duration::from_secs(30)).await, "no stream was open");
/// # Ok::<(), rpcgate_layers::gateway::BuildError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct GatewayHandle(Arc<OpenStreams>);

impl GatewayHandle {
    pub(super) fn new(streams: Arc<OpenStreams>) -> Self {
        GatewayHandle(streams)
    }

    /// Returns the number of open WebSocket streams.
    pub fn open_streams(&self) -> usize {
        self.0.count()
    }

    /// Refuses new streams and ends the open ones. WebSocket streams close with 1001, spread over half of `grace`, so
    /// that their clients do not all return at once. gRPC calls that run until the last second of `grace` end with
    /// status 14. Returns whether all of them have ended, and been recorded, within `grace`.
    pub async fn drain(&self, grace: Duration) -> bool {
        self.0.shut_down(grace / 2);
        let last = LAST.min(grace / 2);
        if timeout(grace.saturating_sub(last), self.ended()).await.is_ok() {
            return true;
        }
        self.0.shut_down(Duration::ZERO);
        timeout(last, self.ended()).await.is_ok()
    }

    async fn ended(&self) {
        while !self.0.is_idle() {
            sleep(LOOK).await;
        }
    }
}
