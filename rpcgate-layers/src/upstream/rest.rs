//! REST calls to the nodes.
//!
//! A node's HTTP status is part of its answer and is forwarded. Unusable are answers that come from the way to the node
//! and not from the chain: a redirection, a rejection of the gateway itself, a 5xx without JSON, and a success with an
//! HTML page or truncated JSON. A 4xx without a usable body means that the chain's API does not have the requested
//! resource. Another node would say the same, so the status is forwarded with a body of the gateway's own: pages of a
//! node's proxy are not shown. If a truncation shows only while an answer is streamed, the client's stream ends with an
//! error.

use super::classify::{ErrorJudge, strip};
use super::connection_status::is_about_connection;
use super::limits::ReplyLimits;
use super::round::{Round, unanswered};
use super::streamed_answer::StreamedAnswer;
use crate::call::rest::sent;
use crate::nodes::Pool;
use crate::nodes::reception::ReceptionReader;
use crate::nodes::transport_health::{Judged, Verdict};
use crate::transport::h1::answer::unusable_body;
use crate::transport::h1::{AnswerBody, NodeAnswer, NodeRequest};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use rpcgate_core::adapter::{Adapter, NodeError};
use rpcgate_core::call::{CallState, Payload};
use rpcgate_core::chain::Flags;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::json::{Cursor, DEEPEST};
use rpcgate_core::reply::{Form, Reply, Rest, Source, Streamed};
use rpcgate_core::tally::Tally;

pub(super) async fn forward(pool: &Pool, tally: &mut Tally, limits: ReplyLimits, round: Round) {
    let Some(entry) = tally.entries.first_mut() else { return };
    if !entry.is_open() {
        return;
    }
    let among = round.takers(pool, &entry.call, &tally.body);
    let Payload::Rest(call) = &entry.call.payload else { return };
    let is_held = entry.call.rule.cache.is_cached();
    let is_broadcast = entry.call.rule.flags.has(Flags::BROADCAST);
    let request = NodeRequest {
        method: call.verb().clone(),
        path: Some(call.target().clone()),
        headers: call.headers().clone(),
        broadcast: is_broadcast,
        buffer: limits.buffer(is_held),
        max: limits.max,
        among,
        reader: (is_broadcast && pool.has_broadcasts_to_several())
            .then(|| ReceptionReader { chain: tally.chain.clone(), is_rest: true }),
        choice: round.choice,
        method_name: entry.call.metered,
        hedge: if is_broadcast || round.choice.is_some() {
            None
        } else {
            Some(entry.call.metered.unwrap_or_default())
        },
        ..NodeRequest::json_rpc(sent(call, &tally.body))
    };
    let is_bodiless = *call.verb() == Method::HEAD;
    let mut memory = tally.memory.sibling();
    let chain = tally.chain.clone();
    let mut on_sent = |is_sent| {
        entry.state = if is_sent || round.was_sent { CallState::Sent } else { CallState::Open };
    };
    let is_listed = entry.call.metered.is_some();
    let judge = ErrorJudge { adapter: chain.adapter(), is_listed };
    let classify = |answer| RestAnswer::classify(answer, judge, is_bodiless, is_held, &limits);
    tally.tries.set_calls([0]);
    let answer = pool
        .ask_classified(&request, tally.deadline, &mut memory, (&mut on_sent, &mut tally.tries), classify)
        .await;
    tally.memory.absorb(memory);
    if let Some(entry) = tally.entries.first_mut() {
        entry.state = match answer {
            Ok(RestAnswer { form, verdict: Verdict::Unserved(_) }) => {
                CallState::Answered(Reply { form, from: Source::Unserved })
            }
            Ok(RestAnswer { form, .. }) => CallState::Answered(Reply { form, from: Source::Node }),
            Err(error) => unanswered(error),
        };
    }
}

/// A usable answer of a node to a REST call, and its verdict about the node.
struct RestAnswer {
    form: Form,
    verdict: Verdict,
}

impl Judged for RestAnswer {
    fn verdict(&self) -> Verdict {
        self.verdict
    }
}

impl RestAnswer {
    fn classify(
        answer: NodeAnswer,
        judge: ErrorJudge<'_>,
        is_bodiless: bool,
        is_held: bool,
        limits: &ReplyLimits,
    ) -> Result<Self, Fault> {
        let form = classify(answer, judge.adapter, is_bodiless, is_held, limits)?;
        let verdict = match &form {
            Form::Rest(rest) if rest.is_error => {
                let error = NodeError {
                    answer: &rest.body,
                    status: rest.status.as_u16(),
                    is_listed: judge.is_listed,
                };
                judge.adapter.cannot_serve(&error).map_or(Verdict::Neutral, Verdict::Unserved)
            }
            Form::Stream(streamed) if streamed.is_error => Verdict::Neutral,
            _ => Verdict::Usable,
        };
        Ok(RestAnswer { form, verdict })
    }
}

fn classify(
    answer: NodeAnswer,
    adapter: &dyn Adapter,
    is_bodiless: bool,
    is_held: bool,
    limits: &ReplyLimits,
) -> Result<Form, Fault> {
    if answer.rejects_the_gateway() {
        return Err(Fault::sent(Cause::Status(answer.status.as_u16())));
    }
    let NodeAnswer { status, mut headers, body, framed, .. } = answer;
    // The path led outside the chain's API, which says nothing about the node.
    let elsewhere =
        || if status.is_server_error() { unusable_body(status) } else { Fault::sent(Cause::Unanswered) };
    if status.is_redirection() || status.is_informational() || is_about_connection(status) {
        return Err(elsewhere());
    }
    let kind = Kind::of(&headers);
    let content_type = headers.get(CONTENT_TYPE).cloned();
    if kind == Kind::Page {
        return if status.is_client_error() {
            Ok(status_alone(status, is_bodiless))
        } else {
            Err(elsewhere())
        };
    }
    strip(&mut headers, adapter);
    if let Some(value) = content_type {
        headers.insert(CONTENT_TYPE, value);
    }
    match body {
        AnswerBody::Complete(body) => {
            let is_json = || {
                let mut cursor = Cursor::new(&body, DEEPEST);
                cursor.value().and_then(|_| cursor.end()).is_ok()
            };
            let is_complete = is_bodiless
                || match kind {
                    // An empty answer counts if it declares its length.
                    Kind::Json => (body.is_empty() && framed && status.is_success()) || is_json(),
                    _ if status.is_server_error() || !framed => is_json(),
                    _ => true,
                };
            if !is_complete {
                return if status.is_client_error() {
                    Ok(status_alone(status, is_bodiless))
                } else {
                    Err(unusable_body(status))
                };
            }
            let is_error = status.is_client_error() || status.is_server_error() || adapter.is_error(&body);
            Ok(Form::Rest(Box::new(Rest { status, headers, body, is_error })))
        }
        AnswerBody::Larger { .. } if is_held => Err(Fault::sent(Cause::Oversize)),
        AnswerBody::Larger { .. } if status.is_server_error() => Err(unusable_body(status)),
        AnswerBody::Larger { prefix, rest } => {
            let flow = StreamedAnswer::rest(prefix, rest, kind == Kind::Json, limits)?;
            let streamed = Streamed::new(status, headers, status.is_client_error(), flow);
            Ok(Form::Stream(Box::new(streamed)))
        }
    }
}

/// Returns an answer that has only this status of the node.
fn status_alone(status: StatusCode, is_bodiless: bool) -> Form {
    let reason = status.canonical_reason().unwrap_or("client error").to_lowercase();
    let body = if is_bodiless { Bytes::new() } else { format!(r#"{{"message":"{reason}"}}"#).into() };
    let headers = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))].into_iter().collect();
    Form::Rest(Box::new(Rest { status, headers, body, is_error: true }))
}

/// The type of an answer, as the node declares it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Json,
    /// HTML: proxies send it, but no node's API.
    Page,
    Other,
}

impl Kind {
    fn of(headers: &HeaderMap) -> Self {
        let Some(value) = headers.get(CONTENT_TYPE) else { return Kind::Other };
        if value == "application/json" {
            return Kind::Json;
        }
        let value = value.to_str().unwrap_or_default();
        let essence = value.split(';').next().unwrap_or_default().trim();
        let is = |name: &str| essence.eq_ignore_ascii_case(name);
        let ending = essence.len().checked_sub("+json".len()).and_then(|at| essence.get(at..));
        if is("application/json") || ending.is_some_and(|ending| ending.eq_ignore_ascii_case("+json")) {
            Kind::Json
        } else if is("text/html") || is("application/xhtml+xml") {
            Kind::Page
        } else {
            Kind::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::call::batch::BatchLayer;
    use crate::call::cache::{BoundedReplies, CacheLayer};
    use crate::nodes::Pools;
    use crate::request::message::{Authenticated, PendingResponse, Target};
    use crate::testing::Fixture;
    use crate::testing::scripted_node::{PoolFixture, ScriptedNode};
    use crate::upstream::{ReplyLimits, Upstream};
    use arc_swap::ArcSwap;
    use http_body_util::{BodyExt, Full};
    use rpcgate_core::adapter::{Adapter, KeySources, NodeStatus, Permanence, Probe};
    use rpcgate_core::backend::usage_sink::Outcome;
    use rpcgate_core::cache_rule::CacheRule;
    use rpcgate_core::call::CallView;
    use rpcgate_core::chain::{Chain, Facts, Finality, Flags, Method};
    use rpcgate_core::rest::Path;
    use std::sync::Arc;
    use tower_layer::Layer;
    use tower_service::Service;

    /// A chain whose calls are paths: `stock` is cached for 2 s, `order` is a broadcast.
    #[derive(Debug)]
    struct Depot;

    impl Adapter for Depot {
        fn facts(&self) -> &'static Facts {
            static FACTS: Facts = Facts::rest("toy", "Depot").with_max_lag(3);
            &FACTS
        }

        fn methods(&self) -> Vec<Method> {
            vec![
                Method::new("stock", 5).cached(CacheRule::secs(2)),
                Method::new("order", 20).marked(Flags::BROADCAST),
            ]
        }

        fn is_error(&self, answer: &[u8]) -> bool {
            answer.starts_with(b"{\"sorry\"")
        }

        fn reply_headers(&self) -> &'static [&'static str] {
            &["x-node"]
        }

        fn key_sources(&self) -> KeySources {
            KeySources::default().with_query("pass")
        }

        fn settled(&self, _: CallView<'_>, _: &[u8], _: &Finality) -> Permanence {
            Permanence::Yes
        }

        fn probe(&self) -> Probe {
            Probe::Rest { target: "/height", body: None }
        }

        fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
            std::str::from_utf8(answer).ok()?.parse().ok().map(NodeStatus::at)
        }
    }

    struct Site {
        fixture: Fixture,
        upstream: Upstream,
        cache: CacheLayer,
    }

    impl Site {
        fn new(nodes: &[&ScriptedNode]) -> Self {
            let fixture = Fixture { chain: Arc::new(Chain::deployed(Arc::new(Depot))), ..Fixture::new() };
            let pools: Pools = [PoolFixture::new(nodes).pool].into_iter().collect();
            let limits = ReplyLimits::default().with_buffer(16 << 10).with_max(64 << 10);
            let upstream = Upstream::new(Arc::new(ArcSwap::from_pointee(pools))).with_limits(limits);
            let cache = CacheLayer::new(Arc::new(BoundedReplies::new(1 << 20)), fixture.clock.clone());
            Site { fixture, upstream, cache }
        }

        async fn send(&self, verb: &str, target: &str, body: &'static str) -> PendingResponse {
            let uri: http::Uri = target.parse().unwrap();
            let path = Path::canonical(uri.path()).unwrap();
            let request = http::Request::builder()
                .method(verb)
                .uri(uri)
                .header("accept", "application/json")
                .header("apikey", "secret")
                .header("x-other", "1")
                .body(Full::new(bytes::Bytes::from(body)))
                .unwrap();
            let mut stack = BatchLayer::new().layer(self.cache.layer(self.upstream.clone()));
            let known = Authenticated {
                request: Box::new(request),
                target: Target::Rest(path),
                tally: self.fixture.tally(),
            };
            let Ok(pending) = stack.call(known).await;
            pending
        }

        async fn response(&self, verb: &str, target: &str, body: &'static str) -> (u16, String) {
            let PendingResponse { status, body, flow, .. } = self.send(verb, target, body).await;
            let body = match flow {
                Some(flow) => flow.collect().await.unwrap().to_bytes(),
                None => body,
            };
            (status.as_u16(), String::from_utf8(body.to_vec()).unwrap())
        }

        fn lines(&self) -> Vec<(String, u32, u16, Outcome)> {
            let records = self.fixture.sink.records();
            let lines = records.iter().flat_map(|record| &record.lines);
            lines.map(|line| (line.method.clone(), line.cu, line.status, line.outcome)).collect()
        }
    }

    fn answer(head: &str, body: &str) -> String {
        format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    const JSON: &str = "200 OK\r\ncontent-type: application/json; charset=utf-8\r\nx-node: 7\r\nserver: n";

    #[tokio::test]
    async fn a_node_gets_verb_path_query_and_body_and_neither_key_nor_strange_headers() {
        let node = ScriptedNode::always(answer(JSON, "{}")).await;
        let site = Site::new(&[&node]);
        assert_eq!(
            site.response("POST", "/a/%62?pass=k&x=%2F&apikey=k&y", "plain text").await,
            (200, "{}".into())
        );
        assert_eq!(site.response("GET", "/c", "dropped").await.0, 200);
        let seen = node.seen();
        assert!(seen[0].starts_with("POST /a/b?x=%2F&y HTTP/1.1\r\n"), "{}", seen[0]);
        assert!(seen[0].ends_with("\r\n\r\nplain text") && seen[0].contains("accept: application/json\r\n"));
        assert!(!seen[0].contains("secret") && !seen[0].contains("x-other"), "{}", seen[0]);
        assert!(seen[1].starts_with("GET /c HTTP/1.1\r\n") && seen[1].ends_with("\r\n\r\n"), "{}", seen[1]);
        let rows = ["b", "c"].map(|name| (name.to_owned(), 1, 200, Outcome::Answered));
        assert_eq!(site.lines(), rows);
    }

    #[tokio::test]
    async fn status_type_and_headers_of_a_node_pass() {
        let node =
            ScriptedNode::always(answer(&JSON.replace("200 OK", "404 Not Found"), r#"{"code":5}"#)).await;
        let site = Site::new(&[&node]);
        let pending = site.send("GET", "/a/b", "").await;
        assert_eq!((pending.status.as_u16(), &pending.body[..]), (404, &br#"{"code":5}"#[..]));
        assert_eq!(pending.headers["content-type"], "application/json; charset=utf-8");
        assert_eq!(pending.headers["x-node"], "7");
        assert!(!pending.headers.contains_key("server"));
        drop(pending);
        assert_eq!(site.lines(), [("b".to_owned(), 1, 404, Outcome::NodeError)]);
    }

    #[tokio::test]
    async fn an_answer_is_cached_with_status_and_headers_by_verb_target_headers_and_body() {
        let node = ScriptedNode::always(answer(&JSON.replace("200 OK", "203 Own"), r#"{"n":1}"#)).await;
        let site = Site::new(&[&node]);
        for _ in 0..2 {
            let pending = site.send("GET", "/stock?a=1", "").await;
            assert_eq!((pending.status.as_u16(), &pending.body[..]), (203, &br#"{"n":1}"#[..]));
            assert_eq!((&pending.headers["x-node"], pending.headers.len()), (&"7".parse().unwrap(), 2));
        }
        assert_eq!(node.seen().len(), 1);
        for (verb, target, body) in [
            ("GET", "/stock?a=2", ""),
            ("POST", "/stock?a=1", ""),
            ("POST", "/stock?a=1", "x"),
            ("GET", "/b/stock?a=1", ""),
        ] {
            site.send(verb, target, body).await;
        }
        assert_eq!(node.seen().len(), 5);
        assert!(site.lines().iter().all(|line| line.1 == 5 && line.2 == 203), "{:?}", site.lines());
    }

    #[tokio::test]
    async fn errors_are_not_cached_regardless_of_their_status() {
        for (head, outcome) in [(JSON, Outcome::NodeError), ("404 Not Found", Outcome::NodeError)] {
            let node = ScriptedNode::always(answer(head, r#"{"sorry":1}"#)).await;
            let site = Site::new(&[&node]);
            site.send("GET", "/stock", "").await;
            site.send("GET", "/stock", "").await;
            assert_eq!(node.seen().len(), 2);
            assert_eq!(site.lines()[1].3, outcome);
        }
    }

    #[tokio::test]
    async fn a_body_that_is_not_an_answer_of_the_chain_is_a_backend_failure() {
        for head in [
            answer("301 Moved\r\nlocation: http://inside/", ""),
            answer("200 OK\r\ncontent-type: text/html", "<html>"),
            answer("500 Oh", "oh"),
            answer("502 Bad\r\ncontent-type: text/plain", "oh"),
            answer("502 Bad\r\ncontent-type: text/html", "<html>"),
            answer("408 Late\r\ncontent-type: text/html", "<html>"),
            answer("401 No", r#"{"a":1}"#),
            answer("403 No", r#"{"a":1}"#),
            answer("429 No", r#"{"a":1}"#),
            answer(JSON, r#"{"a":"#),
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/x-bcs\r\n\r\nbytes".to_owned(),
        ] {
            let node = ScriptedNode::serve({
                let head = head.clone();
                move |_, mut wire| {
                    let head = head.clone();
                    async move {
                        while wire.request().await.is_some() {
                            wire.write(&head).await;
                            if head.contains("connection: close") {
                                return;
                            }
                        }
                    }
                }
            })
            .await;
            let site = Site::new(&[&node]);
            let response = site.response("GET", "/a", "").await;
            assert_eq!(response, (502, r#"{"message":"backend request failed"}"#.to_owned()), "{head}");
            assert_eq!(site.lines(), [("a".to_owned(), 0, 502, Outcome::Failed)], "{head}");
        }
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn the_status_of_a_client_error_without_json_passes_and_the_call_is_not_tried_again() {
        for (head, body, status, message) in [
            ("404 Not Found\r\ncontent-type: text/html", "<html>proxy/1.2</html>", 404, "not found"),
            ("404 Not Found\r\ncontent-type: application/json", "", 404, "not found"),
            ("400 Bad Request\r\ncontent-type: application/json", "{\"a\":", 400, "bad request"),
            ("405 No\r\ncontent-type: Text/HTML; charset=utf-8", "no", 405, "method not allowed"),
            ("414 Long\r\ncontent-type: text/html", "", 414, "uri too long"),
        ] {
            let nodes = [
                ScriptedNode::always(answer(head, body)).await,
                ScriptedNode::always(answer(head, body)).await,
            ];
            let site = Site::new(&[&nodes[0], &nodes[1]]);
            for n in 1..=40 {
                let response = site.response("GET", "/stock", "").await;
                assert_eq!(response, (status, format!(r#"{{"message":"{message}"}}"#)), "{head}");
                assert_eq!(
                    nodes[0].seen().len() + nodes[1].seen().len(),
                    n,
                    "{head}: one try each, none cached"
                );
            }
            assert!(site.lines().iter().all(|line| line.3 == Outcome::NodeError), "{:?}", site.lines());
        }
        let node =
            ScriptedNode::always("HTTP/1.1 404 No\r\ncontent-type: text/html\r\ncontent-length: 9\r\n\r\n")
                .await;
        assert_eq!(Site::new(&[&node]).response("HEAD", "/a", "").await, (404, String::new()));
    }

    #[tokio::test]
    async fn a_5xx_with_json_and_bytes_of_any_type_are_answers() {
        for (head, body, status) in [
            ("503 Later", r#"{"code":14}"#, 503),
            ("200 OK\r\ncontent-type: application/x-bcs", "\u{1}\u{2}", 200),
            ("204 No", "", 204),
        ] {
            let node = ScriptedNode::always(answer(head, body)).await;
            assert_eq!(
                Site::new(&[&node]).response("GET", "/a", "").await,
                (status, body.to_owned()),
                "{head}"
            );
        }
    }

    #[tokio::test]
    async fn reads_go_to_another_node_and_broadcasts_do_not() {
        let bad = ScriptedNode::always(answer("500 Oh", "oh")).await;
        let good = ScriptedNode::always(answer(JSON, "{}")).await;
        let site = Site::new(&[&bad, &good]);
        let mut failed = 0;
        for _ in 0..4 {
            assert_eq!(site.response("GET", "/a", "").await.0, 200);
            failed += u32::from(site.response("POST", "/order", "{}").await.0 == 502);
        }
        let orders =
            |node: &ScriptedNode| node.seen().iter().filter(|seen| seen.starts_with("POST /order")).count();
        assert_eq!(orders(&bad) + orders(&good), 4);
        assert_eq!(orders(&bad) as u32, failed);
    }

    // Shows (Nodes and cache): A REST read that a node cannot serve now, according to its JSON answer, goes to another
    // node, and a handshake that a node does not answer is made at another one (promise 74).
    #[tokio::test]
    async fn a_read_that_a_node_cannot_serve_now_goes_to_another_and_is_free_if_none_can() {
        // JSON, so that the answer is the chain's and not that of a broken proxy.
        let busy = answer(&JSON.replace("200 OK", "503 Later"), r#"{"code":14}"#);
        let one = ScriptedNode::always(busy.clone()).await;
        let well = ScriptedNode::always(answer(JSON, "{}")).await;
        let site = Site::new(&[&one, &well]);
        for _ in 0..4 {
            assert_eq!(site.response("GET", "/a", "").await, (200, "{}".into()));
        }
        assert!(!one.seen().is_empty(), "it was asked");
        assert_eq!(site.lines(), vec![("a".to_owned(), 1, 200, Outcome::Answered); 4]);

        let one = ScriptedNode::always(busy.clone()).await;
        let two = ScriptedNode::always(busy).await;
        let site = Site::new(&[&one, &two]);
        let response = site.response("GET", "/a", "").await;
        assert_eq!(response, (503, r#"{"code":14}"#.to_owned()), "the client gets what a node said");
        assert_eq!((one.seen().len(), two.seen().len()), (1, 1), "each was asked once");
        assert_eq!(site.lines(), [("a".to_owned(), 0, 503, Outcome::NodeError)]);
    }

    #[tokio::test]
    async fn a_large_answer_is_streamed_unchanged_with_its_own_type() {
        let large = "x".repeat(40 << 10);
        let node =
            ScriptedNode::always(answer("200 OK\r\ncontent-type: application/octet-stream", &large)).await;
        let site = Site::new(&[&node]);
        let pending = site.send("GET", "/a", "").await;
        assert_eq!(pending.headers["content-type"], "application/octet-stream");
        assert_eq!(pending.flow.unwrap().collect().await.unwrap().to_bytes().len(), large.len());
        assert_eq!(site.response("GET", "/stock", "").await.0, 200, "what may be kept is held whole");
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn a_streamed_answer_whose_json_is_not_whole_has_no_clean_end() {
        let whole = format!(r#"{{"rows":["{}"]}}"#, "x".repeat(40 << 10));
        for (body, is_complete) in [
            (whole.clone(), true),
            (whole[..whole.len() - 2].to_owned(), false),
            (format!("{whole}<html>"), false),
            (format!("{}\0{}", &whole[..30 << 10], &whole[30 << 10..]), false),
        ] {
            let node = ScriptedNode::always(answer(JSON, &body)).await;
            let site = Site::new(&[&node]);
            let pending = site.send("GET", "/a", "").await;
            let body = crate::reply_body::ReplyBody::flowing(pending.flow.unwrap(), pending.tally);
            assert_eq!(body.collect().await.is_ok(), is_complete);
            let expected = if is_complete { Outcome::Answered } else { Outcome::Failed };
            assert_eq!(site.lines()[0].3, expected);
            assert_eq!(site.lines()[0].1 > 0, is_complete, "only a whole answer is charged");
        }
    }

    #[tokio::test]
    async fn a_head_without_a_body_answers_a_head_request() {
        let node = ScriptedNode::always(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n",
        )
        .await;
        let site = Site::new(&[&node]);
        assert_eq!(site.response("HEAD", "/a", "").await, (200, String::new()));
    }
}
