//! The head of a chain according to its nodes.

use super::head_belief::{HeadBelief, NodeHeight};
use super::node::NodeIndex;
use super::pool::Pool;
use super::probe_call::{ProbeCall, ProbeFailure};
use futures_util::future::join_all;
use rpcgate_core::adapter::NodeStatus;
use rpcgate_core::chain::Chain;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The interval, in rounds, at which each node is asked for its network.
const NETWORK_ROUNDS: u64 = 10;

/// Probes each node immediately and then every `every`, and earlier if calls wait for a height. The results set the
/// chain's [`head`](Chain::head) and the health of the nodes. Runs until it is dropped.
///
/// The head is the highest height that enough nodes have reached or nearly reached: at least half of those that answer,
/// and at least two in a pool of three or more. So one node alone can neither make the cache treat data as final too
/// early nor make all others look behind. A height that has grown much faster than the block rate is believed only if
/// other nodes agree, or if it persists. If the head falls back far, the stored answers of the chain are dropped. While
/// no node answers, the head does not change.
///
/// Not counted are nodes at height 0, which know nothing yet, and nodes on another network. A node without an HTTP
/// address is not probed: its streams and calls show its health.
///
/// If the chain has a [network probe](rpcgate_core::adapter::Adapter::network), each node is asked for its network in
/// the first round, when it answers again after a silence, and in every tenth round. If a node turns out to belong to
/// another network, the stored answers of the chain are dropped, because some may come from it.
pub async fn watch_head(pool: Arc<Pool>, chain: Arc<Chain>, every: Duration) {
    let adapter = chain.adapter();
    pool.check_networks(adapter);
    let first = ProbeCall::new(adapter, adapter.probe());
    let second = adapter.second_probe().map(|probe| ProbeCall::new(adapter, probe));
    let facts = chain.facts();
    let mut belief = HeadBelief::new(facts.block_time, pool.max_lag(), chain.head().height(), pool.elapsed());
    let mut logged: Vec<Option<&'static str>> = vec![None; pool.nodes().len()];
    let mut ticks = interval(every.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut rounds: u64 = 0;
    loop {
        let is_extra = tokio::select! {
            _ = ticks.tick() => false,
            () = pool.head_requested() => true,
        };
        let asks_networks = !is_extra && rounds.is_multiple_of(NETWORK_ROUNDS);
        rounds += u64::from(!is_extra);
        pool.sweep();
        let probed = pool.probed().filter(|index| !pool.is_spent(*index));
        let probes = probed.map(|index| probe(&pool, &chain, index, &first, second.as_ref(), asks_networks));
        let answers = join_all(probes).await.into_iter().flatten().collect();
        if pool.take_wrong_networks() {
            chain.head().drop_replies();
        }
        if let Some(head) = belief.observe(answers, pool.probed().len(), is_extra, pool.elapsed()) {
            pool.compare(head.height);
            chain.head().set(head.height);
            if head.has_fallen {
                let name = chain.name();
                let height = head.height;
                tracing::warn!(chain = %name, height, "the head has fallen back far: stored answers of the chain are dropped");
                chain.head().drop_replies();
            }
        }
        pool.notify_heads();
        for (view, logged) in pool.nodes().zip(&mut logged) {
            let name = view.health.name();
            if logged.replace(name) != Some(name) {
                let chain = chain.name();
                let node = view.name;
                let height = view.height;
                let reason = view.reason.as_deref();
                tracing::info!(%chain, %node, health = name, height, reason, "the health of a node");
            }
        }
    }
}

/// Probes one node and records the result, with the latency of the first call. Returns the node's height, unless the
/// height is 0 or the node belongs to another network.
async fn probe(
    pool: &Pool,
    chain: &Chain,
    index: NodeIndex,
    first: &ProbeCall,
    second: Option<&ProbeCall>,
    asks_network: bool,
) -> Option<NodeHeight> {
    let began = pool.elapsed();
    let mut took = Duration::ZERO;
    let status =
        status(pool, chain, index, first, second, || took = pool.elapsed().saturating_sub(began)).await;
    // The height of a node that answers for the first time, or again, must not be compared with others before its
    // network is known.
    if status.is_ok() && (asks_network || pool.is_network_due(index)) {
        pool.check_network(index).await;
    }
    let NodeStatus { height, syncing: is_syncing, .. } = pool.record_probe(index, status, took)?;
    (height > 0 && !pool.is_of_wrong_network(index)).then_some(NodeHeight { height, is_syncing })
}

/// Returns the status of a node, which takes one call or two. `answered` is called after the first.
async fn status(
    pool: &Pool,
    chain: &Chain,
    index: NodeIndex,
    first: &ProbeCall,
    second: Option<&ProbeCall>,
    answered: impl FnOnce(),
) -> Result<NodeStatus, ProbeFailure> {
    let adapter = chain.adapter();
    let readable = |answer: &[u8]| !adapter.is_error(answer);
    let answer = pool.probe_node(index, first, PROBE_TIMEOUT).await;
    answered();
    let answer = answer?;
    let shown = adapter.seen(&answer).filter(|_| readable(&answer)).ok_or(ProbeFailure::Unreadable)?;
    let Some(second) = second else { return Ok(shown) };
    let answer = pool.probe_node(index, second, PROBE_TIMEOUT).await?;
    adapter.seen_second(shown, &answer).filter(|_| readable(&answer)).ok_or(ProbeFailure::Unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{NodeConfig, NodeUrl, PoolLimits};
    use crate::testing::scripted_node::{PoolFixture, ScriptedNode, answer};
    use rpcgate_core::adapter::{Adapter, Permanence, Probe};
    use rpcgate_core::call::CallView;
    use rpcgate_core::chain::{Facts, Finality, Method as ChainMethod};
    use rpcgate_core::tally::Transport;
    use rpcgate_core::toy::Toy;

    async fn node(result: &str) -> ScriptedNode {
        ScriptedNode::always(answer(&format!(r#"{{"jsonrpc":"2.0",{result}}}"#))).await
    }

    /// Watches until every node was probed `rounds` times. Returns the head and the heights of the nodes.
    async fn watched(results: &[&str], before: u64) -> (Option<u64>, Vec<Option<u64>>) {
        let mut nodes = Vec::new();
        for result in results {
            nodes.push(node(result).await);
        }
        let fixture = PoolFixture::new(&nodes.iter().collect::<Vec<_>>());
        let chain = Arc::new(Chain::deployed(Arc::new(Toy)));
        chain.head().set(before);
        let watch = watch_head(fixture.pool.clone(), chain.clone(), Duration::from_millis(1));
        // A second round begins only after the first has set the head.
        let second_round = fixture.until(|_| nodes.iter().all(|node| node.seen().len() > 1));
        tokio::select! { () = watch => panic!("it runs until it is dropped"), () = second_round => {} }
        let heights = fixture.pool.nodes().map(|node| node.height).collect();
        assert!(
            nodes.iter().all(|node| { node.seen()[0].ends_with(r#","method":"toy_height","params":[]}"#) })
        );
        (chain.head().height(), heights)
    }

    #[tokio::test]
    async fn a_nodes_height_becomes_the_head() {
        assert_eq!(watched(&[r#""result":7"#], 0).await, (Some(7), vec![Some(7)]));
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn the_answer_to_another_call_shows_no_height() {
        assert_eq!(watched(&[r#""id":1,"result":7"#], 5).await, (Some(5), vec![None]));
    }

    #[tokio::test]
    async fn the_head_is_the_higher_of_two_nodes_and_the_second_of_three() {
        let seven = r#""result":7"#;
        let nine = r#""result":9"#;
        let lie = r#""result":1000000"#;
        assert_eq!(watched(&[seven, nine], 0).await.0, Some(9));
        assert_eq!(watched(&[lie, seven, nine], 0).await.0, Some(9));
    }

    // Shows (Routes and bodies).
    #[tokio::test]
    async fn a_node_without_http_is_not_probed_and_neither_silent_nor_behind() {
        let node = node(r#""result":1000"#).await;
        let by_ws = NodeUrl::parse("ws://127.0.0.1:1", Transport::Ws).unwrap();
        let by_http = NodeConfig::new(node.url().parse().unwrap());
        let nodes = vec![NodeConfig::new(by_ws.clone()), by_http, NodeConfig::new(by_ws)];
        let fixture = PoolFixture::of(nodes, PoolLimits::default());
        let chain = Arc::new(Chain::deployed(Arc::new(Toy)));
        let watch = watch_head(fixture.pool.clone(), chain.clone(), Duration::from_millis(1));
        let rounds = fixture.until(|_| node.seen().len() > 3);
        tokio::select! { () = watch => panic!("it runs until it is dropped"), () = rounds => {} }
        let seen: Vec<_> = fixture.pool.nodes().map(|node| (node.health.name(), node.height)).collect();
        assert_eq!(seen, [("well", None), ("well", Some(1_000)), ("well", None)]);
        assert_eq!(chain.head().height(), Some(1_000), "one of one, not one of three");
    }

    #[tokio::test]
    async fn a_node_without_a_height_changes_nothing() {
        for result in [
            r#""result":0"#,
            r#""error":{"code":-1}"#,
            r#""result":8,"error":{"code":-1}"#,
            r#""result":"x""#,
        ] {
            assert_eq!(watched(&[result], 5).await, (Some(5), vec![None]), "{result}");
        }
    }

    /// Reports its height in one answer and whether it is syncing in another.
    #[derive(Debug)]
    struct Twice;

    impl Adapter for Twice {
        fn facts(&self) -> &Facts {
            Toy.facts()
        }

        fn methods(&self) -> Vec<ChainMethod> {
            Toy.methods()
        }

        fn settled(&self, call: CallView<'_>, result: &[u8], finality: &Finality) -> Permanence {
            Toy.settled(call, result, finality)
        }

        fn probe(&self) -> Probe {
            Toy.probe()
        }

        fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
            Toy.seen(answer)
        }

        fn second_probe(&self) -> Option<Probe> {
            Some(Probe::Rest { target: "/syncing", body: None })
        }

        fn seen_second(&self, first: NodeStatus, answer: &[u8]) -> Option<NodeStatus> {
            match answer {
                b"yes" => Some(first.with_syncing(true)),
                b"no" => Some(first),
                _ => None,
            }
        }
    }

    #[tokio::test]
    async fn a_second_call_completes_the_status_of_a_node() {
        for (second, expected) in [("yes", "syncing"), ("no", "well"), ("?", "silent")] {
            let node = ScriptedNode::serve(move |_, mut wire| async move {
                while let Some(request) = wire.request().await {
                    let is_second = request.starts_with("GET /syncing ");
                    let body = if is_second { second } else { r#"{"jsonrpc":"2.0","result":7}"# };
                    wire.write(answer(body)).await;
                }
            })
            .await;
            let fixture = PoolFixture::new(&[&node]);
            let chain = Arc::new(Chain::deployed(Arc::new(Twice)));
            let watch = watch_head(fixture.pool.clone(), chain, Duration::from_millis(1));
            let stands = fixture.until(|pool| {
                node.seen().len() > 5 && pool.nodes().all(|node| node.health.name() == expected)
            });
            tokio::select! { () = watch => panic!("it runs until it is dropped"), () = stands => {} }
            assert!(node.seen()[0].starts_with("POST ") && node.seen()[1].starts_with("GET /syncing "));
        }
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn one_absurd_height_is_not_the_head_and_a_head_that_falls_far_drops_stored_answers() {
        let heights = Arc::new(parking_lot::Mutex::new(vec![100, i64::MAX as u64, 101]));
        let script = heights.clone();
        let node = ScriptedNode::serve(move |_, mut wire| {
            let heights = script.clone();
            async move {
                while wire.request().await.is_some() {
                    let height = {
                        let mut heights = heights.lock();
                        if heights.len() > 1 { heights.remove(0) } else { heights[0] }
                    };
                    wire.write(answer(&format!(r#"{{"jsonrpc":"2.0","result":{height}}}"#))).await;
                }
            }
        })
        .await;
        let fixture = PoolFixture::new(&[&node]);
        let chain = Arc::new(Chain::deployed(Arc::new(Toy)));
        let watch = watch_head(fixture.pool.clone(), chain.clone(), Duration::from_millis(1));
        let most = std::sync::atomic::AtomicU64::new(0);
        let rounds = async {
            let seen = |height| {
                let head = chain.head().height().unwrap_or_default();
                most.fetch_max(head, std::sync::atomic::Ordering::Relaxed);
                head == height
            };
            fixture.until(|_| seen(101)).await;
            assert_eq!(chain.head().epoch(), 0);
            *heights.lock() = vec![50];
            fixture.until(|_| seen(50) && chain.head().epoch() == 1).await;
        };
        tokio::select! { () = watch => panic!("it runs until it is dropped"), () = rounds => {} }
        assert_eq!(most.into_inner(), 101);
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn the_reason_why_a_node_cannot_be_used_is_known() {
        let refusing = crate::testing::scripted_node::Refusing::new();
        let denied = ScriptedNode::always("HTTP/1.1 401 Unauthorized\r\ncontent-length: 3\r\n\r\nno\n").await;
        let json = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"bad key"}}"#;
        let limited = answer(json).replace("200 OK", "429 Too Many Requests");
        let limited = ScriptedNode::always(limited).await;
        for (url, expected, reason) in [
            (refusing.url(), "unreachable", "connection refused"),
            (limited.url(), "silent", "HTTP status 429"),
            (denied.url(), "silent", "HTTP status 401: the node rejects the gateway's credentials"),
        ] {
            let fixture = PoolFixture::with(&[url], PoolLimits::default());
            let chain = Arc::new(Chain::deployed(Arc::new(Toy)));
            let watch = watch_head(fixture.pool.clone(), chain, Duration::from_millis(1));
            let known = fixture.until(|pool| {
                let view = pool.nodes().next().unwrap();
                view.health.name() == expected && view.reason.as_deref() == Some(reason)
            });
            tokio::select! { () = watch => panic!("it runs until it is dropped"), () = known => {} }
        }
    }
}
