//! A Stellar core node: its status queries.

mod key;
mod metrics;
mod styled;

use super::json::{Json, object};
use super::ledger::{BlockRules, EPOCH, Ledger, LedgerNode, LedgerState, ledger_of};
use super::rest::{self, Rest, RestRequest};
use super::seed::Seed;
use super::target::Target;
use super::utc;
use super::{NodeReply, SimulatedRequest};
use metrics::Life;
use rpcgate_core::clock::Time;
use std::time::Duration;
use styled::styled;

/// The height at the epoch.
const BASE: u64 = 60_600_000;
const SLOT_MS: u64 = 5_000;
const JITTER_MS: u64 = 700;
/// The number of organisations in the node's quorum set; each has three validators.
const ORGANISATIONS: u64 = 7;
const NODES: u64 = 3 * ORGANISATIONS;
/// The number of nodes in the transitive quorum.
const TRANSITIVE: u64 = 24;
const PROTOCOL: u32 = 23;
/// The number of ledgers between checks of quorum intersection.
const CHECKED: u64 = 120;

/// A Stellar core node that is in sync with the public network and accepts no transactions.
#[derive(Debug)]
pub struct XlmNode {
    chain: Ledger<()>,
}

/// A ledger without the transactions of clients.
impl LedgerState for () {
    type Entry = ();

    fn resubmit(_: &mut Ledger<()>, _: &[u8], _: Time) {}
}

impl XlmNode {
    /// Creates the node of `xlm` from a seed.
    pub fn new(seed: u64) -> Self {
        let rules = BlockRules { slot_ms: SLOT_MS, jitter_ms: JITTER_MS, ..BlockRules::of(BASE) };
        XlmNode { chain: Ledger::new(Seed::of("xlm", seed), rules, ()) }
    }

    /// The node's own number among the validators: it is not one of them.
    const SELF: u64 = u64::MAX;

    fn name(&self, n: u64, is_full: bool) -> String {
        key::shown(self.chain.seed, n, is_full)
    }

    /// Returns the start of the node: some days before the epoch or, at earlier times, with its first ledger.
    fn started(&self) -> Time {
        let before = EPOCH.secs() - self.chain.seed.below("started", 0, 10 * 86_400);
        Time::from_secs(before).min(self.chain.time(self.chain.head))
    }

    fn age(&self, now: Time) -> u64 {
        now.since(self.chain.time(self.chain.head)).as_secs()
    }

    fn peers(&self) -> (u64, u64) {
        (
            18 + self.chain.seed.below("peers", self.chain.head / 40, 12),
            self.chain.seed.below("pending", self.chain.head, 3),
        )
    }

    /// Returns the status of a validator: late at a ledger, missing for some hours, or in agreement.
    fn standing(&self, n: u64) -> &'static str {
        let seed = self.chain.seed;
        let head = self.chain.head;
        match n {
            _ if seed.below("gone", head / 2_000, 2 * NODES) == n => "missing",
            _ if seed.below("late", head << 8 | n, 30) == 0 => "delayed",
            _ => "agree",
        }
    }

    fn standing_now(&self, wanted: &str) -> Vec<u64> {
        (0..NODES).filter(|n| self.standing(*n) == wanted).collect()
    }

    /// Returns the number of additional nodes whose failure stops this node. Two of three validators stop an
    /// organisation, and enough organisations stop the quorum.
    fn fail_at(&self) -> u64 {
        let missing = |organisation: u64| {
            (0..3).filter(|one| self.standing(3 * organisation + one) == "missing").count() as u64
        };
        let mut left: Vec<u64> = (0..ORGANISATIONS).map(|one| 2u64.saturating_sub(missing(one))).collect();
        left.sort_unstable();
        let needed = (ORGANISATIONS - threshold() + 1) as usize;
        left.into_iter().take(needed).sum()
    }

    fn quorum_set(&self, is_full: bool) -> Json {
        let organisation = |one: u64| {
            let nodes = (0..3).map(|node| Json::from(self.name(3 * one + node, is_full)));
            object! { "t": 2u32, "v": nodes.collect::<Vec<_>>() }
        };
        object! { "t": threshold(), "v": (0..ORGANISATIONS).map(organisation).collect::<Vec<_>>() }
    }

    fn intersection(&self) -> Json {
        object! {
            "critical": Json::Null, "intersection": true,
            "last_check_ledger": self.chain.head - self.chain.head % CHECKED, "node_count": TRANSITIVE,
        }
    }

    /// Returns the status of the quorum in ledger `height`.
    fn quorum(&self, height: u64, is_short: bool, is_full: bool) -> Json {
        let lag = |n: u64| 20 + self.chain.seed.below("lag", height << 8 | n, 400);
        let cost = |n: u64| 8_000 + self.chain.seed.below("cost", height << 8 | n, 9_000);
        let hash = hex::encode(&self.chain.seed.bytes::<32>("quorum set", 0)[..3]);
        let mut set = object! { "fail_at": self.fail_at(), "hash": hash, "ledger": height };
        set.put("phase", "EXTERNALIZE");
        let named = |members: &[u64], of: &dyn Fn(u64) -> u64| {
            let pairs = members.iter().map(|n| (self.name(*n, is_full).into(), Json::from(of(*n))));
            Json::Object(pairs.collect())
        };
        let heard: Vec<u64> = (0..NODES).filter(|n| self.standing(*n) != "missing").collect();
        for standing in ["agree", "delayed", "disagree", "missing"] {
            let members = self.standing_now(standing);
            if is_short {
                set.put(standing, members.len());
            } else if members.is_empty() {
                set.put(standing, Json::Null);
            } else {
                let names = members.iter().map(|n| Json::from(self.name(*n, is_full)));
                set.put(standing, names.collect::<Vec<_>>());
            }
        }
        if is_short {
            let count = heard.len().max(1) as u64;
            set.put("lag_ms", heard.iter().map(|n| lag(*n)).sum::<u64>() / count);
            set.put("cost", heard.iter().map(|n| cost(*n)).sum::<u64>());
        } else {
            let failing = (0..self.fail_at()).map(|n| Json::from(self.name(n / 2 * 3 + n % 2, is_full)));
            set.put("fail_with", failing.collect::<Vec<_>>());
            set.put("value", self.quorum_set(is_full));
            set.put("lag_ms", named(&heard, &lag));
            let mut ledgers = object! {};
            if let Json::Object(members) = &mut ledgers {
                members.push((height.to_string().into(), named(&heard, &cost)));
            }
            set.put("cost", ledgers);
        }
        let dead = self.standing_now("missing").into_iter().map(|n| Json::from(self.name(n, is_full)));
        object! {
            "maybe_dead_nodes": dead.collect::<Vec<_>>(), "node": self.name(Self::SELF, is_full), "qset": set,
            "transitive": self.intersection(),
        }
    }

    fn transitive(&self, is_short: bool, is_full: bool) -> Json {
        let node = |n: u64| {
            let status = match (n < NODES).then(|| self.standing(n)) {
                Some("missing") => "missing",
                Some("delayed") => "behind",
                _ => "tracking",
            };
            let own = if n == NODES { Self::SELF } else { n };
            let mut node = object! { "node": self.name(own, is_full), "status": status };
            if status != "missing" {
                node.put("heard", self.chain.head - u64::from(status == "behind"));
            }
            if !is_short {
                node.put("distance", u32::from(own != Self::SELF));
                node.put("qset", self.quorum_set(is_full));
                node.put("value_id", 1u32);
            }
            node
        };
        let mut out = self.intersection();
        let dead = self.standing_now("missing").into_iter().map(|n| Json::from(self.name(n, is_full)));
        out.put("maybe_dead_nodes", dead.collect::<Vec<_>>());
        // The node itself comes first.
        let order = std::iter::once(NODES).chain(0..NODES).chain(NODES + 1..TRANSITIVE);
        out.put("nodes", order.map(node).collect::<Vec<_>>());
        out
    }

    fn info(&self, target: &Target, now: Time) -> Json {
        let head = self.chain.head;
        let mut ledger = object! {
            "age": self.age(now), "baseFee": 100u32, "baseReserve": 5_000_000u32,
            "closeTime": self.chain.time(head).secs(), "hash": hex::encode(self.chain.seed.hide("ledger", head)),
            "maxSorobanTxSetSize": 100u32, "maxTxSetSize": 1_000u32, "num": head, "version": PROTOCOL,
        };
        if target.get("compact") == Some("false") {
            // A bucket of level n changes about every 4^n ledgers.
            let level = |n: u64| {
                let age = head >> (2 * n).min(63);
                let bucket = |tag: &str, age| hex::encode(self.chain.seed.bytes::<32>(tag, age << 4 | n));
                object! { "curr": bucket("curr", age), "snap": bucket("snap", age / 4) }
            };
            ledger.put("bucketlist", (0..11).map(level).collect::<Vec<_>>());
        }
        let (authenticated, pending) = self.peers();
        let quorum = self.quorum(head.saturating_sub(1), true, false);
        let build = hex::encode(self.chain.seed.bytes::<20>("build", 0));
        let info = object! {
            "build": format!("stellar-core 24.1.0 ({build})"),
            "ledger": ledger,
            "network": "Public Global Stellar Network ; September 2015",
            "peers": object! { "authenticated_count": authenticated, "pending_count": pending },
            "protocol_version": PROTOCOL,
            "quorum": quorum,
            "startedOn": utc::seconds(self.started()),
            "state": "Synced!",
        };
        object! { "info": info }
    }

    /// Returns the number of a node that a query names, by its whole key or, after an `@`, by a part of it.
    fn find(&self, name: &str) -> Option<u64> {
        let of = |n: u64| key::of(self.chain.seed, n);
        let mut all = std::iter::once(Self::SELF).chain(0..NODES);
        match name.strip_prefix('@') {
            Some(part) if !part.is_empty() => all.find(|n| of(*n).starts_with(part)),
            Some(_) => None,
            None => all.find(|n| of(*n) == name),
        }
    }

    fn quorum_page(&self, target: &Target) -> Json {
        let is = |name: &str| target.get(name) == Some("true");
        let wanted = target.get("node").filter(|name| !name.is_empty());
        let Some(node) = wanted.map_or(Some(Self::SELF), |name| self.find(name)) else {
            return object! { "exception": "unknown name" };
        };
        if is("transitive") {
            return self.transitive(is("compact"), is("fullkeys"));
        }
        let mut quorum = self.quorum(self.chain.head, is("compact"), is("fullkeys"));
        quorum.set("node", self.name(node, is("fullkeys")));
        if let (Json::Object(members), true) = (&mut quorum, node != Self::SELF) {
            // The node knows the votes of other nodes, but not their local state.
            members.retain(|(name, _)| name == "node" || name == "qset");
            if let Some((_, Json::Object(set))) = members.iter_mut().find(|(name, _)| name == "qset") {
                set.retain(|(name, _)| name != "lag_ms" && name != "cost");
            }
        }
        quorum
    }

    fn metrics(&self, target: &Target, now: Time) -> String {
        let started = self.started();
        let seconds = now.since(started).max(Duration::from_secs(1)).as_secs();
        let life = Life {
            seed: self.chain.seed,
            ledgers: self.chain.head.saturating_sub(self.chain.height_at(started)),
            seconds,
            age: self.age(now),
            height: self.chain.head,
            peers: self.peers(),
        };
        let wanted = target.get("enable").filter(|wanted| !wanted.is_empty());
        let report = object! {
            "ts": utc::seconds(now), "uname": "stellar-core", "metrics": life.metrics(wanted),
        };
        let mut out = String::new();
        report.write(&mut out);
        out
    }
}

/// Returns the number of organisations that have to agree: two thirds plus one.
const fn threshold() -> u64 {
    1 + (ORGANISATIONS * 2 - 1) / 3
}

impl Rest for XlmNode {
    type Error = NodeReply;

    /// Selects the answer by the path alone, for every HTTP method.
    fn run(&mut self, call: RestRequest<'_>, now: Time) -> Result<NodeReply, NodeReply> {
        let body = match call.path {
            ["info"] => styled(&self.info(call.query, now)),
            ["quorum"] => styled(&self.quorum_page(call.query)),
            ["metrics"] => self.metrics(call.query, now),
            _ => {
                let body = b"<b>stellar-core</b><p>There is no such command.</p>".to_vec();
                return Err(NodeReply { status: 404, content_type: "text/html", body });
            }
        };
        Ok(NodeReply::json(200, body))
    }
}

impl LedgerNode for XlmNode {
    ledger_of!(());

    fn respond(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        rest::serve(self, request, self.chain.moment(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Simulated;
    use crate::testing::golden::{NOW, assert_shape};
    use serde_json::{Value, json};

    fn get(node: &mut XlmNode, path: &str, now: Time) -> Value {
        let reply = node.handle(&SimulatedRequest { method: &http::Method::GET, path, body: b"" }, now);
        assert_eq!((reply.status, reply.content_type), (200, "application/json"), "{path}");
        serde_json::from_slice(&reply.body).unwrap()
    }

    fn short_set() -> Value {
        json!({
            "agree": 1, "cost": 1, "delayed": 0, "disagree": 0, "fail_at": 1, "hash": "", "lag_ms": 1,
            "ledger": 1,
            "missing": 0, "phase": "",
        })
    }

    fn intersection() -> Value {
        json!({ "critical": null, "intersection": true, "last_check_ledger": 1, "node_count": 1 })
    }

    #[test]
    fn the_status_of_the_node_has_the_documented_shape() {
        let mut node = XlmNode::new(7);
        let info = get(&mut node, "/info", NOW);
        let ledger = json!({
            "age": 1, "baseFee": 1, "baseReserve": 1, "closeTime": 1, "hash": "", "maxSorobanTxSetSize": 1,
            "maxTxSetSize": 1, "num": 1, "version": 1,
        });
        let quorum = json!({
            "maybe_dead_nodes": [""], "node": "", "qset": short_set(), "transitive": intersection(),
        });
        let real = json!({ "info": {
            "build": "", "ledger": ledger, "network": "",
            "peers": { "authenticated_count": 1, "pending_count": 1 },
            "protocol_version": 1, "quorum": quorum, "startedOn": "", "state": "",
        } });
        assert_shape("info", &real, &info, &[]);
        assert_eq!(info["info"]["state"], "Synced!");
        assert_eq!(info["info"]["ledger"]["num"], node.height(NOW));
        let buckets = get(&mut node, "/info?compact=false", NOW);
        assert_eq!(buckets["info"]["ledger"]["bucketlist"].as_array().unwrap().len(), 11);
    }

    #[test]
    fn ledgers_close_and_age() {
        let mut node = XlmNode::new(7);
        let mut before = get(&mut node, "/info", NOW)["info"]["ledger"].clone();
        let mut closed = 0;
        for second in 1..60 {
            let now = NOW.plus(Duration::from_secs(second));
            let ledger = get(&mut node, "/info", now)["info"]["ledger"].clone();
            let closes = ledger["num"].as_u64().unwrap() - before["num"].as_u64().unwrap();
            closed += closes;
            assert_eq!(closes > 0, ledger["hash"] != before["hash"]);
            let age = now.secs() - ledger["closeTime"].as_u64().unwrap();
            assert!(age.abs_diff(ledger["age"].as_u64().unwrap()) <= 1 && age < 7);
            before = ledger;
        }
        assert!((10..=13).contains(&closed), "{closed} ledgers in a minute");
    }

    #[test]
    fn the_quorum_is_reported_in_short_and_in_long_form() {
        let mut node = XlmNode::new(7);
        let short = get(&mut node, "/quorum?compact=true", NOW);
        assert_shape("qset", &short_set(), &short["qset"], &[]);
        let long = get(&mut node, "/quorum", NOW);
        for standing in ["agree", "delayed", "disagree", "missing"] {
            let names = long["qset"][standing].as_array().map_or(0, Vec::len);
            assert_eq!(short["qset"][standing], names, "{standing}");
        }
        assert_eq!(long["qset"]["value"]["v"].as_array().unwrap().len(), 7);
        assert_eq!(long["qset"]["fail_with"].as_array().unwrap().len() as u64, short["qset"]["fail_at"]);
        let whole = get(&mut node, "/quorum?fullkeys=true", NOW);
        let own = whole["node"].as_str().unwrap();
        assert!(own.len() == 56 && own.starts_with(long["node"].as_str().unwrap()));
        let all = get(&mut node, "/quorum?transitive=true", NOW);
        assert_eq!(all["nodes"].as_array().unwrap().len() as u64, all["node_count"]);
        assert_eq!(all["nodes"][0]["node"], long["node"]);
    }

    #[test]
    fn other_nodes_are_selected_by_their_keys() {
        let mut node = XlmNode::new(7);
        let long = get(&mut node, "/quorum?fullkeys=true", NOW);
        let other = long["qset"]["value"]["v"][2]["v"][1].as_str().unwrap().to_owned();
        let shown = get(&mut node, &format!("/quorum?node={other}&fullkeys=true"), NOW);
        assert_eq!(shown["node"], other);
        assert!(shown.get("transitive").is_none() && shown["qset"].get("cost").is_none());
        let part = format!("/quorum?node=%40{}", &other[..8]);
        assert_eq!(get(&mut node, &part, NOW)["node"], other[..5]);
        assert_eq!(get(&mut node, "/quorum?node=GNOBODY", NOW), json!({ "exception": "unknown name" }));
    }

    #[test]
    fn metrics_grow_and_are_selected_by_name_or_domain() {
        let mut node = XlmNode::new(7);
        let later = NOW.plus(Duration::from_secs(20));
        let first = get(&mut node, "/metrics", NOW);
        let second = get(&mut node, "/metrics", later);
        let rates = json!({
            "count": 1, "event_type": "", "rate_unit": "", "mean_rate": 1, "1_min_rate": 1, "5_min_rate": 1,
            "15_min_rate": 1, "type": "",
        });
        let close = "ledger.ledger.close";
        let mut timer = rates.clone();
        timer["duration_unit"] = json!("");
        for name in ["min", "max", "mean", "stddev", "sum", "median", "75%", "95%", "98%", "99%", "99.9%"] {
            timer[name] = json!(1);
        }
        assert_shape(close, &timer, &first["metrics"][close], &[]);
        assert_shape("meter", &rates, &first["metrics"]["overlay.byte.read"], &[]);
        assert_eq!(first["metrics"]["scp.memory.cumulative-statements"]["type"], "counter");
        let count = |answer: &Value| answer["metrics"][close]["count"].as_u64().unwrap();
        assert!((3..=5).contains(&(count(&second) - count(&first))));
        let chosen = get(&mut node, "/metrics?enable=bucket,overlay.byte.read", later);
        let names: Vec<_> = chosen["metrics"].as_object().unwrap().keys().collect();
        assert_eq!(names.len(), 4, "{names:?}");
    }

    #[test]
    fn an_unknown_command_is_answered_with_a_page() {
        let mut node = XlmNode::new(7);
        for path in ["/", "/accounts/G", "/info/x"] {
            let request = SimulatedRequest { method: &http::Method::GET, path, body: b"" };
            let reply = node.handle(&request, NOW);
            assert_eq!((reply.status, reply.content_type), (404, "text/html"), "{path}");
        }
        assert!(node.submitted().is_empty());
    }

    #[test]
    fn a_node_agrees_with_another_of_its_seed() {
        for path in ["/info", "/quorum", "/metrics"] {
            let mut one = XlmNode::new(3);
            let mut other = XlmNode::new(3);
            get(&mut one, "/info", Time::from_secs(NOW.secs() - 5_000));
            assert_eq!(get(&mut one, path, NOW), get(&mut other, path, NOW), "{path}");
        }
        assert!(get(&mut XlmNode::new(3), "/info", Time::from_secs(1_000)).is_object());
        assert!(get(&mut XlmNode::new(3), "/metrics", Time::from_secs(1_000)).is_object());
    }
}
