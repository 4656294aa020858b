//! The safeguard: scales down the limits of a key that keeps calling although it gets 429, and restores them
//! automatically after a while.
//!
//! The layer comes right after authentication, so that every response to the key shows the current limits. It refuses
//! nothing: the later layers see a caller with smaller plan windows and fewer requests per second. It decides by the
//! records of refused requests, which it [observes](rpcgate_core::tally::Accounting::observed_by) on their way to the
//! sink. While no key is cooled down, it looks up nothing.
//!
//! Each gateway process counts for itself, and a restart restores all limits.
//!
//! In any other tower stack it works over `http::Request`: it takes the caller from the request's extensions, replaces
//! it there, and counts the responses with status 429.
//!
//! ```
//! use rpcgate_core::{caller::Caller, clock::{ManualClock, Time}, plan::{Plan, Tier}, safeguard::SafeguardRule};
//! use rpcgate_layers::foreign::caller_of;
//! use rpcgate_layers::request::safeguard::{Safeguard, SafeguardLayer};
//! use std::{convert::Infallible, sync::Arc};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! // A quarter of the limits remains for an hour, already after one minute with two refusals.
//! let rule = SafeguardRule::new().with_refusals(2).with_minutes(1);
//! let clock = Arc::new(ManualClock::at(Time::from_secs(60)));
//! let layer = SafeguardLayer::by(Arc::new(Safeguard::by(Some(rule)))).over_http(clock.clone());
//! // It refuses everything, and says which limit of an hour it has seen.
//! let inner = service_fn(async |request: http::Request<()>| {
//!     let response = http::Response::builder().status(429);
//!     Ok::<_, Infallible>(response.body(caller_of(&request).unwrap().plan.per_hour).unwrap())
//! });
//! let service = layer.layer(inner);
//! let call = async || {
//!     let mut request = http::Request::new(());
//!     let caller = Caller::of(1, Plan::of(Tier::Free)); // 500 requests an hour
//!     request.extensions_mut().insert(Arc::new(caller));
//!     service.clone().oneshot(request).await.unwrap().into_body()
//! };
//! assert_eq!((call().await, call().await, call().await), (500, 500, 125));
//! clock.advance(rule.cooldown);
//! assert_eq!(call().await, 500);
//! # });
//! ```

mod foreign;

pub use foreign::SafeguardedFuture;

use super::message::Authenticated;
use crate::foreign::Native;
use arc_swap::ArcSwap;
use rpcgate_core::backend::usage_observer::UsageObserver;
use rpcgate_core::backend::usage_sink::Record;
use rpcgate_core::caller::{Caller, KeyId, ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::safeguard::{CoolDown, RefusalStorm, SafeguardRule, is_refused};
use rpcgate_core::sharded::Sharded;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Scales down the limits of keys with too many refused requests.
#[derive(Clone, Debug)]
pub struct SafeguardLayer<W = Native> {
    safeguard: Arc<Safeguard>,
    mode: W,
}

impl SafeguardLayer {
    /// Creates a layer that decides by `safeguard`, which must [observe](rpcgate_core::tally::Accounting::observed_by)
    /// the records of the same requests.
    pub fn by(safeguard: Arc<Safeguard>) -> Self {
        SafeguardLayer { safeguard, mode: Native }
    }
}

impl<S, W: Clone> Layer<S> for SafeguardLayer<W> {
    type Service = Safeguarded<S, W>;

    fn layer(&self, inner: S) -> Safeguarded<S, W> {
        Safeguarded { inner, safeguard: self.safeguard.clone(), mode: self.mode.clone() }
    }
}

/// A service that scales down limits before `inner`.
#[derive(Clone, Debug)]
pub struct Safeguarded<S, W = Native> {
    inner: S,
    safeguard: Arc<Safeguard>,
    mode: W,
}

impl<S, B> Service<Authenticated<B>> for Safeguarded<S>
where
    S: Service<Authenticated<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut known: Authenticated<B>) -> S::Future {
        if let Some((caller, end)) = self.safeguard.look(&known.tally.caller, known.tally.arrival) {
            (known.tally.caller, known.tally.throttled_until) = (caller, Some(end));
        }
        self.inner.call(known)
    }
}

/// The state of the keys with refused requests.
#[derive(Debug, Default)]
pub struct Safeguard {
    rule: ArcSwap<Option<SafeguardRule>>,
    keys: Sharded<KeyId, SafeguardState>,
    throttled: AtomicU64,
    storms: AtomicU64,
}

#[derive(Debug, Default)]
struct SafeguardState {
    key: KeyId,
    project: ProjectId,
    tenant: TenantId,
    storm: RefusalStorm,
    /// The caller from the directory, the rule that scaled it down, and the result.
    scaled: Option<(Arc<Caller>, SafeguardRule, Arc<Caller>)>,
}

impl Safeguard {
    /// Creates a safeguard that applies `rule`. Without a rule it does nothing.
    pub fn by(rule: Option<SafeguardRule>) -> Self {
        Safeguard { rule: ArcSwap::from_pointee(rule), ..Safeguard::default() }
    }

    /// Replaces the rule. Without a rule, all limits are restored.
    pub fn replace(&self, rule: Option<SafeguardRule>) {
        self.rule.store(Arc::new(rule));
        if rule.is_none() {
            self.forget(|_| true);
        }
    }

    /// Returns the number of keys whose limits are scaled down.
    pub fn throttled(&self) -> u64 {
        self.throttled.load(Relaxed)
    }

    /// Returns the keys whose limits are scaled down at `now`, each with the end time.
    pub fn throttled_keys(&self, now: Time) -> Vec<CoolDown> {
        let mut all = Vec::new();
        let Some(rule) = (**self.rule.load()).filter(|_| self.throttled() > 0) else { return all };
        self.keys.each(|key, &mut SafeguardState { project, tenant, ref storm, .. }| {
            let end = storm.end(now);
            all.extend(end.map(|end| CoolDown { key, project, tenant, percent: rule.percent, end }));
        });
        all
    }

    /// Returns the number of storms so far.
    pub fn storms(&self) -> u64 {
        self.storms.load(Relaxed)
    }

    /// Returns the caller with its limits scaled down and the end time, if its key is cooled down.
    pub fn look(&self, caller: &Arc<Caller>, now: Time) -> Option<(Arc<Caller>, Time)> {
        if self.throttled() == 0 {
            return None;
        }
        let rule = (**self.rule.load())?;
        // Most keys were never refused, so a look-up adds no entry.
        let is_throttled =
            |state: Option<&SafeguardState>| state.is_some_and(|state| state.storm.is_throttled());
        if !self.keys.look(caller.key, is_throttled) {
            return None;
        }
        self.keys.with(caller.key, |state| self.state(state, caller, &rule, now))
    }

    fn state(
        &self,
        state: &mut SafeguardState,
        caller: &Arc<Caller>,
        rule: &SafeguardRule,
        now: Time,
    ) -> Option<(Arc<Caller>, Time)> {
        let Some(end) = state.storm.end(now) else {
            self.restore(state);
            return None;
        };
        let known = state.scaled.take().filter(|(own, by, _)| Arc::ptr_eq(own, caller) && by == rule);
        let (.., scaled) = state
            .scaled
            .insert(known.unwrap_or_else(|| (caller.clone(), *rule, Arc::new(rule.cool(caller)))));
        Some((scaled.clone(), end))
    }

    /// Counts a refused request.
    pub fn note(&self, refused: &Record<'_>) {
        self.note_refused(refused.key, refused.project, refused.tenant, refused.arrival);
    }

    fn note_refused(&self, key: KeyId, project: ProjectId, tenant: TenantId, now: Time) {
        let Some(rule) = **self.rule.load() else { return };
        let is_storm = self.keys.with(key, |state| {
            if state.storm.end(now).is_none() {
                self.restore(state);
            }
            (state.key, state.project, state.tenant) = (key, project, tenant);
            let is_storm = state.storm.note(&rule, now);
            if is_storm {
                self.throttled.fetch_add(1, Relaxed);
            }
            is_storm
        });
        if is_storm {
            self.storms.fetch_add(1, Relaxed);
            let percent = rule.percent;
            let seconds = rule.cooldown.as_secs();
            tracing::warn!(%key, percent, seconds, "a storm of refused requests: the key's limits are scaled down");
        }
    }

    /// Removes all state that no longer matters at `now`, the current time. Call it regularly, so that old keys use no
    /// memory, and after the clock was set back, so that no cool-down becomes longer.
    pub fn sweep(&self, now: Time) {
        let rule = **self.rule.load();
        self.forget(|storm| rule.is_none_or(|rule| storm.is_over(&rule, now)));
    }

    fn forget(&self, is_over: impl Fn(&RefusalStorm) -> bool) {
        self.keys.retain(|state| {
            let is_over = is_over(&state.storm);
            if is_over && state.storm.is_throttled() {
                self.restored(state.key);
            }
            !is_over
        });
    }

    fn restore(&self, state: &mut SafeguardState) {
        if state.storm.is_throttled() {
            (state.storm, state.scaled) = (RefusalStorm::default(), None);
            self.restored(state.key);
        }
    }

    fn restored(&self, key: KeyId) {
        self.throttled.fetch_sub(1, Relaxed);
        tracing::info!(%key, "the key's limits are restored");
    }
}

impl UsageObserver for Safeguard {
    fn see(&self, record: &Record<'_>) {
        if is_refused(record) {
            self.note(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::admission::AdmissionResponse;
    use super::super::message::{PendingResponse, Target};
    use super::*;
    use crate::testing::Fixture;
    use rpcgate_core::backend::suite;
    use rpcgate_core::refusal::Refusal;
    use std::convert::Infallible;
    use std::time::Duration;
    use tower::service_fn;

    const RULE: SafeguardRule = SafeguardRule::new().with_refusals(3).with_minutes(2);

    /// Sends a request of the fixture's caller, which the service after the safeguard refuses with `refusal`.
    async fn send(
        fixture: &Fixture,
        safeguard: &Arc<Safeguard>,
        refusal: Refusal,
    ) -> (Arc<Caller>, Option<Time>) {
        let mut seen = None;
        let inner = service_fn(|known: Authenticated<()>| {
            seen = Some((known.tally.caller.clone(), known.tally.throttled_until));
            std::future::ready(Ok::<_, Infallible>(PendingResponse::denied(known.deny(refusal))))
        });
        let tally = fixture.tally_in(Arc::new(fixture.accounting().observed_by(safeguard.clone())));
        let known =
            Authenticated { request: Box::new(http::Request::new(())), target: Target::JsonRpc, tally };
        let Ok(pending) = SafeguardLayer::by(safeguard.clone()).layer(inner).call(known).await;
        drop(pending.tally.and_then(rpcgate_core::tally::Tally::close));
        seen.unwrap()
    }

    const WINDOW: Refusal = Refusal::Window { retry_after: 1 };

    async fn storm(fixture: &Fixture, safeguard: &Arc<Safeguard>) {
        for _ in 0..2 {
            fixture.clock.advance(Duration::from_secs(60));
            for _ in 0..3 {
                assert_eq!(send(fixture, safeguard, WINDOW).await, (fixture.caller.clone(), None));
            }
        }
    }

    #[tokio::test]
    async fn inner_services_see_a_stormy_key_with_a_quarter_of_its_limits_for_an_hour() {
        let fixture = Fixture::new();
        let safeguard = Arc::new(Safeguard::by(Some(RULE)));
        storm(&fixture, &safeguard).await;
        assert_eq!((safeguard.throttled(), safeguard.storms()), (1, 1));
        let end = fixture.now().plus(RULE.cooldown);
        let (first, reported) = send(&fixture, &safeguard, WINDOW).await;
        assert_eq!((&*first, reported), (&RULE.cool(&fixture.caller), Some(end)));
        fixture.clock.advance(Duration::from_micros(3_599_999_999));
        let (second, reported) = send(&fixture, &safeguard, WINDOW).await;
        assert_eq!(reported, Some(end));
        assert!(Arc::ptr_eq(&first, &second), "it is made once");
        fixture.clock.advance(Duration::from_micros(1));
        assert_eq!(send(&fixture, &safeguard, WINDOW).await, (fixture.caller.clone(), None));
        assert_eq!((safeguard.throttled(), safeguard.storms()), (0, 1));
        assert_eq!(fixture.sink.records().len(), 9, "every record reaches the sink");
    }

    #[tokio::test]
    async fn only_429_counts_and_only_for_the_key_that_got_it() {
        let fixture = Fixture::new();
        let safeguard = Arc::new(Safeguard::by(Some(RULE)));
        for minute in 0..5 {
            fixture.clock.advance(Duration::from_secs(60));
            for _ in 0..10 {
                send(&fixture, &safeguard, Refusal::OutOfScope).await;
            }
            assert_eq!(safeguard.storms(), 0, "{minute}");
        }
        storm(&fixture, &safeguard).await;
        let other = Fixture { caller: Arc::new(suite::caller(2)), ..fixture.clone() };
        assert_eq!(send(&other, &safeguard, WINDOW).await, (other.caller.clone(), None));
        assert!(send(&fixture, &safeguard, WINDOW).await.1.is_some());
    }

    #[tokio::test]
    async fn a_caller_that_changes_during_the_call_is_scaled_down_again() {
        let fixture = Fixture::new();
        let safeguard = Arc::new(Safeguard::by(Some(RULE)));
        storm(&fixture, &safeguard).await;
        assert_eq!(send(&fixture, &safeguard, WINDOW).await.0.plan.per_day, 2_500);
        let mut larger = suite::caller(1).with_plan(fixture.caller.plan);
        larger.plan.per_day = 8;
        let fixture = Fixture { caller: Arc::new(larger), ..fixture };
        assert_eq!(send(&fixture, &safeguard, WINDOW).await.0.plan.per_day, 2);
        safeguard.replace(Some(RULE.with_percent(50)));
        assert_eq!(send(&fixture, &safeguard, WINDOW).await.0.plan.per_day, 4);
    }

    #[tokio::test]
    async fn without_a_rule_nothing_is_counted_and_every_key_has_its_full_limits() {
        let fixture = Fixture::new();
        let safeguard = Arc::<Safeguard>::default();
        storm(&fixture, &safeguard).await;
        assert!(safeguard.keys.is_empty());
        safeguard.replace(Some(RULE));
        storm(&fixture, &safeguard).await;
        safeguard.replace(None);
        assert_eq!((safeguard.throttled(), safeguard.storms()), (0, 1));
        safeguard.replace(Some(RULE));
        assert_eq!(send(&fixture, &safeguard, WINDOW).await, (fixture.caller.clone(), None));
    }

    #[tokio::test]
    async fn an_idle_key_is_swept_and_no_longer_counted() {
        let fixture = Fixture::new();
        let safeguard = Arc::new(Safeguard::by(Some(RULE)));
        storm(&fixture, &safeguard).await;
        safeguard.sweep(fixture.now().plus(RULE.cooldown - Duration::from_micros(1)));
        assert_eq!(safeguard.throttled(), 1);
        safeguard.sweep(fixture.now().plus(RULE.cooldown));
        assert_eq!(safeguard.throttled(), 0);
        assert!(safeguard.keys.is_empty());
        send(&fixture, &safeguard, WINDOW).await;
        safeguard.sweep(fixture.now());
        assert!(!safeguard.keys.is_empty(), "a storm may be coming");
        safeguard.sweep(fixture.now().plus(Duration::from_secs(120)));
        assert!(safeguard.keys.is_empty());
    }

    #[tokio::test]
    async fn it_lists_the_throttled_keys_with_their_limits_and_the_end() {
        let fixture = Fixture::new();
        let safeguard = Arc::new(Safeguard::by(Some(RULE)));
        assert_eq!(safeguard.throttled_keys(fixture.now()), []);
        let other = Fixture { caller: Arc::new(suite::caller(2)), ..fixture.clone() };
        send(&other, &safeguard, WINDOW).await;
        storm(&fixture, &safeguard).await;
        let Caller { key, project, tenant, .. } = *fixture.caller;
        let end = fixture.now().plus(RULE.cooldown);
        let throttled = CoolDown { key, project, tenant, percent: 25, end };
        assert_eq!(
            safeguard.throttled_keys(fixture.now()),
            [throttled],
            "a key that was merely refused is not among them"
        );
        let last = Time::from_micros(end.micros() - 1);
        assert_eq!(
            (safeguard.throttled_keys(last), safeguard.throttled_keys(end)),
            (vec![throttled], vec![])
        );
        safeguard.replace(Some(RULE.with_percent(50)));
        assert_eq!(
            safeguard.throttled_keys(fixture.now()),
            [CoolDown { percent: 50, ..throttled }],
            "as it is in force"
        );
        safeguard.replace(None);
        assert_eq!(safeguard.throttled_keys(fixture.now()), []);
    }

    #[test]
    fn threads_that_are_refused_at_once_make_one_storm() {
        let safeguard = Safeguard::by(Some(RULE.with_minutes(1).with_refusals(1_000)));
        let refused = suite::record(1, &[]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| safeguard.note(&refused)));
            }
        });
        assert_eq!((safeguard.throttled(), safeguard.storms()), (1, 1));
    }
}
