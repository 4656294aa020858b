//! The journal in normal operation, as its callers and its shipper see it.

mod faults;
mod left;
mod refusal_storm;
mod together;
mod trouble;

use super::*;
use faults::Faulty;
use rpcgate_core::backend::suite;
use rpcgate_core::backend::usage_sink::{Line, Outcome, OwnedRecord};
use rpcgate_core::caller::RequestId;
use rpcgate_core::chain::ChainName;
use rpcgate_core::clock::{ManualClock, Time};
use rpcgate_core::journal::{HEAD, Reader, SegmentHeader};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const NOON: Time = Time::from_secs(1_700_000_000);

/// A journal in its own folder, on a controlled medium, with a stopped clock.
struct Fixture {
    journal: Arc<Journal>,
    medium: Arc<Faulty>,
    clock: Arc<ManualClock>,
    home: TempDir,
}

fn options(dir: &Path) -> JournalOptions {
    JournalOptions {
        dir: dir.to_owned(),
        on_full: OnFull::Serve,
        memory: 64 << 20,
        sync_interval: Duration::from_millis(50),
        shards: 2,
        clock: Arc::new(ManualClock::at(NOON)),
        medium: Arc::new(Disk),
    }
}

impl Fixture {
    fn new(change: impl FnOnce(&mut JournalOptions)) -> Self {
        let home = tempfile::tempdir().unwrap();
        let medium = Arc::new(Faulty::default());
        let clock = Arc::new(ManualClock::at(NOON));
        let mut options = JournalOptions {
            medium: medium.clone(),
            clock: clock.clone(),
            ..options(&home.path().join("j"))
        };
        change(&mut options);
        Fixture { journal: Journal::open(options).unwrap(), medium, clock, home }
    }

    fn dir(&self) -> std::path::PathBuf {
        self.home.path().join("j")
    }
}

fn line(method: &[u8], outcome: Outcome) -> Line<'_> {
    let cu = if outcome == Outcome::Refused { 0 } else { 5 };
    let status = if outcome == Outcome::Refused { 429 } else { 200 };
    Line { method, cu, status, outcome, cached: false, calls: 1, bytes_in: 10, bytes_out: 20 }
}

fn append(journal: &Journal, number: u128) {
    journal.append(&suite::record(number, &[line(b"toy_read", Outcome::Answered)]));
}

fn refuse(journal: &Journal, number: u128, method: &[u8]) {
    journal.append(&suite::record(number, &[line(method, Outcome::Refused)]));
}

fn bytes(journal: &Journal, segment: &Segment) -> Vec<u8> {
    let mut bytes = Vec::new();
    journal.read(segment.id, 0, segment.len, &mut bytes).unwrap();
    bytes
}

/// Returns the records in a segment's bytes with the end of each. Fails if one is incomplete.
fn frames(bytes: &[u8]) -> Vec<(usize, OwnedRecord)> {
    let mut reader = Reader::new();
    let mut at = HEAD;
    let mut all = Vec::new();
    while at < bytes.len() {
        let (length, event) = reader.frame(&bytes[at..]).unwrap().expect("a whole frame");
        at += length;
        let kept = reader.record(&event).unwrap();
        assert_eq!(kept.chain, "toy");
        all.push((at, kept));
    }
    all
}

fn records(journal: &Journal) -> Vec<OwnedRecord> {
    let mut all = Vec::new();
    for segment in journal.segments() {
        let bytes = bytes(journal, &segment);
        let head = SegmentHeader::read(&bytes).unwrap();
        assert_eq!((head.segment, head.gateway), (segment.id, journal.gateway()));
        all.extend(frames(&bytes).into_iter().map(|(_, kept)| kept));
    }
    all
}

fn numbers(journal: &Journal) -> Vec<u128> {
    records(journal).iter().map(|record| record.request.0).collect()
}

#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("never: {what}");
}

fn in_order(numbers: &[u128]) -> bool {
    numbers.windows(2).all(|pair| pair[0] < pair[1])
}

#[test]
fn the_journal_passes_the_suite_of_usage_sinks() {
    let home = tempfile::tempdir().unwrap();
    suite::sink(|| {
        let journal = Journal::open(options(&home.path().join("j"))).unwrap();
        let reader = journal.clone();
        (journal, Box::new(move || records(&reader)))
    });
}

#[test]
fn a_set_and_the_parts_of_a_stream_read_as_they_were_appended() {
    use rpcgate_core::backend::usage_sink::Phase;
    let fixture = Fixture::new(|_| {});
    let lines = [
        line(b"toy_read", Outcome::Answered),
        Line { cached: true, bytes_out: u32::MAX, ..line(b"toy_scan", Outcome::NodeError) },
        line(b"toy_read", Outcome::Refused),
        line(&[b'x'; 3_000], Outcome::Failed),
    ];
    let set = suite::record(1, &lines);
    let begin = Record { phase: Phase::Begin, windowed: 0, ..suite::record(2, &lines[..1]) };
    let end = Record { phase: Phase::End, ..suite::record(3, &lines[2..3]) };
    for record in [&set, &begin, &end] {
        fixture.journal.append(record);
    }
    let mut expected = [&set, &begin, &end].map(OwnedRecord::from);
    expected[0].lines[3].method.truncate(rpcgate_core::journal::MAX_NAME);
    assert_eq!(
        records(&fixture.journal),
        expected,
        "none waits: something was not refused, or it is a stream's"
    );
}

#[test]
fn a_stream_reads_from_the_journal_in_parts_and_its_begin_is_visible_at_once() {
    use rpcgate_core::backend::counters::MemoryCounters;
    use rpcgate_core::backend::usage_sink::Phase;
    use rpcgate_core::stream_tally::StreamTally;
    use rpcgate_core::tally::{Accounting, Tally, Transport};
    let fixture = Fixture::new(|_| {});
    let accounting = Arc::new(Accounting::new(
        fixture.clock.clone(),
        Arc::<MemoryCounters>::default(),
        fixture.journal.clone(),
    ));
    let chain = Arc::new(rpcgate_core::chain::Chain::deployed(Arc::new(rpcgate_core::toy::Toy)));
    let caller = Arc::new(suite::caller(1));
    let started = fixture.clock.elapsed();
    let handshake = Tally::new(RequestId(7), Transport::Ws, chain, caller, NOON, started, accounting);
    let mut stream = StreamTally::begin(Box::new(handshake)).unwrap();
    let phases = || records(&fixture.journal).iter().map(|record| record.phase).collect::<Vec<_>>();
    assert_eq!(phases(), [Phase::Begin]);
    stream.push(9);
    stream.flush();
    assert_eq!(phases(), [Phase::Begin, Phase::Pushed]);
    drop(stream);
    assert_eq!(phases(), [Phase::Begin, Phase::Pushed, Phase::End]);
    assert!(records(&fixture.journal).iter().all(|record| record.request == RequestId(7)));
}

#[test]
fn a_storm_of_refused_handshakes_does_not_cause_a_storm_of_writes() {
    use rpcgate_core::backend::usage_sink::Phase;
    use rpcgate_core::tally::Transport;
    let fixture = Fixture::new(|_| {});
    let lines = [line(b"-", Outcome::Refused)];
    for number in 0..1_000 {
        let refused = suite::record(number, &lines);
        fixture.journal.append(&Record { phase: Phase::Begin, transport: Transport::Ws, ..refused });
    }
    fixture.journal.close();
    let records = records(&fixture.journal);
    let handshakes: u32 = records.iter().flat_map(|record| &record.lines).map(|line| line.calls).sum();
    assert_eq!(handshakes, 1_000);
    assert!(records.len() < 500 && records.iter().all(|record| record.phase == Phase::Begin));
}

#[test]
fn many_threads_lose_nothing_and_each_frame_is_whole() {
    let fixture = Fixture::new(|options| options.shards = 3);
    let names: Vec<_> = (0..50).map(|n| format!("toy_{n}")).collect();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let journal = &fixture.journal;
            let names = &names;
            scope.spawn(move || {
                for n in 0..500 {
                    let lines: Vec<_> = (0..n % 5 + 1)
                        .map(|i| line(names[(n * 7 + i) % 50].as_bytes(), Outcome::Answered))
                        .collect();
                    journal.append(&suite::record((thread * 1_000 + n) as u128, &lines));
                }
            });
        }
        // The shipper reads and rotates meanwhile: every record that it gets is complete.
        for _ in 0..20 {
            records(&fixture.journal);
            fixture.journal.rotate();
        }
    });
    let records = records(&fixture.journal);
    for thread in 0..8_u128 {
        let mine: Vec<_> =
            records.iter().map(|record| record.request.0).filter(|number| number / 1_000 == thread).collect();
        assert_eq!(mine, (thread * 1_000..thread * 1_000 + 500).collect::<Vec<_>>(), "each once, in order");
    }
    for record in &records {
        let n = record.request.0 as usize % 1_000;
        let methods: Vec<_> = record.lines.iter().map(|line| line.method.as_str()).collect();
        assert_eq!(methods, (0..n % 5 + 1).map(|i| names[(n * 7 + i) % 50].as_str()).collect::<Vec<_>>());
    }
    assert_eq!(fixture.journal.status().lost_records, 0);
}

// Shows (Reliability).
#[test]
fn it_is_ready_from_its_admission_to_its_end() {
    let fixture = Fixture::new(|_| {});
    assert!(!fixture.journal.is_ready());
    append(&fixture.journal, 1);
    fixture.journal.admit();
    assert!(fixture.journal.is_ready());
    fixture.journal.close();
    assert!(!fixture.journal.is_ready());
    fixture.journal.admit();
    assert!(!fixture.journal.is_ready(), "closed is closed");
}

#[test]
fn records_after_the_end_are_counted_as_lost() {
    let fixture = Fixture::new(|_| {});
    append(&fixture.journal, 1);
    refuse(&fixture.journal, 2, b"toy_read");
    fixture.journal.close();
    fixture.journal.close();
    let lines = [line(b"a", Outcome::Answered), Line { calls: 3, ..line(b"b", Outcome::Answered) }];
    fixture.journal.append(&suite::record(3, &lines));
    refuse(&fixture.journal, 4, b"toy_read");
    let pushed = rpcgate_core::backend::usage_sink::Phase::Pushed;
    fixture.journal.append(&Record { phase: pushed, ..suite::record(5, &lines[1..]) });
    let status = fixture.journal.status();
    assert_eq!(
        (status.lost_records, status.lost_calls, status.lost_cu),
        (3, 5, 15),
        "a stream's messages are no calls"
    );
    assert_eq!(numbers(&fixture.journal), [1, 2]);
    assert!(fixture.journal.segments().iter().all(|segment| segment.sealed));
}

#[test]
fn a_segment_is_sealed_when_it_is_large_or_when_it_is_time() {
    let fixture = Fixture::new(|options| options.shards = 1);
    let method = vec![b'm'; 1_000];
    let lines = vec![line(&method, Outcome::Answered); 50_000];
    let one = suite::record(1, &lines[..1]);
    let large = suite::record(2, &lines);
    fixture.journal.rotate();
    assert!(fixture.journal.segments().is_empty(), "an empty file is not a segment");
    fixture.journal.append(&one);
    fixture.journal.rotate();
    fixture.journal.rotate();
    let first = fixture.journal.segments();
    assert_eq!(first.iter().map(|segment| segment.sealed).collect::<Vec<_>>(), [true]);
    while fixture.journal.segments().len() == 1 || !fixture.journal.segments()[1].sealed {
        fixture.journal.append(&large);
    }
    let second = fixture.journal.segments()[1];
    assert!((SEGMENT..SEGMENT + (2 << 20)).contains(&second.len), "{}", second.len);
    fixture.journal.append(&one);
    let all = fixture.journal.segments();
    assert_eq!((all.len(), all[0], all[1], all[2].sealed), (3, first[0], second, false));
    let status = fixture.journal.status();
    assert_eq!((status.segments, status.segment_bytes), (3, all.iter().map(|segment| segment.len).sum()));
}

#[test]
fn segments_keep_their_order_when_the_clock_steps_back() {
    let fixture = Fixture::new(|_| {});
    for number in 1..=20 {
        append(&fixture.journal, number);
        fixture.journal.rotate();
        fixture.clock.set(Time::from_secs(1_700_000_000 - 3_600 * number as u64));
    }
    assert_eq!(numbers(&fixture.journal), (1..=20).collect::<Vec<_>>());
}

#[test]
fn a_forgotten_segment_is_removed_and_an_open_one_stays() {
    let fixture = Fixture::new(|options| options.shards = 1);
    append(&fixture.journal, 1);
    let open = fixture.journal.segments()[0];
    let error = fixture.journal.forget(open.id).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    fixture.journal.rotate();
    append(&fixture.journal, 2);
    let before = fixture.medium.dir_syncs();
    fixture.journal.forget(open.id).unwrap();
    assert!(fixture.medium.dir_syncs() > before, "a power failure does not bring it back");
    fixture.journal.forget(open.id).unwrap();
    assert_eq!(numbers(&fixture.journal), [2]);
    let files = fs::read_dir(fixture.dir())
        .unwrap()
        .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().ends_with(".segment"));
    assert_eq!(files.count(), 1);
}

#[test]
fn an_unreadable_journal_is_an_error_and_leaves_nothing() {
    let fixture = Fixture::new(|_| {});
    append(&fixture.journal, 1);
    let segment = fixture.journal.segments()[0];
    let mut into = b"before".to_vec();
    let kind = |result: io::Result<()>| result.unwrap_err().kind();
    let beyond = fixture.journal.read(segment.id, 0, segment.len + 1, &mut into);
    assert_eq!(kind(beyond), io::ErrorKind::InvalidInput);
    assert_eq!(kind(fixture.journal.read(segment.id, 9, 8, &mut into)), io::ErrorKind::InvalidInput);
    assert_eq!(kind(fixture.journal.read(SegmentId(1), 0, 0, &mut into)), io::ErrorKind::NotFound);
    let path = fixture.dir().join(segment_name::file_name(segment.id));
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(segment.len - 1).unwrap();
    let short = fixture.journal.read(segment.id, 0, segment.len, &mut into);
    assert_eq!(kind(short), io::ErrorKind::UnexpectedEof);
    assert_eq!(into, b"before");
    fixture.journal.read(segment.id, HEAD as u64, HEAD as u64 + 1, &mut into).unwrap();
    assert_eq!(into.len(), 7);
}

#[test]
fn all_that_counts_is_flushed_to_the_medium() {
    let fixture = Fixture::new(|options| options.shards = 1);
    append(&fixture.journal, 1);
    let length = |journal: &Journal| journal.segments()[0].len;
    until("the first record is flushed", || fixture.medium.synced() == length(&fixture.journal));
    until("its name is, too", || fixture.medium.dir_syncs() > 0);
    append(&fixture.journal, 2);
    fixture.journal.rotate();
    until("a sealed segment is flushed to its end", || fixture.medium.synced() == length(&fixture.journal));
    append(&fixture.journal, 3);
    fixture.journal.close();
    assert_eq!(fixture.medium.synced(), fixture.journal.status().segment_bytes, "closing flushes");
}

#[test]
fn files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new(|_| {});
    append(&fixture.journal, 1);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&fixture.dir()), 0o700);
    let modes: Vec<_> =
        fs::read_dir(fixture.dir()).unwrap().map(|file| mode(&file.unwrap().path())).collect();
    assert_eq!(modes, [0o600; 3], "lock, identity and segment");
}
