//! Sample records for tests of usage sums and stores, and their expected sums.
#![expect(clippy::unwrap_used, reason = "a sample that cannot be read fails its test")]

use super::ask::{Group, UsageFilter};
use super::{Blocks, Cell, HourlyFold, Mark, Metrics, Shipment, Stream};
use crate::backend::usage_sink::{Line, Outcome, Phase, Record};
use crate::caller::{KeyId, ProjectId, RequestId, TenantId};
use crate::chain::ChainName;
use crate::clock::Time;
use crate::journal::{GatewayId, Reader, SegmentId, Writer};
use crate::plan::{Price, Tier};
use crate::transport::Transport;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// The seconds of an hour.
pub const HOUR: u64 = 3_600;

/// A record to write. Unlike a parsed record, its method may be any bytes.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of Record")]
pub struct SampleRecord {
    pub phase: Phase,
    pub request: RequestId,
    pub tenant: TenantId,
    pub project: ProjectId,
    pub key: KeyId,
    pub tier: Tier,
    pub price: Price,
    pub chain: &'static str,
    pub transport: Transport,
    pub arrival: Time,
    pub latency: Duration,
    pub windowed: u32,
    pub items: Vec<SampleLine>,
}

/// A line of a [`SampleRecord`].
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of Line")]
pub struct SampleLine {
    pub method: Vec<u8>,
    pub cu: u32,
    pub status: u16,
    pub outcome: Outcome,
    pub cached: bool,
    pub calls: u32,
    pub bytes_in: u32,
    pub bytes_out: u32,
}

/// Returns an answered call of one Compute Unit.
pub fn item(method: impl AsRef<[u8]>) -> SampleLine {
    SampleLine {
        method: method.as_ref().to_vec(),
        cu: 1,
        status: 200,
        outcome: Outcome::Answered,
        cached: false,
        calls: 1,
        bytes_in: 100,
        bytes_out: 200,
    }
}

/// Returns a call at `arrival`. The key belongs to project `key / 10`, and that to tenant `key / 100`.
pub fn deed(key: u128, arrival: Time, items: Vec<SampleLine>) -> SampleRecord {
    SampleRecord {
        phase: Phase::Complete,
        request: RequestId::new(arrival),
        tenant: TenantId(key / 100),
        project: ProjectId(key / 10),
        key: KeyId(key),
        tier: Tier::Standard,
        price: Price(5),
        chain: "toy",
        transport: Transport::Http,
        arrival,
        latency: Duration::from_micros(1_500),
        windowed: 1,
        items,
    }
}

/// Encodes `deeds` as frames.
pub fn frames(deeds: &[SampleRecord]) -> Vec<u8> {
    let mut writer = Writer::new();
    let mut frames = Vec::new();
    for deed in deeds {
        let lines: Vec<Line<'_>> = deed
            .items
            .iter()
            .map(|item| Line {
                method: &item.method,
                cu: item.cu,
                status: item.status,
                outcome: item.outcome,
                cached: item.cached,
                calls: item.calls,
                bytes_in: item.bytes_in,
                bytes_out: item.bytes_out,
            })
            .collect();
        let record = Record {
            phase: deed.phase,
            request: deed.request,
            key: deed.key,
            project: deed.project,
            tenant: deed.tenant,
            chain: ChainName::new(deed.chain),
            transport: deed.transport,
            tier: deed.tier,
            price: deed.price,
            arrival: deed.arrival,
            latency: deed.latency,
            windowed: deed.windowed,
            lines: &lines,
        };
        writer.frame(&record, &mut frames);
    }
    frames
}

/// Reads all frames into `fold` and `blocks`.
///
/// # Panics
/// Panics if a frame cannot be parsed.
pub fn take_in(frames: &[u8], fold: &mut HourlyFold, blocks: &mut Blocks) {
    let mut reader = Reader::new();
    let mut rest = frames;
    while let Some((length, event)) = reader.frame(rest).unwrap() {
        assert!(fold.add(&reader, &event));
        assert!(blocks.add(&reader, &event));
        rest = &rest[length..];
    }
    assert!(rest.is_empty());
}

/// A gateway that ships all its records from one segment.
#[derive(Debug)]
pub struct SampleShipper {
    gateway: GatewayId,
    position: u64,
}

impl SampleShipper {
    /// Creates a gateway that has shipped nothing.
    pub fn new(gateway: u128) -> Self {
        SampleShipper { gateway: GatewayId(gateway), position: 0 }
    }

    /// Returns its next shipment, with `deeds`.
    pub fn pack(&mut self, deeds: &[SampleRecord]) -> Shipment {
        let mut fold = HourlyFold::new();
        let mut blocks = Blocks::new();
        let frames = frames(deeds);
        take_in(&frames, &mut fold, &mut blocks);
        let from = self.position;
        self.position += frames.len() as u64;
        Shipment {
            gateway: self.gateway,
            marks: vec![Mark { segment: SegmentId(5), from, to: self.position }],
            folded: fold.take(),
            blocks: blocks.take(),
        }
    }

    /// Takes a rejected shipment back. The next one starts at the same position.
    pub fn take_back(&mut self, shipment: &Shipment) {
        self.position = shipment.marks.first().map_or(self.position, |mark| mark.from);
    }
}

/// Returns names that clients may invent. All except the last two are shown differently.
pub fn methods() -> Vec<Vec<u8>> {
    let mut methods: Vec<Vec<u8>> = [
        "toy_read",
        "toy_scan",
        "",
        "-",
        "(other)",
        "WS:connect",
        "WS:disconnect",
        "'; DROP TABLE rollups; --",
        "\"quoted\" \\ % _ ?",
        "größe \u{1f4a9} \u{202e}",
        "nul\0nul",
    ]
    .map(|name| name.as_bytes().to_vec())
    .into();
    methods.push(vec![b'x'; 1_024]);
    methods.push(b"not\xff text".to_vec());
    methods.push(b"not\xfe text".to_vec());
    methods
}

/// Generates records of two tenants, three projects and six keys, in these hours.
pub fn deeds(hours: Range<u64>, count: Range<usize>) -> impl Strategy<Value = Vec<SampleRecord>> {
    let outcomes =
        [Outcome::Answered, Outcome::NodeError, Outcome::Refused, Outcome::Failed, Outcome::Abandoned];
    let item =
        (
            prop::sample::select(methods()),
            prop_oneof![Just(0u32), Just(1), Just(75), any::<u32>()],
            prop::sample::select(vec![200u16, 403, 429, 502, 65_535]),
            prop::sample::select(outcomes.to_vec()),
            any::<bool>(),
            prop_oneof![4 => Just(1u32), 1 => 2..1_000u32],
            (any::<u32>(), any::<u32>()),
        )
            .prop_map(|(method, cu, status, outcome, cached, calls, (bytes_in, bytes_out))| {
                SampleLine { method, cu, status, outcome, cached, calls, bytes_in, bytes_out }
            });
    let names = (
        prop::sample::select(vec![110u128, 111, 120, 121, 210, 211]),
        prop::sample::select(vec![
            (Tier::Free, Price(0)),
            (Tier::Free, Price(3)),
            (Tier::Standard, Price(5)),
            (Tier::Standard, Price(1_000_000_000)),
        ]),
        prop::sample::select(vec!["toy", "btc", "sol"]),
        prop::sample::select(vec![Transport::Http, Transport::Ws, Transport::Grpc]),
        prop_oneof![
            4 => Just(Phase::Complete),
            1 => Just(Phase::Begin),
            1 => Just(Phase::Pushed),
            1 => Just(Phase::End),
        ],
    );
    let micros = hours.start * HOUR * 1_000_000..hours.end * HOUR * 1_000_000;
    let deed = (names, micros, 0..5_000_000u64, 0..4u32, prop::collection::vec(item, 0..4)).prop_map(
        |((key, (tier, price), chain, transport, phase), arrival, latency, windowed, items)| SampleRecord {
            phase,
            tier,
            price,
            chain,
            transport,
            latency: Duration::from_micros(latency),
            windowed,
            ..deed(key, Time::from_micros(arrival), items)
        },
    );
    prop::collection::vec(deed, count)
}

fn shown(method: &[u8]) -> String {
    String::from_utf8_lossy(method).chars().map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect()
}

/// Returns the sums of `deeds`, counted one by one after the wording of the specification; without the bytes of ended
/// streams if methods are not a group.
pub fn recount(
    deeds: &[SampleRecord],
    tenant: TenantId,
    hours: &Range<u64>,
    only: &UsageFilter,
    groups: &[Group],
) -> BTreeMap<Vec<Cell>, Metrics> {
    let mut rows: BTreeMap<Vec<Cell>, Metrics> = BTreeMap::new();
    for deed in deeds.iter().filter(|deed| deed.tenant == tenant && hours.contains(&deed.arrival.hour())) {
        for item in &deed.items {
            let (method, stream) = match (deed.transport, deed.phase) {
                (Transport::Ws, Phase::Begin) => ("WS:connect".to_owned(), Stream::Connect),
                (Transport::Ws, Phase::Pushed) => ("WS:message".to_owned(), Stream::Message),
                (Transport::Ws, Phase::End) => ("WS:disconnect".to_owned(), Stream::Disconnect),
                _ => (shown(&item.method), Stream::Call),
            };
            let is_match = only.project.is_none_or(|project| project == deed.project)
                && only.chain.as_ref().is_none_or(|chain| chain == deed.chain)
                && only.method.as_ref().is_none_or(|method_filter| *method_filter == method)
                && only.key.is_none_or(|key| key == deed.key)
                && only.transport.is_none_or(|transport| transport == deed.transport);
            if !is_match {
                continue;
            }
            let cells = groups
                .iter()
                .map(|group| match group {
                    Group::Hour => Cell::Hour(Time::from_secs(deed.arrival.secs() / 3_600 * 3_600)),
                    Group::Day => Cell::Day(Time::from_secs(deed.arrival.secs() / 86_400 * 86_400)),
                    Group::Chain => Cell::Chain(deed.chain.to_owned()),
                    Group::Method => Cell::Method(method.clone(), stream),
                    Group::Key => Cell::Key(deed.key),
                    Group::Project => Cell::Project(deed.project),
                    Group::Transport => Cell::Transport(deed.transport),
                    Group::Status => Cell::Status(item.status),
                })
                .collect();
            let row = rows.entry(cells).or_default();
            let calls = u64::from(item.calls);
            let is_answered = matches!(item.outcome, Outcome::Answered | Outcome::NodeError);
            let is_call = stream == Stream::Call;
            if is_call && matches!(deed.phase, Phase::Complete | Phase::Begin) {
                row.requests += calls;
            }
            if is_call && matches!(deed.phase, Phase::Complete | Phase::Begin | Phase::End) {
                row.errors += if item.outcome == Outcome::Answered { 0 } else { calls };
                row.rejected +=
                    if matches!(item.outcome, Outcome::Refused | Outcome::Failed) { calls } else { 0 };
                row.cache_hits += if item.cached && is_answered { calls } else { 0 };
            }
            let is_charged = match deed.phase {
                Phase::Complete | Phase::Begin => true,
                Phase::Pushed => stream == Stream::Message,
                Phase::End => false,
            };
            if is_charged && item.cu >= 1 {
                row.billed_requests += calls;
                row.billable_units += u64::from(item.cu);
            }
            let has_bytes = match stream {
                Stream::Call => matches!(deed.phase, Phase::Complete | Phase::End),
                Stream::Connect | Stream::Message => true,
                Stream::Disconnect => groups.contains(&Group::Method),
            };
            if has_bytes {
                row.request_bytes += u64::from(item.bytes_in);
                row.response_bytes += u64::from(item.bytes_out);
            }
            match stream {
                Stream::Connect if is_answered => row.ws_connections += calls,
                Stream::Connect if item.outcome != Outcome::Abandoned => row.ws_refused += calls,
                Stream::Message => row.ws_messages += calls,
                _ => {}
            }
            if is_call && is_answered && matches!(deed.phase, Phase::Complete | Phase::End) {
                row.latency_us += deed.latency.as_micros() as u64 * calls;
                row.latency_count += calls;
            }
        }
    }
    rows.retain(|_, metrics| !metrics.is_empty());
    rows
}
