//! The rest of a request's body after an early response.
//!
//! Many clients write the whole request before they read the response. If the rest is not read, closing an HTTP/1
//! connection resets it, and the kernel discards the response (RFC 9112, section 9.6). An HTTP/2 stream is reset at
//! once (RFC 9113, section 8.1), and some clients, such as curl 7.88, then drop a response that they already have.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// The limits on reading a body after its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnreadBound {
    bytes: u64,
    time: Duration,
    /// True if a body of a larger declared length is not read at all.
    skips_longer: bool,
}

impl UnreadBound {
    /// The limits for an HTTP/1 connection, which ends with its request: 16 MiB in 10 seconds.
    pub const CONNECTION: Self =
        UnreadBound { bytes: 16 << 20, time: Duration::from_secs(10), skips_longer: false };
    /// The limits for an HTTP/2 stream, where a reset is harmless for most clients: 64 KiB in a second, and no part of
    /// a body of a larger declared length.
    pub const STREAM: Self =
        UnreadBound { bytes: 64 << 10, time: Duration::from_secs(1), skips_longer: true };
}

/// Reads and drops the rest of a body, within `bound`: available data now, and the rest in a separate task.
pub fn read_rest(body: Incoming, bound: UnreadBound) {
    if bound.skips_longer && body.size_hint().lower() > bound.bytes {
        return;
    }
    let mut reading = Box::pin(async move {
        let mut body = body;
        let mut left = bound.bytes;
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
