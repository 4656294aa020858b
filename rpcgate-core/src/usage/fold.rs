//! Hourly sums of events.

use super::charge::{Account, Charge};
use super::interned::Words;
use super::method;
use super::metrics::Metrics;
use super::notice::RATE_LIMITED;
use super::rollup::{Rollup, Stream, join};
use crate::backend::usage_sink::{Outcome, Phase, shown_method};
use crate::caller::{KeyId, ProjectId, TenantId};
use crate::clock::Time;
use crate::journal::{Event, EventLine, Reader};
use crate::plan::{Price, Tier};
use crate::transport::Transport;
use foldhash::fast::RandomState;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};

/// The sums of the events since the last [`take`](HourlyFold::take).
///
/// All methods are separate here; `UsageStore::ship` decides how many the database keeps separate. So the sums grow
/// with invented methods, and the owner must take them when the fold [is full](HourlyFold::is_full).
#[derive(Debug, Default)]
pub struct HourlyFold {
    callers: Words<Holder>,
    chains: Words<Box<str>>,
    /// Methods as called.
    called: Words<Box<[u8]>>,
    /// The number of the shown form of each called method. Two methods may share one.
    shown: Vec<u32>,
    methods: Words<Box<str>>,
    rows: HashMap<MinutePosition, Sums, RandomState>,
    refused: BTreeMap<(TenantId, u64), u64>,
    newest: Time,
}

/// A caller and its terms: rows of one key are separate by tier and price, like charges.
type Holder = (TenantId, ProjectId, KeyId, Tier, Price);

/// The result of a [`HourlyFold`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HourlySums {
    /// The sums, sorted by their unique names.
    pub rollups: Vec<Rollup>,
    /// The charges, sorted by their unique names.
    pub charges: Vec<Charge>,
    /// By tenant and number of the UTC day: requests counted in the plan windows.
    pub admitted: BTreeMap<(TenantId, u64), u64>,
    /// By tenant and number of the UTC minute: calls refused with 429.
    pub refused: BTreeMap<(TenantId, u64), u64>,
    /// The latest arrival.
    pub newest: Time,
}

impl HourlySums {
    /// Returns the part from the hour `first` on.
    pub fn since(&self, first: u64) -> Cow<'_, HourlySums> {
        // A day that is partly removed is no longer counted.
        let day = first.div_ceil(24);
        let minute = first * 60;
        let is_new = self.rollups.iter().all(|rollup| rollup.hour >= first)
            && self.charges.iter().all(|charge| charge.hour >= first)
            && self.admitted.keys().all(|(_, number)| *number >= day)
            && self.refused.keys().all(|(_, number)| *number >= minute);
        if is_new {
            return Cow::Borrowed(self);
        }
        let mut rest = self.clone();
        rest.rollups.retain(|rollup| rollup.hour >= first);
        rest.charges.retain(|charge| charge.hour >= first);
        rest.admitted.retain(|(_, number), _| *number >= day);
        rest.refused.retain(|(_, number), _| *number >= minute);
        Cow::Owned(rest)
    }
}

/// The names of a rollup, with texts and caller as numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct MinutePosition {
    caller: u32,
    chain: u32,
    method: u32,
    status: u16,
    transport: Transport,
    stream: Stream,
    hour: u64,
}

/// Written in as few pieces as possible, because every call is hashed.
impl Hash for MinutePosition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.caller) << 32 | u64::from(self.method));
        let codes =
            u64::from(self.status) << 16 | (self.transport as u64) << 8 | u64::from(self.stream.code());
        state.write_u64(u64::from(self.chain) << 32 | codes);
        state.write_u64(self.hour);
    }
}

#[derive(Debug, Default)]
struct Sums {
    metrics: Metrics,
    window_requests: u64,
}

impl HourlyFold {
    /// The number of rows at which it [is full](HourlyFold::is_full).
    pub const FULL: usize = 8_192;

    /// The number of rows whose memory is kept after a `take`.
    const MAX_ROWS: usize = 2_048;

    /// The number of words of a kind that are kept after a `take`. Each may have a KiB.
    const MAX_WORDS: usize = 512;

    /// Creates empty sums.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the event that `reader` read last. If `event` is from another reader, adds nothing and returns `false`.
    pub fn add(&mut self, reader: &Reader, event: &Event) -> bool {
        let (Some(party), Some(chain)) = (reader.party(event.party), reader.chain(event.chain)) else {
            return false;
        };
        if !reader.lines().iter().all(|line| reader.method(line.method).is_some()) {
            return false;
        }
        let stream = stream(event);
        let holder = (party.tenant, party.project, party.key, party.tier, party.price);
        self.newest = self.newest.max(event.arrival);
        let mut position = MinutePosition {
            caller: self.callers.number_at(event.party, &holder, |holder| *holder),
            chain: self.chains.number_at(event.chain, chain, |name| name.into()),
            method: 0,
            status: 0,
            transport: event.transport,
            stream,
            hour: event.arrival.hour(),
        };
        let latency = u64::try_from(event.latency.as_micros()).unwrap_or(u64::MAX);
        // The windows count the set, and that count is stored with its first call.
        let mut windowed = u64::from(event.windowed);
        for line in reader.lines() {
            position.method = match stream.method() {
                Some(name) => self.methods.number(name, |name| name.into()),
                None => self.method(line.method, reader.method(line.method).unwrap_or_default()),
            };
            position.status = line.status;
            let sums = self.rows.entry(position).or_default();
            sums.window_requests = sums.window_requests.saturating_add(windowed);
            windowed = 0;
            count(&mut sums.metrics, event, line, stream, latency);
            if is_rate_limited(event, line) {
                let calls = self.refused.entry((party.tenant, event.arrival.minute())).or_default();
                *calls = calls.saturating_add(line.calls.into());
            }
        }
        if windowed > 0 {
            position.method =
                self.methods.number(stream.method().unwrap_or(method::NONE), |name| name.into());
            let sums = self.rows.entry(position).or_default();
            sums.window_requests = sums.window_requests.saturating_add(windowed);
        }
        true
    }

    /// Returns the number of rows so far.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Reports whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Reports whether enough rows exist for a shipment of milliseconds. More may still be added.
    pub fn is_full(&self) -> bool {
        self.len() >= Self::FULL
    }

    /// Takes the sums and leaves it empty.
    pub fn take(&mut self) -> HourlySums {
        let HourlyFold { callers, chains, methods, rows, .. } = self;
        let text = |words: &Words<Box<str>>, number: u32| -> String {
            words.get(number).map(ToString::to_string).unwrap_or_default()
        };
        let mut admitted: BTreeMap<(TenantId, u64), u64> = BTreeMap::new();
        let mut charged: BTreeMap<Account, Metrics> = BTreeMap::new();
        let mut rollups: Vec<Rollup> = rows
            .drain()
            .filter_map(|(position, sums)| {
                let (tenant, project, key, tier, price) = *callers.get(position.caller)?;
                let MinutePosition { hour, transport, status, stream, .. } = position;
                let Sums { metrics, window_requests } = sums;
                if window_requests > 0 {
                    let requests = admitted.entry((tenant, hour / DAY)).or_default();
                    *requests = requests.saturating_add(window_requests);
                }
                let chain = text(chains, position.chain);
                let method = text(methods, position.method);
                if metrics.billed_requests > 0 {
                    let account = (tenant, hour, project, chain.clone(), tier, price);
                    charged.entry(account).or_default().add(&metrics);
                }
                Some(Rollup {
                    hour,
                    tenant,
                    project,
                    key,
                    chain,
                    method,
                    transport,
                    status,
                    stream,
                    metrics,
                    window_requests,
                })
            })
            .collect();
        join(&mut rollups);
        let charges = charged.into_iter().filter_map(|(account, sums)| Charge::of(account, &sums)).collect();
        let refused = std::mem::take(&mut self.refused);
        let newest = std::mem::take(&mut self.newest);
        // Usually, the same callers call the same methods again.
        let words = [self.callers.len(), self.chains.len(), self.called.len(), self.methods.len()];
        if self.rows.capacity() > Self::MAX_ROWS || words.iter().any(|many| *many > Self::MAX_WORDS) {
            *self = Self::default();
        }
        HourlySums { rollups, charges, admitted, refused, newest }
    }

    fn method(&mut self, index: u32, name: &[u8]) -> u32 {
        let called = self.called.number_at(index, name, |name| name.into());
        if let Some(number) = self.shown.get(called as usize) {
            return *number;
        }
        let number = self.methods.number(&*shown_method(name), |name| name.into());
        self.shown.push(number);
        number
    }
}

const DAY: u64 = 24;

/// Reports whether a line counts calls that a limit refused. The end of a long call repeats its begin.
fn is_rate_limited(event: &Event, line: &EventLine) -> bool {
    line.status == RATE_LIMITED && line.outcome == Outcome::Refused && event.phase != Phase::End
}

/// Only WebSocket streams have their own rows. Another long call is a call that is recorded in two parts.
fn stream(event: &Event) -> Stream {
    match (event.transport, event.phase) {
        (Transport::Ws, Phase::Begin) => Stream::Connect,
        (Transport::Ws, Phase::Pushed) => Stream::Message,
        (Transport::Ws, Phase::End) => Stream::Disconnect,
        _ => Stream::Call,
    }
}

fn count(metrics: &mut Metrics, event: &Event, line: &EventLine, stream: Stream, latency: u64) {
    let calls = u64::from(line.calls);
    let cu = u64::from(line.cu);
    match stream {
        Stream::Call => match event.phase {
            Phase::Complete => {
                metrics.count(calls, cu, line.outcome, line.cached);
                metrics.carry(line.bytes_in, line.bytes_out);
                metrics.time(calls, line.outcome, latency);
            }
            // A long call is one call, charged at its begin. Its end has the outcome and all its bytes.
            Phase::Begin => metrics.count(calls, cu, line.outcome, line.cached),
            Phase::Pushed => {}
            Phase::End => {
                metrics.judge(calls, line.outcome, line.cached);
                metrics.carry(line.bytes_in, line.bytes_out);
                metrics.time(calls, line.outcome, latency);
            }
        },
        Stream::Connect => {
            match line.outcome {
                Outcome::Answered | Outcome::NodeError => metrics.ws_connections += calls,
                Outcome::Refused | Outcome::Failed => metrics.ws_refused += calls,
                Outcome::Abandoned => {}
            }
            metrics.bill(calls, cu);
            metrics.carry(line.bytes_in, line.bytes_out);
        }
        Stream::Message => {
            metrics.ws_messages += calls;
            metrics.bill(calls, cu);
            metrics.carry(line.bytes_in, line.bytes_out);
        }
        Stream::Disconnect => metrics.carry(line.bytes_in, line.bytes_out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Time;
    use crate::usage::Blocks;
    use crate::usage::sample::{SampleRecord, deed, frames, item, methods, take_in};
    use std::time::Duration;

    fn fold(deeds: &[SampleRecord]) -> Vec<Rollup> {
        let mut fold = HourlyFold::new();
        take_in(&frames(deeds), &mut fold, &mut Blocks::new());
        fold.take().rollups
    }

    const NOW: Time = Time::from_secs(500_000 * 3_600 + 1_800);

    #[test]
    fn calls_with_the_same_names_are_one_row() {
        let mut cached = item("toy_read");
        cached.cached = true;
        let mut refused = item("toy_read");
        (refused.outcome, refused.status, refused.cu, refused.calls) = (Outcome::Refused, 429, 0, 7);
        let deeds = [
            deed(110, NOW, vec![item("toy_read"), cached, refused]),
            deed(110, NOW, vec![item("toy_read")]),
            deed(111, NOW, vec![item("toy_read")]),
        ];
        let rollups = fold(&deeds);
        let seen: Vec<_> = rollups
            .iter()
            .map(|row| {
                (row.key.0, row.status, row.metrics.requests, row.metrics.cache_hits, row.window_requests)
            })
            .collect();
        assert_eq!(seen, [(110, 200, 3, 1, 2), (110, 429, 7, 0, 0), (111, 200, 1, 0, 1)]);
        let first = &rollups[0];
        assert_eq!(
            (first.hour, first.tenant.0, first.project.0, first.stream),
            (500_000, 1, 11, Stream::Call)
        );
        assert_eq!((first.metrics.billable_units, first.metrics.billed_requests), (3, 3));
        assert_eq!((first.metrics.latency_us, first.metrics.latency_count), (4_500, 3));
        assert_eq!((first.metrics.request_bytes, first.metrics.response_bytes), (300, 600));
    }

    #[test]
    fn a_price_that_changes_is_two_charges_and_one_row() {
        let dearer =
            |arrival| SampleRecord { price: Price(9), ..deed(110, arrival, vec![item("a"), item("b")]) };
        let free = SampleRecord { tier: Tier::Free, price: Price(0), ..deed(110, NOW, vec![item("a")]) };
        let nothing = deed(111, NOW, vec![crate::usage::sample::SampleLine { cu: 0, ..item("a") }]);
        let next = dearer(Time::from_secs(NOW.secs() + 3_600));
        let deeds = [deed(111, NOW, vec![item("a")]), dearer(NOW), free, nothing, next];
        let mut fold = HourlyFold::new();
        take_in(&frames(&deeds), &mut fold, &mut Blocks::new());
        let folded = fold.take();
        let told: Vec<_> = folded
            .charges
            .iter()
            .map(|charge| (charge.hour, charge.tier, charge.price.0, charge.calls, charge.units))
            .collect();
        assert_eq!(
            told,
            [
                (500_000, Tier::Free, 0, 1, 1),
                (500_000, Tier::Standard, 5, 1, 1),
                (500_000, Tier::Standard, 9, 2, 2),
                (500_001, Tier::Standard, 9, 2, 2),
            ]
        );
        let rows: Vec<_> = folded.rollups.iter().map(|row| (row.hour, row.key.0, &*row.method)).collect();
        assert_eq!(
            rows,
            [
                (500_000, 110, "a"),
                (500_000, 110, "b"),
                (500_000, 111, "a"),
                (500_001, 110, "a"),
                (500_001, 110, "b")
            ]
        );
        assert_eq!(folded.rollups[0].metrics.requests, 2);
        assert_eq!(fold.take(), HourlySums::default());
    }

    #[test]
    fn refusals_by_limits_are_counted_by_the_minute_and_requests_by_the_day() {
        let refused = |status, outcome, calls| crate::usage::sample::SampleLine {
            cu: 0,
            status,
            outcome,
            calls,
            ..item("a")
        };
        let later = Time::from_secs(NOW.secs() + 86_400);
        let begun = |phase| SampleRecord {
            phase,
            transport: Transport::Grpc,
            windowed: 0,
            ..deed(210, NOW, vec![refused(429, Outcome::Refused, 1)])
        };
        let deeds = [
            deed(110, NOW, vec![refused(429, Outcome::Refused, 3), refused(403, Outcome::Refused, 5)]),
            deed(120, NOW, vec![refused(429, Outcome::Refused, 2), refused(429, Outcome::NodeError, 7)]),
            SampleRecord { windowed: 4, ..deed(110, later, vec![refused(429, Outcome::Refused, 1)]) },
            begun(Phase::Begin),
            begun(Phase::End),
        ];
        let mut fold = HourlyFold::new();
        take_in(&frames(&deeds), &mut fold, &mut Blocks::new());
        let folded = fold.take();
        let minute = NOW.minute();
        let day = NOW.day();
        let refused =
            [((TenantId(1), minute), 5), ((TenantId(1), minute + 1_440), 1), ((TenantId(2), minute), 1)];
        assert_eq!(folded.refused, refused.into());
        assert_eq!(folded.admitted, [((TenantId(1), day), 2), ((TenantId(1), day + 1), 4)].into());
        assert_eq!((folded.newest, folded.charges), (later, vec![]));
    }

    #[test]
    fn an_hour_begins_with_its_first_microsecond() {
        let begin = Time::from_secs(500_000 * 3_600);
        let before = Time::from_micros(begin.micros() - 1);
        let hours: Vec<_> = fold(&[deed(110, begin, vec![item("a")]), deed(110, before, vec![item("a")])])
            .iter()
            .map(|row| row.hour)
            .collect();
        assert_eq!(hours, [499_999, 500_000]);
    }

    #[test]
    fn a_stream_has_rows_of_its_own_and_its_totals_are_not_added_again() {
        let part = |phase, outcome, calls| {
            let item = crate::usage::sample::SampleLine { outcome, calls, cu: 0, ..item("eth_subscribe") };
            SampleRecord { phase, transport: Transport::Ws, windowed: 0, ..deed(110, NOW, vec![item]) }
        };
        let rollups = fold(&[
            SampleRecord { windowed: 1, ..part(Phase::Begin, Outcome::Answered, 1) },
            part(Phase::Begin, Outcome::Refused, 2),
            part(Phase::Pushed, Outcome::Answered, 5),
            part(Phase::End, Outcome::Abandoned, 1),
        ]);
        let seen: Vec<_> = rollups.iter().map(|row| (row.method.as_str(), row.stream)).collect();
        assert_eq!(
            seen,
            [
                ("WS:connect", Stream::Connect),
                ("WS:disconnect", Stream::Disconnect),
                ("WS:message", Stream::Message),
            ]
        );
        let bytes = Metrics { request_bytes: 100, response_bytes: 200, ..Default::default() };
        let connect = Metrics {
            request_bytes: 200,
            response_bytes: 400,
            ws_connections: 1,
            ws_refused: 2,
            ..Default::default()
        };
        assert_eq!(rollups[0].metrics, connect);
        assert_eq!(rollups[0].window_requests, 1);
        assert_eq!(rollups[1].metrics, bytes);
        assert_eq!(rollups[2].metrics, Metrics { ws_messages: 5, ..bytes });
    }

    #[test]
    fn a_method_that_is_named_like_a_part_of_a_stream_is_a_call() {
        let rollups = fold(&[deed(110, NOW, vec![item("WS:disconnect")])]);
        assert_eq!((rollups[0].method.as_str(), rollups[0].stream), ("WS:disconnect", Stream::Call));
        assert_eq!(rollups[0].metrics.requests, 1);
    }

    #[test]
    fn a_long_call_is_one_request_with_the_outcome_and_bytes_of_its_end() {
        let part = |phase, outcome| {
            let item = crate::usage::sample::SampleLine { outcome, ..item("getnowblock") };
            SampleRecord { phase, transport: Transport::Grpc, ..deed(110, NOW, vec![item]) }
        };
        let begun = fold(&[part(Phase::Begin, Outcome::Answered)]);
        let charged = Metrics { requests: 1, billed_requests: 1, billable_units: 1, ..Default::default() };
        assert_eq!(begun[0].metrics, charged);
        let ended = fold(&[part(Phase::Begin, Outcome::Answered), part(Phase::End, Outcome::NodeError)]);
        let whole = Metrics {
            errors: 1,
            request_bytes: 100,
            response_bytes: 200,
            latency_us: 1_500,
            latency_count: 1,
            ..charged
        };
        assert_eq!(ended.iter().map(|row| row.metrics).collect::<Vec<_>>(), [whole]);
    }

    #[test]
    fn requests_counted_in_the_windows_are_kept_even_without_a_call() {
        let rollups = fold(&[SampleRecord { windowed: 3, ..deed(110, NOW, vec![]) }, deed(111, NOW, vec![])]);
        let seen: Vec<_> = rollups
            .iter()
            .map(|row| (row.key.0, row.method.as_str(), row.window_requests, row.metrics.is_empty()))
            .collect();
        assert_eq!(seen, [(110, "-", 3, true), (111, "-", 1, true)]);
    }

    #[test]
    fn names_with_the_same_display_form_are_one_row() {
        let deeds: Vec<_> = methods().into_iter().map(|name| deed(110, NOW, vec![item(name)])).collect();
        let rollups = fold(&deeds);
        assert_eq!(rollups.len(), deeds.len() - 1);
        assert!(rollups.iter().all(|row| !row.method.contains('\0')));
        let alike: Vec<_> = rollups.iter().filter(|row| row.metrics.requests == 2).collect();
        assert_eq!(alike.iter().map(|row| row.method.as_str()).collect::<Vec<_>>(), ["not\u{fffd} text"]);
    }

    #[test]
    fn taken_sums_are_removed_and_those_of_another_reader_are_not_added() {
        let mut fold = HourlyFold::new();
        take_in(&frames(&[deed(110, NOW, vec![item("a")])]), &mut fold, &mut Blocks::new());
        assert_eq!((fold.len(), fold.is_full()), (1, false));
        assert_eq!(fold.take().rollups.len(), 1);
        assert!(fold.is_empty());

        let bytes = frames(&[deed(110, NOW, vec![item("a")])]);
        let (_, event) = Reader::new().frame(&bytes).unwrap().unwrap();
        assert!(!fold.add(&Reader::new(), &event));
        assert!(fold.is_empty());
    }

    #[test]
    fn sums_stop_at_the_end_of_numbers() {
        let mut long = deed(110, NOW, vec![item("a")]);
        long.latency = Duration::MAX;
        long.items[0].calls = u32::MAX;
        assert_eq!(fold(&[long.clone(), long])[0].metrics.latency_us, u64::MAX);
    }
}
