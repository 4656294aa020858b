//! How a gateway comes to count together with the others, and stays in step: it seeds counters that are lost, lifts
//! those that it knows better, and tells what it has counted alone.

use super::Standing;
use super::known::{Spot, numbers};
use super::link::{Broken, Link, Unsettled, digests};
use super::script::{Answered, Digests, Script, number};
use super::shared::{Item, Shared};
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};
use rpcgate_core::seam::counters::Restored;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::timeout;

/// Counters in one script.
const CHUNK: usize = 200;
/// How long the telling of what was counted may take.
const TELLING: Duration = Duration::from_secs(10);
/// Seconds until another gateway may seed, when the one that began to has not ended.
const SEEDING: u64 = 20;

impl Link {
    /// Brings counters and gateway in step.
    pub(super) async fn join(&mut self, connection: &mut MultiplexedConnection) -> Result<(), Broken> {
        let answers = self.send(connection, &Digests::load()).await?;
        *self.shared.digests.write() = Some(Arc::new(digests(answers)?));
        let era = match self.era(connection).await? {
            Some(era) => era,
            None => self.seed(connection).await?,
        };
        if self.shared.era.load(Relaxed) != era {
            // What may have been told to counters that are lost is among what is known.
            self.unsettled.clear();
            self.raise(connection, self.shared.known()).await?;
            self.shared.era.store(era, Relaxed);
        }
        self.settle(connection, false).await?;
        self.beat(connection).await
    }

    /// The number of the counters' era, if they have one.
    async fn era(&self, connection: &mut MultiplexedConnection) -> Result<Option<u64>, Broken> {
        let mut pipe = Pipeline::new();
        pipe.cmd("GET").arg(self.shared.names.era());
        let answer = self.send(connection, &pipe).await?.pop();
        Ok(answer.as_ref().and_then(number).and_then(|era| u64::try_from(era).ok()))
    }

    /// Seeds counters that are lost, or were never there, and begins an era.
    async fn seed(&mut self, connection: &mut MultiplexedConnection) -> Result<u64, Broken> {
        self.shared.stand(Standing::Seeding);
        let mut pipe = Pipeline::new();
        let held = self.shared.names.seeding();
        pipe.cmd("SET").arg(held).arg(self.gateway).arg("NX").arg("EX").arg(SEEDING);
        if self.send(connection, &pipe).await?.pop() == Some(Value::Nil) {
            return Err(Broken::Seeding);
        }
        let items = match timeout(TELLING, self.seed.tell()).await {
            Ok(Ok(restored)) => told(&self.shared, &restored),
            _ => {
                // The next attempt, by whoever makes it, need not wait.
                let mut pipe = Pipeline::new();
                pipe.cmd("DEL").arg(self.shared.names.seeding());
                self.send(connection, &pipe).await?;
                return Err(Broken::NoSeed);
            }
        };
        let seeded = items.len();
        self.raise(connection, items).await?;
        self.raise(connection, self.shared.known()).await?;
        let time = self.raise(connection, Vec::new()).await?;
        let mut pipe = Pipeline::new();
        pipe.cmd("SET").arg(self.shared.names.era()).arg(time).arg("NX");
        pipe.cmd("DEL").arg(self.shared.names.seeding());
        self.send(connection, &pipe).await?;
        let era = self.era(connection).await?.ok_or(Broken::OtherEra)?;
        if era == time {
            tracing::info!(counters = seeded, "redis: counters seeded");
        }
        Ok(era)
    }

    /// Lifts counters to these values. Gives back what time it is at Redis.
    async fn raise(&self, connection: &mut MultiplexedConnection, items: Vec<Item>) -> Result<u64, Broken> {
        let mut time = 0;
        let chunks = items.chunks(CHUNK).chain(items.is_empty().then_some([].as_slice()));
        for chunk in chunks {
            let mut command = self.command(Script::Raise, chunk.len());
            for item in chunk {
                command.arg(&item.name);
            }
            for item in chunk {
                command.arg(hour(item)).arg(item.value).arg(item.kept);
            }
            let Answered { time: told, .. } = self.run_script(connection, command).await?;
            time = u64::try_from(told).unwrap_or(0);
        }
        Ok(time)
    }

    /// Tells Redis what is owed, and gives back what nobody spends; with `all`, every slice.
    pub(super) async fn settle(
        &mut self,
        connection: &mut MultiplexedConnection,
        all: bool,
    ) -> Result<(), Broken> {
        for chunk in self.shared.pay(all).chunks(CHUNK) {
            self.receipts += 1;
            self.unsettled.push_back(Unsettled { number: self.receipts, items: chunk.to_vec() });
        }
        while let Some(Unsettled { number, items }) = self.unsettled.front() {
            let mut command = self.command(Script::Settle, items.len() + 2);
            command.arg(self.shared.names.era()).arg(self.shared.names.receipt(self.gateway, *number));
            for item in items {
                command.arg(&item.name);
            }
            command.arg(self.shared.era.load(Relaxed));
            for item in items {
                command.arg(hour(item)).arg(item.value).arg(item.kept);
            }
            self.run_script(connection, command).await?;
            self.unsettled.pop_front();
        }
        Ok(())
    }

    /// Says that this gateway is there, and hears how many are.
    pub(super) async fn beat(&self, connection: &mut MultiplexedConnection) -> Result<(), Broken> {
        let mut command = self.command(Script::Beat, 2);
        command.arg(self.shared.names.era()).arg(self.shared.names.gateways());
        command.arg(self.shared.era.load(Relaxed)).arg(self.gateway);
        let answered = self.run_script(connection, command).await?;
        self.shared.gateways.store(answered.numbers(0).next().unwrap_or(1).max(1), Relaxed);
        Ok(())
    }

    fn command(&self, script: Script, keys: usize) -> redis::Cmd {
        let digests = self.shared.digests.read();
        digests.as_ref().map_or_else(redis::Cmd::new, |digests| digests.run(script, keys))
    }
}

fn hour(item: &Item) -> String {
    item.hour.map(|hour| hour.to_string()).unwrap_or_default()
}

/// What `restored` tells, less what this gateway has counted alone: that is among it, since it is shipped within
/// moments, and Redis is told of it apart.
fn told(shared: &Shared, restored: &Restored) -> Vec<Item> {
    let mut items = Vec::new();
    for (key, used) in &restored.windows {
        for (span, (number, count)) in numbers(restored.now).into_iter().zip(*used).enumerate() {
            let owed = shared.keys.look(*key, |known| known.map_or(0, |known| known.owed(span, number)));
            let spot = Spot { number, count: count.saturating_sub(owed) };
            items.push(shared.window_item(*key, span, spot));
        }
    }
    for (project, hour, units) in &restored.units {
        let owed = shared.units.look(*project, |known| known.map_or(0, |known| known.owed(*hour)));
        let units = units.saturating_add_signed(owed.saturating_neg());
        items.push(shared.units_item(*project, *hour, i64::try_from(units).unwrap_or(i64::MAX)));
    }
    items.retain(|item| item.value > 0);
    items
}
