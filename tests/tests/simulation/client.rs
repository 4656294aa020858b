//! Clients that make random calls and may leave while they wait. Each answer is checked.

use crate::arrivals::NodeArrivals;
use crate::check::{AskedCalls, GotAnswer, KnownChain};
use crate::nodes::{BEHIND, UNIQUE};
use crate::world::Stack;
use crate::{Clock, Dice, Duration, SimulationReport, VirtualClock, between};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

/// A chain that clients call, and the arrivals at its nodes.
#[derive(Clone, Debug)]
pub(crate) struct CalledChain {
    pub(crate) known: KnownChain,
    pub(crate) arrivals: Arc<Mutex<NodeArrivals>>,
}

pub(crate) struct RandomClient {
    pub(crate) stack: Stack,
    pub(crate) key: String,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) chains: Vec<CalledChain>,
    pub(crate) report: Arc<Mutex<SimulationReport>>,
    pub(crate) dice: Dice,
    /// A name that is unique in all lives of the process.
    pub(crate) name: String,
}

impl RandomClient {
    /// Calls until it is killed. Some clients pause, some call in bursts.
    pub(crate) async fn live(mut self) {
        let pause = between(&mut self.dice, 200, 9_000);
        for number in 0.. {
            sleep(Duration::from_millis(self.dice.below(pause))).await;
            self.call(number).await;
        }
    }

    /// Returns random calls of one chain, as one request.
    fn asked(&mut self, number: u64, chain: &CalledChain) -> AskedCalls {
        let size = if self.dice.below(3) == 0 { between(&mut self.dice, 2, 8) } else { 1 };
        let at = self.clock.elapsed();
        let mut arrivals = chain.arrivals.lock().unwrap();
        let calls = (0..size).map(|place| {
            let name = format!("{}-{number}-{place}", self.name);
            let (method, params) = self.ask(&name, chain);
            match UNIQUE.contains(&method) {
                true => arrivals.ask_unique(name.clone(), method == "eth_sendRawTransaction", at),
                false => arrivals.ask(),
            }
            (name, (method, params))
        });
        let calls = calls.collect();
        let least = (self.dice.below(4) == 0).then(|| {
            let before = Duration::from_millis(self.dice.below(BEHIND.as_millis() as u64));
            chain.known.blocks.lock().unwrap().height(at.saturating_sub(before)) + self.dice.below(3)
        });
        AskedCalls { calls, least, minute: self.clock.now().minute(), at }
    }

    /// Returns a random call. Calls of a method in [`UNIQUE`] have unique parameters.
    fn ask(&mut self, name: &str, chain: &CalledChain) -> (&'static str, Value) {
        match self.dice.below(12) {
            0 => ("eth_blockNumber", json!([])),
            1..4 => {
                let newest = chain.known.blocks.lock().unwrap().height(self.clock.elapsed());
                let height = newest + 2 - between(&mut self.dice, 0, 80);
                ("eth_getBlockByNumber", json!([format!("{height:#x}"), false]))
            }
            4 => ("eth_call", json!([{ "to": self.dice.below(4) }])),
            5 => ("eth_sendRawTransaction", json!([name])),
            6 => ("eth_getTransactionCount", json!([name])),
            _ => ("eth_getBalance", json!([name])),
        }
    }

    async fn call(&mut self, number: u64) {
        let chain = self.chains[usize::from(self.dice.below(4) == 0)].clone();
        let asked = self.asked(number, &chain);
        let item = |(id, (method, params)): (&String, &(&str, Value))| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let mut items: Vec<_> = asked.calls.iter().map(item).collect();
        let body = if items.len() == 1 { items.remove(0) } else { Value::Array(items) };
        let mut request = Request::post(format!("/{}", chain.known.name)).header("apikey", &self.key);
        if let Some(least) = asked.least {
            request = request.header("x-rpcgate-consistency", least.to_string());
        }
        let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
        self.report.lock().unwrap().begin(&self.key, asked.minute, asked.units());
        let stack = self.stack.clone();
        let answer = async move {
            let Ok(response) = stack.oneshot(request).await;
            let (head, body) = response.into_parts();
            (head, body.collect().await.unwrap().to_bytes())
        };
        let patience = if self.dice.below(12) == 0 { self.dice.below(2_000) } else { 600_000 };
        match timeout(Duration::from_millis(patience), answer).await {
            Ok((head, body)) => {
                let status = head.status.as_u16();
                let at = self.clock.elapsed();
                let got = GotAnswer { status, headers: &head.headers, body: &body, at };
                chain.known.check(&self.key, &asked, &got, &mut self.report.lock().unwrap());
            }
            Err(_) => self.report.lock().unwrap().left += 1,
        }
    }
}
