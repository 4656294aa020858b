use super::frame::{FRAME_HEAD, TABLE_TEXT};
use super::*;
use crate::backend::usage_sink::{Line, Outcome, Phase, Record};
use crate::caller::{KeyId, ProjectId, RequestId, TenantId};
use crate::chain::ChainName;
use crate::clock::Time;
use crate::plan::{Price, Tier};
use crate::transport::Transport;
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

#[derive(Clone, PartialEq, Debug)]
struct ParsedRecord {
    phase: Phase,
    request: RequestId,
    party: Party,
    chain: String,
    transport: Transport,
    arrival: Time,
    latency: Duration,
    windowed: u32,
    lines: Vec<(Vec<u8>, EventLine)>,
}

impl ParsedRecord {
    /// Returns the last frame of `reader`. Every index resolves.
    fn read(reader: &Reader, event: &Event) -> ParsedRecord {
        let lines = reader.lines().iter();
        ParsedRecord {
            phase: event.phase,
            request: event.request,
            party: *reader.party(event.party).unwrap(),
            chain: reader.chain(event.chain).unwrap().into(),
            transport: event.transport,
            arrival: event.arrival,
            latency: event.latency,
            windowed: event.windowed,
            lines: lines
                .map(|line| (reader.method(line.method).unwrap().to_vec(), EventLine { method: 0, ..*line }))
                .collect(),
        }
    }

    fn write(&self, writer: &mut Writer, out: &mut Vec<u8>) {
        let lines: Vec<_> = self
            .lines
            .iter()
            .map(|(method, line)| Line {
                method,
                cu: line.cu,
                status: line.status,
                outcome: line.outcome,
                cached: line.cached,
                calls: line.calls,
                bytes_in: line.bytes_in,
                bytes_out: line.bytes_out,
            })
            .collect();
        let chain = CHAINS.iter().find(|chain| **chain == self.chain).unwrap();
        writer.frame(
            &Record {
                phase: self.phase,
                request: self.request,
                key: self.party.key,
                project: self.party.project,
                tenant: self.party.tenant,
                chain: ChainName::new(chain),
                transport: self.transport,
                tier: self.party.tier,
                price: self.party.price,
                arrival: self.arrival,
                latency: self.latency,
                windowed: self.windowed,
                lines: &lines,
            },
            out,
        );
    }
}

const CHAINS: [&str; 4] = ["toy", "other", "", "с-чужими-буквами"];

fn told(methods: &[&[u8]]) -> ParsedRecord {
    let line = EventLine {
        method: 0,
        cu: 20,
        status: 200,
        outcome: Outcome::Answered,
        cached: false,
        calls: 1,
        bytes_in: 160,
        bytes_out: 20_000,
    };
    ParsedRecord {
        phase: Phase::Complete,
        request: RequestId(0x0190_163d_8694_739b_aea5_966c_26f8_ad91),
        party: party(1),
        chain: "toy".into(),
        transport: Transport::Http,
        arrival: Time::from_micros(1_790_000_000_123_456),
        latency: Duration::from_micros(250_000),
        windowed: 1,
        lines: methods.iter().map(|method| (method.to_vec(), line)).collect(),
    }
}

fn party(number: u128) -> Party {
    let ids = (KeyId(number), ProjectId(number << 64), TenantId(u128::MAX - number));
    Party { key: ids.0, project: ids.1, tenant: ids.2, tier: Tier::Premium, price: Price(500_000_000) }
}

fn written(records: &[ParsedRecord]) -> Vec<u8> {
    let mut writer = Writer::new();
    let mut out = Vec::new();
    records.iter().for_each(|record| record.write(&mut writer, &mut out));
    out
}

/// Returns the complete frames at the start of `bytes`, their total length, and the error after them.
fn read(bytes: &[u8]) -> (Vec<ParsedRecord>, usize, Option<FrameError>) {
    let mut reader = Reader::new();
    let mut records = Vec::new();
    let mut at = 0;
    loop {
        match reader.frame(&bytes[at..]) {
            Ok(Some((length, event))) => {
                records.push(ParsedRecord::read(&reader, &event));
                at += length;
            }
            Ok(None) => return (records, at, None),
            Err(torn) => return (records, at, Some(torn)),
        }
    }
}

fn framed(payload: &[u8]) -> Vec<u8> {
    let head = [(payload.len() as u32).to_le_bytes(), crc32fast::hash(payload).to_le_bytes()];
    [head.as_flattened(), payload].concat()
}

fn numbers() -> impl Strategy<Value = u32> {
    prop_oneof![0..3u32, any::<u32>(), Just(u32::MAX)]
}

fn methods() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0..5u8).prop_map(|name| vec![b'a' + name; 8]),
        2 => vec(any::<u8>(), 0..40),
        1 => Just(vec![0xff; MAX_NAME]),
    ]
}

fn lines() -> impl Strategy<Value = (Vec<u8>, EventLine)> {
    let outcomes = prop_oneof![
        Just(Outcome::Answered),
        Just(Outcome::NodeError),
        Just(Outcome::Refused),
        Just(Outcome::Failed),
        Just(Outcome::Abandoned)
    ];
    let status = prop_oneof![Just(200), Just(429), any::<u16>()];
    (methods(), numbers(), status, outcomes, any::<bool>(), numbers(), numbers(), numbers()).prop_map(
        |(name, cu, status, outcome, cached, calls, bytes_in, bytes_out)| {
            (name, EventLine { method: 0, cu, status, outcome, cached, calls, bytes_in, bytes_out })
        },
    )
}

prop_compose! {
    fn parties()(
        number in prop_oneof![4 => 0..4u128, 1 => any::<u128>()],
        tier in prop_oneof![Just(Tier::Free), Just(Tier::Standard), Just(Tier::Premium), Just(Tier::Enterprise)],
        price in prop_oneof![Just(0), Just(500_000_000), Just(u64::MAX)],
    ) -> Party {
        Party { tier, price: Price(price), ..party(number) }
    }
}

prop_compose! {
    fn records()(
        phase in prop_oneof![Just(Phase::Complete), Just(Phase::Begin), Just(Phase::Pushed), Just(Phase::End)],
        request in any::<u128>(),
        party in parties(),
        chain in 0..CHAINS.len(),
        transport in prop_oneof![Just(Transport::Http), Just(Transport::Ws), Just(Transport::Grpc)],
        arrival in prop_oneof![any::<u64>(), Just(0), Just(u64::MAX)],
        latency in prop_oneof![any::<u64>(), Just(0), Just(u64::MAX)],
        windowed in numbers(),
        lines in vec(lines(), 0..8),
    ) -> ParsedRecord {
        let request = RequestId(request);
        let chain = CHAINS[chain].into();
        let arrival = Time::from_micros(arrival);
        let latency = Duration::from_micros(latency);
        ParsedRecord { phase, request, party, chain, transport, arrival, latency, windowed, lines }
    }
}

/// Checks that another writer encodes the parsed content of `bytes` to equal records.
fn says_the_same_again(bytes: &[u8]) -> Result<(), TestCaseError> {
    let (said, length, _) = read(bytes);
    let mut reader = Reader::new();
    let mut writer = Writer::new();
    let mut again = Vec::new();
    let mut at = 0;
    while at < length {
        let (length, event) = reader.frame(&bytes[at..]).unwrap().unwrap();
        prop_assert!(writer.copy(&reader, &event, &mut again));
        at += length;
    }
    prop_assert_eq!(read(&again), (said, again.len(), None));
    Ok(())
}

proptest! {
    #[test]
    fn records_read_as_they_were_written(records in vec(records(), 0..12)) {
        let bytes = written(&records);
        prop_assert_eq!(read(&bytes), (records, bytes.len(), None));
        says_the_same_again(&bytes)?;
    }

    #[test]
    fn any_bytes_are_read_without_a_panic_and_round_trip(bytes in vec(any::<u8>(), 0..300)) {
        read(&bytes);
        says_the_same_again(&framed(&bytes))?;
    }

    #[test]
    fn a_changed_payload_with_a_valid_checksum_reads_without_a_panic_and_round_trips(
        records in vec(records(), 1..6),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = Vec::new();
        let mut writer = Writer::new();
        let mut frame = Vec::new();
        for record in &records {
            frame.clear();
            record.write(&mut writer, &mut frame);
            for (place, byte) in &changes {
                let payload = &mut frame[FRAME_HEAD..];
                payload[place.index(payload.len())] = *byte;
            }
            bytes.extend(framed(&frame[FRAME_HEAD..]));
        }
        says_the_same_again(&bytes)?;
    }
}

/// Returns four frames in which names and callers are new, repeated, and repeated next to new ones.
fn four() -> Vec<ParsedRecord> {
    let second =
        ParsedRecord { party: party(2), chain: "other".into(), windowed: 3, ..told(&[b"b", b"a", b"c"]) };
    let mut third = ParsedRecord { phase: Phase::End, transport: Transport::Ws, ..told(&[b"c"]) };
    third.lines[0].1 =
        EventLine { status: 429, calls: 70_000, outcome: Outcome::Refused, ..third.lines[0].1 };
    vec![told(&[b"a"]), second, third, told(&[b"a", b"b"])]
}

#[test]
fn a_stream_cut_at_any_byte_keeps_its_whole_frames_and_waits_for_the_rest() {
    let records = four();
    let bytes = written(&records);
    let ends: Vec<_> = (0..=records.len()).map(|count| written(&records[..count]).len()).collect();
    for cut in 0..=bytes.len() {
        let whole = ends.iter().filter(|end| **end > 0 && **end <= cut).count();
        assert_eq!(read(&bytes[..cut]), (records[..whole].to_vec(), ends[whole], None), "cut at {cut}");
    }
}

#[test]
fn a_changed_bit_anywhere_is_never_read_as_something_else() {
    let records = four();
    let bytes = written(&records);
    let ends: Vec<_> = (1..=records.len()).map(|count| written(&records[..count]).len()).collect();
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let whole = ends.iter().filter(|end| **end <= bit / 8).count();
        let (read, at, torn) = read(&changed);
        assert_eq!(read, records[..whole], "bit {bit}");
        let start = if whole == 0 { 0 } else { ends[whole - 1] };
        assert_eq!(at, start);
        // A larger length may require more bytes than exist. All other errors are detected.
        let in_length = bit / 8 - start < 4;
        assert!(torn.is_some() || in_length, "bit {bit}");
    }
}

#[test]
fn zeros_and_absurd_lengths_are_torn_at_once() {
    let mut reader = Reader::new();
    assert_eq!(reader.frame(&[0; 4]), Err(FrameError::Length));
    assert_eq!(reader.frame(&[0; 100]), Err(FrameError::Length));
    let most = (MAX_PAYLOAD as u32).to_le_bytes();
    assert_eq!(reader.frame(&most), Ok(None));
    let more = (MAX_PAYLOAD as u32 + 1).to_le_bytes();
    assert_eq!(reader.frame(&more), Err(FrameError::Length));
}

#[test]
fn a_repeated_record_is_small_and_allocates_nothing() {
    let mut writer = Writer::new();
    let mut out = Vec::new();
    told(&[b"toy_read"]).write(&mut writer, &mut out);
    told(&[b"toy_read"]).write(&mut writer, &mut out);
    let tables =
        |writer: &Writer| [writer.parties.capacity(), writer.chains.capacity(), writer.methods.capacity()];
    let before = (out.capacity(), tables(&writer));

    out.clear();
    told(&[b"toy_read"]).write(&mut writer, &mut out);
    let one = out.len();
    assert_eq!((out.capacity(), tables(&writer)), before);
    assert!(one <= 64, "{one}");

    out.clear();
    told(&[b"toy_read", b"toy_read"]).write(&mut writer, &mut out);
    assert!(out.len() - one <= 16, "{}", out.len() - one);
}

#[test]
fn a_flood_of_methods_and_callers_fills_no_more_than_the_tables() {
    let name = |number: usize| format!("method_{number}").into_bytes();
    let mut records: Vec<_> = (0..TABLE + 100)
        .map(|number| ParsedRecord { party: party(number as u128), ..told(&[&name(number), &name(0)]) })
        .collect();
    // Repeated names without a number are written again; those with one stay short.
    records.push(ParsedRecord {
        party: party(TABLE as u128),
        ..told(&[&name(TABLE), &name(7), &name(TABLE + 1)])
    });
    records.push(told(&[b"method_7"]));
    let bytes = written(&records);
    let (read, length, torn) = read(&bytes);
    assert_eq!((length, torn), (bytes.len(), None));
    assert!(read == records);
    let last = bytes.len() - written(&records[..records.len() - 1]).len();
    assert!(last <= 64, "{last}");

    let mut reader = Reader::new();
    let mut at = 0;
    while let Some((length, _)) = reader.frame(&bytes[at..]).unwrap() {
        at += length;
    }
    assert_eq!(reader.party(TABLE as u32 - 1).map(|party| party.key), Some(KeyId(TABLE as u128 - 1)));
    assert_eq!(reader.party(TABLE as u32), None, "a passing caller is gone with its frame");
    assert_eq!(reader.method(TABLE as u32 - 1), Some(&name(TABLE - 1)[..]));
    for none in [TABLE as u32, TABLE as u32 + 1, u32::MAX] {
        assert_eq!(reader.method(none), None);
        assert_eq!(reader.chain(none), None);
    }
    // One more numbered name than allowed.
    let mut payload = told_head(1, 1);
    payload.extend([0, 0x81, 0x80, 1, 1, b'x', 0, 0, 0]);
    assert_eq!(reader.frame(&framed(&payload)), Err(FrameError::Content));
}

/// Returns the payload of a frame without lines, with caller and chain by reference.
fn told_head(party: u8, chain: u8) -> Vec<u8> {
    let mut payload = vec![0; 17];
    payload.extend([party, chain, 0, 0]);
    payload
}

#[test]
fn long_names_fill_no_more_than_the_text_of_a_table() {
    let name = |number: usize| format!("{number:01024}").into_bytes();
    let count = TABLE_TEXT / MAX_NAME + 10;
    let records: Vec<_> = (0..count).map(|number| told(&[&name(number), &name(0)])).collect();
    let bytes = written(&records);
    let (read, length, torn) = read(&bytes);
    assert_eq!((length, torn), (bytes.len(), None));
    assert!(read == records);

    let mut reader = Reader::new();
    let mut at = 0;
    while let Some((length, _)) = reader.frame(&bytes[at..]).unwrap() {
        at += length;
    }
    let full = (TABLE_TEXT / MAX_NAME) as u32;
    assert!(reader.method(full - 1).is_some() && reader.method(full).is_none());
    let mut payload = told_head(1, 1);
    payload.extend([0, 0x81, 0x08, 1, b'x', 0, 0, 0]);
    assert_eq!(
        reader.frame(&framed(&payload)),
        Err(FrameError::Content),
        "a name beyond the text of the table"
    );
}

#[test]
fn a_record_too_long_for_a_frame_continues_in_the_next_and_counts_once() {
    let names: Vec<_> = (0..2_500).map(|number| format!("{number:01000}").into_bytes()).collect();
    let names: Vec<_> = names.iter().map(Vec::as_slice).collect();
    let record = ParsedRecord { windowed: 7, ..told(&names) };
    let (frames, _, torn) = read(&written(std::slice::from_ref(&record)));
    assert_eq!((frames.len(), torn), (3, None));
    assert_eq!(frames.iter().map(|frame| frame.windowed).collect::<Vec<_>>(), [7, 0, 0]);
    let lines: Vec<_> = frames.iter().flat_map(|frame| frame.lines.clone()).collect();
    assert!(lines == record.lines);
    assert!(frames.into_iter().all(|frame| ParsedRecord { windowed: 7, lines: vec![], ..frame }
        == ParsedRecord { lines: vec![], ..record.clone() }));
}

#[test]
fn a_name_too_long_is_cut_and_a_latency_too_long_is_the_longest() {
    let long = "é".repeat(600);
    let record = ParsedRecord { latency: Duration::MAX, ..told(&[long.as_bytes()]) };
    let (read, ..) = read(&written(&[record]));
    assert_eq!(read[0].lines[0].0, "é".repeat(512).into_bytes());
    assert_eq!(read[0].latency, Duration::from_micros(u64::MAX));
}

#[test]
fn an_unreadable_frame_leaves_the_reader_unchanged() {
    let mut writer = Writer::new();
    let mut bytes = Vec::new();
    told(&[b"a"]).write(&mut writer, &mut bytes);
    let first = bytes.len();
    ParsedRecord { party: party(2), chain: "other".into(), ..told(&[b"b"]) }.write(&mut writer, &mut bytes);

    let mut reader = Reader::new();
    reader.frame(&bytes).unwrap().unwrap();
    // The second frame with one more line, which is incomplete.
    let mut payload = bytes[first + FRAME_HEAD..].to_vec();
    payload.extend([0, 1]);
    assert_eq!(reader.frame(&framed(&payload)), Err(FrameError::Content));
    assert!(reader.lines().is_empty() && reader.party(1).is_none());
    assert!(reader.chain(1).is_none() && reader.method(1).is_none());
    let (_, event) = reader.frame(&bytes[first..]).unwrap().unwrap();
    assert_eq!((event.party, event.chain, reader.chain(1)), (1, 1, Some("other")));
}

#[test]
fn frames_that_no_writer_writes_are_refused() {
    let mut reader = Reader::new();
    reader.frame(&written(&[told(&[b"a"])])).unwrap().unwrap();
    let good = [told_head(1, 1), vec![0, 1, 0, 0, 0]].concat();
    assert!(reader.frame(&framed(&good)).unwrap().is_some());
    let with = |at: usize, byte: u8| {
        let mut payload = good.clone();
        payload[at] = byte;
        payload
    };
    let bad = [
        ("a transport that is none", with(0, 3 << 2)),
        ("a bit that means nothing", with(0, 1 << 5)),
        ("a caller that was not defined", with(17, 3)),
        ("a chain that was not defined", with(18, 3)),
        ("an outcome that is none", with(21, 5)),
        ("a line's bit that means nothing", with(21, 1 << 6)),
        ("a method that was not defined", with(22, 3)),
        ("a tier that is none", [&good[..17], &[2], &[0; 48], &[4, 0, 1, 0, 0]].concat()),
        ("a chain that is no text", [&good[..18], &[2, 1, 0xff, 0, 0]].concat()),
        ("a name that is too long", [told_head(1, 1), vec![0, 2, 0x81, 0x08], vec![b'a'; 1_028]].concat()),
        ("a status beyond 65535", [told_head(1, 1), vec![1 << 4, 1, 0, 0x80, 0x80, 4, 0, 0]].concat()),
    ];
    for (what, payload) in bad {
        assert_eq!(reader.frame(&framed(&payload)), Err(FrameError::Content), "{what}");
    }
    for cut in 1..good.len() {
        let is_whole = cut == told_head(1, 1).len();
        assert_eq!(reader.frame(&framed(&good[..cut])).is_ok(), is_whole, "payload cut at {cut}");
    }
}

#[test]
fn an_event_of_another_reader_is_not_copied() {
    let bytes = written(&[told(&[b"a"])]);
    let (_, event) = Reader::new().frame(&bytes).unwrap().unwrap();
    let mut out = Vec::new();
    assert!(!Writer::new().copy(&Reader::new(), &event, &mut out));
    assert!(out.is_empty());
}
