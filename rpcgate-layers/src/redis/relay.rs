//! Changes of the management database, published from gateway to gateway. A gateway that cannot reach the database
//! receives them from gateways that have read them.
//!
//! Nothing depends on the arrival of a message: each gateway reads all changes from the database, in order, when it
//! can.

use super::link::{Broken, connect};
use super::script::BadAnswer;
use super::tls::client;
use super::{BadRedis, RedisSettings};
use futures_util::StreamExt;
use redis::{Client, Msg, Pipeline};
use rpcgate_core::backend::changes::{Change, Numbered};
use std::fmt;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// The time between two attempts to reach Redis.
const PAUSE: Duration = Duration::from_secs(1);
/// The time limit of an answer of Redis. No call waits for it.
const PATIENCE: Duration = Duration::from_secs(5);
/// The interval of pings, because a broken connection may give no sign.
const ALIVE: Duration = Duration::from_secs(10);
/// The maximum number of changes in one pipeline.
const TOGETHER: usize = 256;

/// A relay that publishes changes to other gateways and receives theirs.
pub struct ChangeRelay {
    client: Client,
    channel: String,
}

impl fmt::Debug for ChangeRelay {
    /// Without the URL, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeRelay").field("channel", &self.channel).finish_non_exhaustive()
    }
}

impl ChangeRelay {
    /// Creates a relay between all gateways with these settings.
    ///
    /// # Errors
    /// [`BadRedis`] for an invalid URL, or one that names files that cannot be used.
    pub fn new(settings: &RedisSettings) -> Result<Self, BadRedis> {
        Ok(ChangeRelay { client: client(&settings.url)?, channel: format!("{}changes", settings.prefix) })
    }

    /// Publishes the changes from `outgoing`, and passes all published changes, including its own, to `incoming`, until
    /// the sender of `outgoing` is dropped. Changes are lost while Redis is unreachable or `incoming` is full.
    pub async fn run(self, mut outgoing: mpsc::Receiver<Numbered>, incoming: mpsc::Sender<Numbered>) {
        let mut why = String::new();
        loop {
            let Err(broken) = self.relay(&mut outgoing, &incoming).await else { return };
            let broken = broken.to_string();
            if broken != why {
                tracing::debug!("redis: gateways cannot exchange changes: {broken}");
                why = broken;
            }
            let mut pause = std::pin::pin!(sleep(PAUSE));
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    lost = outgoing.recv() => if lost.is_none() { return },
                }
            }
        }
    }

    async fn relay(
        &self,
        outgoing: &mut mpsc::Receiver<Numbered>,
        incoming: &mpsc::Sender<Numbered>,
    ) -> Result<(), Broken> {
        let mut publisher = connect(self.client.clone()).await?;
        let subscribing = async {
            let mut subscriber = self.client.get_async_pubsub().await?;
            subscriber.subscribe(&self.channel).await?;
            Ok::<_, Broken>(subscriber.split())
        };
        let (mut asking, mut messages) =
            timeout(PATIENCE, subscribing).await.map_err(|_| Broken::Silent)??;
        let mut alive = interval(ALIVE);
        alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut changes = Vec::new();
        loop {
            tokio::select! {
                count = outgoing.recv_many(&mut changes, TOGETHER) => {
                    if count == 0 {
                        return Ok(());
                    }
                    let mut pipe = Pipeline::with_capacity(count);
                    for line in changes.drain(..).filter_map(|change| line(&change)) {
                        pipe.cmd("PUBLISH").arg(&self.channel).arg(line).ignore();
                    }
                    if !pipe.is_empty() {
                        let published = timeout(PATIENCE, pipe.query_async::<()>(&mut publisher));
                        published.await.map_err(|_| Broken::Silent)??;
                    }
                }
                message = messages.next() => {
                    let Some(message) = message else { return Err(BadAnswer::Strange.into()) };
                    if let Some(change) = change(&message) && incoming.try_send(change).is_err() {
                        tracing::debug!("redis: changes arrive faster than they are processed");
                    }
                }
                _ = alive.tick() => {
                    timeout(PATIENCE, asking.ping::<redis::Value>()).await.map_err(|_| Broken::Silent)??;
                }
            }
        }
    }
}

/// Returns the published form of a change. `None` if the change is meaningless without the database.
fn line(Numbered { number, change }: &Numbered) -> Option<String> {
    Some(match change {
        Change::Key(id) => format!("{number} key {id}"),
        Change::Project(id) => format!("{number} project {id}"),
        Change::Tenant(id) => format!("{number} tenant {id}"),
        _ => return None,
    })
}

fn change(message: &Msg) -> Option<Numbered> {
    read(std::str::from_utf8(message.get_payload_bytes()).ok()?)
}

fn read(line: &str) -> Option<Numbered> {
    let mut words = line.split(' ');
    let number = words.next()?.parse().ok()?;
    let kind = words.next()?;
    let id = words.next()?;
    let change = match kind {
        "key" => Change::Key(id.parse().ok()?),
        "project" => Change::Project(id.parse().ok()?),
        "tenant" => Change::Tenant(id.parse().ok()?),
        _ => return None,
    };
    words.next().is_none().then_some(Numbered { number, change })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::caller::{KeyId, ProjectId, TenantId};

    // Shows (Reliability).
    #[test]
    fn published_changes_are_read_and_other_texts_are_not() {
        let changes =
            [Change::Key(KeyId(1)), Change::Project(ProjectId(u128::MAX)), Change::Tenant(TenantId(3))];
        for (number, change) in (1..).zip(changes) {
            let numbered = Numbered { number, change };
            assert_eq!(read(&line(&numbered).unwrap()), Some(numbered));
        }
        assert_eq!(line(&Numbered { number: 1, change: Change::Chain("eth".into()) }), None);
        let id = TenantId(3);
        for strange in ["", "1", "1 tenant", "1 tenant x", "x tenant 1"] {
            assert_eq!(read(strange), None, "{strange}");
        }
        for strange in [format!("1 plan {id}"), format!("1 tenant {id} more"), format!("-1 tenant {id}")] {
            assert_eq!(read(&strange), None, "{strange}");
        }
    }
}
