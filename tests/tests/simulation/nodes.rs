//! Nodes of one chain that the gateway's own pool reaches over connections in memory.

use crate::arrivals::NodeArrivals;
use crate::node_wire::NodeWire;
use crate::{Clock, Dice, Duration, ForkingChain, VirtualClock, between};
use rpcgate_layers::nodes::{DialFuture, Dialer, NodeIo};
use serde_json::{Value, json};
use std::io;
use std::sync::{Arc, Mutex};
use tokio::io::duplex;
use tokio::time::{sleep, timeout};

pub(crate) const NODES: usize = 3;
/// The maximum lag of a node, which may still be on a replaced branch.
pub(crate) const BEHIND: Duration = Duration::from_secs(20);
const SLOWEST: Duration = Duration::from_secs(5);
/// The number of blocks by which a node lies about its height.
pub(crate) const LIE: u64 = 500;
/// The methods whose calls have unique parameters.
pub(crate) const UNIQUE: [&str; 3] = ["eth_getBalance", "eth_getTransactionCount", "eth_sendRawTransaction"];

/// The behaviour of a node for a while.
#[derive(Debug, Default)]
struct Mood {
    behind: Duration,
    /// The percentage of requests.
    fails: u64,
    hangs: u64,
    /// The percentage of connections.
    refuses: u64,
    slow: bool,
}

#[derive(Clone, Copy, Debug)]
enum Outcome {
    Answer,
    /// No answer comes until the gateway closes the connection.
    Hang,
    Close,
    CutBody,
    NoJson,
    Unavailable,
    TooMany,
}

#[derive(Debug)]
struct NodesState {
    moods: [Mood; NODES],
    /// The time up to which each node has seen the chain. It never decreases.
    seen: [Duration; NODES],
    dice: Dice,
}

#[derive(Debug)]
pub(crate) struct UnreliableNodes {
    /// The chain's path.
    name: &'static str,
    clock: Arc<VirtualClock>,
    blocks: Arc<Mutex<ForkingChain>>,
    arrivals: Arc<Mutex<NodeArrivals>>,
    /// The node that lies about its height, if any.
    liar: Option<usize>,
    state: Mutex<NodesState>,
}

impl UnreliableNodes {
    pub(crate) fn new(
        name: &'static str,
        clock: Arc<VirtualClock>,
        (blocks, arrivals): (Arc<Mutex<ForkingChain>>, Arc<Mutex<NodeArrivals>>),
        liar: Option<usize>,
        dice: Dice,
    ) -> Arc<Self> {
        let state = NodesState { moods: Default::default(), seen: [Duration::ZERO; NODES], dice };
        let nodes = UnreliableNodes { name, clock, blocks, arrivals, liar, state: Mutex::new(state) };
        nodes.change();
        Arc::new(nodes)
    }

    pub(crate) fn dialer(self: &Arc<Self>, node: usize) -> Arc<dyn Dialer> {
        Arc::new(NodeDialer { nodes: self.clone(), node })
    }

    pub(crate) fn change(&self) {
        let NodesState { moods, dice, .. } = &mut *self.state.lock().unwrap();
        for mood in moods {
            let is_bad = dice.below(3) == 0;
            let mut of_a_hundred = |most| if is_bad { dice.below(most) } else { 0 };
            let fails = of_a_hundred(60);
            let hangs = of_a_hundred(15);
            let refuses = of_a_hundred(50);
            let refuses = if self.liar.is_some() { 0 } else { refuses };
            let behind = Duration::from_millis(dice.below(BEHIND.as_millis() as u64));
            *mood = Mood { behind, fails, hangs, refuses, slow: dice.below(3) == 0 };
        }
    }

    /// Opens a connection, which may be refused or never open.
    async fn open(self: Arc<Self>, node: usize) -> io::Result<Box<dyn NodeIo>> {
        let (took, is_refused, is_lost) = {
            let NodesState { moods, dice, .. } = &mut *self.state.lock().unwrap();
            let is_refused = dice.below(100) < moods[node].refuses;
            (Duration::from_millis(between(dice, 1, 30)), is_refused, dice.below(3) == 0)
        };
        if is_refused {
            self.fail(node);
        }
        if is_refused && is_lost {
            std::future::pending::<()>().await;
        }
        sleep(took).await;
        if is_refused {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = duplex(1 << 16);
        tokio::spawn(self.serve(node, NodeWire::new(far)));
        Ok(Box::new(near))
    }

    /// Serves a connection until one of the two sides closes it.
    async fn serve(self: Arc<Self>, node: usize, mut wire: NodeWire) {
        loop {
            let patience = Duration::from_millis(between(&mut self.state.lock().unwrap().dice, 200, 40_000));
            let Ok(Some(request)) = timeout(patience, wire.request()).await else { return };
            let (took, outcome) = self.next(node, &request);
            let arrived = Arrived::new(&self, node, &request);
            if !matches!(outcome, Outcome::Answer) {
                self.fail(node);
            }
            if !wire.is_awaited_for(took).await {
                // It was too slow.
                return self.fail(node);
            }
            if matches!(outcome, Outcome::Hang) {
                while wire.is_awaited_for(SLOWEST).await {}
                return;
            }
            drop(arrived);
            let answer = self.answer(node, &request).to_string();
            match outcome {
                Outcome::Answer => wire.answer(200, "content-type: application/json\r\n", &answer, 0).await,
                Outcome::CutBody => return wire.answer(200, "", &answer, answer.len() / 2).await,
                Outcome::NoJson => wire.answer(200, "", "<html>", 0).await,
                Outcome::Unavailable => wire.answer(503, "", "unavailable", 0).await,
                Outcome::TooMany => wire.answer(429, "retry-after: 2\r\n", "too many", 0).await,
                Outcome::Hang | Outcome::Close => return,
            }
        }
    }

    fn fail(&self, node: usize) {
        // In a world that panics the lock may be poisoned.
        if let Ok(mut arrivals) = self.arrivals.lock() {
            arrivals.fail(node, self.clock.elapsed());
        }
    }

    /// Returns the time and the result of a request. In a chain with a liar the other nodes always answer their
    /// heights: the gateway has to believe the only node that does.
    fn next(&self, node: usize, request: &Value) -> (Duration, Outcome) {
        let NodesState { moods, dice, .. } = &mut *self.state.lock().unwrap();
        let mood = &moods[node];
        let is_sure = self.liar.is_some() && request["method"] == "eth_blockNumber";
        let most = if mood.slow && !is_sure { SLOWEST } else { Duration::from_millis(300) };
        let took = Duration::from_millis(between(dice, 1, most.as_millis() as u64));
        if is_sure {
            return (took, Outcome::Answer);
        }
        let failures =
            [Outcome::Close, Outcome::CutBody, Outcome::NoJson, Outcome::Unavailable, Outcome::TooMany];
        let chance = dice.below(100);
        let failure = failures[dice.below(5) as usize];
        let outcome = match chance {
            _ if chance < mood.hangs => Outcome::Hang,
            _ if chance < mood.hangs + mood.fails => failure,
            _ => Outcome::Answer,
        };
        (took, outcome)
    }

    /// Returns a node's answers to a request, from the chain as it sees it now.
    fn answer(&self, node: usize, request: &Value) -> Value {
        let at = {
            let NodesState { moods, seen, .. } = &mut *self.state.lock().unwrap();
            seen[node] = seen[node].max(self.clock.elapsed().saturating_sub(moods[node].behind));
            seen[node]
        };
        let Value::Array(calls) = request else { return self.answer_one(node, request, at) };
        let mut answers: Vec<_> = calls.iter().map(|call| self.answer_one(node, call, at)).collect();
        // They may be in any order.
        if self.state.lock().unwrap().dice.below(2) == 0 {
            answers.reverse();
        }
        Value::Array(answers)
    }

    fn answer_one(&self, node: usize, call: &Value, at: Duration) -> Value {
        let id = &call["id"];
        let params = &call["params"];
        let blocks = self.blocks.lock().unwrap();
        let height = blocks.height(at) + if self.liar == Some(node) { LIE } else { 0 };
        let result = match call["method"].as_str().unwrap() {
            "eth_blockNumber" => json!(format!("{height:#x}")),
            "eth_getBlockByNumber" => {
                let asked = u64::from_str_radix(&params[0].as_str().unwrap()[2..], 16).unwrap();
                let block =
                    |hash| json!({ "number": format!("{asked:#x}"), "hash": format!("{hash:#066x}") });
                blocks.hash(asked, at).map_or(Value::Null, block)
            }
            "eth_getTransactionCount" => {
                let error = json!({ "code": -32000, "message": params[0] });
                return json!({ "jsonrpc": "2.0", "id": id, "error": error });
            }
            // The answer contains the chain, the parameters and the height, so that a client recognises its own answer.
            _ => json!(format!("{}:{params}@{height}", self.name)),
        };
        json!({ "jsonrpc": "2.0", "id": id, "result": result })
    }
}

struct Arrived<'n> {
    nodes: &'n UnreliableNodes,
    /// Its calls with unique parameters.
    calls: Vec<String>,
}

impl<'n> Arrived<'n> {
    fn new(nodes: &'n UnreliableNodes, node: usize, request: &Value) -> Self {
        let all = match request {
            Value::Array(calls) => &calls[..],
            call => std::slice::from_ref(call),
        };
        let is_unique = |call: &&Value| UNIQUE.iter().any(|method| call["method"] == *method);
        let own = |call: &Value| call["params"][0].as_str().unwrap().to_owned();
        let calls: Vec<_> = all.iter().filter(is_unique).map(own).collect();
        nodes.arrivals.lock().unwrap().arrive(node, &calls);
        Arrived { nodes, calls }
    }
}

impl Drop for Arrived<'_> {
    fn drop(&mut self) {
        // In a world that panics the lock may be poisoned.
        if let Ok(mut arrivals) = self.nodes.arrivals.lock() {
            arrivals.leave(&self.calls);
        }
    }
}

#[derive(Debug)]
struct NodeDialer {
    nodes: Arc<UnreliableNodes>,
    node: usize,
}

impl Dialer for NodeDialer {
    fn dial(&self, _: &str, _: u16) -> DialFuture<'_> {
        Box::pin(self.nodes.clone().open(self.node))
    }
}
