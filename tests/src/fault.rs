//! A TCP proxy in front of a node that imitates broken nodes and networks.
//!
//! It forwards everything until a [`Mode`] is set; the mode may change at any time. A request and its reply follow the
//! mode at the arrival of the request's first byte, so a test knows which requests a change affects. Protocols other
//! than HTTP/1 (TLS, HTTP/2, a WebSocket after its handshake, Redis, PostgreSQL) follow the current mode for each byte;
//! modes that need the end of a message forward them.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
//! use rpcgate_tests::fault::{FaultProxy, Mode};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use tokio::net::{TcpListener, TcpStream};
//!
//! let node = TcpListener::bind("127.0.0.1:0").await?;
//! let proxy = FaultProxy::start(node.local_addr()?).await?;
//! proxy.set(Mode::Garbage);
//!
//! let mut client = TcpStream::connect(proxy.addr()).await?;
//! client.write_all(b"GET / HTTP/1.1\r\nhost: node\r\n\r\n").await?;
//! assert_ne!(client.read_u8().await?, b'H');
//! assert_eq!(proxy.stats().requests, 1);
//! # Ok(()) }
//! ```

mod connection;
mod framing;
mod reply;

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// The behaviour of the proxy towards a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everything passes unchanged.
    Pass,
    /// The first byte of each reply is delayed by this time.
    Delay(Duration),
    /// The connection is closed cleanly (FIN) after this number of bytes of the reply, including its head.
    CutAfter(u64),
    /// The connection is closed cleanly (FIN) after the head and this number of bytes of the body, counted on the wire.
    CutBodyAfter(u64),
    /// The connection is reset (RST) after at most this number of bytes of the reply, including its head.
    ResetAfter(u64),
    /// After a complete reply the proxy sends FIN but keeps reading, so a client that writes its next request gets no
    /// error from writing.
    HalfClose,
    /// Connections are accepted and read, nothing is forwarded to the node, and no answer arrives. Swallowed requests
    /// stay unanswered when the mode changes.
    BlackHole,
    /// Connections are refused. Open connections continue.
    RefuseNew,
    /// New connections are accepted and reset (RST) at once. Open connections continue.
    ResetNew,
    /// A reply arrives slowly: some bytes, then a pause, repeatedly.
    Slow {
        /// The bytes between two pauses, at least one.
        bytes: usize,
        /// The length of a pause.
        every: Duration,
    },
    /// A request is answered with bytes that are not HTTP. The node does not get it.
    Garbage,
    /// A request is answered with a proper head and a body that is neither JSON nor UTF-8. The node does not get it.
    GarbageBody,
    /// The node's reply has its body extended to this number of bytes and is still valid: an answer's `result` becomes
    /// a long string, any other body gets spaces before its last byte.
    Oversize(u64),
    /// The node's whole reply has a length that promises more, then the connection is closed (FIN).
    BadLength,
    /// These bytes, which belong to no reply, follow the node's reply immediately.
    ExcessBody(Bytes),
    /// A 200 reply with this body is sent as soon as the request's head is there. The node does not get the request;
    /// its body is read and dropped.
    EarlyAnswer(Bytes),
    /// The interim replies 100, 102 and 103 come before the node's own.
    Informational,
    /// The connection is closed (FIN) when the first bytes of the second request arrive: an idle connection looks sound
    /// to the client until it is used. New connections serve one exchange.
    StaleKeepAlive,
}

/// Counts of the traffic so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Connections accepted.
    pub connections: u64,
    /// Connections open now.
    pub open: u64,
    /// HTTP/1 requests whose head was read, forwarded or not.
    pub requests: u64,
    /// Bytes read from clients.
    pub from_client: u64,
    /// Bytes written to clients.
    pub to_client: u64,
}

/// The proxy. Dropping it closes its listener and every connection.
#[derive(Debug)]
pub struct FaultProxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    // Bound and never listening: keeps the port while `RefuseNew` has the listener closed.
    _port: TcpSocket,
    runtime: Handle,
    sever: watch::Sender<u64>,
    accepting: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    mode: Mutex<Mode>,
    acceptor: Mutex<Acceptor>,
    connections: AtomicU64,
    open: AtomicU64,
    requests: AtomicU64,
    from_client: AtomicU64,
    to_client: AtomicU64,
}

#[derive(Debug)]
struct Acceptor {
    listener: Option<TcpListener>,
    waiting: Option<Waker>,
}

impl FaultProxy {
    /// Starts a proxy on a free port of 127.0.0.1 in front of that address. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let port = TcpSocket::new_v4()?;
        port.set_reuseaddr(true)?;
        port.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let addr = port.local_addr()?;
        let shared = Arc::new(Shared {
            mode: Mutex::new(Mode::Pass),
            acceptor: Mutex::new(Acceptor { listener: Some(listen(addr)?), waiting: None }),
            connections: AtomicU64::new(0),
            open: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            from_client: AtomicU64::new(0),
            to_client: AtomicU64::new(0),
        });
        let (sever, severed) = watch::channel(0);
        let accepting = tokio::spawn(accept(target, Arc::clone(&shared), severed)).abort_handle();
        Ok(FaultProxy { addr, shared, _port: port, runtime: Handle::current(), sever, accepting })
    }

    /// Returns the address for clients.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the URL without a path: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Changes the mode for later requests and connections.
    #[expect(
        clippy::expect_used,
        reason = "the port stays bound by this proxy, so no other process can have taken it"
    )]
    pub fn set(&self, mode: Mode) {
        let listening = mode != Mode::RefuseNew;
        *lock(&self.shared.mode) = mode;
        let mut acceptor = lock(&self.shared.acceptor);
        if !listening {
            acceptor.listener = None;
        } else if acceptor.listener.is_none() {
            let _inside = self.runtime.enter();
            acceptor.listener = Some(listen(self.addr).expect("the port is ours"));
            acceptor.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Resets (RST) every open connection, as a crash of the node's host would. New ones are served.
    pub fn reset_open(&self) {
        self.sever.send_modify(|generation| *generation += 1);
    }

    /// Returns the counts since the start.
    pub fn stats(&self) -> Stats {
        Stats {
            connections: self.shared.connections.load(Relaxed),
            open: self.shared.open.load(Relaxed),
            requests: self.shared.requests.load(Relaxed),
            from_client: self.shared.from_client.load(Relaxed),
            to_client: self.shared.to_client.load(Relaxed),
        }
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        lock(&self.shared.acceptor).listener = None;
        self.accepting.abort();
    }
}

impl Shared {
    fn mode(&self) -> Mode {
        lock(&self.mode).clone()
    }

    async fn accepted(&self) -> io::Result<TcpStream> {
        poll_fn(|context| {
            let mut acceptor = lock(&self.acceptor);
            // Stored on every poll: a listener that `set` closes and opens again does not have the waker of the old
            // one.
            acceptor.waiting = Some(context.waker().clone());
            match &acceptor.listener {
                Some(listener) => listener.poll_accept(context).map_ok(|(stream, _)| stream),
                None => Poll::Pending,
            }
        })
        .await
    }
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(1024)
}

async fn accept(target: SocketAddr, shared: Arc<Shared>, severed: watch::Receiver<u64>) {
    let mut connections = JoinSet::new();
    loop {
        let client = tokio::select! {
            accepted = shared.accepted() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok(client) = client else {
            // The client disconnected before it was accepted, or descriptors are short: yield to other tasks.
            tokio::task::yield_now().await;
            continue;
        };
        shared.connections.fetch_add(1, Relaxed);
        if shared.mode() == Mode::ResetNew {
            let _ = client.set_zero_linger();
            continue;
        }
        let mut severed = severed.clone();
        severed.mark_unchanged();
        connections.spawn(connection::serve(client, target, Arc::clone(&shared), severed));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
