//! A client that sends random requests, and counts requests and answers.
//!
//! The cost of a call comes from a table of weights, its outcome from the answer. The nodes report their calls: an
//! answer without a call at a node came from the cache.

use super::tally::{Call, Sums, Who};
use rpcgate_core::clock::{Clock, ManualClock};
use rpcgate_tests::client::{TestClient, TestReply};
use rpcgate_tests::load::Dice;
use rpcgate_tests::node::Node;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// A chain, a method, and the params.
type Question = (&'static str, String, String);

/// The shared state of clients: the number of answers of the nodes to each call, and the clock.
#[derive(Debug)]
pub(crate) struct World {
    asked: Mutex<BTreeMap<Question, u64>>,
    pub(crate) clock: Arc<ManualClock>,
}

impl World {
    pub(crate) fn new(clock: Arc<ManualClock>) -> Arc<Self> {
        Arc::new(World { asked: Mutex::default(), clock })
    }

    /// Makes the node of a chain report its calls.
    pub(crate) fn listen(self: &Arc<Self>, chain: &'static str, node: &Node) {
        let world = self.clone();
        node.whole(move |seen| {
            let mut asked = world.asked.lock().unwrap();
            // A call on which the node hangs up has no answer; a retry is another call.
            let is_answered = seen.calls.iter().all(|call| call.method != CUT);
            for call in seen.calls.iter().filter(|_| is_answered) {
                *asked.entry((chain, call.method.clone(), call.params.clone())).or_default() += 1;
            }
            None
        });
    }

    fn asked(&self, question: &Question) -> u64 {
        self.asked.lock().unwrap().get(question).copied().unwrap_or_default()
    }
}

#[derive(Clone, Debug)]
struct Item {
    method: String,
    params: String,
    id: Option<usize>,
    text: String,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lists {
    pub(crate) allowed: &'static [&'static str],
    pub(crate) blocked: &'static [&'static str],
}

impl Lists {
    fn permit(&self, method: &str) -> bool {
        (self.allowed.is_empty() || self.allowed.contains(&method)) && !self.blocked.contains(&method)
    }
}

enum Fate {
    Answered,
    NodeError,
    Refused,
    Failed,
}

#[derive(Debug)]
pub(crate) struct Caller {
    world: Arc<World>,
    client: TestClient,
    pub(crate) who: Who,
    /// A tag in all params, so that no two clients share an answer.
    pub(crate) tag: String,
    /// True if no call is refused without an error.
    notifies: bool,
    lists: Lists,
    dice: Dice,
    next: usize,
    pub(crate) calls: Vec<Call>,
    pub(crate) reported: BTreeSet<String>,
    /// The UTC day of the last answer with the state of the day's window, and the used requests.
    pub(crate) used: (u64, u64),
}

const EVM: [&str; 12] = [
    "eth_chainId",
    "eth_blockNumber",
    "eth_getBalance",
    "eth_call",
    "eth_getLogs",
    "txpool_content",
    "eth_getCode",
    "eth_sendRawTransaction",
    "admin_peers",
    "debug_traceCall",
    "blocked",
    "unlisted",
];
const UTXO: [&str; 7] = [
    "getblockcount",
    "getblock",
    "gettxout",
    "getnetworkinfo",
    "sendrawtransaction",
    "stop",
    "getmempoolentry",
];

pub(crate) const CUT: &str = "hang_up";
/// Methods that the nodes answer with the error [`NO`].
pub(crate) const ERRING: [&str; 2] = ["eth_getCode", "getmempoolentry"];
pub(crate) const NO: &str = "the node says no";
pub(crate) const AWAY: &str = "avax";

fn weight(chain: &str, method: &str) -> u64 {
    match (chain, method) {
        ("eth" | "bsc" | AWAY, "eth_chainId") => 0,
        ("eth" | "bsc" | AWAY, "eth_getBalance") => 5,
        ("eth" | "bsc" | AWAY, "eth_getCode") => 10,
        ("eth" | "bsc" | AWAY, "eth_call") => 15,
        ("eth" | "bsc" | AWAY, "eth_sendRawTransaction") => 20,
        ("eth" | "bsc" | AWAY, "eth_getLogs") => 75,
        ("btc", "gettxout") => 5,
        ("btc", "getblock") => 10,
        ("btc", "sendrawtransaction") => 20,
        _ => 1,
    }
}

impl Caller {
    /// Creates a client with a key. The one called `all` is never refused.
    pub(crate) fn new(
        world: &Arc<World>,
        client: TestClient,
        who: Who,
        tag: &str,
        lists: Lists,
        dice: Dice,
    ) -> Self {
        Caller {
            world: world.clone(),
            client,
            who,
            tag: tag.to_owned(),
            notifies: tag == "all",
            lists,
            dice,
            next: 0,
            calls: Vec::new(),
            reported: BTreeSet::new(),
            used: (0, 0),
        }
    }

    pub(crate) async fn send(mut self, requests: usize) -> Self {
        for _ in 0..requests {
            let chain = ["eth", "eth", "bsc", "bsc", "btc", "btc", "doge", AWAY][self.dice.below(8) as usize];
            match self.dice.below(20) {
                0 => self.post(chain, &[], "{\"id\":".into()).await,
                1 => self.post(chain, &[], "[]".into()).await,
                2 => {
                    let items: Vec<_> = (0..101).map(|_| self.item(chain).text).collect();
                    self.post(chain, &[], format!("[{}]", items.join(","))).await;
                }
                3..10 => {
                    let number = 1 + self.dice.below(6);
                    let mut items: Vec<_> = (0..number).map(|_| self.item(chain)).collect();
                    // An array of answers lacks the HTTP status that a daemon's error would have alone.
                    items.retain(|item| item.method != ERRING[1]);
                    let texts: Vec<_> = items.iter().map(|item| item.text.as_str()).collect();
                    let body = format!("{}[ {} ]", [" ", ""][self.dice.below(2) as usize], texts.join(", "));
                    self.post(chain, &items, body).await;
                }
                _ => {
                    let item = self.item(chain);
                    let body = item.text.clone();
                    self.post(chain, &[item], body).await;
                }
            }
        }
        self
    }

    /// Returns a client with the same key and an empty count.
    pub(crate) fn another(&self) -> TestClient {
        self.client.another()
    }

    /// Sends a body without a call.
    pub(crate) async fn say(&mut self, body: String) {
        self.post("eth", &[], body).await;
    }

    /// Makes one call and returns its counted status.
    pub(crate) async fn call(&mut self, chain: &'static str, method: &str) -> u16 {
        let item = self.item_of(chain, method);
        let body = item.text.clone();
        self.post(chain, &[item], body).await;
        self.calls.last().unwrap().status
    }

    fn item(&mut self, chain: &str) -> Item {
        let is_utxo = matches!(chain, "btc" | "doge");
        let methods = if is_utxo { &UTXO[..] } else { &EVM[..] };
        let method = match self.dice.below(40) {
            // The other calls of a batch fail with it, and a notification has no answer that would show it.
            0 if !self.notifies => CUT,
            _ => methods[self.dice.below(methods.len() as u64) as usize],
        };
        let mut item = self.item_of(chain, method);
        match self.dice.below(25) {
            // No method: an invalid call.
            0 => {
                item.text = item.text.replace(&format!("\"{method}\""), "7");
                item.method = "-".into();
            }
            1 if !is_utxo && chain != AWAY && self.notifies => {
                let (before, after) = item.text.split_once("\"id\"").unwrap();
                let (_, after) = after.split_once(',').unwrap();
                item.text = format!("{before}{after}").replace(method, "unlisted");
                item.method = "unlisted".into();
                item.id = None;
            }
            _ => {}
        }
        item
    }

    fn item_of(&mut self, chain: &str, method: &str) -> Item {
        self.next += 1;
        let version = if matches!(chain, "btc" | "doge") { "1.0" } else { "2.0" };
        let params = format!("[\"{}\",{}]", self.tag, self.dice.below(3));
        let id = self.next;
        let text = format!(r#"{{"jsonrpc":"{version}","id":{id},"method":"{method}","params":{params}}}"#);
        Item { method: method.into(), params, id: Some(id), text }
    }

    async fn post(&mut self, chain: &'static str, items: &[Item], body: String) {
        let questions: BTreeSet<Question> =
            items.iter().map(|item| (chain, item.method.clone(), item.params.clone())).collect();
        let before: BTreeMap<_, _> =
            questions.into_iter().map(|question| (question.clone(), self.world.asked(&question))).collect();
        let now = self.world.clock.now();
        let reply = self.client.post(chain, &body).await;
        if let Some(limit) = reply.header("x-ratelimit-limit-day") {
            let limit: u64 = limit.parse().unwrap();
            self.used = (now.day(), limit - reply.number("x-ratelimit-remaining-day"));
        }
        let calls = self.judge(chain, items, &body, &reply);
        let charged: u64 = calls.iter().map(|call| call.2[2]).sum();
        assert_eq!(charged, reply.header("x-compute-units").map_or(0, |_| reply.cu()), "{body}\n{reply:?}");
        let mut calls: Vec<Call> = calls
            .into_iter()
            .map(|(method, status, sums)| Call {
                who: self.who.clone(),
                hour: now.hour(),
                chain,
                method,
                status,
                sums,
            })
            .collect();
        // Answers to equal calls without a call at a node came from the cache.
        for (question, before) in before {
            let mut asked = self.world.asked(&question) - before;
            for (call, item) in calls.iter_mut().zip(items) {
                let is_answer = call.sums[4] == 0;
                if is_answer && (chain, &item.method, &item.params) == (chain, &question.1, &question.2) {
                    call.sums[5] = u64::from(asked == 0);
                    asked = asked.saturating_sub(1);
                }
            }
        }
        if let ([call], false) = (calls.as_slice(), body.trim_start().starts_with('[')) {
            assert_eq!(reply.cache() == "HIT", call.sums[5] == 1, "{body}\n{reply:?}");
        }
        self.calls.extend(calls);
    }

    /// Returns the method, status and sums of each call of a request, without cache hits.
    fn judge(
        &mut self,
        chain: &str,
        items: &[Item],
        body: &str,
        reply: &TestReply,
    ) -> Vec<(String, u16, Sums)> {
        let [sent, got] = [body.len() as u64, reply.body.len() as u64];
        let value: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let words =
            value["message"].as_str().or(value["error"].as_str()).or(value["error"]["message"].as_str());
        let words = words.unwrap_or_default();
        let refused = |sent: u64, got: u64| [1, 0, 0, 1, 1, 0, sent, got];
        let alone = |sent: u64| vec![("-".to_owned(), reply.status, refused(sent, got))];
        if reply.status != 200 {
            self.reported.insert(format!("{} {words}", reply.status));
        }
        match (reply.status, words) {
            // Refused before the body is read: it counts as empty.
            (401 | 402, _) | (403, "API key not permitted for this chain") | (413, "request too large") => {
                return alone(0);
            }
            (400, _) | (413, _) => return alone(sent),
            (429, "API rate limit exceeded") => {
                let spare = sent - items.iter().map(|item| item.text.len() as u64).sum::<u64>();
                let call = |(at, item): (usize, &Item)| {
                    let (spare, got) = if at == 0 { (spare, got) } else { (0, 0) };
                    // Calls that were refused before the windows keep their outcome; the answer does not distinguish
                    // them.
                    let status = match item.method.as_str() {
                        "-" => 400,
                        method if chain == "eth" && method.starts_with("debug_") => 403,
                        method if !self.lists.permit(method) => 403,
                        _ => 429,
                    };
                    (item.method.clone(), status, refused(item.text.len() as u64 + spare, got))
                };
                return items.iter().enumerate().map(call).collect();
            }
            _ => {}
        }
        if !body.trim_start().starts_with('[') {
            let item = &items[0];
            let (fate, status) = self.fate(&value, words, reply.status);
            return vec![(item.method.clone(), status, sums(chain, item, &fate, [sent, got]))];
        }
        let slices: Vec<&RawValue> = serde_json::from_slice(&reply.body).unwrap_or_default();
        let mut found = BTreeMap::new();
        for slice in &slices {
            let value: Value = serde_json::from_str(slice.get()).unwrap();
            found.insert(value["id"].as_u64().unwrap() as usize, (value, slice.get().len() as u64));
        }
        let mut calls = Vec::new();
        for item in items {
            let answer = item.id.map(|id| found.remove(&id).unwrap());
            let (value, got) = answer.unwrap_or_default();
            let words = value["error"]["message"].as_str().unwrap_or_default().to_owned();
            let (fate, status) = self.fate(&value, &words, 200);
            calls.push((
                item.method.clone(),
                status,
                sums(chain, item, &fate, [item.text.len() as u64, got]),
            ));
        }
        assert!(found.is_empty(), "without a request: {found:?}");
        for (at, whole) in [(6, sent), (7, got)] {
            let shares: u64 = calls.iter().map(|call| call.2[at]).sum();
            calls[0].2[at] += whole - shares;
        }
        calls
    }

    /// Returns the outcome of a call with this answer, and the status that it would have alone.
    fn fate(&mut self, value: &Value, words: &str, status: u16) -> (Fate, u16) {
        if status == 200 && (value.is_null() || value.get("error").is_none_or(Value::is_null)) {
            return (Fate::Answered, 200);
        }
        let (fate, alone) = match words {
            NO => (Fate::NodeError, status),
            "backend request failed" => (Fate::Failed, 200),
            "method not permitted for this project" | "debug methods not permitted" => (Fate::Refused, 403),
            "Heavy method rate limit: 1/min for eth_getLogs"
            | "heavy method rate limit exceeded for your plan, retry later" => (Fate::Refused, 429),
            "method not available"
            | "chain not available at this location"
            | "compute unit quota exceeded" => (Fate::Refused, 200),
            "invalid request" => (Fate::Refused, 400),
            _ => panic!("{status} {value}"),
        };
        self.reported.insert(format!("{alone} {words}"));
        (fate, alone)
    }
}

fn sums(chain: &str, item: &Item, fate: &Fate, [sent, got]: [u64; 2]) -> Sums {
    let cu = match fate {
        Fate::Answered | Fate::NodeError => weight(chain, &item.method),
        Fate::Refused | Fate::Failed => 0,
    };
    let is_error = !matches!(fate, Fate::Answered);
    let is_rejected = matches!(fate, Fate::Refused | Fate::Failed);
    [1, u64::from(cu > 0), cu, is_error.into(), is_rejected.into(), 0, sent, got]
}
