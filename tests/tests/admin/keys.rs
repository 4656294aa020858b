//! Keys that are revoked while they are in use.

use crate::watch::Pair;
use rpcgate_tests::client::{TestClient, TestReply};
use serde_json::json;

fn is_refused(reply: &TestReply) -> bool {
    reply.status == 401 && reply.json() == json!({ "message": "Invalid authentication credentials" })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_in_use_is_refused_at_every_gateway_within_a_second_of_its_delete() {
    let pair = Pair::start().await;
    let project = pair.owner.project("one").await;
    let (_, other) = pair.owner.key(&project).await;
    for round in 0..5 {
        let (id, text) = pair.owner.key(&project).await;
        let path = format!("/keys/{id}");
        let delete = pair.owner.delete(&path);
        pair.change("a key is revoked", (&text, "eth", "eth_call"), delete, is_refused).await;
        for gateway in &pair.gateways {
            let reply = TestClient::new(gateway.addr(), Some(&other)).call("eth", "eth_call", "[]").await;
            assert_eq!(reply.status, 200, "others go on: {reply:?}");
        }
        if round == 0 {
            // The first answers fill the memory of the gateways, so that they know the old state.
            let gateway = pair.service.gateway().await;
            assert!(is_refused(
                &TestClient::new(gateway.addr(), Some(&text)).call("eth", "eth_call", "[]").await
            ));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_deleted_project_are_refused_at_every_gateway_within_a_second() {
    let pair = Pair::start().await;
    let project = pair.owner.project("one").await;
    let (_, text) = pair.owner.key(&project).await;
    let path = format!("/projects/{project}");
    let delete = pair.owner.delete(&path);
    pair.change("a project is deleted", (&text, "btc", "getblockcount"), delete, is_refused).await;
}
