//! The JSON of transactions and blocks.

use super::chain::{Block, Chain};
use super::coin::{Hash, Kind};
use super::script::{Form, asm, described};
use super::tx::{Output, Tx, shown};
use crate::json::{Json, object};

/// The optional parts of a transaction's JSON.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Detail {
    pub(crate) hex: bool,
    pub(crate) fee: bool,
    /// The outputs that it spends.
    pub(crate) prevout: bool,
}

/// Returns the difficulty of a block, as a multiple of the easiest Bitcoin block.
pub(crate) fn difficulty(bits: u32) -> f64 {
    let exponent = (bits >> 24) as i32;
    let mantissa = f64::from(bits & 0x00ff_ffff);
    65_535.0 / mantissa * 256f64.powi(29 - exponent)
}

impl Chain {
    /// Returns the expected number of hashes up to a block, in 64 digits of hex.
    pub(crate) fn chainwork(&self, height: u64) -> String {
        let each = (difficulty(self.state.coin.bits) * 4_295_032_833.0) as u128;
        format!("{:064x}", each.max(1).saturating_mul(u128::from(height) + 1))
    }

    pub(crate) fn script_json(&self, script: &[u8]) -> Json {
        let form = Form::of(self.state.coin.kind, script);
        let address = form.address(self.state.coin);
        let mut out = object! { "asm": asm(script, false) };
        if matches!(self.state.coin.kind, Kind::Btc | Kind::Liquid) && form != Form::Fee {
            let descriptor = match &address {
                Some(address) => format!("addr({address})"),
                None => format!("raw({})", hex::encode(script)),
            };
            out.put("desc", described(&descriptor));
        }
        out.put("hex", hex::encode(script));
        match address {
            Some(address) if self.state.coin.kind.single_address() => out.put("address", address),
            Some(address) => {
                out.put("reqSigs", 1u32);
                out.put("type", form.name());
                out.put("addresses", vec![address]);
                return out;
            }
            None => {}
        }
        out.put("type", form.name());
        out
    }

    fn output_json(&self, n: usize, output: &Output) -> Json {
        let mut out = match self.state.coin.kind {
            Kind::Ltc => object! { "ismweb": false },
            _ => object! {},
        };
        self.put_value(&mut out, output);
        if self.state.coin.kind == Kind::Dash {
            out.put("valueSat", output.value);
        }
        out.put("n", n);
        out.put("scriptPubKey", self.script_json(&output.script));
        out
    }

    /// Adds the value of an output: on Liquid, of an asset or its commitment.
    pub(crate) fn put_value(&self, out: &mut Json, output: &Output) {
        let Some(sealed) = &output.sealed else {
            return out.put("value", Json::amount(output.value));
        };
        match sealed.value.first() {
            Some(1) => out.put("value", Json::amount(output.value)),
            _ => out.put("valuecommitment", hex::encode(&sealed.value)),
        }
        match sealed.asset.split_first() {
            Some((1, id)) => out.put("asset", shown(&id.try_into().unwrap_or_default())),
            _ => out.put("assetcommitment", hex::encode(&sealed.asset)),
        }
        let nonce = if sealed.nonce.len() == 1 { String::new() } else { hex::encode(&sealed.nonce) };
        out.put("commitmentnonce_fully_valid", nonce.starts_with("02") || nonce.starts_with("03"));
        out.put("commitmentnonce", nonce);
    }

    pub(crate) fn tx_json(&mut self, tx: &Tx, detail: Detail) -> Json {
        let kind = self.state.coin.kind;
        let raw = tx.encode(kind, true);
        let mut out = object! { "txid": shown(&tx.txid(kind)) };
        if kind == Kind::Dash {
            out.put("version", tx.version & 0xffff);
            out.put("type", tx.version >> 16);
            out.put("size", raw.len());
        } else {
            out.put("hash", shown(&tx.hash(kind)));
            if kind == Kind::Liquid {
                out.put("wtxid", shown(&tx.hash(kind)));
                out.put("withash", shown(&self.seed.bytes::<32>("withash", raw.len() as u64)));
            }
            out.put("version", tx.version);
            out.put("size", raw.len());
        }
        if kind.segwit() {
            out.put("vsize", self.size(tx));
            out.put("weight", tx.weight(kind));
        }
        out.put("locktime", tx.locktime);
        let spent: Vec<_> = if tx.is_coinbase() || !(detail.fee || detail.prevout) {
            Vec::new()
        } else {
            tx.inputs.iter().map(|input| self.output(&input.txid, input.index(kind))).collect()
        };
        let mut inputs = Vec::new();
        for (n, input) in tx.inputs.iter().enumerate() {
            let mut vin = if kind == Kind::Ltc {
                object! { "ismweb": false }
            } else {
                object! {}
            };
            if tx.is_coinbase() {
                vin.put("coinbase", hex::encode(&input.script));
            } else {
                vin.put("txid", shown(&input.txid));
                vin.put("vout", input.index(kind));
                vin.put(
                    "scriptSig",
                    object! { "asm": asm(&input.script, true), "hex": hex::encode(&input.script) },
                );
                if kind == Kind::Liquid {
                    vin.put("is_pegin", input.vout & (1 << 30) != 0);
                }
            }
            if !input.witness.is_empty() {
                vin.put("txinwitness", input.witness.iter().map(hex::encode).collect::<Vec<_>>());
            }
            if let Some(Some(coins)) = spent.get(n).filter(|_| detail.prevout) {
                let mut prevout =
                    object! { "generated": coins.coinbase, "height": coins.height.unwrap_or(self.head) };
                self.put_value(&mut prevout, &coins.output);
                prevout.put("scriptPubKey", self.script_json(&coins.output.script));
                vin.put("prevout", prevout);
            }
            vin.put("sequence", input.sequence);
            inputs.push(vin);
        }
        out.put("vin", inputs);
        let outputs: Vec<Json> =
            tx.outputs.iter().enumerate().map(|(n, output)| self.output_json(n, output)).collect();
        out.put("vout", outputs);
        let value: u64 = spent.iter().flatten().fold(0, |sum, coins| coins.output.value.saturating_add(sum));
        let paid: u64 = tx.outputs.iter().fold(0, |sum, output| output.value.saturating_add(sum));
        if detail.fee && !spent.is_empty() && kind != Kind::Liquid {
            out.put("fee", Json::amount(value.saturating_sub(paid)));
        }
        if kind == Kind::Dash && !tx.tail.is_empty() {
            out.put("extraPayloadSize", tx.tail.len());
            out.put("extraPayload", hex::encode(&tx.tail));
            if tx.is_coinbase() {
                out.put("cbTx", coinbase_payload(&tx.tail));
            }
        }
        if detail.hex {
            out.put("hex", hex::encode(raw));
        }
        out
    }

    /// Adds the members about a transaction's block, which are shown together with its bytes.
    pub(crate) fn put_place(&mut self, out: &mut Json, place: Option<u64>) {
        let dash = self.state.coin.kind == Kind::Dash;
        if let Some(height) = place {
            out.put("blockhash", shown(&self.hash(height)));
            if dash {
                out.put("height", height);
            }
            out.put("confirmations", self.head - height + 1);
            out.put("time", self.secs(height));
            out.put("blocktime", self.secs(height));
        }
        if dash {
            let locked = place.is_some_and(|height| self.is_locked(height));
            out.put("instantlock", true);
            out.put("instantlock_internal", !locked);
            out.put("chainlock", locked);
        }
    }

    /// Reports whether Dash's masternodes have locked a block; the newest block is not locked yet.
    pub(crate) fn is_locked(&self, height: u64) -> bool {
        height < self.head
    }

    pub(crate) fn header_json(&mut self, block: &Block) -> Json {
        let kind = self.state.coin.kind;
        let mut out = object! {
            "hash": shown(&block.hash),
            "confirmations": self.head - block.height + 1,
            "height": block.height,
            "version": self.state.coin.block_version,
            "versionHex": format!("{:08x}", self.state.coin.block_version),
            "merkleroot": shown(&block.merkle_root),
            "time": self.secs(block.height),
            "mediantime": self.median_time(block.height),
        };
        if kind == Kind::Liquid {
            let challenge = self.challenge();
            let solution = self.solution(block.height);
            out.put("signblock_witness_asm", asm(&solution, false));
            out.put("signblock_witness_hex", hex::encode(&solution));
            out.put("signblock_challenge", hex::encode(&challenge));
        } else {
            out.put("nonce", block.nonce);
            out.put("bits", format!("{:08x}", self.state.coin.bits));
            out.put("difficulty", Json::float(difficulty(self.state.coin.bits)));
            out.put("chainwork", self.chainwork(block.height));
        }
        out.put("nTx", block.txs.len());
        if block.height > 0 {
            out.put("previousblockhash", shown(&block.previous));
        }
        if block.height < self.head {
            out.put("nextblockhash", shown(&self.hash(block.height + 1)));
        }
        match kind {
            Kind::Dash => out.put("chainlock", self.is_locked(block.height)),
            Kind::Doge => {
                let (tx, parent) = self.merged(block);
                let tx = self.tx_json(&tx, Detail { hex: true, ..Detail::default() });
                out.put(
                    "auxpow",
                    object! {
                        "tx": tx, "index": 0u32, "chainindex": 0u32, "merklebranch": Vec::<Json>::new(),
                        "chainmerklebranch": Vec::<Json>::new(), "parentblock": hex::encode(parent),
                    },
                );
            }
            _ => {}
        }
        out
    }

    /// Returns a block, with the ids of its transactions or (from verbosity 2 on) the transactions.
    pub(crate) fn block_json(&mut self, block: &Block, verbosity: i64) -> Json {
        let kind = self.state.coin.kind;
        let mut out = self.header_json(block);
        let size = self.block_bytes(block).len();
        let stripped: usize = block.txs.iter().map(|tx| tx.encode(kind, false).len()).sum();
        let whole: usize = block.txs.iter().map(|tx| tx.encode(kind, true).len()).sum();
        let stripped = size - whole + stripped;
        out.put("size", size);
        if kind.segwit() {
            out.put("strippedsize", stripped);
            out.put("weight", 3 * stripped + size);
        }
        if kind == Kind::Ltc {
            out.put("mweb", self.mweb_json(block.height));
        }
        if kind == Kind::Dash {
            out.put("cbTx", coinbase_payload(&block.txs[0].tail));
        }
        let mut list = Vec::new();
        for tx in &block.txs {
            if verbosity < 2 {
                list.push(Json::from(shown(&tx.txid(kind))));
                continue;
            }
            let mut tx = self.tx_json(
                tx,
                Detail {
                    hex: true,
                    fee: kind.tells_spent_outputs(),
                    prevout: kind.tells_spent_outputs() && verbosity > 2,
                },
            );
            if kind == Kind::Dash {
                tx.put("instantlock", true);
                tx.put("instantlock_internal", false);
                tx.put("chainlock", self.is_locked(block.height));
            }
            list.push(tx);
        }
        out.put("tx", list);
        out
    }

    /// Returns the extension block of a Litecoin block, which has no transactions here.
    fn mweb_json(&self, height: u64) -> Json {
        let hash = |tag, n| shown(&self.seed.bytes::<32>(tag, n));
        object! {
            "hash": hash("mweb", height),
            "height": height,
            "kernel_offset": hash("mweb kernel offset", 0),
            "stealth_offset": hash("mweb stealth offset", 0),
            "num_kernels": 0u32,
            "num_txos": 0u32,
            "kernel_root": hash("mweb kernels", 0),
            "output_root": hash("mweb outputs", 0),
            "leaf_root": hash("mweb leaves", 0),
            "inputs": Vec::<Json>::new(),
            "outputs": Vec::<Json>::new(),
            "kernels": Vec::<Json>::new(),
        }
    }
}

/// Decodes Dash's payload of a coinbase (DIP 4).
fn coinbase_payload(payload: &[u8]) -> Json {
    let hash = |from: usize| -> Hash {
        payload.get(from..from + 32).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default()
    };
    let height = payload.get(2..6).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes);
    object! {
        "version": 2u32, "height": height, "merkleRootMNList": shown(&hash(6)), "merkleRootQuorums": shown(&hash(38)),
    }
}
