//! Simulated chains behind sockets. Their blocks are a function of a clock that only the test moves, so a second node
//! of the same chain predicts the blocks.

use crate::*;
use http::Method;
use rpcgate_server::demo::{NodeListener, NodeServer};
use rpcgate_simulate::{Dial, Simulated, SimulatedRequest, node};

/// The seed of the blocks of a simulated chain.
const SEED: u64 = 7;
/// The chains whose nodes also serve WebSocket.
const STREAMS: [&str; 3] = ["eth", "xrp", "cardano"];

#[derive(Debug)]
pub(crate) struct Chains {
    pub(crate) clock: Arc<ManualClock>,
    nodes: BTreeMap<&'static str, NodeServer>,
}

impl Chains {
    pub(crate) fn start(chains: &[&'static str]) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let serve = |chain: &&'static str| {
            let node = node(chain, SEED).unwrap();
            (*chain, NodeListener::bind().unwrap().serve(node, Dial::new(1), clock.clone()))
        };
        let nodes = chains.iter().map(serve).collect();
        Chains { clock, nodes }
    }

    pub(crate) fn setup(&self) -> Setup {
        let mut setup = lenient(Setup::new());
        for (chain, node) in &self.nodes {
            let ws = format!("ws = \"{}\"", node.ws_url());
            let settings = if STREAMS.contains(chain) { ws.as_str() } else { "priority = 0" };
            setup = setup
                .node_with(chain, node.url(), settings)
                .set(&format!("chains.{chain}"), "probe_interval = \"1s\"");
        }
        setup
    }

    /// Makes every request to a node fail, or none.
    pub(crate) fn fail(&self, chain: &str, fails: bool) {
        let mut dial = Dial::new(1);
        dial.error_rate = if fails { 1.0 } else { 0.0 };
        self.nodes[chain].set_dial(dial);
    }

    pub(crate) fn height(&self, chain: &str) -> u64 {
        ComingBlocks::of(chain).height(self.clock.now())
    }
}

/// A second node of a simulated chain, which returns blocks that the first one will have later.
#[derive(Debug)]
pub(crate) struct ComingBlocks {
    node: Box<dyn Simulated>,
    chain: String,
}

impl ComingBlocks {
    pub(crate) fn of(chain: &str) -> Self {
        ComingBlocks { node: node(chain, SEED).unwrap(), chain: chain.to_owned() }
    }

    pub(crate) fn height(&self, now: Time) -> u64 {
        self.node.height(now)
    }

    fn post(&mut self, path: &str, body: &Value, now: Time) -> Value {
        let body = body.to_string();
        let request = SimulatedRequest { method: &Method::POST, path, body: body.as_bytes() };
        serde_json::from_slice(&self.node.handle(&request, now).body).unwrap()
    }

    pub(crate) fn call(&mut self, method: &str, params: &Value, now: Time) -> Value {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.post("/", &call, now)["result"].take()
    }

    /// Returns an address in a transaction of a block between these times, as the node writes it.
    pub(crate) fn address(mut self, from: Time, to: Time) -> String {
        if self.chain == "cardano" {
            return self.paid(from, to);
        }
        let heights = self.height(from) + 1..=self.height(to);
        heights.into_iter().find_map(|height| self.sender(height, to)).unwrap()
    }

    fn sender(&mut self, height: u64, now: Time) -> Option<String> {
        let (block, place) = match self.chain.as_str() {
            "eth" => {
                let params = json!([format!("{height:#x}"), true]);
                (self.call("eth_getBlockByNumber", &params, now), "/transactions/0/from")
            }
            "btc" => {
                let hash = self.call("getblockhash", &json!([height]), now);
                (self.call("getblock", &json!([hash, 2]), now), "/tx/1/vout/0/scriptPubKey/address")
            }
            "xrp" => {
                let params = json!([{ "ledger_index": height, "transactions": true, "expand": true }]);
                (self.call("ledger", &params, now), "/ledger/transactions/0/Account")
            }
            "tron" => {
                let block = self.post("/wallet/getblockbynum", &json!({ "num": height }), now);
                (block, "/transactions/0/raw_data/contract/0/parameter/value/owner_address")
            }
            chain => panic!("nobody knows {chain}"),
        };
        Some(block.pointer(place)?.as_str()?.to_owned())
    }

    /// Returns the recipient of the first output of the first block after `from`, on Cardano.
    fn paid(&mut self, from: Time, to: Time) -> String {
        let tip = self.call("queryNetwork/tip", &json!({}), from);
        let streams = self.node.streams().unwrap();
        let id = streams.open();
        let mut answer = Value::Null;
        // The first block returned is the intersection itself.
        for (method, params) in [
            ("findIntersection", json!({ "points": [tip] })),
            ("nextBlock", json!({})),
            ("nextBlock", json!({})),
        ] {
            let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
            let answers = streams.receive(id, call.to_string().as_bytes(), to);
            answer = serde_json::from_str(&answers[0]).unwrap();
        }
        let address = answer.pointer("/result/block/transactions/0/outputs/0/address");
        address.and_then(Value::as_str).unwrap().to_owned()
    }
}
