//! Comparison of answered requests with billed ones.

use crate::*;
use rpcgate_core::backend::usage_sink::{Outcome, OwnedLine, OwnedRecord};
use rpcgate_core::caller::RequestId;
use rpcgate_tests::load::{ExpectedCall, ExpectedRequest};
use rpcgate_tests::stored_usage::StoredUsage;
use std::collections::{HashMap, HashSet};

/// Waits until all answered requests of the tenant `default` are billed, and checks that each is billed once, with its
/// expected record. All other billed requests must have been in flight when their gateway was killed.
pub(crate) async fn agrees(stored: &StoredUsage, report: &LoadReport) {
    let wanted: Vec<_> = report.answered.iter().filter(|(_, wanted)| !wanted.is_refused()).collect();
    assert!(wanted.len() > 100, "something was called");
    let look = async {
        loop {
            let events = served(stored).await;
            if missing(&events, &wanted) == 0 {
                return events;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let Ok(events) = tokio::time::timeout(2 * TIMEOUT, look).await else {
        let events = served(stored).await;
        panic!("{} of {} that were answered are never billed", missing(&events, &wanted), wanted.len());
    };
    let mut by_id: HashMap<RequestId, &OwnedRecord> = HashMap::new();
    for event in &events {
        let twice = by_id.insert(event.request, event);
        assert!(twice.is_none(), "billed twice: {event:?} and {twice:?}");
    }
    for (id, wanted) in &wanted {
        let event = by_id.remove(id).unwrap();
        let billed = (event.chain.as_str(), lines(event), event.windowed);
        assert_eq!(billed, (wanted.chain, wanted.lines.clone(), wanted.windowed), "{id}");
    }
    let mut under_way = report.unanswered.clone();
    for event in by_id.values() {
        let is_it = |wanted: &ExpectedRequest| wanted.chain == event.chain && wanted.lines == lines(event);
        let Some(place) = under_way.iter().position(is_it) else {
            panic!("billed without a request: {event:?}")
        };
        under_way.swap_remove(place);
    }
    // This sum has no refusals: they cost nothing.
    let newest = events.iter().map(|event| event.arrival).max().unwrap();
    let rollups = stored.by_method(newest).await;
    let billed: u64 = rollups.values().map(|sum| sum.billable_units).sum();
    let charged: u64 = events.iter().flat_map(|event| &event.lines).map(|line| u64::from(line.cu)).sum();
    assert_eq!(billed, charged, "the hours' sums are those of the single requests");
}

/// Returns the expected record of an answered single call.
pub(crate) fn single(reply: &TestReply, chain: &'static str, method: &str) -> (RequestId, ExpectedRequest) {
    let id = reply.header("x-request-id").unwrap().parse().unwrap();
    let line = ExpectedCall { method: method.into(), cu: reply.cu() as u32, outcome: Outcome::Answered };
    (id, ExpectedRequest { chain, lines: vec![line], windowed: 1 })
}

/// Returns the number of these requests that are not among these events.
fn missing(events: &[OwnedRecord], wanted: &[&(RequestId, ExpectedRequest)]) -> usize {
    let there: HashSet<RequestId> = events.iter().map(|event| event.request).collect();
    wanted.iter().filter(|(id, _)| !there.contains(id)).count()
}

async fn served(stored: &StoredUsage) -> Vec<OwnedRecord> {
    let is_served = |line: &OwnedLine| line.outcome != Outcome::Refused;
    let events = stored.events().await.into_iter().filter(|event| event.tenant == stored.tenant());
    events.filter(|event| event.lines.iter().any(is_served)).collect()
}

fn lines(event: &OwnedRecord) -> Vec<ExpectedCall> {
    let line =
        |line: &OwnedLine| ExpectedCall { method: line.method.clone(), cu: line.cu, outcome: line.outcome };
    event.lines.iter().map(line).collect()
}
