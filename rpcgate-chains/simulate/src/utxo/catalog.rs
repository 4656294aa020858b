//! The methods of each daemon, and the names of their parameters.

use super::coin::Kind;
use crate::envelope::Fault;
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) params: &'static [&'static str],
    pub(crate) required: usize,
    group: &'static str,
    /// The daemons that have it; empty for all.
    on: &'static [Kind],
}

const fn method(
    group: &'static str,
    name: &'static str,
    params: &'static [&'static str],
    required: usize,
    on: &'static [Kind],
) -> Method {
    Method { name, params, required, group, on }
}

const CHAIN: &str = "Blockchain";
const ALL: &[Kind] = &[];
const DASH: &[Kind] = &[Kind::Dash];
const LIQUID: &[Kind] = &[Kind::Liquid];
const INDEXED: &[Kind] = &[Kind::Btc, Kind::Ltc, Kind::Dash, Kind::Liquid];
const SMART: &[Kind] = &[Kind::Btc, Kind::Ltc, Kind::Doge, Kind::Dash, Kind::Liquid];
const ACCEPT: &[Kind] = &[Kind::Btc, Kind::Ltc, Kind::Bch, Kind::Dash, Kind::Liquid];

/// All methods, in the order of `help`.
static METHODS: [Method; 45] = [
    method(CHAIN, "getbestblockhash", &[], 0, ALL),
    method(CHAIN, "getbestchainlock", &[], 0, DASH),
    method(CHAIN, "getblock", &["blockhash", "verbosity"], 1, ALL),
    method(CHAIN, "getblockchaininfo", &[], 0, ALL),
    method(CHAIN, "getblockcount", &[], 0, ALL),
    method(CHAIN, "getblockhash", &["height"], 1, ALL),
    method(CHAIN, "getblockheader", &["blockhash", "verbose"], 1, ALL),
    method(CHAIN, "getchaintips", &[], 0, ALL),
    method(CHAIN, "getdifficulty", &[], 0, ALL),
    method(CHAIN, "getmempoolentry", &["txid"], 1, ALL),
    method(CHAIN, "getmempoolinfo", &[], 0, ALL),
    method(CHAIN, "getrawmempool", &["verbose", "mempool_sequence"], 0, ALL),
    method(CHAIN, "getsidechaininfo", &[], 0, LIQUID),
    method(CHAIN, "gettxout", &["txid", "n", "include_mempool"], 2, ALL),
    method(CHAIN, "gettxoutsetinfo", &["hash_type"], 0, ALL),
    method("Control", "help", &["command"], 0, ALL),
    method("Control", "uptime", &[], 0, ALL),
    method("Dash", "getgovernanceinfo", &[], 0, DASH),
    method("Dash", "gobject", &["command", "argument", "filter"], 1, DASH),
    method("Dash", "masternode", &["command", "mode", "filter"], 1, DASH),
    method("Dash", "masternodelist", &["mode", "filter"], 0, DASH),
    method("Dash", "mnsync", &["mode"], 1, DASH),
    method("Dash", "quorum", &["command", "count"], 1, DASH),
    method("Dash", "spork", &["command"], 0, DASH),
    method("Mining", "getmininginfo", &[], 0, ALL),
    method("Mining", "getnetworkhashps", &["nblocks", "height"], 0, ALL),
    method("Network", "getconnectioncount", &[], 0, ALL),
    method("Network", "getnettotals", &[], 0, ALL),
    method("Network", "getnetworkinfo", &[], 0, ALL),
    method("Network", "getpeerinfo", &[], 0, ALL),
    method("Network", "ping", &[], 0, ALL),
    method("Rawtransactions", "decoderawtransaction", &["hexstring", "iswitness"], 1, ALL),
    method("Rawtransactions", "decodescript", &["hexstring"], 1, ALL),
    method("Rawtransactions", "getrawtransaction", &["txid", "verbose", "blockhash"], 1, ALL),
    method("Rawtransactions", "sendrawtransaction", &["hexstring", "maxfeerate", "maxburnamount"], 1, ALL),
    method("Rawtransactions", "testmempoolaccept", &["rawtxs", "maxfeerate"], 1, ACCEPT),
    method("Util", "dumpassetlabels", &[], 0, LIQUID),
    method("Util", "estimatefee", &[], 0, &[Kind::Bch]),
    method("Util", "estimatefee", &["nblocks"], 1, &[Kind::Doge]),
    method("Util", "estimatesmartfee", &["conf_target", "estimate_mode"], 1, SMART),
    method("Util", "getindexinfo", &["index_name"], 0, INDEXED),
    method("Util", "validateaddress", &["address"], 1, ALL),
    method("Zmq", "getzmqnotifications", &[], 0, ALL),
    method(CHAIN, "getmempoolancestors", &["txid", "verbose"], 1, ALL),
    method(CHAIN, "getmempooldescendants", &["txid", "verbose"], 1, ALL),
];

/// Returns the method with a name, if the daemon has it.
pub(crate) fn find(kind: Kind, name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name && (method.on.is_empty() || method.on.contains(&kind)))
}

/// Returns the answer to `help` without a parameter.
pub(crate) fn index(kind: Kind) -> String {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for method in METHODS.iter().filter(|method| method.on.is_empty() || method.on.contains(&kind)) {
        match groups.iter_mut().find(|(group, _)| *group == method.group) {
            Some((_, lines)) => lines.push(method.usage()),
            None => groups.push((method.group, vec![method.usage()])),
        }
    }
    let text = groups.into_iter().map(|(group, mut lines)| {
        lines.sort_unstable();
        format!("== {group} ==\n{}", lines.join("\n"))
    });
    text.collect::<Vec<_>>().join("\n\n")
}

impl Method {
    /// Returns the usage line: the name and its parameters, optional ones in brackets.
    pub(crate) fn usage(&self) -> String {
        let (must, may) = self.params.split_at(self.required);
        let mut words = vec![self.name.to_owned()];
        words.extend(must.iter().map(|name| (*name).to_owned()));
        if !may.is_empty() {
            words.push(format!("( {} )", may.join(" ")));
        }
        words.join(" ")
    }

    /// Reads the parameters, by position or by name, into their order.
    pub(crate) fn take(&self, params: Value) -> Result<Vec<Value>, Fault> {
        let list = match params {
            Value::Null => Vec::new(),
            Value::Array(list) => list,
            Value::Object(members) => {
                let mut list = vec![Value::Null; self.params.len()];
                for (name, value) in members {
                    let Some(place) = self.params.iter().position(|known| *known == name) else {
                        return Err(Fault::new(-8, format!("Unknown named parameter {name}")));
                    };
                    list[place] = value;
                }
                list.truncate(list.iter().rposition(|value| !value.is_null()).map_or(0, |last| last + 1));
                list
            }
            _ => return Err(Fault::new(-32600, "Params must be an array or object")),
        };
        if list.len() > self.params.len() || list.len() < self.required {
            return Err(Fault::new(-1, format!("{}\n", self.usage())));
        }
        Ok(list)
    }
}
