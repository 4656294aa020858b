//! Connections and the pool of idle ones.

use super::bounded_stream::{BoundedStream, ReadBudget};
use super::egress_error::EgressError;
use super::target::Origin;
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::AbortOnDropHandle;

/// The maximum number of idle connections, per origin and in total.
const MAX_IDLE_PER_ORIGIN: usize = 16;
const MAX_IDLE: usize = 1_024;
/// The time for which a connection stays idle. Common servers wait longer for the next request (at least 5 seconds), so
/// no request meets a connection that is being closed.
const IDLE: Duration = Duration::from_secs(3);
/// The age at which a connection is not used again, because the name may resolve to another address.
const LIFE: Duration = Duration::from_secs(60);
const MAX_HEAD: usize = 64 << 10;
/// The number of bytes that are read in one exchange: interim answers (1xx), the head of the answer and its body.
pub(super) const MAX_READ: usize = 64 << 10;
const MAX_FIELDS: usize = 100;

/// A connection to an address that was checked.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: SendRequest<Full<Bytes>>,
    /// The bytes that may still be read in the current exchange.
    pub(super) budget: ReadBudget,
    _driver: AbortOnDropHandle<()>,
    made: Duration,
}

impl Connection {
    pub(super) async fn over<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        stream: S,
        now: Duration,
    ) -> Result<Self, EgressError> {
        let budget = ReadBudget::new(MAX_READ);
        let stream = BoundedStream::new(stream, budget.clone());
        // Only the status matters: receivers that send a folded line (RFC 9112, 5.2), a blank before a colon or an
        // invalid header line have accepted the delivery too.
        let (sender, connection) = Builder::new()
            .title_case_headers(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .allow_spaces_after_header_name_in_responses(true)
            .ignore_invalid_headers_in_responses(true)
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_FIELDS)
            .handshake(TokioIo::new(stream))
            .await?;
        let driver = AbortOnDropHandle::new(tokio::spawn(async move { drop(connection.await) }));
        Ok(Connection { sender, budget, _driver: driver, made: now })
    }
}

#[derive(Debug, Default)]
pub(super) struct IdleConnections(Mutex<HashMap<Origin, Vec<(Connection, Duration)>>>);

impl IdleConnections {
    /// Takes the most recently used connection to `origin`.
    pub(super) fn take(&self, origin: &Origin, now: Duration) -> Option<Connection> {
        let mut all = self.0.lock();
        let waiting = all.get_mut(origin)?;
        waiting.retain(|(connection, since)| is_usable(connection, *since, now));
        let found = waiting.pop().map(|(connection, _)| connection);
        if waiting.is_empty() {
            all.remove(origin);
        }
        found
    }

    /// Keeps a connection whose answer was read to its end for another request, unless the pool is full.
    pub(super) fn put_back(&self, origin: &Origin, connection: Connection, now: Duration) {
        let mut all = self.0.lock();
        if all.values().map(Vec::len).sum::<usize>() >= MAX_IDLE {
            all.retain(|_, waiting| {
                waiting.retain(|(connection, since)| is_usable(connection, *since, now));
                !waiting.is_empty()
            });
            if all.values().map(Vec::len).sum::<usize>() >= MAX_IDLE {
                return;
            }
        }
        let waiting = all.entry(origin.clone()).or_default();
        if waiting.len() < MAX_IDLE_PER_ORIGIN {
            waiting.push((connection, now));
        }
    }
}

fn is_usable(connection: &Connection, since: Duration, now: Duration) -> bool {
    let is_fresh = now.saturating_sub(since) < IDLE && now.saturating_sub(connection.made) < LIFE;
    is_fresh && !connection.sender.is_closed()
}
