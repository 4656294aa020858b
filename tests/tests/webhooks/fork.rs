//! A node that replaces its newest blocks.

use crate::*;
use rpcgate_tests::node::{Node, Raw, SeenRequest};
use std::sync::Mutex;

/// The height of the block from which the chain is followed.
const FIRST: u64 = 1_000_000;
const CONFIRMATIONS: [u64; 3] = [0, 2, 3];

#[derive(Clone, PartialEq, Eq, Debug)]
struct ScriptedBlock {
    number: u64,
    hash: String,
    parent: String,
    /// True if it replaces another block of its height.
    replaces: bool,
}

/// The chain of a node, and its replaced blocks.
#[derive(Debug, Default)]
struct ScriptedBlocks {
    chain: Vec<ScriptedBlock>,
    made: u64,
    /// Blocks that are no longer part of the chain, with the number of blocks that were above each.
    gone: Vec<(ScriptedBlock, u64)>,
}

impl ScriptedBlocks {
    fn tip(&self) -> u64 {
        self.chain.last().map_or(FIRST, |tip| tip.number)
    }

    fn grow(&mut self, by: u64) {
        let highest = self.gone.iter().map(|(block, _)| block.number).max();
        for _ in 0..by {
            let parent = self.chain.last().map_or_else(|| hash(0), |tip| tip.hash.clone());
            let number = if self.chain.is_empty() { FIRST } else { self.tip() + 1 };
            self.made += 1;
            let replaces = highest.is_some_and(|highest| number <= highest);
            self.chain.push(ScriptedBlock { number, hash: hash(self.made), parent, replaces });
        }
    }

    /// Replaces the newest blocks with one more.
    fn fork(&mut self, depth: u64) {
        for above in 0..depth {
            let block = self.chain.pop().unwrap();
            self.gone.push((block, above));
        }
        self.grow(depth + 1);
    }

    /// Returns the blocks that an endpoint with these confirmations must receive.
    fn confirmed(&self, confirmations: u64) -> BTreeSet<String> {
        let tip = self.tip();
        let blocks = self.chain.iter();
        let told = blocks.filter(|block| block.number > FIRST && block.number + confirmations <= tip);
        told.map(|block| block.hash.clone()).collect()
    }

    fn answer(&self, seen: &SeenRequest) -> Option<Raw> {
        let [call] = seen.calls.as_slice() else { return None };
        if call.method != "eth_getBlockByNumber" {
            return None;
        }
        let params: Value = serde_json::from_str(&call.params).unwrap();
        let block = match params[0].as_str().unwrap() {
            "latest" => self.chain.last(),
            number => {
                let number = u64::from_str_radix(number.strip_prefix("0x").unwrap(), 16).unwrap();
                self.chain.iter().find(|block| block.number == number)
            }
        };
        let result = block.map(|block| {
            json!({
                "number": format!("{:#x}", block.number),
                "hash": block.hash,
                "parentHash": block.parent,
                "timestamp": format!("{:#x}", START.secs() + block.number),
                "transactions": [],
            })
        });
        let id: Value = serde_json::from_str(call.id.as_deref().unwrap()).unwrap();
        Some(Raw::json(200, json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()))
    }
}

fn hash(number: u64) -> String {
    format!("0x{number:064x}")
}

/// Returns for each block the number of its events at an endpoint, less the number of its removals.
fn folded(received: &[ReceivedDelivery]) -> BTreeMap<String, i64> {
    let mut blocks = BTreeMap::new();
    for delivery in received {
        let event = delivery.event();
        let hash = event["data"]["block_hash"].as_str().unwrap().to_owned();
        *blocks.entry(hash).or_default() += if is_marked(&event, "removed") { -1 } else { 1 };
    }
    blocks
}

fn is_marked(event: &Value, mark: &str) -> bool {
    event["data"]["data"][mark] == true
}

fn marked(received: &[ReceivedDelivery], mark: &str) -> BTreeSet<String> {
    let marked = received.iter().map(ReceivedDelivery::event).filter(|event| is_marked(event, mark));
    marked.map(|event| event["data"]["block_hash"].as_str().unwrap().to_owned()).collect()
}

// Shows (Webhooks): A receiver's sum of events is the chain of a node that forks; an event with too few confirmations
// is never sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receivers_sum_of_events_is_the_chain_of_a_node_that_forks() {
    let node = Node::evm().await;
    let receiver = WebhookReceiver::start().await;
    let blocks = Arc::new(Mutex::new(ScriptedBlocks::default()));
    let change = |change: &dyn Fn(&mut ScriptedBlocks)| {
        let mut blocks = blocks.lock().unwrap();
        change(&mut blocks);
        node.height(blocks.tip());
    };
    change(&|blocks| blocks.grow(1));
    let script = blocks.clone();
    node.whole(move |seen| script.lock().unwrap().answer(seen));
    let setup = lenient(Setup::of("eth", &node.url())).set("chains.eth", "probe_interval = \"1s\"");
    let service = TestService::start(setup, Arc::new(SystemClock::new())).await.with_webhooks();
    let owner = service.owner("ada@example.com").await;
    let project = owner.project("wallet").await;
    let mut endpoints = Vec::new();
    for confirmations in CONFIRMATIONS {
        let subscription =
            json!({ "chain": "eth", "event_type": "new_block", "confirmations": confirmations });
        let url = receiver.url(&format!("/{confirmations}"));
        endpoints.push(endpoint(&owner, &project, &url, &[subscription]).await.0);
    }
    let endpoints: Vec<_> = endpoints.iter().map(String::as_str).collect();
    until_within(TIMEOUT, "the chain is followed", async || service.followed("eth").await == Some(FIRST))
        .await;
    // Watchers read changes in order, so they know all endpoints once they know a later one.
    let later = [json!({ "chain": "eth", "event_type": "new_block" })];
    endpoint(&owner, &project, &receiver.url("/later"), &later).await;
    change(&|blocks| blocks.grow(1));
    until("the last endpoint is told", || !receiver.at("/later").is_empty()).await;

    let agree = async || {
        for confirmations in CONFIRMATIONS {
            let expected = blocks.lock().unwrap().confirmed(confirmations);
            let path = format!("/{confirmations}");
            let is_same = || {
                let folded = folded(&receiver.at(&path));
                let there: BTreeSet<_> =
                    folded.iter().filter(|(_, count)| **count == 1).map(|(hash, _)| hash.clone()).collect();
                there == expected && folded.values().all(|count| [0, 1].contains(count))
            };
            until(&format!("the fold with {confirmations} confirmations is the chain"), is_same).await;
        }
    };
    let steps: [&dyn Fn(&mut ScriptedBlocks); 5] = [
        &|blocks| blocks.grow(4),
        &|blocks| blocks.fork(1),
        &|blocks| blocks.grow(1),
        &|blocks| blocks.fork(3),
        &|blocks| blocks.grow(3),
    ];
    for step in steps {
        change(step);
        agree().await;
    }
    all_delivered(&owner, &endpoints).await;
    agree().await;

    service.stop().await;
    let blocks = blocks.lock().unwrap();
    for confirmations in CONFIRMATIONS {
        let received = receiver.at(&format!("/{confirmations}"));
        // A block that was replaced before it had enough blocks above it is never reported, neither as new nor as
        // removed.
        let gone = blocks.gone.iter().filter(|(_, above)| *above >= confirmations);
        let gone: BTreeSet<_> = gone.map(|(block, _)| block.hash.clone()).collect();
        assert_eq!(marked(&received, "removed"), gone, "{confirmations}");
        let ids: BTreeSet<_> = received.iter().map(ReceivedDelivery::id).collect();
        assert_eq!(ids.len(), received.len(), "each is sent once");
        let replacing = blocks.chain.iter().chain(blocks.gone.iter().map(|(block, _)| block));
        let replacing = replacing.filter(|block| block.replaces).map(|block| block.hash.clone());
        let told: BTreeSet<_> = folded(&received).into_keys().collect();
        let replacing: BTreeSet<_> = replacing.filter(|hash| told.contains(hash)).collect();
        assert_eq!(marked(&received, "reorganized"), replacing, "{confirmations}");
    }
    assert!(marked(&receiver.at("/3"), "removed").is_empty());
}
