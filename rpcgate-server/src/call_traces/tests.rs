use super::*;
use crate::testing::{call_facts, request_facts};
use rpcgate_config::{Config, Input};
use rpcgate_core::caller::RequestId;
use rpcgate_core::clock::SystemClock;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::node_try::{NodeChoice, NodeTries};
use rpcgate_core::recent::CacheUse;
use rpcgate_core::refusal::Refusal;
use rpcgate_layers::nodes::{NodeDrains, NodeSpendings};
use rpcgate_process::node_pool;
use rpcgate_process::traces::{Status, Value};

const MILLI: Duration = Duration::from_millis(1);

fn call(method: &str, outcome: Outcome, status: u16) -> RecentCall {
    RecentCall { method: method.into(), facts: call_facts(outcome, status) }
}

/// Returns a pool for the chain eth whose second node has a login, and the pool's number.
fn pools() -> (Pools, u32) {
    let nodes =
        "nodes = [\"http://a:1\", \"https://u:hunter2@b.example/v3/0123456789abcdef0123456789abcdef\"]";
    let text = format!("[chains.eth]\n{nodes}\n");
    let config =
        Config::read(&Input { chains: &["eth"], file: Some(("f", &text)), ..Input::default() }).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let facts = *rpcgate_chains::by_path("eth").unwrap().facts();
    let pool =
        node_pool(&facts, &config.chains["eth"], &clock, &NodeDrains::default(), &NodeSpendings::default())
            .unwrap()
            .unwrap();
    let number = pool.number();
    ([pool].into_iter().collect(), number)
}

/// Returns a traced request with these calls. The first was tried at both nodes.
fn traced(calls: Vec<RecentCall>) -> TracedRequest {
    let (pools, number) = pools();
    let trace = TraceSampling::of_millionths(1_000_000).root(RequestId(7)).unwrap();
    let mut tries = NodeTries::default();
    tries.set_trace(Some(trace));
    tries.set_calls([0]);
    tries.push((number, 0), NodeChoice::Turn);
    tries.begin(101 * MILLI);
    tries.end(TryEnd::Failed(Fault::sent(Cause::Broken)), 103 * MILLI);
    tries.push((number, 1), NodeChoice::Again);
    tries.begin(104 * MILLI);
    tries.end(TryEnd::Answered, 109 * MILLI);
    let facts = RequestFacts {
        is_batch: calls.len() > 1,
        started: 100 * MILLI,
        ..request_facts(7, Time::from_secs(1_000), 10 * MILLI)
    };
    TracedRequest {
        trace: tries.trace().unwrap().clone(),
        facts,
        is_message: false,
        calls,
        tries: tries.as_slice().to_vec(),
        pools: Arc::new(ArcSwap::from_pointee(pools)),
    }
}

fn spans(request: TracedRequest) -> Vec<SpanData> {
    let mut spans = Vec::new();
    request.write(&mut spans);
    spans
}

fn attribute(span: &SpanData, name: &str) -> Option<Value> {
    span.attributes.iter().find(|one| one.key.as_str() == name).map(|one| one.value.clone())
}

fn error(span: &SpanData) -> Option<&str> {
    if let Status::Error { description } = &span.status { Some(description) } else { None }
}

fn is_within(span: &SpanData, began: Time, ended: Time) -> bool {
    (span.start_time, span.end_time) == (span_time(began), span_time(ended))
}

#[test]
fn a_request_is_a_span_with_one_below_it_for_each_try() {
    let request = traced(vec![call("eth_call", Outcome::Answered, 200)]);
    let began = request.facts.arrival;
    let own = request.trace.context.span;
    let all = spans(request);
    let [server, first, second] = &all[..] else { panic!("{all:?}") };
    assert_eq!((server.name.as_ref(), &server.span_kind), ("eth eth_call", &SpanKind::Server));
    assert_eq!((server.parent_span_id.to_bytes(), server.parent_span_is_remote), ([0; 8], false));
    assert!(is_within(server, began, began.plus(10 * MILLI)), "{server:?}");
    assert_eq!((error(server), server.span_context.span_id().to_bytes()), (None, own.bytes()));
    for (name, value) in [
        ("rpcgate.chain", "eth".into()),
        ("rpc.method", "eth_call".into()),
        ("rpcgate.cache", "miss".into()),
        ("rpcgate.cu", 15_i64.into()),
        ("http.response.status_code", 200_i64.into()),
        ("rpcgate.request_id", RequestId(7).to_string().into()),
    ] {
        assert_eq!(attribute(server, name), Some(value), "{name}");
    }
    assert_eq!(attribute(server, "rpcgate.batch"), None);
    for span in [first, second] {
        assert_eq!((span.parent_span_id.to_bytes(), &span.span_kind), (own.bytes(), &SpanKind::Client));
        assert!(!span.parent_span_is_remote);
    }
    assert!(is_within(first, began.plus(MILLI), began.plus(3 * MILLI)), "{first:?}");
    assert_eq!(error(first), Some("connection broke before the answer was complete"));
    assert_eq!(attribute(first, "server.port"), Some(1_i64.into()));
    assert!(is_within(second, began.plus(4 * MILLI), began.plus(9 * MILLI)), "{second:?}");
    assert_eq!((error(second), attribute(second, "rpcgate.node")), (None, Some(2_i64.into())));
    assert_eq!(attribute(second, "server.address"), Some("b.example".into()));
    assert_eq!(attribute(second, "rpcgate.node_choice"), Some("again".into()));
    let text = format!("{all:?}");
    assert!(!text.contains("hunter2") && !text.contains("0123456789abcdef"), "{text}");
}

#[test]
fn calls_of_a_batch_are_events_and_the_failed_ones_are_counted() {
    let refused = call("eth_getLogs", Outcome::Refused, 429);
    let facts = CallFacts { refusal: Some(Refusal::Quota), cache: CacheUse::NotAsked, ..refused.facts };
    let refused = RecentCall { facts, ..refused };
    let all = spans(traced(vec![call("eth_call", Outcome::NodeError, 200), refused.clone()]));
    let server = &all[0];
    assert_eq!(server.name, "eth batch");
    assert_eq!(error(server), Some("1 of 2 calls were refused or failed"));
    assert_eq!((attribute(server, "rpcgate.calls"), server.events.len()), (Some(2_i64.into()), 2));
    assert_eq!(attribute(&all[1], "rpcgate.calls"), Some(1_i64.into()));
    let code = KeyValue::new("rpcgate.refusal_code", i64::from(Refusal::Quota.code()));
    assert!(server.events[1].attributes.contains(&code), "{server:?}");
    let alone = &spans(traced(vec![refused]))[0];
    assert_eq!(error(alone), Some(Refusal::Quota.message()));
    assert!(alone.events.is_empty() && alone.attributes.contains(&code));
}

#[test]
fn an_open_span_ends_with_its_request_and_one_never_begun_has_no_duration() {
    let mut request = traced(vec![call("-", Outcome::Abandoned, 499)]);
    (request.tries[0].began, request.tries[0].took) = (None, None);
    (request.tries[1].took, request.tries[1].end) = (None, TryEnd::Running);
    let began = request.facts.arrival;
    let ended = request.facts.arrival.plus(10 * MILLI);
    let all = spans(request);
    assert_eq!((all[0].name.as_ref(), error(&all[0])), ("eth", Some("the client left")));
    assert!(is_within(&all[1], began, began), "{all:?}");
    assert!(is_within(&all[2], began.plus(4 * MILLI), ended), "{all:?}");
    assert_eq!(error(&all[2]), None);
}

#[test]
fn the_address_of_a_node_is_not_that_of_another_pool() {
    let mut request = traced(vec![call("eth_call", Outcome::Answered, 200)]);
    request.tries[1].pool += 1;
    let all = spans(request);
    assert!(attribute(&all[1], "server.address").is_some());
    assert!(attribute(&all[2], "server.address").is_none());
}
