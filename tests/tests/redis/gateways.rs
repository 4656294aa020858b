//! The counters of several gateways in one Redis, and the counts in Redis.

use crate::*;
use rpcgate_core::caller::{KeyId, ProjectId};

pub(crate) const NOW: Time = Time::from_secs(400_000 * 3_600 + 90);
/// Longer than any pause of a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(20);
/// For tests in which Redis is silent: the test waits for it, but it exceeds the usual pauses of a busy machine.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

pub(crate) fn settings(redis: &RedisServer, prefix: &str, patience: Duration) -> RedisSettings {
    RedisSettings { url: redis.url(), prefix: prefix.into(), patience }
}

pub(crate) async fn joined(settings: &RedisSettings, seed: Arc<dyn Seed>) -> Arc<RedisCounters> {
    let counters = Arc::new(RedisCounters::new(settings, seed).unwrap());
    until("counting together", || counters.state() == CounterState::Together).await;
    counters
}

pub(crate) async fn gateways(count: u64, settings: &RedisSettings) -> Vec<Arc<RedisCounters>> {
    let mut gateways = Vec::new();
    for _ in 0..count {
        gateways.push(joined(settings, Arc::new(NoSeed)).await);
    }
    until("knowing of each other", || gateways.iter().all(|gateway| gateway.gateways() == count)).await;
    gateways
}

/// Waits until all count together, in the current era of Redis. They may leave an intermediate state before it can be
/// observed.
///
/// The list of gateways is lost with the counters, and a gateway is added to it again only after it has noticed that.
pub(crate) async fn in_step(gateways: &[Arc<RedisCounters>], redis: &RedisServer, settings: &RedisSettings) {
    let listed = format!("ZCARD {}", named(settings, "gateways"));
    until("being in step", || {
        number(redis, &listed) == gateways.len() as u64
            && gateways.iter().all(|gateway| gateway.state() == CounterState::Together)
    })
    .await;
}

pub(crate) fn caller(per_minute: u64) -> Caller {
    let mut caller = suite::caller(1);
    (caller.plan.per_minute, caller.plan.per_hour, caller.plan.per_day) = (per_minute, 100_000, 1_000_000);
    caller
}

/// Counts `requests` requests at once, evenly at all gateways. Returns the number of admitted ones.
pub(crate) async fn storm(
    gateways: &[Arc<RedisCounters>],
    caller: &Caller,
    requests: usize,
    now: Time,
) -> u64 {
    let tasks: Vec<_> = (0..requests)
        .map(|n| {
            let gateway = gateways[n % gateways.len()].clone();
            let caller = caller.clone();
            tokio::spawn(async move { gateway.take(&caller, 1, now).wait().await.refused.is_none() })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += u64::from(task.await.unwrap());
    }
    admitted
}

/// Reserves calls at one gateway until one is refused. Returns the granted units and the number of calls that had to
/// wait.
pub(crate) async fn spend(
    gateway: Arc<RedisCounters>,
    caller: Caller,
    costs: &'static [u32],
) -> (u64, usize, usize) {
    let mut units = 0;
    let mut waited = 0;
    let mut calls = 0;
    for cost in costs.iter().cycle() {
        let answer = gateway.reserve(&caller, &[*cost], NOW);
        waited += usize::from(matches!(answer, Answer::Pending(_)));
        calls += 1;
        let (mask, grant) = answer.wait().await;
        if !mask.has(0) {
            break;
        }
        units += grant.units;
    }
    (units, waited, calls)
}

/// Returns the used requests of the minute, the hour and the day, as a gateway receives them from Redis.
pub(crate) async fn used(settings: &RedisSettings, caller: &Caller, now: Time) -> [u64; 3] {
    let fresh = joined(settings, Arc::new(NoSeed)).await;
    let taken = fresh.take(caller, 1, now).wait().await;
    let counted = u64::from(taken.refused.is_none());
    [taken.windows.minute, taken.windows.hour, taken.windows.day].map(|w| w.limit - w.remaining - counted)
}

/// Returns the units of an hour that Redis has counted for a project.
pub(crate) fn units_in(redis: &RedisServer, settings: &RedisSettings, project: ProjectId, hour: u64) -> u64 {
    number(redis, &format!("HGET {} {hour}", units_name(settings, project)))
}

/// Returns the number that Redis answers to a command; 0 for any other answer.
pub(crate) fn number(redis: &RedisServer, command: &str) -> u64 {
    let answer = redis.say(command);
    let number = answer.strip_prefix(':').or_else(|| answer.lines().nth(1)).unwrap_or_default();
    number.trim().parse().unwrap_or(0)
}

pub(crate) fn named(settings: &RedisSettings, name: &str) -> String {
    format!("{}{name}", settings.prefix)
}

/// Returns the name of a key's window; `span` is `m`, `h` or `d`.
pub(crate) fn window_name(settings: &RedisSettings, key: KeyId, span: char, number: u64) -> String {
    named(settings, &format!("w:{:x}:{span}{number}", key.0))
}

pub(crate) fn units_name(settings: &RedisSettings, project: ProjectId) -> String {
    named(settings, &format!("u:{:x}", project.0))
}
