//! Pools whose nodes take different methods, or keep different histories.

use super::*;
use crate::nodes::{RetryBudget, RetryPolicy};
use rpcgate_core::chain::NodeMethods;
use rpcgate_core::node_try::{NodeChoice, NodeTries, TryEnd};

/// A node at this address that takes the methods of `only`, or all, except those of `except`.
fn taking(node: &ScriptedNode, only: &[&str], except: &[&str]) -> NodeConfig {
    let methods = NodeMethods::new(only.iter().copied(), except.iter().copied());
    NodeConfig::new(node.url().parse().unwrap()).with_methods(methods)
}

fn site(nodes: Vec<NodeConfig>) -> Site {
    Site::of(Fixture::new(), PoolFixture::of(nodes, PoolLimits::default()))
}

/// A node that answers every call with this error.
pub(super) async fn erring(error: &'static str) -> ScriptedNode {
    ScriptedNode::serve(move |_, mut wire: Wire| async move {
        while let Some(request) = wire.request().await {
            let body = request.split_once("\r\n\r\n").unwrap().1;
            let reply = |call: rpcgate_core::envelope::Envelope| {
                let id = call.id.map_or("null", |id| std::str::from_utf8(id.of(body.as_bytes())).unwrap());
                match call.method.text(body.as_bytes()) {
                    "toy_scan" => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"kept"}}"#),
                    _ => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#),
                }
            };
            let replies = match parse(body.as_bytes(), &Limits::default()).unwrap() {
                ParsedBody::Single(call) => reply(call.unwrap()),
                ParsedBody::Batch(calls) => {
                    let replies: Vec<_> = calls.into_iter().map(|call| reply(call.unwrap())).collect();
                    format!("[{}]", replies.join(","))
                }
            };
            wire.write(answer(&replies)).await;
        }
    })
    .await
}

const PRUNED: &str = r#"{"code":-32000,"message":"it is pruned"}"#;

/// Returns the reason, the node and the end of each try.
fn tries(tries: &NodeTries) -> Vec<(NodeChoice, u16, TryEnd)> {
    tries.as_slice().iter().map(|one| (one.choice, one.node, one.end)).collect()
}

// Shows (Nodes and cache): A call goes to a node that takes its method; if none does, it is refused as not available,
// without cost.
#[tokio::test]
async fn a_call_goes_to_a_node_that_takes_its_method_else_it_is_not_available() {
    let traces = echo().await;
    let full = echo().await;
    let site = site(vec![
        taking(&traces, &["probe_*", "toy_id"], &[]),
        taking(&full, &[], &["probe_*", "toy_send"]),
    ]);
    for _ in 0..4 {
        let state = site.states_of(r#"{"id":1,"method":"toy_scan"}"#).await;
        assert_eq!(state, [r#"whole {"id":0,"result":["toy_scan","none"],"jsonrpc":"2.0"}"#]);
        site.states_of(r#"{"id":1,"method":"probe_x"}"#).await;
    }
    assert_eq!((traces.seen().len(), full.seen().len()), (4, 4));
    assert!(bodies(&traces).iter().all(|body| body.contains("probe_x")));
    let refused = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not available"}}"#;
    assert_eq!(site.send(r#"{"jsonrpc":"2.0","id":1,"method":"toy_send"}"#).await, (200, refused.to_owned()));
    assert_eq!(traces.seen().len() + full.seen().len(), 8, "nothing was sent");
    let refusal = site.lines().into_iter().find(|line| line.2 == Outcome::Refused);
    assert_eq!(refusal, Some((0, 200, Outcome::Refused)), "and nothing is charged");
}

// Shows (Nodes and cache): A batch is split by the nodes that take its calls.
#[tokio::test]
async fn a_batch_is_split_by_the_nodes_that_take_its_calls_and_joined_in_order() {
    let traces = echo().await;
    let full = echo().await;
    let site = site(vec![taking(&traces, &["probe_*"], &[]), taking(&full, &[], &["probe_*", "toy_id"])]);
    let states = site
        .states_of(
            r#"[{"id":1,"method":"probe_x","params":[1]},{"id":2,"method":"toy_scan","params":[2]},
                {"id":3,"method":"toy_id"},{"id":4,"method":"probe_y","params":[4]},{"id":5,"method":"other","params":[5]}]"#,
        )
        .await;
    let expected = [
        r#"["probe_x",[1]]"#,
        r#"["toy_scan",[2]]"#,
        "Refused(Closed)",
        r#"["probe_y",[4]]"#,
        r#"["other",[5]]"#,
    ];
    assert_eq!(states, expected);
    let [to_traces, to_full] = [bodies(&traces), bodies(&full)];
    assert_eq!((to_traces.len(), to_full.len()), (1, 1), "one array each");
    assert!(to_traces[0].contains("probe_x") && to_traces[0].contains("probe_y"));
    assert!(to_full[0].contains("toy_scan") && to_full[0].contains("other"));
}

// Shows (Nodes and cache): Health and retries consider the nodes that take a call.
#[tokio::test]
async fn health_and_retries_are_among_the_nodes_that_take_the_call() {
    let bad = ScriptedNode::always(status(500, "oh")).await;
    let other = echo().await;
    let good = echo().await;
    let nodes =
        vec![taking(&bad, &[], &[]), taking(&other, &[], &["toy_scan"]), taking(&good, &["toy_scan"], &[])];
    let site = site(nodes);
    for _ in 0..4 {
        let state = site.states_of(r#"{"id":1,"method":"toy_scan"}"#).await;
        assert_eq!(state, [r#"whole {"id":0,"result":["toy_scan","none"],"jsonrpc":"2.0"}"#]);
    }
    assert_eq!((other.seen().len(), good.seen().len()), (0, 4));
    let alone = site_of_bad(&bad).await;
    assert_eq!(alone, ["Status(500)"], "the other node is no alternative for it");
}

/// Returns the state of a call that only a failing node takes, in a pool with a node for the other methods.
async fn site_of_bad(bad: &ScriptedNode) -> Vec<String> {
    let other = echo().await;
    let site = site(vec![taking(bad, &["toy_scan"], &[]), taking(&other, &[], &["toy_scan"])]);
    site.states_of(r#"{"id":1,"method":"toy_scan"}"#).await
}

fn with_archive(pruned: &ScriptedNode, archive: &ScriptedNode) -> Vec<NodeConfig> {
    let node = |node: &ScriptedNode| NodeConfig::new(node.url().parse().unwrap());
    vec![node(archive).with_archive(true), node(pruned)]
}

// Shows (Nodes and cache): An archive answers a read whose node has pruned the state, and it is metered once.
#[tokio::test]
async fn an_archive_answers_a_read_whose_node_has_pruned_the_state_and_it_is_metered_once() {
    let pruned = erring(PRUNED).await;
    let archive = echo().await;
    let site = site(with_archive(&pruned, &archive));
    let calls = site.settle(r#"{"id":1,"method":"toy_block"}"#).await;
    assert_eq!(states(&calls), [r#"["toy_block","none"]"#]);
    let [first, second] = tries(&calls.tally().tries)[..] else { panic!("two tries") };
    assert_eq!(first, (NodeChoice::OnlyHealthy, 1, TryEnd::Answered), "an archive is of another tier");
    assert_eq!(second, (NodeChoice::Archive, 0, TryEnd::Answered));
    drop(join(calls, usize::MAX));
    assert_eq!(site.lines(), [(10, 200, Outcome::Answered)]);
    assert_eq!((pruned.seen().len(), archive.seen().len()), (1, 1));
}

// Shows (Nodes and cache).
#[tokio::test]
async fn only_the_calls_of_a_batch_without_history_go_to_an_archive() {
    let pruned = erring(PRUNED).await;
    let archive = echo().await;
    let site = site(with_archive(&pruned, &archive));
    let states = site
        .states_of(r#"[{"id":1,"method":"toy_scan"},{"id":2,"method":"a","params":[2]},{"id":3,"method":"b","params":[3]}]"#)
        .await;
    assert_eq!(states, [r#""kept""#, r#"["a",[2]]"#, r#"["b",[3]]"#]);
    let [asked] = &bodies(&archive)[..] else { panic!("{:?}", bodies(&archive)) };
    assert!(!asked.contains("toy_scan") && asked.starts_with('['), "{asked}");
}

// Shows (Nodes and cache).
#[tokio::test]
async fn an_archive_is_not_asked_for_other_errors_nor_for_broadcasts_nor_twice() {
    let pruned = erring(PRUNED).await;
    let archive = erring(PRUNED).await;
    let site = site(with_archive(&pruned, &archive));
    let state = site.states_of(r#"{"id":1,"method":"toy_send"}"#).await;
    assert!(state[0].contains("pruned") && archive.seen().is_empty(), "{state:?}");
    let state = site.states_of(r#"{"id":1,"method":"toy_id"}"#).await;
    assert_eq!((state, archive.seen().len()), (vec![format!("200 OK {PRUNED}")], 1));
    let other = erring(r#"{"code":-7,"message":"reverted"}"#).await;
    let archive = echo().await;
    let site = self::site(with_archive(&other, &archive));
    assert!(site.states_of(r#"{"id":1,"method":"toy_id"}"#).await[0].contains("reverted"));
    assert!(archive.seen().is_empty());
}

// Shows (Nodes and cache).
#[tokio::test]
async fn if_the_archive_fails_the_client_gets_the_first_answer() {
    let pruned = erring(PRUNED).await;
    let refusing = Refusing::new();
    let archive = NodeConfig::new(refusing.url().parse().unwrap()).with_archive(true);
    let site = site(vec![archive, NodeConfig::new(pruned.url().parse().unwrap())]);
    let (code, body) = site.send(r#"{"jsonrpc":"2.0","id":1,"method":"other"}"#).await;
    assert_eq!((code, body), (200, format!(r#"{{"jsonrpc":"2.0","id":1,"error":{PRUNED}}}"#)));
    assert_eq!(site.lines(), [(0, 200, Outcome::NodeError)], "no node could serve it");
}

// Shows (Nodes and cache): An archive is asked within the retry budget and never for a broadcast; if it fails, the
// first answer is used.
#[tokio::test]
async fn an_archive_is_asked_within_the_retry_budget_alone() {
    let pruned = erring(PRUNED).await;
    let archive = erring(PRUNED).await;
    let retry = RetryPolicy::default().with_budget(RetryBudget::default().with_min_per_sec(0));
    let limits = PoolLimits::default().with_retry(retry);
    let site = Site::of(Fixture::new(), PoolFixture::of(with_archive(&pruned, &archive), limits));
    for _ in 0..5 {
        site.states_of(r#"{"id":1,"method":"other"}"#).await;
    }
    assert_eq!((pruned.seen().len(), archive.seen().len()), (5, 0), "ten calls earn one retry");
}

#[tokio::test]
async fn an_archive_alone_is_an_ordinary_node() {
    let archive = erring(PRUNED).await;
    let site = site(vec![NodeConfig::new(archive.url().parse().unwrap()).with_archive(true)]);
    site.states_of(r#"{"id":1,"method":"other"}"#).await;
    assert_eq!(archive.seen().len(), 1);
}
