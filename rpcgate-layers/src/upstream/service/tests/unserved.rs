//! Nodes that answer, but cannot serve the calls.

use super::selective::erring;
use super::*;
use crate::nodes::{RetryBudget, RetryPolicy};
use rpcgate_core::node_try::NodeChoice;

const BUSY: &str = r#"{"code":-32005,"message":"busy"}"#;
const BROKEN: &str = r#"{"code":-32603,"message":"broken method"}"#;
const REVERTED: &str = r#"{"code":3,"message":"reverted"}"#;

fn site(nodes: &[&ScriptedNode]) -> Site {
    Site::of(Fixture::new(), PoolFixture::new(nodes))
}

/// Sends a call of `toy_scan`, `toy_id` or another method again and again, and counts the good answers.
async fn good(site: &Site, body: &'static str, calls: usize) -> usize {
    let mut good = 0;
    for _ in 0..calls {
        good += usize::from(site.send(body).await.1.contains("result"));
    }
    good
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_node_that_fails_at_once_is_not_preferred_and_its_calls_are_answered_by_another() {
    for error in [BUSY, BROKEN] {
        let bad = erring(error).await;
        let well = echo().await;
        let site = site(&[&bad, &well]);
        assert_eq!(good(&site, r#"{"jsonrpc":"2.0","id":1,"method":"toy_id"}"#, 200).await, 200, "{error}");
        assert!(bad.seen().len() < 5, "{error} {}", bad.seen().len());
        assert!(site.lines().iter().all(|line| line.2 == Outcome::Answered));
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_node_that_answers_everything_with_unknown_errors_loses_its_calls() {
    let bad = erring(REVERTED).await;
    let well = echo().await;
    let site = site(&[&bad, &well]);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"toy_id"}"#;
    let before = good(&site, call, 100).await;
    assert!(before >= 84, "16 errors in a row can be the caller's: {before}");
    assert_eq!(good(&site, call, 200).await, 200);
    assert!(bad.seen().len() < 20, "{}", bad.seen().len());
}

#[tokio::test]
async fn a_call_is_metered_once_and_the_second_try_is_explained() {
    let bad = erring(BUSY).await;
    let well = echo().await;
    let site = site(&[&bad, &well]);
    let mut choices = Vec::new();
    for _ in 0..2 {
        let calls = site.settle(r#"{"id":1,"method":"toy_block"}"#).await;
        choices.extend(calls.tally().tries.as_slice().iter().map(|one| one.choice));
        drop(join(calls, usize::MAX));
    }
    assert!(choices.contains(&NodeChoice::Elsewhere), "{choices:?}");
    assert!(site.lines().iter().all(|line| *line == (10, 200, Outcome::Answered)));
}

// Shows (Nodes and cache).
#[tokio::test]
async fn if_no_node_can_serve_a_call_its_client_gets_the_nodes_error_and_is_not_charged() {
    for error in [BUSY, r#"{"code":-32000,"message":"no data"}"#] {
        let one = erring(error).await;
        let two = erring(error).await;
        let site = site(&[&one, &two]);
        let body = site.send(r#"{"jsonrpc":"2.0","id":1,"method":"toy_block"}"#).await.1;
        assert_eq!(body, format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#));
        assert_eq!(site.lines(), [(0, 200, Outcome::NodeError)]);
        assert_eq!((one.seen().len(), two.seen().len()), (1, 1), "each was asked once");
    }
}

#[tokio::test]
async fn an_error_of_the_callers_own_is_passed_and_charged_and_not_asked_of_another_node() {
    let one = erring(REVERTED).await;
    let two = erring(REVERTED).await;
    let site = site(&[&one, &two]);
    for _ in 0..10 {
        assert!(site.send(r#"{"jsonrpc":"2.0","id":1,"method":"toy_block"}"#).await.1.contains("reverted"));
    }
    assert_eq!(site.lines(), vec![(10, 200, Outcome::NodeError); 10]);
    assert_eq!((one.seen().len(), two.seen().len()), (5, 5), "nodes take turns, and none is doubtful for it");
}

#[tokio::test]
async fn a_method_of_no_table_that_one_node_lacks_is_served_by_another() {
    let bad = erring(BROKEN).await;
    let well = echo().await;
    let site = site(&[&bad, &well]);
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"unlisted"}"#;
    assert_eq!(good(&site, body, 200).await, 200);
    assert!(bad.seen().len() < 5, "the node that lacks it is remembered: {}", bad.seen().len());
    assert!(site.lines().iter().all(|line| line.2 == Outcome::Answered));
}

#[tokio::test]
async fn an_invented_method_uses_spare_retries_alone_and_counts_against_no_node() {
    let one = erring(BROKEN).await;
    let two = erring(BROKEN).await;
    let site = site(&[&one, &two]);
    for _ in 0..40 {
        site.send(r#"{"jsonrpc":"2.0","id":1,"method":"invented"}"#).await;
    }
    let again = one.seen().len() + two.seen().len() - 40;
    // Every ten sent requests earn one retry.
    assert_eq!(again, 15 + (40 + again) / 10, "half of the reserve of 30 is left");
    assert_eq!(site.lines(), vec![(0, 200, Outcome::NodeError); 40]);
    site.send(r#"{"jsonrpc":"2.0","id":1,"method":"toy_block"}"#).await;
    assert_eq!(one.seen().len() + two.seen().len(), 42 + again, "a listed method is still asked of both");
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_broadcast_that_a_node_cannot_serve_is_not_sent_again_and_not_charged() {
    let one = erring(BUSY).await;
    let two = erring(BUSY).await;
    let site = site(&[&one, &two]);
    assert!(site.send(r#"{"jsonrpc":"2.0","id":1,"method":"toy_send"}"#).await.1.contains("busy"));
    assert_eq!(one.seen().len() + two.seen().len(), 1);
    assert_eq!(site.lines(), [(0, 200, Outcome::NodeError)]);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn only_the_unserved_calls_of_a_batch_go_to_another_node() {
    let bad = erring(BUSY).await;
    let well = echo().await;
    let site = site(&[&bad, &well]);
    for _ in 0..2 {
        let states = site
            .states_of(r#"[{"id":1,"method":"toy_scan"},{"id":2,"method":"a","params":[2]},{"id":3,"method":"b","params":[3]}]"#)
            .await;
        assert_eq!(states[1..], [r#"["a",[2]]"#, r#"["b",[3]]"#]);
    }
    let again = bodies(&well).into_iter().find(|body| !body.contains("toy_scan"));
    assert!(again.is_some_and(|body| body.starts_with('[')), "in one array: {:?}", bodies(&well));
}

// Shows (Nodes and cache).
#[tokio::test]
async fn reads_are_asked_again_within_the_retry_budget_alone() {
    let one = erring(BUSY).await;
    let two = erring(BUSY).await;
    let nodes = [&one, &two].map(|node| NodeConfig::new(node.url().parse().unwrap())).to_vec();
    let retry = RetryPolicy::default().with_budget(RetryBudget::default().with_min_per_sec(0));
    let limits = PoolLimits::default().with_retry(retry);
    let site = Site::of(Fixture::new(), PoolFixture::of(nodes, limits));
    for _ in 0..9 {
        site.send(r#"{"jsonrpc":"2.0","id":1,"method":"toy_id"}"#).await;
    }
    assert_eq!(one.seen().len() + two.seen().len(), 9, "ten calls earn one retry");
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_node_that_is_broken_for_one_method_keeps_the_others() {
    // The node answers `toy_scan`, and fails at `toy_id`.
    let half = erring(BROKEN).await;
    let well = echo().await;
    let site = site(&[&half, &well]);
    for _ in 0..40 {
        assert!(site.send(r#"{"jsonrpc":"2.0","id":1,"method":"toy_id"}"#).await.1.contains("result"));
        assert!(site.send(r#"{"jsonrpc":"2.0","id":1,"method":"toy_scan"}"#).await.1.contains("result"));
    }
    let scans = bodies(&half).iter().filter(|body| body.contains("toy_scan")).count();
    let fails = bodies(&half).len() - scans;
    assert!(scans >= 10 && fails < 5, "{scans} {fails}");
}

// Shows (Nodes and cache): A block that a node lacks is requested from a node that is known to have reached it (promise
// 74).
#[tokio::test]
async fn a_block_that_a_node_does_not_have_is_asked_of_one_that_has_reached_it() {
    let null = ScriptedNode::always(answer(r#"{"jsonrpc":"2.0","result":null}"#)).await;
    let has = ScriptedNode::always(answer(r#"{"jsonrpc":"2.0","result":"block"}"#)).await;
    let block = r#"{"jsonrpc":"2.0","id":1,"method":"toy_block","params":[7]}"#;
    let answers = async |site: &Site| {
        let mut answers = Vec::new();
        for _ in 0..4 {
            answers.push(site.send(block).await.1.contains("null"));
        }
        answers
    };
    let site = site(&[&null, &has]);
    site.pool.pool.raise_height(0, 5);
    site.pool.pool.raise_height(1, 7);
    assert_eq!(answers(&site).await, [false; 4], "node 0 is known to be behind");
    let seen = null.seen().len();
    assert!(seen > 0);
    let site = self::site(&[&null, &null]);
    site.pool.pool.raise_height(1, 6);
    assert_eq!(answers(&site).await, [true; 4], "no node is known to have it");
    assert_eq!(null.seen().len(), seen + 4, "and none is asked again");
}
