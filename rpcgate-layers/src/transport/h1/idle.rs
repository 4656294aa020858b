//! Idle connections to one node.

use super::connection::NodeConnection;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// The idle connections to one node. The last used is taken first, so the others grow old and are closed when fewer are
/// needed.
pub(super) struct IdleConnections {
    connections: Mutex<VecDeque<RestingConnection>>,
    max: usize,
    longest: Duration,
}

/// A connection, and the time since when it has no call.
pub(crate) struct RestingConnection {
    pub(super) connection: Box<NodeConnection>,
    pub(super) since: Duration,
}

/// The connection that a call may take.
#[derive(Clone, Copy)]
pub(super) struct IdleTime {
    /// It must have been idle for this time, unless its answers show numbers and the call has one.
    pub(super) rest: Duration,
    /// It must have been idle for less.
    pub(super) max: Duration,
    /// Whether the call has a number, by which its answer is recognised.
    pub(super) has_number: bool,
}

impl fmt::Debug for RestingConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestingConnection").field("since", &self.since).finish_non_exhaustive()
    }
}

impl IdleTime {
    fn has_rested(self, one: &RestingConnection, now: Duration) -> bool {
        self.has_number && one.connection.has_numbers() || now.saturating_sub(one.since) >= self.rest
    }
}

impl IdleConnections {
    /// At most `max` connections, each for at most `longest`.
    pub(super) fn new(max: usize, longest: Duration) -> Self {
        IdleConnections { connections: Mutex::default(), max, longest }
    }

    /// The connection that was idle for the shortest of the allowed times and can take a request now.
    pub(super) fn take(&self, now: Duration, time: IdleTime) -> Option<Box<NodeConnection>> {
        loop {
            let RestingConnection { mut connection, since } = {
                let mut connections = self.connections.lock();
                let at = connections.iter().rposition(|one| time.has_rested(one, now))?;
                let newest = connections.get(at)?;
                let idle = now.saturating_sub(newest.since);
                if idle >= time.max && idle < newest.connection.idle_limit(self.longest) {
                    return None;
                }
                connections.remove(at)?
            };
            if now.saturating_sub(since) < connection.idle_limit(self.longest) && connection.is_ready() {
                connection.is_reused = true;
                return Some(connection);
            }
        }
    }

    /// Keeps a connection whose last answer was read to its end.
    pub(super) fn put(&self, resting: RestingConnection) {
        if self.max == 0 {
            return;
        }
        // The connection that makes room is dropped after the lock: closing a socket is a system call.
        let dropped = {
            let mut connections = self.connections.lock();
            let now = resting.since;
            let is_over = connections.front().is_some_and(|oldest| oldest.is_over(now, self.longest));
            let dropped =
                if is_over || connections.len() >= self.max { connections.pop_front() } else { None };
            connections.push_back(resting);
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

impl RestingConnection {
    fn is_over(&self, now: Duration, longest: Duration) -> bool {
        now.saturating_sub(self.since) >= self.connection.idle_limit(longest)
    }
}

#[cfg(test)]
mod tests {
    use crate::nodes::PoolLimits;
    use crate::testing::scripted_node::{PoolFixture, ScriptedNode, answer, call};
    use crate::transport::h1::NodeRequest;
    use http::Method;
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

    /// A node that sends an old answer behind each answer, later than in the same packet.
    async fn repeating(status: &'static str) -> ScriptedNode {
        ScriptedNode::serve(move |_, mut wire| async move {
            while let Some(request) = wire.request().await {
                let is_head = request.starts_with("HEAD");
                let body = if is_head { "" } else { request.rsplit("\r\n\r\n").next().unwrap_or_default() };
                let length = if is_head { 3 } else { body.len() };
                wire.write(format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}")).await;
                wire.write(answer("\"old\"")).await;
            }
        })
        .await
    }

    #[tokio::test]
    async fn a_connection_with_late_bytes_takes_no_call_after_its_rest() {
        let node = repeating("200 OK").await;
        let nodes = vec![crate::nodes::NodeConfig::new(node.url().parse().unwrap())];
        let clock =
            std::sync::Arc::new(rpcgate_core::clock::ManualClock::at(rpcgate_core::clock::Time::default()));
        let facts = rpcgate_core::adapter::Adapter::facts(&rpcgate_core::toy::Toy);
        let pool = crate::nodes::Pool::new(facts, nodes, PoolLimits::default(), clock.clone());
        let fixture = PoolFixture { pool, clock };
        for calls in 1..20 {
            assert_eq!(fixture.whole(call("mine")).await.unwrap(), "mine");
            assert_eq!(node.conns(), calls, "no connection has rested");
        }
        // In this time the late bytes arrive, and the connections are found to be broken.
        fixture.until(|_| fixture.idle() == 0).await;
        fixture.clock.advance(PoolLimits::default().rest);
        assert_eq!(fixture.whole(call("mine")).await.unwrap(), "mine");
    }

    #[tokio::test]
    async fn a_connection_takes_no_call_after_an_answer_without_a_body_by_definition() {
        for (method, status) in
            [(Method::HEAD, "200 OK"), (Method::GET, "204 No Content"), (Method::GET, "304 Not Modified")]
        {
            let node = repeating(status).await;
            let fixture = PoolFixture::new(&[&node]);
            for calls in 1..5 {
                let request =
                    NodeRequest { method: method.clone(), ..NodeRequest::json_rpc(bytes::Bytes::new()) };
                assert_eq!(fixture.whole(request).await.unwrap(), "", "{method} {status}");
                assert_eq!((node.conns(), fixture.idle()), (calls, 0), "{method} {status}");
            }
        }
    }
}
