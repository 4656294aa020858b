use super::*;
use rpcgate_core::node_try::{NodeChoice, TryEnd};

const SEND: &str = r#"{"jsonrpc":"2.0","id":0,"method":"toy_send","params":["0x1"]}"#;
const TAKEN: &str = r#"{"jsonrpc":"2.0","id":0,"result":"0xab"}"#;
const KNOWN: &str = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"already known"}}"#;
const REJECTED: &str = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"nonce too low"}}"#;

/// A node that reads requests and never answers.
async fn silent() -> ScriptedNode {
    ScriptedNode::serve(|_, mut wire: Wire| async move {
        wire.request().await;
        std::future::pending::<()>().await;
    })
    .await
}

fn site(nodes: &[&ScriptedNode], broadcast_nodes: usize) -> Site {
    let nodes = nodes.iter().map(|node| NodeConfig::new(node.url().parse().unwrap())).collect();
    let limits = PoolLimits::default().with_broadcast_nodes(broadcast_nodes);
    Site::of(Fixture::new(), PoolFixture::of(nodes, limits))
}

// Shows (Nodes and cache): A transaction goes to several nodes at once and is metered once; the first acceptance
// answers, and a node that already knew it has not failed.
#[tokio::test]
async fn a_transaction_goes_to_as_many_nodes_as_are_configured_and_is_metered_once() {
    let one = ScriptedNode::always(answer(TAKEN)).await;
    let two = ScriptedNode::always(answer(KNOWN)).await;
    let three = ScriptedNode::always(answer(REJECTED)).await;
    let others = ScriptedNode::always(answer(REJECTED)).await;
    for _ in 0..3 {
        let site = site(&[&one, &two, &three], 3);
        assert_eq!(site.send(SEND).await, (200, TAKEN.to_owned()));
        assert_eq!(site.lines(), [(20, 200, Outcome::Answered)]);
    }
    // The first answer does not wait until the other nodes have read their copies.
    let counts = || [one.seen().len(), two.seen().len(), three.seen().len()];
    PoolFixture::new(&[&one]).until(|_| counts() == [3, 3, 3]).await;
    let site = site(&[&one, &others, &others], 2);
    for _ in 0..3 {
        site.send(SEND).await;
    }
    assert_eq!(site.lines().len(), 3);
    site.pool.until(|_| one.seen().len() + others.seen().len() == 3 + 6).await;
}

#[tokio::test]
async fn by_default_one_node_gets_a_transaction() {
    let one = ScriptedNode::always(answer(TAKEN)).await;
    let two = ScriptedNode::always(answer(TAKEN)).await;
    let site = site(&[&one, &two], 1);
    site.send(SEND).await;
    assert_eq!(one.seen().len() + two.seen().len(), 1);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn that_a_node_knew_it_before_is_an_answer_only_if_no_node_takes_it() {
    let known = ScriptedNode::always(answer(KNOWN)).await;
    let rejecting = ScriptedNode::always(answer(REJECTED)).await;
    for nodes in [[&known, &rejecting], [&rejecting, &known]] {
        assert_eq!(site(&nodes, 2).send(SEND).await.1, KNOWN, "it is no failure");
    }
    let rejected = site(&[&rejecting, &rejecting], 2);
    assert_eq!(rejected.send(SEND).await.1, REJECTED);
    assert_eq!(rejected.lines(), [(20, 200, Outcome::NodeError)]);
}

#[tokio::test]
async fn the_first_node_that_takes_it_answers_and_what_became_of_the_others_is_explained() {
    let hanging = silent().await;
    let good = ScriptedNode::always(answer(TAKEN)).await;
    let site = site(&[&hanging, &good], 2);
    let calls = site.settle(SEND).await;
    assert_eq!(states(&calls), [format!("whole {TAKEN}")]);
    let mut tries = calls.tally().tries.as_slice().to_vec();
    tries.sort_by_key(|one| one.node);
    let [of_hanging, of_good] = &tries[..] else { panic!("{tries:?}") };
    assert_eq!((of_hanging.end, of_good.end), (TryEnd::Running, TryEnd::Answered));
    assert!(tries.iter().any(|one| one.choice == NodeChoice::Broadcast));
    assert!(tries.iter().all(|one| one.calls.has(0)));
    site.pool.until(|_| hanging.seen().len() == 1).await;
}

// Shows (Nodes and cache): With `broadcast_nodes`, the copies run to their end within the time of the call.
#[tokio::test]
async fn the_copies_at_other_nodes_run_to_their_end_when_the_first_node_has_taken_it() {
    // The node stops when its client leaves, and notes the result for the transaction.
    let slow = ScriptedNode::serve(|_, mut wire: Wire| async move {
        while wire.request().await.is_some() {
            tokio::select! {
                () = wire.closed() => wire.note("torn"),
                () = tokio::time::sleep(Duration::from_millis(50)) => wire.note("taken"),
            }
            wire.write(answer(TAKEN)).await;
        }
    })
    .await;
    let quick = ScriptedNode::always(answer(TAKEN)).await;
    let site = site(&[&quick, &slow], 2);
    for _ in 0..3 {
        assert_eq!(site.send(SEND).await, (200, TAKEN.to_owned()));
    }
    let ends = |end: &str| slow.seen().iter().filter(|seen| *seen == end).count();
    site.pool.until(|_| ends("taken") + ends("torn") == 3).await;
    assert_eq!((ends("taken"), ends("torn")), (3, 0));
    site.pool.until(|pool| pool.in_flight() == 0).await;
}

// Shows (Nodes and cache).
#[tokio::test]
async fn the_copies_have_the_time_of_the_call_and_no_more() {
    let hanging = silent().await;
    let good = ScriptedNode::always(answer(TAKEN)).await;
    let nodes = [&hanging, &good].map(|node| NodeConfig::new(node.url().parse().unwrap())).to_vec();
    let retry = crate::nodes::RetryPolicy::default().with_deadline(Duration::from_millis(100));
    let limits = PoolLimits::default().with_broadcast_nodes(2).with_retry(retry);
    let site = Site::of(Fixture::new(), PoolFixture::of(nodes, limits));
    assert_eq!(site.send(SEND).await, (200, TAKEN.to_owned()));
    site.pool.until(|pool| hanging.seen().len() == 1 && pool.in_flight() == 0).await;
}

#[tokio::test]
async fn a_node_that_fails_costs_nothing_and_if_all_fail_the_call_does() {
    let bad = ScriptedNode::always(status(500, "oh")).await;
    let good = ScriptedNode::always(answer(TAKEN)).await;
    assert_eq!(site(&[&bad, &good], 2).send(SEND).await.1, TAKEN);
    let refusing = [Refusing::new(), Refusing::new()];
    let urls: Vec<_> = refusing.iter().map(Refusing::url).collect();
    let limits = PoolLimits::default().with_broadcast_nodes(2);
    let site = Site::of(Fixture::new(), PoolFixture::with(&urls, limits));
    assert_eq!(site.states_of(SEND).await, ["Connect"]);
    assert_eq!(site.lines()[0].0, 0, "nothing was sent, so nothing is charged");
}
