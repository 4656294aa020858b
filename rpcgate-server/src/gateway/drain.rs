//! The end of a gateway, by a drain or by a drop.

use super::Gateway;
use std::time::Duration;

/// The last part of a drain's grace, in which running gRPC calls are ended.
const LAST: Duration = Duration::from_secs(1);

/// The result of a drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drained {
    /// The number of connections that were cut at the end of the grace.
    pub cut: usize,
}

impl Gateway {
    /// Shuts the gateway down gracefully:
    ///
    /// - It stops being ready, accepts no connections and closes idle ones.
    /// - It closes WebSocket streams with 1001, spread over half of the grace, so that their clients do not all return
    ///   at once.
    /// - It finishes the calls in flight. In the last second of `shutdown.grace` it ends running gRPC calls with status
    ///   14, and at the end it cuts the rest.
    /// - It ships the records, sends the queued spans and closes its state.
    pub async fn drain(&self) -> Drained {
        self.connections.close();
        self.streams.shut_down(self.reloadable.grace() / 2);
        let accepting = std::mem::take(&mut *self.accepting.lock());
        for accepting in accepting {
            // The socket closes with the task, which is never aborted: after this line no client can connect.
            let _ = accepting.await;
        }
        let grace = self.reloadable.grace();
        let last = LAST.min(grace / 2);
        if !self.connections.are_done_within(grace - last).await {
            self.streams.shut_down(Duration::ZERO);
        }
        let cut = self.connections.wait(last).await;
        self.stop();
        tokio::join!(self.counting.close(), self.spending.close());
        let traces = self.traces.lock().take();
        let traced = async {
            if let Some(traces) = traces {
                traces.stop().await;
            }
        };
        let closed = async {
            if let Some(state) = &self.state {
                state.close().await;
            }
        };
        tokio::join!(traced, closed);
        Drained { cut }
    }

    fn stop(&self) {
        self.sweeping.abort();
        for task in [&self.renewing, &self.ordering].into_iter().flatten() {
            task.abort();
        }
        if let Some((_, metrics)) = &self.metrics {
            metrics.abort();
        }
        self.reloadable.stop();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
        self.connections.close();
        self.connections.cut();
    }
}
