//! The head of a chain, as its nodes see it.

use super::call_number::next_call_number;
use super::node::NodeIndex;
use super::pool::Pool;
use crate::transport::h1::{AnswerBody, NodeRequest};
use bytes::Bytes;
use futures_util::future::join_all;
use http::Method;
use http::uri::PathAndQuery;
use rpcgate_core::adapter::{NodeStatus, Probe};
use rpcgate_core::chain::Chain;
use rpcgate_core::envelope::{Replies, replies};
use rpcgate_core::json::DEEPEST;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// How long a probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Probes each node at once and then every `every`, and sooner if calls wait for a height. By the results it sets the chain's [`head`](Chain::head), and the health of
/// the nodes. Runs until it is dropped.
///
/// The head is the highest height that a node shows; in a pool of three or more, the second highest, so that one node alone can
/// neither make the cache treat data as final too early nor make all others seem to be behind. While no node answers,
/// the head stays as it is. A node at height 0 knows nothing yet and does not count, and neither does one without an address
/// for HTTP, which is not probed: its health is that of its streams and calls.
pub async fn watch_head(pool: Arc<Pool>, chain: Arc<Chain>, every: Duration) {
    let first = ProbeCall::new(&chain, chain.adapter().probe());
    let second = chain.adapter().second_probe().map(|probe| ProbeCall::new(&chain, probe));
    let mut logged: Vec<Option<&'static str>> = vec![None; pool.nodes().len()];
    let mut ticks = interval(every.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = pool.head_wanted() => {}
        }
        pool.sweep();
        let asked = pool.probed().filter(|index| !pool.is_spent(*index));
        let probes = asked.map(|index| probe(&pool, &chain, index, &first, second.as_ref()));
        let heights = join_all(probes).await;
        if let Some(reference) = reference(heights.into_iter().flatten().collect(), pool.probed().len()) {
            pool.compare(reference);
            chain.head().set(reference);
        }
        pool.tell_heads();
        for (view, logged) in pool.nodes().zip(&mut logged) {
            let name = view.health.name();
            if logged.replace(name) != Some(name) {
                let (chain, node, height) = (chain.name(), view.name, view.height);
                tracing::info!(%chain, %node, health = name, height, "the health of a node");
            }
        }
    }
}

/// Probes one node and records the result, with the latency of the first call. Returns the height that the node has shown,
/// unless it knows nothing.
async fn probe(
    pool: &Pool,
    chain: &Chain,
    index: NodeIndex,
    first: &ProbeCall,
    second: Option<&ProbeCall>,
) -> Option<u64> {
    let (adapter, began) = (chain.adapter(), pool.elapsed());
    let mut status = first.ask(pool, chain, index, |answer| adapter.seen(answer)).await;
    let took = pool.elapsed().saturating_sub(began);
    if let (Some(shown), Some(second)) = (status, second) {
        status = second.ask(pool, chain, index, |answer| adapter.seen_second(shown, answer)).await;
    }
    pool.record_probe(index, status, took);
    status.map(|status| status.height).filter(|height| *height > 0)
}

/// One of the calls for a node's status.
#[derive(Debug)]
enum ProbeCall {
    /// A REST call, built once for all nodes and rounds.
    Rest(Box<NodeRequest>),
    /// A JSON-RPC call, which has another number each time.
    Rpc { version: Option<&'static str>, content: String, path: Option<&'static str> },
}

impl ProbeCall {
    fn new(chain: &Chain, probe: Probe) -> Self {
        match probe {
            Probe::Rpc { method, params } => {
                let version = chain.facts().dialect.version();
                let params = if params.is_empty() { String::new() } else { format!(r#","params":{params}"#) };
                let content = format!(r#""method":"{method}"{params}"#);
                ProbeCall::Rpc { version, content, path: chain.adapter().rpc_path() }
            }
            Probe::Rest { target, body: Some(body) } => {
                ProbeCall::Rest(Box::new(NodeRequest::json_rpc(body.into()).posted_to(Some(target))))
            }
            Probe::Rest { target, body: None } => {
                let path = Some(PathAndQuery::from_static(target));
                let request =
                    NodeRequest { method: Method::GET, path, ..NodeRequest::json_rpc(Bytes::new()) };
                ProbeCall::Rest(Box::new(request))
            }
        }
    }

    /// The request for one node.
    fn request(&self) -> Cow<'_, NodeRequest> {
        match self {
            ProbeCall::Rest(request) => Cow::Borrowed(request),
            ProbeCall::Rpc { version: None, content, path } => {
                Cow::Owned(NodeRequest::json_rpc(format!("{{{content}}}").into()).posted_to(*path))
            }
            ProbeCall::Rpc { version: Some(version), content, path } => {
                let number = next_call_number();
                let call = format!(r#"{{"jsonrpc":{version},"id":{number},{content}}}"#);
                Cow::Owned(NodeRequest::json_rpc(call.into()).with_number(number).posted_to(*path))
            }
        }
    }

    /// Asks one node, and reads its answer: the raw `result`, or the body of a REST answer. `None` for an error and for
    /// an answer that cannot be read.
    async fn ask(
        &self,
        pool: &Pool,
        chain: &Chain,
        index: NodeIndex,
        read: impl FnOnce(&[u8]) -> Option<NodeStatus>,
    ) -> Option<NodeStatus> {
        let answer = pool.ask_node(index, &self.request(), PROBE_TIMEOUT).await.ok()?;
        let AnswerBody::Whole(body) = answer.body else {
            return None;
        };
        if matches!(self, ProbeCall::Rest(_)) {
            return read(&body).filter(|_| answer.status.is_success());
        }
        let Ok(Replies::Single(reply)) = replies(&body, DEEPEST) else {
            return None;
        };
        let result = reply.result.filter(|_| reply.error.is_none())?.of(&body);
        read(result).filter(|_| !chain.adapter().is_error(result))
    }
}

/// The height with which the nodes of a pool of this size are compared, by those that answered.
fn reference(mut heights: Vec<u64>, nodes: usize) -> Option<u64> {
    heights.sort_unstable_by(|a, b| b.cmp(a));
    match heights[..] {
        [_, second, ..] if nodes > 2 => Some(second),
        [highest, ..] => Some(highest),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{NodeConfig, NodeUrl, PoolLimits};
    use crate::testing::scripted_node::{PoolFixture, ScriptedNode, answer};
    use rpcgate_core::adapter::{Adapter, Permanence};
    use rpcgate_core::call::CallView;
    use rpcgate_core::chain::{Facts, Finality, Method as ChainMethod};
    use rpcgate_core::tally::Transport;
    use rpcgate_core::toy::Toy;

    async fn node(result: &str) -> ScriptedNode {
        ScriptedNode::always(answer(&format!(r#"{{"jsonrpc":"2.0",{result}}}"#))).await
    }

    /// Watches until every node was probed `rounds` times; returns the head.
    async fn watched(results: &[&str], before: u64) -> (Option<u64>, Vec<Option<u64>>) {
        let mut nodes = Vec::new();
        for result in results {
            nodes.push(node(result).await);
        }
        let fixture = PoolFixture::new(&nodes.iter().collect::<Vec<_>>());
        let chain = Arc::new(Chain::deployed(Arc::new(Toy)));
        chain.head().set(before);
        let watch = watch_head(fixture.pool.clone(), chain.clone(), Duration::from_millis(1));
        // A second round begins only when the first has set the head.
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

    #[tokio::test]
    async fn the_answer_to_another_call_shows_no_height() {
        assert_eq!(watched(&[r#""id":1,"result":7"#], 5).await, (Some(5), vec![None]));
    }

    #[tokio::test]
    async fn of_two_nodes_the_higher_counts_and_of_three_the_second() {
        let (seven, nine, lie) = (r#""result":7"#, r#""result":9"#, r#""result":1000000"#);
        assert_eq!(watched(&[seven, nine], 0).await.0, Some(9));
        assert_eq!(watched(&[lie, seven, nine], 0).await.0, Some(9));
    }

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

    #[test]
    fn a_reference_needs_two_nodes_if_the_pool_is_large_enough() {
        assert_eq!(reference(vec![], 3), None);
        assert_eq!(reference(vec![4], 3), Some(4));
        assert_eq!(reference(vec![4, 6], 2), Some(6));
        assert_eq!(reference(vec![1_000_000, 6], 3), Some(6), "one reports a wrong height and one is silent");
        assert_eq!(reference(vec![4, 6, 9, 5], 4), Some(6));
    }
}
