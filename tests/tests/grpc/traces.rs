//! The trace of a gRPC call (`telemetry.otlp`).

use crate::wire::{NEWEST, Site, keyed};
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rpcgate_tests::collector::TraceCollector;
use rpcgate_tests::gateway::Setup;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

// Shows (Traces, logs and metrics).
#[tokio::test]
async fn a_node_receives_the_span_of_a_call_instead_of_the_clients_header() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let collector = TraceCollector::start();
    let url = format!("grpc://{}", listener.local_addr().unwrap());
    let heads = Arc::<Mutex<Vec<HeaderMap>>>::default();
    let kept = heads.clone();
    let node = tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let kept = kept.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                kept.lock().unwrap().push(request.headers().clone());
                let answer = Response::builder().header("content-type", "application/grpc");
                let answer = answer.header("grpc-status", "0").body(Empty::<Bytes>::new());
                std::future::ready(Ok::<_, Infallible>(answer.unwrap()))
            });
            let serving =
                http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(tcp), service);
            tokio::spawn(serving);
        }
    });
    let setup = Setup::new()
        .set("chains.tron", &format!("nodes = [\"{url}\"]"))
        .set("telemetry.otlp", &format!("url = \"{}\"", collector.url()))
        .set("telemetry.otlp", "interval = \"1ms\"");
    let site = Site::new(setup).await;
    let mut request = keyed(Vec::new());
    let parent = format!("00-{TRACE}-{SPAN}-01");
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    request.metadata_mut().insert("tracestate", "Not=valid".parse().unwrap());
    // The node returns status OK without a message.
    let _ = site.client().await.send(NEWEST, request).await;
    let spans = collector.got(2).await;
    let server = spans.iter().find(|span| span.is_server).unwrap();
    assert_eq!((server.trace.as_str(), server.parent.as_str()), (TRACE, SPAN));
    assert_eq!((server.name.as_str(), server.attribute("rpcgate.transport")), ("tron getnowblock", "grpc"));
    let client = spans.iter().find(|span| span.parent == server.id).unwrap();
    let all = heads.lock().unwrap().clone();
    let told =
        |head: &HeaderMap| head.get("traceparent").is_some_and(|told| *told == client.traceparent("01"));
    assert!(all.iter().any(told), "{all:?}");
    assert!(!all.iter().any(|head| head.contains_key("tracestate")), "{all:?}");
    node.abort();
}
