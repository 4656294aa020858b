//! Keys that are revoked while they are in use.

use crate::admin_command::admin;
use crate::watch::Pair;
use rpcgate_tests::client::{TestClient, TestReply};
use serde_json::json;

fn is_refused(reply: &TestReply) -> bool {
    reply.status == 401 && reply.json() == json!({ "message": "Invalid authentication credentials" })
}

// Shows (Keys): A key that is revoked while in use is refused at every gateway within 1 s, and at gateways that start
// later (promise 19).
// Shows (Management): A revoked key, and the keys of a deleted project, are refused at every gateway within 1 s.
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
            // The first answers fill the caches of the gateways with the old state.
            let gateway = pair.service.gateway().await;
            assert!(is_refused(
                &TestClient::new(gateway.addr(), Some(&text)).call("eth", "eth_call", "[]").await
            ));
        }
    }
}

// Shows (Management).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_deleted_project_are_refused_at_every_gateway_within_a_second() {
    let pair = Pair::start().await;
    let project = pair.owner.project("one").await;
    let (_, text) = pair.owner.key(&project).await;
    let path = format!("/projects/{project}");
    let delete = pair.owner.delete(&path);
    pair.change("a project is deleted", (&text, "btc", "getblockcount"), delete, is_refused).await;
}

// Shows (Commands and configuration): A change by a command takes effect at every gateway within 1 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_created_and_revoked_at_the_command_line_takes_effect_within_a_second() {
    let pair = Pair::start().await;
    let project = pair.owner.project("one").await;
    let file = pair.service.config_file();
    let created = admin(&file, &format!("key create {project} --json")).await.json();
    let id = created[0]["id"].as_str().unwrap();
    let text = created[0]["key"].as_str().unwrap();
    let is_served = |reply: &TestReply| (reply.status, reply.code()) == (200, 0);
    let run = async |line: String| assert_eq!(admin(&file, &line).await.code, Some(0), "{line}");
    let tenant = pair.owner.tenant().await;
    let is_suspended = |reply: &TestReply| reply.status == 402;
    let call = (text, "eth", "eth_call");
    let suspend = run(format!("tenant suspend {tenant} --yes"));
    pair.change("a tenant is suspended", call, suspend, is_suspended).await;
    pair.change("it is active again", call, run(format!("tenant reactivate {tenant}")), is_served).await;
    let revoke = async {
        let revoked = admin(&file, &format!("key revoke {} --yes --json", &text[..12])).await.json();
        assert!(revoked[0]["id"] == id && revoked[0]["revoked_at"].is_string(), "{revoked:?}");
    };
    pair.change("a key is revoked", call, revoke, is_refused).await;
}
