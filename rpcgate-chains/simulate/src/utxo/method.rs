//! The methods of a UTXO daemon.

use super::UtxoNode;
use super::accept::Reject;
use super::catalog;
use super::coin::{Hash, Kind};
use super::pool::Waiting;
use super::script::{Form, asm};
use super::show::{Detail, difficulty};
use super::tx::{Tx, parse_hash, shown};
use crate::envelope::Fault;
use crate::json::{Json, object};
use rpcgate_core::clock::Time;
use serde_json::Value;

impl UtxoNode {
    pub(super) fn call(&mut self, name: &str, params: Value, now: Time) -> Result<Json, Fault> {
        let kind = self.chain.state.coin.kind;
        let Some(method) = catalog::find(kind, name) else {
            return Err(Fault::new(-32601, "Method not found"));
        };
        let args = Args { kind, list: method.take(params)? };
        let head = self.chain.head;
        match method.name {
            "getblockcount" => Ok(head.into()),
            "getbestblockhash" => Ok(shown(&self.chain.hash(head)).into()),
            "getblockhash" => {
                let height = args.integer(0)?.unwrap_or(-1);
                match u64::try_from(height) {
                    Ok(height) if height <= head => Ok(shown(&self.chain.hash(height)).into()),
                    _ => Err(Fault::new(-8, "Block height out of range")),
                }
            }
            "getblockheader" => {
                let block = self.block(&args, 0)?;
                if args.verbosity(1, 1)? == 0 {
                    let mut bytes = block.header.clone();
                    bytes.extend(self.chain.header_tail(&block));
                    return Ok(hex::encode(bytes).into());
                }
                Ok(self.chain.header_json(&block))
            }
            "getblock" => {
                let verbosity = args.verbosity(1, 1)?;
                let block = self.block(&args, 0)?;
                if verbosity <= 0 {
                    return Ok(hex::encode(self.chain.block_bytes(&block)).into());
                }
                Ok(self.chain.block_json(&block, verbosity))
            }
            "getchaintips" => Ok(vec![object! {
                "height": head, "hash": shown(&self.chain.hash(head)), "branchlen": 0u32, "status": "active",
            }]
            .into()),
            "getdifficulty" => Ok(Json::float(difficulty(self.chain.state.coin.bits))),
            "getrawmempool" => Ok(self.mempool(&args)),
            "getmempoolentry" => {
                let txid = args.hash(0, "txid")?;
                self.entry(&txid).ok_or_else(|| Fault::new(-5, "Transaction not in mempool"))
            }
            "getmempoolancestors" | "getmempooldescendants" => {
                self.family(&args, method.name.ends_with("ancestors"))
            }
            "gettxout" => self.tx_out(&args),
            "getrawtransaction" => self.raw_transaction(&args),
            "decoderawtransaction" => {
                let tx = args.tx(0).ok_or_else(|| Fault::new(-22, "TX decode failed"))?;
                Ok(self.chain.tx_json(&tx, Detail::default()))
            }
            "decodescript" => {
                let text = args.text(0)?;
                let script = hex::decode(text).map_err(|_| {
                    Fault::new(-8, format!("argument must be hexadecimal string (not '{text}')"))
                })?;
                let mut out = self.chain.script_json(&script);
                out.set("asm", asm(&script, false));
                Ok(out)
            }
            "sendrawtransaction" => self.send(&args, now),
            "testmempoolaccept" => self.test_accept(&args),
            "estimatefee" => Ok(Json::amount(self.chain.state.coin.fees.1)),
            "estimatesmartfee" => {
                let target = args.integer(0)?.unwrap_or(0);
                if !(1..=1_008).contains(&target) {
                    return Err(Fault::new(-8, "Invalid conf_target, must be between 1 and 1008"));
                }
                Ok(object! { "feerate": Json::amount(self.chain.state.coin.fees.1), "blocks": target.max(2) })
            }
            "validateaddress" => Ok(self.validate_address(args.text(0)?)),
            "help" => match args.list.first() {
                None | Some(Value::Null) => Ok(catalog::index(kind).into()),
                Some(_) => {
                    let text = args.text(0)?;
                    let known = catalog::find(kind, text).map(|method| format!("{}\n", method.usage()));
                    Ok(known.unwrap_or_else(|| format!("help: unknown command: {text}\n")).into())
                }
            },
            "uptime" => Ok(now.since(self.since.unwrap_or(now)).as_secs().into()),
            "ping" => Ok(Json::Null),
            "getzmqnotifications" => Ok(Vec::<Json>::new().into()),
            "masternode" | "masternodelist" | "gobject" | "mnsync" | "quorum" | "spork"
            | "getgovernanceinfo" | "getbestchainlock" => self.dash(method.name, &args, now),
            other => self.info(other, now),
        }
    }

    fn block(&mut self, args: &Args, index: usize) -> Result<super::chain::Block, Fault> {
        let hash = args.hash(index, "blockhash")?;
        let height = self.chain.find_block(&hash).ok_or_else(|| Fault::new(-5, "Block not found"))?;
        Ok(self.chain.block(height))
    }

    fn entry(&self, txid: &Hash) -> Option<Json> {
        let chain = &self.chain;
        let kind = self.chain.state.coin.kind;
        let waiting = chain.state.pool.find(txid)?;
        let tx = &waiting.tx;
        let fee = waiting.fee;
        let amount = Json::amount(fee);
        let parents =
            chain.state.pool.iter().filter(|other| tx.inputs.iter().any(|input| input.txid == other.txid));
        let children =
            chain.state.pool.iter().filter(|other| other.tx.inputs.iter().any(|input| input.txid == *txid));
        let names = |list: Vec<&Waiting>| list.iter().map(|waiting| shown(&waiting.txid)).collect::<Vec<_>>();
        let parents = names(parents.collect());
        let children = names(children.collect());
        let size = chain.size(tx);
        let mut out = object! {
            "fees": object! { "base": amount.clone(), "modified": amount.clone(), "ancestor": amount.clone(), "descendant": amount.clone() },
        };
        out.put(if kind.segwit() { "vsize" } else { "size" }, size);
        if kind.segwit() {
            out.put("weight", tx.weight(kind));
        }
        if kind != Kind::Btc {
            out.put("fee", amount.clone());
            out.put("modifiedfee", amount);
        }
        out.put("time", waiting.since.0);
        out.put("height", waiting.since.1);
        out.put("descendantcount", 1 + children.len());
        out.put("descendantsize", size);
        out.put("ancestorcount", 1 + parents.len());
        out.put("ancestorsize", size);
        if kind != Kind::Btc {
            out.put("descendantfees", fee);
            out.put("ancestorfees", fee);
        }
        if kind == Kind::Ltc {
            for name in ["mwebweight", "descendantmwebweight", "ancestormwebweight"] {
                out.put(name, 0u32);
            }
        }
        if kind.segwit() {
            out.put("wtxid", shown(&tx.hash(kind)));
            out.put("bip125-replaceable", tx.inputs.iter().any(|input| input.sequence < 0xffff_fffe));
        }
        out.put("depends", parents);
        out.put("spentby", children);
        out.put("unbroadcast", false);
        if kind == Kind::Dash {
            out.put("instantlock", true);
        }
        Some(out)
    }

    fn mempool(&self, args: &Args) -> Json {
        let ids: Vec<Hash> = self.chain.state.pool.iter().map(|waiting| waiting.txid).collect();
        if args.list.first() == Some(&Value::Bool(true)) {
            let members = ids.iter().filter_map(|txid| Some((shown(txid).into(), self.entry(txid)?)));
            return Json::Object(members.collect());
        }
        let ids: Vec<String> = ids.iter().map(shown).collect();
        if args.list.get(1) == Some(&Value::Bool(true)) {
            return object! { "txids": ids, "mempool_sequence": self.chain.head };
        }
        ids.into()
    }

    /// Returns the ancestors or descendants of a transaction in the pool.
    fn family(&self, args: &Args, up: bool) -> Result<Json, Fault> {
        let txid = args.hash(0, "parameter 1")?;
        let Some(waiting) = self.chain.state.pool.find(&txid) else {
            return Err(Fault::new(-5, "Transaction not in mempool"));
        };
        let mut open = vec![waiting];
        let mut found = Vec::<Hash>::new();
        while let Some(waiting) = open.pop() {
            for other in self.chain.state.pool.iter() {
                let (child, parent) = if up { (waiting, other) } else { (other, waiting) };
                let related = child.tx.inputs.iter().any(|input| input.txid == parent.txid);
                if related && !found.contains(&other.txid) {
                    found.push(other.txid);
                    open.push(other);
                }
            }
        }
        if args.list.get(1) == Some(&Value::Bool(true)) {
            let members = found.iter().filter_map(|txid| Some((shown(txid).into(), self.entry(txid)?)));
            return Ok(Json::Object(members.collect()));
        }
        Ok(found.iter().map(shown).collect::<Vec<_>>().into())
    }

    fn tx_out(&mut self, args: &Args) -> Result<Json, Fault> {
        let txid = args.hash(0, "txid")?;
        let Ok(vout) = u32::try_from(args.integer(1)?.unwrap_or(-1)) else {
            return Ok(Json::Null);
        };
        let with_pool = args.list.get(2) != Some(&Value::Bool(false));
        let Some(coins) = self.chain.unspent(&txid, vout, with_pool) else {
            return Ok(Json::Null);
        };
        let head = self.chain.head;
        let mut out = object! {
            "bestblock": shown(&self.chain.hash(head)),
            "confirmations": coins.height.map_or(0, |height| head + 1 - height),
        };
        self.chain.put_value(&mut out, &coins.output);
        out.put("scriptPubKey", self.chain.script_json(&coins.output.script));
        out.put("coinbase", coins.coinbase);
        Ok(out)
    }

    fn raw_transaction(&mut self, args: &Args) -> Result<Json, Fault> {
        let kind = self.chain.state.coin.kind;
        let txid = args.hash(0, "parameter 1")?;
        let verbosity = args.verbosity(1, 0)?;
        let named = args.list.get(2).is_some_and(|value| !value.is_null());
        let missing =
            |why: &str| Fault::new(-5, format!("{why}. Use gettransaction for wallet transactions."));
        let (tx, place) = if named {
            let hash = args.hash(2, "parameter 3")?;
            let height =
                self.chain.find_block(&hash).ok_or_else(|| Fault::new(-5, "Block hash not found"))?;
            let tx = self.chain.transactions(height).into_iter().find(|tx| tx.txid(kind) == txid);
            (tx.ok_or_else(|| missing("No such transaction found in the provided block"))?, Some(height))
        } else if let Some(waiting) = self.chain.state.pool.find(&txid) {
            (waiting.tx.clone(), None)
        } else {
            let place = self.chain.find_tx(&txid);
            let tx = place.and_then(|(height, index)| self.chain.tx_at(height, index));
            let tx = tx.ok_or_else(|| missing("No such mempool or blockchain transaction"))?;
            (tx, place.map(|(height, _)| height))
        };
        if place == Some(0) {
            let why = "The genesis block coinbase is not considered an ordinary transaction and cannot be retrieved";
            return Err(Fault::new(-5, why));
        }
        if verbosity <= 0 {
            return Ok(hex::encode(tx.encode(kind, true)).into());
        }
        let rich = verbosity > 1;
        let mut out = self.chain.tx_json(&tx, Detail { hex: true, fee: rich, prevout: rich });
        if named {
            out.put("in_active_chain", true);
        }
        self.chain.put_place(&mut out, place);
        Ok(out)
    }

    fn send(&mut self, args: &Args, now: Time) -> Result<Json, Fault> {
        let kind = self.chain.state.coin.kind;
        args.text(0)?;
        let failed = match kind {
            Kind::Doge => "TX decode failed",
            _ => "TX decode failed. Make sure the tx has at least one input.",
        };
        let tx = args.tx(0).ok_or_else(|| Fault::new(-22, failed))?;
        let txid = tx.txid(kind);
        match self.chain.check(&tx) {
            Ok(fee) => {
                let limit = args.fee_limit(1)?;
                if fee > limit.saturating_mul(self.chain.size(&tx) as u64) / 1_000 {
                    let why = "Fee exceeds maximum configured by user (e.g. -maxtxfee, maxfeerate)";
                    return Err(Fault::new(-25, why));
                }
                let moment = self.chain.moment(now);
                let raw = tx.encode(kind, true);
                let since = (moment.secs(), self.chain.head);
                if self.chain.accept(raw, now).is_some() {
                    self.chain.state.pool.push(Waiting { tx, txid, fee, since });
                }
                Ok(shown(&txid).into())
            }
            // A second submission of a transaction in the pool only announces it again.
            Err(Reject { reason: "txn-already-in-mempool", .. }) => Ok(shown(&txid).into()),
            Err(Reject { reason: "txn-already-known", .. }) => {
                Err(Fault::new(-27, "Transaction already in block chain"))
            }
            Err(Reject { reason: "missing-inputs", .. }) => {
                let why =
                    if kind == Kind::Doge { "Missing inputs" } else { "bad-txns-inputs-missingorspent" };
                Err(Fault::new(-25, why))
            }
            Err(reject) => Err(Fault::new(-26, format!("{}{}", reject.reason, reject.detail))),
        }
    }

    fn test_accept(&mut self, args: &Args) -> Result<Json, Fault> {
        let kind = self.chain.state.coin.kind;
        let Some(list) = args.list.first().and_then(Value::as_array) else {
            return Err(args.wrong_type("array", args.list.first()));
        };
        if list.is_empty() || list.len() > 25 {
            return Err(Fault::new(-8, "Array must contain between 1 and 25 transactions."));
        }
        let mut out = Vec::new();
        for text in list {
            let tx = text.as_str().and_then(|text| Tx::decode(kind, &hex::decode(text).ok()?));
            let text = text.as_str().unwrap_or("");
            let why = || format!("TX decode failed: {text} Make sure the tx has at least one input.");
            let tx = tx.ok_or_else(|| Fault::new(-22, why()))?;
            let mut result = object! { "txid": shown(&tx.txid(kind)) };
            if matches!(kind, Kind::Btc | Kind::Liquid) {
                result.put("wtxid", shown(&tx.hash(kind)));
            }
            match self.chain.check(&tx) {
                Ok(fee) => {
                    result.put("allowed", true);
                    result.put(if kind.segwit() { "vsize" } else { "size" }, self.chain.size(&tx));
                    result.put("fees", object! { "base": Json::amount(fee) });
                }
                Err(reject) => {
                    result.put("allowed", false);
                    result.put("reject-reason", reject.reason);
                }
            }
            out.push(result);
        }
        Ok(out.into())
    }

    fn validate_address(&self, text: &str) -> Json {
        let coin = self.chain.state.coin;
        let form = Form::from_address(coin, text);
        let script = form.as_ref().and_then(Form::script);
        let (Some(form), Some(script)) = (form, script) else {
            let mut out = object! { "isvalid": false };
            if coin.kind == Kind::Btc {
                out.put("error_locations", Vec::<Json>::new());
                out.put("error", "Invalid or unsupported Segwit (Bech32) or Base58 encoding.");
            }
            return out;
        };
        let long = matches!(&form, Form::Witness(_, program) if program.len() == 32);
        let mut out = object! {
            "isvalid": true,
            "address": form.address(coin),
            "scriptPubKey": hex::encode(&script),
            "isscript": long || matches!(form, Form::ScriptHash(_)),
        };
        if coin.kind.segwit() {
            out.put("iswitness", matches!(form, Form::Witness(..)));
            if let Form::Witness(version, program) = &form {
                out.put("witness_version", *version);
                out.put("witness_program", hex::encode(program));
            }
        }
        if coin.kind == Kind::Ltc {
            out.put("ismweb", false);
        }
        if coin.kind == Kind::Liquid {
            out.put("confidential_key", "");
            out.put("unconfidential", form.address(coin));
            out.put("confidential", "");
        }
        out
    }
}

#[derive(Debug)]
pub(crate) struct Args {
    kind: Kind,
    pub(crate) list: Vec<Value>,
}

impl Args {
    /// Returns the error for a value of the wrong type: newer daemons name both types.
    fn wrong_type(&self, wanted: &str, value: Option<&Value>) -> Fault {
        if !self.kind.single_address() {
            let article = if wanted == "integer" || wanted == "array" { "an" } else { "a" };
            return Fault::new(-1, format!("JSON value is not {article} {wanted} as expected"));
        }
        let found = match value {
            None | Some(Value::Null) => "null",
            Some(Value::Bool(_)) => "bool",
            Some(Value::Number(_)) => "number",
            Some(Value::String(_)) => "string",
            Some(Value::Array(_)) => "array",
            Some(Value::Object(_)) => "object",
        };
        let wanted = if wanted == "integer" { "number" } else { wanted };
        Fault::new(-3, format!("JSON value of type {found} is not of expected type {wanted}"))
    }

    pub(crate) fn text(&self, index: usize) -> Result<&str, Fault> {
        let value = self.list.get(index);
        value.and_then(Value::as_str).ok_or_else(|| self.wrong_type("string", value))
    }

    /// Reads an integer; `None` if omitted.
    fn integer(&self, index: usize) -> Result<Option<i64>, Fault> {
        match self.list.get(index) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_i64().map(Some).ok_or_else(|| self.wrong_type("integer", Some(value))),
        }
    }

    /// Reads the verbosity: a number, or true and false for 1 and 0.
    fn verbosity(&self, index: usize, otherwise: i64) -> Result<i64, Fault> {
        match self.list.get(index) {
            Some(Value::Bool(verbose)) => Ok((*verbose).into()),
            _ => Ok(self.integer(index)?.unwrap_or(otherwise)),
        }
    }

    fn hash(&self, index: usize, name: &str) -> Result<Hash, Fault> {
        let text = self.text(index)?;
        if text.len() != 64 {
            return Err(Fault::new(
                -8,
                format!("{name} must be of length 64 (not {}, for '{text}')", text.len()),
            ));
        }
        parse_hash(text)
            .ok_or_else(|| Fault::new(-8, format!("{name} must be hexadecimal string (not '{text}')")))
    }

    /// Reads a transaction in hex.
    fn tx(&self, index: usize) -> Option<Tx> {
        Tx::decode(self.kind, &hex::decode(self.list.get(index)?.as_str()?).ok()?)
    }

    /// Returns the highest fee for 1,000 bytes in 10^-8 coins; 0 accepts any fee, and the default is a tenth of a coin.
    fn fee_limit(&self, index: usize) -> Result<u64, Fault> {
        const DEFAULT: u64 = 10_000_000;
        let rate = match self.list.get(index) {
            None | Some(Value::Null) => {
                return Ok(if self.kind == Kind::Doge { u64::MAX } else { DEFAULT });
            }
            Some(Value::Bool(high)) => return Ok(if *high { u64::MAX } else { DEFAULT }),
            Some(Value::String(text)) => text.parse().ok(),
            Some(value) => value.as_f64(),
        };
        match rate {
            Some(0.0) => Ok(u64::MAX),
            Some(rate) if rate > 0.0 => Ok((rate * 1e8).round() as u64),
            Some(_) => Err(Fault::new(-3, "Amount out of range")),
            None => Err(Fault::new(-3, "Invalid amount")),
        }
    }
}
