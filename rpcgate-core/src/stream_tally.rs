//! The account of a WebSocket stream, or of a gRPC call with more than one message.
//!
//! A [`Tally`] settles once, at the end of its set. A stream may last for days, and its counts must survive a killed
//! process. So it is recorded in parts: the begin before the client gets an answer (over gRPC: a second message), calls
//! and pushed messages in sums of half a second, and the end when the account is ended or dropped. Calls on a WebSocket
//! stream have their own tallies ([`StreamTally::message`]), which are summed when settled ([`StreamTally::settle`]).
//!
//! | part | WebSocket | gRPC |
//! |---|---|---|
//! | begin | one connection, and the request that the plan windows count | the call, what it costs, and its request |
//! | calls | under their methods, calls of one method and outcome together; free | – |
//! | pushes | how many, and their bytes | – |
//! | end | the bytes of all parts once more, which are not added again | outcome, latency and bytes of the call |
//!
//! All parts have the request id of the begin. A stream of a killed process has a begin and no end, and counts once.
//!
//! ```
//! use rpcgate_core::backend::usage_sink::{MemoryUsageSink, Outcome, Phase};
//! use rpcgate_core::{caller::*, chain::Chain, clock::*, plan::{Plan, Tier}, stream_tally::StreamTally, tally::*};
//! # use rpcgate_core::{adapter::*, call::CallView, chain::{Facts, Finality, Method}};
//! # use rpcgate_core::backend::counters::MemoryCounters;
//! use std::sync::Arc;
//!
//! # #[derive(Debug)] struct Still(Facts);
//! # impl Adapter for Still {
//! #     fn facts(&self) -> &Facts { &self.0 }
//! #     fn methods(&self) -> Vec<Method> { Vec::new() }
//! #     fn settled(&self, _: CallView<'_>, _: &[u8], _: &Finality) -> Permanence { Permanence::Yes }
//! #     fn probe(&self) -> Probe { Probe::Rest { target: "/head", body: None } }
//! #     fn seen(&self, _: &[u8]) -> Option<NodeStatus> { None }
//! # }
//! # let clock = Arc::new(ManualClock::at(Time::from_secs(1_000)));
//! # let chain = Arc::new(Chain::deployed(Arc::new(Still(Facts::json_rpc("still", "Still")))));
//! # let caller = Arc::new(Caller::new(KeyId(1), ProjectId(2), TenantId(3), Plan::of(Tier::Free)));
//! let sink = Arc::new(MemoryUsageSink::default());
//! # let accounting = Accounting::new(clock.clone(), Arc::<MemoryCounters>::default(), sink.clone());
//! # let arrival = clock.now();
//! # let started = clock.elapsed();
//! let handshake = Tally::new(RequestId(7), Transport::Ws, chain, caller, arrival, started, Arc::new(accounting));
//! let mut stream = StreamTally::begin(Box::new(handshake)).map_err(|_| "it was refused")?;
//! stream.push(120);
//! stream.push(130);
//! stream.end(Outcome::Answered);
//!
//! let records = sink.records();
//! let phases: Vec<_> = records.iter().map(|record| record.phase).collect();
//! assert_eq!(phases, [Phase::Begin, Phase::Pushed, Phase::End]);
//! assert_eq!((records[1].lines[0].calls, records[1].lines[0].bytes_out), (2, 250));
//! # Ok::<(), &str>(())
//! ```

use crate::backend::usage_sink::{Line, Outcome, Phase, Record};
use crate::call::{Call, CallState, Entry, Payload};
use crate::caller::{Caller, RequestId};
use crate::chain::Chain;
use crate::clock::Time;
use crate::stream_bytes::StreamBytes;
use crate::tally::{Accounting, Tally};
use crate::transport::Transport;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The time for which calls and pushes are summed before they are recorded. A killed process loses at most this much.
pub const SUMMED: Duration = Duration::from_millis(500);

/// The number of sums (method and outcome) kept at a time. One more causes all to be recorded.
const SUMS: usize = 64;

/// The methods under which the parts of a WebSocket stream are recorded.
const CONNECT: &[u8] = b"WS:connect";
const MESSAGE: &[u8] = b"WS:message";
const DISCONNECT: &[u8] = b"WS:disconnect";

/// The status of an accepted handshake (RFC 6455, section 4.2.2).
const SWITCHING_PROTOCOLS: u16 = 101;
const OK: u16 = 200;

/// The account of a stream. Dropped without [`end`](StreamTally::end), it records that the client ended it.
#[derive(Debug)]
pub struct StreamTally {
    request: RequestId,
    transport: Transport,
    chain: Arc<Chain>,
    caller: Arc<Caller>,
    arrival: Time,
    started: Duration,
    accounting: Arc<Accounting>,
    /// The method of a gRPC call. Empty for a WebSocket stream.
    method: Box<[u8]>,
    bytes: Arc<StreamBytes>,
    pushed: Pushed,
    calls: Vec<CallSum>,
    /// The start of the wait of the oldest unrecorded push or call.
    since: Option<Duration>,
    is_ended: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Pushed {
    messages: u32,
    to_node: u32,
    to_client: u32,
}

#[derive(Debug)]
struct CallSum {
    method: Box<[u8]>,
    status: u16,
    outcome: Outcome,
    /// The arrival of the first call.
    arrival: Time,
    /// The total of all calls.
    latency: Duration,
    calls: u32,
    to_node: u32,
    to_client: u32,
}

impl CallSum {
    fn of(line: &Line<'_>, record: &Record<'_>) -> Self {
        CallSum {
            method: line.method.into(),
            status: line.status,
            outcome: line.outcome,
            arrival: record.arrival,
            latency: record.latency,
            calls: line.calls,
            to_node: line.bytes_in,
            to_client: line.bytes_out,
        }
    }

    /// Adds the calls of `line`; returns `false` if they must be counted separately.
    fn add(&mut self, line: &Line<'_>, record: &Record<'_>) -> bool {
        let is_same = *self.method == *line.method
            && (self.status, self.outcome) == (line.status, line.outcome)
            && self.arrival.hour() == record.arrival.hour();
        let sum = || {
            let calls = self.calls.checked_add(line.calls)?;
            let to_node = self.to_node.checked_add(line.bytes_in)?;
            Some((calls, to_node, self.to_client.checked_add(line.bytes_out)?))
        };
        let Some((calls, to_node, to_client)) = is_same.then(sum).flatten() else { return false };
        (self.calls, self.to_node, self.to_client) = (calls, to_node, to_client);
        self.latency = self.latency.saturating_add(record.latency);
        true
    }
}

impl StreamTally {
    /// Begins the stream of an admitted handshake, or of a gRPC call that a node has accepted. Records the begin with
    /// the tally's count in the windows and its cost.
    ///
    /// # Errors
    /// Returns the tally if the handshake or call was refused or failed. The tally then records that itself.
    pub fn begin(mut tally: Box<Tally>) -> Result<Self, Box<Tally>> {
        let is_denied = |entry: &Entry| matches!(entry.state, CallState::Refused(_) | CallState::Failed(_));
        if tally.refused.is_some() || tally.entries.iter().any(is_denied) {
            return Err(tally);
        }
        let is_ws = tally.transport == Transport::Ws;
        if tally.entries.is_empty() {
            tally.entries.push(Entry::open(Call::unread(Payload::Unread)));
        }
        let stream = StreamTally {
            request: tally.request,
            transport: tally.transport,
            chain: tally.chain.clone(),
            caller: tally.caller.clone(),
            arrival: tally.arrival,
            started: tally.started,
            accounting: tally.accounting.clone(),
            method: tally
                .entries
                .first()
                .map(|entry| entry.call.method(&tally.body))
                .unwrap_or_default()
                .into(),
            bytes: Arc::default(),
            pushed: Pushed::default(),
            calls: Vec::new(),
            since: None,
            is_ended: false,
        };
        let cost: u32 = tally.entries.iter().map(|entry| if is_ws { 0 } else { entry.call.rule.cu }).sum();
        let line = Line { cu: cost, ..stream.line(CONNECT, Outcome::Answered) };
        stream.record(Phase::Begin, stream.arrival, tally.counted, &[line]);
        // The cost is recorded. The tally only refunds the rest of its reservation and records nothing.
        tally.settle_begun(&line);
        Ok(stream)
    }

    /// Returns the request id of all parts of the stream.
    pub fn request(&self) -> RequestId {
        self.request
    }

    /// Returns the caller of the stream.
    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// Returns the chain of the stream.
    pub fn chain(&self) -> &Arc<Chain> {
        &self.chain
    }

    /// Takes over the current chain and caller for further messages. Another chain or key than the stream's is ignored.
    pub fn refresh(&mut self, chain: &Arc<Chain>, caller: &Arc<Caller>) {
        if chain.name() == self.chain.name() && !Arc::ptr_eq(chain, &self.chain) {
            self.chain = chain.clone();
        }
        if caller.key == self.caller.key && !Arc::ptr_eq(caller, &self.caller) {
            self.caller = caller.clone();
        }
    }

    /// Creates a tally for the calls in a message that arrives now. A dropped tally writes its own record. A
    /// [settled](StreamTally::settle) one is recorded together with others.
    pub fn message(&self) -> Box<Tally> {
        let clock = &self.accounting.clock;
        let arrival = clock.now();
        let started = clock.elapsed();
        let id = RequestId::new(arrival);
        let accounting = self.accounting.clone();
        let chain = self.chain.clone();
        let caller = self.caller.clone();
        let mut tally = Tally::new(id, self.transport, chain, caller, arrival, started, accounting);
        tally.phase = Phase::Complete;
        tally.stream = Some(self.bytes.clone());
        let tracing = self.accounting.tracing.as_ref();
        tally.tries.set_trace(tracing.and_then(|tracing| tracing.sampling.root(id)));
        Box::new(tally)
    }

    /// Counts the calls of a [message](StreamTally::message) with known outcomes. They are recorded at the latest by
    /// the first [`flush`](StreamTally::flush) after they are [due](StreamTally::due).
    pub fn settle(&mut self, message: Box<Tally>) {
        let mut left = Vec::new();
        let calls = &mut self.calls;
        message.settle_into(|record| {
            for line in record.lines {
                if calls.iter_mut().any(|sum| sum.add(line, record)) {
                    continue;
                }
                let one = CallSum::of(line, record);
                if calls.len() < SUMS { calls.push(one) } else { left.push(one) }
            }
        });
        self.wait();
        if !left.is_empty() {
            self.flush();
            self.calls = left;
            self.wait();
        }
    }

    /// Counts a message of `bytes` that is pushed to the client and answers no call. It is recorded like settled calls.
    pub fn push(&mut self, bytes: u32) {
        self.sum(Pushed { messages: 1, to_client: bytes, ..Pushed::default() });
    }

    /// Counts `bytes` from the client that belong to no call of a [message](StreamTally::message).
    pub fn receive(&mut self, bytes: u32) {
        self.sum(Pushed { to_node: bytes, ..Pushed::default() });
    }

    /// Counts `bytes` to the client that belong to an already counted message.
    pub fn send(&mut self, bytes: u32) {
        self.sum(Pushed { to_client: bytes, ..Pushed::default() });
    }

    /// Returns when [`flush`](StreamTally::flush) is due, by [`elapsed`](crate::clock::Clock::elapsed), if anything
    /// waits.
    pub fn due(&self) -> Option<Duration> {
        self.since.map(|since| since + SUMMED)
    }

    /// Records the waiting calls and pushes.
    pub fn flush(&mut self) {
        if self.since.take().is_none() {
            return;
        }
        let mut calls = std::mem::take(&mut self.calls);
        for sum in calls.drain(..) {
            let line = Line {
                method: &sum.method,
                cu: 0,
                status: sum.status,
                outcome: sum.outcome,
                cached: false,
                calls: sum.calls,
                bytes_in: sum.to_node,
                bytes_out: sum.to_client,
            };
            let request = RequestId::new(sum.arrival);
            let latency = sum.latency / sum.calls.max(1);
            self.append(request, Phase::Complete, latency, sum.arrival, 0, &[line]);
        }
        // Keeps the allocation for the next calls.
        self.calls = calls;
        let pushed = std::mem::take(&mut self.pushed);
        if pushed == Pushed::default() {
            return;
        }
        let Pushed { messages, to_node, to_client } = pushed;
        self.bytes.add(to_node, to_client);
        // Only WebSocket streams have separate rows for messages. For a gRPC call, the end has all bytes.
        if self.transport == Transport::Ws {
            let line = self.line(MESSAGE, Outcome::Answered);
            let line = Line { calls: messages, bytes_in: to_node, bytes_out: to_client, ..line };
            self.record(Phase::Pushed, self.accounting.clock.now(), 0, &[line]);
        }
    }

    /// Ends the stream and records its outcome.
    pub fn end(mut self, outcome: Outcome) {
        self.finish(outcome);
    }

    fn finish(&mut self, outcome: Outcome) {
        if std::mem::replace(&mut self.is_ended, true) {
            return;
        }
        self.flush();
        let mut to_node = self.bytes.to_node.load(Relaxed);
        let mut to_client = self.bytes.to_client.load(Relaxed);
        // A line counts up to 4 GiB. A longer stream gets further lines, which count no further call.
        let mut lines = Vec::with_capacity(1);
        let mut calls = 1;
        while calls == 1 || to_node > 0 || to_client > 0 {
            let bytes_in = part(&mut to_node);
            let bytes_out = part(&mut to_client);
            lines.push(Line { calls, bytes_in, bytes_out, ..self.line(DISCONNECT, outcome) });
            calls = 0;
        }
        // A call belongs to the hour of its arrival. The end of a WebSocket stream is a separate event.
        let is_ws = self.transport == Transport::Ws;
        let moment = if is_ws { self.accounting.clock.now() } else { self.arrival };
        self.record(Phase::End, moment, 0, &lines);
    }

    fn sum(&mut self, more: Pushed) {
        let add = |sum: &Pushed| {
            Some(Pushed {
                messages: sum.messages.checked_add(more.messages)?,
                to_node: sum.to_node.checked_add(more.to_node)?,
                to_client: sum.to_client.checked_add(more.to_client)?,
            })
        };
        match add(&self.pushed) {
            Some(sum) => self.pushed = sum,
            None => {
                self.flush();
                self.pushed = more;
            }
        }
        self.wait();
    }

    /// Starts the wait for the next record, and flushes if the wait is over.
    fn wait(&mut self) {
        let now = self.accounting.clock.elapsed();
        let since = *self.since.get_or_insert(now);
        if now.saturating_sub(since) >= SUMMED {
            self.flush();
        }
    }

    /// Returns a line without counts, under `part` for a WebSocket stream or the name of the gRPC call.
    fn line<'a>(&'a self, part: &'static [u8], outcome: Outcome) -> Line<'a> {
        let is_ws = self.transport == Transport::Ws;
        Line {
            method: if is_ws { part } else { &self.method },
            cu: 0,
            status: if is_ws { SWITCHING_PROTOCOLS } else { OK },
            outcome,
            cached: false,
            calls: 1,
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    fn record(&self, phase: Phase, arrival: Time, windowed: u32, lines: &[Line<'_>]) {
        let latency = match phase {
            Phase::End => self.accounting.clock.elapsed().saturating_sub(self.started),
            _ => Duration::ZERO,
        };
        self.append(self.request, phase, latency, arrival, windowed, lines);
    }

    fn append(
        &self,
        request: RequestId,
        phase: Phase,
        latency: Duration,
        arrival: Time,
        windowed: u32,
        lines: &[Line<'_>],
    ) {
        self.accounting.sink.append(&Record {
            phase,
            request,
            key: self.caller.key,
            project: self.caller.project,
            tenant: self.caller.tenant,
            chain: self.chain.name(),
            transport: self.transport,
            tier: self.caller.plan.tier,
            price: self.caller.plan.price,
            arrival,
            latency,
            windowed,
            lines,
        });
    }
}

impl Drop for StreamTally {
    fn drop(&mut self) {
        self.finish(Outcome::Abandoned);
    }
}

/// Takes from `bytes` the part that one line can hold.
fn part(bytes: &mut u64) -> u32 {
    let part = u32::try_from(*bytes).unwrap_or(u32::MAX);
    *bytes -= u64::from(part);
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Answer;
    use crate::backend::counters::{Counters, MemoryCounters};
    use crate::backend::usage_sink::{MemoryUsageSink, OwnedRecord};
    use crate::caller::{KeyId, ProjectId, TenantId};
    use crate::chain::{Found, MethodRule};
    use crate::clock::{Clock, ManualClock};
    use crate::envelope::{Limits, ParsedBody, parse};
    use crate::fault::{Cause, Fault};
    use crate::plan::{Plan, Tier};
    use crate::refusal::Refusal;
    use crate::reply::{Form, Reply, Source};
    use crate::toy::Toy;
    use bytes::Bytes;

    const ID: RequestId = RequestId(9);

    struct Fixture {
        clock: Arc<ManualClock>,
        counters: Arc<MemoryCounters>,
        sink: Arc<MemoryUsageSink>,
        accounting: Arc<Accounting>,
    }

    impl Fixture {
        fn new() -> Self {
            let clock = Arc::new(ManualClock::at(Time::from_secs(1_000_000)));
            let counters = Arc::<MemoryCounters>::default();
            let sink = Arc::<MemoryUsageSink>::default();
            let accounting = Accounting::new(clock.clone(), counters.clone(), sink.clone());
            Fixture { clock, counters, sink, accounting: Arc::new(accounting) }
        }

        fn tally(&self, transport: Transport) -> Box<Tally> {
            let caller = Caller::new(KeyId(1), ProjectId(2), TenantId(3), Plan::of(Tier::Standard));
            let chain = Arc::new(Chain::deployed(Arc::new(Toy)));
            let arrival = self.clock.now();
            let started = self.clock.elapsed();
            Box::new(Tally::new(
                ID,
                transport,
                chain,
                Arc::new(caller),
                arrival,
                started,
                self.accounting.clone(),
            ))
        }

        /// Returns a tally with one call of five Compute Units.
        fn call(&self, mut tally: Box<Tally>) -> Box<Tally> {
            tally.body = Bytes::from_static(br#"{"id":1,"method":"a"}"#);
            let Ok(ParsedBody::Single(Ok(envelope))) = parse(&tally.body, &Limits::default()) else {
                panic!("a call")
            };
            let found = Found { rule: MethodRule::new(5), metered: None };
            tally.entries.push(Entry::open(Call::json_rpc(envelope, found)));
            tally
        }

        fn stream(&self) -> StreamTally {
            let mut tally = self.tally(Transport::Ws);
            tally.counted = 1;
            StreamTally::begin(tally).unwrap()
        }

        fn seen(&self) -> Vec<(Phase, String, u32, u32, u32)> {
            let all = |record: OwnedRecord| {
                let phase = record.phase;
                record
                    .lines
                    .into_iter()
                    .map(move |line| (phase, line.method, line.calls, line.bytes_in, line.bytes_out))
            };
            self.sink.records().into_iter().flat_map(all).collect()
        }
    }

    #[test]
    fn a_begin_is_recorded_at_once_and_once_with_the_counts_of_the_windows() {
        let fixture = Fixture::new();
        let stream = fixture.stream();
        assert_eq!(fixture.seen(), [(Phase::Begin, "WS:connect".into(), 1, 0, 0)]);
        let begin = &fixture.sink.records()[0];
        assert_eq!((begin.request, begin.windowed, begin.transport), (ID, 1, Transport::Ws));
        assert_eq!((begin.lines[0].status, begin.lines[0].cu), (101, 0));
        // A killed process runs no destructor.
        std::mem::forget(stream);
        assert_eq!(fixture.sink.records().len(), 1);
    }

    #[test]
    fn a_stream_that_is_dropped_settles_itself_and_one_that_is_ended_does_so_once() {
        let fixture = Fixture::new();
        let mut stream = fixture.stream();
        stream.push(7);
        fixture.clock.advance(Duration::from_secs(60));
        drop(stream);
        fixture.stream().end(Outcome::Failed);
        let records = fixture.sink.records();
        let ends: Vec<_> = records
            .iter()
            .filter(|record| record.phase == Phase::End)
            .map(|record| (record.lines[0].outcome, record.latency.as_secs(), record.windowed))
            .collect();
        assert_eq!(ends, [(Outcome::Abandoned, 60, 0), (Outcome::Failed, 0, 0)]);
        assert_eq!(records[1].phase, Phase::Pushed, "what waited is not lost");
        let minute = Duration::from_secs(60);
        assert_eq!(records[2].arrival, records[0].arrival.plus(minute), "an end has the moment of the end");
        assert!(records[..3].iter().all(|record| record.request == ID));
    }

    #[test]
    fn settled_calls_are_summed_by_method_outcome_and_hour_and_recorded_together() {
        let fixture = Fixture::new();
        let mut stream = fixture.stream();
        let settle = |stream: &mut StreamTally, state, millis| {
            let mut message = fixture.call(stream.message());
            message.entries[0].state = state;
            message.entries[0].bytes_out = 30;
            fixture.clock.advance(Duration::from_millis(millis));
            stream.settle(message);
        };
        let answered = || {
            CallState::Answered(Reply { form: Form::Result(Bytes::from_static(b"1")), from: Source::Node })
        };
        settle(&mut stream, answered(), 10);
        settle(&mut stream, answered(), 30);
        settle(&mut stream, CallState::Refused(Refusal::Closed), 0);
        assert_eq!(fixture.seen().len(), 1, "nothing is due yet");
        assert!(stream.due().is_some());
        stream.flush();
        let call = |calls: u32| (Phase::Complete, "a".to_owned(), calls, 21 * calls, 30 * calls);
        assert_eq!(fixture.seen()[1..], [call(2), call(1)]);
        let records = fixture.sink.records();
        assert_eq!((records[1].latency.as_millis(), records[1].lines[0].outcome), (20, Outcome::Answered));
        assert_eq!(records[2].lines[0].outcome, Outcome::Refused);
        assert_ne!(records[1].request, records[2].request);
        settle(&mut stream, answered(), 0);
        fixture.clock.advance(Duration::from_secs(3_600));
        settle(&mut stream, answered(), 0);
        stream.end(Outcome::Answered);
        let hours: Vec<_> = fixture.sink.records()[3..5].iter().map(|r| r.arrival.hour()).collect();
        assert_eq!(hours[1] - hours[0], 1);
        assert_eq!(fixture.seen().last(), Some(&(Phase::End, "WS:disconnect".into(), 1, 105, 150)));
    }

    #[test]
    fn new_methods_of_a_client_do_not_grow_the_sums_without_bound() {
        let fixture = Fixture::new();
        let mut stream = fixture.stream();
        for number in 0..=SUMS {
            let mut message = stream.message();
            message.body = format!(r#"{{"id":1,"method":"m{number}"}}"#).into();
            let Ok(ParsedBody::Single(Ok(envelope))) = parse(&message.body, &Limits::default()) else {
                panic!("a call")
            };
            let found = Found { rule: MethodRule::new(1), metered: None };
            message.entries.push(Entry::open(Call::json_rpc(envelope, found)));
            stream.settle(message);
        }
        assert_eq!(fixture.seen().len(), 1 + SUMS, "one more had all others recorded");
        drop(stream);
        assert_eq!(fixture.seen().len(), 1 + SUMS + 2);
    }

    #[test]
    fn pushes_are_summed_for_half_a_second() {
        let fixture = Fixture::new();
        let mut stream = fixture.stream();
        assert_eq!(stream.due(), None);
        stream.push(10);
        let due = stream.due().unwrap();
        fixture.clock.advance(SUMMED - Duration::from_millis(1));
        stream.push(20);
        assert_eq!((fixture.seen().len(), stream.due()), (1, Some(due)), "the first one decides");
        fixture.clock.advance(Duration::from_millis(1));
        stream.push(30);
        assert_eq!(stream.due(), None);
        stream.receive(4);
        stream.flush();
        stream.flush();
        let message =
            |calls, bytes_in, bytes_out| (Phase::Pushed, "WS:message".to_owned(), calls, bytes_in, bytes_out);
        assert_eq!(fixture.seen()[1..], [message(3, 0, 60), message(0, 4, 0)]);
        std::mem::forget(stream);
    }

    #[test]
    fn calls_on_a_stream_are_free_records_and_the_end_has_the_bytes_of_every_part() {
        let fixture = Fixture::new();
        let mut stream = fixture.stream();
        let mut message = fixture.call(stream.message());
        let reply = Reply { form: Form::Result(Bytes::from_static(b"1")), from: Source::Node };
        message.entries[0].state = CallState::Answered(reply);
        message.entries[0].bytes_out = 30;
        drop(message);
        stream.push(500);
        stream.end(Outcome::Answered);
        assert_eq!(
            fixture.seen(),
            [
                (Phase::Begin, "WS:connect".into(), 1, 0, 0),
                (Phase::Complete, "a".into(), 1, 21, 30),
                (Phase::Pushed, "WS:message".into(), 1, 0, 500),
                (Phase::End, "WS:disconnect".into(), 1, 21, 530),
            ]
        );
        let call = &fixture.sink.records()[1];
        assert_eq!((call.lines[0].cu, call.windowed, call.transport), (0, 0, Transport::Ws));
        assert_ne!(call.request, ID, "it can be found by an id of its own");
    }

    #[test]
    fn a_stream_takes_over_what_changed_of_its_own_chain_and_key_and_nothing_else() {
        let fixture = Fixture::new();
        let mut stream = fixture.stream();
        let lowered = |key| {
            let plan = Plan { heavy_per_minute: 0, ..Plan::of(Tier::Standard) };
            Arc::new(Caller::new(KeyId(key), ProjectId(2), TenantId(3), plan))
        };
        let off = Arc::new(Chain::new(Arc::new(Toy), Default::default(), false, Arc::default()));
        stream.refresh(&off, &lowered(99));
        let message = stream.message();
        assert_eq!(
            (message.chain.is_served(), message.caller.key),
            (false, KeyId(1)),
            "another key's caller"
        );
        assert!(message.caller.plan.heavy_per_minute > 0);
        stream.refresh(&off, &lowered(1));
        assert_eq!(stream.message().caller.plan.heavy_per_minute, 0);
    }

    #[test]
    fn a_message_that_outlives_its_stream_is_recorded() {
        let fixture = Fixture::new();
        let stream = fixture.stream();
        let message = fixture.call(stream.message());
        stream.end(Outcome::Answered);
        drop(message);
        assert_eq!(fixture.seen().last().unwrap().0, Phase::Complete);
    }

    #[test]
    fn a_refused_handshake_is_recorded_as_refused_and_begins_no_stream() {
        let fixture = Fixture::new();
        let mut tally = fixture.tally(Transport::Ws);
        tally.entries.push(Entry::refused(Call::unread(Payload::Unread), Refusal::Suspended));
        drop(StreamTally::begin(tally).unwrap_err());
        let records = fixture.sink.records();
        let seen: Vec<_> = records.iter().map(|r| (r.phase, r.lines[0].status, r.lines[0].outcome)).collect();
        assert_eq!(seen, [(Phase::Begin, 402, Outcome::Refused)]);
    }

    #[test]
    fn a_long_grpc_call_is_charged_at_its_begin_and_has_its_bytes_at_its_end() {
        let fixture = Fixture::new();
        let mut tally = fixture.call(fixture.tally(Transport::Grpc));
        let now = fixture.clock.now();
        let Answer::Now((_, grant)) = fixture.counters.reserve(&tally.caller, &[5], now) else {
            panic!("memory does not wait")
        };
        (tally.grant, tally.counted) = (Some(grant), 1);
        tally.entries[0].state = CallState::Sent;
        let mut stream = StreamTally::begin(tally).unwrap();
        stream.receive(40);
        stream.push(1_000);
        fixture.clock.advance(Duration::from_secs(3));
        stream.push(1_000);
        stream.end(Outcome::NodeError);
        let seen = fixture.seen();
        assert_eq!(seen, [(Phase::Begin, "a".into(), 1, 0, 0), (Phase::End, "a".into(), 1, 40, 2_000)]);
        let records = fixture.sink.records();
        let costs: Vec<_> = records.iter().map(|r| (r.lines[0].cu, r.lines[0].outcome, r.windowed)).collect();
        assert_eq!(costs, [(5, Outcome::Answered, 1), (0, Outcome::NodeError, 0)]);
        assert_eq!(records[1].arrival, records[0].arrival, "a call belongs to the hour in which it came");
        assert_eq!(records[1].latency, Duration::from_secs(3));
        assert_eq!(fixture.counters.used(ProjectId(2), now), 5, "nothing of its cost is returned");
    }

    #[test]
    fn a_long_call_that_failed_before_it_began_is_an_ordinary_call() {
        let fixture = Fixture::new();
        let mut tally = fixture.call(fixture.tally(Transport::Grpc));
        tally.entries[0].state = CallState::Failed(Fault::unsent(Cause::Connect));
        drop(StreamTally::begin(tally).unwrap_err());
        let records = fixture.sink.records();
        assert_eq!((records[0].phase, records[0].lines[0].outcome), (Phase::Complete, Outcome::Failed));
    }

    #[test]
    fn a_stream_with_more_bytes_than_a_line_fits_has_further_lines_and_one_end() {
        let fixture = Fixture::new();
        let mut stream = fixture.stream();
        for _ in 0..3 {
            stream.push(u32::MAX);
        }
        stream.end(Outcome::Answered);
        let seen = fixture.seen();
        let sums = |phase| {
            let lines = seen.iter().filter(move |line| line.0 == phase);
            lines.fold((0, 0), |(calls, bytes), line| (calls + line.2, bytes + u64::from(line.4)))
        };
        let all = 3 * u64::from(u32::MAX);
        assert_eq!((sums(Phase::Pushed), sums(Phase::End)), ((3, all), (1, all)));
    }
}
