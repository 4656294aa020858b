//! Accepting connections, for every listener of both binaries.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Pause before the next attempt when the machine has no socket left to give.
const REST: Duration = Duration::from_millis(50);
/// Refused connections that are kept until their clients have read why.
const REFUSED: usize = 64;

/// A socket that listens.
#[derive(Debug)]
pub struct Acceptor {
    socket: TcpListener,
    addr: SocketAddr,
}

impl Acceptor {
    /// Listens at `addr`; port 0 picks a free one. The operating system holds up to `backlog` connections until they are
    /// accepted, fewer if its own bound is lower.
    ///
    /// # Errors
    /// The operating system's, such as an address that is taken.
    pub fn bind(addr: SocketAddr, backlog: u32) -> io::Result<Self> {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // Otherwise a restart would wait for the connections of the process before.
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        Acceptor::over(socket.listen(backlog)?)
    }

    /// Accepts from a socket that listens already.
    ///
    /// # Errors
    /// The operating system's.
    pub fn over(socket: TcpListener) -> io::Result<Self> {
        let addr = socket.local_addr()?;
        Ok(Acceptor { socket, addr })
    }

    /// The address it listens at.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The socket, to set options on it that accepted connections inherit.
    pub fn socket(&self) -> &TcpListener {
        &self.socket
    }

    /// Waits for the next connection. It sends each write at once (`TCP_NODELAY`): answers are written whole.
    ///
    /// An error that concerns one connection is skipped. Any other, such as too many open files, is logged, and accepting
    /// pauses for 50 ms. Cancelling the future loses no connection.
    pub async fn next(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.socket.accept().await {
                Ok((stream, peer)) => {
                    // It fails if the client has left already, which the first read will tell.
                    let _ = stream.set_nodelay(true);
                    return (stream, peer);
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, addr = %self.addr, "cannot accept connections");
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }
}

/// Whether an error of `accept` is about the connection that was to be accepted, not about accepting.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Connections beyond a listener's bound, which get an answer and nothing else. The last 64 stay open without a task: if
/// one were closed at once, with its client's request unread, the kernel would take the answer back.
#[derive(Debug, Default)]
pub struct RefusedConnections(VecDeque<std::net::TcpStream>);

impl RefusedConnections {
    /// Writes `answer` to a connection, as far as the kernel takes it without waiting, and ends the sending side.
    pub fn refuse(&mut self, stream: TcpStream, answer: &[u8]) {
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
    async fn a_refused_client_reads_why_and_only_so_many_are_kept() {
        let acceptor = Acceptor::bind(([127, 0, 0, 1], 0).into(), 128).unwrap();
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

    #[test]
    fn only_an_error_of_accepting_makes_it_pause() {
        assert!(is_of_one_connection(&io::ErrorKind::ConnectionAborted.into()));
        assert!(!is_of_one_connection(&io::Error::from_raw_os_error(24)), "too many open files");
    }
}
