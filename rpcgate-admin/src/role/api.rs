//! The role that listens: the management API.

use super::connection::{Activity, serve};
use crate::house::House;
use crate::metrics;
use crate::router::router;
use arc_swap::ArcSwap;
use axum::Router;
use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// Connections that may be open at a time.
const CONNECTIONS: usize = 1_024;
/// The same for those who ask for metrics.
const SCRAPERS: usize = 16;
/// Connections that the system may hold until they are accepted.
const BACKLOG: u32 = 1_024;
/// How long accepting rests when the machine has no socket left to give.
const REST: Duration = Duration::from_millis(50);
/// Connections turned away that are kept until their clients have read why.
const TURNED_AWAY: usize = 64;
/// All of the answer to a connection beyond the bound.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: 43\r\n\
    retry-after: 1\r\nconnection: close\r\n\r\n{\"error\":\"service temporarily unavailable\"}";

/// The management API, serving. Dropped, it ends at once.
#[derive(Debug)]
pub struct Api {
    addr: SocketAddr,
    router: Arc<ArcSwap<Router>>,
    grace: Duration,
    leave: CancellationToken,
    cut: DropGuard,
    tasks: TaskTracker,
}

impl Api {
    /// Serves `house` at `listen`; port 0 picks a free one.
    ///
    /// # Errors
    /// What the system says of the address.
    pub fn start(house: &Arc<House>, listen: SocketAddr) -> io::Result<Self> {
        Api::within(house, listen, CONNECTIONS)
    }

    /// Serves the page for Prometheus at `listen`.
    ///
    /// # Errors
    /// What the system says of the address.
    pub fn metrics(house: &Arc<House>, listen: SocketAddr) -> io::Result<Self> {
        Api::of(metrics::router(house), listen, SCRAPERS, CancellationToken::new(), Duration::ZERO)
    }

    fn within(house: &Arc<House>, listen: SocketAddr, connections: usize) -> io::Result<Self> {
        let leave = CancellationToken::new();
        let grace = house.settings.config.shutdown.grace;
        Api::of(router(house, &leave), listen, connections, leave, grace)
    }

    fn of(
        router: Router,
        listen: SocketAddr,
        connections: usize,
        leave: CancellationToken,
        grace: Duration,
    ) -> io::Result<Self> {
        let socket = bind(listen)?;
        let addr = socket.local_addr()?;
        let (cut, tasks) = (CancellationToken::new(), TaskTracker::new());
        let router = Arc::new(ArcSwap::from_pointee(router));
        let hall = Hall {
            router: router.clone(),
            room: Arc::new(Semaphore::new(connections)),
            leave: leave.clone(),
            cut: cut.clone(),
            tasks: tasks.clone(),
        };
        tasks.spawn(hall.accept(socket));
        Ok(Api { addr, router, grace, leave, cut: cut.drop_guard(), tasks })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves `house` from the next request on, over the connections that are open too.
    pub fn serve(&self, house: &Arc<House>) {
        self.router.store(Arc::new(router(house, &self.leave)));
    }

    /// Takes no more requests, finishes those that came, at most for `shutdown.grace`, then cuts off the rest and tells
    /// how many connections those were. The house stays open.
    pub async fn drain(self) -> usize {
        self.leave.cancel();
        self.tasks.close();
        if tokio::time::timeout(self.grace, self.tasks.wait()).await.is_ok() {
            return 0;
        }
        let left = self.tasks.len();
        drop(self.cut);
        self.tasks.wait().await;
        left
    }
}

fn bind(listen: SocketAddr) -> io::Result<TcpListener> {
    let socket = if listen.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Else a restart would wait for the connections of the process before.
    socket.set_reuseaddr(true)?;
    socket.bind(listen)?;
    socket.listen(BACKLOG)
}

struct Hall {
    router: Arc<ArcSwap<Router>>,
    room: Arc<Semaphore>,
    leave: CancellationToken,
    cut: CancellationToken,
    tasks: TaskTracker,
}

impl Hall {
    async fn accept(self, socket: TcpListener) {
        let mut turned_away = VecDeque::with_capacity(TURNED_AWAY);
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                () = self.leave.cancelled() => return,
                () = self.cut.cancelled() => return,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) if is_of_one_connection(&error) => continue,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(REST).await;
                    continue;
                }
            };
            let Ok(place) = self.room.clone().try_acquire_owned() else {
                if turned_away.len() == TURNED_AWAY {
                    turned_away.pop_front();
                }
                turned_away.extend(turn_away(stream));
                continue;
            };
            // Answers are written whole, so there is nothing to wait for.
            let _ = stream.set_nodelay(true);
            let (router, leave, cut) = (self.router.clone(), self.leave.clone(), self.cut.clone());
            self.tasks.spawn(async move {
                let activity = Arc::new(Activity::default());
                tokio::select! {
                    () = serve(stream, peer, router, activity, leave) => {}
                    () = cut.cancelled() => {}
                }
                drop(place);
            });
        }
    }
}

/// Whether an error of `accept` is about the connection that was to be accepted, not about accepting.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Tells a client beyond the bound to come back. The socket is kept for a while: closed at once, with the client's
/// request unread, it would take the answer back.
fn turn_away(stream: TcpStream) -> Option<std::net::TcpStream> {
    stream.try_write(FULL).ok()?;
    let stream = stream.into_std().ok()?;
    stream.shutdown(Shutdown::Write).ok()?;
    Some(stream)
}

#[cfg(test)]
mod tests;
