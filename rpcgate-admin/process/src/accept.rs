//! Accepts connections, for every listener of both binaries.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

/// The pause before the next attempt when no socket is available.
const PAUSE: Duration = Duration::from_millis(50);
/// The number of refused connections that stay open until their clients have read the answer.
const REFUSED: usize = 64;

/// A listening socket.
#[derive(Debug)]
pub struct Acceptor {
    socket: TcpListener,
    addr: SocketAddr,
}

/// The limit on open connections, and the answer to excess ones. Listeners with clones of one share its slots.
#[derive(Clone, Debug)]
pub struct ConnectionBound {
    free: Option<Arc<Semaphore>>,
    answer: Vec<u8>,
}

impl ConnectionBound {
    /// No limit.
    pub const NONE: ConnectionBound = ConnectionBound { free: None, answer: Vec::new() };

    /// Limits open connections to `connections`. Excess ones are closed without an answer.
    pub fn new(connections: usize) -> Self {
        let free = Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS)));
        ConnectionBound { free: Some(free), answer: Vec::new() }
    }

    /// Sends `answer`, raw bytes, to excess connections.
    #[must_use]
    pub fn with_answer(mut self, answer: Vec<u8>) -> Self {
        self.answer = answer;
        self
    }

    fn permit(&self) -> Option<ConnectionPermit> {
        let Some(free) = &self.free else { return Some(ConnectionPermit::default()) };
        let permit = free.clone().try_acquire_owned().ok()?;
        Some(ConnectionPermit { _permit: Some(permit) })
    }
}

/// A connection's slot, freed when this is dropped. The default belongs to a connection without a limit.
#[derive(Debug, Default)]
pub struct ConnectionPermit {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Acceptor {
    /// Listens at `addr`; port 0 picks a free one. The operating system queues up to `backlog` connections, or fewer if
    /// its own limit is lower.
    ///
    /// # Errors
    /// The operating system's, such as an address that is taken.
    pub fn bind(addr: SocketAddr, backlog: u32) -> io::Result<Self> {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // Otherwise a restart would wait for the connections of the previous process.
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        Acceptor::over(socket.listen(backlog)?)
    }

    /// Accepts from an existing listening socket.
    ///
    /// # Errors
    /// The operating system's.
    pub fn over(socket: TcpListener) -> io::Result<Self> {
        let addr = socket.local_addr()?;
        Ok(Acceptor { socket, addr })
    }

    /// Returns the address that it listens at.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the socket, for options that accepted connections inherit.
    pub fn socket(&self) -> &TcpListener {
        &self.socket
    }

    /// Accepts connections until `stop` resolves, and then closes the socket. Each connection within `bound` is served
    /// by the future that `connection` returns, as a task in `tasks`. That future holds the permit while the connection
    /// is open.
    pub async fn serve<F>(
        self,
        bound: ConnectionBound,
        tasks: &TaskTracker,
        stop: impl Future<Output = ()>,
        mut connection: impl FnMut(TcpStream, SocketAddr, ConnectionPermit) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut stop = std::pin::pin!(stop);
        let mut refused = RefusedConnections::default();
        loop {
            let (stream, peer) = tokio::select! {
                accepted = self.next() => accepted,
                () = &mut stop => return,
            };
            match bound.permit() {
                Some(permit) => {
                    tasks.spawn(connection(stream, peer, permit));
                }
                None if bound.answer.is_empty() => drop(stream),
                None => refused.refuse(stream, &bound.answer),
            }
        }
    }

    /// Waits for the next connection. Sets `TCP_NODELAY`, because answers are written whole.
    ///
    /// Skips an error that concerns one connection. Logs any other, such as too many open files, and pauses for 50 ms.
    /// Cancelling the future loses no connection.
    pub async fn next(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.socket.accept().await {
                Ok((stream, peer)) => {
                    // This fails if the client has already left, which the first read reports.
                    let _ = stream.set_nodelay(true);
                    return (stream, peer);
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, addr = %self.addr, "cannot accept connections");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Reports whether an error of `accept` concerns only one connection.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Excess connections, which get an answer and nothing else. The last 64 stay open without a task: if one were closed
/// at once, with its client's request unread, the kernel would discard the answer.
#[derive(Debug, Default)]
struct RefusedConnections(VecDeque<std::net::TcpStream>);

impl RefusedConnections {
    /// Writes the part of `answer` that the kernel takes without waiting, and shuts down the sending side.
    fn refuse(&mut self, stream: TcpStream, answer: &[u8]) {
        if self.0.len() == REFUSED {
            self.0.pop_front();
        }
        self.0.extend(answered(stream, answer));
    }
}

fn answered(stream: TcpStream, answer: &[u8]) -> Option<std::net::TcpStream> {
    stream.try_write(answer).ok()?;
    let stream = stream.into_std().ok()?;
    stream.shutdown(Shutdown::Write).ok()?;
    Some(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_refused_client_reads_the_reason_and_a_bounded_number_is_kept() {
        let acceptor = any();
        let mut refused = RefusedConnections::default();
        for _ in 0..REFUSED + 2 {
            let mut client = TcpStream::connect(acceptor.addr()).await.unwrap();
            client.write_all(b"a request").await.unwrap();
            let (stream, peer) = acceptor.next().await;
            assert_eq!(peer, client.local_addr().unwrap());
            assert!(stream.nodelay().unwrap());
            refused.refuse(stream, b"full");
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, b"full");
        }
        assert_eq!(refused.0.len(), REFUSED);
    }

    fn any() -> Acceptor {
        Acceptor::bind(([127, 0, 0, 1], 0).into(), 128).unwrap()
    }

    async fn rest(mut client: TcpStream) -> String {
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn connections_beyond_the_limit_are_refused_until_one_ends() {
        for answer in ["full", ""] {
            let acceptor = any();
            let addr = acceptor.addr();
            let bound = ConnectionBound::new(1).with_answer(answer.into());
            let serve = async move {
                let greet = |mut stream: TcpStream, peer: SocketAddr, permit| async move {
                    stream.write_all(b"hello").await.unwrap();
                    assert_eq!(stream.peer_addr().unwrap(), peer);
                    let _ = stream.read_u8().await;
                    drop(permit);
                };
                acceptor.serve(bound, &TaskTracker::new(), std::future::pending(), greet).await;
            };
            let serving = tokio::spawn(serve);
            let mut first = TcpStream::connect(addr).await.unwrap();
            first.read_exact(&mut [0; 5]).await.unwrap();
            assert_eq!(rest(TcpStream::connect(addr).await.unwrap()).await, answer);
            first.write_u8(0).await.unwrap();
            assert_eq!(rest(first).await, "");
            let mut next = TcpStream::connect(addr).await.unwrap();
            while next.read_u8().await.ok() != Some(b'h') {
                next = TcpStream::connect(addr).await.unwrap();
            }
            serving.abort();
        }
    }

    // Shows (Streams).
    #[tokio::test]
    async fn listeners_share_one_limit_of_connections() {
        let one = any();
        let other = any();
        let first = one.addr();
        let second = other.addr();
        let bound = ConnectionBound::new(1);
        let tasks = TaskTracker::new();
        let greet = |mut stream: TcpStream, _, permit| async move {
            stream.write_all(b"hello").await.unwrap();
            let _ = stream.read_u8().await;
            drop(permit);
        };
        let others = bound.clone().with_answer(b"full".into());
        let serving = async {
            tokio::join!(
                one.serve(bound, &tasks, std::future::pending(), greet),
                other.serve(others, &tasks, std::future::pending(), greet)
            )
        };
        let clients = async {
            let mut client = TcpStream::connect(first).await.unwrap();
            client.read_exact(&mut [0; 5]).await.unwrap();
            assert_eq!(rest(TcpStream::connect(second).await.unwrap()).await, "full");
        };
        tokio::select! {
            _ = serving => {}
            () = clients => {}
        }
    }

    #[tokio::test]
    async fn a_stopped_acceptor_closes_its_socket_and_its_connections_continue() {
        let acceptor = any();
        let tasks = TaskTracker::new();
        let addr = acceptor.addr();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let tracked = tasks.clone();
        let serving = tokio::spawn(async move {
            let echo = |mut stream: TcpStream, _, permit| async move {
                let byte = stream.read_u8().await.unwrap();
                stream.write_u8(byte).await.unwrap();
                drop(permit);
            };
            let stopped = async { stopped.await.unwrap_or_default() };
            acceptor.serve(ConnectionBound::NONE, &tracked, stopped, echo).await;
        });
        let mut client = TcpStream::connect(addr).await.unwrap();
        while tasks.is_empty() {
            tokio::task::yield_now().await;
        }
        stop.send(()).unwrap();
        serving.await.unwrap();
        assert!(TcpStream::connect(addr).await.is_err());
        client.write_all(b"x").await.unwrap();
        assert_eq!(rest(client).await, "x");
    }

    #[test]
    fn only_an_error_of_accepting_makes_it_pause() {
        assert!(is_of_one_connection(&io::ErrorKind::ConnectionAborted.into()));
        assert!(!is_of_one_connection(&io::Error::from_raw_os_error(24)), "too many open files");
    }
}
