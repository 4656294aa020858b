//! What is left of a request's body when its answer is there.
//!
//! Many clients write the whole request before they read the answer. If it is not read, a connection of HTTP/1 is reset when it
//! is closed, and the kernel takes the answer back (RFC 9112, section 9.6). A stream of HTTP/2 is reset at once (RFC 9113,
//! section 8.1), and some clients, such as curl 7.88, then drop an answer that they have already.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// How much of a body is read after its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnreadBound {
    bytes: u64,
    time: Duration,
    /// Whether a body that says that it is longer is left unread at once.
    skips_longer: bool,
}

impl UnreadBound {
    /// For a connection of HTTP/1, which ends with its request: 16 MiB in 10 seconds.
    pub const CONNECTION: Self =
        UnreadBound { bytes: 16 << 20, time: Duration::from_secs(10), skips_longer: false };
    /// For a stream of HTTP/2, to which a reset does no harm with most clients: 64 KiB in a second, and nothing of a body that says
    /// that it is longer.
    pub const STREAM: Self =
        UnreadBound { bytes: 64 << 10, time: Duration::from_secs(1), skips_longer: true };
}

/// Reads and drops the rest of a body, within `bound`: what has arrived now, and the rest in a task of its own.
pub fn read_rest(body: Incoming, bound: UnreadBound) {
    if bound.skips_longer && body.size_hint().lower() > bound.bytes {
        return;
    }
    let mut reading = Box::pin(async move {
        let (mut body, mut left) = (body, bound.bytes);
        while let Some(Ok(frame)) = body.frame().await {
            let read = frame.data_ref().map_or(0, Bytes::len) as u64;
            let Some(fewer) = left.checked_sub(read) else { return };
            left = fewer;
        }
    });
    if reading.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
        return;
    }
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(async move {
            if timeout(bound.time, reading).await.is_err() {
                tracing::debug!("the rest of a request did not arrive in time");
            }
        });
    }
}
