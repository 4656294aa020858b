//! Clients that call in parallel and store their requests and the answers.
//!
//! The expected record of each request is known before it is sent: this module reads nothing from the gateway but its
//! answers.

#![expect(clippy::unwrap_used, reason = "a request of the tests that cannot be made fails its test")]

use crate::client::{Connection, TestReply};
use crate::gateway::{Setup, key};
use crate::node::{Node, ScriptedAnswer};
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::caller::RequestId;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use tokio::task::JoinHandle;

/// The size of the answer of `big_call`: larger than the buffer for checks, so that it is streamed.
const BIG: usize = 400 << 10;

/// A random number generator (SplitMix64).
#[derive(Debug)]
pub struct Dice(u64);

/// The seed of a test, which is printed when the test fails.
#[derive(Debug)]
pub struct TestSeed(pub u64);

impl TestSeed {
    /// Returns the seed in the variable `TEST_SEED`, or a new one.
    pub fn new() -> Self {
        let given = std::env::var("TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        TestSeed(given.unwrap_or_else(|| RequestId::new(Default::default()).0 as u64))
    }

    /// Returns the generator for one of the uses of the seed.
    pub fn dice(&self, number: u64) -> Dice {
        Dice(self.0 ^ number.wrapping_mul(0xd134_2543_de82_ef95))
    }
}

impl Default for TestSeed {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TestSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "again with the same numbers: TEST_SEED={}", self.0);
        }
    }
}

impl Dice {
    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }
}

/// The expected record of a call.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ExpectedCall {
    /// The method.
    pub method: String,
    /// The cost in Compute Units.
    pub cu: u32,
    /// The outcome.
    pub outcome: Outcome,
}

/// A request and its expected record.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ExpectedRequest {
    /// The chain.
    pub chain: &'static str,
    /// The calls, in order.
    pub lines: Vec<ExpectedCall>,
    /// The number of requests that it counts as in the plan windows.
    pub windowed: u32,
}

impl ExpectedRequest {
    /// Returns the Compute Units of all calls.
    pub fn cu(&self) -> u64 {
        self.lines.iter().map(|line| u64::from(line.cu)).sum()
    }

    /// Reports whether all calls are refused. Refusals are never billed; a kill may lose the most recent ones.
    pub fn is_refused(&self) -> bool {
        self.lines.iter().all(|line| line.outcome == Outcome::Refused)
    }
}

struct Part {
    method: String,
    params: String,
    cu: u32,
    outcome: Outcome,
}

/// The mix of requests: single calls and batches, cached ones, free ones, calls that nodes answer with errors or not at
/// all, calls that the gateway refuses.
#[derive(Debug)]
pub struct Mix {
    dice: Dice,
    /// Gives every call a number, so that calls differ unless they should be equal.
    numbers: Arc<AtomicU64>,
}

/// The nodes that [`Mix`] calls.
#[derive(Debug)]
pub struct Nodes {
    /// The node of `/eth` and `/bsc`.
    pub evm: Node,
    /// The node of `/btc`.
    pub utxo: Node,
    /// The node of `/polygon`, which never answers.
    pub dead: Node,
}

impl Nodes {
    /// Starts the nodes.
    pub async fn start() -> Self {
        let evm = Node::evm().await;
        let utxo = Node::utxo().await;
        let dead = Node::evm().await;
        evm.result("big_call", &format!("\"{}\"", "0".repeat(BIG)));
        for node in [&evm, &utxo] {
            node.answer("broken_call", ScriptedAnswer::Error(r#"{"code":-5,"message":"no"}"#.into()));
        }
        dead.answer("eth_getBalance", ScriptedAnswer::Cut);
        Nodes { evm, utxo, dead }
    }

    /// Returns a configuration for [`Mix`] with limits that it does not reach.
    pub fn setup(&self) -> Setup {
        self.setup_under(1_000_000_000)
    }

    /// Returns a configuration for [`Mix`] with this number of Compute Units a day.
    pub fn setup_under(&self, cu_per_day: u64) -> Setup {
        let plan = "per_minute = 1000000\nper_hour = 2000000\nper_day = 3000000\nheavy_per_minute = 1000000";
        Setup::of("eth", &self.evm.url())
            .node("bsc", &self.evm.url())
            .node("btc", &self.utxo.url())
            .node("polygon", &self.dead.url())
            .set("plans.enterprise", plan)
            .set("projects.default", "blocked_methods = [\"blocked_call\"]")
            .set("projects.default", &format!("cu_per_day = {cu_per_day}"))
    }
}

impl Mix {
    /// Creates a mix from this generator. All callers of the same nodes share `numbers`.
    pub fn new(dice: Dice, numbers: Arc<AtomicU64>) -> Self {
        Mix { dice, numbers }
    }

    fn part(&mut self) -> Part {
        use Outcome::{Answered, NodeError, Refused};
        let number = self.numbers.fetch_add(1, Relaxed);
        let part =
            |method: &str, params: String, cu, outcome| Part { method: method.into(), params, cu, outcome };
        let own = format!("[{number}]");
        match self.dice.below(12) {
            0..3 => part("eth_getBalance", own, 5, Answered),
            3..5 => part("eth_call", format!("[{}]", number % 20), 15, Answered),
            5 => part("eth_chainId", "[]".into(), 0, Answered),
            6 => part(&format!("unheard_of_{}", number % 7), own, 1, Answered),
            7 => part("eth_sendRawTransaction", own, 20, Answered),
            8 => part("eth_getBlockByNumber", "[\"0x5\",false]".into(), 10, Answered),
            9 => part("broken_call", own, 1, NodeError),
            10 => part("blocked_call", own, 0, Refused),
            _ => part("admin_peers", "[]".into(), 0, Refused),
        }
    }

    /// Returns the next request: its body and its expected record.
    pub fn request(&mut self) -> (String, ExpectedRequest) {
        use Outcome::{Answered, Failed, NodeError, Refused};
        let number = self.numbers.fetch_add(1, Relaxed);
        let alone = |chain, method: &str, params: &str, cu, outcome, windowed| {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"{method}","params":{params}}}"#);
            let line = ExpectedCall { method: method.into(), cu, outcome };
            (body, ExpectedRequest { chain, lines: vec![line], windowed })
        };
        let own = format!("[{number}]");
        match self.dice.below(32) {
            0..12 => {
                let Part { method, params, cu, outcome } = self.part();
                let windowed = u32::from(method != "blocked_call");
                alone("eth", &method, &params, cu, outcome, windowed)
            }
            12..20 => self.batch(),
            20..22 => alone("bsc", "eth_getLogs", &own, 75, Answered, 1),
            22..25 => alone("btc", "getblock", &own, 10, Answered, 1),
            25 => alone("btc", "broken_call", &own, 1, NodeError, 1),
            26 => alone("polygon", "eth_getBalance", &own, 0, Failed, 1),
            27 => alone("eth", "big_call", &own, 1, Answered, 1),
            28 => alone("ltc", "getblock", &own, 0, Refused, 1),
            29 => alone("eth", "debug_traceBlock", &own, 0, Refused, 0),
            30 => {
                let line = ExpectedCall { method: "-".into(), cu: 0, outcome: Refused };
                (own + "no json", ExpectedRequest { chain: "eth", lines: vec![line], windowed: 0 })
            }
            _ => {
                let body = format!(r#"{{"jsonrpc":"2.0","method":"eth_estimateGas","params":{own}}}"#);
                let line = ExpectedCall { method: "eth_estimateGas".into(), cu: 15, outcome: Answered };
                (body, ExpectedRequest { chain: "eth", lines: vec![line], windowed: 1 })
            }
        }
    }

    fn batch(&mut self) -> (String, ExpectedRequest) {
        let parts: Vec<Part> = (0..2 + self.dice.below(9)).map(|_| self.part()).collect();
        let item = |(id, part): (usize, &Part)| {
            let Part { method, params, .. } = part;
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
        };
        let items: Vec<_> = parts.iter().enumerate().map(item).collect();
        let windowed = u32::from(parts.iter().any(|part| part.method != "blocked_call"));
        let line = |part: Part| ExpectedCall { method: part.method, cu: part.cu, outcome: part.outcome };
        let lines = parts.into_iter().map(line).collect();
        (format!("[{}]", items.join(",")), ExpectedRequest { chain: "eth", lines, windowed })
    }
}

/// The requests of all clients after they have finished.
#[derive(Debug, Default)]
pub struct LoadReport {
    /// The completely answered requests, with their ids.
    pub answered: Vec<(RequestId, ExpectedRequest)>,
    /// The requests that were sent, at least in part, but not answered.
    pub unanswered: Vec<ExpectedRequest>,
}

impl LoadReport {
    /// Adds the requests of another report.
    pub fn extend(&mut self, other: LoadReport) {
        self.answered.extend(other.answered);
        self.unanswered.extend(other.unanswered);
    }
}

/// Running clients.
#[derive(Debug)]
pub struct Load {
    callers: Vec<JoinHandle<LoadReport>>,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
}

impl Load {
    /// Starts `callers` clients with the key called `default`, each on its own connection. Each has one request in
    /// flight and ends at the first that is not answered.
    pub fn start(addr: SocketAddr, callers: usize, seed: &TestSeed, numbers: &Arc<AtomicU64>) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let answered = Arc::<AtomicU64>::default();
        let first = numbers.load(Relaxed);
        let caller = |index: usize| {
            let mix = Mix::new(seed.dice(first + index as u64), numbers.clone());
            tokio::spawn(call(addr, mix, stop.clone(), answered.clone()))
        };
        Load { callers: (0..callers).map(caller).collect(), stop: stop.clone(), answered: answered.clone() }
    }

    /// Returns the number of requests answered so far.
    pub fn answered(&self) -> u64 {
        self.answered.load(Relaxed)
    }

    /// Stops all clients and waits until each has its answer or has failed.
    pub async fn end(self) -> LoadReport {
        self.stop.store(true, Relaxed);
        let mut report = LoadReport::default();
        for caller in self.callers {
            report.extend(caller.await.unwrap());
        }
        report
    }
}

async fn call(addr: SocketAddr, mut mix: Mix, stop: Arc<AtomicBool>, answered: Arc<AtomicU64>) -> LoadReport {
    let mut report = LoadReport::default();
    let Ok(mut connection) = Connection::open(addr).await else { return report };
    while !stop.load(Relaxed) {
        let (body, wanted) = mix.request();
        let Ok(reply) = post(&mut connection, wanted.chain, &body).await else {
            report.unanswered.push(wanted);
            return report;
        };
        assert_eq!(reply.cu(), wanted.cu(), "{body}: {}", reply.text());
        report.answered.push((reply.header("x-request-id").unwrap().parse().unwrap(), wanted));
        answered.fetch_add(1, Relaxed);
        if reply.header("connection") == Some("close") {
            let Ok(next) = Connection::open(addr).await else { return report };
            connection = next;
        }
    }
    report
}

/// Sends a request exactly once.
async fn post(connection: &mut Connection, chain: &str, body: &str) -> std::io::Result<TestReply> {
    let key = key("default");
    let head = format!(
        "POST /{chain} HTTP/1.1\r\nhost: gateway\r\napikey: {key}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    connection.write((head + body).as_bytes()).await?;
    connection.read(false).await
}
