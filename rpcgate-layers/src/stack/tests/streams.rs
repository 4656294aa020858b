//! The decisions of the stacks of a stream: real handshakes and HTTP requests, and real messages.

use super::*;
use crate::call::join::join;
use crate::request::message::{Authenticated, PendingResponse};
use crate::respond::RespondLayer;
use crate::testing::ToyVariant;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::call::{Call, Calls, Entry, Opened, Payload, Served as AtServed, Settled};
use rpcgate_core::caller::{Caller, Scope};
use rpcgate_core::chain::{Chain, ChainOverrides, Dialect, Flags, Method as ChainMethod};
use rpcgate_core::reply::{Form, Reply, Source};
use rpcgate_core::stream_tally::StreamTally;
use rpcgate_core::toy::Toy;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use std::time::Duration;
use tower::{ServiceExt, service_fn, util::ServiceFn};

type Open = ServiceFn<fn(Calls<AtServed>) -> Ready<Result<Calls<AtServed>, Infallible>>>;

fn open() -> Open {
    service_fn(|calls| ready(Ok(calls)))
}

/// The end of the admission of handshakes, as a listener has it: the handshake passes its stack and begins a stream, or
/// is answered like a refused HTTP request.
#[derive(Clone)]
struct Handshakes {
    stack: HandshakeStack<Open>,
    streams: Arc<Mutex<Vec<StreamTally>>>,
}

impl<B: Send + 'static> Service<Authenticated<B>> for Handshakes {
    type Response = PendingResponse;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<PendingResponse, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Calls>::poll_ready(&mut self.stack, cx)
    }

    fn call(&mut self, request: Authenticated<B>) -> Self::Future {
        let mut tally = request.tally;
        tally.entries.push(Entry::open(Call::unread(Payload::Unread)));
        let passed = self.stack.call(Calls::new(tally));
        let streams = self.streams.clone();
        Box::pin(async move {
            let Ok(calls) = passed.await;
            Ok(match StreamTally::begin(calls.into_tally()) {
                Ok(stream) => {
                    streams.lock().push(stream);
                    let answer = PendingResponse::refused(Refusal::NoStream);
                    PendingResponse { status: StatusCode::SWITCHING_PROTOCOLS, refusal: None, ..answer }
                }
                Err(tally) => join(Calls::new(tally).at::<Settled>(), usize::MAX),
            })
        })
    }
}

struct Gateway {
    parts: Parts,
    fixture: Fixture,
    streams: Arc<Mutex<Vec<StreamTally>>>,
}

/// A response without its id.
type Seen = (StatusCode, HeaderMap, Bytes);

impl Gateway {
    fn new(fixture: Fixture) -> Self {
        Gateway { parts: fixture.parts(), fixture, streams: Arc::default() }
    }

    fn with_caller(change: impl FnOnce(&mut Caller)) -> Self {
        Gateway::new(Fixture::with_caller(change))
    }

    async fn handshake(&self, key: &str) -> Seen {
        self.handshake_at(&format!("/ws/{}", self.fixture.chain.name()), key).await
    }

    async fn handshake_at(&self, path: &str, key: &str) -> Seen {
        let handshakes =
            Handshakes { stack: handshake_stack(&self.parts, open()), streams: self.streams.clone() };
        let layer = RespondLayer::new(self.fixture.clock.clone());
        let stack = layer.layer(admission_stack(&self.parts, Entrance::WS, handshakes));
        seen(stack.oneshot(request("GET", path, key, "")).await).await
    }

    async fn http(&self, key: &str) -> Seen {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"toy_id"}"#;
        let path = format!("/{}", self.fixture.chain.name());
        seen(http_stack(&self.parts).oneshot(request("POST", &path, key, body)).await).await
    }

    async fn stream(&self) -> StreamTally {
        let (status, ..) = self.handshake(KEY).await;
        assert_eq!(status, 101);
        self.streams.lock().pop().unwrap()
    }

    /// Sends a message through the message stack. Returns the methods that reached the node, and the client's answers
    /// for the other calls.
    async fn message(&self, stream: &StreamTally, body: &str) -> (Vec<String>, Vec<String>) {
        let forward = service_fn(async |mut calls: Calls<Opened>| {
            let tally = calls.tally_mut();
            let mut forwarded = Vec::new();
            for entry in tally.entries.iter_mut().filter(|entry| entry.is_open()) {
                forwarded.push(String::from_utf8_lossy(entry.call.sent(&tally.body)).into_owned());
                let form = Form::Result(Bytes::from_static(b"1"));
                entry.state = CallState::Answered(Reply { form, from: Source::Node });
            }
            Ok::<_, Infallible>((forwarded, calls))
        });
        let calls = set(stream.message(), Bytes::copy_from_slice(body.as_bytes()));
        let Ok((forwarded, calls)) = message_stack(&self.parts, forward).oneshot(calls).await;
        let tally = calls.tally();
        let frame = |entry: &Entry| {
            let CallState::Refused(refusal) = entry.state else { return None };
            let mut text = Vec::new();
            refusal.write_frame(tally.chain.facts().dialect, entry.call.id(&tally.body), &mut text);
            Some(String::from_utf8(text).unwrap())
        };
        (forwarded, tally.entries.iter().filter_map(frame).collect())
    }

    /// Sends a message with one call of `method`, with id 7. Returns the same as `message`.
    async fn call(&self, stream: &StreamTally, method: &str) -> (Vec<String>, Vec<String>) {
        self.message(stream, &format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}"}}"#)).await
    }
}

fn request(method: &str, path: &str, key: &str, body: &str) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(path);
    if !key.is_empty() {
        request = request.header("apikey", key);
    }
    request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap()
}

async fn seen<B>(response: Result<Response<B>, Infallible>) -> Seen
where
    B: http_body::Body<Data = Bytes, Error: std::fmt::Debug>,
{
    let Ok(response) = response;
    let (head, body) = response.into_parts();
    let mut headers = head.headers;
    assert!(headers.remove("x-request-id").is_some());
    (head.status, headers, body.collect().await.unwrap().to_bytes())
}

fn error(code: i32, message: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":{code},"message":"{message}"}}}}"#)
}

/// The expected result for a call that reached the node.
fn forwarded(method: &str) -> (Vec<String>, Vec<String>) {
    (vec![method.to_owned()], vec![])
}

fn refused(answer: String) -> (Vec<String>, Vec<String>) {
    (vec![], vec![answer])
}

const CLOSED: (i32, &str) = (-32601, "method not available");
const HEAVY: (i32, &str) = (-32029, "heavy method rate limit exceeded for your plan, retry later");

// Shows (Streams): Handshake refusals use the statuses and bodies of HTTP; a handshake counts as a request of the
// windows and not as a call.
#[tokio::test]
async fn a_handshake_is_refused_with_the_status_headers_and_body_of_an_https_call() {
    let other = || Scope::Only(["other".into()].into());
    for (gateway, key, status, text) in [
        (Gateway::with_caller(|_| ()), "", 401, "No API key found in request"),
        (Gateway::with_caller(|_| ()), "guessed", 401, "Invalid authentication credentials"),
        (Gateway::with_caller(|c| c.scope = other()), KEY, 403, "API key not permitted for this chain"),
        (Gateway::with_caller(|c| c.suspended = true), KEY, 402, "account suspended"),
        (Gateway::with_caller(|c| c.plan.per_hour = 0), KEY, 429, "API rate limit exceeded"),
        (Gateway::with_caller(|c| c.quota.rps_limit = Some(0)), KEY, 429, "API rate limit exceeded"),
    ] {
        let handshake = gateway.handshake(key).await;
        let call = gateway.http(key).await;
        assert_eq!(handshake, call, "{text}");
        assert_eq!(handshake.0, status, "{text}");
        assert!(String::from_utf8_lossy(&handshake.2).starts_with(&format!("{{\"message\":\"{text}")));
        assert!(gateway.streams.lock().is_empty());
    }
}

// Shows (Streams).
#[tokio::test]
async fn a_handshake_and_an_https_call_share_the_windows_and_their_headers() {
    let gateway = Gateway::with_caller(|_| ());
    for left in (0..10_u32).rev() {
        let (status, headers, _) =
            if left % 2 == 0 { gateway.handshake(KEY).await } else { gateway.http(KEY).await };
        assert_eq!(status, if left % 2 == 0 { 101 } else { 200 });
        if left % 2 == 1 {
            assert_eq!(headers["x-ratelimit-remaining-minute"], left.to_string());
        }
    }
    let handshake = gateway.handshake(KEY).await;
    let call = gateway.http(KEY).await;
    assert_eq!(handshake, call);
    assert_eq!((handshake.0.as_u16(), &handshake.1["retry-after"]), (429, &call.1["retry-after"]));
    assert_eq!(handshake.1["x-ratelimit-remaining-minute"], "0");
    assert_eq!(handshake.1.keys().filter(|name| name.as_str().contains("ratelimit")).count(), 9);
    gateway.fixture.clock.advance(Duration::from_secs(60));
    assert_eq!(gateway.handshake(KEY).await.0, 101, "the next minute");
}

// Shows (Streams).
#[tokio::test]
async fn a_handshake_is_one_windows_request_and_no_call_and_a_refused_one_is_not_counted() {
    let gateway = Gateway::with_caller(|caller| caller.plan.per_minute = 1);
    let stream = gateway.stream().await;
    gateway.handshake(KEY).await;
    stream.end(Outcome::Answered);
    let records = gateway.fixture.sink.records();
    let lines: Vec<_> = records
        .iter()
        .map(|record| {
            let line = &record.lines[0];
            (record.phase, &*line.method, line.status, line.outcome, line.cu, record.windowed)
        })
        .collect();
    assert_eq!(
        lines,
        [
            (Phase::Begin, "WS:connect", 101, Outcome::Answered, 0, 1),
            (Phase::Begin, "-", 429, Outcome::Refused, 0, 0),
            (Phase::End, "WS:disconnect", 101, Outcome::Answered, 0, 0),
        ]
    );
    assert!(records.iter().all(|record| record.transport == Transport::Ws));
}

// Shows (Routes and bodies).
#[tokio::test]
async fn a_handshake_for_a_chain_that_is_off_is_a_request_that_is_refused_by_its_status() {
    let gateway = Gateway::new(Fixture::with_chain_off());
    let (status, headers, body) = gateway.handshake(KEY).await;
    assert_eq!(
        (status.as_u16(), &body[..]),
        (404, &br#"{"message":"chain not available at this location"}"#[..])
    );
    assert_eq!(headers["x-ratelimit-remaining-minute"], "9");
    let (unknown, headers, same) = gateway.handshake_at("/ws/unknown", KEY).await;
    assert_eq!((unknown, same), (status, body));
    assert!(!headers.contains_key("x-ratelimit-remaining-minute"), "no caller is looked up for it");
    assert_eq!(gateway.http(KEY).await.0, 200, "a JSON-RPC call is refused in its own form");
}

// Shows (WebSocket).
#[tokio::test]
async fn a_handshake_costs_nothing_and_so_needs_no_quota() {
    let gateway = Gateway::with_caller(|caller| caller.quota.cu_per_day = 0);
    let stream = gateway.stream().await;
    assert_eq!(
        gateway.call(&stream, "toy_block").await,
        forwarded("toy_block"),
        "nor does a call on a stream"
    );
}

// Shows (WebSocket): Streams are free after the handshake.
#[tokio::test]
async fn a_call_on_a_stream_is_recorded_under_its_method_free_and_outside_the_windows() {
    let gateway = Gateway::with_caller(|_| ());
    let stream = gateway.stream().await;
    for _ in 0..20 {
        assert_eq!(gateway.call(&stream, "toy_read").await, forwarded("toy_read"), "and by no cache");
    }
    let records = gateway.fixture.sink.records();
    assert_eq!(records.len(), 21);
    for record in &records[1..] {
        let line = &record.lines[0];
        assert_eq!((record.phase, record.transport, record.windowed), (Phase::Complete, Transport::Ws, 0));
        assert_eq!((&*line.method, line.cu, line.outcome), ("toy_read", 0, Outcome::Answered));
    }
    let left = gateway.http(KEY).await.1["x-ratelimit-remaining-minute"].clone();
    assert_eq!(left, "8", "one for the handshake, one for this call");
}

// Shows (Streams): A message that calls a closed, blocked or unlisted method, or exceeds the heavy budget or the pace,
// gets the JSON-RPC error and is not forwarded; a batch is decided entry by entry, in the shape of the chain's streams.
#[tokio::test]
async fn a_call_on_a_stream_refused_by_lists_or_closed_methods_does_not_reach_the_node() {
    let fixture = Fixture::with_caller(|caller| {
        caller.lists.blocked.insert(Box::from(&b"toy_read"[..]));
    });
    let blocked = ChainOverrides::default().with_blocked("toy_block");
    let more = vec![ChainMethod::new("toy_trace", 1).marked(Flags::FORBIDDEN)];
    let adapter = Arc::new(ToyVariant { facts: *Toy.facts(), more });
    let chain = Arc::new(Chain::new(adapter, blocked, true, Arc::default()));
    let gateway = Gateway::new(Fixture { chain, ..fixture });
    let stream = gateway.stream().await;
    let not_permitted = || refused(error(-32004, "method not permitted for this project"));
    for (method, expected) in [
        ("toy_read", not_permitted()),
        ("toy_block", not_permitted()),
        ("toy_trace", refused(error(-32601, "debug methods not permitted"))),
        ("admin_stop", refused(error(CLOSED.0, CLOSED.1))),
        ("toy_id", forwarded("toy_id")),
    ] {
        assert_eq!(gateway.call(&stream, method).await, expected, "{method}");
    }
    let records = gateway.fixture.sink.records();
    let refusals = records.iter().filter(|record| record.lines[0].outcome == Outcome::Refused).count();
    assert_eq!((records.len(), refusals), (6, 4));
}

// Shows (Streams).
#[tokio::test]
async fn streams_and_https_calls_share_the_heavy_budget_with_closed_heavy_methods() {
    let gateway = Gateway::with_caller(|caller| caller.plan.heavy_per_minute = 3);
    let stream = gateway.stream().await;
    let mut https = call_stack(&gateway.parts, ScriptedService::default());
    let Ok(_) = https.call(gateway.fixture.calls(br#"{"id":1,"method":"toy_scan"}"#)).await;
    assert_eq!(gateway.call(&stream, "probe_x").await, refused(error(CLOSED.0, CLOSED.1)));
    assert_eq!(gateway.call(&stream, "toy_scan").await, forwarded("toy_scan"));
    let over = refused(error(HEAVY.0, HEAVY.1));
    assert_eq!(gateway.call(&stream, "toy_scan").await, over);
    assert_eq!(gateway.call(&gateway.stream().await, "toy_scan").await, over, "on another stream too");
    gateway.fixture.clock.advance(Duration::from_secs(60));
    assert_eq!(gateway.call(&stream, "toy_scan").await, forwarded("toy_scan"), "the next minute");
}

// Shows (Streams).
#[tokio::test]
async fn one_paced_call_a_minute_passes_over_all_transports_together() {
    let more = vec![ChainMethod::new("toy_logs", 75).marked(Flags::PACED)];
    let adapter = Arc::new(ToyVariant { facts: *Toy.facts(), more });
    let gateway = Gateway::new(Fixture { chain: Arc::new(Chain::deployed(adapter)), ..Fixture::new() });
    let stream = gateway.stream().await;
    assert_eq!(gateway.call(&stream, "toy_logs").await, forwarded("toy_logs"));
    let paced = error(-32029, "Heavy method rate limit: 1/min for eth_getLogs");
    assert_eq!(gateway.call(&stream, "toy_logs").await, refused(paced));
    let mut https = call_stack(&gateway.parts, ScriptedService::default());
    let Ok(calls) = https.call(gateway.fixture.calls(br#"{"id":1,"method":"toy_logs"}"#)).await;
    assert!(matches!(calls.tally().entries[0].state, CallState::Refused(Refusal::Paced { .. })));
}

// Shows (Streams).
#[tokio::test]
async fn an_array_is_decided_entry_by_entry_and_its_refusals_are_answered_in_position() {
    let gateway = Gateway::with_caller(|caller| caller.plan.heavy_per_minute = 1);
    let stream = gateway.stream().await;
    let body = r#"[{"jsonrpc":"2.0","id":"a","method":"toy_read"},{"jsonrpc":"2.0","id":"b","method":"admin_stop"},
        {"jsonrpc":"2.0","id":"c","method":"toy_scan"},{"jsonrpc":"2.0","id":"d","method":"toy_scan"},
        {"jsonrpc":"2.0","id":"e","method":"toy_id"}]"#;
    let (forwarded, refusals) = gateway.message(&stream, body).await;
    assert_eq!(forwarded, ["toy_read", "toy_scan", "toy_id"]);
    let expected = [("b", CLOSED), ("d", HEAVY)]
        .map(|(id, (code, text))| error(code, text).replace("\"id\":7", &format!("\"id\":\"{id}\"")));
    assert_eq!(refusals, expected);
    let records = gateway.fixture.sink.records();
    let record = records.last().unwrap();
    let outcomes: Vec<_> = record.lines.iter().map(|line| line.outcome).collect();
    let answered = Outcome::Answered;
    let denied = Outcome::Refused;
    assert_eq!(outcomes, [answered, denied, answered, denied, answered]);
    let bytes: u32 = record.lines.iter().map(|line| line.bytes_in).sum();
    assert_eq!((record.windowed, bytes as usize), (0, body.len()));
}

// Shows (Streams).
#[tokio::test]
async fn a_refused_call_is_answered_in_the_form_of_the_chains_streams() {
    let facts = Toy.facts().with_dialect(Dialect::Xrp);
    let chain = Arc::new(Chain::deployed(Arc::new(ToyVariant { facts, more: Vec::new() })));
    let gateway = Gateway::new(Fixture { chain, ..Fixture::new() });
    let stream = gateway.stream().await;
    let expected = r#"{"id":7,"status":"error","type":"response","error":"noPermission","error_code":6,"error_message":"You don't have permission for this command."}"#;
    assert_eq!(gateway.call(&stream, "admin_stop").await, refused(expected.into()));
}

#[tokio::test]
async fn a_change_during_an_open_stream_applies_to_its_next_call() {
    let gateway = Gateway::with_caller(|_| ());
    let mut stream = gateway.stream().await;
    assert_eq!(gateway.call(&stream, "toy_read").await, forwarded("toy_read"));
    let mut caller = Caller::clone(&gateway.fixture.caller);
    caller.lists.blocked.insert(Box::from(&b"toy_read"[..]));
    stream.refresh(&gateway.fixture.chain, &Arc::new(caller));
    let blocked = error(-32004, "method not permitted for this project");
    assert_eq!(gateway.call(&stream, "toy_read").await, refused(blocked));
    stream.refresh(&Fixture::with_chain_off().chain, &gateway.fixture.caller);
    let off = error(-32601, "chain not available at this location");
    assert_eq!(gateway.call(&stream, "toy_read").await, refused(off));
}
