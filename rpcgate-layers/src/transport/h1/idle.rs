use super::connection::NodeConnection;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// The factor by which more connections are kept if they must rest. With a rest of 10 ms, a node that answers 50,000
/// REST calls per second has 500 resting connections.
const RESTING: usize = 4;

/// The number of the newest connections that are searched for one whose answers show numbers.
const SEARCHED: usize = 16;

/// The idle connections to one node, in the order in which they became idle. The newest is taken first, so that the
/// others grow old and are closed when fewer are needed.
pub(super) struct IdleConnections {
    connections: Mutex<VecDeque<RestingConnection>>,
    max: usize,
    rest: Duration,
    longest: Duration,
}

/// A connection without a call, and the time since when it has none.
pub(crate) struct RestingConnection {
    pub(super) connection: Box<NodeConnection>,
    pub(super) since: Duration,
}

/// The requirements of a call for an idle connection.
#[derive(Clone, Copy)]
pub(super) struct IdleTime {
    /// The upper bound of the connection's idle time.
    pub(super) max: Duration,
    /// True if the call has a number, by which its answer is recognised. It needs no rest on a connection whose answers
    /// show numbers.
    pub(super) has_number: bool,
}

impl fmt::Debug for RestingConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestingConnection").field("since", &self.since).finish_non_exhaustive()
    }
}

impl IdleConnections {
    /// Creates a store for at most `max` connections, or [`RESTING`] times as many if they must rest, each for at most
    /// `longest`.
    pub(super) fn new(max: usize, rest: Duration, longest: Duration) -> Self {
        IdleConnections { connections: Mutex::default(), max, rest, longest }
    }

    /// Returns the connection with the shortest allowed idle time that can take a request now.
    pub(super) fn take(&self, now: Duration, time: IdleTime) -> Option<Box<NodeConnection>> {
        loop {
            let RestingConnection { mut connection, since } = {
                let mut connections = self.connections.lock();
                let at = self.newest(&connections, now, time.has_number)?;
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

    /// Returns the position of the connection with the shortest idle time that may take a call.
    fn newest(
        &self,
        connections: &VecDeque<RestingConnection>,
        now: Duration,
        has_number: bool,
    ) -> Option<usize> {
        let needs_no_rest = |one: &RestingConnection| has_number && one.connection.has_numbers();
        if connections.back().is_some_and(needs_no_rest) {
            return Some(connections.len() - 1);
        }
        let rested = connections.partition_point(|one| now.saturating_sub(one.since) >= self.rest);
        if has_number {
            // A resting connection that shows numbers exists only if the node sends answers of both kinds.
            let from = rested.max(connections.len().saturating_sub(SEARCHED));
            let resting = connections.iter().skip(from).rposition(needs_no_rest);
            return resting.map(|at| from + at).or(rested.checked_sub(1));
        }
        rested.checked_sub(1)
    }

    pub(super) fn put(&self, resting: RestingConnection) {
        if self.max == 0 {
            return;
        }
        let must_rest = !self.rest.is_zero() && !resting.connection.has_numbers();
        let max = if must_rest { self.max.saturating_mul(RESTING) } else { self.max };
        // The replaced connection is dropped after the lock is released, because closing a socket is a system call.
        let dropped = {
            let mut connections = self.connections.lock();
            let now = resting.since;
            let is_over = connections.front().is_some_and(|oldest| oldest.is_over(now, self.longest));
            let dropped = if is_over || connections.len() >= max { connections.pop_front() } else { None };
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
        // Closing a socket is a system call, so it is done after the lock is released.
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
    use super::RESTING;
    use crate::nodes::{NodeConfig, Pool, PoolLimits};
    use crate::testing::scripted_node::{PoolFixture, ScriptedNode, answer, call};
    use crate::transport::h1::NodeRequest;
    use http::Method;
    use rpcgate_core::adapter::Adapter;
    use rpcgate_core::clock::{ManualClock, Time};
    use rpcgate_core::toy::Toy;
    use std::sync::Arc;
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
    async fn the_number_of_idle_connections_is_bounded() {
        let node = ScriptedNode::always(answer("{}")).await;
        let fixture =
            PoolFixture::with(&[node.url()], PoolLimits { idle_per_node: 2, ..PoolLimits::default() });
        let (a, b, c, d) = tokio::join!(fixture.read(), fixture.read(), fixture.read(), fixture.read());
        assert!([a, b, c, d].iter().all(Result::is_ok));
        assert_eq!((node.conns(), fixture.idle()), (4, 2));
    }

    /// A pool whose connections must rest, with a clock that does not move.
    fn resting_pool(node: &ScriptedNode, limits: PoolLimits) -> PoolFixture {
        let clock = Arc::new(ManualClock::at(Time::default()));
        let nodes = vec![NodeConfig::new(node.url().parse().unwrap())];
        PoolFixture { pool: Pool::new(Toy.facts(), nodes, limits, clock.clone()), clock }
    }

    #[tokio::test]
    async fn an_array_that_is_answered_by_a_number_of_its_set_needs_no_rest() {
        for (id, conns) in [(256, 1), (258, 1), (383, 1), (384, 9), (255, 9)] {
            let node =
                ScriptedNode::always(answer(&format!(r#"[{{"jsonrpc":"2.0","id":{id},"result":1}}]"#))).await;
            let fixture = resting_pool(&node, PoolLimits::default());
            for _ in 0..9 {
                fixture.complete(call("any").with_number(256)).await.unwrap();
            }
            assert_eq!(node.conns(), conns, "{id}");
        }
    }

    #[tokio::test]
    async fn connections_that_must_rest_are_kept_in_a_larger_number() {
        let node = ScriptedNode::always(answer("{}")).await;
        let limits = PoolLimits::default().with_idle(2, Duration::from_secs(60));
        let fixture = resting_pool(&node, limits);
        for call in 1..40 {
            assert_eq!(fixture.read().await.unwrap(), "{}");
            assert_eq!((node.conns(), fixture.idle()), (call, call.min(2 * RESTING)));
        }
        fixture.clock.advance(limits.rest);
        for _ in 0..2 * RESTING {
            assert_eq!(fixture.read().await.unwrap(), "{}");
        }
        assert_eq!(node.conns(), 39, "those that have rested serve calls again");
        fixture.clock.advance(limits.rest);
        fixture.read().await.unwrap();
        assert_eq!((node.conns(), fixture.idle()), (39, 2 * RESTING));
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

    /// A node that sends an old answer after each answer, later than in the same packet.
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

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn a_connection_with_late_bytes_takes_no_call_after_its_rest() {
        let node = repeating("200 OK").await;
        let fixture = resting_pool(&node, PoolLimits::default());
        for calls in 1..20 {
            assert_eq!(fixture.complete(call("mine")).await.unwrap(), "mine");
            assert_eq!(node.conns(), calls, "no connection has rested");
        }
        // In this time the late bytes arrive, and the connections turn out to be broken.
        fixture.until(|_| fixture.idle() == 0).await;
        fixture.clock.advance(PoolLimits::default().rest);
        assert_eq!(fixture.complete(call("mine")).await.unwrap(), "mine");
    }

    // Shows (Nodes and cache).
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
                assert_eq!(fixture.complete(request).await.unwrap(), "", "{method} {status}");
                assert_eq!((node.conns(), fixture.idle()), (calls, 0), "{method} {status}");
            }
        }
    }
}
