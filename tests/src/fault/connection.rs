//! One client's connection through the proxy, and the effect of the mode on each piece of data.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{Mutex as AsyncMutex, watch};

use super::framing::{Framing, Side};
use super::reply::{self, Oversized};
use super::{Mode, Shared, lock};

const READ: usize = 16 * 1024;

/// The end of a direction, or of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// This direction is over, the other may continue.
    Direction,
    /// The client's connection is closed cleanly.
    Close,
    /// The client's connection is reset.
    Reset,
}

pub(super) async fn serve(
    mut client: TcpStream,
    target: SocketAddr,
    shared: Arc<Shared>,
    mut severed: watch::Receiver<u64>,
) {
    let _open = Open::new(&shared);
    let carried = async {
        match TcpStream::connect(target).await {
            Ok(mut node) => carry(&mut client, &mut node, &shared).await,
            Err(_) => End::Reset,
        }
    };
    let end = tokio::select! {
        end = carried => end,
        // If the sender is gone, so is the proxy: this task is about to be dropped.
        _ = severed.changed() => End::Reset,
    };
    if end == End::Reset {
        let _ = client.set_zero_linger();
        return;
    }
    let _ = client.shutdown().await;
    // A socket closed with bytes unread sends RST, and this end should be a FIN.
    let mut rest = [0; READ];
    while client.try_read(&mut rest).is_ok_and(|read| read > 0) {}
}

struct Open<'a>(&'a Shared);

impl<'a> Open<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.open.fetch_add(1, Relaxed);
        Open(shared)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

async fn carry(client: &mut TcpStream, node: &mut TcpStream, shared: &Shared) -> End {
    let (client_read, client_write) = client.split();
    let (node_read, node_write) = node.split();
    let relay =
        Relay { shared, exchange: Mutex::new(Exchange::new()), client: AsyncMutex::new(client_write) };
    let mut up = pin!(relay.up(client_read, node_write));
    let mut down = pin!(relay.down(node_read));
    tokio::select! {
        end = &mut up => if end == End::Direction { down.await } else { end },
        end = &mut down => if end == End::Direction { up.await } else { end },
    }
}

struct Relay<'a> {
    shared: &'a Shared,
    exchange: Mutex<Exchange>,
    // Both directions write here: the node's bytes, and the proxy's own answers.
    client: AsyncMutex<WriteHalf<'a>>,
}

impl Relay<'_> {
    async fn up(&self, mut client: ReadHalf<'_>, mut node: WriteHalf<'_>) -> End {
        let mut piece = vec![0; READ];
        loop {
            let Ok(read) = client.read(&mut piece).await else {
                return End::Close;
            };
            if read == 0 {
                let _ = node.shutdown().await;
                // Nothing else would end a connection whose node is never read.
                let silent = lock(&self.exchange).is_silent(&self.shared.mode());
                return if silent { End::Close } else { End::Direction };
            }
            self.shared.from_client.fetch_add(read as u64, Relaxed);
            let (step, requests) = lock(&self.exchange).request(&piece[..read], &self.shared.mode());
            self.shared.requests.fetch_add(requests as u64, Relaxed);
            let passed = match step {
                Up::Forward => node.write_all(&piece[..read]).await.is_ok(),
                Up::Swallow => true,
                Up::ScriptedAnswer(answer) => self.write(&answer).await,
                Up::Close => false,
            };
            if !passed {
                return End::Close;
            }
        }
    }

    async fn down(&self, mut node: ReadHalf<'_>) -> End {
        let mut piece = vec![0; READ];
        loop {
            let Ok(read) = node.read(&mut piece).await else {
                return End::Reset;
            };
            let step = lock(&self.exchange).reply(&piece[..read], &self.shared.mode());
            if !step.wait.is_zero() {
                tokio::time::sleep(step.wait).await;
            }
            let passed = match step.out {
                Out::Nothing => true,
                Out::First(bytes) => self.write(&piece[..bytes]).await,
                Out::Own(bytes) => self.write(&bytes).await,
                Out::Stretched(pieces) => self.write_each(pieces).await,
                Out::Trickle(bytes, every) => self.trickle(&piece[..read], bytes, every).await,
            };
            if !passed {
                return End::Close;
            }
            match step.then {
                Then::GoOn if read > 0 => {}
                Then::GoOn | Then::Shut => {
                    let _ = self.client.lock().await.shutdown().await;
                    return End::Direction;
                }
                Then::Close => return End::Close,
                Then::Reset => return End::Reset,
                Then::Silence => std::future::pending().await,
            }
        }
    }

    async fn write(&self, bytes: &[u8]) -> bool {
        let written = self.client.lock().await.write_all(bytes).await.is_ok();
        if written {
            self.shared.to_client.fetch_add(bytes.len() as u64, Relaxed);
        }
        written
    }

    async fn write_each(&self, pieces: Oversized) -> bool {
        for piece in pieces {
            if !self.write(&piece).await {
                return false;
            }
        }
        true
    }

    async fn trickle(&self, bytes: &[u8], at_once: usize, every: Duration) -> bool {
        for piece in bytes.chunks(at_once.max(1)) {
            if !self.write(piece).await {
                return false;
            }
            tokio::time::sleep(every).await;
        }
        true
    }
}

/// The treatment of a piece of a request.
enum Up {
    Forward,
    Swallow,
    ScriptedAnswer(Vec<u8>),
    Close,
}

/// The treatment of a piece of a reply: first a delay, then the bytes, then the rest of the connection.
struct Down {
    wait: Duration,
    out: Out,
    then: Then,
}

enum Out {
    Nothing,
    /// This number of bytes of the piece.
    First(usize),
    Own(Vec<u8>),
    Stretched(Oversized),
    Trickle(usize, Duration),
}

enum Then {
    GoOn,
    Shut,
    Close,
    Reset,
    /// The connection stays open, whatever the node does.
    Silence,
}

/// The state of the connection: the decisions, without the sockets.
struct Exchange {
    // The mode of the current request; `None` before the first and when the bytes are opaque.
    mode: Option<Mode>,
    request: Framing,
    reply: Framing,
    fresh: bool,
    sent: u64,
    body_sent: u64,
    done: u64,
    muted: bool,
}

impl Exchange {
    fn new() -> Self {
        Exchange {
            mode: None,
            request: Framing::new(Side::TestClient),
            reply: Framing::new(Side::Node),
            fresh: true,
            sent: 0,
            body_sent: 0,
            done: 0,
            muted: false,
        }
    }

    fn is_silent(&self, now: &Mode) -> bool {
        *self.mode.as_ref().unwrap_or(now) == Mode::BlackHole
    }

    /// Takes a piece of a request. Also returns how many heads ended in it.
    fn request(&mut self, bytes: &[u8], now: &Mode) -> (Up, usize) {
        let starts = self.request.is_idle();
        if starts && self.done > 0 && *now == Mode::StaleKeepAlive {
            return (Up::Close, 0);
        }
        if starts {
            self.mode = Some(now.clone());
        }
        let piece = self.request.feed(bytes);
        let opaque = self.request.is_opaque();
        if opaque {
            self.mode = None;
            self.reply.give_up();
        }
        if starts || opaque {
            self.fresh = true;
            self.sent = 0;
            self.body_sent = 0;
        }
        if self.muted {
            return (Up::Swallow, piece.heads);
        }
        let mode = self.mode.as_ref().unwrap_or(now);
        if piece.heads > 0 {
            let whole = matches!(mode, Mode::BadLength | Mode::Oversize(_));
            self.reply.expect(whole, self.request.label() == b"HEAD");
        }
        let whole = piece.ends > 0 || opaque;
        let step = match mode {
            Mode::BlackHole => Up::Swallow,
            Mode::Garbage if whole => Up::ScriptedAnswer(reply::noise()),
            Mode::GarbageBody if whole => Up::ScriptedAnswer(reply::garbage_body()),
            Mode::EarlyAnswer(body) if piece.heads > 0 || opaque => Up::ScriptedAnswer(reply::ok(body)),
            Mode::Garbage | Mode::GarbageBody | Mode::EarlyAnswer(_) => Up::Swallow,
            _ => Up::Forward,
        };
        if matches!(step, Up::ScriptedAnswer(_)) {
            self.done += 1;
        }
        (step, piece.heads)
    }

    /// Takes a piece of a reply; an empty one means that the node has ended its direction.
    fn reply(&mut self, bytes: &[u8], now: &Mode) -> Down {
        let until_close = self.reply.ends_with_the_connection();
        let piece = self.reply.feed(bytes);
        let opaque = self.reply.is_opaque();
        if opaque {
            self.request.give_up();
            self.mode = None;
        }
        let first = !bytes.is_empty() && std::mem::take(&mut self.fresh);
        let whole = piece.ends > 0 || (bytes.is_empty() && until_close);
        self.done += u64::from(whole);
        let mode = self.mode.as_ref().unwrap_or(now);

        let mut wait = Duration::ZERO;
        let mut out = Out::First(bytes.len());
        let mut then = Then::GoOn;
        match mode {
            Mode::BlackHole => {
                out = Out::Nothing;
                then = if bytes.is_empty() { Then::Silence } else { Then::GoOn };
            }
            Mode::Garbage | Mode::GarbageBody | Mode::EarlyAnswer(_) => out = Out::Nothing,
            Mode::Delay(by) if first => wait = *by,
            Mode::CutAfter(limit) if cuts(&mut self.sent, *limit, bytes.len(), &mut out) => {
                then = Then::Close;
            }
            Mode::ResetAfter(limit) if cuts(&mut self.sent, *limit, bytes.len(), &mut out) => {
                then = Then::Reset;
            }
            Mode::CutBodyAfter(limit) => {
                let head = piece.head_bytes.min(bytes.len());
                let began = piece.heads > 0 || self.body_sent > 0 || opaque || head < bytes.len();
                if began && cuts(&mut self.body_sent, *limit, bytes.len() - head, &mut out) {
                    if let Out::First(body) = &mut out {
                        *body += head;
                    }
                    then = Then::Close;
                }
            }
            Mode::HalfClose if whole || opaque => {
                self.muted = true;
                then = Then::Shut;
            }
            Mode::Slow { bytes: at_once, every } => out = Out::Trickle(*at_once, *every),
            Mode::BadLength | Mode::Oversize(_) if opaque => {}
            Mode::BadLength | Mode::Oversize(_) if !whole => out = Out::Nothing,
            Mode::BadLength => {
                let (head, body) = self.reply.take();
                out = Out::Own(reply::overstated(&head, &body));
                then = Then::Close;
            }
            Mode::Oversize(size) => {
                let (head, body) = self.reply.take();
                out = Out::Stretched(Oversized::new(&head, &body, *size));
            }
            Mode::ExcessBody(extra) if whole && !opaque => out = Out::Own([bytes, extra].concat()),
            Mode::Informational if first && !opaque => out = Out::Own([reply::INTERIM, bytes].concat()),
            _ => {}
        }
        Down { wait, out, then }
    }
}

/// Reports whether `more` bytes reach the limit; then only those below it go out.
fn cuts(sent: &mut u64, limit: u64, more: usize, out: &mut Out) -> bool {
    let left = limit.saturating_sub(*sent);
    *sent += more as u64;
    let reached = more as u64 >= left;
    if reached {
        *out = Out::First(usize::try_from(left).unwrap_or(more).min(more));
    }
    reached
}
