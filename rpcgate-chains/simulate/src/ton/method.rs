//! The methods of TonCenter.

use super::address::{Address, base64, from_base64};
use super::cell::{Builder, Cell};
use super::chain::{Chain, Entry};
use super::params::Params;
use super::{Failure, TonNode, config};
use crate::json::{Json, object};
use crate::rest::MethodNames;
use rpcgate_core::clock::Time;
use serde_json::Value;

/// The shard that covers a whole workchain.
const WHOLE: i64 = i64::MIN;

pub(super) const METHODS: MethodNames = MethodNames {
    read: &[
        "getAddressBalance",
        "getAddressInformation",
        "getAddressState",
        "getBlockHeader",
        "getBlockTransactions",
        "getBlockTransactionsExt",
        "getConfigAll",
        "getConfigParam",
        "getConsensusBlock",
        "getMasterchainInfo",
        "getShardBlockProof",
        "getTransactions",
        "lookupBlock",
        "packAddress",
        "shards",
        "unpackAddress",
    ],
    posted: &["estimateFee", "runGetMethod", "sendBoc", "sendBocReturnHash"],
};

fn server(words: impl std::fmt::Display) -> Failure {
    Failure::new(500, format!("LITE_SERVER_UNKNOWN: {words}"))
}

impl TonNode {
    pub(super) fn call(&mut self, method: &str, params: &Params, now: Time) -> Result<Json, Failure> {
        let chain = &self.chain;
        let extra = || format!("{}.{:06}:0:0", now.secs(), now.micros() % 1_000_000);
        match method {
            "getMasterchainInfo" => Ok(object! {
                "@type": "blocks.masterchainInfo",
                "last": chain.block_id(-1, chain.head),
                "state_root_hash": base64(&chain.seed.bytes::<32>("state root", chain.head)),
                "init": object! {
                    "@type": "ton.blockIdExt", "workchain": -1i64, "shard": "0", "seqno": 0u64,
                    "root_hash": "F6OpKZKqvqeFp6CQmFomXNMfMj2EnaUSOXN+Mh+wVWk=",
                    "file_hash": "XplPz01CXAps5qeSWUtxcyBfdAo5zVb1N979KLSKD24=",
                },
                "@extra": extra(),
            }),
            "getConsensusBlock" => Ok(object! {
                "consensus_block": chain.head, "timestamp": chain.secs(chain.head),
            }),
            "lookupBlock" => {
                let (workchain, height) = self.find_block(params)?;
                Ok(chain.block_id(workchain, height))
            }
            "shards" => {
                let seqno = params.number("seqno")?;
                let height = self.at_height(-1, seqno)?;
                Ok(object! {
                    "@type": "blocks.shards", "shards": vec![chain.block_id(0, height)], "@extra": extra(),
                })
            }
            "getBlockHeader" => {
                let (workchain, height) = self.find_block(params)?;
                Ok(chain.header(workchain, height))
            }
            "getBlockTransactions" | "getBlockTransactionsExt" => {
                self.block_transactions(params, method == "getBlockTransactionsExt", extra())
            }
            "getShardBlockProof" => self.proof(params, extra()),
            "getTransactions" => self.transactions(params),
            "getAddressInformation" => {
                let address = params.address()?;
                Ok(self.information(&address, now, extra()))
            }
            "getAddressBalance" => Ok(chain.balance(&params.address()?).unwrap_or(0).to_string().into()),
            "getAddressState" => {
                let is_active = chain.wallet_state(&params.address()?).is_some();
                Ok(if is_active { "active" } else { "uninitialized" }.into())
            }
            "packAddress" => Ok(params.address()?.friendly().into()),
            "unpackAddress" => Ok(params.address()?.raw().into()),
            "getConfigAll" => Ok(config_info(&config::all(), extra())),
            "getConfigParam" => {
                let number = params.number("config_id")?;
                let cell = config::one(number).ok_or_else(|| server("cannot find config parameter"))?;
                Ok(config_info(&cell, extra()))
            }
            "runGetMethod" => self.run(params, extra()),
            "estimateFee" => {
                params.address()?;
                let body = Cell::of_bag(&bag(params, "body")?).map_err(server)?;
                let size = body.bag().len() as u64;
                Ok(object! {
                    "@type": "query.fees",
                    "source_fees": object! {
                        "@type": "fees", "in_fwd_fee": 400_000 + 1_600 * size, "storage_fee": 77u64,
                        "gas_fee": 3_308u64 * 400, "fwd_fee": 400_000u64,
                    },
                    "destination_fees": Json::Array(Vec::new()),
                    "@extra": extra(),
                })
            }
            _ => {
                let bytes = bag(params, "boc")?;
                let hash = self.chain.submit(&bytes, now).map_err(server)?;
                Ok(if method == "sendBoc" {
                    object! { "@type": "ok", "@extra": extra() }
                } else {
                    object! {
                        "@type": "raw.extMessageInfo", "hash": base64(&hash), "hash_norm": base64(&normal(&bytes, hash)),
                        "@extra": extra(),
                    }
                })
            }
        }
    }

    /// Returns the masterchain height of a block of either chain, if the block exists.
    fn at_height(&self, workchain: i64, seqno: i64) -> Result<u64, Failure> {
        let height = u64::try_from(seqno).ok().and_then(|seqno| Chain::of_seqno(workchain, seqno));
        height.filter(|height| *height <= self.chain.head).ok_or_else(|| {
            let words = format!("cannot find block ({workchain},8000000000000000,{seqno}): seqno not in db");
            Failure::new(500, format!("LITE_SERVER_NOTREADY: {words}"))
        })
    }

    /// Returns the chain and height of the block that the request selects by number, logical time or Unix time.
    fn find_block(&self, params: &Params) -> Result<(i64, u64), Failure> {
        let workchain = params.number("workchain")?;
        let shard = params.number("shard")?;
        if !matches!(workchain, -1 | 0) || shard != WHOLE {
            return Err(server("shard not found in masterchain"));
        }
        if let Some(seqno) = params.maybe_number("seqno")? {
            return Ok((workchain, self.at_height(workchain, seqno)?));
        }
        let height = match (params.maybe_number("lt")?, params.maybe_number("unixtime")?) {
            (Some(lt), _) => Chain::of_lt(lt.max(0).cast_unsigned()),
            (None, Some(secs)) => self.chain.at(secs.max(0).cast_unsigned()),
            (None, None) => return Err(Failure::new(503, "Seqno, LT or unixtime should be defined")),
        };
        if height > self.chain.head {
            return Err(Failure::new(500, "LITE_SERVER_NOTREADY: block is not applied"));
        }
        Ok((workchain, height))
    }

    /// Returns the transactions of a block, by their ids or as a whole. They are ordered by account and logical time,
    /// and `after_hash` and `after_lt` name the last one that the client has.
    fn block_transactions(&self, params: &Params, is_whole: bool, extra: String) -> Result<Json, Failure> {
        let (workchain, height) = self.find_block(params)?;
        let count = params.maybe_number("count")?.unwrap_or(40).clamp(1, 1_024) as usize;
        let mut steps = if workchain == 0 { self.chain.block(height) } else { Vec::new() };
        steps.sort_by_key(|step| (step.account.account, step.lt));
        if let Some(lt) = params.maybe_number("after_lt")? {
            let account = wanted_hash(params.text("after_hash")?)?;
            let last = (account, lt.max(0).cast_unsigned());
            steps.retain(|step| (step.account.account, step.lt) > last);
        }
        let rows = steps.iter().take(count).filter_map(|step| {
            let entry = self.chain.history(&step.account, Some(step.lt), 0, 1).into_iter().next()?;
            if is_whole {
                let mut row = entry.json(in_object);
                row.put("account", step.account.raw());
                return Some(row);
            }
            Some(object! {
                "@type": "blocks.shortTxId", "mode": 135u64, "account": step.account.raw(),
                "lt": step.lt.to_string(), "hash": base64(&entry.hash),
            })
        });
        Ok(object! {
            "@type": if is_whole { "blocks.transactionsExt" } else { "blocks.transactions" },
            "id": self.chain.block_id(workchain, height),
            "req_count": count,
            "incomplete": steps.len() > count,
            "transactions": rows.collect::<Vec<_>>(),
            "@extra": extra,
        })
    }

    fn proof(&self, params: &Params, extra: String) -> Result<Json, Failure> {
        let chain = &self.chain;
        let (workchain, height) = self.find_block(params)?;
        let from = match params.maybe_number("from_seqno")? {
            Some(seqno) => self.at_height(-1, seqno)?,
            None => chain.head,
        };
        if from < height {
            return Err(server("mc block is older than the shard block"));
        }
        let proof = |tag: &str, n: u64| {
            base64(&Builder::default().bytes(&chain.seed.bytes::<32>(tag, n)).done().bag())
        };
        let links = if workchain == -1 {
            Vec::new()
        } else {
            vec![object! {
                "@type": "blocks.shardBlockLink", "id": chain.block_id(workchain, height),
                "proof": proof("shard proof", height),
            }]
        };
        let back = if from == height {
            Vec::new()
        } else {
            vec![object! {
                "@type": "blocks.blockLinkBack", "to_key_block": false, "from": chain.block_id(-1, from),
                "to": chain.block_id(-1, height), "dest_proof": proof("destination", height),
                "proof": proof("link", from), "state_proof": proof("state proof", from),
            }]
        };
        Ok(object! {
            "@type": "blocks.shardBlockProof", "from": chain.block_id(-1, from), "mc_id": chain.block_id(-1, height),
            "links": links, "mc_proof": back, "@extra": extra,
        })
    }

    fn transactions(&self, params: &Params) -> Result<Json, Failure> {
        let address = params.address()?;
        let limit = params.maybe_number("limit")?.unwrap_or(10);
        if !(1..=100).contains(&limit) {
            let what = "ensure this value is greater than 0 and at most 100 (type=value_error.number)";
            return Err(params.wrong("limit", what));
        }
        let to_lt = params.maybe_number("to_lt")?.unwrap_or(0).max(0).cast_unsigned();
        let lt = params.maybe_number("lt")?;
        let hash = params.get("hash").and_then(Value::as_str);
        let lt = lt.map(|lt| lt.max(0).cast_unsigned());
        let (lt, hash) = match (lt, hash) {
            (Some(lt), Some(hash)) => (Some(lt), Some(wanted_hash(hash)?)),
            _ => (None, None),
        };
        let entries = self.chain.history(&address, lt, to_lt, limit as usize);
        if let (Some(lt), Some(hash)) = (lt, hash) {
            let found = self.chain.history(&address, Some(lt), 0, 1);
            if !found.first().is_some_and(|entry| entry.step.lt == lt && entry.hash == hash) {
                return Err(server("cannot locate transaction in block with specified logical time"));
            }
        }
        Ok(entries.iter().map(|entry| entry.json(Json::from)).collect::<Vec<_>>().into())
    }

    fn information(&self, address: &Address, now: Time, extra: String) -> Json {
        let chain = &self.chain;
        let wallet = chain.wallet_state(address);
        let last = chain.history(address, None, 0, 1).into_iter().next();
        // The code of wallets does not run here, so it is shown as a single empty method.
        let code = wallet.map(|_| base64(&Builder::default().number(0xff00, 16).done().bag()));
        object! {
            "@type": "raw.fullAccountState",
            "balance": chain.balance(address).unwrap_or(0).to_string(),
            "extra_currencies": Json::Array(Vec::new()),
            "code": code.unwrap_or_default(),
            "data": wallet.map(|state| base64(&Chain::data(state).bag())).unwrap_or_default(),
            "last_transaction_id": last_id(last.as_ref()),
            "block_id": chain.block_id(-1, chain.head),
            "frozen_hash": "",
            "sync_utime": chain.secs(chain.head).min(now.secs()),
            "@extra": extra,
            "state": if wallet.is_some() { "active" } else { "uninitialized" },
        }
    }

    fn run(&self, params: &Params, extra: String) -> Result<Json, Failure> {
        let address = params.address()?;
        let method = match params.get("method") {
            Some(Value::String(name)) => name.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => {
                return Err(params.text("method").err().unwrap_or_else(|| params.wrong("method", "invalid")));
            }
        };
        if !params.get("stack").is_some_and(Value::is_array) {
            return Err(params.wrong("stack", "value is not a valid list (type=type_error.list)"));
        }
        let number =
            |digits: String| vec![Json::from(vec![Json::from("num"), Json::from(format!("0x{digits}"))])];
        let (code, gas, stack) = match (self.chain.wallet_state(&address), method.as_str()) {
            (None, _) => (-13i64, 0u64, Vec::new()),
            (Some((seqno, _)), "seqno" | "85143") => (0, 549, number(format!("{seqno:x}"))),
            (Some((_, key)), "get_public_key" | "78748") => (0, 614, number(hex::encode(key))),
            (Some(_), "get_subwallet_id" | "81467") => (0, 614, number(format!("{:x}", Chain::wallet_id()))),
            (Some(_), _) => (11, 489, number("0".into())),
        };
        let last = self.chain.history(&address, None, 0, 1).into_iter().next();
        Ok(object! {
            "@type": "smc.runResult",
            "gas_used": gas,
            "stack": stack,
            "exit_code": code,
            "@extra": extra,
            "block_id": self.chain.block_id(-1, self.chain.head),
            "last_transaction_id": last_id(last.as_ref()),
        })
    }
}

fn last_id(last: Option<&Entry>) -> Json {
    let (lt, hash) = last.map_or((0, [0; 32]), |entry| (entry.step.lt, entry.hash));
    object! { "@type": "internal.transactionId", "lt": lt.to_string(), "hash": base64(&hash) }
}

fn config_info(cell: &Cell, extra: String) -> Json {
    let config = object! { "@type": "tvm.cell", "bytes": base64(&cell.bag()) };
    object! { "@type": "configInfo", "config": config, "@extra": extra }
}

/// Reads a bag of cells in Base64.
fn bag(params: &Params, name: &str) -> Result<Vec<u8>, Failure> {
    let text: String = params.text(name)?.split_whitespace().collect();
    from_base64(&text).ok_or_else(|| {
        let what =
            if text.len().is_multiple_of(4) { "Only base64 data is allowed" } else { "Incorrect padding" };
        Failure::new(503, what)
    })
}

/// Returns the normalized hash of a message, which is the same for all encodings of one message: no state for the
/// account, the body in a cell of its own.
fn normal(bag: &[u8], hash: [u8; 32]) -> [u8; 32] {
    let message = Cell::of_bag(bag).and_then(|cell| super::message::Message::external(&cell));
    message.map_or(hash, |message| {
        let to = message.destination.write(Builder::default().number(0b1000, 4)).coins(0).number(0b01, 2);
        to.reference(message.body).done().hash
    })
}

/// Reads a hash in Base64 of either alphabet or in hex.
fn wanted_hash(text: &str) -> Result<[u8; 32], Failure> {
    let bytes = match text.len() {
        44 => from_base64(&text.replace('_', "/").replace('-', "+")),
        64 => hex::decode(text).ok(),
        _ => None,
    };
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| Failure::new(503, "Invalid hash"))
}

impl Chain {
    fn block_id(&self, workchain: i64, height: u64) -> Json {
        // One number for a block of either chain: those of the masterchain are even.
        let n = height << 1 | u64::from(workchain == 0);
        object! {
            "@type": "ton.blockIdExt",
            "workchain": workchain,
            "shard": WHOLE.to_string(),
            "seqno": Chain::seqno(workchain, height),
            "root_hash": base64(&self.seed.hide("root", n)),
            "file_hash": base64(&self.seed.hide("file", n)),
        }
    }

    fn header(&self, workchain: i64, height: u64) -> Json {
        let key = height - height % 16_384;
        let lt = Chain::lt(height);
        object! {
            "@type": "blocks.header",
            "id": self.block_id(workchain, height),
            "global_id": -239i64,
            "version": 0u64,
            "after_merge": false,
            "after_split": false,
            "before_split": false,
            "want_merge": workchain == 0,
            "want_split": false,
            "validator_list_hash_short": self.seed.word("validators", key).cast_signed() as i32,
            "catchain_seqno": 600_000 + height / 1_024,
            "min_ref_mc_seqno": height.saturating_sub(4),
            "is_key_block": workchain == -1 && height == key,
            "prev_key_block_seqno": if height == key { key.saturating_sub(16_384) } else { key },
            "start_lt": lt.to_string(),
            "end_lt": (lt + 999_999).to_string(),
            "gen_utime": self.secs(height),
            "vert_seqno": 1u64,
            "prev_blocks": vec![self.block_id(workchain, height.saturating_sub(1))],
        }
    }
}

/// Writes an address in the form of TON's library.
fn in_object(address: String) -> Json {
    object! { "@type": "accountAddress", "account_address": address }
}

impl Entry {
    fn json(&self, address: fn(String) -> Json) -> Json {
        let step = &self.step;
        let outgoing = step.outgoing.iter().map(|message| message.json(address));
        object! {
            "@type": "raw.transaction",
            "address": in_object(step.account.friendly()),
            "utime": step.utime,
            "data": base64(&self.cell.bag()),
            "transaction_id": last_id(Some(self)),
            "fee": step.fee.to_string(),
            "storage_fee": step.storage_fee().to_string(),
            "other_fee": (step.fee - step.storage_fee()).to_string(),
            "in_msg": step.incoming.json(address),
            "out_msgs": outgoing.collect::<Vec<_>>(),
        }
    }
}
