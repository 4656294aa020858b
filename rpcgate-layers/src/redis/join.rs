//! Joining the shared counters: a gateway seeds lost counters, raises those for which it knows a higher count, and
//! sends the counts that it made alone.

use super::CounterState;
use super::heartbeat::{COMPARISONS, Heartbeat, ONLY_RAISE};
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

/// The maximum number of counters in one script.
const CHUNK: usize = 200;
/// The time limit of a [`Seed`].
const TELLING: Duration = Duration::from_secs(10);
/// The number of seconds after which another gateway may seed if the first one has not finished.
const SEEDING: u64 = 20;

impl Link {
    /// Synchronises the counters with this gateway.
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
            // Counts that may have been sent to the lost counters are among the known counts.
            self.unsettled.clear();
            // A gateway that starts knows the recorded usage. Other gateways may still have to send a part of it to
            // Redis, and would add it to the raised counts.
            if !is_new || self.seed.recording().is_none() {
                self.raise(connection, self.shared.known()).await?;
            }
            self.shared.era.store(era, Relaxed);
        }
        // Redis may have counted a call whose answer an earlier connection did not deliver, and which was counted
        // again.
        self.beat(connection, if is_new { ONLY_RAISE } else { COMPARISONS }).await?;
        self.settle(connection, false).await
    }

    /// Returns the number of the counters' era, if they have one.
    async fn era(&self, connection: &mut MultiplexedConnection) -> Result<Option<u64>, Broken> {
        let mut pipe = Pipeline::new();
        pipe.cmd("GET").arg(self.shared.names.era());
        let answer = self.send(connection, &pipe).await?.pop();
        Ok(answer.as_ref().and_then(number).and_then(|era| u64::try_from(era).ok()))
    }

    /// Seeds counters that are lost or never existed, and begins an era.
    async fn seed(&mut self, connection: &mut MultiplexedConnection) -> Result<u64, Broken> {
        self.shared.set_state(CounterState::Seeding);
        let mut pipe = Pipeline::new();
        let held = self.shared.names.seeding();
        pipe.cmd("SET").arg(held).arg(self.gateway).arg("NX").arg("EX").arg(SEEDING);
        if self.send(connection, &pipe).await?.pop() == Some(Value::Nil) {
            return Err(Broken::Seeding);
        }
        let items = match timeout(TELLING, self.seed.counts()).await {
            Ok(Ok(restored)) => reported(&self.shared, &restored),
            _ => {
                // Releases the lock, so that the next attempt of any gateway does not wait.
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

    /// Raises counters to these values. Returns the time of Redis.
    async fn raise(&self, connection: &mut MultiplexedConnection, items: Vec<Item>) -> Result<u64, Broken> {
        let mut time = 0;
        let chunks = items.chunks(CHUNK).chain(items.is_empty().then_some([].as_slice()));
        for chunk in chunks {
            let mut command = self.command(Script::Raise, chunk.len());
            for item in chunk {
                command.arg(&item.name);
            }
            for item in chunk {
                command.arg(hour(item)).arg(item.value).arg(item.ttl);
            }
            let Answered { time: reported, .. } = self.run_script(connection, command).await?;
            time = u64::try_from(reported).unwrap_or(0);
        }
        Ok(time)
    }

    /// Sends owed counts to Redis and returns idle slices; with `all`, every slice.
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
                command.arg(hour(item)).arg(item.value).arg(item.ttl);
            }
            self.run_script(connection, command).await?;
            self.unsettled.pop_front();
        }
        Ok(())
    }

    /// Sends a heartbeat and returns the state of the counters. Requests `comparisons` comparisons with the recorded
    /// usage.
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
        let left = next();
        let lowered = next();
        let is_new = next() == 1;
        if self.lowered.replace(lowered).is_some_and(|before| before != lowered) {
            // The known counts may now be higher than the counters.
            self.shared.doubt();
            if is_new {
                // This gateway was silent for so long that its slices were taken back.
                self.shared.units.each(|_, units| units.forget_slice());
            }
        }
        Ok(Heartbeat { left, comparison: String::from_utf8_lossy(answered.text(4)).into_owned() })
    }

    /// Removes this gateway from the connected ones; it holds no slices any more.
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

/// Returns the counts in `restored` without those that this gateway made alone. The restored counts include these,
/// because they are recorded within moments, but they are sent to Redis separately.
fn reported(shared: &Shared, restored: &Restored) -> Vec<Item> {
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
