mod batched;
mod broadcast;
mod consistent;
mod dialects;
mod explained;
mod hedged;
mod limited;
mod selective;
mod stateful;
mod streamed;
mod unserved;

use super::{ReplyLimits, Upstream};
use crate::call::batch::BatchLayer;
use crate::call::cache::{BoundedReplies, CacheLayer};
use crate::call::closed::ClosedLayer;
use crate::call::join::join;
use crate::nodes::{NodeConfig, PoolLimits, Pools};
use crate::request::message::{Authenticated, PendingResponse, Target};
use crate::testing::Fixture;
use crate::testing::scripted_node::{PoolFixture, Refusing, ScriptedNode, Wire, answer};
use arc_swap::ArcSwap;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use proptest::prelude::*;
use rpcgate_core::adapter::{Adapter, NodeStatus, Permanence, Probe};
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::call::{CallState, CallView, Calls, Settled};
use rpcgate_core::chain::{Chain, Dialect, Facts, Finality, Method};
use rpcgate_core::clock::Clock;
use rpcgate_core::envelope::{Limits, ParsedBody, parse};
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::memory::{MemoryBudget, MemoryPermit};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::{Form, Reply};
use rpcgate_core::toy::Toy;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use tower_layer::Layer;
use tower_service::Service;

const TOY: Facts = Facts::json_rpc("toy", "Toy").with_final_depth(2).with_max_lag(3);

/// The toy chain with other facts.
#[derive(Debug)]
struct Variant(&'static Facts);

impl Adapter for Variant {
    fn facts(&self) -> &'static Facts {
        self.0
    }

    fn methods(&self) -> Vec<Method> {
        Toy.methods()
    }

    fn settled(&self, call: CallView<'_>, result: &[u8], finality: &Finality) -> Permanence {
        Toy.settled(call, result, finality)
    }

    fn probe(&self) -> Probe {
        Toy.probe()
    }

    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        Toy.seen(answer)
    }
}

fn variant(facts: &'static Facts) -> Fixture {
    Fixture { chain: Arc::new(Chain::deployed(Arc::new(Variant(facts)))), ..Fixture::new() }
}

fn utxo() -> Fixture {
    static FACTS: Facts = TOY.with_dialect(Dialect::Utxo);
    variant(&FACTS)
}

/// The layer over a pool, and the accounting of its callers.
struct Site {
    fixture: Fixture,
    pool: PoolFixture,
    upstream: Upstream,
}

impl Site {
    fn new(nodes: &[&ScriptedNode]) -> Self {
        Site::of(Fixture::new(), PoolFixture::new(nodes))
    }

    fn of(fixture: Fixture, pool: PoolFixture) -> Self {
        let pools: Pools = [pool.pool.clone()].into_iter().collect();
        Site { fixture, upstream: Upstream::new(Arc::new(ArcSwap::from_pointee(pools))), pool }
    }

    async fn settle(&self, body: &'static str) -> Calls<Settled> {
        let Ok(calls) = self.upstream.clone().call(self.fixture.calls(body.as_bytes())).await;
        calls
    }

    async fn states_of(&self, body: &'static str) -> Vec<String> {
        states(&self.settle(body).await)
    }

    async fn respond(&self, body: &'static str) -> PendingResponse {
        join(self.settle(body).await, usize::MAX)
    }

    async fn send(&self, body: &'static str) -> (u16, String) {
        let pending = self.respond(body).await;
        (pending.status.as_u16(), text(&pending))
    }

    /// The CU, the status and the outcome of every call so far.
    fn lines(&self) -> Vec<(u32, u16, Outcome)> {
        let records = self.fixture.sink.records();
        records.iter().flat_map(|record| &record.lines).map(|l| (l.cu, l.status, l.outcome)).collect()
    }
}

fn text(pending: &PendingResponse) -> String {
    assert!(pending.flow.is_none(), "it is streamed");
    String::from_utf8(pending.body.to_vec()).unwrap()
}

fn states<A>(calls: &Calls<A>) -> Vec<String> {
    let text = |bytes: &bytes::Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    let tell = |state: &CallState| match state {
        CallState::Answered(Reply { form: Form::Complete(whole), .. }) => {
            format!("whole {}", text(&whole.body))
        }
        CallState::Answered(Reply { form: Form::Result(result), .. }) => text(result),
        CallState::Answered(Reply { form: Form::Error(error, status), .. }) => {
            format!("{status} {}", text(error))
        }
        CallState::Answered(Reply { form: Form::Nothing, .. }) => "nothing".to_owned(),
        CallState::Failed(fault) => format!("{:?}", fault.cause),
        other => format!("{other:?}"),
    };
    calls.tally().entries.iter().map(|entry| tell(&entry.state)).collect()
}

fn bodies(node: &ScriptedNode) -> Vec<String> {
    node.seen().iter().map(|seen| seen.split_once("\r\n\r\n").unwrap().1.to_owned()).collect()
}

fn status(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} Some\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// A node that answers the calls of a request in reverse order, each with its method and parameters.
async fn echo() -> ScriptedNode {
    ScriptedNode::serve(|_, mut wire: Wire| async move {
        while let Some(request) = wire.request().await {
            wire.write(answer(&echoed(request.split_once("\r\n\r\n").unwrap().1, 0))).await;
        }
    })
    .await
}

/// The answer of an echoing node to `body`; `turn` changes the order of its replies.
fn echoed(body: &str, turn: usize) -> String {
    let reply = |call: &rpcgate_core::envelope::Envelope| {
        let of = |span: rpcgate_core::json::Span| std::str::from_utf8(span.of(body.as_bytes())).unwrap();
        if call.is_notification(body.as_bytes()) {
            return None;
        }
        let id = call.id.map_or("null", of);
        let method = call.method.text(body.as_bytes());
        Some(format!(r#"{{"id":{id},{},"jsonrpc":"2.0"}}"#, content(method, call.params.map_or("", of))))
    };
    match parse(body.as_bytes(), &Limits::default().with_batch(1_000)).unwrap() {
        ParsedBody::Single(call) => reply(&call.unwrap()).unwrap_or_default(),
        ParsedBody::Batch(calls) => {
            let mut replies: Vec<_> = calls.iter().filter_map(|call| reply(call.as_ref().unwrap())).collect();
            let len = replies.len();
            if len == 0 {
                return String::new();
            }
            replies.reverse();
            replies.rotate_left(turn % len);
            for n in (0..turn % 5).map(|n| n * 7 % len) {
                replies.swap(n, len - 1 - n);
            }
            format!("[{}]", replies.join(","))
        }
    }
}

/// The answer of an echoing node to a call: `"result":…`, or `"error":…`.
fn content(method: &str, params: &str) -> String {
    let params = if params.is_empty() { "\"none\"" } else { params };
    match method {
        "toy_fail" => format!(r#""error":{{"code":-7,"message":"no","data":{params}}}"#),
        _ => format!(r#""result":["{method}",{params}]"#),
    }
}

#[tokio::test]
async fn a_single_call_is_rewritten_under_a_number_of_the_gateways() {
    let node = echo().await;
    let site = Site::new(&[&node]);
    let body = r#" {"extra":{"a":[]},"id":"a\u0062 1","params":[1.50, 1e3],"jsonrpc":"2.0","method":"toy_sc\u0061n"} "#;
    site.send(body).await;
    site.send(r#"{"method":"x","id":{"big":12345678901234567890}}"#).await;
    site.send(r#"{"method":"x"}"#).await;
    assert_eq!(
        bodies(&node),
        [
            r#"{"jsonrpc":"2.0","id":0,"method":"toy_scan","params":[1.50, 1e3]}"#,
            r#"{"id":0,"method":"x"}"#,
            r#"{"id":0,"method":"x"}"#,
        ]
    );
}

#[tokio::test]
async fn a_shareable_call_has_only_the_method_and_params_of_its_client() {
    let node = echo().await;
    let site = Site::new(&[&node]);
    site.send(r#"{"jsonrpc":"3.0","id":{"odd":[]},"method":"toy_read","params":[1.50]}"#).await;
    site.send(r#"[{"method":"toy_read"},{"jsonrpc":7,"id":"x","method":"toy_id"}]"#).await;
    assert_eq!(
        bodies(&node),
        [
            r#"{"jsonrpc":"2.0","id":0,"method":"toy_read","params":[1.50]}"#,
            r#"[{"jsonrpc":"2.0","id":0,"method":"toy_read"},{"jsonrpc":"2.0","id":1,"method":"toy_id"}]"#,
        ]
    );
}

#[tokio::test]
async fn a_batch_is_sent_with_the_indices_of_its_calls_as_ids() {
    let node = echo().await;
    let site = Site::new(&[&node]);
    let body = r#"[{"id":"x","method":"a"},5,{"method":"b","id":"x","junk":1,"params":{"p":1.0}},{"jsonrpc":"2.0","method":"n"},{"method":"old"}]"#;
    let (status, answer) = site.send(body).await;
    assert_eq!(
        bodies(&node),
        [
            r#"[{"id":0,"method":"a"},{"id":2,"method":"b","params":{"p":1.0}},{"jsonrpc":"2.0","method":"n"},{"id":4,"method":"old"}]"#
        ]
    );
    assert_eq!(status, 200);
    assert_eq!(
        answer,
        concat!(
            r#"[{"jsonrpc":"2.0","id":"x","result":["a","none"]},"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}},"#,
            r#"{"jsonrpc":"2.0","id":"x","result":["b",{"p":1.0}]},"#,
            r#"{"jsonrpc":"2.0","id":null,"result":["old","none"]}]"#,
        )
    );
}

#[tokio::test]
async fn a_batch_with_one_call_left_is_sent_as_a_call() {
    let node = echo().await;
    let site = Site::new(&[&node]);
    assert_eq!(
        site.send(r#"[{"id":"x","method":"a"},5]"#).await.1,
        r#"[{"jsonrpc":"2.0","id":"x","result":["a","none"]},{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}}]"#
    );
    assert_eq!(bodies(&node), [r#"{"id":0,"method":"a"}"#]);
}

#[tokio::test]
async fn a_nodes_answer_to_a_single_call_keeps_all_but_the_id_which_is_the_clients() {
    for body in [
        r#"{ "jsonrpc":"2.0", "result":1.00,"id":7,"context":{"slot":1} }"#,
        r#"{"error":{"code":-32000,"message":"x"},"id":7}"#,
        r#"{"result":null,"error":null,"id":7}"#,
    ] {
        let node = ScriptedNode::always(answer(&body.replace("\"id\":7", "\"id\":0"))).await;
        for id in ["7", "\"a\\u0062\"", "{\"a\": [1.0]}", "1e3", "null", "12345678901234567890123"] {
            let call = format!(r#"{{"id":{id},"method":"a"}}"#).leak();
            let expected = body.replace("\"id\":7", &format!("\"id\":{id}"));
            assert_eq!(Site::new(&[&node]).send(call).await, (200, expected));
        }
    }
}

#[tokio::test]
async fn the_answer_to_another_call_is_not_accepted() {
    for id in ["8", "\"x\"", "77", "[7]", "7", "1", "{\"a\":0}"] {
        let node = ScriptedNode::always(answer(&format!(r#"{{"id":{id},"result":1}}"#))).await;
        let site = Site::new(&[&node]);
        let (_, body) = site.send(r#"{"id":7,"method":"toy_read"}"#).await;
        assert!(body.contains("-32603"), "{id}: {body}");
        assert_eq!(site.lines()[0].1, 200);
    }
}

#[tokio::test]
async fn an_answer_with_another_spelling_of_the_id_is_rewritten_with_the_clients() {
    for id in ["0.0", "\"0\"", "null"] {
        for (content, rebuilt) in [
            (r#""result":[1.0]"#, r#"{"jsonrpc":"2.0","id":7,"result":[1.0]}"#),
            (r#""error":{"code":3}"#, r#"{"jsonrpc":"2.0","id":7,"error":{"code":3}}"#),
        ] {
            let node = ScriptedNode::always(answer(&format!(r#"{{"id":{id},{content}}}"#))).await;
            let site = Site::new(&[&node]);
            assert_eq!(site.send(r#"{"id":7,"method":"a"}"#).await, (200, rebuilt.to_owned()), "{id}");
        }
    }
}

#[tokio::test]
async fn utxo_nodes_speak_by_status_to_single_calls_only() {
    for code in [404, 500] {
        let body = r#"{"result":null,"error":{"code":-32601},"id":1}"#;
        let node = ScriptedNode::always(status(code, &body.replace("\"id\":1", "\"id\":0"))).await;
        let site = Site::of(utxo(), PoolFixture::new(&[&node]));
        assert_eq!(site.send(r#"{"id":1,"method":"a"}"#).await, (code, body.to_owned()));
        let (status, answer) = site.send(r#"[{"id":1,"method":"a"}]"#).await;
        assert_eq!((status, answer), (200, format!("[{body}]")));
        let rebuilt = r#"{"result":null,"error":{"code":-32601},"id":"1"}"#;
        assert_eq!(
            site.send(r#"{"id":"1","method":"a"}"#).await,
            (code, rebuilt.to_owned()),
            "also when rebuilt"
        );
        assert_eq!(node.seen().len(), 3, "an answer is not asked for twice");
        let statuses: Vec<_> = site.lines().iter().map(|line| line.1).collect();
        assert_eq!(statuses, [code; 3], "usage has the status that each call would have had alone");
    }
    let node = ScriptedNode::always(status(
        500,
        r#"[{"result":5,"error":null,"id":0},{"result":null,"error":{},"id":1}]"#,
    ))
    .await;
    let site = Site::of(utxo(), PoolFixture::new(&[&node]));
    assert_eq!(
        site.send(r#"[{"id":"a","method":"a"},{"id":"b","method":"b"}]"#).await,
        (200, r#"[{"result":5,"error":null,"id":"a"},{"result":null,"error":{},"id":"b"}]"#.to_owned())
    );
}

#[tokio::test]
async fn answers_of_other_nodes_are_200_regardless_of_their_status() {
    for code in [200, 201, 400, 404, 418, 500, 502, 503] {
        let body = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"x"}}"#;
        let node = ScriptedNode::always(status(code, body)).await;
        let site = Site::new(&[&node]);
        assert_eq!(site.send(r#"{"id":0,"method":"a"}"#).await, (200, body.to_owned()), "{code}");
        // With 502 and 503 the node says that it cannot serve the call now.
        let cu = if matches!(code, 502 | 503) { 0 } else { 1 };
        assert_eq!(site.lines(), [(cu, 200, Outcome::NodeError)], "{code}");
    }
}

const GOOD: &str = r#"{"jsonrpc":"2.0","id":0,"result":1}"#;
const READ: &str = r#"{"id":0,"method":"toy_scan"}"#;
const SEND: &str = r#"{"id":0,"method":"toy_send"}"#;

/// Unusable answers to a call, and the cause of the fault of each.
fn no_answers() -> Vec<(String, Cause)> {
    let chunked =
        |end: &str| format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{{\"id\"{end}");
    vec![
        (status(401, GOOD), Cause::Status(401)),
        (status(403, GOOD), Cause::Status(403)),
        (status(429, r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32005}}"#), Cause::Status(429)),
        (status(500, ""), Cause::Status(500)),
        (status(502, "<html>bad gateway</html>"), Cause::Status(502)),
        (status(503, r#"{"message":"no upstream"}"#), Cause::Status(503)),
        (status(301, ""), Cause::Status(301)),
        (answer(""), Cause::Undecodable),
        (answer("<html>hello</html>"), Cause::Undecodable),
        (answer("{"), Cause::Undecodable),
        (answer("{}"), Cause::Undecodable),
        (answer("[]"), Cause::Undecodable),
        (answer("null"), Cause::Undecodable),
        (answer(r#"{"id":0,"error":null}"#), Cause::Undecodable),
        (answer(r#"{"id":0,"result":1,"result":2}"#), Cause::Undecodable),
        (answer(&format!("[{GOOD}]")), Cause::Undecodable),
        (answer(&format!("{GOOD} x")), Cause::Undecodable),
        (
            answer(&format!(r#"{{"id":0,"result":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000))),
            Cause::Undecodable,
        ),
        (chunked("\r\nxyz"), Cause::Broken),
        ("HTTP/1.1 200 OK\r\n\r\n{\"id\":0,\"result\":[1,".to_owned(), Cause::Undecodable),
        ("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"id\":0,\"result\":1}".to_owned(), Cause::Broken),
    ]
}

/// A node that sends `reply` once on each connection and then closes it.
async fn closing(reply: String) -> ScriptedNode {
    ScriptedNode::serve(move |_, mut wire: Wire| {
        let reply = reply.clone();
        async move {
            if wire.request().await.is_some() {
                wire.write(reply).await;
            }
        }
    })
    .await
}

#[tokio::test]
async fn an_invalid_answer_is_a_failure_and_is_not_charged() {
    for (reply, cause) in no_answers() {
        let node = closing(reply.clone()).await;
        let site = Site::new(&[&node]);
        let calls = site.settle(READ).await;
        let CallState::Failed(fault) = calls.tally().entries[0].state else {
            panic!("{reply}: {:?}", states(&calls))
        };
        assert_eq!(fault, Fault::sent(cause), "{reply}");
        assert_eq!(
            text(&join(calls, usize::MAX)),
            r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"backend request failed"}}"#
        );
        assert_eq!(site.lines(), [(0, 200, Outcome::Failed)], "{reply}");
    }
}

#[tokio::test]
async fn a_read_without_an_answer_is_sent_to_another_node() {
    for (reply, _) in no_answers() {
        let bad = closing(reply.clone()).await;
        let good = ScriptedNode::always(answer(GOOD)).await;
        let site = Site::new(&[&bad, &good]);
        for _ in 0..4 {
            assert_eq!(site.send(READ).await.1, GOOD, "{reply}");
        }
        assert!(!bad.seen().is_empty());
        assert_eq!(good.seen().len(), 4, "{reply}");
    }
}

#[tokio::test]
async fn a_broadcast_is_sent_once_regardless_of_its_outcome() {
    for (reply, _) in no_answers() {
        let bad = closing(reply.clone()).await;
        let good = ScriptedNode::always(answer(GOOD)).await;
        let site = Site::new(&[&bad, &good]);
        let mut failed = 0;
        for sent in 1..=4 {
            failed += usize::from(site.send(SEND).await.1 != GOOD);
            assert_eq!(bad.seen().len() + good.seen().len(), sent, "{reply}");
        }
        assert_eq!(failed, bad.seen().len(), "{reply}");
        assert!(failed > 0, "{reply}");
    }
}

#[tokio::test]
async fn a_broadcast_moves_on_only_when_nothing_was_sent() {
    let refusing = Refusing::new();
    let good = ScriptedNode::always(answer(GOOD)).await;
    let urls = [refusing.url(), good.url()];
    let site = Site::of(Fixture::new(), PoolFixture::with(&urls, PoolLimits::default()));
    for _ in 0..4 {
        assert_eq!(site.send(SEND).await.1, GOOD);
    }
    assert_eq!(good.seen().len(), 4);
}

#[tokio::test]
async fn an_answer_that_must_be_held_and_is_too_large_is_a_failure() {
    let long = format!(r#"{{"jsonrpc":"2.0","id":0,"result":"{}"}}"#, "x".repeat(2_000));
    let one = ScriptedNode::always(answer(&long)).await;
    let two = ScriptedNode::always(answer(&long)).await;
    let mut site = Site::new(&[&one, &two]);
    site.upstream = site.upstream.with_limits(ReplyLimits::default().with_buffer(1_000).with_max(1_000));
    for body in [r#"{"id":0,"method":"toy_read"}"#, r#"[{"id":1,"method":"a"},{"id":2,"method":"b"}]"#] {
        assert!(site.states_of(body).await.iter().all(|state| state == "Oversize"), "{body}");
    }
    assert_eq!(one.seen().len() + two.seen().len(), 2, "another node would not say less");
    site.upstream = site.upstream.with_limits(ReplyLimits::default().with_buffer(1_000).with_max(3_000));
    assert_eq!(
        site.states_of(r#"{"id":0,"method":"toy_read"}"#).await,
        [format!("\"{}\"", "x".repeat(2_000))]
    );
}

#[tokio::test]
async fn a_larger_answer_that_no_other_call_waits_for_is_streamed() {
    let long = format!(r#"{{"jsonrpc":"2.0","id":0,"result":"{}"}}"#, "x".repeat(100_000));
    let node = ScriptedNode::always(answer(&long)).await;
    let mut site = Site::new(&[&node]);
    site.upstream = site.upstream.with_limits(ReplyLimits::default().with_buffer(1_000).with_max(2_000));
    let pending = site.respond(READ).await;
    let flow = pending.flow.expect("it is too large to be held");
    assert_eq!(flow.collect().await.unwrap().to_bytes(), long);
    let long = format!(r#"<html>{}</html>"#, "x".repeat(100_000));
    let node = closing(answer(&long)).await;
    let mut site = Site::new(&[&node]);
    site.upstream = site.upstream.with_limits(ReplyLimits::default().with_buffer(1_000).with_max(2_000));
    assert_eq!(site.states_of(READ).await, ["Undecodable"], "its beginning shows that it is not an answer");
}

#[tokio::test]
async fn each_call_of_a_batch_gets_its_own_answer_of_the_node() {
    let three = r#"[{"id":"a","method":"a"},{"id":"b","method":"b"},{"jsonrpc":"2.0","method":"n"}]"#;
    let rows: [(&str, [&str; 3]); 12] = [
        (r#"[{"id":1,"result":"b"},{"id":0,"result":"a"}]"#, ["\"a\"", "\"b\"", "nothing"]),
        (r#"[{"id":0,"result":"a"}]"#, ["\"a\"", "Unanswered", "nothing"]),
        ("[]", ["Unanswered", "Unanswered", "nothing"]),
        (
            r#"[{"id":0,"result":"a"},{"id":0,"result":"c"},{"id":1,"result":"b"}]"#,
            ["Undecodable", "\"b\"", "nothing"],
        ),
        (
            r#"[{"id":0,"result":1},{"id":0,"result":2},{"id":0,"result":3},{"id":1,"result":4}]"#,
            ["Undecodable", "4", "nothing"],
        ),
        (
            r#"[{"id":7,"result":1},{"id":"0","result":2},{"id":null,"error":{}},{"result":3},{"id":0,"result":"a"},{"id":1.0,"result":4}]"#,
            ["Undecodable", "4", "nothing"],
        ),
        (
            r#"[{"id":0,"error":{"code":1}},{"id":1,"result":null}]"#,
            [r#"200 OK {"code":1}"#, "null", "nothing"],
        ),
        (r#"[{"id":0},{"id":1,"error":null}]"#, ["Undecodable", "Undecodable", "nothing"]),
        (
            r#"{"id":null,"error":{"code":-32600}}"#,
            [r#"200 OK {"code":-32600}"#, r#"200 OK {"code":-32600}"#, r#"200 OK {"code":-32600}"#],
        ),
        (r#"{"id":0,"result":1}"#, ["Undecodable", "Undecodable", "Undecodable"]),
        ("", ["Undecodable", "Undecodable", "Undecodable"]),
        ("[1,2]", ["Undecodable", "Undecodable", "Undecodable"]),
    ];
    for (reply, expected) in rows {
        let node = ScriptedNode::always(answer(reply)).await;
        assert_eq!(Site::new(&[&node]).states_of(three).await, expected, "{reply}");
    }
}

#[tokio::test]
async fn notifications_alone_need_no_answer() {
    for reply in [status(204, ""), answer(""), answer("[]"), answer(GOOD)] {
        let node = ScriptedNode::always(reply.clone()).await;
        let site = Site::new(&[&node]);
        assert_eq!(site.send(r#"{"jsonrpc":"2.0","method":"n"}"#).await, (200, String::new()), "{reply}");
        let two = r#"[{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","method":"m"}]"#;
        assert_eq!(site.send(two).await, (200, String::new()), "{reply}");
        assert_eq!(bodies(&node), [r#"{"jsonrpc":"2.0","method":"n"}"#, two]);
        assert_eq!(site.lines(), [(1, 200, Outcome::Answered); 3]);
    }
}

#[tokio::test]
async fn broadcasts_are_sent_alone_and_exactly_once() {
    let node = echo().await;
    let site = Site::new(&[&node]);
    let body = r#"[{"id":1,"method":"toy_send","params":[1]},{"id":2,"method":"a"},{"id":2,"method":"toy_send","params":[2]},{"id":4,"method":"b"}]"#;
    assert_eq!(
        site.send(body).await.1,
        concat!(
            r#"[{"jsonrpc":"2.0","id":1,"result":["toy_send",[1]]},{"jsonrpc":"2.0","id":2,"result":["a","none"]},"#,
            r#"{"jsonrpc":"2.0","id":2,"result":["toy_send",[2]]},{"jsonrpc":"2.0","id":4,"result":["b","none"]}]"#,
        )
    );
    let mut seen = bodies(&node);
    seen.sort_unstable();
    assert_eq!(
        seen,
        [
            r#"[{"id":1,"method":"a"},{"id":3,"method":"b"}]"#,
            r#"{"id":0,"method":"toy_send","params":[1]}"#,
            r#"{"id":2,"method":"toy_send","params":[2]}"#,
        ]
    );
}

#[tokio::test]
async fn a_batch_is_split_by_the_limit_of_the_strictest_node() {
    let node = echo().await;
    let config = |max_batch| NodeConfig { max_batch, ..NodeConfig::new(node.url().parse().unwrap()) };
    let five = r#"[{"id":1,"method":"a"},{"id":2,"method":"b"},{"id":3,"method":"c"},{"id":4,"method":"d"},{"id":5,"method":"e"}]"#;
    for (most, sizes) in
        [(Some(2), vec![1, 2, 2]), (Some(1), vec![1; 5]), (Some(0), vec![1; 5]), (Some(9), vec![5])]
    {
        let before = node.seen().len();
        let nodes = vec![config(Some(50)), config(most), config(None)];
        let site = Site::of(Fixture::new(), PoolFixture::of(nodes, PoolLimits::default()));
        let names = ["a", "b", "c", "d", "e"].map(|name| format!(r#"["{name}","none"]"#));
        assert_eq!(site.states_of(five).await, names, "{most:?}");
        let seen = bodies(&node).split_off(before);
        let mut seen: Vec<_> = seen.iter().map(|body| body.matches("\"method\"").count()).collect();
        seen.sort_unstable();
        assert_eq!(seen, sizes, "{most:?}");
    }
}

#[tokio::test]
async fn calls_to_a_chain_without_batches_are_sent_one_by_one() {
    static FACTS: Facts = TOY.with_batch(false);
    let node = echo().await;
    let site = Site::of(variant(&FACTS), PoolFixture::new(&[&node]));
    assert_eq!(
        site.states_of(r#"[{"id":1,"method":"a"},{"id":1,"method":"b"}]"#).await,
        [r#"["a","none"]"#, r#"["b","none"]"#]
    );
    let mut seen = bodies(&node);
    seen.sort_unstable();
    assert_eq!(seen, [r#"{"id":0,"method":"a"}"#, r#"{"id":1,"method":"b"}"#]);
}

#[tokio::test]
async fn too_many_calls_in_flight_or_no_memory_is_overload() {
    let node = ScriptedNode::always(answer(GOOD)).await;
    let limits = PoolLimits { in_flight: 0, ..PoolLimits::default() };
    let site = Site::of(Fixture::new(), PoolFixture::with(&[node.url()], limits));
    let pending = site.respond(READ).await;
    assert_eq!((pending.status.as_u16(), pending.refusal), (503, Some(Refusal::Overloaded)));
    drop(pending);
    assert_eq!(site.lines(), [(0, 503, Outcome::Refused)]);
    assert!(node.seen().is_empty());

    let site = Site::new(&[&node]);
    let memory = MemoryBudget::new(10);
    let mut calls = site.fixture.calls(READ.as_bytes());
    calls.tally_mut().memory = MemoryPermit::of(memory.clone());
    let Ok(calls) = site.upstream.clone().call(calls).await;
    assert!(matches!(calls.tally().entries[0].state, CallState::Refused(Refusal::Overloaded)));
    drop(calls);
    assert_eq!(memory.held(), 0);
}

#[tokio::test]
async fn a_chain_without_nodes_fails_its_calls() {
    let none = Upstream::new(Arc::default());
    let empty = Site::of(Fixture::new(), PoolFixture::of(vec![], PoolLimits::default())).upstream;
    for mut upstream in [none, empty] {
        let fixture = Fixture::new();
        let Ok(calls) =
            upstream.call(fixture.calls(br#"[{"id":1,"method":"a"},5,{"id":2,"method":"toy_send"}]"#)).await;
        let states: Vec<_> = calls.tally().entries.iter().map(|entry| &entry.state).collect();
        for state in [states[0], states[2]] {
            assert!(
                matches!(state, CallState::Failed(fault) if *fault == Fault::unsent(Cause::NoNode)),
                "{state:?}"
            );
        }
        assert!(matches!(states[1], CallState::Refused(Refusal::InvalidRequest)));
    }
}

#[tokio::test]
async fn pools_may_be_replaced_while_the_layer_is_in_use() {
    let node = ScriptedNode::always(answer(GOOD)).await;
    let pools: Arc<ArcSwap<Pools>> = Arc::default();
    let mut upstream = Upstream::new(pools.clone());
    let fixture = PoolFixture::new(&[&node]);
    pools.store(Arc::new([fixture.pool.clone()].into_iter().collect()));
    let Ok(calls) = upstream.call(Fixture::new().calls(READ.as_bytes())).await;
    assert_eq!(states(&calls), [format!("whole {GOOD}")]);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn only_headers_that_the_chain_names_pass_from_a_node() {
    let reply = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nserver: node/1\r\nset-cookie: a=b\r\nset-cookie: c=d\r\n\
         access-control-allow-origin: https://x\r\naccess-control-allow-credentials: true\r\nconnection: x-hop\r\n\
         x-hop: 1\r\nkeep-alive: timeout=9\r\nx-ratelimit-limit-minute: 1\r\nratelimit-reset: 1\r\nretry-after: 9\r\n\
         x-request-id: theirs\r\nx-cache: HIT\r\nx-compute-units: 9\r\nvary: origin\r\nwww-authenticate: Basic\r\n\
         content-type: text/plain\r\ndate: x\r\nx-toy-height: a\r\nx-toy-height: b\r\netag: \"e\"\r\n\
         strict-transport-security: max-age=1\r\nalt-svc: h3\r\nlocation: /\r\ncache-control: public\r\n\r\n{GOOD}",
        GOOD.len()
    );
    let node = ScriptedNode::always(reply).await;
    let pending = Site::new(&[&node]).respond(READ).await;
    let mut passed: Vec<_> =
        pending.headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    passed.sort_unstable();
    assert!(pending.is_json);
    assert_eq!(passed, ["x-toy-height: a", "x-toy-height: b"]);
}

#[tokio::test]
async fn a_compressed_answer_is_passed_on_as_it_was_before() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(GOOD.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let head = |length: usize| {
        format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {length}\r\n\r\n").into_bytes()
    };
    let node = ScriptedNode::always([head(gzip.len()), gzip.clone()].concat()).await;
    let pending = Site::new(&[&node]).respond(READ).await;
    assert_eq!(text(&pending), GOOD);
    assert!(!pending.headers.contains_key("content-encoding"));
    let cut = ScriptedNode::always([head(gzip.len() - 3), gzip[..gzip.len() - 3].to_vec()].concat()).await;
    assert_eq!(Site::new(&[&cut]).states_of(READ).await, ["Undecodable"]);
}

#[tokio::test]
async fn calls_are_charged_when_a_node_answered_them() {
    let node =
        ScriptedNode::always(answer(r#"[{"id":0,"result":1},{"id":1,"error":{"code":1}},{"id":2}]"#)).await;
    let site = Site::new(&[&node]);
    let body = r#"[{"id":1,"method":"toy_scan"},{"id":2,"method":"toy_read"},{"id":3,"method":"toy_block"},{"id":4,"method":"toy_scan"},{}]"#;
    let pending = site.respond(body).await;
    assert_eq!(pending.tally.as_ref().unwrap().charged(), 80);
    drop(pending);
    assert_eq!(
        site.lines(),
        [
            (75, 200, Outcome::Answered),
            (5, 200, Outcome::NodeError),
            (0, 200, Outcome::Failed),
            (0, 200, Outcome::Failed),
            (0, 400, Outcome::Refused),
        ]
    );
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_client_that_leaves_is_charged_for_sent_calls_and_holds_no_memory() {
    let node = ScriptedNode::serve(|_, mut wire: Wire| async move {
        wire.request().await;
        wire.write("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"id\":1,").await;
        wire.closed().await;
        wire.note("gone");
    })
    .await;
    let site = Site::new(&[&node]);
    let memory = MemoryBudget::new(1 << 20);
    let mut calls = site.fixture.calls(br#"[{"id":1,"method":"toy_scan"},7,{"id":2,"method":"toy_read"}]"#);
    let tally = calls.tally_mut();
    tally.memory = MemoryPermit::of(memory.clone());
    tally.memory.take(100).unwrap();
    let mut upstream = site.upstream.clone();
    let mut pending_call = upstream.call(calls);
    let wait = async {
        while memory.held() <= 100 {
            assert!((&mut pending_call).now_or_never().is_none());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("the node's first bytes come");
    assert_eq!(site.pool.pool.in_flight(), 1);
    drop(pending_call);
    assert_eq!((memory.held(), site.pool.pool.in_flight()), (0, 0));
    assert_eq!(
        site.lines(),
        [(75, 499, Outcome::Abandoned), (0, 400, Outcome::Refused), (5, 499, Outcome::Abandoned)]
    );
    site.pool.until(|_| node.seen().last().is_some_and(|last| last == "gone")).await;
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_client_that_leaves_a_batch_is_charged_for_answered_calls_too() {
    let node = ScriptedNode::serve(|_, mut wire: Wire| async move {
        if wire.request().await.is_some_and(|request| request.contains("toy_scan")) {
            wire.write(&answer(r#"[{"id":0,"result":1},{"id":1,"result":2}]"#)).await;
        }
        wire.closed().await;
    })
    .await;
    let site = Site::new(&[&node]);
    let calls = r#"[{"id":1,"method":"toy_scan"},{"id":2,"method":"toy_read"},{"id":3,"method":"toy_send"}]"#;
    let mut upstream = site.upstream.clone();
    let mut pending_call = upstream.call(site.fixture.calls(calls.as_bytes()));
    for under_way in [2, 1] {
        let wait = async {
            while site.pool.pool.in_flight() != under_way {
                assert!((&mut pending_call).now_or_never().is_none());
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), wait).await.expect("the node answers the first two");
    }
    drop(pending_call);
    assert!(site.lines().iter().all(|line| line.0 > 0 && line.2 == Outcome::Abandoned), "{:?}", site.lines());
}

// Shows (Nodes and cache): A call is charged if a byte of it was written to a node, or if the cache answered (promise
// 64).
#[tokio::test]
async fn a_client_that_leaves_before_there_is_a_connection_is_not_charged() {
    // The node accepts and sends nothing, so the handshake never ends.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://127.0.0.1:{}", listener.local_addr().unwrap().port());
    for body in [
        r#"{"id":1,"method":"toy_scan"}"#,
        r#"[{"id":1,"method":"toy_scan"},{"id":2,"method":"toy_send"},{"id":3,"method":"toy_read"}]"#,
    ] {
        let limits = PoolLimits { connect: Duration::from_secs(20), ..PoolLimits::default() };
        let site = Site::of(Fixture::new(), PoolFixture::with(std::slice::from_ref(&url), limits));
        let mut upstream = site.upstream.clone();
        let mut pending_call = upstream.call(site.fixture.calls(body.as_bytes()));
        for _ in 0..20 {
            assert!((&mut pending_call).now_or_never().is_none());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(pending_call);
        assert!(site.lines().iter().all(|line| *line == (0, 499, Outcome::Abandoned)), "{:?}", site.lines());
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn retries_after_bad_answers_end_with_their_reserve_too() {
    for head in
        ["HTTP/1.1 502 Bad\r\ncontent-length: 2\r\n\r\noh", "HTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\n"]
    {
        let one = ScriptedNode::always(head.to_owned()).await;
        let two = ScriptedNode::always(head.to_owned()).await;
        let site = Site::new(&[&one, &two]);
        for _ in 0..200 {
            site.settle(READ).await;
        }
        assert_eq!(
            one.seen().len() + two.seen().len(),
            200 + 30 + 20,
            "thirty in reserve, and one for ten calls"
        );
    }
}

#[tokio::test]
async fn a_broken_connection_and_a_bad_answer_use_up_the_same_tries() {
    let bad = || closing(status(502, "oh"));
    let silent = || closing(String::new());
    let nodes = [bad().await, silent().await, bad().await, silent().await];
    let site = Site::new(&nodes.iter().collect::<Vec<_>>());
    for calls in 1..=8 {
        let settled = site.settle(READ).await;
        assert!(matches!(settled.tally().entries[0].state, CallState::Failed(Fault { sent: true, .. })));
        assert_eq!(nodes.iter().map(|node| node.seen().len()).sum::<usize>(), 2 * calls);
    }
}

// Shows (Nodes and cache).
#[tokio::test(start_paused = true)]
async fn a_call_has_one_deadline_over_all_its_tries() {
    let late = ScriptedNode::serve(|_, mut wire: Wire| async move {
        while wire.request().await.is_some() {
            wire.note("asked");
            tokio::time::sleep(Duration::from_secs(20)).await;
            wire.write("HTTP/1.1 502 Bad\r\ncontent-length: 2\r\n\r\noh").await;
        }
    });
    let one = late.await;
    let two = silent().await;
    let limits = PoolLimits::default();
    let pool = PoolFixture::with(&[one.url(), two.url()], limits);
    let site = Site::of(Fixture::new(), pool);
    // Either may come first. The late one is abandoned, and the other gets the rest of the time.
    for _ in 0..2 {
        let began = tokio::time::Instant::now();
        let clock = site.pool.clock.clone();
        let ticking = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                clock.advance(Duration::from_millis(100));
            }
        });
        site.settle(READ).await;
        ticking.abort();
        let took = began.elapsed();
        assert!(took <= limits.retry.deadline + Duration::from_millis(100), "{took:?}");
    }
}

/// A node that takes requests and never answers.
async fn silent() -> ScriptedNode {
    ScriptedNode::serve(|_, mut wire: Wire| async move {
        wire.request().await;
        wire.closed().await;
    })
    .await
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_call_that_has_waited_for_another_has_the_rest_of_its_time() {
    let node = ScriptedNode::always(answer(GOOD)).await;
    let site = Site::new(&[&node]);
    let mut calls = site.fixture.calls(READ.as_bytes());
    calls.tally_mut().deadline = Some(site.pool.clock.elapsed());
    let Ok(calls) = site.upstream.clone().call(calls).await;
    assert!(matches!(
        calls.tally().entries[0].state,
        CallState::Failed(Fault { cause: Cause::Timeout, sent: false })
    ));
    assert!(node.seen().is_empty());
}

/// One item of a batch, and its answer, which a notification does not have.
#[derive(Clone, Debug)]
struct Asked {
    text: String,
    answer: Option<String>,
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0..4_u32).prop_map(|n| n.to_string()),
        1 => "[a-z\\\\\" ]{0,6}".prop_map(|text| format!("{text:?}")),
        1 => prop::sample::select(vec![
            "null", "1.0", "-0", "1e3", "12345678901234567890123", "true", "[1, 2]", "{\"id\": 0}", "\"\\u0031\"", "\"\"",
        ]).prop_map(str::to_owned),
    ]
}

fn asked() -> impl Strategy<Value = Asked> {
    let method = prop::sample::select(vec![
        "toy_id",
        "toy_read",
        "toy_read",
        "toy_block",
        "toy_scan",
        "toy_fail",
        "other",
        "admin_stop",
        "toy_send",
    ]);
    let params =
        prop::sample::select(vec!["", "[1]", "[1 ]", "[2]", "{\"a\":[1.50]}", "[\"x\",null]", "\"p\"", "0"]);
    let member = |name: &str, value: &str| {
        if value.is_empty() { String::new() } else { format!(",\"{name}\":{value}") }
    };
    let call = (id(), method.clone(), params.clone()).prop_map(move |(id, method, params)| {
        let text =
            format!(r#"{{"jsonrpc":"2.0","method":"{method}","id":{id}{}}}"#, member("params", params));
        Asked { text, answer: Some(answered(&id, method, params)) }
    });
    let old = (method.clone(), params.clone()).prop_map(move |(method, params)| {
        let text = format!(r#"{{"method":"{method}"{}}}"#, member("params", params));
        Asked { text, answer: Some(answered("null", method, params)) }
    });
    let notification = (method, params).prop_map(move |(method, params)| {
        let text = format!(r#"{{"jsonrpc":"2.0","method":"{method}"{}}}"#, member("params", params));
        Asked { text, answer: None }
    });
    let bad = prop_oneof![
        prop::sample::select(vec!["5", "\"x\"", "null", "[]", "[{\"id\":1,\"method\":\"toy_id\"}]", "{}"])
            .prop_map(|text| (text.to_owned(), "null".to_owned())),
        id().prop_map(|id| (format!(r#"{{"id":{id},"Method":"toy_id"}}"#), id)),
        id().prop_map(|id| (format!(r#"{{"id":{id},"method":5}}"#), id)),
    ];
    let bad = bad.prop_map(|(text, id)| {
        let answer =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32600,"message":"invalid request"}}}}"#);
        Asked { text, answer: Some(answer) }
    });
    prop_oneof![8 => call, 1 => old, 1 => notification, 1 => bad]
}

fn answered(id: &str, method: &str, params: &str) -> String {
    if method == "admin_stop" {
        let mut out = Vec::new();
        Refusal::Closed.write_item(Dialect::JsonRpc2, Some(id.as_bytes()), &mut out);
        return String::from_utf8(out).unwrap();
    }
    // White space between the tokens of an answer that is cached or shared is dropped.
    let is_kept = Chain::deployed(Arc::new(Toy)).look_up(method).rule.cache.is_cached();
    let params = if is_kept { params.replace(' ', "") } else { params.to_owned() };
    format!(r#"{{"jsonrpc":"2.0","id":{id},{}}}"#, content(method, &params))
}

#[test]
fn every_item_of_a_batch_gets_its_own_answer_in_position() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let node = runtime.block_on(ScriptedNode::serve(|connection, mut wire: Wire| async move {
        let mut turn = connection;
        while let Some(request) = wire.request().await {
            turn += 1;
            wire.write(answer(&echoed(request.split_once("\r\n\r\n").unwrap().1, turn))).await;
        }
    }));
    let items = prop_oneof![prop::collection::vec(asked(), 1..=4), prop::collection::vec(asked(), 1..=100)];
    let cases = ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() };
    proptest!(cases, |(items in items, most in prop::sample::select(vec![None, Some(1), Some(2), Some(7)]))| {
        let body = format!("[{}]", items.iter().map(|item| &*item.text).collect::<Vec<_>>().join(" ,"));
        let answers: Vec<_> = items.iter().filter_map(|item| item.answer.as_deref()).collect();
        let expected = if answers.is_empty() { String::new() } else { format!("[{}]", answers.join(",")) };
        let (first, second, lines) = runtime.block_on(async {
            let config = NodeConfig { max_batch: most, ..NodeConfig::new(node.url().parse().unwrap()) };
            let site = Site::of(Fixture::new(), PoolFixture::of(vec![config], PoolLimits::default()));
            let cache = CacheLayer::new(Arc::new(BoundedReplies::new(1 << 20)), site.fixture.clock.clone());
            let mut stack = BatchLayer::new().layer(ClosedLayer::new().layer(cache.layer(site.upstream.clone())));
            let mut send = async || {
                let request = http::Request::new(http_body_util::Full::new(bytes::Bytes::from(body.clone())));
                let Ok(pending) = stack.call(Authenticated { request: Box::new(request), target: Target::JsonRpc, tally: site.fixture.tally() }).await;
                text(&pending)
            };
            (send().await, send().await, site.lines().len())
        });
        prop_assert_eq!(&first, &expected, "asked: {}", body);
        prop_assert_eq!(&second, &expected, "asked again, some of it from the cache: {}", body);
        prop_assert_eq!(lines, 2 * items.len());
    });
}
