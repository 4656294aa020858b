//! Refusals and failures, as a client sees them.

use crate::node::Simulated;
use crate::wire::{NEWEST, Site, keyed};
use rpcgate_server::demo::GrpcDisturbance;
use rpcgate_tests::gateway::Setup;
use tonic::{Code, Request};

async fn site(node: &Simulated, change: impl FnOnce(Setup) -> Setup) -> Site {
    let setup = Setup::new().set("chains.tron", &format!("nodes = [\"{}\"]", node.url));
    Site::new(change(setup)).await
}

// Shows (gRPC).
#[tokio::test]
async fn every_refusal_is_a_status_with_its_text() {
    let node = Simulated::of("tron");
    let open = site(&node, |setup| setup).await;
    let mut client = open.client().await;
    let status = client.send(NEWEST, Request::new(Vec::new())).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unauthenticated, "No API key found in request"));
    let mut guessed = Request::new(Vec::new());
    guessed.metadata_mut().insert("apikey", "guessed".parse().unwrap());
    let status = client.send(NEWEST, guessed).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unauthenticated, "Invalid authentication credentials")
    );
    for path in [
        "/protocolx.Wallet/GetNowBlock",
        "/cosmos.bank.v1beta1.Query/SupplyOf",
        "/protocol.Wallet/EasyTransferByPrivate",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/protocol.Wallet/NoSuchMethod",
    ] {
        let status = client.unary(path, b"").await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented, "{path}");
    }
    let scoped = site(&node, |setup| setup.set("keys.default", "chains = [\"eth\"]")).await;
    let status = scoped.client().await.unary(NEWEST, b"").await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    let poor = site(&node, |setup| setup.plan("free")).await;
    let mut client = poor.client().await;
    for _ in 0..10 {
        client.unary(NEWEST, b"").await.unwrap();
    }
    let status = client.unary(NEWEST, b"").await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, "API rate limit exceeded"));
    assert_eq!(status.metadata().get("retry-after").unwrap(), "45");
    assert_eq!(status.metadata().get("x-ratelimit-remaining-minute").unwrap(), "0");
}

// Shows (gRPC).
#[tokio::test]
async fn statuses_of_a_node_pass_and_a_node_that_fails_is_unavailable() {
    let node = Simulated::of("tron");
    let site = site(&node, |setup| setup).await;
    let mut client = site.client().await;
    node.grpc.disturb(Some(GrpcDisturbance::Status(3)));
    assert_eq!(client.unary(NEWEST, b"").await.unwrap_err().code(), Code::InvalidArgument);
    node.grpc.disturb(Some(GrpcDisturbance::Status(14)));
    let own = client.unary(NEWEST, b"").await.unwrap_err();
    assert_eq!(own.code(), Code::Unavailable);
    assert_ne!(own.message(), "backend request failed", "the node's own status passes");
    node.grpc.disturb(Some(GrpcDisturbance::Status(16)));
    let status = client.unary(NEWEST, b"").await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "backend request failed"));
    node.grpc.disturb(None);
    client.unary(NEWEST, b"").await.unwrap();
    // The gateway replaces a connection after the node's GOAWAY.
    node.grpc.disturb(Some(GrpcDisturbance::GoAway));
    for _ in 0..5 {
        client.unary(NEWEST, b"").await.unwrap();
    }
    node.grpc.disturb(None);
    let gone = node;
    drop(gone);
    assert_eq!(client.unary(NEWEST, b"").await.unwrap_err().code(), Code::Unavailable);
}

// Shows (Streams).
#[tokio::test]
async fn health_needs_no_key_and_leaves_no_record() {
    let node = Simulated::of("tron");
    let site = site(&node, |setup| setup).await;
    let mut client = site.client().await;
    const CHECK: &str = "/grpc.health.v1.Health/Check";
    let answer = client.send(CHECK, Request::new(Vec::new())).await.unwrap().into_inner();
    assert_eq!(answer, &b"\x08\x01"[..], "serving");
    let watch = client.send("/grpc.health.v1.Health/Watch", keyed(Vec::new())).await.unwrap_err();
    assert_eq!(watch.code(), Code::Unimplemented);
    assert!(site.gateway.records().is_empty());
}
