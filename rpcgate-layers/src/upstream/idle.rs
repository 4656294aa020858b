//! Connections that wait for their next call.

use super::connect::Conn;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::Duration;

/// The waiting connections to one node, the last used on top: so the others grow old and are closed when fewer are
/// needed.
pub(super) struct Idle {
    waiting: Mutex<VecDeque<Waiting>>,
    most: usize,
    longest: Duration,
}

struct Waiting {
    conn: Box<Conn>,
    since: Duration,
}

impl Idle {
    /// At most `most` connections, each for at most `longest`.
    pub(super) fn new(most: usize, longest: Duration) -> Self {
        Idle { waiting: Mutex::default(), most, longest }
    }

    /// A connection that can take a request now and has waited for less than `younger`.
    pub(super) fn take(&self, now: Duration, younger: Duration) -> Option<Box<Conn>> {
        loop {
            let Waiting { mut conn, since } = {
                let mut waiting = self.waiting.lock();
                let age = now.saturating_sub(waiting.back()?.since);
                if age >= younger && age < waiting.back()?.conn.keep(self.longest) {
                    return None;
                }
                waiting.pop_back()?
            };
            if now.saturating_sub(since) < conn.keep(self.longest) && conn.is_ready() {
                return Some(conn);
            }
        }
    }

    /// Keeps a connection whose last answer was read to its end.
    pub(super) fn put(&self, conn: Box<Conn>, now: Duration) {
        if self.most == 0 {
            return;
        }
        // What is given up is dropped after the lock: closing a socket is a system call.
        let given_up = {
            let mut waiting = self.waiting.lock();
            let oldest = waiting.front().is_some_and(|oldest| oldest.is_over(now, self.longest));
            let given_up = if oldest || waiting.len() >= self.most { waiting.pop_front() } else { None };
            waiting.push_back(Waiting { conn, since: now });
            given_up
        };
        drop(given_up);
    }

    /// Closes what has waited too long and forgets what the node closed.
    pub(super) fn sweep(&self, now: Duration) {
        let mut over = Vec::new();
        let mut waiting = self.waiting.lock();
        for _ in 0..waiting.len() {
            let Some(mut oldest) = waiting.pop_front() else { break };
            if oldest.is_over(now, self.longest) || !oldest.conn.is_ready() {
                over.push(oldest);
            } else {
                waiting.push_back(oldest);
            }
        }
        // Closing a socket is a system call, so it is done after the lock.
        drop(waiting);
        drop(over);
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.lock().len()
    }
}

impl Waiting {
    fn is_over(&self, now: Duration, longest: Duration) -> bool {
        now.saturating_sub(self.since) >= self.conn.keep(longest)
    }
}

#[cfg(test)]
mod tests {
    use crate::upstream::PoolLimits;
    use crate::upstream::script::{Fixture, Script, answer};
    use std::time::Duration;

    #[tokio::test]
    async fn a_connection_serves_one_call_after_the_other() {
        let node = Script::always(answer("{}")).await;
        let fixture = Fixture::new(&[&node]);
        for _ in 0..20 {
            assert_eq!(fixture.read().await.unwrap(), "{}");
        }
        assert_eq!((node.conns(), node.seen().len()), (1, 20));
    }

    #[tokio::test]
    async fn a_connection_that_waited_too_long_is_not_used() {
        let node = Script::always(answer("{}")).await;
        let fixture = Fixture::new(&[&node]);
        fixture.read().await.unwrap();
        fixture.clock.advance(Duration::from_secs(59));
        fixture.read().await.unwrap();
        assert_eq!(node.conns(), 1);
        fixture.clock.advance(Duration::from_secs(60));
        fixture.read().await.unwrap();
        assert_eq!((node.conns(), fixture.idle()), (2, 1));
    }

    #[tokio::test]
    async fn a_node_that_keeps_connections_for_less_is_believed() {
        let node =
            Script::always("HTTP/1.1 200 OK\r\nkeep-alive: timeout=5\r\ncontent-length: 2\r\n\r\n{}").await;
        let fixture = Fixture::new(&[&node]);
        fixture.read().await.unwrap();
        fixture.clock.advance(Duration::from_millis(4_499));
        fixture.read().await.unwrap();
        assert_eq!(node.conns(), 1);
        fixture.clock.advance(Duration::from_millis(4_500));
        fixture.read().await.unwrap();
        assert_eq!(node.conns(), 2);
    }

    #[tokio::test]
    async fn no_more_than_so_many_connections_wait() {
        let node = Script::always(answer("{}")).await;
        let fixture = Fixture::with(&[node.url()], PoolLimits { idle_per_node: 2, ..PoolLimits::default() });
        let (a, b, c, d) = tokio::join!(fixture.read(), fixture.read(), fixture.read(), fixture.read());
        assert!([a, b, c, d].iter().all(Result::is_ok));
        assert_eq!((node.conns(), fixture.idle()), (4, 2));
    }

    #[tokio::test]
    async fn sweeping_closes_what_waited_too_long() {
        let node = Script::serve(|_, mut wire| async move {
            while wire.request().await.is_some() {
                wire.write(answer("{}")).await;
            }
            wire.note("closed");
        })
        .await;
        let fixture = Fixture::new(&[&node]);
        fixture.read().await.unwrap();
        assert_eq!(fixture.idle(), 1);
        fixture.clock.advance(Duration::from_secs(60));
        assert_eq!(fixture.idle(), 0);
        fixture.until(|_| node.seen().last().is_some_and(|last| last == "closed")).await;
    }

    #[tokio::test]
    async fn a_broadcast_takes_only_a_connection_used_just_now() {
        let node = Script::always(answer("{}")).await;
        let fixture = Fixture::new(&[&node]);
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
        let node = Script::serve(|_, mut wire| async move {
            wire.request().await;
            wire.write(answer("{}")).await;
        })
        .await;
        let fixture = Fixture::new(&[&node]);
        for calls in 1..4 {
            assert_eq!(fixture.broadcast().await.unwrap(), "{}");
            fixture.until(|_| fixture.idle() == 0).await;
            assert_eq!((node.conns(), node.seen().len()), (calls, calls));
        }
    }
}
