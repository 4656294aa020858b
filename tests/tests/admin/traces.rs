//! Traces of requests to the management side (`telemetry.otlp`).

use rpcgate_core::clock::SystemClock;
use rpcgate_server::demo::Demo;
use rpcgate_server::demo_options::DemoOptions;
use rpcgate_tests::admin::TestService;
use rpcgate_tests::client::TestClient;
use rpcgate_tests::collector::TraceCollector;
use rpcgate_tests::gateway::Setup;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

// Shows (Traces, logs and metrics).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_a_span_with_its_route_and_without_anything_that_its_client_sent() {
    let collector = TraceCollector::start();
    let setup = Setup::new()
        .set("telemetry.otlp", &format!("url = \"{}\"", collector.url()))
        .set("telemetry.otlp", "interval = \"1ms\"");
    let service = TestService::start(setup, Arc::new(SystemClock::new())).await;
    let client = TestClient::new(service.addr(), None);
    assert_eq!(client.send("GET", "/healthz", &[], b"").await.status, 200);
    let parent = format!("00-{TRACE}-{SPAN}-01");
    let headers = [("traceparent", parent.as_str()), ("authorization", "Bearer a-token")];
    let target = "/api/v1/projects/a-project?of=a-query";
    let reply = client.send("GET", target, &headers, b"").await;
    let unsampled = format!("00-{TRACE}-{SPAN}-00");
    client.send("GET", target, &[("traceparent", unsampled.as_str())], b"").await;
    client
        .send("POST", "/api/v1/auth/login", &[], br#"{"email":"a@example.com","password":"a-password"}"#)
        .await;
    let spans = collector.got(2).await;
    let [first, second] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((first.name.as_str(), first.service.as_str()), ("GET /api/v1/projects/{id}", "rpcgate-admin"));
    assert_eq!((first.trace.as_str(), first.parent.as_str(), first.is_server), (TRACE, SPAN, true));
    assert_eq!(first.attribute("http.route"), "/api/v1/projects/{id}");
    assert_eq!(first.attribute("http.response.status_code"), "401");
    assert_eq!(first.attribute("rpcgate.request_id"), reply.header("x-request-id").unwrap());
    assert_eq!((second.name.as_str(), second.parent.as_str()), ("POST /api/v1/auth/login", ""));
    let whole = collector.whole();
    for forbidden in ["a-token", "a-query", "a-project", "a-password", "example.com"] {
        assert!(!whole.contains(forbidden), "{forbidden}: {whole}");
    }
}

// Shows (Traces, logs and metrics): On the management side the client's flag decides once its user is known, else the
// ratio decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn that_a_client_wants_a_trace_counts_once_it_is_logged_in() {
    let collector = TraceCollector::start();
    let setup = Setup::new()
        .set("telemetry.otlp", &format!("url = \"{}\"", collector.url()))
        .set("telemetry.otlp", "interval = \"1ms\"")
        .set("telemetry.otlp", "ratio = 0");
    let service = TestService::start(setup, Arc::new(SystemClock::new())).await;
    let bearer = service.owner("ada@example.com").await.bearer();
    let client = TestClient::new(service.addr(), None);
    let parent = format!("00-{TRACE}-{SPAN}-01");
    let wanted = ("traceparent", parent.as_str());
    for (headers, status) in [
        (&[wanted][..], 401),
        (&[wanted, ("authorization", "Bearer a-token")][..], 401),
        (&[("authorization", bearer.as_str())][..], 200),
        (&[wanted, ("authorization", bearer.as_str())][..], 200),
    ] {
        assert_eq!(client.send("GET", "/api/v1/auth/me", headers, b"").await.status, status);
    }
    // Earlier spans would have arrived before it.
    let spans = collector.got(1).await;
    let [only] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((only.trace.as_str(), only.parent.as_str()), (TRACE, SPAN));
    assert_eq!(only.attribute("http.response.status_code"), "200");
}

// Shows (Traces, logs and metrics).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demo_sends_traces_of_both_its_programs_to_the_address_of_its_option() {
    let collector = TraceCollector::start();
    let home = tempfile::tempdir().unwrap();
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    let demo = Demo::start(&DemoOptions {
        dir: home.path().to_owned(),
        gateway: free,
        admin: free,
        grpc: free,
        nodes: Vec::new(),
        plan: None,
        config: None,
        webhook_echo: None,
        otlp: Some(collector.url()),
    })
    .await
    .unwrap();
    let sheet: Value = serde_json::from_slice(&std::fs::read(demo.file()).unwrap()).unwrap();
    let client = TestClient::new(demo.addr(), sheet["api_key"].as_str());
    assert_eq!(client.call("eth", "eth_blockNumber", "[]").await.status, 200);
    let management = TestClient::new(demo.admin(), None);
    assert_eq!(management.send("GET", "/api/v1/plans", &[], b"").await.status, 401);
    // Queued spans are sent before it has stopped.
    demo.stop().await;
    let spans = collector.spans();
    for (service, name) in [("rpcgate-server", "eth eth_blockNumber"), ("rpcgate-admin", "GET /api/v1/plans")]
    {
        assert!(spans.iter().any(|span| span.service == service && span.name == name), "{name}: {spans:?}");
    }
}
