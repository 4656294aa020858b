//! Idle connections to one node.

use super::connection::NodeConnection;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::Duration;

/// The idle connections to one node. The last used is taken first, so the others grow old and are closed when fewer are
/// needed.
pub(super) struct IdleConnections {
    connections: Mutex<VecDeque<IdleConnection>>,
    max: usize,
    longest: Duration,
}

struct IdleConnection {
    connection: Box<NodeConnection>,
    since: Duration,
}

impl IdleConnections {
    /// At most `max` connections, each for at most `longest`.
    pub(super) fn new(max: usize, longest: Duration) -> Self {
        IdleConnections { connections: Mutex::default(), max, longest }
    }

    /// A connection that can take a request now and has been idle for less than `max_idle`.
    pub(super) fn take(&self, now: Duration, max_idle: Duration) -> Option<Box<NodeConnection>> {
        loop {
            let IdleConnection { mut connection, since } = {
                let mut connections = self.connections.lock();
                let newest = connections.back()?;
                let idle = now.saturating_sub(newest.since);
                if idle >= max_idle && idle < newest.connection.idle_limit(self.longest) {
                    return None;
                }
                connections.pop_back()?
            };
            if now.saturating_sub(since) < connection.idle_limit(self.longest) && connection.is_ready() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection whose last answer was read to its end.
    pub(super) fn put(&self, connection: Box<NodeConnection>, now: Duration) {
        if self.max == 0 {
            return;
        }
        // The connection that makes room is dropped after the lock: closing a socket is a system call.
        let dropped = {
            let mut connections = self.connections.lock();
            let is_over = connections.front().is_some_and(|oldest| oldest.is_over(now, self.longest));
            let dropped =
                if is_over || connections.len() >= self.max { connections.pop_front() } else { None };
            connections.push_back(IdleConnection { connection, since: now });
            dropped
        };
        drop(dropped);
    }

    /// Closes connections that have been idle for too long and drops those that the node closed.
    pub(super) fn sweep(&self, now: Duration) {
        let mut over = Vec::new();
        let mut connections = self.connections.lock();
        for _ in 0..connections.len() {
            let Some(mut oldest) = connections.pop_front() else { break };
            if oldest.is_over(now, self.longest) || !oldest.connection.is_ready() {
                over.push(oldest);
            } else {
                connections.push_back(oldest);
            }
        }
        // Closing a socket is a system call, so it is done after the lock.
        drop(connections);
        drop(over);
    }

    pub(super) fn len(&self) -> usize {
        self.connections.lock().len()
    }
}

impl IdleConnection {
    fn is_over(&self, now: Duration, longest: Duration) -> bool {
        now.saturating_sub(self.since) >= self.connection.idle_limit(longest)
    }
}

#[cfg(test)]
mod tests {
    use crate::nodes::PoolLimits;
    use crate::testing::scripted_node::{PoolFixture, ScriptedNode, answer};
    use std::time::Duration;

    #[tokio::test]
    async fn a_connection_serves_one_call_after_the_other() {
        let node = ScriptedNode::always(answer("{}")).await;
        let fixture = PoolFixture::new(&[&node]);
        for _ in 0..20 {
            assert_eq!(fixture.read().await.unwrap(), "{}");
        }
        assert_eq!((node.conns(), node.seen().len()), (1, 20));
    }

    #[tokio::test]
    async fn a_connection_that_waited_too_long_is_not_used() {
        let node = ScriptedNode::always(answer("{}")).await;
        let fixture = PoolFixture::new(&[&node]);
        fixture.read().await.unwrap();
        fixture.clock.advance(Duration::from_secs(59));
        fixture.read().await.unwrap();
        assert_eq!(node.conns(), 1);
        fixture.clock.advance(Duration::from_secs(60));
        fixture.read().await.unwrap();
        assert_eq!((node.conns(), fixture.idle()), (2, 1));
    }

    #[tokio::test]
    async fn a_shorter_keep_alive_of_a_node_is_respected() {
        let node =
            ScriptedNode::always("HTTP/1.1 200 OK\r\nkeep-alive: timeout=5\r\ncontent-length: 2\r\n\r\n{}")
                .await;
        let fixture = PoolFixture::new(&[&node]);
        fixture.read().await.unwrap();
        fixture.clock.advance(Duration::from_millis(4_499));
        fixture.read().await.unwrap();
        assert_eq!(node.conns(), 1);
        fixture.clock.advance(Duration::from_millis(4_500));
        fixture.read().await.unwrap();
        assert_eq!(node.conns(), 2);
    }

    #[tokio::test]
    async fn no_more_than_so_many_connections_are_idle() {
        let node = ScriptedNode::always(answer("{}")).await;
        let fixture =
            PoolFixture::with(&[node.url()], PoolLimits { idle_per_node: 2, ..PoolLimits::default() });
        let (a, b, c, d) = tokio::join!(fixture.read(), fixture.read(), fixture.read(), fixture.read());
        assert!([a, b, c, d].iter().all(Result::is_ok));
        assert_eq!((node.conns(), fixture.idle()), (4, 2));
    }

    #[tokio::test]
    async fn sweeping_closes_connections_that_were_idle_too_long() {
        let node = ScriptedNode::serve(|_, mut wire| async move {
            while wire.request().await.is_some() {
                wire.write(answer("{}")).await;
            }
            wire.note("closed");
        })
        .await;
        let fixture = PoolFixture::new(&[&node]);
        fixture.read().await.unwrap();
        assert_eq!(fixture.idle(), 1);
        fixture.clock.advance(Duration::from_secs(60));
        assert_eq!(fixture.idle(), 0);
        fixture.until(|_| node.seen().last().is_some_and(|last| last == "closed")).await;
    }

    #[tokio::test]
    async fn a_broadcast_takes_only_a_connection_used_just_now() {
        let node = ScriptedNode::always(answer("{}")).await;
        let fixture = PoolFixture::new(&[&node]);
        fixture.broadcast().await.unwrap();
        fixture.clock.advance(Duration::from_millis(1_999));
        fixture.broadcast().await.unwrap();
        assert_eq!(node.conns(), 1);
        fixture.clock.advance(Duration::from_secs(2));
        fixture.broadcast().await.unwrap();
        assert_eq!(node.conns(), 2);
    }

    #[tokio::test]
    async fn a_connection_closed_while_it_waits_is_forgotten() {
        let node = ScriptedNode::serve(|_, mut wire| async move {
            wire.request().await;
            wire.write(answer("{}")).await;
        })
        .await;
        let fixture = PoolFixture::new(&[&node]);
        for calls in 1..4 {
            assert_eq!(fixture.broadcast().await.unwrap(), "{}");
            fixture.until(|_| fixture.idle() == 0).await;
            assert_eq!((node.conns(), node.seen().len()), (calls, calls));
        }
    }
}
