//! The quota for foreign requests. Each request is one call, charged by its response and recorded separately.

use super::{Quota, QuotaLayer};
use crate::foreign::{AcceptAll, AcceptFn, Accepts, Foreign, Reject, RejectAsRequest, RejectBody, RejectFn};
use crate::future::ResponseFuture;
use bytes::Bytes;
use pin_project_lite::pin_project;
use rpcgate_core::backend::Answer;
use rpcgate_core::backend::counters::Counters;
use rpcgate_core::backend::usage_sink::{Line, Outcome, Phase, Record, UsageSink};
use rpcgate_core::call::CallView;
use rpcgate_core::caller::{Caller, CallerRef, KeyId, ProjectId, RequestId, TenantId};
use rpcgate_core::chain::ChainName;
use rpcgate_core::clock::{Clock, Time};
use rpcgate_core::in_flight::InFlightCall;
use rpcgate_core::plan::{Price, Tier};
use rpcgate_core::quota::{Grant, Mask};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::Transport;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tower_service::Service;

/// Marks a quota for foreign requests. It holds the function that reads them, the filter for charged responses, and the
/// sink.
#[derive(Clone)]
pub struct ForeignQuota<F, J = RejectAsRequest, P = AcceptAll> {
    foreign: Foreign<F, Arc<dyn Clock>, J>,
    charging: P,
    sink: Option<Arc<dyn UsageSink>>,
}

impl<F, J, P> fmt::Debug for ForeignQuota<F, J, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignQuota").field("sink", &self.sink).finish_non_exhaustive()
    }
}

impl QuotaLayer {
    /// Adapts the layer to foreign requests. `extract` returns the caller and the call of a request, whose weight in
    /// Compute Units is the `cu` of its rule. `clock` gives the arrival time. A request without a call (`None`) is
    /// refused with [`Refusal::NoKey`].
    ///
    /// A call is charged when the inner service has responded. It is also charged when it is dropped before, because
    /// the inner service has the same cost. It is not charged when the inner service returns an error.
    pub fn with_call<R, F>(self, clock: Arc<dyn Clock>, extract: F) -> QuotaLayer<ForeignQuota<F>>
    where
        F: for<'r> Fn(&'r R) -> Option<(CallerRef<'r>, CallView<'r>)>,
    {
        self.map_mode(|_| ForeignQuota {
            foreign: Foreign::new(extract, clock),
            charging: AcceptAll,
            sink: None,
        })
    }
}

impl<F, J, P> QuotaLayer<ForeignQuota<F, J, P>> {
    /// Charges only the responses for which `charging` returns `true`.
    pub fn charging_if<Res, G>(self, charging: G) -> QuotaLayer<ForeignQuota<F, J, AcceptFn<G>>>
    where
        G: Fn(&Res) -> bool,
    {
        self.map_mode(|mode| ForeignQuota {
            foreign: mode.foreign,
            charging: AcceptFn(charging),
            sink: mode.sink,
        })
    }

    /// Passes a record of every request to `sink` before the response leaves. The record has one line: the method of
    /// the call, its charge and its outcome. The status is 200 for a charged call, 502 for a failed one, 499 for a
    /// dropped one, and the refusal's own for a refused one. Bytes are not counted.
    #[must_use]
    pub fn recording(self, sink: Arc<dyn UsageSink>) -> Self {
        self.map_mode(|mode| ForeignQuota { sink: Some(sink), ..mode })
    }

    /// Answers refused requests with `refusing(request, refusal)`.
    pub fn refusing<R, Res, G>(self, refusing: G) -> QuotaLayer<ForeignQuota<F, RejectFn<G>, P>>
    where
        G: Fn(R, Refusal) -> Res,
    {
        self.rejecting(RejectFn(refusing))
    }

    /// Answers refused HTTP requests as the gateway does, with a body that `body` builds from its bytes.
    pub fn with_refusal_body<B, G>(self, body: G) -> QuotaLayer<ForeignQuota<F, RejectBody<G>, P>>
    where
        G: Fn(Bytes) -> B,
    {
        self.rejecting(RejectBody(body))
    }

    fn rejecting<K>(self, reject: K) -> QuotaLayer<ForeignQuota<F, K, P>> {
        self.map_mode(|mode| ForeignQuota {
            foreign: mode.foreign.rejecting(reject),
            charging: mode.charging,
            sink: mode.sink,
        })
    }
}

impl<S, F, J, P, R> Service<R> for Quota<S, ForeignQuota<F, J, P>>
where
    F: for<'r> Fn(&'r R) -> Option<(CallerRef<'r>, CallView<'r>)>,
    J: Reject<R, S::Response> + Clone + Send + 'static,
    P: Accepts<S::Response> + Clone + Send + 'static,
    R: Send + 'static,
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<MeteredFuture<S::Future, P>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let ForeignQuota { foreign, charging, sink } = &self.mode;
        let reserved = (foreign.extract)(&request).map(|(caller, call)| {
            let now = foreign.clock.now();
            let account = Account::new(&self.counters, &caller, call, sink.as_ref(), &foreign.clock);
            (account, self.counters.reserve(&caller, &[call.rule.cu], now))
        });
        match reserved {
            None => ResponseFuture::own(Ok(foreign.reject.reject(request, Refusal::NoKey))),
            Some((mut account, Answer::Now(reserved))) => match account.reserve(reserved) {
                Ok(()) => {
                    let inner = self.inner.call(request);
                    ResponseFuture::inner(MeteredFuture { inner, account, charging: charging.clone() })
                }
                Err(refusal) => ResponseFuture::own(Ok(foreign.reject.reject(request, refusal))),
            },
            Some((mut account, Answer::Pending(reserved))) => {
                let reject = foreign.reject.clone();
                let charging = charging.clone();
                let ready = self.inner.clone();
                let mut inner = std::mem::replace(&mut self.inner, ready);
                ResponseFuture::waiting(async move {
                    match account.reserve(reserved.await) {
                        Ok(()) => {
                            let inner = inner.call(request);
                            MeteredFuture { inner, account, charging }.await
                        }
                        Err(refusal) => Ok(reject.reject(request, refusal)),
                    }
                })
            }
        }
    }
}

pin_project! {
    /// The response of the inner service, charged and recorded when it arrives.
    pub struct MeteredFuture<F, P> {
        #[pin]
        inner: F,
        account: Account,
        charging: P,
    }
}

impl<F, P> fmt::Debug for MeteredFuture<F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeteredFuture").field("grant", &self.account.grant).finish_non_exhaustive()
    }
}

impl<F, P, Res, E> Future for MeteredFuture<F, P>
where
    F: Future<Output = Result<Res, E>>,
    P: Accepts<Res>,
{
    type Output = Result<Res, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.inner.poll(cx));
        let is_charged = response.as_ref().is_ok_and(|response| this.charging.accepts(response));
        this.account.settle(if is_charged { Outcome::Answered } else { Outcome::Failed });
        Poll::Ready(response)
    }
}

/// The account of one call. It settles when the response arrives, or when it is dropped.
struct Account {
    counters: Arc<dyn Counters>,
    project: ProjectId,
    grant: Grant,
    recorded: Option<Box<Recorded>>,
    state: State,
    /// Dropped after the account has passed its record to the sink.
    _in_flight: Option<InFlightCall>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Reserving,
    Called,
    Settled,
}

struct Recorded {
    sink: Arc<dyn UsageSink>,
    clock: Arc<dyn Clock>,
    key: KeyId,
    tenant: TenantId,
    tier: Tier,
    price: Price,
    chain: ChainName,
    method: Box<[u8]>,
    cu: u32,
    arrival: Time,
    started: Duration,
}

impl Account {
    fn new(
        counters: &Arc<dyn Counters>,
        caller: &Caller,
        call: CallView<'_>,
        sink: Option<&Arc<dyn UsageSink>>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let recorded = sink.map(|sink| {
            Box::new(Recorded {
                sink: sink.clone(),
                clock: clock.clone(),
                key: caller.key,
                tenant: caller.tenant,
                tier: caller.plan.tier,
                price: caller.plan.price,
                chain: call.chain,
                method: call.method.into(),
                cu: call.rule.cu,
                arrival: clock.now(),
                started: clock.elapsed(),
            })
        });
        Account {
            counters: counters.clone(),
            project: caller.project,
            grant: Grant::default(),
            recorded,
            state: State::Reserving,
            _in_flight: counters.in_flight(),
        }
    }

    fn reserve(&mut self, (mask, grant): (Mask, Grant)) -> Result<(), Refusal> {
        self.grant = grant;
        if mask.has(0) {
            self.state = State::Called;
            return Ok(());
        }
        self.settle(Outcome::Refused);
        Err(Refusal::Quota)
    }

    fn settle(&mut self, outcome: Outcome) {
        if std::mem::replace(&mut self.state, State::Settled) == State::Settled {
            return;
        }
        let is_charged = matches!(outcome, Outcome::Answered | Outcome::Abandoned);
        if !is_charged && self.grant.units > 0 {
            self.counters.refund(self.project, self.grant.hour, self.grant.units);
        }
        if let Some(recorded) = self.recorded.take() {
            recorded.append(self.project, outcome, is_charged);
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // A call dropped before the counters answered has cost nothing.
        if self.state == State::Called {
            self.settle(Outcome::Abandoned);
        }
    }
}

impl Recorded {
    fn append(&self, project: ProjectId, outcome: Outcome, is_charged: bool) {
        let status = match outcome {
            Outcome::Refused => Refusal::Quota.status().as_u16(),
            Outcome::Failed | Outcome::NodeError => 502,
            Outcome::Abandoned => 499,
            Outcome::Answered => 200,
        };
        let line = Line {
            method: &self.method,
            cu: if is_charged { self.cu } else { 0 },
            status,
            outcome,
            cached: false,
            calls: 1,
            bytes_in: 0,
            bytes_out: 0,
        };
        self.sink.append(&Record {
            phase: Phase::Complete,
            request: RequestId::new(self.arrival),
            key: self.key,
            project,
            tenant: self.tenant,
            chain: self.chain,
            transport: Transport::Http,
            tier: self.tier,
            price: self.price,
            arrival: self.arrival,
            latency: self.clock.elapsed().saturating_sub(self.started),
            windowed: 0,
            lines: &[line],
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::backend::counters::MemoryCounters;
    use rpcgate_core::backend::suite;
    use rpcgate_core::backend::usage_sink::MemoryUsageSink;
    use rpcgate_core::chain::MethodRule;
    use rpcgate_core::clock::ManualClock;
    use std::convert::Infallible;
    use tower::{BoxError, ServiceExt, service_fn};
    use tower_layer::Layer;

    struct Order(Arc<Caller>);

    impl crate::foreign::RejectWith<Result<&'static str, Refusal>> for Order {
        fn refuse(self, refusal: Refusal) -> Result<&'static str, Refusal> {
            Err(refusal)
        }
    }

    fn call(order: &Order) -> Option<(CallerRef<'_>, CallView<'_>)> {
        let rule = MethodRule::new(40);
        Some(((&order.0).into(), CallView::new(ChainName::new("toy"), "toy_scan", rule)))
    }

    fn outcomes(sink: &MemoryUsageSink) -> Vec<(Outcome, u32)> {
        sink.records().iter().map(|record| (record.lines[0].outcome, record.lines[0].cu)).collect()
    }

    #[tokio::test]
    async fn a_call_of_a_foreign_request_is_charged_unless_it_fails_and_always_recorded() {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_000_000)));
        let counters = Arc::new(MemoryCounters::default());
        let sink = Arc::new(MemoryUsageSink::default());
        let mut caller = suite::caller(1);
        caller.quota.cu_per_day = 100;
        let caller = Arc::new(caller);
        let layer = QuotaLayer::new(counters.clone()).with_call(clock.clone(), call).recording(sink.clone());
        let used = || counters.used(caller.project, clock.now());

        let failing = layer.layer(service_fn(async |_: Order| {
            Err::<Result<&'static str, Refusal>, BoxError>("out of order".into())
        }));
        assert!(failing.oneshot(Order(caller.clone())).await.is_err());
        assert_eq!((used(), outcomes(&sink)), (0, vec![(Outcome::Failed, 0)]));

        let waiting = layer.layer(service_fn(|_: Order| {
            std::future::pending::<Result<Result<&'static str, Refusal>, Infallible>>()
        }));
        let waiting = tokio::time::timeout(Duration::from_millis(1), waiting.oneshot(Order(caller.clone())));
        assert!(waiting.await.is_err());
        assert_eq!((used(), outcomes(&sink).pop()), (40, Some((Outcome::Abandoned, 40))));

        let working = layer
            .layer(service_fn(async |_: Order| Ok::<Result<&'static str, Refusal>, Infallible>(Ok("done"))));
        for expected in [Ok("done"), Ok("done"), Err(Refusal::Quota)] {
            assert_eq!(working.clone().oneshot(Order(caller.clone())).await, Ok(expected));
        }
        assert_eq!((used(), outcomes(&sink).pop()), (120, Some((Outcome::Refused, 0))));
        assert_eq!(sink.records().len(), 5);
    }
}
