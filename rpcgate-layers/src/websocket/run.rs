//! One open stream, from its first frame to its end.

use super::close::CloseReason;
use super::limits::StreamLimits;
use super::link::{Io, Link, Side};
use super::messages::Messages;
use super::open_streams::{Ending, StreamPermit};
use super::poll_when_woken::{PartsTask, PollWhenWoken};
use super::relay::{from_client, from_node};
use super::upkeep::Upkeep;
use super::writes::{Due, StreamWrites};
use crate::nodes::node::Node;
use crate::transport::ws::incoming::FrameReader;
use crate::transport::ws::outgoing::FrameWriter;
use crate::transport::ws::wire::Role;
use parking_lot::Mutex;
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::memory::MemoryPermit;
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadHalf};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

const SHUTDOWN: Duration = Duration::from_secs(1);

/// The number of bytes passed to an HTTP/2 stream at a time. Hyper buffers three such pieces in addition to those it
/// sends; larger pieces would count as read by a client that reads nothing.
const PIECE: usize = 16 << 10;

/// A stream that is open on both sides. It is boxed, because a future that holds its parts by value would be several
/// times as large.
pub(super) struct OpenStream {
    link: Link,
    client: FrameReader<ReadHalf<Io>>,
    node: FrameReader<ReadHalf<Io>>,
    permit: StreamPermit,
}

impl OpenStream {
    /// Creates a stream between `client` and `node`. Memory for large messages and for slow clients comes from
    /// `memory`.
    pub(super) fn new(
        client: Io,
        node: Io,
        source: Arc<Node>,
        messages: Messages,
        permit: StreamPermit,
        limits: StreamLimits,
        memory: MemoryPermit,
    ) -> Box<Self> {
        let (client_read, client_write) = tokio::io::split(client);
        let (node_read, node_write) = tokio::io::split(node);
        let client = FrameReader::new(client_read, Role::Server, limits.max_message, memory.sibling());
        let node = FrameReader::new(node_read, Role::Client, limits.max_message, memory.sibling());
        let link = Link {
            client: Side::new(FrameWriter::new(client_write, Role::Server), client.progress().clone()),
            node: Side::new(FrameWriter::new(node_write, Role::Client), node.progress().clone()),
            messages: Mutex::new(messages),
            key: permit.key().clone(),
            source,
            limits,
            backlog: Mutex::new(memory),
            received: AtomicU64::new(0),
            is_closing: AtomicBool::new(false),
        };
        Box::new(OpenStream { link, client, node, permit })
    }

    /// Prepares the stream for a client that shares its connection with other streams.
    pub(super) fn multiplexed(self: Box<Self>) -> Box<Self> {
        self.link.client.writer.lock().set_most(PIECE);
        self
    }

    pub(super) async fn run(mut self: Box<Self>) {
        let OpenStream { link, client, node, .. } = &mut *self;
        let reason = serve(link, client, node).await;
        let OpenStream { link, mut permit, .. } = *self;
        let messages = link.messages.into_inner();
        tracing::debug!(request = %messages.stream.request(), reason = reason.name(), "a stream ended");
        messages.end(outcome(reason));
        permit.ended(reason);
    }
}

async fn serve<R: AsyncRead + Unpin>(
    link: &Link,
    client: &mut FrameReader<R>,
    node: &mut FrameReader<R>,
) -> CloseReason {
    let client_ended = OnceLock::new();
    let from_client = pin!(from_client(link, client, &client_ended));
    let mut task = PartsTask::default();
    let mut from_client = task.part(from_client);
    let mut is_client_read = true;
    let reason = {
        let from_node = pin!(from_node(link, node));
        let mut from_node = task.part(from_node);
        let number = link.messages.lock().stream.request().0;
        let end = pin!(end_reason(link.key.endings(), number));
        let mut end = task.part(end);
        let mut upkeep = Upkeep::new(&task, &link.limits);
        let mut writes = StreamWrites::default();
        poll_fn(|cx| {
            task.register(cx);
            // Polled first, because the directions wait for free buffers.
            match writes.poll_due(link, cx) {
                Due::Written { is_drained: false } => {}
                Due::Written { is_drained: true } => {
                    from_client.touch();
                    from_node.touch();
                }
                Due::Later => return Poll::Pending,
                Due::Broken(reason) => return Poll::Ready(reason),
            }
            // Writes wake the task too, and then there is usually nothing else to do.
            if !(from_client.is_woken() || from_node.is_woken() || end.is_woken() || upkeep.is_woken()) {
                return Poll::Pending;
            }
            is_client_read = from_client.poll().is_pending();
            if let Some(reason) = client_ended.get() {
                return Poll::Ready(*reason);
            }
            if let Poll::Ready(reason) = from_node.poll() {
                return Poll::Ready(reason);
            }
            if let Poll::Ready(reason) = end.poll() {
                return Poll::Ready(reason);
            }
            if let Poll::Ready(reason) = upkeep.poll(link) {
                return Poll::Ready(reason);
            }
            writes.begin(link, cx);
            Poll::Pending
        })
        .await
    };
    let is_discarding = client_ended.get().is_some();
    close(link, reason, &mut task, is_client_read.then_some(from_client), is_discarding).await;
    reason
}

/// Waits until the streams of the key, or all streams, have to end. With a spread, each stream ends at a different
/// time.
async fn end_reason(mut endings: watch::Receiver<Option<Ending>>, number: u128) -> CloseReason {
    loop {
        let ending = *endings.borrow_and_update();
        match ending {
            None => {
                if endings.changed().await.is_err() {
                    pending::<()>().await;
                }
            }
            Some(Ending { reason, spread }) => {
                // Request ids are random in their lower half.
                let share = (number as u32) as f64 / f64::from(u32::MAX);
                let wait = tokio::time::sleep(spread.mul_f64(share));
                tokio::select! {
                    () = wait => return reason,
                    // An immediate reason may follow a delayed one.
                    _ = endings.changed() => {}
                }
            }
        }
    }
}

/// Sends close frames to both sides and closes their connections. If the client's data is being discarded, the client
/// may send more for a while; its connection is closed in the other direction without waiting for that.
async fn close<F: Future>(
    link: &Link,
    reason: CloseReason,
    task: &mut PartsTask,
    reading: Option<PollWhenWoken<Pin<&mut F>>>,
    is_discarding: bool,
) {
    link.is_closing.store(true, Relaxed);
    if let Some(reading) = &reading {
        reading.touch();
    }
    if let Some((code, text)) = reason.frame() {
        if matches!(reason, CloseReason::SlowReader | CloseReason::ClientSilent) {
            link.client.writer.lock().discard();
        }
        link.client.send_close(&[&u16::from(code).to_be_bytes()[..], text.as_bytes()].concat());
    }
    // Each side gets an answer to its close frame, and the node is notified about any other end.
    link.client.send_close(&[]);
    link.node.send_close(if link.node.has_closed() { &[] } else { &GOING_AWAY });
    let is_client_gone = matches!(reason, CloseReason::ClientLost) || link.client.has_closed();
    let mut reading = reading.filter(|_| !is_client_gone);
    let mut poll = |cx: &mut Context<'_>| {
        task.register(cx);
        // The client reads the close frame only if its own data is read meanwhile.
        if reading.as_mut().is_some_and(|reading| reading.poll().is_ready()) {
            reading = None;
        }
        let client = link.client.poll_flush(cx);
        let node = link.node.poll_flush(cx);
        (client.is_ready(), node.is_ready() && (is_discarding || reading.is_none()))
    };
    // A slow client has messages to read before the close frame.
    let until = Instant::now() + link.limits.dead_after;
    loop {
        let taken = link.client.writer.lock().taken();
        let read = poll_fn(|cx| if poll(cx).0 { Poll::Ready(()) } else { Poll::Pending });
        if timeout(link.limits.close_wait, read).await.is_ok() {
            let ended = poll_fn(|cx| if poll(cx) == (true, true) { Poll::Ready(()) } else { Poll::Pending });
            let _ = timeout(link.limits.close_wait, ended).await;
            break;
        }
        if link.client.writer.lock().taken() == taken || Instant::now() >= until {
            break;
        }
    }
    let _ = timeout(
        SHUTDOWN,
        poll_fn(|cx| {
            let client = link.client.writer.lock().poll_shutdown(cx).is_ready();
            let node = link.node.writer.lock().poll_shutdown(cx).is_ready();
            if client && node { Poll::Ready(()) } else { Poll::Pending }
        }),
    )
    .await;
    if let Some(mut reading) = reading.filter(|_| is_discarding) {
        let read = poll_fn(|cx| {
            task.register(cx);
            reading.poll().map(drop)
        });
        let _ = timeout(link.limits.close_wait, read).await;
    }
}

/// Close code 1001, for nodes.
const GOING_AWAY: [u8; 2] = 1001_u16.to_be_bytes();

fn outcome(reason: CloseReason) -> Outcome {
    match reason {
        CloseReason::Client | CloseReason::Node | CloseReason::Shutdown | CloseReason::NodeDrained => {
            Outcome::Answered
        }
        CloseReason::ClientLost | CloseReason::ClientSilent => Outcome::Abandoned,
        CloseReason::NodeLost | CloseReason::NodeSilent | CloseReason::NoMemory => Outcome::Failed,
        _ => Outcome::Refused,
    }
}
