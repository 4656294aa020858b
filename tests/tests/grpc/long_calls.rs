//! Long calls, and the events that end them.

use crate::node::Mirror;
use crate::shapes::Messages;
use crate::wire::{Raw, Site, keyed};
use http::uri::PathAndQuery;
use rpcgate_core::backend::directory::MemoryDirectory;
use rpcgate_core::backend::suite;
use rpcgate_core::secret::KeyHash;
use rpcgate_tests::gateway::{Setup, key};
use rpcgate_tests::until;
use std::sync::Arc;
use tokio::sync::mpsc::{Sender, channel};
use tonic::{Code, Status, Streaming};

fn tron(node: &Mirror) -> Setup {
    Setup::new().set("chains.tron", &format!("nodes = [\"{}\"]", node.url))
}

/// Opens a bidirectional stream and carries a message on it.
async fn stream(site: &Site) -> (Sender<Vec<u8>>, Streaming<bytes::Bytes>) {
    let mut client = site.client().await;
    client.0.ready().await.unwrap();
    let (send, receive) = channel(1);
    let each = PathAndQuery::from_static("/protocol.Mirror/Each");
    let mut answers = client.0.streaming(keyed(Messages(receive)), each, Raw).await.unwrap().into_inner();
    send.send(b"begun".to_vec()).await.unwrap();
    assert_eq!(answers.message().await.unwrap().unwrap(), "begun");
    (send, answers)
}

async fn waiting(site: &Site) -> Status {
    site.client().await.unary("/protocol.Mirror/Never", b"ask").await.unwrap_err()
}

// Shows (Streams).
#[tokio::test]
async fn a_stream_and_a_waiting_call_end_when_their_key_is_revoked() {
    let node = Mirror::new().await;
    let hash = KeyHash::of(&key("default"));
    let directory = Arc::new(MemoryDirectory::new([(hash, Arc::new(suite::caller(1)))]));
    let site = Site::new(tron(&node).directory(directory.clone())).await;
    let (_send, mut answers) = stream(&site).await;
    let revoking = async {
        until("both calls are at the node", || node.calls() == 2).await;
        directory.revoke(hash);
    };
    let (status, ()) = tokio::join!(waiting(&site), revoking);
    for status in [status, answers.message().await.unwrap_err()] {
        let expected = (Code::Unauthenticated, "Invalid authentication credentials");
        assert_eq!((status.code(), status.message()), expected);
    }
}

// Shows (Streams).
#[tokio::test]
async fn at_the_end_of_the_grace_calls_end_with_a_status_and_no_connection_is_cut() {
    let node = Mirror::new().await;
    let site = Site::new(tron(&node).set("shutdown", "grace = \"3s\"")).await;
    let (_send, mut answers) = stream(&site).await;
    let ending = async {
        let drained = async {
            // A connection alone may still be making its TLS handshake, which a drain ends.
            until("both calls are at the node", || node.calls() == 2).await;
            site.gateway.server.drain().await
        };
        tokio::join!(waiting(&site), async { answers.message().await.unwrap_err() }, drained)
    };
    let (one, two, drained) = ending.await;
    for status in [one, two] {
        assert_eq!(
            (status.code(), status.message()),
            (Code::Unavailable, "the gateway is stopping, call again")
        );
    }
    assert_eq!(drained.cut, 0);
}
