use crate::*;
use rpcgate_core::caller::RequestId;
use rpcgate_tests::load::{ExpectedCall, ExpectedRequest};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;

const CALLERS: usize = 16;

/// The end of one process of the gateway.
enum End {
    /// Killed this number of milliseconds after its first answer.
    Killed(u64),
    /// Killed this number of milliseconds after its start, before any call.
    Stillborn(u64),
    Drained,
}

// Shows (Reliability): A kill loses no charge and bills nothing twice (promise 1).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whenever_a_gateway_is_killed_answered_calls_are_billed_and_none_twice() {
    let seed = TestSeed::new();
    let numbers = Arc::<AtomicU64>::default();
    let mut dice = seed.dice(u64::MAX);
    let nodes = Nodes::start().await;
    let mut site = Site::new(nodes.setup());
    let mut report = LoadReport::default();
    let mut certain = LoadReport::default();
    let ends = [
        // Possibly during the creation of its databases.
        End::Stillborn(dice.below(200)),
        End::Killed(100 + dice.below(300)),
        End::Stillborn(dice.below(150)),
        End::Killed(dice.below(700)),
        End::Stillborn(dice.below(400)),
        End::Killed(200 + dice.below(800)),
        End::Drained,
    ];
    for end in ends {
        if let End::Stillborn(millis) = end {
            let process = site.spawn();
            tokio::time::sleep(Duration::from_millis(millis)).await;
            process.kill();
            continue;
        }
        let process = site.start().await;
        let load = Load::start(process.addr(), CALLERS, &seed, &numbers);
        rpcgate_tests::until("the first answer", || load.answered() > 0).await;
        if let End::Killed(millis) = end {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            process.kill();
            let heard = load.end().await;
            assert!(heard.unanswered.len() <= CALLERS);
            report.extend(heard);
        } else {
            rpcgate_tests::until("some answers", || load.answered() > 300).await;
            certain.extend(load.end().await);
            assert!(certain.unanswered.is_empty());
            let (status, log) = process.stop().await;
            assert!(status.success(), "{}", log.text());
        }
    }
    // Ready means that the content of the journal is in the database.
    let process = site.start().await;
    let stored = StoredUsage::open(&site).await;
    let events = stored.events().await;
    compare(&events, &report, &certain);
    rollups_agree(&stored, &events).await;
    find_by_id(&stored, &report, &events).await;
    windows_go_on(&process, &stored, &events).await;
    process.kill();

    let events = stored.events().await;
    let left = 3;
    site.change(nodes.setup_under(charged(&events) + left));
    let process = site.start().await;
    let client = process.client();
    for _ in 0..left {
        assert_eq!(client.call("eth", "unheard_of", "[]").await.code(), 0);
    }
    let reply = client.call("eth", "unheard_of", "[]").await;
    assert_eq!(reply.code(), -32005, "the quota equals the usage records exactly: {}", reply.text());
}

fn lines(event: &OwnedRecord) -> Vec<ExpectedCall> {
    let line = |line: &rpcgate_core::backend::usage_sink::OwnedLine| {
        assert!(line.calls == 1 || line.outcome == Outcome::Refused, "{event:?}");
        ExpectedCall { method: line.method.clone(), cu: line.cu, outcome: line.outcome }
    };
    event.lines.iter().map(line).collect()
}

/// Checks that every received answer is stored once with its expected record, and that all other records were in flight
/// when the gateway was killed. During the requests in `certain` no process was killed.
fn compare(events: &[OwnedRecord], report: &LoadReport, certain: &LoadReport) {
    let mut by_id: HashMap<RequestId, &OwnedRecord> = HashMap::new();
    for event in events {
        let twice = by_id.insert(event.request, event);
        assert!(twice.is_none(), "twice in the ledger: {event:?} and {twice:?}");
    }
    let mut seen = HashSet::new();
    for (id, wanted) in report.answered.iter().chain(&certain.answered) {
        assert!(seen.insert(*id), "an id was given twice: {id}");
        if wanted.is_refused() {
            continue;
        }
        let Some(event) = by_id.remove(id) else { panic!("answered and not billed: {id} {wanted:?}") };
        assert_eq!(
            (event.chain.as_str(), lines(event), event.windowed),
            (wanted.chain, wanted.lines.clone(), wanted.windowed),
            "{id}"
        );
    }
    let mut under_way = report.unanswered.clone();
    let mut refused: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for event in by_id.values() {
        if event.lines.iter().all(|line| line.outcome == Outcome::Refused) {
            for line in &event.lines {
                assert_eq!(line.cu, 0);
                *refused.entry((&event.chain, &line.method)).or_default() += u64::from(line.calls);
            }
            continue;
        }
        let is_it = |wanted: &ExpectedRequest| wanted.chain == event.chain && wanted.lines == lines(event);
        let place = under_way.iter().position(is_it);
        let Some(place) = place else { panic!("billed without a request: {event:?}") };
        under_way.swap_remove(place);
    }
    let count = |of: &mut dyn Iterator<Item = &ExpectedRequest>| {
        let mut calls: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        let wanted: Vec<_> = of.filter(|wanted| wanted.is_refused()).collect();
        for (wanted, line) in
            wanted.iter().flat_map(|wanted| wanted.lines.iter().map(move |line| (wanted, line)))
        {
            // Leaked names are no problem: the mix has only a few.
            *calls.entry((wanted.chain, line.method.as_str())).or_default() += 1;
        }
        calls
            .into_iter()
            .map(|((chain, method), calls)| ((chain.to_owned(), method.to_owned()), calls))
            .collect::<BTreeMap<_, _>>()
    };
    let least = count(&mut certain.answered.iter().map(|(_, wanted)| wanted));
    let answered = report.answered.iter().chain(&certain.answered).map(|(_, wanted)| wanted);
    let most = count(&mut answered.chain(&report.unanswered));
    for ((chain, method), calls) in &most {
        let found = refused.remove(&(chain.as_str(), method.as_str())).unwrap_or_default();
        let least = least.get(&(chain.clone(), method.clone())).copied().unwrap_or_default();
        assert!(
            (least..=*calls).contains(&found),
            "{chain} {method}: {found} refusals of {least} to {calls}"
        );
    }
    assert!(refused.is_empty(), "refusals without a request: {refused:?}");
    let charged = charged(events);
    let answered =
        report.answered.iter().chain(&certain.answered).map(|(_, wanted)| wanted.cu()).sum::<u64>();
    assert!(
        answered <= charged
            && charged <= answered + report.unanswered.iter().map(ExpectedRequest::cu).sum::<u64>()
    );
    assert!(answered > 1_000, "something was called");
}

/// Checks that a single request is found by the id in its answer.
async fn find_by_id(stored: &StoredUsage, report: &LoadReport, events: &[OwnedRecord]) {
    let of_interest = report.answered.iter().filter(|(_, wanted)| !wanted.is_refused());
    for (id, _) in of_interest.step_by(report.answered.len() / 40 + 1) {
        let found = stored.store().event(stored.tenant(), *id).await.unwrap();
        assert_eq!(found.as_ref(), events.iter().find(|event| event.request == *id));
    }
}

/// Checks that the windows in the next answer equal the stored usage and that call.
async fn windows_go_on(process: &Process, stored: &StoredUsage, events: &[OwnedRecord]) {
    let reply = process.client().call("eth", "unheard_of", "[]").await;
    let id: RequestId = reply.header("x-request-id").unwrap().parse().unwrap();
    let arrival = Time::from_millis((id.0 >> 80) as u64);
    let used = |is_in: fn(Time) -> u64| {
        let of_window = events.iter().filter(|event| is_in(event.arrival) == is_in(arrival));
        of_window.map(|event| u64::from(event.windowed)).sum::<u64>() + 1
    };
    let windows = [
        ("minute", 1_000_000, used(Time::minute)),
        ("hour", 2_000_000, used(Time::hour)),
        ("day", 3_000_000, used(Time::day)),
    ];
    for (window, limit, used) in windows {
        let report = (
            reply.number(&format!("x-ratelimit-limit-{window}")),
            reply.number(&format!("x-ratelimit-remaining-{window}")),
        );
        assert_eq!(report, (limit, limit - used), "{window}");
    }
    let [(_, limit, used), ..] = windows;
    assert_eq!((reply.number("ratelimit-limit"), reply.number("ratelimit-remaining")), (limit, limit - used));
    assert_eq!(reply.number("ratelimit-reset"), 60 - arrival.secs() % 60);
    stored.hold(id).await;
}
