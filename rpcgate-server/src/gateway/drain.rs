//! The end of a gateway: drained, or dropped.

use super::Gateway;
use std::time::Duration;

/// The part of a drain's grace in which what still runs is told to end.
const LAST: Duration = Duration::from_secs(1);

/// How a drain ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drained {
    /// Connections that were cut at the end of the grace.
    pub cut: usize,
}

impl Gateway {
    /// Ends the gateway gracefully: it is no longer ready and accepts no connections, closes those without a call, closes
    /// WebSocket streams with 1001, spread over half of the grace so that their clients do not all return at once, and
    /// finishes the calls in flight. In the last second of `shutdown.grace` gRPC calls that still run end with status 14, and
    /// what is not done at its end is cut. Then it ships the records, sends the spans that wait, and closes its state.
    pub async fn drain(&self) -> Drained {
        self.connections.close();
        self.streams.shut_down(self.reloadable.grace() / 2);
        let accepting = std::mem::take(&mut *self.accepting.lock());
        for accepting in accepting {
            // The socket closes with the task, which is never aborted: from here on no client can connect.
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

    /// Ends the tasks that run beside the calls.
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
