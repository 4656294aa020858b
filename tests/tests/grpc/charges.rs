//! Charged calls: a call that fails for its client is not charged.

use crate::node::Mirror;
use crate::wire::{Site, keyed};
use http::uri::PathAndQuery;
use rpcgate_core::backend::usage_sink::{Outcome, OwnedLine};
use rpcgate_tests::fault::FaultProxy;
use rpcgate_tests::gateway::Setup;
use rpcgate_tests::until;
use tonic::Code;

async fn site(address: &str) -> Site {
    Site::new(Setup::new().set("chains.tron", &format!("nodes = [\"{address}\"]\ntimeout = \"1s\""))).await
}

async fn line(site: &Site) -> OwnedLine {
    until("its record is there", || !site.gateway.records().is_empty()).await;
    let lines = site.gateway.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines[0].clone()
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_unary_answer_that_breaks_off_after_its_head_is_not_charged() {
    for path in ["/protocol.Mirror/Reset", "/protocol.Mirror/Bare", "/protocol.Mirror/Half"] {
        let node = Mirror::new().await;
        let site = site(&node.url).await;
        let status = site.client().await.unary(path, b"ask").await.unwrap_err();
        // Within a message the stream is reset.
        assert!(matches!(status.code(), Code::Unavailable | Code::Internal), "{path}: {status}");
        let line = line(&site).await;
        assert_eq!((line.outcome, line.cu), (Outcome::Failed, 0), "{path}");
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_unary_answer_whose_connection_is_cut_is_not_charged_as_its_trailers_state() {
    let node = Mirror::new().await;
    let proxy = FaultProxy::start(node.url.strip_prefix("grpc://").unwrap().parse().unwrap()).await.unwrap();
    let site = site(&format!("grpc://{}", proxy.addr())).await;
    let mut client = site.client().await;
    client.0.ready().await.unwrap();
    let open = PathAndQuery::from_static("/protocol.Mirror/Open");
    let answer = client.0.server_streaming(keyed(b"ask".to_vec()), open, crate::wire::Raw).await.unwrap();
    let promised = answer.metadata().get("x-compute-units").unwrap().clone();
    assert_ne!(promised, "0");
    let mut answer = answer.into_inner();
    assert_eq!(answer.message().await.unwrap().unwrap(), "ask");
    proxy.reset_open();
    let status = answer.message().await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "backend request failed"));
    assert_eq!(status.metadata().get("x-compute-units").unwrap(), "0");
    let line = line(&site).await;
    assert_eq!((line.outcome, line.cu), (Outcome::Failed, 0));
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_client_that_leaves_a_unary_answer_before_its_end_is_charged() {
    let node = Mirror::new().await;
    let site = site(&node.url).await;
    let mut client = site.client().await;
    tokio::select! {
        answer = client.unary("/protocol.Mirror/Open", b"ask") => panic!("{answer:?}"),
        () = until("the node has the call", || node.calls() == 1) => {}
    }
    let line = line(&site).await;
    assert_eq!(line.outcome, Outcome::Abandoned);
    assert!(line.cu > 0);
}
