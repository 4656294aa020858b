//! The messages of a client on their way to a node.
//!
//! Received pieces are kept until a node has answered, if memory allows, so that a failed call can begin again at
//! another node. After that each piece is passed on when the node takes it, and only then the next piece is read, so
//! the node's flow-control window applies to the client.

use super::messages::{Messages, PREFIX, TooLarge};
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use parking_lot::Mutex;
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::refusal::Refusal;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker, ready};
use tokio::time::Instant;

/// The maximum number of bytes that are kept for a retry. Calls that only read have small messages.
const RETAINED: usize = 256 << 10;

pub(super) struct Gone;

pub(super) type ClientBody = Pin<Box<dyn Body<Data = Bytes, Error = Gone> + Send>>;

pub(super) struct Feed {
    received: Arc<AtomicUsize>,
    state: Mutex<State>,
}

struct State {
    body: ClientBody,
    messages: Messages,
    /// The kept pieces. `first` is the number of the first one.
    retained: VecDeque<Bytes>,
    first: usize,
    /// The number of the pieces that the latest reader has taken.
    taken: usize,
    /// The total bytes of the kept pieces; at most `most`.
    bytes: usize,
    most: usize,
    memory: MemoryPermit,
    /// True while pieces are kept after a node has taken them.
    is_keeping: bool,
    /// True while every piece since the beginning is kept.
    is_complete: bool,
    /// True if two nodes read the pieces, which are then kept until the call is over.
    is_shared: bool,
    ended: Option<Instant>,
    refusal: Option<Refusal>,
    /// The piece after the kept ones, for which no memory was left. The first reader gets it.
    not_retained: Option<Bytes>,
    /// True if the client has disconnected or sent too much. Nothing more is read from it.
    is_broken: bool,
    is_over: bool,
    reader: Option<Waker>,
}

impl Feed {
    /// Reads messages of at most `most` bytes each from `body`. Kept pieces take memory from `memory`.
    pub(super) fn new(body: ClientBody, most: usize, memory: MemoryPermit) -> Arc<Self> {
        let ended = body.is_end_stream().then(Instant::now);
        let state = State {
            body,
            messages: Messages::new(most),
            retained: VecDeque::new(),
            first: 0,
            taken: 0,
            bytes: 0,
            most: RETAINED,
            memory,
            is_keeping: true,
            is_complete: true,
            is_shared: false,
            ended,
            refusal: None,
            not_retained: None,
            is_broken: false,
            is_over: false,
            reader: None,
        };
        Arc::new(Feed { received: Arc::default(), state: Mutex::new(state) })
    }

    pub(super) fn received(&self) -> &Arc<AtomicUsize> {
        &self.received
    }

    /// Waits for the whole first message, which is kept, and returns its content.
    ///
    /// # Errors
    /// Returns [`Refusal::BodyTooLarge`], [`Refusal::Overloaded`] if there is no memory for the message,
    /// [`Refusal::InvalidRequest`] if the client sends none, and [`Refusal::NotImplemented`] if it is compressed.
    pub(super) async fn first(&self, most: usize) -> Result<Bytes, Refusal> {
        self.state.lock().most = most + PREFIX + RETAINED;
        poll_fn(|cx| {
            let mut state = self.state.lock();
            while state.messages.complete() == 0 {
                if state.ended.is_some() {
                    return Poll::Ready(Err(Refusal::InvalidRequest));
                }
                state.reader = Some(cx.waker().clone());
                match ready!(state.pull(&self.received, cx)) {
                    Some(Ok(_)) if !state.is_complete => return Poll::Ready(Err(Refusal::Overloaded)),
                    Some(Err(_)) => {
                        return Poll::Ready(Err(state.refusal.unwrap_or(Refusal::InvalidRequest)));
                    }
                    _ => {}
                }
            }
            Poll::Ready(state.content())
        })
        .await
    }

    /// Reads and keeps everything that the client has sent so far, up to the memory limit.
    pub(super) async fn take_in(&self) {
        poll_fn(|cx| {
            let mut state = self.state.lock();
            while state.ended.is_none() && state.is_complete {
                let Poll::Ready(Some(Ok(piece))) = state.pull(&self.received, cx) else { break };
                if !state.is_complete {
                    state.not_retained = Some(piece);
                }
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Returns all messages from the first on, for a node. Any earlier reader must be gone, unless the messages are
    /// shared.
    pub(super) fn open(self: &Arc<Self>) -> NodeMessages {
        NodeMessages { feed: self.clone(), next: 0 }
    }

    /// Reports whether the call can begin again: the client has sent everything, at most one message, and it is kept.
    pub(super) fn is_repeatable(&self) -> bool {
        self.state.lock().is_repeatable()
    }

    /// Lets two nodes read the messages. Returns `false` if the call [cannot begin again](Feed::is_repeatable).
    pub(super) fn share(&self) -> bool {
        let mut state = self.state.lock();
        let may = state.is_keeping && state.is_repeatable();
        state.is_shared |= may;
        may
    }

    /// Reports whether every received piece is still available, so that the call can begin at a node.
    pub(super) fn is_complete(&self) -> bool {
        let state = self.state.lock();
        state.is_complete || state.not_retained.is_some()
    }

    pub(super) fn is_broken(&self) -> bool {
        self.state.lock().is_broken
    }

    pub(super) fn ended(&self) -> Option<Instant> {
        self.state.lock().ended
    }

    /// Returns the refusal that ended the reading of messages, if any.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.state.lock().refusal
    }

    /// Ends the keeping of pieces, because a node has answered.
    pub(super) fn commit(&self) {
        let mut state = self.state.lock();
        if state.is_shared {
            return;
        }
        state.is_keeping = false;
        let State { first, taken, .. } = *state;
        for _ in first..taken {
            state.retained.pop_front();
        }
        state.first = taken.max(first);
        state.release();
    }

    /// Ends the call. The node's stream is reset unless it has ended.
    pub(super) fn end(&self) {
        let reader = {
            let mut state = self.state.lock();
            state.is_over = true;
            state.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl State {
    fn is_repeatable(&self) -> bool {
        self.ended.is_some() && self.is_complete && !self.is_broken && self.messages.complete() <= 1
    }

    fn pull(
        &mut self,
        received: &AtomicUsize,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, h2::Error>>> {
        loop {
            if self.is_broken {
                return Poll::Ready(Some(Err(h2::Reason::CANCEL.into())));
            }
            let frame = ready!(self.body.as_mut().poll_frame(cx));
            if frame.is_none() || self.body.is_end_stream() {
                self.ended.get_or_insert_with(Instant::now);
            }
            let data = match frame.map(|frame| frame.map(Frame::into_data)) {
                None => return Poll::Ready(None),
                Some(Err(Gone)) => {
                    self.is_broken = true;
                    continue;
                }
                // gRPC clients send no trailers.
                Some(Ok(Err(_))) => continue,
                Some(Ok(Ok(data))) => data,
            };
            received.fetch_add(data.len(), Relaxed);
            if let Err(TooLarge) = self.messages.pass(&data) {
                self.refusal = Some(Refusal::BodyTooLarge);
                self.is_broken = true;
                continue;
            }
            if self.is_keeping && self.is_complete {
                let fits = self.bytes + data.len() <= self.most && self.memory.take(data.len()).is_ok();
                if fits {
                    self.bytes += data.len();
                    self.retained.push_back(data.clone());
                } else {
                    self.is_complete = false;
                }
            }
            return Poll::Ready(Some(Ok(data)));
        }
    }

    /// Returns the content of the first message, which is kept completely.
    fn content(&self) -> Result<Bytes, Refusal> {
        let mut all = BytesMut::with_capacity(self.bytes);
        self.retained.iter().for_each(|piece| all.extend_from_slice(piece));
        let all = all.freeze();
        let Some((prefix, _)) = all.split_first_chunk::<PREFIX>() else {
            return Err(Refusal::InvalidRequest);
        };
        let [flag, length @ ..] = *prefix;
        if flag != 0 {
            return Err(Refusal::NotImplemented);
        }
        let end = (PREFIX + u32::from_be_bytes(length) as usize).min(all.len());
        Ok(all.slice(PREFIX..end))
    }

    /// Returns the memory once the last kept piece has been taken.
    fn release(&mut self) {
        if !self.is_keeping && self.retained.is_empty() {
            (self.retained, self.bytes) = (VecDeque::new(), 0);
            self.memory.keep(0);
        }
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("received", &self.received).finish_non_exhaustive()
    }
}

/// The messages as read by one node.
pub(super) struct NodeMessages {
    feed: Arc<Feed>,
    next: usize,
}

impl Body for NodeMessages {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let this = &mut *self;
        let mut state = this.feed.state.lock();
        if state.is_over || state.is_broken {
            return Poll::Ready(Some(Err(h2::Reason::CANCEL.into())));
        }
        let index = this.next.checked_sub(state.first);
        let piece = match index.and_then(|index| state.retained.get(index).cloned()) {
            Some(piece) => {
                if !state.is_keeping {
                    state.retained.pop_front();
                    state.first += 1;
                    state.release();
                }
                piece
            }
            None if state.not_retained.is_some() => {
                if !state.is_keeping {
                    state.first += 1;
                }
                state.not_retained.take().unwrap_or_default()
            }
            None if state.ended.is_some() => return Poll::Ready(None),
            None => {
                state.reader = Some(cx.waker().clone());
                match ready!(state.pull(&this.feed.received, cx)) {
                    Some(Ok(piece)) => {
                        if !state.is_keeping {
                            state.first += 1;
                        }
                        piece
                    }
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => return Poll::Ready(None),
                }
            }
        };
        this.next += 1;
        state.taken = this.next;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        let state = self.feed.state.lock();
        let has_more = state.is_broken || state.not_retained.is_some();
        !state.is_over
            && !has_more
            && state.ended.is_some()
            && self.next >= state.first + state.retained.len()
    }
}
