//! Comparisons of the counters with the recorded usage, and corrections. Counters may be wrong if a gateway was killed
//! together with its slices, if Redis lost its counters, or if the connection broke after Redis had counted and before
//! its answer arrived.
//!
//! One gateway compares for all. A counter is too low if it is below the recorded usage. It is too high if, after
//! everything that it had counted is recorded, it exceeds the recorded usage plus the units that gateways have reserved
//! and not used. The steps are:
//!
//! 1. Every gateway has [reported](super::report) its unused units.
//! 2. The comparison reads the counters.
//! 3. Every gateway reports that all it had counted by then is recorded, and the units that have become unused in the
//!    meantime.
//! 4. The comparison reads the recorded usage.
//!
//! So nothing that a connected gateway has counted is subtracted. Usage that is recorded during a comparison hides an
//! excess of the same size. So comparisons are repeated, some of them in a later hour, when no call is recorded in the
//! hour of the failure any more.

use super::heartbeat::{Heartbeat, ONLY_RAISE};
use super::known::numbers;
use super::link::{Broken, Link};
use super::report::Report;
use super::script::{Answered, BadAnswer, Code, Digests, Script, TTL, UNITS_TTL, number};
use super::shared::Shared;
use super::{Recording, Seed};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, Value};
use rpcgate_core::backend::counters::Restored;
use rpcgate_core::caller::{KeyId, ProjectId};
use rpcgate_core::clock::Time;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The number of seconds for which a report is kept.
const REPORT_TTL: u64 = 120;
/// The maximum number of projects in one pipeline of a report.
const PROJECTS_PER_PIPELINE: usize = 200;
/// The number of comparisons, the last ones, that follow long pauses.
const RARE: u64 = 3;
/// The seconds between two comparisons. `RARE_PAUSE` is that of the last ones, which reach into the next hour.
const PAUSE: u64 = 12;
const RARE_PAUSE: u64 = 1_900;
/// The seconds until the next attempt if the recorded usage could not be read or must not be compared.
const RECORD_PAUSE: u64 = 60;
const STEP_LIMIT: Duration = Duration::from_secs(50);
/// The seconds without a sign of life after which a comparison counts as abandoned, because its gateway was killed.
const ABANDONED: u64 = 20;
/// The time limit of one answer of Redis. No call waits for it.
const ANSWER: Duration = Duration::from_secs(5);
/// The interval at which the gateways' reports are read.
const LOOK: Duration = Duration::from_millis(200);
/// The maximum number of counters in one script, or of commands in one pipeline.
const CHUNK: usize = 200;

#[derive(Debug, thiserror::Error)]
enum Uncompared {
    #[error("redis: {0}")]
    Broken(#[from] Broken),
    #[error("the recorded usage cannot be read from the database")]
    NoRecord,
    #[error("a gateway did not report in time that all is recorded that it has counted")]
    TooLong,
    #[error("gateways record in different databases")]
    Elsewhere,
    #[error("another comparison has begun")]
    Replaced,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Counter {
    /// A key's window: 1 for the hour, 2 for the day; and the number of the window.
    Window(KeyId, usize, u64),
    Units(ProjectId, u64),
}

type Counts = HashMap<Counter, u64>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Correction {
    counter: Counter,
    /// The excess to subtract.
    surplus: u64,
    /// The smallest correct value.
    least: u64,
}

impl Link {
    /// Reports to a comparison. Each report is complete.
    async fn report(
        &mut self,
        connection: &mut MultiplexedConnection,
        comparison: &str,
        recording: &Recording,
    ) -> Result<(), Broken> {
        if !self.report.is_for(comparison) {
            self.report = Report::new(comparison);
        }
        let now = self.shared.micros();
        let behind = i64::try_from(recording.behind.as_micros()).unwrap_or(i64::MAX);
        // Read before the unused units: a call that is over has returned its unused units.
        let known = self.report.recorded_up_to(self.shared.in_flight.advance(now), now, behind);
        let names = &self.shared.names;
        let unused_units = names.unused(comparison);
        let grown = self.report.grow(self.shared.unused());
        for chunk in grown.chunks(PROJECTS_PER_PIPELINE) {
            let mut pipe = Pipeline::with_capacity(chunk.len() + 1);
            for (project, hour, by) in chunk {
                pipe.cmd("HINCRBY").arg(&unused_units).arg(format!("{:x}:{hour}", project.0)).arg(*by);
            }
            pipe.cmd("EXPIRE").arg(&unused_units).arg(REPORT_TTL);
            self.send(connection, &pipe).await?;
        }
        let mut pipe = Pipeline::with_capacity(2);
        let reports = names.reports(comparison);
        let up_to = self.shared.at_redis(known);
        pipe.cmd("HSET").arg(&reports).arg(self.gateway).arg(format!("{up_to} {}", recording.store));
        pipe.cmd("EXPIRE").arg(&reports).arg(REPORT_TTL);
        self.send(connection, &pipe).await.map(drop)
    }

    /// Reports to the running comparison, or starts one if one is due.
    pub(super) async fn compare(
        &mut self,
        connection: &mut MultiplexedConnection,
        heard: Heartbeat,
    ) -> Result<(), Broken> {
        while self.comparing.try_join_next().is_some() {}
        let Some(recording) = self.seed.recording() else { return Ok(()) };
        if self.comparing.is_empty() && heard.comparison.starts_with(&format!("{:x}:", self.gateway)) {
            // The comparison ended when the connection to Redis broke, and could not report that.
            let mut pipe = Pipeline::with_capacity(1);
            pipe.cmd("DEL").arg(self.shared.names.comparing());
            return self.send(connection, &pipe).await.map(drop);
        }
        if !heard.comparison.is_empty() {
            return self.report(connection, &heard.comparison, &recording).await;
        }
        self.report = Report::default();
        let digests = self.shared.digests.read().clone();
        if let Some(digests) = digests
            && heard.left > 0
            && self.comparing.is_empty()
        {
            self.receipts += 1;
            let comparison = Comparison {
                shared: self.shared.clone(),
                seed: self.seed.clone(),
                connection: connection.clone(),
                digests,
                store: recording.store,
                name: format!("{:x}:{:x}", self.gateway, self.receipts),
                era: self.shared.era.load(Relaxed),
                left: heard.left,
            };
            self.comparing.spawn(comparison.make());
        }
        Ok(())
    }
}

struct Comparison {
    shared: Arc<Shared>,
    seed: Arc<dyn Seed>,
    connection: MultiplexedConnection,
    digests: Arc<Digests>,
    store: Arc<str>,
    name: String,
    era: u64,
    left: u64,
}

impl Comparison {
    async fn make(mut self) {
        match timeout(STEP_LIMIT, self.begin()).await {
            Ok(Ok(true)) => {}
            // Another gateway was faster, or Redis is unreachable.
            _ => return,
        }
        let made = timeout(STEP_LIMIT, self.correct()).await.unwrap_or(Err(Uncompared::TooLong));
        let is_made = made.is_ok();
        let pause = match &made {
            Ok(_) if self.left <= RARE + 1 => RARE_PAUSE,
            Err(Uncompared::NoRecord | Uncompared::Elsewhere) => RECORD_PAUSE,
            Ok(_) | Err(_) => PAUSE,
        };
        match made {
            Ok((0, 0)) => tracing::debug!("redis: counters agree with the recorded usage"),
            Ok((raised, lowered)) => {
                tracing::info!(raised, lowered, "redis: counters corrected by the recorded usage");
            }
            Err(why @ Uncompared::Elsewhere) if !self.shared.is_warned.swap(true, Relaxed) => {
                tracing::warn!("redis: counters are never compared with the recorded usage: {why}");
            }
            Err(why) => tracing::debug!("redis: counters are not compared with the recorded usage: {why}"),
        }
        let names = &self.shared.names;
        let mut command = self.digests.run(Script::Compared, 3);
        command.arg(names.comparing()).arg(names.comparisons()).arg(names.pause());
        command.arg(&self.name).arg(u8::from(is_made)).arg(pause);
        if let Err(why) = self.run(command).await {
            tracing::debug!("redis: {why}");
        }
    }

    /// Tries to become the running comparison. Returns whether it is.
    async fn begin(&mut self) -> Result<bool, Broken> {
        let mut pipe = Pipeline::with_capacity(1);
        let comparing = self.shared.names.comparing();
        pipe.cmd("SET").arg(comparing).arg(&self.name).arg("NX").arg("EX").arg(ABANDONED);
        Ok(self.send(&pipe).await?.pop() != Some(Value::Nil))
    }

    /// Corrects the counters. Returns the numbers of raised and of lowered counters.
    async fn correct(&mut self) -> Result<(u64, u64), Uncompared> {
        let corrections =
            if self.left <= ONLY_RAISE { self.too_low().await? } else { self.out_of_step().await? };
        let mut raised = 0;
        let mut lowered = 0;
        for chunk in corrections.chunks(CHUNK) {
            let names = &self.shared.names;
            let mut command = self.digests.run(Script::Correct, chunk.len() + 3);
            command.arg(names.era()).arg(names.comparing()).arg(names.lowered());
            for Correction { counter, .. } in chunk {
                command.arg(match counter {
                    Counter::Window(key, span, number) => names.window(*key, *span, *number),
                    Counter::Units(project, _) => names.units(*project),
                });
            }
            command.arg(self.era).arg(&self.name);
            for Correction { counter, surplus, least } in chunk {
                let (hour, ttl) = match counter {
                    Counter::Window(_, span, _) => (String::new(), TTL[span % 3]),
                    Counter::Units(_, hour) => (hour.to_string(), UNITS_TTL),
                };
                command.arg(hour).arg(*surplus).arg(*least).arg(ttl);
            }
            let answered = self.run(command).await?;
            if answered.code != Code::Done {
                return Err(Uncompared::Replaced);
            }
            let mut counts = answered.numbers(0);
            raised += counts.next().unwrap_or(0);
            lowered += counts.next().unwrap_or(0);
        }
        Ok((raised, lowered))
    }

    async fn too_low(&self) -> Result<Vec<Correction>, Uncompared> {
        let recorded = self.recorded().await?;
        let none = Counts::new();
        Ok(corrections(&counts(&recorded), &none, &none, recorded.now))
    }

    async fn out_of_step(&mut self) -> Result<Vec<Correction>, Uncompared> {
        let (windows, projects) = self.counters(&self.recorded().await?);
        // After this point every gateway reports the units that become unused.
        self.reported(i64::MIN).await?;
        let read = self.read(&windows, &projects).await?;
        let time = self.time().await?;
        self.reported(time).await?;
        let unused = self.unused().await?;
        let recorded = self.recorded().await?;
        Ok(corrections(&counts(&recorded), &read, &unused, recorded.now))
    }

    async fn recorded(&self) -> Result<Restored, Uncompared> {
        self.seed.recorded().await.map_err(|_| Uncompared::NoRecord)
    }

    /// Returns the windows and the projects that are recorded or known to this gateway.
    fn counters(&self, recorded: &Restored) -> (Vec<Counter>, Vec<ProjectId>) {
        let numbers = numbers(recorded.now);
        let mut keys: HashSet<KeyId> = recorded.windows.iter().map(|(key, _)| *key).collect();
        self.shared.keys.each(|key, _| keys.extend([key]));
        let mut projects: HashSet<ProjectId> = recorded.units.iter().map(|(project, ..)| *project).collect();
        self.shared.units.each(|project, _| projects.extend([project]));
        let spans = |key| [1, 2].map(|span| Counter::Window(key, span, numbers[span]));
        (keys.into_iter().flat_map(spans).collect(), projects.into_iter().collect())
    }

    async fn read(&mut self, windows: &[Counter], projects: &[ProjectId]) -> Result<Counts, Broken> {
        let mut counts = Counts::new();
        for chunk in windows.chunks(CHUNK) {
            let mut pipe = Pipeline::with_capacity(chunk.len());
            for counter in chunk {
                if let Counter::Window(key, span, number) = counter {
                    pipe.cmd("GET").arg(self.shared.names.window(*key, *span, *number));
                }
            }
            for (counter, value) in chunk.iter().zip(self.send(&pipe).await?) {
                counts.insert(*counter, unsigned(&value));
            }
        }
        for chunk in projects.chunks(CHUNK) {
            let mut pipe = Pipeline::with_capacity(chunk.len());
            for project in chunk {
                pipe.cmd("HGETALL").arg(self.shared.names.units(*project));
            }
            for (project, value) in chunk.iter().zip(self.send(&pipe).await?) {
                for (hour, units) in fields(value) {
                    counts.insert(Counter::Units(*project, unsigned(&hour)), unsigned(&units));
                }
            }
        }
        Ok(counts)
    }

    /// Reads the units that gateways have reserved and not used.
    async fn unused(&mut self) -> Result<Counts, Broken> {
        let mut pipe = Pipeline::with_capacity(1);
        pipe.cmd("HGETALL").arg(self.shared.names.unused(&self.name));
        let answer = self.send(&pipe).await?.pop().unwrap_or(Value::Nil);
        let unused = fields(answer).into_iter().filter_map(|(field, units)| {
            let (project, hour) = text(&field)?.split_once(':')?;
            let project = ProjectId(u128::from_str_radix(project, 16).ok()?);
            Some((Counter::Units(project, hour.parse().ok()?), unsigned(&units)))
        });
        Ok(unused.collect())
    }

    /// Waits until every gateway has reported that all it had counted by `time` of Redis's clock is recorded.
    async fn reported(&mut self, time: i64) -> Result<(), Uncompared> {
        loop {
            let mut pipe = Pipeline::with_capacity(3);
            pipe.cmd("ZRANGE").arg(self.shared.names.gateways()).arg(0).arg(-1);
            pipe.cmd("HGETALL").arg(self.shared.names.reports(&self.name));
            pipe.cmd("EXPIRE").arg(self.shared.names.comparing()).arg(ABANDONED);
            let mut answers = self.send(&pipe).await?.into_iter();
            let gateways = answers.next();
            let reports = answers.next();
            let Some(Value::Array(gateways)) = gateways else {
                return Err(Broken::from(BadAnswer::Strange).into());
            };
            let mut recorded = HashMap::new();
            for (gateway, report) in fields(reports.unwrap_or(Value::Nil)) {
                let Some((up_to, store)) = text(&report).and_then(|report| report.split_once(' ')) else {
                    continue;
                };
                if *store != *self.store {
                    return Err(Uncompared::Elsewhere);
                }
                if let (Some(gateway), Ok(up_to)) = (text(&gateway), up_to.parse::<i64>()) {
                    recorded.insert(gateway.to_owned(), up_to);
                }
            }
            let is_recorded = |gateway: &Value| {
                text(gateway).and_then(|gateway| recorded.get(gateway)).is_some_and(|up_to| *up_to >= time)
            };
            if gateways.iter().all(is_recorded) {
                return Ok(());
            }
            sleep(LOOK).await;
        }
    }

    /// Returns the time of Redis in microseconds.
    async fn time(&mut self) -> Result<i64, Broken> {
        let mut pipe = Pipeline::with_capacity(1);
        pipe.cmd("TIME");
        let answer = self.send(&pipe).await?.pop();
        let Some(Value::Array(parts)) = answer else { return Err(BadAnswer::Strange.into()) };
        let mut parts = parts.iter().filter_map(number);
        let (Some(seconds), Some(micros)) = (parts.next(), parts.next()) else {
            return Err(BadAnswer::Strange.into());
        };
        Ok(seconds.saturating_mul(1_000_000).saturating_add(micros))
    }

    async fn run(&mut self, command: Cmd) -> Result<Answered, Broken> {
        let mut pipe = Pipeline::with_capacity(1);
        pipe.add_command(command);
        let answer = self.send(&pipe).await?.pop().ok_or(BadAnswer::Strange)?;
        let answered = Answered::read(answer)?;
        if answered.code == Code::OtherEra { Err(Broken::OtherEra) } else { Ok(answered) }
    }

    async fn send(&mut self, pipe: &Pipeline) -> Result<Vec<Value>, Broken> {
        let sending = self.connection.send_packed_commands(pipe, 0, pipe.len());
        let answers = timeout(ANSWER, sending).await.map_err(|_| Broken::Silent)??;
        if answers.len() == pipe.len() { Ok(answers) } else { Err(BadAnswer::Strange.into()) }
    }
}

/// Returns the counters that must be corrected. Everything that had been counted when they were `read` is either
/// `recorded`, which is the usage at `now`, or `unused`.
fn corrections(recorded: &Counts, read: &Counts, unused: &Counts, now: Time) -> Vec<Correction> {
    let of = |counts: &Counts, counter: &Counter| counts.get(counter).copied().unwrap_or(0);
    let counters: HashSet<Counter> = recorded.keys().chain(read.keys()).copied().collect();
    let correction = |counter: Counter| {
        let found = of(read, &counter);
        let least = of(recorded, &counter);
        let surplus = found.saturating_sub(least.saturating_add(of(unused, &counter)));
        (surplus > 0 || found < least).then_some(Correction { counter, surplus, least })
    };
    // The recorded usage of other spans is unknown.
    let is_reported = |counter: &Counter| match counter {
        Counter::Window(_, span, number) => numbers(now)[span % 3] == *number,
        Counter::Units(_, hour) => *hour <= now.hour() && hour.saturating_add(23) >= now.hour(),
    };
    counters.into_iter().filter(is_reported).filter_map(correction).collect()
}

/// Returns the recorded usage by counter, without minutes: they are over before anything is compared.
fn counts(recorded: &Restored) -> Counts {
    let numbers = numbers(recorded.now);
    let windows = recorded
        .windows
        .iter()
        .flat_map(|(key, used)| [1, 2].map(|span| (Counter::Window(*key, span, numbers[span]), used[span])));
    let units = recorded.units.iter().map(|(project, hour, units)| (Counter::Units(*project, *hour), *units));
    windows.chain(units).collect()
}

fn fields(value: Value) -> Vec<(Value, Value)> {
    match value {
        Value::Map(fields) => fields,
        Value::Array(values) => {
            let mut values = values.into_iter();
            std::iter::from_fn(|| Some((values.next()?, values.next()?))).collect()
        }
        _ => Vec::new(),
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok(),
        _ => None,
    }
}

fn unsigned(value: &Value) -> u64 {
    number(value).and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(400_000 * 3_600 + 90);
    const UNITS: Counter = Counter::Units(ProjectId(7), 400_000);

    fn one(count: u64) -> Counts {
        [(UNITS, count)].into()
    }

    fn surplus(recorded: u64, read: u64, unused: u64) -> u64 {
        let found = corrections(&one(recorded), &one(read), &one(unused), NOW);
        found.first().map_or(0, |correction| correction.surplus)
    }

    #[test]
    fn counts_that_are_neither_recorded_nor_unused_are_an_excess() {
        assert_eq!(surplus(881, 1_921, 0), 1_040);
        assert_eq!(surplus(881, 1_921, 1_040), 0, "it is in slices");
        assert_eq!(surplus(900, 1_000, 40), 60);
        assert_eq!(surplus(1_100, 1_000, 0), 0, "more is recorded by now");
    }

    #[test]
    fn a_counter_is_at_least_the_recorded_usage() {
        let few = one(5);
        let none = Counts::new();
        let raise = Correction { counter: UNITS, surplus: 0, least: 9 };
        assert_eq!(corrections(&one(9), &few, &none, NOW), [raise]);
        assert_eq!(corrections(&one(9), &none, &none, NOW), [raise], "nothing was read");
        assert!(corrections(&one(5), &few, &none, NOW).is_empty());
    }

    #[test]
    fn a_counter_of_a_span_without_recorded_usage_is_not_corrected() {
        let far = [
            Counter::Units(ProjectId(7), 400_001),
            Counter::Units(ProjectId(7), 400_000 - 24),
            Counter::Window(KeyId(1), 1, NOW.hour() - 1),
            Counter::Window(KeyId(1), 2, NOW.day() + 1),
        ];
        let read: Counts = far.into_iter().map(|counter| (counter, 100)).collect();
        assert!(corrections(&Counts::new(), &read, &Counts::new(), NOW).is_empty());
        let restored = Restored { now: NOW, windows: vec![(KeyId(1), [3, 40, 500])], units: Vec::new() };
        let recorded = counts(&restored);
        assert_eq!(recorded[&Counter::Window(KeyId(1), 1, NOW.hour())], 40);
        assert_eq!(recorded[&Counter::Window(KeyId(1), 2, NOW.day())], 500);
        assert_eq!(recorded.len(), 2);
    }
}
