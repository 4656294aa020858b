//! The state of a connection, updated as its bytes pass: idle, receiving a head, or waiting for an answer.

use super::head_text::HeadText;
use futures_util::task::AtomicWaker;
use http_body::Body;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::Waker;

/// The state of a connection. The socket, the service and the answer's body write it; over HTTP/1 they all live in one
/// task. No other memory is ordered by it, so all accesses are relaxed.
#[derive(Debug, Default)]
pub(super) struct ConnectionState {
    calls: AtomicU32,
    head: AtomicBool,
    wrote: AtomicBool,
    unread: AtomicBool,
    lingering: AtomicBool,
    /// The socket takes no more bytes for now.
    blocked: AtomicBool,
    taken: AtomicU64,
    /// The gateway drains: the next answer is the connection's last.
    leaving: AtomicBool,
    /// A stream was reset because its client did not read the answer, and no request has come since.
    reset: AtomicBool,
    /// The HTTP/2 client has sent too many frames that only cost work.
    flooded: AtomicBool,
    /// The head that is arriving or arrived last, over HTTP/1.
    text: Mutex<HeadText>,
    /// The head holds memory that is freed once its request is seen.
    has_large_head: AtomicBool,
    waker: AtomicWaker,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Neither side waits for the other.
    Idle,
    Head,
    Busy,
    /// The last answer has been sent, and further bytes of the client are discarded.
    Lingering,
}

impl ConnectionState {
    pub(super) fn phase(&self) -> Phase {
        if self.calls.load(Relaxed) > 0 {
            Phase::Busy
        } else if self.lingering.load(Relaxed) {
            Phase::Lingering
        } else if self.head.load(Relaxed) {
            Phase::Head
        } else {
            Phase::Idle
        }
    }

    /// Notes that a request begins. It ends when the returned value is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        self.head.store(false, Relaxed);
        self.unread.store(false, Relaxed);
        self.reset.store(false, Relaxed);
        self.calls.fetch_add(1, Relaxed);
        Busy(self.clone())
    }

    /// Notes the beginning or a later part of a head. At most `most` bytes of a head are stored.
    pub(super) fn push_head(&self, is_begin: bool, bytes: &[u8], most: usize) {
        let is_large = self.text.lock().push(is_begin, bytes, most);
        if is_large {
            self.has_large_head.store(true, Relaxed);
        }
        self.head.store(true, Relaxed);
    }

    /// Reports whether the next request, with this body, states its length twice. Returns false if its head was not
    /// seen because it arrived together with the previous request.
    pub(super) fn is_ambiguous(&self, body: &impl Body) -> bool {
        // The length of a body with a transfer coding is not known before its end.
        let is_encoded = body.size_hint().exact().is_none();
        if !is_encoded && !self.has_large_head.load(Relaxed) {
            return false;
        }
        self.has_large_head.store(false, Relaxed);
        let mut text = self.text.lock();
        let is_ambiguous = is_encoded && self.head.load(Relaxed) && text.has_length();
        text.forget();
        is_ambiguous
    }

    pub(super) fn left_unread(&self) {
        self.unread.store(true, Relaxed);
    }

    /// Reports whether the client may still be sending a request that is not read any more.
    pub(super) fn is_unread(&self) -> bool {
        self.unread.load(Relaxed) || self.head.load(Relaxed)
    }

    /// Notes that the last answer has been sent and the client's remaining bytes are discarded.
    pub(super) fn linger(&self) {
        self.lingering.store(true, Relaxed);
    }

    /// Notes written bytes. `is_answer` is false if they may belong to the connection itself.
    pub(super) fn set_wrote(&self, is_answer: bool) {
        self.wrote.store(is_answer, Relaxed);
    }

    /// Reports whether bytes of an answer were written since the last call.
    pub(super) fn take_wrote(&self) -> bool {
        // A load first, because a swap costs more and there is mostly nothing to take.
        self.wrote.load(Relaxed) && self.wrote.swap(false, Relaxed)
    }

    pub(super) fn took(&self, bytes: usize) {
        self.taken.store(self.taken.load(Relaxed) + bytes as u64, Relaxed);
        self.blocked.store(false, Relaxed);
    }

    pub(super) fn set_blocked(&self, is_blocked: bool) {
        self.blocked.store(is_blocked, Relaxed);
    }

    /// Returns whether the connection waits for the client to read, and the bytes that the client has taken.
    pub(super) fn taken(&self) -> (bool, u64) {
        (self.blocked.load(Relaxed), self.taken.load(Relaxed))
    }

    /// Notes that a stream is reset because its client did not read the answer.
    pub(super) fn reset(&self) {
        self.reset.store(true, Relaxed);
    }

    /// Reports whether a stream was reset and no request has come since.
    pub(super) fn was_reset(&self) -> bool {
        self.reset.load(Relaxed)
    }

    pub(super) fn flood(&self) {
        self.flooded.store(true, Relaxed);
    }

    pub(super) fn is_flooded(&self) -> bool {
        self.flooded.load(Relaxed)
    }

    pub(super) fn leave(&self) {
        self.leaving.store(true, Relaxed);
    }

    /// Notes the end of the HTTP connection. Its socket may live on in a WebSocket stream, so nothing is kept for it,
    /// not even the waker, which would hold the memory of the task that served the connection.
    pub(super) fn end(&self) {
        self.calls.fetch_add(1, Relaxed);
        self.waker.take();
        *self.text.lock() = HeadText::default();
    }

    pub(super) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    pub(super) fn wake(&self) {
        self.waker.wake();
    }
}

/// A request that is being answered; dropped after the last byte of its answer was passed on.
#[derive(Debug)]
pub(super) struct Busy(Arc<ConnectionState>);

impl Busy {
    /// Reports whether its answer is the connection's last.
    pub(super) fn is_last(&self) -> bool {
        self.0.leaving.load(Relaxed)
    }

    /// Notes that the socket belongs to a WebSocket stream from now on: its bytes are neither head nor answer.
    pub(super) fn upgrade(&self) {
        self.0.calls.fetch_add(1, Relaxed);
        self.0.text.lock().forget();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Wake;

    struct Task;

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn a_socket_that_outlives_its_connection_keeps_no_task_and_reads_no_head() {
        let state = Arc::new(ConnectionState::default());
        let task = Arc::new(Task);
        state.push_head(true, b"GET /ws/eth HTTP/1.1\r\n\r\n", 1_024);
        drop(state.begin());
        state.register(&Waker::from(task.clone()));
        assert_eq!(Arc::strong_count(&task), 2);
        state.end();
        assert_eq!(Arc::strong_count(&task), 1);
        assert!(state.phase() == Phase::Busy && !state.text.lock().has_length());
    }
}
