//! Method lists of projects.

use crate::watch::Pair;
use rpcgate_tests::client::TestReply;
use serde_json::json;

fn is_served(reply: &TestReply) -> bool {
    (reply.status, reply.code()) == (200, 0)
}

fn is_refused(reply: &TestReply) -> bool {
    (reply.status, reply.code()) == (403, -32004)
}

// Shows (Management): A project has method lists, which take effect at every gateway within 1 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_method_lists_take_effect_at_every_gateway_within_a_second() {
    let pair = Pair::start().await;
    let project = pair.owner.project("one").await;
    let (_, text) = pair.owner.key(&project).await;
    let path = format!("/projects/{project}");
    let call = (text.as_str(), "eth", "eth_getBalance");
    let change = async |lists| drop(pair.owner.put(&path, &lists).await);
    let blocked = change(json!({ "blocked_methods": ["eth_getBalance"] }));
    pair.change("a method is blocked", call, blocked, is_refused).await;
    let open = change(json!({ "blocked_methods": [] }));
    pair.change("it is not blocked any more", call, open, is_served).await;
    let others = change(json!({ "allowed_methods": ["eth_call"] }));
    pair.change("only others are allowed", call, others, is_refused).await;
    let both = change(json!({ "allowed_methods": ["eth_call", "eth_getBalance"] }));
    pair.change("it is allowed, too", call, both, is_served).await;
}
