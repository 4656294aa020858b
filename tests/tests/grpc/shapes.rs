//! The four shapes of calls.

use crate::node::{Mirror, Simulated};
use crate::wire::{NEWEST, Raw, Site, keyed};
use http::uri::PathAndQuery;
use rpcgate_core::backend::usage_sink::{Outcome, Phase};
use rpcgate_core::tally::Transport;
use rpcgate_tests::gateway::Setup;
use rpcgate_tests::until;
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::Code;

fn tron(urls: &[&str]) -> Setup {
    let nodes: Vec<_> = urls.iter().map(|url| format!("\"{url}\"")).collect();
    Setup::new().set("chains.tron", &format!("nodes = [{}]", nodes.join(", ")))
}

// Shows (gRPC).
#[tokio::test]
async fn a_unary_call_of_tron_and_of_cosmos_is_answered_and_metered_by_its_name() {
    let tron_node = Simulated::of("tron");
    let cosmos_node = Simulated::of("cosmos");
    let setup = tron(&[&tron_node.url]).set("chains.cosmos", &format!("nodes = [\"{}\"]", cosmos_node.url));
    let site = Site::new(setup).await;
    let mut client = site.client().await;
    assert!(!client.unary(NEWEST, b"").await.unwrap().is_empty());
    let supply = client.unary("/cosmos.bank.v1beta1.Query/SupplyOf", b"\x0a\x05uatom").await.unwrap();
    assert!(!supply.is_empty());
    let answer = client.send(NEWEST, keyed(Vec::new())).await.unwrap();
    for name in ["x-request-id", "x-compute-units", "x-ratelimit-remaining-minute", "ratelimit-reset"] {
        assert!(answer.metadata().contains_key(name), "{name}");
    }
    let records = site.gateway.records();
    let rows: Vec<_> = records
        .iter()
        .map(|record| (&*record.chain, &*record.lines[0].method, record.lines[0].cu, record.transport))
        .collect();
    let grpc = Transport::Grpc;
    assert_eq!(
        rows,
        [("tron", "getnowblock", 1, grpc), ("cosmos", "supplyof", 1, grpc), ("tron", "getnowblock", 1, grpc)]
    );
}

#[tokio::test]
async fn fifty_calls_share_one_connection() {
    let node = Simulated::of("tron");
    let site = Site::new(tron(&[&node.url])).await;
    let client = site.client().await;
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { client.unary(NEWEST, b"").await })
        })
        .collect();
    for call in calls {
        assert!(call.await.unwrap().is_ok());
    }
    assert_eq!(site.gateway.server.connections(), 1);
}

// Shows (gRPC): gRPC has all four call shapes with trailers, and is metered by the lower-cased method.
#[tokio::test]
async fn streams_pass_in_every_shape() {
    let node = Mirror::new().await;
    let site = Site::new(tron(&[&node.url])).await;
    let mut client = site.client().await;
    // One to many.
    client.0.ready().await.unwrap();
    let thrice = PathAndQuery::from_static("/protocol.Mirror/Thrice");
    let mut answers =
        client.0.server_streaming(keyed(b"one".to_vec()), thrice, Raw).await.unwrap().into_inner();
    for _ in 0..3 {
        assert_eq!(answers.message().await.unwrap().unwrap(), "one");
    }
    assert!(answers.message().await.unwrap().is_none());
    assert_eq!(answers.trailers().await.unwrap().unwrap().get("x-mirror").unwrap(), "m");
    // Many to one.
    client.0.ready().await.unwrap();
    let last = PathAndQuery::from_static("/protocol.Mirror/Last");
    let messages = futures([b"one".to_vec(), b"two".to_vec(), b"three".to_vec()]);
    let answer = client.0.client_streaming(keyed(messages), last, Raw).await.unwrap();
    assert_eq!(answer.into_inner(), "three");
    // Many to many, in turn.
    client.0.ready().await.unwrap();
    let (send, receive) = mpsc::channel(1);
    let each = PathAndQuery::from_static("/protocol.Mirror/Each");
    let messages = Messages(receive);
    let mut answers = client.0.streaming(keyed(messages), each, Raw).await.unwrap().into_inner();
    for text in ["a", "bc", "def"] {
        send.send(text.as_bytes().to_vec()).await.unwrap();
        assert_eq!(answers.message().await.unwrap().unwrap(), text);
    }
    let begun = site.gateway.records().last().unwrap().clone();
    assert_eq!((begun.phase, &*begun.lines[0].method), (Phase::Begin, "each"));
    drop(send);
    assert!(answers.message().await.unwrap().is_none());
    until("the end is recorded", || site.gateway.records().last().unwrap().phase == Phase::End).await;
    let end = site.gateway.records().last().unwrap().clone();
    let line = &end.lines[0];
    assert_eq!(
        (end.request, line.outcome, line.bytes_in, line.bytes_out),
        (begun.request, Outcome::Answered, 21, 21)
    );
}

fn futures(messages: [Vec<u8>; 3]) -> Messages {
    let (send, receive) = mpsc::channel(3);
    messages.into_iter().for_each(|message| send.try_send(message).unwrap());
    Messages(receive)
}

pub(crate) struct Messages(pub(crate) mpsc::Receiver<Vec<u8>>);

impl futures_util::Stream for Messages {
    type Item = Vec<u8>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Vec<u8>>> {
        self.0.poll_recv(cx)
    }
}

// Shows (Streams).
#[tokio::test]
async fn a_deadline_of_the_client_ends_its_call() {
    let node = Mirror::new().await;
    let site = Site::new(tron(&[&node.url])).await;
    let mut client = site.client().await;
    let mut request = keyed(b"ask".to_vec());
    request.metadata_mut().insert("grpc-timeout", "1500m".parse().unwrap());
    let status = client.send("/protocol.Mirror/Never", request).await.unwrap_err();
    // Tonic's client also has a timer for the deadline, which may fire first.
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status}");
    until("its call is over", || site.gateway.lines().len() == 1).await;
    let outcome = site.gateway.lines()[0].outcome;
    assert!(matches!(outcome, Outcome::Failed | Outcome::Abandoned), "{outcome:?}");
}

#[tokio::test]
async fn a_client_that_cancels_is_recorded_and_its_connection_continues() {
    let node = Mirror::new().await;
    let site = Site::new(tron(&[&node.url])).await;
    let mut client = site.client().await;
    tokio::select! {
        answer = client.unary("/protocol.Mirror/Never", b"ask") => panic!("{answer:?}"),
        () = until("the node has the call", || node.calls() == 1) => {}
    }
    until("it is recorded", || site.gateway.lines().iter().any(|line| line.outcome == Outcome::Abandoned))
        .await;
    assert_eq!(client.unary("/protocol.Mirror/Each", b"next").await.unwrap(), "next");
}

// Shows (Streams).
#[tokio::test]
async fn with_one_of_three_nodes_dead_every_read_is_answered() {
    let nodes = [Simulated::of("tron"), Simulated::of("tron"), Simulated::of("tron")];
    let urls: Vec<&str> = nodes.iter().map(|node| &*node.url).collect();
    let site = Site::new(tron(&urls)).await;
    let mut client = site.client().await;
    for _ in 0..6 {
        client.unary(NEWEST, b"").await.unwrap();
    }
    let [dead, _two, _three] = nodes;
    drop(dead);
    for _ in 0..30 {
        client.unary(NEWEST, b"").await.unwrap();
    }
}

#[tokio::test]
async fn a_drain_finishes_calls_and_takes_no_more() {
    let node = Mirror::new().await;
    let site = Site::new(tron(&[&node.url])).await;
    let mut client = site.client().await;
    client.0.ready().await.unwrap();
    let (send, receive) = mpsc::channel(1);
    let each = PathAndQuery::from_static("/protocol.Mirror/Each");
    let mut answers = client.0.streaming(keyed(Messages(receive)), each, Raw).await.unwrap().into_inner();
    let draining = site.gateway.server.drain();
    let finishing = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        send.send(b"late".to_vec()).await.unwrap();
        assert_eq!(answers.message().await.unwrap().unwrap(), "late");
        drop(send);
        assert!(answers.message().await.unwrap().is_none());
    };
    let (drained, ()) = tokio::join!(draining, finishing);
    assert_eq!(drained.cut, 0);
}
