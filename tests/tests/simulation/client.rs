//! Clients that make random calls, leave while they wait, and check what they get.

use crate::nodes::{BEHIND, TIMEOUT};
use crate::world::Stack;
use crate::{Clock, Dice, Duration, ForkingChain, SimulationReport, VirtualClock, between};
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

/// How long an answer may be shown after its block was taken back: a node is so far behind, the answer is kept for two seconds,
/// and waits for the slowest one of its batch.
const STALE: Duration = BEHIND.saturating_add(TIMEOUT).saturating_add(Duration::from_secs(3));
/// No node answered, and the quota is used up.
const EXPECTED_ERRORS: [i64; 2] = [-32603, -32005];

/// A call, by its identifier.
type AskedCalls = BTreeMap<String, (&'static str, Value)>;

/// A client with a key.
pub(crate) struct RandomClient {
    pub(crate) stack: Stack,
    pub(crate) key: String,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) chain: Arc<Mutex<ForkingChain>>,
    pub(crate) report: Arc<Mutex<SimulationReport>>,
    pub(crate) dice: Dice,
    /// A name that no other client has, in no life of the process.
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

    fn asked(&mut self, number: u64) -> AskedCalls {
        let size = if self.dice.below(3) == 0 { between(&mut self.dice, 2, 8) } else { 1 };
        (0..size).map(|place| (format!("{}-{number}-{place}", self.name), self.ask(number))).collect()
    }

    fn ask(&mut self, number: u64) -> (&'static str, Value) {
        let own = json!([format!("{}-{number}-{}", self.name, self.dice.below(1_000))]);
        match self.dice.below(8) {
            0 => ("eth_blockNumber", json!([])),
            1..4 => {
                let newest = self.chain.lock().unwrap().height(self.clock.elapsed());
                let height = newest + 2 - between(&mut self.dice, 0, 80);
                ("eth_getBlockByNumber", json!([format!("{height:#x}"), false]))
            }
            4 => ("eth_call", json!([{ "to": self.dice.below(4) }])),
            5 => ("eth_sendRawTransaction", own),
            6 => ("eth_getTransactionCount", own),
            _ => ("eth_getBalance", own),
        }
    }

    async fn call(&mut self, number: u64) {
        let asked = self.asked(number);
        let item = |(id, (method, params)): (&String, &(&str, Value))| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let mut items: Vec<_> = asked.iter().map(item).collect();
        let body = if items.len() == 1 { items.remove(0) } else { Value::Array(items) };
        let request = Request::post("/eth").header("apikey", &self.key);
        let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
        let minute = self.clock.now().minute();
        let stack = self.stack.clone();
        let answer = async move {
            let Ok(response) = stack.oneshot(request).await;
            let (head, body) = response.into_parts();
            (head, body.collect().await.unwrap().to_bytes())
        };
        let patience = if self.dice.below(12) == 0 { self.dice.below(2_000) } else { 600_000 };
        match timeout(Duration::from_millis(patience), answer).await {
            Ok((head, body)) => self.check(&asked, minute, head.status.as_u16(), &head.headers, &body),
            Err(_) => self.report.lock().unwrap().left += 1,
        }
    }

    fn check(&self, asked: &AskedCalls, minute: u64, status: u16, headers: &HeaderMap, body: &[u8]) {
        let (now, mut report) = (self.clock.elapsed(), self.report.lock().unwrap());
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if status == 429 {
            report.limited += 1;
            return;
        }
        report.admitted(&self.key, minute);
        if header("x-cache") == "HIT" {
            report.hits += 1;
        }
        let units = header("x-compute-units").parse();
        let (Ok(id), Ok(units), 200) = (header("x-request-id").parse(), units, status) else {
            return report.broken(format!("{status} {headers:?}"));
        };
        report.answered(id, units);
        let answers: Value = serde_json::from_slice(body).unwrap_or_default();
        let answers =
            if asked.len() == 1 { vec![answers] } else { answers.as_array().cloned().unwrap_or_default() };
        let mut missing: Vec<_> = asked.keys().collect();
        for answer in &answers {
            let id = answer["id"].as_str().unwrap_or_default();
            let Some(place) = missing.iter().position(|asked| *asked == id) else {
                report.broken(format!("an answer of somebody else, or twice: {answer}"));
                continue;
            };
            missing.swap_remove(place);
            let (method, params) = &asked[id];
            if let Some(why) = self.judged(method, params, answer, now) {
                report.broken(format!("{method} {params}: {why}: {answer}"));
            }
            if answer["error"]["code"] == -32005 {
                report.over_quota += 1;
            }
        }
        if !missing.is_empty() {
            report.broken(format!("without an answer: {missing:?}"));
        }
    }

    /// What is wrong with an answer.
    fn judged(&self, method: &str, params: &Value, answer: &Value, now: Duration) -> Option<&'static str> {
        let (error, result) = (&answer["error"], &answer["result"]);
        if error["code"].as_i64().is_some_and(|code| EXPECTED_ERRORS.contains(&code)) {
            return None;
        }
        match method {
            "eth_getTransactionCount" => {
                (error["message"] != params[0]).then_some("the answer to another call")
            }
            _ if !error.is_null() => Some("an error of nobody"),
            "eth_blockNumber" => (!result.is_string()).then_some("no height"),
            "eth_getBlockByNumber" if result.is_null() => None,
            "eth_getBlockByNumber" => {
                let number =
                    |value: &Value| u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok();
                let (Some(height), Some(hash)) = (number(&params[0]), number(&result["hash"])) else {
                    return Some("no block");
                };
                let is_known = self.chain.lock().unwrap().was_part(height, hash, now.saturating_sub(STALE));
                if number(&result["number"]) != Some(height) {
                    return Some("another block");
                }
                (!is_known).then_some("a block that was taken back long ago")
            }
            _ => {
                let own = params.to_string();
                (result.as_str() != Some(&own)).then_some("the answer to another call")
            }
        }
    }
}
