//! The account of a set: its caller, outcomes and charges. Dropping it refunds the unused reservation and passes one
//! record to the sink. Long-lived calls have a [`StreamTally`](crate::stream_tally::StreamTally), which a tally opens.

mod shown;

use crate::backend::call_observer::{CallObserver, CallTracing};
use crate::backend::counters::Counters;
use crate::backend::usage_observer::{ObservedSink, UsageObserver};
use crate::backend::usage_sink::{Line, Outcome, Phase, Receipt, Record, UsageSink};
use crate::call::{CallState, Entry};
use crate::caller::{Caller, RequestId};
use crate::chain::{Chain, Dialect};
use crate::clock::{Clock, Time};
use crate::fault::{Cause, Fault};
use crate::in_flight::InFlightCall;
use crate::node_try::{NodeTries, TryEnd};
use crate::overload::LoadSlot;
use crate::quota::Grant;
use crate::recent::{CallFacts, RecentRequests};
use crate::refusal::{BackendFailure, Refusal};
use crate::reply::{Form, Source};
use crate::stream_bytes::StreamBytes;
use crate::window::Windows;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;

pub use crate::transport::{Transport, Transports};

/// The backends that a tally settles with, shared by all tallies of a gateway.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Accounting {
    /// The clock that measures latency.
    pub clock: Arc<dyn Clock>,
    /// The counters that get refunds.
    pub counters: Arc<dyn Counters>,
    /// The sink that gets the record.
    pub sink: Arc<dyn UsageSink>,
    /// The store of recent requests for explanations, if enabled.
    pub recent: Option<Arc<RecentRequests>>,
    /// The observer of settled calls, if there is one.
    pub observer: Option<Arc<dyn CallObserver>>,
    /// The traces of calls, if enabled.
    pub tracing: Option<CallTracing>,
}

impl Accounting {
    /// Creates an accounting with these backends.
    pub fn new(clock: Arc<dyn Clock>, counters: Arc<dyn Counters>, sink: Arc<dyn UsageSink>) -> Self {
        Accounting { clock, counters, sink, recent: None, observer: None, tracing: None }
    }

    /// Keeps recent requests in `recent`.
    #[must_use]
    pub fn remembering(mut self, recent: Arc<RecentRequests>) -> Self {
        self.recent = Some(recent);
        self
    }

    /// Sets the sink.
    #[must_use]
    pub fn with_sink(mut self, sink: Arc<dyn UsageSink>) -> Self {
        self.sink = sink;
        self
    }

    /// Returns the same accounting with a sink whose records `observer` sees first.
    #[must_use]
    pub fn observed_by<O: UsageObserver + 'static>(&self, observer: Arc<O>) -> Self {
        Accounting { sink: Arc::new(ObservedSink::new(self.sink.clone(), observer)), ..self.clone() }
    }
}

/// The entries of a set, in request order. A single one needs no allocation.
pub type Entries = SmallVec<[Entry; 1]>;

/// A client's request never to see an older head of the chain than before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadConsistency {
    /// The height that an answering node must have reached.
    pub least: u64,
    /// The height that every node that answered has reached.
    pub shown: Option<u64>,
}

/// The account of one set of calls.
#[derive(Debug)]
pub struct Tally {
    /// The value of `x-request-id`.
    pub request: RequestId,
    /// The transport of the request.
    pub transport: Transport,
    /// The chain of the calls.
    pub chain: Arc<Chain>,
    /// The caller.
    pub caller: Arc<Caller>,
    /// The end of the cool-down, if the key is in one: `caller` then has the scaled limits.
    pub throttled_until: Option<Time>,
    /// The arrival, which decides the minute and hour of the request.
    pub arrival: Time,
    /// The request's body, which the spans of the entries refer to.
    pub body: Bytes,
    /// True if the request was an array.
    pub batch: bool,
    /// The calls.
    pub entries: Entries,
    /// The reason if the whole request was refused.
    pub refused: Option<Refusal>,
    /// The windows after the request was counted in them or refused by them.
    pub windows: Option<Windows>,
    /// The number of requests that the plan windows counted.
    pub counted: u32,
    /// Its reservation in the project's quota.
    pub grant: Option<Grant>,
    /// Headers of a node's answer to a set of one that the client gets.
    pub passing: HeaderMap,
    /// Its slot in the chain's load, until its answer begins to leave.
    pub load_slot: Option<LoadSlot>,
    /// Memory held for its bodies.
    pub memory: crate::memory::MemoryPermit,
    /// The deadline of its calls, by [`Clock::elapsed`], if they waited for other callers' calls before.
    pub deadline: Option<Duration>,
    /// The client's head consistency, if requested.
    pub consistency: Option<HeadConsistency>,
    /// The tries of its calls.
    pub tries: NodeTries,
    pub(crate) started: Duration,
    pub(crate) accounting: Arc<Accounting>,
    /// The part of the lifetime that its record covers.
    pub(crate) phase: Phase,
    /// The stream that its calls are messages of.
    pub(crate) stream: Option<Arc<StreamBytes>>,
    is_closed: bool,
    /// Dropped with the account, after its record is in the sink.
    in_flight: Option<InFlightCall>,
}

impl Tally {
    /// Creates the account of an authenticated request. `started` is the [`elapsed`](Clock::elapsed) at its arrival.
    ///
    /// A request with [`Transport::Ws`] is a handshake, recorded as the begin of a stream. The messages of a stream get
    /// their tallies from its [`StreamTally`](crate::stream_tally::StreamTally).
    pub fn new(
        request: RequestId,
        transport: Transport,
        chain: Arc<Chain>,
        caller: Arc<Caller>,
        arrival: Time,
        started: Duration,
        accounting: Arc<Accounting>,
    ) -> Self {
        Tally {
            request,
            transport,
            chain,
            caller,
            throttled_until: None,
            arrival,
            body: Bytes::new(),
            batch: false,
            entries: Entries::new(),
            refused: None,
            windows: None,
            counted: 0,
            grant: None,
            passing: HeaderMap::new(),
            load_slot: None,
            memory: crate::memory::MemoryPermit::default(),
            deadline: None,
            consistency: None,
            tries: NodeTries::default(),
            started,
            accounting,
            phase: if transport == Transport::Ws { Phase::Begin } else { Phase::Complete },
            stream: None,
            is_closed: false,
            in_flight: None,
        }
    }

    /// Reports whether any call still has to be sent to a node.
    pub fn has_open(&self) -> bool {
        self.entries.iter().any(Entry::is_open)
    }

    /// Marks the set as in flight until its record is in the sink. Must be called before anything is counted for it.
    pub fn begin(&mut self) {
        if self.in_flight.is_none() {
            self.in_flight = self.accounting.counters.in_flight();
        }
    }

    /// Marks a long call as no longer in flight: the counters do not wait for its record, and count its cost with that.
    pub fn outlast(&mut self) {
        self.in_flight = None;
    }

    /// Refuses every open call and the request as a whole.
    pub fn refuse(&mut self, refusal: Refusal) {
        for entry in &mut self.entries {
            if entry.is_open() {
                entry.state = CallState::Refused(refusal);
            }
        }
        self.refused = Some(refusal);
    }

    /// Releases its slot in the chain's load, because its answer begins to leave or will not come. The duration counts
    /// if exactly one node was tried and that try answered or timed out.
    pub fn leave_load(&mut self) {
        let Some(load_slot) = self.load_slot.take() else { return };
        let now = self.accounting.clock.elapsed();
        let [only] = self.tries.as_slice() else { return load_slot.passed(now) };
        let kind = || {
            let method = self.entries.first().map(|entry| entry.call.method(&self.body)).unwrap_or_default();
            // Sets of 2, 4 or 8 calls take different times.
            let size = self.entries.len().checked_ilog2().unwrap_or_default();
            load_slot.kind(&(method, size, only.pool, only.node))
        };
        match only.end {
            TryEnd::Answered => {
                let kind = kind();
                load_slot.answered(kind, now);
            }
            TryEnd::Running | TryEnd::Stopped | TryEnd::Failed(Fault { cause: Cause::Timeout, .. }) => {
                let kind = kind();
                load_slot.abandoned(kind, now);
            }
            TryEnd::IdleClosed | TryEnd::Failed(_) => load_slot.passed(now),
        }
    }

    /// Returns the windows for the rate headers: after the count, or the current ones.
    pub fn windows_now(&self) -> Windows {
        self.windows.unwrap_or_else(|| self.accounting.counters.peek(&self.caller, self.arrival))
    }

    /// Returns the Compute Units charged so far, over all entries.
    pub fn charged(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(self.charge(entry))).sum()
    }

    /// Reports whether every answer was in the cache before the request arrived.
    pub fn is_hit(&self) -> bool {
        !self.entries.is_empty()
            && self.entries.iter().all(
                |entry| matches!(&entry.state, CallState::Answered(reply) if reply.from == Source::Stored),
            )
    }

    /// Closes the account before the answer is sent. If there is a receipt, it must be dropped before that.
    pub fn close(mut self: Box<Self>) -> Option<Receipt> {
        self.is_closed = true;
        self.settle(Receipt::hold).flatten()
    }

    /// Settles the account of a call that continues: refunds its reservation except the recorded cost of `begin`.
    pub(crate) fn settle_begun(mut self: Box<Self>, begin: &Line<'_>) {
        self.is_closed = true;
        self.leave_load();
        let charged = u64::from(begin.cu);
        if self.accounting.recent.is_some() {
            let latency = self.accounting.clock.elapsed().saturating_sub(self.started);
            let cu = begin.cu;
            let status = begin.status;
            let outcome = begin.outcome;
            let call = |entry: &Entry| CallFacts { cu, status, outcome, ..self.call_facts(entry, 0) };
            let calls = self.entries.iter().take(1).map(|entry| (call(entry), begin.method));
            self.remember(calls, latency, self.grant, charged, true);
        }
        for observer in self.observers() {
            let latency = self.accounting.clock.elapsed().saturating_sub(self.started);
            self.show(observer, &[*begin], latency, self.grant, charged, true);
        }
        self.refund(charged);
    }

    /// Closes the account of a stream message, whose counts `sum` takes over.
    pub(crate) fn settle_into(mut self: Box<Self>, sum: impl FnOnce(&Record<'_>)) {
        self.is_closed = true;
        self.settle(|_, record| sum(record));
    }

    fn refund(&mut self, charged: u64) {
        if let Some(grant) = self.grant.take() {
            let unused = grant.units.saturating_sub(charged);
            if unused > 0 {
                self.accounting.counters.refund(self.caller.project, grant.hour, unused);
            }
        }
    }

    /// Returns the charge of a call: its weight if a node or the cache answered, including errors that are the caller's
    /// own, or if the client disconnects while a node may still work, so that no client keeps a node busy for free.
    /// Failures of the nodes (also after the deadline), calls that no node could serve, and calls on a WebSocket stream
    /// are free.
    fn charge(&self, entry: &Entry) -> u32 {
        if self.stream.is_some() && self.transport == Transport::Ws {
            return 0;
        }
        match &entry.state {
            CallState::Answered(reply)
                if matches!(reply.from, Source::Unserved | Source::Own { reserved: false }) =>
            {
                0
            }
            CallState::Answered(_) | CallState::Sent => entry.call.rule.cu,
            CallState::Open | CallState::Parked | CallState::Refused(_) | CallState::Failed(_) => 0,
        }
    }

    fn settle<T>(&mut self, give: impl FnOnce(&Arc<dyn UsageSink>, &Record<'_>) -> T) -> Option<T> {
        self.leave_load();
        let charged = self.charged();
        let grant = self.grant;
        self.refund(charged);
        if self.entries.is_empty() {
            return None;
        }
        // The handshake of a stream that no node accepts is answered like a REST call, by its status.
        let is_handshake = self.phase == Phase::Begin && self.transport == Transport::Ws;
        let dialect = if is_handshake { Dialect::Rest } else { self.chain.facts().dialect };
        let name = self.chain.name();
        // Bytes that belong to no entry (brackets, separators) count for the first one.
        let spare = self.body.len().saturating_sub(self.entries.iter().map(|entry| entry.call.len()).sum());
        let lines: SmallVec<[Line<'_>; 1]> = self
            .entries
            .iter()
            .enumerate()
            .map(|(index, entry)| Line {
                method: entry.call.method(&self.body),
                cu: self.charge(entry),
                status: status(entry, entry.call.dialect(dialect)).as_u16(),
                outcome: outcome(entry),
                cached: matches!(
                    &entry.state,
                    CallState::Answered(reply) if matches!(reply.from, Source::Stored | Source::Shared)
                ),
                calls: 1,
                bytes_in: (entry.call.len() + if index == 0 { spare } else { 0 }) as u32,
                bytes_out: entry.bytes_out,
            })
            .collect();
        if let Some(stream) = &self.stream {
            lines.iter().for_each(|line| stream.add(line.bytes_in, line.bytes_out));
        }
        let record = Record {
            phase: self.phase,
            request: self.request,
            key: self.caller.key,
            project: self.caller.project,
            tenant: self.caller.tenant,
            chain: name,
            transport: self.transport,
            tier: self.caller.plan.tier,
            price: self.caller.plan.price,
            arrival: self.arrival,
            latency: self.accounting.clock.elapsed().saturating_sub(self.started),
            windowed: self.counted,
            lines: &lines,
        };
        // A stream message has no id that its client knows.
        if self.accounting.recent.is_some() && self.stream.is_none() {
            let calls = lines.iter().zip(self.entries.iter()).enumerate().map(|(index, (line, entry))| {
                let cu = line.cu;
                let status = line.status;
                let outcome = line.outcome;
                (CallFacts { cu, status, outcome, ..self.call_facts(entry, index) }, line.method)
            });
            self.remember(calls, record.latency, grant, charged, false);
        }
        for observer in self.observers() {
            self.show(observer, &lines, record.latency, grant, charged, false);
        }
        Some(give(&self.accounting.sink, &record))
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        if !self.is_closed {
            self.settle(|sink, record| sink.append(record));
        }
    }
}

/// Returns the HTTP status that the call would have had alone.
fn status(entry: &Entry, dialect: Dialect) -> StatusCode {
    /// The usual log status for a client that left before its answer.
    const CLIENT_CLOSED_REQUEST: u16 = 499;
    match &entry.state {
        CallState::Open | CallState::Parked | CallState::Sent => {
            StatusCode::from_u16(CLIENT_CLOSED_REQUEST).unwrap_or(StatusCode::REQUEST_TIMEOUT)
        }
        CallState::Refused(refusal) => refusal.status(),
        CallState::Failed(_) => BackendFailure.status(dialect),
        CallState::Answered(reply) => match &reply.form {
            Form::Complete(complete) => complete.status,
            Form::Rest(rest) => rest.status,
            Form::Stream(streamed) => streamed.status,
            Form::Failure(_, status) | Form::Error(_, status) => *status,
            Form::Result(_) | Form::Nothing => StatusCode::OK,
        },
    }
}

fn outcome(entry: &Entry) -> Outcome {
    match &entry.state {
        CallState::Open | CallState::Parked | CallState::Sent => Outcome::Abandoned,
        CallState::Refused(_) => Outcome::Refused,
        CallState::Failed(_) => Outcome::Failed,
        CallState::Answered(reply) if reply.form.is_error() => Outcome::NodeError,
        CallState::Answered(_) => Outcome::Answered,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::call_observer::SettledCalls;
    use crate::backend::counters::MemoryCounters;
    use crate::backend::usage_sink::MemoryUsageSink;
    use crate::call::{Call, Payload};
    use crate::caller::{KeyId, ProjectId, TenantId};
    use crate::chain::{Found, MethodRule};
    use crate::clock::ManualClock;
    use crate::envelope::{Limits, ParsedBody, parse};
    use crate::plan::{Plan, Tier};
    use crate::recent::CacheUse;
    use crate::reply::Reply;
    use crate::toy::Toy;

    struct Fixture {
        clock: Arc<ManualClock>,
        counters: Arc<MemoryCounters>,
        sink: Arc<MemoryUsageSink>,
        tally: Tally,
    }

    fn fixture(body: &'static [u8]) -> Fixture {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_000_000)));
        let counters = Arc::new(MemoryCounters::default());
        let sink = Arc::new(MemoryUsageSink::default());
        let accounting = Accounting::new(clock.clone(), counters.clone(), sink.clone());
        let chain = Arc::new(Chain::deployed(Arc::new(Toy)));
        let caller = Caller::new(KeyId(1), ProjectId(2), TenantId(3), Plan::of(Tier::Standard));
        let arrival = clock.now();
        let started = clock.elapsed();
        let mut tally = Tally::new(
            RequestId(9),
            Transport::Http,
            chain,
            Arc::new(caller),
            arrival,
            started,
            Arc::new(accounting),
        );
        tally.body = Bytes::from_static(body);
        let items = match parse(body, &Limits::default()) {
            Ok(ParsedBody::Single(item)) => vec![item],
            Ok(ParsedBody::Batch(items)) => items,
            Err(_) => vec![],
        };
        for item in items {
            let call = match item {
                Ok(envelope) => Call::json_rpc(envelope, Found { rule: MethodRule::new(5), metered: None }),
                Err(bad) => Call::unread(Payload::Bad(bad)),
            };
            tally.entries.push(Entry::open(call));
        }
        Fixture { clock, counters, sink, tally }
    }

    // Shows (Nodes and cache).
    #[test]
    fn a_call_that_fails_for_its_client_is_free_and_one_that_its_client_aborts_is_not() {
        let mut fixture = fixture(BATCH);
        fixture.tally.entries[0].state = CallState::Failed(Fault::sent(Cause::Timeout));
        fixture.tally.entries[1].state = answered(Source::Unserved);
        fixture.tally.entries[2].state = CallState::Failed(Fault::sent(Cause::Undecodable));
        assert_eq!(fixture.tally.charged(), 0);
        fixture.tally.entries[3].state = CallState::Sent;
        assert_eq!(fixture.tally.charged(), 5);
    }

    const BATCH: &[u8] =
        br#"[{"id":1,"method":"a"}, {"id":2,"method":"bb"},{"id":3,"method":"c"},{"id":4,"method":"d"}]"#;

    fn answered(from: Source) -> CallState {
        CallState::Answered(Reply { form: Form::Result(Bytes::from_static(b"1")), from })
    }

    #[test]
    fn a_dropped_tally_leaves_one_record_with_a_line_for_each_call() {
        let mut fixture = fixture(BATCH);
        fixture.tally.entries[0].state = answered(Source::Node);
        fixture.tally.entries[1].state = answered(Source::Stored);
        fixture.tally.entries[2].state = CallState::Refused(Refusal::Quota);
        fixture.tally.entries[3].state = CallState::Failed(Fault::sent(Cause::Broken));
        fixture.clock.advance(Duration::from_millis(3));
        assert_eq!(fixture.tally.charged(), 10);
        drop(fixture.tally);
        let records = fixture.sink.records();
        assert_eq!(records.len(), 1);
        let record = &records[0];
        assert_eq!(
            (record.request, record.key, record.latency),
            (RequestId(9), KeyId(1), Duration::from_millis(3))
        );
        let lines: Vec<_> =
            record.lines.iter().map(|l| (l.method.as_str(), l.cu, l.status, l.outcome, l.cached)).collect();
        assert_eq!(
            lines,
            [
                ("a", 5, 200, Outcome::Answered, false),
                ("bb", 5, 200, Outcome::Answered, true),
                ("c", 0, 200, Outcome::Refused, false),
                ("d", 0, 200, Outcome::Failed, false),
            ]
        );
        let bytes: u32 = record.lines.iter().map(|l| l.bytes_in).sum();
        assert_eq!(bytes as usize, BATCH.len(), "an entry's share is its slice, the rest is the first one's");
    }

    /// The methods, outcomes and numbers of tries of the observed sets.
    #[derive(Debug, Default)]
    struct Seen(parking_lot::Mutex<Vec<(String, Outcome, usize, bool)>>);

    impl CallObserver for Seen {
        fn see(&self, settled: &SettledCalls<'_>) {
            assert_eq!((settled.facts.request, settled.prefix), (RequestId(9), "rpcg_0Ab1Cd2"));
            assert_eq!(settled.lines.len(), settled.calls.len());
            for (line, call) in settled.lines.iter().zip(settled.calls) {
                assert_eq!((line.outcome, line.cu), (call.outcome, call.cu));
                let method = String::from_utf8_lossy(line.method).into_owned();
                self.0.lock().push((method, line.outcome, settled.tries.len(), settled.facts.is_batch));
            }
        }
    }

    // Shows (Traces, logs and metrics).
    #[test]
    fn an_observer_sees_each_settled_set_with_its_tries_else_nothing_is_built() {
        let seen = Arc::new(Seen::default());
        for observer in [None, Some(seen.clone() as Arc<dyn CallObserver>)] {
            let mut fixture = fixture(BATCH);
            let caller = Arc::unwrap_or_clone(fixture.tally.caller.clone()).with_prefix("rpcg_0Ab1Cd2");
            fixture.tally.caller = Arc::new(caller);
            let accounting = Accounting { observer, ..(*fixture.tally.accounting).clone() };
            fixture.tally.accounting = Arc::new(accounting);
            fixture.tally.batch = true;
            fixture.tally.entries[0].state = answered(Source::Node);
            fixture.tally.entries[1].state = CallState::Refused(Refusal::Quota);
            fixture.tally.tries.push((1, 0), crate::node_try::NodeChoice::Only);
            drop(fixture.tally);
            assert_eq!(fixture.sink.records().len(), 1);
        }
        let calls = seen.0.lock();
        let outcomes: Vec<_> =
            calls.iter().map(|(method, outcome, ..)| (method.as_str(), *outcome)).collect();
        let expected = [
            ("a", Outcome::Answered),
            ("bb", Outcome::Refused),
            ("c", Outcome::Abandoned),
            ("d", Outcome::Abandoned),
        ];
        assert_eq!(outcomes, expected);
        assert!(calls.iter().all(|(_, _, tries, is_batch)| (*tries, *is_batch) == (1, true)));
    }

    #[test]
    fn reserved_units_that_are_not_charged_are_returned() {
        let mut fixture = fixture(BATCH);
        let now = fixture.clock.now();
        let Answer::Now((_, grant)) = fixture.counters.reserve(&fixture.tally.caller, &[5, 5, 5, 5], now)
        else {
            panic!("memory does not wait")
        };
        fixture.tally.grant = Some(grant);
        fixture.tally.entries[0].state = answered(Source::Node);
        fixture.tally.entries[1].state = CallState::Sent;
        fixture.tally.entries[2].state = CallState::Failed(Fault::unsent(Cause::Connect));
        drop(fixture.tally);
        assert_eq!(
            fixture.counters.used(ProjectId(2), now),
            10,
            "answered and sent are charged, open and failed are not"
        );
    }

    #[test]
    fn a_call_already_sent_is_charged_when_the_client_leaves() {
        let mut fixture = fixture(br#"{"id":1,"method":"a"}"#);
        fixture.tally.entries[0].state = CallState::Sent;
        drop(fixture.tally);
        let line = &fixture.sink.records()[0].lines[0];
        assert_eq!((line.cu, line.status, line.outcome), (5, 499, Outcome::Abandoned));
    }

    #[test]
    fn a_request_without_calls_leaves_no_record() {
        let fixture = fixture(b"");
        drop(fixture.tally);
        assert!(fixture.sink.records().is_empty());
    }

    #[test]
    fn a_set_is_a_hit_only_when_all_of_it_was_stored() {
        let mut fixture = fixture(br#"[{"method":"a"},{"method":"b"}]"#);
        fixture.tally.entries[0].state = answered(Source::Stored);
        fixture.tally.entries[1].state = answered(Source::Shared);
        assert!(!fixture.tally.is_hit());
        fixture.tally.entries[1].state = answered(Source::Stored);
        assert!(fixture.tally.is_hit());
    }

    #[test]
    fn the_explanation_of_a_request_is_remembered_when_it_is_settled() {
        use CacheUse::{Hit, NotAsked, Uncacheable};
        let mut fixture = fixture(BATCH);
        let recent = Arc::new(RecentRequests::new(10, 1));
        let accounting = Accounting::clone(&fixture.tally.accounting).remembering(recent.clone());
        fixture.tally.accounting = Arc::new(accounting);
        let now = fixture.clock.now();
        for costs in [&[7][..], &[5, 5, 5, 5]] {
            let Answer::Now((_, grant)) = fixture.counters.reserve(&fixture.tally.caller, costs, now) else {
                panic!("memory does not wait")
            };
            fixture.tally.grant = Some(grant);
        }
        let Answer::Now(taken) = fixture.counters.take(&fixture.tally.caller, 1, now) else {
            panic!("memory does not wait")
        };
        (fixture.tally.windows, fixture.tally.counted, fixture.tally.batch) = (Some(taken.windows), 1, true);
        fixture.tally.entries[0].state = answered(Source::Node);
        fixture.tally.entries[1].state = answered(Source::Stored);
        fixture.tally.entries[2].state = CallState::Refused(Refusal::Quota);
        fixture.tally.entries[3].state = CallState::Failed(Fault::unsent(Cause::NoNode));
        fixture.clock.advance(Duration::from_millis(3));
        drop(fixture.tally);
        let request = recent.find(RequestId(9)).unwrap();
        let facts = request.facts;
        assert_eq!((facts.key, facts.tenant, facts.tier), (KeyId(1), TenantId(3), Tier::Standard));
        assert_eq!((facts.latency, facts.counted, facts.is_batch), (Duration::from_millis(3), 1, true));
        assert_eq!(facts.windows, Some(taken.windows));
        let quota = facts.quota.unwrap();
        assert_eq!((quota.before, quota.reserved, quota.charged), (7, 20, 10));
        let calls: Vec<_> = request
            .calls
            .iter()
            .map(|call| (call.method.as_str(), call.facts.weight, call.facts.cu))
            .collect();
        assert_eq!(calls, [("a", 5, 5), ("bb", 5, 5), ("c", 5, 0), ("d", 5, 0)]);
        let uses: Vec<_> = request.calls.iter().map(|call| call.facts.cache).collect();
        assert_eq!(uses, [Uncacheable, Hit, NotAsked, Uncacheable]);
        assert_eq!(request.calls[2].facts.refusal, Some(Refusal::Quota));
        assert_eq!(request.calls[3].facts.fault, Some(Fault::unsent(Cause::NoNode)));
    }

    use crate::backend::Answer;
}
