//! The rules for every answer, from the known state of the chain and the request.

use crate::nodes::{BEHIND, LIE};
use crate::{Duration, ForkingChain, SimulationReport};
use http::HeaderMap;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The maximum time of a call at nodes, over all its tries.
pub(crate) const DEADLINE: Duration = Duration::from_secs(8);
/// The maximum time of an answer: the deadline, a second to wait for a height, and the ticks of timers.
const LONGEST: Duration = Duration::from_millis(9_100);
/// The maximum time for which an answer may be shown after its block was replaced: the lag of a node, the wait for the
/// slowest answer of its batch, two seconds in the cache, and the wait for the slowest answer of a second batch.
const STALE: Duration =
    BEHIND.saturating_add(LONGEST).saturating_add(LONGEST).saturating_add(Duration::from_secs(3));
/// The error number of calls that no node answered, or none that has reached the height.
const FAILED: i64 = -32603;
/// The error number of calls beyond the quota.
const OVER_QUOTA: i64 = -32005;
/// The beginning of the refusal of a height.
const NOT_REACHED: &str = "no node has reached";

/// The called methods and their price in Compute Units.
pub(crate) const PRICES: [(&str, u64); 6] = [
    ("eth_blockNumber", 1),
    ("eth_getBalance", 5),
    ("eth_getTransactionCount", 5),
    ("eth_getBlockByNumber", 10),
    ("eth_call", 15),
    ("eth_sendRawTransaction", 20),
];

#[derive(Debug)]
pub(crate) struct AskedCalls {
    pub(crate) calls: BTreeMap<String, (&'static str, Value)>,
    /// The height that the client claims to have seen.
    pub(crate) least: Option<u64>,
    /// The minute of its arrival on the wall clock.
    pub(crate) minute: u64,
    pub(crate) at: Duration,
}

impl AskedCalls {
    pub(crate) fn units(&self) -> u64 {
        self.calls.values().map(|(method, _)| price(method)).sum()
    }
}

#[derive(Debug)]
pub(crate) struct GotAnswer<'a> {
    pub(crate) status: u16,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a [u8],
    pub(crate) at: Duration,
}

impl GotAnswer<'_> {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// A chain as the clients of a world know it.
#[derive(Clone, Debug)]
pub(crate) struct KnownChain {
    pub(crate) name: &'static str,
    pub(crate) blocks: Arc<Mutex<ForkingChain>>,
    /// True if a node may report a height above that of the chain.
    pub(crate) has_liar: bool,
}

impl KnownChain {
    pub(crate) fn check(
        &self,
        key: &str,
        asked: &AskedCalls,
        got: &GotAnswer<'_>,
        report: &mut SimulationReport,
    ) {
        report.end(key, asked.units());
        if got.at > asked.at + LONGEST {
            report.broken(format!("{:?} after {:?}: {asked:?}", got.at - asked.at, asked.at));
        }
        if got.status == 429 {
            return report.limited(key, asked.minute);
        }
        report.admitted(key, asked.minute);
        if got.header("x-cache") == "HIT" {
            report.hits += 1;
        }
        let is_fit =
            got.status == 200 || got.status == 503 && asked.least.is_some() && asked.calls.len() == 1;
        let (Ok(id), Ok(units), true) =
            (got.header("x-request-id").parse(), got.header("x-compute-units").parse::<u64>(), is_fit)
        else {
            return report.broken(format!("{} {:?}", got.status, got.headers));
        };
        report.answered(id, units);
        let (least, most) = self.check_calls(key, asked, got, report);
        if !(least..=most).contains(&units) {
            report.broken(format!("{units} units, and not {least} to {most}: {asked:?}"));
        }
        self.check_head(asked, got, report);
    }

    /// Checks that each call has one answer. Returns the minimum and the maximum cost in units.
    fn check_calls(
        &self,
        key: &str,
        asked: &AskedCalls,
        got: &GotAnswer<'_>,
        report: &mut SimulationReport,
    ) -> (u64, u64) {
        let body: Value = serde_json::from_slice(got.body).unwrap_or_default();
        let answers =
            if asked.calls.len() == 1 { vec![body] } else { body.as_array().cloned().unwrap_or_default() };
        let mut missing: Vec<_> = asked.calls.keys().collect();
        let mut cost = (0, 0);
        for answer in &answers {
            let id = answer["id"].as_str().unwrap_or_default();
            let Some(place) = missing.iter().position(|asked| *asked == id) else {
                report.broken(format!("an answer of somebody else, or twice: {answer}"));
                continue;
            };
            missing.swap_remove(place);
            let (method, params) = &asked.calls[id];
            let price = price(method);
            let (least, most) = match answer["error"]["code"].as_i64() {
                Some(OVER_QUOTA) => {
                    report.over_quota(key);
                    (0, 0)
                }
                Some(FAILED)
                    if answer["error"]["message"]
                        .as_str()
                        .is_some_and(|text| text.starts_with(NOT_REACHED)) =>
                {
                    report.not_reached += 1;
                    if asked.least.is_none() {
                        report.broken(format!("refused for a height that was not named: {answer}"));
                    }
                    (0, 0)
                }
                // A call that a node may have worked on for all its time is charged.
                Some(FAILED) => {
                    report.failed += 1;
                    (0, price)
                }
                _ => {
                    report.served += 1;
                    if let Some(why) = self.judged(method, params, answer, (asked.least, got.at)) {
                        report.broken(format!(
                            "{} {method} {params} {:?}: {why}: {answer}",
                            self.name, asked.least
                        ));
                    }
                    (price, price)
                }
            };
            cost = (cost.0 + least, cost.1 + most);
        }
        if !missing.is_empty() {
            report.broken(format!("without an answer: {missing:?}"));
        }
        cost
    }

    /// Checks the height that, according to the answer, all its nodes have reached.
    fn check_head(&self, asked: &AskedCalls, got: &GotAnswer<'_>, report: &mut SimulationReport) {
        let Ok(shown) = got.header("x-rpcgate-head").parse::<u64>() else { return };
        report.consistent += 1;
        let most = self.height(got.at) + if self.has_liar { LIE } else { 0 };
        if asked.least.is_none_or(|least| shown < least) || shown > most {
            report
                .broken(format!("the head {shown} for a client that has seen {:?}, at {most}", asked.least));
        }
    }

    fn height(&self, at: Duration) -> u64 {
        self.blocks.lock().unwrap().height(at)
    }

    /// Returns the fault of a node's answer at a moment, for a client that has seen this height.
    fn judged(
        &self,
        method: &str,
        params: &Value,
        answer: &Value,
        (least, at): (Option<u64>, Duration),
    ) -> Option<&'static str> {
        let error = &answer["error"];
        let result = &answer["result"];
        let since = at.saturating_sub(STALE);
        match method {
            "eth_getTransactionCount" => {
                (error["message"] != params[0]).then_some("the answer to another call")
            }
            _ if !error.is_null() => Some("an error of nobody"),
            "eth_blockNumber" => match quantity(result) {
                Some(height) => self.judged_height(height, (least, at)),
                None => Some("no height"),
            },
            "eth_getBlockByNumber" => {
                let Some(height) = quantity(&params[0]) else { return Some("no height was asked for") };
                if result.is_null() {
                    // Only a liar reports heights that it does not have.
                    let is_excluded = !self.has_liar && least.is_some_and(|least| height <= least);
                    let is_old = height <= self.height(since);
                    return (is_old || is_excluded).then_some("no block, though there is one since long");
                }
                let Some(hash) = quantity(&result["hash"]) else { return Some("no block") };
                if quantity(&result["number"]) != Some(height) {
                    return Some("another block");
                }
                let is_known = self.blocks.lock().unwrap().was_part(height, hash, since);
                (!is_known).then_some("a block that was taken back long ago, or of another chain")
            }
            _ => {
                let own = format!("{}:{params}@", self.name);
                let height = result.as_str().and_then(|text| text.strip_prefix(&own)?.parse().ok());
                match height {
                    Some(height) => self.judged_height(height, (least, at)),
                    None => Some("the answer to another call"),
                }
            }
        }
    }

    /// Returns the fault of a node that answers at this height.
    fn judged_height(&self, height: u64, (least, at): (Option<u64>, Duration)) -> Option<&'static str> {
        if least.is_some_and(|least| height < least) {
            return Some("of a node that the client's height excludes");
        }
        let newest = self.height(at);
        let true_height = if self.has_liar && height > newest { height.saturating_sub(LIE) } else { height };
        if true_height > newest {
            return Some("of a height that there is not");
        }
        (true_height < self.height(at.saturating_sub(STALE))).then_some("of long ago")
    }
}

fn price(method: &str) -> u64 {
    PRICES.iter().find(|(name, _)| *name == method).unwrap().1
}

/// Reads the number in a text like `"0x1f"`.
fn quantity(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests;
