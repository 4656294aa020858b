//! Traces of calls, with a collector (`telemetry.otlp`).

use crate::*;
use rpcgate_tests::certificate::TestCertificate;
use rpcgate_tests::collector::{CollectedSpan, TraceCollector};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// Adds a collector to which spans are sent at once.
fn traced(setup: Setup, url: &str) -> Setup {
    setup
        .set("telemetry.otlp", &format!("url = \"{url}\""))
        .set("telemetry.otlp", "interval = \"1ms\"")
        .set("telemetry", "listen = \"127.0.0.1:0\"")
}

async fn call(client: &TestClient, headers: &[(&str, &str)], method: &str) -> TestReply {
    let body = format!(r#"{{"jsonrpc":"2.0","id":9,"method":"{method}","params":["a-parameter"]}}"#);
    client.send("POST", "/eth", headers, body.as_bytes()).await
}

fn servers(spans: &[CollectedSpan]) -> Vec<&CollectedSpan> {
    spans.iter().filter(|span| span.is_server).collect()
}

fn below<'s>(spans: &'s [CollectedSpan], server: &CollectedSpan) -> Vec<&'s CollectedSpan> {
    spans.iter().filter(|span| span.trace == server.trace && span.parent == server.id).collect()
}

/// Returns the number of spans with this result, from the metrics.
async fn counted(gateway: &TestGateway, result: &str) -> u64 {
    let metrics = TestClient::new(gateway.server.metrics_addr().unwrap(), None);
    let page = metrics.send("GET", "/metrics", &[], b"").await.text();
    let name = format!("rpcgate_otlp_spans_total{{result=\"{result}\"}} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("no {name}: {page}")).parse().unwrap()
}

// Shows (Traces, logs and metrics): With a collector, a call is a span with a child span for each try at a node; W3C
// Trace Context is read and sent.
#[tokio::test]
async fn a_call_is_a_span_of_the_clients_trace_and_its_node_receives_the_child_span() {
    let node = Node::evm().await;
    let collector = TraceCollector::start();
    let gateway = traced(Setup::of("eth", &node.url()), &collector.url()).start().await;
    let parent = format!("00-{TRACE}-{SPAN}-01");
    let headers = [("traceparent", parent.as_str()), ("tracestate", "vendor=opaque")];
    let reply = call(&gateway.client(), &headers, "eth_getBalance").await;
    let spans = collector.got(2).await;
    let [server] = servers(&spans)[..] else { panic!("{spans:?}") };
    assert_eq!((server.trace.as_str(), server.parent.as_str()), (TRACE, SPAN));
    assert_eq!((server.name.as_str(), server.service.as_str()), ("eth eth_getBalance", "rpcgate-server"));
    let cu = reply.cu().to_string();
    for (name, value) in [
        ("rpcgate.chain", "eth"),
        ("rpc.method", "eth_getBalance"),
        ("rpcgate.transport", "http"),
        ("rpcgate.outcome", "answered"),
        ("http.response.status_code", "200"),
        ("rpcgate.request_id", reply.header("x-request-id").unwrap()),
        ("rpcgate.cu", cu.as_str()),
    ] {
        assert_eq!(server.attribute(name), value, "{name}");
    }
    let [client] = below(&spans, server)[..] else { panic!("{spans:?}") };
    assert!(!client.is_server && client.error.is_none() && server.error.is_none());
    assert_eq!((client.attribute("rpcgate.node"), client.attribute("server.address")), ("1", "127.0.0.1"));
    let seen = node.seen();
    assert_eq!(seen[0].header("traceparent"), Some(client.traceparent("01").as_str()));
    assert_eq!(seen[0].header("tracestate"), Some("vendor=opaque"));
}

#[tokio::test]
async fn a_call_without_a_valid_traceparent_starts_a_trace_with_its_request_id() {
    let node = Node::evm().await;
    let collector = TraceCollector::start();
    let gateway = traced(Setup::of("eth", &node.url()), &collector.url()).start().await;
    let zeros = format!("00-{}-{SPAN}-01", "0".repeat(32));
    let long = format!("00-{TRACE}-{SPAN}-01-{}", "x".repeat(4_000));
    for (place, wrong) in ["nonsense", zeros.as_str(), long.as_str()].into_iter().enumerate() {
        let headers = [("traceparent", wrong), ("tracestate", "vendor=opaque")];
        let reply = call(&gateway.client(), &headers, "m").await;
        let spans = collector.got(2 * place + 2).await;
        let server = servers(&spans)[place];
        assert_eq!(server.trace, reply.header("x-request-id").unwrap().replace('-', ""));
        assert_eq!(server.parent, "");
        assert_eq!(node.seen()[place].header("tracestate"), None);
    }
}

// Shows (Traces, logs and metrics).
#[tokio::test]
async fn each_try_is_a_span_and_the_failed_one_is_an_error() {
    let bad = Node::evm().await;
    let good = Node::evm().await;
    let collector = TraceCollector::start();
    bad.always(Raw { status: 502, ..Raw::default() });
    let setup = Setup::of("eth", &bad.url()).node("eth", &good.url());
    let gateway = traced(setup, &collector.url()).start().await;
    let client = gateway.client();
    while bad.requests() == 0 {
        assert_eq!(call(&client, &[], "m").await.status, 200);
    }
    let has_failed = || collector.spans().iter().any(|span| !span.is_server && span.error.is_some());
    until("a failed try at the collector", has_failed).await;
    let spans = collector.spans();
    let failed = spans.iter().find(|span| !span.is_server && span.error.is_some()).unwrap();
    let server = spans.iter().find(|span| span.id == failed.parent).unwrap();
    let tries = below(&spans, server);
    let errors: Vec<_> = tries.iter().map(|span| span.error.as_deref()).collect();
    assert_eq!(errors, [Some("node answered HTTP status 502"), None]);
    let nodes: Vec<_> = tries.iter().map(|span| span.attribute("rpcgate.node")).collect();
    assert_eq!((nodes, server.error.as_deref()), (vec!["1", "2"], None));
    let told = |node: &Node| node.seen().last().unwrap().header("traceparent").unwrap().to_owned();
    assert_eq!([told(&bad), told(&good)], [tries[0].traceparent("03"), tries[1].traceparent("03")]);
}

// Shows (Traces, logs and metrics).
#[tokio::test]
async fn a_cached_call_has_no_span_below_it_and_a_refused_one_has_a_status() {
    let node = Node::evm().await;
    let collector = TraceCollector::start();
    let setup = Setup::of("eth", &node.url()).set("projects.default", "blocked_methods = [\"m\"]");
    let gateway = traced(setup, &collector.url()).start().await;
    let client = gateway.client();
    for _ in 0..2 {
        assert_eq!(call(&client, &[], "eth_chainId").await.status, 200);
    }
    let refused = call(&client, &[], "m").await;
    let spans = collector.got(4).await;
    let all = servers(&spans);
    let caches: Vec<_> = all.iter().map(|span| span.attribute("rpcgate.cache")).collect();
    assert_eq!(caches, ["miss", "hit", "not_asked"]);
    let children: Vec<_> = all.iter().map(|span| below(&spans, span).len()).collect();
    assert_eq!(children, [1, 0, 0]);
    assert!(all[1].error.is_none() && all[2].error.is_some(), "{all:?}");
    assert_eq!(all[2].attribute("http.response.status_code"), refused.status.to_string());
    assert_eq!(all[2].attribute("rpcgate.refusal_code"), refused.code().to_string());
}

// Shows (Traces, logs and metrics).
#[tokio::test]
async fn the_calls_of_a_batch_are_events_of_one_span_whose_node_calls_are_below_it() {
    let node = Node::evm().await;
    let collector = TraceCollector::start();
    let gateway = traced(Setup::of("eth", &node.url()), &collector.url()).start().await;
    let calls = [("eth_getBalance", "[]"), ("eth_sendRawTransaction", "[\"0x00\"]"), ("net_version", "[]")];
    assert_eq!(gateway.client().batch("eth", &calls).await.codes(), [0, 0, 0]);
    let spans = collector.got(3).await;
    let [server] = servers(&spans)[..] else { panic!("{spans:?}") };
    assert_eq!((server.name.as_str(), server.attribute("rpcgate.calls")), ("eth batch", "3"));
    let methods: Vec<_> = server.events.iter().map(|event| event["rpc.method"].as_str()).collect();
    assert_eq!(methods, ["eth_getBalance", "eth_sendRawTransaction", "net_version"]);
    // The transaction is sent alone.
    let mut sent: Vec<_> =
        below(&spans, server).iter().map(|span| span.attribute("rpcgate.calls").to_owned()).collect();
    sent.sort();
    assert_eq!(sent, ["1", "2"]);
    let mut told: Vec<_> =
        node.seen().iter().map(|seen| seen.header("traceparent").unwrap().to_owned()).collect();
    let mut expected: Vec<_> = below(&spans, server).iter().map(|span| span.traceparent("03")).collect();
    told.sort();
    expected.sort();
    assert_eq!(told, expected);
}

// Shows (Traces, logs and metrics): No span contains a key, a parameter or a body.
#[tokio::test]
async fn no_span_has_a_key_a_parameter_or_a_body() {
    let node = Node::evm().await;
    let collector = TraceCollector::start();
    node.result("eth_getBalance", "\"an-answer\"");
    let url = format!("http://user:a-password@{}/v3/a-path-that-is-a-secret-of-the-node", node.addr());
    let setup = Setup::of("eth", &url).set("telemetry.otlp", "headers = { x-tenant = \"of-the-collector\" }");
    let gateway = traced(setup, &collector.url()).start().await;
    let secret = key("default");
    let client = gateway.client();
    assert_eq!(call(&client, &[("authorization", "Bearer a-token")], "eth_getBalance").await.status, 200);
    // As a method, in the query, and as an unknown key.
    call(&client, &[], &secret).await;
    let target = format!("/eth?apikey={secret}&more=a-query");
    let body = br#"{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["a-parameter-2"]}"#;
    assert_eq!(gateway.anonymous().send("POST", &target, &[], body).await.status, 200);
    assert_eq!(
        gateway.anonymous().send("POST", "/eth", &[("apikey", "rpcg_forged")], body).await.status,
        401
    );
    let spans = collector.got(6).await;
    assert_eq!(servers(&spans).len(), 3, "a request without a valid key has no span: {spans:?}");
    let whole = collector.whole();
    assert!(whole.contains("of-the-collector"), "{whole}");
    for forbidden in
        ["rpcg_", "a-token", "a-parameter", "an-answer", "a-query", "a-password", "a-path-that-is"]
    {
        assert!(!whole.contains(forbidden), "{forbidden}: {whole}");
    }
}

// Shows (Traces, logs and metrics): A client may refuse to be traced, else the ratio decides; without a collector no
// node gets a trace.
#[tokio::test]
async fn with_a_ratio_of_0_no_call_is_exported_even_if_its_client_wants_it() {
    let node = Node::evm().await;
    let collector = TraceCollector::start();
    let setup = Setup::of("eth", &node.url()).set("telemetry.otlp", "ratio = 0");
    let gateway = traced(setup, &collector.url()).start().await;
    let client = gateway.client();
    call(&client, &[], "m").await;
    for flags in ["00", "01"] {
        let parent = format!("00-{TRACE}-{SPAN}-{flags}");
        call(&client, &[("traceparent", parent.as_str())], "m").await;
    }
    // Queued spans are sent before it has stopped.
    gateway.server.drain().await;
    assert!(collector.spans().is_empty(), "{:?}", collector.spans());
    let told: Vec<_> = node.seen().iter().map(|seen| seen.header("traceparent").map(str::to_owned)).collect();
    assert_eq!(told[0], None);
    for told in &told[1..] {
        let told = told.as_ref().unwrap();
        assert!(told.starts_with(&format!("00-{TRACE}-")) && told.ends_with("-00"), "{told}");
        assert!(!told.contains(SPAN), "{told}");
    }
}

// Shows (Traces, logs and metrics).
#[tokio::test]
async fn a_node_receives_no_trace_without_a_collector() {
    let (node, _gateway, client) = evm().await;
    let parent = format!("00-{TRACE}-{SPAN}-01");
    assert_eq!(call(&client, &[("traceparent", parent.as_str())], "m").await.status, 200);
    assert_eq!(node.seen()[0].header("traceparent"), None);
}

// Shows (Traces, logs and metrics): An unreachable collector costs spans, which are counted, and never a call; a stop
// sends the waiting spans.
#[tokio::test]
async fn with_the_collector_away_calls_are_served_and_spans_are_dropped_and_counted() {
    let node = Node::evm().await;
    // The first call is tried at once, the second waits in the queue, and the queue is full for the others.
    let setup =
        Setup::of("eth", &node.url()).set("telemetry.otlp", "queue = 1").set("telemetry.otlp", "batch = 1");
    let setup = setup
        .set("telemetry.otlp", "url = \"http://127.0.0.1:1\"")
        .set("telemetry.otlp", "interval = \"1m\"")
        .set("telemetry", "listen = \"127.0.0.1:0\"");
    let gateway = setup.start().await;
    let client = gateway.client();
    call(&client, &[], "m").await;
    rpcgate_tests::until_within(rpcgate_tests::TIMEOUT, "spans that fail", async || {
        counted(&gateway, "failed").await > 0
    })
    .await;
    for _ in 0..5 {
        assert_eq!(call(&client, &[], "m").await.json()["result"], "ok");
    }
    assert_eq!((counted(&gateway, "failed").await, counted(&gateway, "dropped").await), (2, 8));
    assert_eq!(counted(&gateway, "sent").await, 0);
}

// Shows (Traces, logs and metrics).
#[tokio::test]
async fn a_collector_that_never_answers_costs_spans_and_holds_up_no_drain() {
    let node = Node::evm().await;
    // The system accepts connections, but nothing reads from them.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let setup = traced(Setup::of("eth", &node.url()), &url).set("telemetry.otlp", "timeout = \"500ms\"");
    let gateway = setup.start().await;
    for _ in 0..3 {
        assert_eq!(call(&gateway.client(), &[], "m").await.status, 200);
    }
    rpcgate_tests::until_within(rpcgate_tests::TIMEOUT, "spans that fail", async || {
        counted(&gateway, "failed").await > 0
    })
    .await;
    assert_eq!(counted(&gateway, "sent").await, 0);
    assert_eq!(call(&gateway.client(), &[], "m").await.status, 200);
    let drained = tokio::time::timeout(rpcgate_tests::TIMEOUT, gateway.server.drain()).await;
    assert!(drained.is_ok_and(|drained| drained.cut == 0));
}

// Shows (Traces, logs and metrics).
#[tokio::test]
async fn spans_that_the_collector_rejects_are_counted() {
    let node = Node::evm().await;
    let collector = TraceCollector::start();
    collector.reject(1);
    let gateway = traced(Setup::of("eth", &node.url()), &collector.url()).start().await;
    call(&gateway.client(), &[], "m").await;
    rpcgate_tests::until_within(rpcgate_tests::TIMEOUT, "spans that are sent", async || {
        counted(&gateway, "rejected").await == 1
    })
    .await;
    assert_eq!(counted(&gateway, "sent").await, 1);
}

// Shows (Traces, logs and metrics): A collector over TLS has a certificate of a public authority, or of one in
// `telemetry.otlp.ca_file`.
#[tokio::test]
async fn a_collector_with_a_certificate_of_a_configured_authority_is_trusted() {
    let node = Node::evm().await;
    let certificate = TestCertificate::new();
    let foreign = TestCertificate::new();
    let collector = TraceCollector::secure(&certificate);
    for (trusted, result) in [(None, "failed"), (Some(&foreign), "failed"), (Some(&certificate), "sent")] {
        let setup = traced(Setup::of("eth", &node.url()), &collector.url());
        let setup = match trusted {
            Some(trusted) => setup.set("telemetry.otlp", &format!("ca_file = {:?}", trusted.files()[0])),
            None => setup,
        };
        let gateway = setup.start().await;
        assert_eq!(call(&gateway.client(), &[], "m").await.status, 200);
        rpcgate_tests::until_within(rpcgate_tests::TIMEOUT, "spans that are sent or fail", async || {
            counted(&gateway, result).await == 2
        })
        .await;
        assert_eq!(collector.spans().len(), if result == "sent" { 2 } else { 0 });
    }
}

// Shows (Traces, logs and metrics).
#[tokio::test]
async fn a_gateway_that_is_drained_sends_what_waits() {
    let node = Node::evm().await;
    let collector = TraceCollector::start();
    let setup = Setup::of("eth", &node.url())
        .set("telemetry.otlp", &format!("url = \"{}\"", collector.url()))
        .set("telemetry.otlp", "interval = \"1m\"")
        .set("telemetry.otlp", "service_name = \"of the test\"");
    let gateway = setup.start().await;
    for _ in 0..3 {
        call(&gateway.client(), &[], "m").await;
    }
    assert!(collector.spans().is_empty());
    gateway.server.drain().await;
    let spans = collector.spans();
    assert_eq!((spans.len(), spans[0].service.as_str()), (6, "of the test"));
}
