use super::*;
use crate::testing::{call_facts, request_facts};
use rpcgate_core::backend::usage_sink::Line;
use rpcgate_core::caller::{KeyId, ProjectId, RequestId};
use rpcgate_core::clock::Time;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::node_try::{NodeChoice, NodeTries, TryEnd};
use rpcgate_core::recent::{CacheUse, CallFacts, RequestFacts};
use rpcgate_core::refusal::Refusal;
use serde_json::{Value, json};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

const MILLI: Duration = Duration::from_millis(1);

fn facts(request: u128, latency: Duration) -> RequestFacts {
    request_facts(request, Time::from_micros(1_798_718_400_000_042), latency)
}

fn line(method: &[u8], outcome: Outcome, status: u16) -> Line<'_> {
    Line { method, cu: 15, status, outcome, cached: false, calls: 1, bytes_in: 10, bytes_out: 20 }
}

fn call(outcome: Outcome) -> CallFacts {
    call_facts(outcome, 200)
}

fn show(log: &CallLog, request: u128, latency: Duration, outcome: Outcome) {
    let facts = facts(request, latency);
    let lines = [line(b"eth_call", outcome, 200)];
    let calls = [call(outcome)];
    let prefix = "rpcg_0Ab1Cd2";
    let tries = &[][..];
    log.see(&SettledCalls {
        facts: &facts,
        prefix,
        is_message: false,
        lines: &lines,
        calls: &calls,
        tries,
        trace: None,
    });
}

fn logged(settled: &SettledCalls<'_>) -> Vec<Value> {
    let mut out = Vec::new();
    write_lines(settled, &mut out);
    String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

// Shows (Traces, logs and metrics).
#[test]
fn a_line_has_what_is_known_of_a_call_and_no_more() {
    let mut tries = NodeTries::default();
    tries.set_calls([1]);
    tries.push((7, 0), NodeChoice::Turn);
    tries.begin(MILLI);
    tries.end(TryEnd::Failed(Fault::sent(Cause::Broken)), 2 * MILLI);
    tries.push((7, 2), NodeChoice::Turn);
    tries.begin(2 * MILLI);
    tries.end(TryEnd::Answered, 5 * MILLI);
    let pasted = format!("rpcg_{}", "a".repeat(rpcgate_core::secret::LENGTH - 5)).into_bytes();
    let long = [b'x'; 65];
    let lines = [
        line(b"eth_getLogs", Outcome::Refused, 429),
        line(b"eth\"call", Outcome::Answered, 200),
        line(&pasted, Outcome::Failed, 502),
        line(&long, Outcome::NodeError, 200),
    ];
    let refused =
        CallFacts { refusal: Some(Refusal::Quota), cache: CacheUse::NotAsked, ..call(Outcome::Refused) };
    let failed = CallFacts { fault: Some(Fault::unsent(Cause::Connect)), ..call(Outcome::Failed) };
    let calls = [refused, call(Outcome::Answered), failed, call(Outcome::NodeError)];
    let facts = RequestFacts { is_batch: true, ..facts(7, Duration::from_micros(12_345)) };
    let settled = SettledCalls {
        facts: &facts,
        prefix: "rpcg_0Ab1Cd2",
        is_message: false,
        lines: &lines,
        calls: &calls,
        tries: tries.as_slice(),
        trace: None,
    };
    let lines = logged(&settled);
    let all = json!({
        "time": 1_798_718_400.000_042, "request": RequestId(7).to_string(), "transport": "http", "chain": "eth",
        "method": "eth\"call", "outcome": "answered", "status": 200, "ms": 12.345, "bytes_in": 10, "bytes_out": 20,
        "cu": 15, "cache": "miss", "key": "rpcg_0Ab1Cd2", "key_id": KeyId(1).to_string(),
        "project": ProjectId(2).to_string(), "node": 3, "tries": 2, "node_ms": 3.0, "batch": true,
    });
    assert_eq!(lines[1], all);
    assert_eq!(lines[0]["code"], Refusal::Quota.code());
    assert_eq!(
        (&lines[0]["reason"], &lines[0]["cache"]),
        (&json!(Refusal::Quota.message()), &json!("not_asked"))
    );
    assert!(lines[0]["node"].is_null() && lines[1]["code"].is_null());
    assert_eq!(lines[2]["reason"], Fault::unsent(Cause::Connect).to_string());
    assert_eq!((&lines[2]["method"], &lines[3]["method"]), (&json!("(other)"), &json!("(other)")));
}

/// A writer that waits for permission and reports what it receives.
#[derive(Debug)]
struct Held {
    may: Receiver<bool>,
    got: SyncSender<String>,
}

impl io::Write for Held {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.may.recv().unwrap_or(true) {
            return Err(io::Error::other("the disk is full"));
        }
        let _ = self.got.send(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn held(one_in: u128, errors: bool) -> (CallLog, SyncSender<bool>, Receiver<String>) {
    let ((allow, may), (got, seen)) = (sync_channel(100_000), sync_channel(100_000));
    let counts = Arc::<LogCounts>::default();
    let queue = LogQueue::start(Output::Other(Box::new(Held { may, got })), counts.clone()).unwrap();
    (CallLog { one_in, errors, slow: 100 * MILLI, queue, counts }, allow, seen)
}

// Shows (Traces, logs and metrics): The access log is off by default, samples, never delays a call, and contains no
// secret.
#[test]
fn one_request_in_n_is_logged_and_every_slow_or_failed_one() {
    let logged = |errors: bool| {
        let (log, allow, seen) = held(10, errors);
        (0..100).for_each(|_| allow.send(true).unwrap());
        for request in 0..100 {
            show(&log, request, MILLI, Outcome::Answered);
        }
        for request in [1, 2] {
            show(&log, request, 100 * MILLI, Outcome::NodeError);
            show(&log, request, MILLI, Outcome::NodeError);
            show(&log, request, MILLI, Outcome::Refused);
            show(&log, request, MILLI, Outcome::Failed);
        }
        drop(log);
        seen.into_iter().flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).count()
    };
    assert_eq!((logged(true), logged(false)), (10 + 6, 10 + 2));
}

// Shows (Traces, logs and metrics).
#[test]
fn lines_that_the_disk_cannot_follow_are_dropped_and_counted_and_no_call_waits() {
    let (log, allow, seen) = held(1, true);
    // Nothing is written, so lines beyond the queue's capacity are dropped. The thread holds the lines it has taken.
    for request in 0..20_000 {
        show(&log, request, MILLI, Outcome::Answered);
    }
    let dropped = log.counts.dropped.load(Relaxed);
    assert!((1..20_000).contains(&dropped), "{dropped}");
    let counts = log.counts.clone();
    (0..20_000).for_each(|_| allow.send(true).unwrap());
    drop(log);
    let written: usize = seen.into_iter().map(|text| text.lines().count()).sum();
    assert_eq!((counts.written.load(Relaxed), counts.dropped.load(Relaxed)), (written as u64, dropped));
    assert_eq!(written as u64 + dropped, 20_000);
}

#[test]
fn lines_that_the_disk_refuses_are_dropped_until_it_takes_some_again() {
    let (log, allow, seen) = held(1, true);
    allow.send(false).unwrap();
    show(&log, 1, MILLI, Outcome::Answered);
    while log.counts.dropped.load(Relaxed) == 0 {
        std::thread::yield_now();
    }
    allow.send(true).unwrap();
    show(&log, 2, MILLI, Outcome::Answered);
    assert!(seen.recv().unwrap().contains(&RequestId(2).to_string()));
    drop(log);
}

#[cfg(unix)]
#[test]
fn a_file_is_its_owners_and_a_moved_one_is_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("access.log");
    let settings = |file| {
        let mut settings = AccessLogSettings::default();
        settings.file = file;
        settings
    };
    assert!(CallLog::open(&settings(None)).unwrap().is_none());
    assert!(CallLog::open(&settings(Some(dir.path().join("gone/access.log")))).is_err());
    let log = CallLog::open(&settings(Some(file.clone()))).unwrap().unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let wait = |count: u64| {
        while log.counts.written.load(Relaxed) < count {
            std::thread::yield_now();
        }
    };
    show(&log, 1, MILLI, Outcome::Answered);
    wait(1);
    let moved = dir.path().join("access.log.1");
    std::fs::rename(&file, &moved).unwrap();
    show(&log, 2, MILLI, Outcome::Answered);
    wait(2);
    drop(log);
    let lines = |file: &Path| std::fs::read_to_string(file).unwrap().lines().count();
    assert_eq!((lines(&moved), lines(&file)), (1, 1));
}
