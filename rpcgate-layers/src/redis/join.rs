//! How a gateway comes to count together with the others, and stays in step: it seeds counters that are lost, lifts
//! those that it knows better, and tells what it has counted alone.

use super::Standing;
use super::compare::{COMPARISONS, ONLY_RAISE};
use super::known::{Spot, numbers};
use super::link::{Broken, Link, Unsettled, digests};
use super::script::{Answered, Digests, Script, number};
use super::shared::{Item, Shared};
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};
use rpcgate_core::backend::counters::Restored;
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

/// What a gateway hears when it says that it is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Heartbeat {
    /// Comparisons of counters with what is recorded that are left to be made, if it is time for one.
    pub(super) left: u64,
    /// The comparison that is under way; empty: none is.
    pub(super) comparison: String,
}

impl Link {
    /// Brings counters and gateway in step.
    pub(super) async fn join(&mut self, connection: &mut MultiplexedConnection) -> Result<(), Broken> {
        let answers = self.send(connection, &Digests::load()).await?;
        *self.shared.digests.write() = Some(Arc::new(digests(answers)?));
        let era = match self.era(connection).await? {
            Some(era) => era,
            None => self.seed(connection).await?,
        };
        let before = self.shared.era.load(Relaxed);
        let is_new = before == 0;
        if before != era {
            // What may have been told to counters that are lost is among what is known.
            self.unsettled.clear();
            // One that starts knows what is recorded. Others may still have to tell Redis what is among that, and would
            // add it to what it was raised to.
            if !is_new || self.seed.recording().is_none() {
                self.raise(connection, self.shared.known()).await?;
            }
            self.shared.era.store(era, Relaxed);
        }
        // Redis may have counted for one that was here before, which has not heard of it and counted again.
        self.beat(connection, if is_new { ONLY_RAISE } else { COMPARISONS }).await?;
        self.settle(connection, false).await
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

    /// Says that this gateway is there, and hears how many are. It asks for so many comparisons with what is recorded.
    pub(super) async fn beat(
        &mut self,
        connection: &mut MultiplexedConnection,
        comparisons: u64,
    ) -> Result<Heartbeat, Broken> {
        let names = &self.shared.names;
        let mut command = self.command(Script::Beat, 6);
        command.arg(names.era()).arg(names.gateways()).arg(names.comparisons());
        command.arg(names.comparing()).arg(names.pause()).arg(names.lowered());
        command.arg(self.shared.era.load(Relaxed)).arg(self.gateway).arg(comparisons).arg(COMPARISONS);
        let answered = self.run_script(connection, command).await?;
        let mut numbers = answered.numbers(0);
        self.shared.gateways.store(numbers.next().unwrap_or(1).max(1), Relaxed);
        let mut next = || numbers.next().unwrap_or(0);
        let (left, lowered, is_new) = (next(), next(), next() == 1);
        if self.lowered.replace(lowered).is_some_and(|before| before != lowered) {
            // What is known here may be more than what is counted now.
            self.shared.doubt();
            if is_new {
                // It was silent for so long that its slices were taken back.
                self.shared.units.each(|_, units| units.forget_slice());
            }
        }
        Ok(Heartbeat { left, comparison: String::from_utf8_lossy(answered.text(4)).into_owned() })
    }

    /// Says that this gateway is there no more, and left nothing behind.
    pub(super) async fn leave(&self, connection: &mut MultiplexedConnection) -> Result<(), Broken> {
        let mut pipe = Pipeline::with_capacity(1);
        pipe.cmd("ZREM").arg(self.shared.names.gateways()).arg(self.gateway);
        self.send(connection, &pipe).await.map(drop)
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
