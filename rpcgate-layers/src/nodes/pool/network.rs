use super::Pool;
use crate::nodes::network::{NetworkFinding, WrongNetwork};
use crate::nodes::node::{Node, NodeIndex};
use crate::nodes::probe_call::{ProbeCall, ProbeFailure};
use bytes::Bytes;
use futures_util::future::join_all;
use rpcgate_core::adapter::{Adapter, NetworkProbe};
use rpcgate_core::fault::{Cause, Fault};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The call that asks for a node's network, and the expected answer; empty if the node is not asked.
pub(super) type NetworkQuestion = OnceLock<(ProbeCall, NetworkProbe)>;

impl Pool {
    /// Starts to ask the nodes for their networks, with the probe of the chain's adapter: before a node's first call,
    /// after a failure to connect, and from time to time by [`watch_head`](crate::nodes::watch_head). Nodes without an
    /// HTTP address are not asked.
    pub fn check_networks(&self, adapter: &dyn Adapter) {
        for client in &self.http {
            let node: &Node = client.as_ref();
            let Some(probe) = node.config.network.probe(adapter) else { continue };
            let Some(question) = self.networks.get(node.index.0) else { continue };
            if question.set((ProbeCall::new(adapter, probe.probe), probe)).is_ok() {
                node.network.expect();
            }
        }
    }

    /// Makes a call of the gateway's own to one node, for at most `limit`. Returns the raw `result`, or the body of a
    /// REST answer.
    pub(in crate::nodes) async fn probe_node(
        &self,
        index: NodeIndex,
        call: &ProbeCall,
        limit: Duration,
    ) -> Result<Bytes, ProbeFailure> {
        let answer = self.ask_node(index, &call.request(), limit).await;
        call.read(answer?)
    }

    /// Asks the node for its network if it must be known before the next call. Concurrent calls ask once.
    ///
    /// # Errors
    /// A [`Fault`] if the call may be sent to another node but not to this one, because it belongs to another network
    /// or cannot be reached.
    pub(super) async fn confirm_network(&self, node: &Node) -> Result<(), Fault> {
        if node.network.is_unknown() {
            // Boxed: nearly no call has to ask.
            return Box::pin(self.confirm_unknown(node)).await;
        }
        Ok(())
    }

    async fn confirm_unknown(&self, node: &Node) -> Result<(), Fault> {
        let unusable = Fault::unsent(Cause::Connect);
        let failures = node.network.failures.load(Relaxed);
        let _turn = node.network.turn.lock().await;
        if node.network.is_unknown() {
            // The previous call could not connect.
            if node.network.failures.load(Relaxed) != failures {
                return Err(unusable);
            }
            self.ask_for_network(node).await?;
        }
        if node.network.is_wrong() { Err(unusable) } else { Ok(()) }
    }

    /// Asks the node for its network, whatever is known about it.
    pub(in crate::nodes) async fn check_network(&self, index: NodeIndex) {
        let Some(node) = self.nodes.get(index.0) else { return };
        let _turn = node.network.turn.lock().await;
        // A failure to connect is recorded with the node's health.
        let _ = self.ask_for_network(node).await;
    }

    async fn ask_for_network(&self, node: &Node) -> Result<(), Fault> {
        let question = self.networks.get(node.index.0).and_then(OnceLock::get);
        let Some((call, probe)) = question else { return Ok(()) };
        let answer = self.probe_node(node.index, call, self.limits.connect).await;
        // A node that also takes another protocol may take that one nevertheless.
        if node.config.has_one_address() && answer.as_ref().is_err_and(ProbeFailure::is_unconnected) {
            node.network.failures.fetch_add(1, Relaxed);
            return Err(Fault::unsent(Cause::Connect));
        }
        let chain = self.chain;
        let name = node.config.name();
        match node.network.record(probe, answer.ok().as_deref()) {
            NetworkFinding::Same => {}
            NetworkFinding::Wrong(wrong) => {
                let network = &wrong.shown;
                let expected = &wrong.expected;
                tracing::error!(%chain, node = %name, network, expected, "this node belongs to another network: it gets no calls");
            }
            NetworkFinding::RightAgain => {
                tracing::info!(%chain, node = %name, "this node belongs to the network of its chain now: it gets calls again");
            }
        }
        Ok(())
    }

    /// Asks every node for its network. Returns the names of nodes that belong to another network than their chain's,
    /// with a description of both networks. For pools whose nodes may belong to any network: it changes no state.
    pub async fn foreign_nodes(&self, adapter: &dyn Adapter) -> Vec<(String, String)> {
        let Some(probe) = adapter.network() else { return Vec::new() };
        let call = ProbeCall::new(adapter, probe.probe);
        let queries = self.http.iter().map(|client| self.foreign_node(client.as_ref(), &call, &probe));
        join_all(queries).await.into_iter().flatten().collect()
    }

    async fn foreign_node(
        &self,
        node: &Node,
        call: &ProbeCall,
        probe: &NetworkProbe,
    ) -> Option<(String, String)> {
        let answer = self.probe_node(node.index, call, self.limits.connect).await.ok()?;
        let shown = probe.shown(&answer).err()??;
        let wrong = WrongNetwork::new(&shown, probe);
        Some((node.config.name().to_string(), wrong.to_string()))
    }

    /// Reports whether a wrong network was found at any node since the last call of this function.
    pub(in crate::nodes) fn take_wrong_networks(&self) -> bool {
        // `count` visits every node, so that none is reported twice.
        self.nodes.iter().filter(|node| node.network.take_wrong()).count() > 0
    }
}

#[cfg(test)]
mod tests {
    use crate::nodes::{ExpectedNetwork, NodeConfig, NodeRequestError, NodeUrl, PoolLimits, watch_head};
    use crate::testing::scripted_node::{PoolFixture, ScriptedNode, answer, call};
    use futures_util::future::join_all;
    use parking_lot::Mutex;
    use rpcgate_core::adapter::{Adapter, NetworkProbe, NodeStatus, Permanence, Probe};
    use rpcgate_core::call::CallView;
    use rpcgate_core::chain::{Chain, Facts, Finality, Method};
    use rpcgate_core::fault::{Cause, Fault};
    use rpcgate_core::node_try::NodeTries;
    use rpcgate_core::tally::Transport;
    use rpcgate_core::toy::Toy;
    use std::sync::Arc;
    use std::time::Duration;

    const NO_NODE: NodeRequestError = NodeRequestError::Fault(Fault::unsent(Cause::NoNode));
    const UNUSABLE: NodeRequestError = NodeRequestError::Fault(Fault::unsent(Cause::Connect));

    /// The toy chain, whose nodes show that they belong to network 56.
    #[derive(Debug)]
    struct Networked;

    impl Adapter for Networked {
        fn facts(&self) -> &Facts {
            Toy.facts()
        }

        fn methods(&self) -> Vec<Method> {
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

        fn network(&self) -> Option<NetworkProbe> {
            let probe = Probe::Rpc { method: "toy_network", params: "[]" };
            let read = |answer: &[u8]| {
                let shown = String::from_utf8(answer.to_vec()).ok();
                shown.filter(|shown| shown.bytes().all(|byte| byte.is_ascii_digit()))
            };
            Some(NetworkProbe { probe, expected: "56".into(), read })
        }
    }

    /// A node at this height that shows this network in a member of its answer, and answers calls with `{}`.
    async fn node(height: u64, network: &Arc<Mutex<&'static str>>) -> ScriptedNode {
        let network = network.clone();
        ScriptedNode::serve(move |_, mut wire| {
            let network = network.clone();
            async move {
                while let Some(request) = wire.request().await {
                    let member = match request {
                        request if request.contains("toy_height") => format!(r#""result":{height}"#),
                        request if request.contains("toy_network") => (*network.lock()).to_owned(),
                        _ => {
                            wire.write(answer("{}")).await;
                            continue;
                        }
                    };
                    wire.write(answer(&format!(r#"{{"jsonrpc":"2.0",{member}}}"#))).await;
                }
            }
        })
        .await
    }

    fn shows(member: &'static str) -> Arc<Mutex<&'static str>> {
        Arc::new(Mutex::new(member))
    }

    const RIGHT: &str = r#""result":56"#;
    const WRONG: &str = r#""result":1"#;

    fn fixture(nodes: Vec<NodeConfig>) -> PoolFixture {
        let fixture = PoolFixture::of(nodes, PoolLimits::default());
        fixture.pool.check_networks(&Networked);
        fixture
    }

    fn config(node: &ScriptedNode) -> NodeConfig {
        NodeConfig::new(node.url().parse().unwrap())
    }

    fn healths(fixture: &PoolFixture) -> Vec<&'static str> {
        fixture.pool.nodes().map(|node| node.health.name()).collect()
    }

    /// Counts the requests to a node that are not questions of the gateway.
    fn calls(node: &ScriptedNode) -> usize {
        node.seen().iter().filter(|seen| !seen.contains("toy_")).count()
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn a_node_of_another_network_gets_no_call_even_if_it_is_the_only_one() {
        let wrong = node(9, &shows(WRONG)).await;
        let fixture = fixture(vec![config(&wrong)]);
        assert_eq!(fixture.read().await, Err(UNUSABLE), "it is asked before its first call");
        assert_eq!((fixture.read().await, fixture.broadcast().await), (Err(NO_NODE), Err(NO_NODE)));
        assert_eq!((calls(&wrong), wrong.seen().len(), healths(&fixture)), (0, 1, vec!["wrong_network"]));
        let reason = fixture.pool.nodes().next().and_then(|node| node.reason);
        assert_eq!(reason.as_deref(), Some("it belongs to network 1, and 56 is expected"));
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn a_call_that_finds_a_wrong_node_moves_on_and_the_network_is_asked_for_once() {
        let wrong = node(9, &shows(WRONG)).await;
        let right = node(9, &shows(RIGHT)).await;
        let fixture = fixture(vec![config(&wrong), config(&right)]);
        let answers = join_all((0..40).map(|_| fixture.read())).await;
        assert!(answers.iter().all(|answer| answer.as_deref() == Ok("{}")), "{answers:?}");
        assert!(fixture.broadcast().await.is_ok());
        assert_eq!((calls(&wrong), calls(&right)), (0, 41));
        assert_eq!((wrong.seen().len(), right.seen().len()), (1, 42));
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn a_stream_is_not_opened_at_a_node_of_another_network() {
        let wrong = node(9, &shows(WRONG)).await;
        let stream = node(9, &shows(RIGHT)).await;
        let by_ws = NodeUrl::parse(&stream.url().replace("http", "ws"), Transport::Ws).unwrap();
        let fixture = fixture(vec![config(&wrong).with_address(by_ws)]);
        for expected in [UNUSABLE, NO_NODE] {
            let opened = fixture.pool.open_stream(&[], None, &mut NodeTries::default()).await;
            assert_eq!(opened.err(), Some(expected));
        }
        assert_eq!(stream.conns(), 0);
    }

    // Shows (Nodes and cache): A node that hides its network is not treated as wrong; operators name the network or
    // disable the check (promise 75).
    #[tokio::test]
    async fn a_node_that_does_not_show_its_network_or_that_is_not_asked_is_used() {
        for hidden in [r#""error":{"code":-32601}"#, r#""result":null"#, r#""result":"ok""#] {
            let node = node(9, &shows(hidden)).await;
            let fixture = fixture(vec![config(&node)]);
            assert_eq!(fixture.read().await.as_deref(), Ok("{}"), "{hidden}");
            assert_eq!(healths(&fixture), ["well"]);
        }
        let any = node(9, &shows(WRONG)).await;
        let fixture_of_any = fixture(vec![config(&any).with_network(ExpectedNetwork::Any)]);
        assert_eq!(fixture_of_any.read().await.as_deref(), Ok("{}"));
        assert_eq!(any.seen().len(), 1);
        let foreign = fixture_of_any.pool.foreign_nodes(&Networked).await;
        let why = "it belongs to network 1, and 56 is expected".to_owned();
        assert_eq!(foreign, [(any.url(), why)]);
        let named = fixture(vec![config(&any).with_network(ExpectedNetwork::Named("1".into()))]);
        assert_eq!(named.read().await.as_deref(), Ok("{}"));
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn a_node_is_asked_again_after_it_could_not_be_reached() {
        let network = shows(RIGHT);
        let node = node(9, &network).await;
        let fixture = fixture(vec![config(&node)]);
        fixture.read().await.unwrap();
        *network.lock() = WRONG;
        fixture.read().await.unwrap();
        fixture.pool.nodes[0].note_unreachable(&"connection refused");
        assert_eq!(fixture.read().await, Err(UNUSABLE));
        *network.lock() = r#""error":{"code":-32000}"#;
        fixture.pool.nodes[0].note_unreachable(&"connection refused");
        assert_eq!(fixture.read().await, Err(NO_NODE), "until it shows the right network");
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn the_height_of_a_wrong_node_does_not_count_and_the_stored_answers_are_dropped() {
        let network = shows(WRONG);
        let wrong = node(900, &network).await;
        let right = node(100, &shows(RIGHT)).await;
        let fallback = NodeConfig { priority: 1, ..config(&right) };
        let fixture = fixture(vec![config(&wrong), fallback]);
        let chain = Arc::new(Chain::deployed(Arc::new(Networked)));
        let watch = watch_head(fixture.pool.clone(), chain.clone(), Duration::from_millis(1));
        let rounds = async {
            fixture.until(|_| right.seen().len() > 4).await;
            assert_eq!(healths(&fixture), ["wrong_network", "well"]);
            assert_eq!((chain.head().height(), chain.head().epoch()), (Some(100), 1));
            assert_eq!(fixture.read().await.as_deref(), Ok("{}"));
            *network.lock() = RIGHT;
            fixture.until(|pool| pool.nodes().next().is_some_and(|node| node.health.name() == "well")).await;
        };
        tokio::select! { () = watch => panic!("it runs until it is dropped"), () = rounds => {} }
        assert_eq!(calls(&wrong), 0);
        assert!(fixture.complete(call("read")).await.is_ok());
        assert_eq!(calls(&wrong), 1, "it is used again");
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn a_node_that_changes_its_network_is_found_by_a_later_round() {
        let network = shows(RIGHT);
        let node = node(100, &network).await;
        let fixture = fixture(vec![config(&node)]);
        let chain = Arc::new(Chain::deployed(Arc::new(Networked)));
        let watch = watch_head(fixture.pool.clone(), chain.clone(), Duration::from_millis(1));
        let rounds = async {
            fixture.until(|_| chain.head().height() == Some(100)).await;
            assert_eq!(chain.head().epoch(), 0);
            *network.lock() = WRONG;
            fixture.until(|_| healths(&fixture) == ["wrong_network"] && chain.head().epoch() == 1).await;
        };
        tokio::select! { () = watch => panic!("it runs until it is dropped"), () = rounds => {} }
    }
}
