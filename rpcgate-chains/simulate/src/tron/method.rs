//! The methods of a TRON node.

use super::TronNode;
use super::address::{from_base58, long, short};
use super::chain::{Chain, SOLID_DEPTH};
use super::network::{BANDWIDTH_PRICES, ENERGY_PRICES, parameters};
use super::params::Params;
use super::signatures::signatures;
use super::token::{self, Ask, TOKEN};
use super::tx::{Body, Contract, Tx};
use crate::json::{Json, object};
use crate::rest::MethodNames;
use rpcgate_core::clock::Time;

/// The lifetime of a transaction that the node creates, in milliseconds.
const LIFE_MS: i64 = 60_000;
/// The maximum time until a transaction expires, in milliseconds.
const FAR_MS: i64 = 86_400_000;
/// The maximum number of blocks in one answer.
const BLOCKS: i64 = 100;
/// The largest transaction, in bytes.
const TX_BYTES: usize = 500 * 1_024;

/// The methods of the node. Names are lower case.
pub(super) const METHODS: MethodNames = MethodNames {
    read: &[
        "getaccount",
        "getaccountresource",
        "getbandwidthprices",
        "getblock",
        "getblockbyid",
        "getblockbylatestnum",
        "getblockbylimitnext",
        "getblockbynum",
        "getchainparameters",
        "getcontract",
        "getenergyprices",
        "getnextmaintenancetime",
        "getnodeinfo",
        "getnowblock",
        "getpendingsize",
        "gettransactionbyid",
        "gettransactioncountbyblocknum",
        "gettransactionfrompending",
        "gettransactioninfobyblocknum",
        "gettransactioninfobyid",
        "listwitnesses",
        "validateaddress",
    ],
    posted: &[
        "broadcasthex",
        "broadcasttransaction",
        "createtransaction",
        "estimateenergy",
        "getapprovedlist",
        "getsignweight",
        "triggerconstantcontract",
        "triggersmartcontract",
    ],
};

/// The reason for a refusal: its name and its text.
type Refusal = (&'static str, String);

impl Chain {
    /// Takes a transaction that the node receives at `now`.
    pub(super) fn submit(&mut self, tx: Tx, now: Time) -> Result<(), Refusal> {
        let invalid = |why: &str| ("CONTRACT_VALIDATE_ERROR", format!("Contract validate error : {why}"));
        let expired = || ("TRANSACTION_EXPIRATION_ERROR", "Transaction expired".to_owned());
        let Some(contract) = tx.body.contracts.first() else {
            return Err(invalid("No contract!"));
        };
        let newest = self.millis(self.head).cast_signed();
        if tx.body.expiration < newest + 3_000 {
            return Err(expired());
        }
        let owner = tx
            .owner()
            .ok_or_else(|| invalid(self.check(contract).err().unwrap_or("Invalid ownerAddress!")))?;
        tx.signed_by(&owner).map_err(|why| ("SIGERROR", format!("Validate signature error: {why}")))?;
        if !self.knows(&tx.body) {
            return Err(("TAPOS_ERROR", "Tapos check error.".into()));
        }
        let bytes = tx.write(None);
        if bytes.len() > TX_BYTES {
            let why = format!("Too big transaction, the size is {} bytes", bytes.len());
            return Err(("TOO_BIG_TRANSACTION_ERROR", why));
        }
        if tx.body.expiration > newest + FAR_MS {
            return Err(expired());
        }
        if tx.body.contracts.len() > 1 {
            return Err((
                "OTHER_ERROR",
                "Error: act size should be exactly 1, this is extend feature".into(),
            ));
        }
        if self.place(&tx.id).is_some() {
            return Err(("DUP_TRANSACTION_ERROR", "Dup transaction.".into()));
        }
        self.check(contract).map_err(invalid)?;
        let moment = self.moment(now);
        self.take(tx, bytes, moment).map_err(|(code, words)| (code, words.to_owned()))
    }
}

impl TronNode {
    /// Runs a method; an error is the content of the member `Error`.
    pub(super) fn call(&mut self, method: &str, params: &Params, now: Time) -> Result<Json, String> {
        let chain = &self.chain;
        let visible = params.visible;
        let moment = chain.moment(now).millis();
        let known = |number: i64| u64::try_from(number).ok().filter(|height| *height <= chain.head);
        let nothing = || object! {};
        Ok(match method {
            "getnowblock" => chain.block(chain.head, true, visible),
            "getblock" => {
                let detail = params.switch("detail");
                chosen(params.text("id_or_num"), chain.head)?
                    .and_then(known)
                    .map(|height| (height, chain.id(height)))
                    .filter(|(_, id)| {
                        params.text("id_or_num").len() != 64 || hex::encode(id) == params.text("id_or_num")
                    })
                    .map_or_else(nothing, |(height, _)| chain.block(height, detail, visible))
            }
            "getblockbynum" => {
                known(params.number("num")?).map_or_else(nothing, |height| chain.block(height, true, visible))
            }
            "getblockbyid" => {
                let height = params.hash("value")?.and_then(|id| {
                    let height = u64::from_be_bytes(id[..8].try_into().ok()?);
                    (height <= chain.head && chain.id(height) == id).then_some(height)
                });
                height.map_or_else(nothing, |height| chain.block(height, true, visible))
            }
            "getblockbylimitnext" => {
                let start = params.number("startNum")?;
                let end = params.number("endNum")?;
                if start < 0 || end <= start || end - start > BLOCKS {
                    return Ok(nothing());
                }
                let blocks = (start..end).filter_map(known).map(|height| chain.block(height, true, visible));
                object! { "block": blocks.collect::<Vec<_>>() }
            }
            "getblockbylatestnum" => {
                let count = params.number("num")?;
                if !(1..BLOCKS).contains(&count) {
                    return Ok(nothing());
                }
                let first = (chain.head + 1).saturating_sub(count.cast_unsigned());
                let blocks = (first..=chain.head).map(|height| chain.block(height, true, visible));
                object! { "block": blocks.collect::<Vec<_>>() }
            }
            "gettransactioncountbyblocknum" => {
                let count = known(params.number("num")?).map(|height| chain.count(height));
                count.map_or_else(|| object! { "count": -1i64 }, |count| object! { "count": count })
            }
            "gettransactionbyid" => {
                let found = params.hash("value")?.and_then(|id| chain.transaction(&id));
                found.map_or_else(nothing, |(_, entry)| entry.json(visible))
            }
            "gettransactioninfobyid" => {
                let found = params.hash("value")?.and_then(|id| chain.transaction(&id));
                found.map_or_else(nothing, |(height, entry)| entry.info(chain, height, visible))
            }
            "gettransactioninfobyblocknum" => {
                let Some(height) = known(params.number("num")?) else {
                    return Ok(Json::Array(Vec::new()));
                };
                let entries = chain.entries(height);
                Json::Array(entries.iter().map(|entry| entry.info(chain, height, visible)).collect())
            }
            "gettransactionfrompending" => {
                let hash = params.hash("value")?;
                let found = hash.as_ref().and_then(|id| chain.waiting(id));
                found.map_or_else(nothing, |tx| tx.json(None, visible))
            }
            "getpendingsize" => object! { "pendingSize": chain.waiting_count() },
            "getaccount" => {
                let address = short(&params.address("address")?);
                let found = address.and_then(|address| Some((address, chain.account(&address)?)));
                found.map_or_else(nothing, |(address, account)| {
                    chain.account_json(&address, &account, moment, visible)
                })
            }
            "getaccountresource" => {
                let account = short(&params.address("address")?).and_then(|address| chain.account(&address));
                account.map_or_else(nothing, |account| chain.resources(&account, moment))
            }
            "getcontract" => {
                let address = short(&params.address("value")?);
                if address != Some(TOKEN) {
                    return Ok(nothing());
                }
                object! {
                    "contract_address": super::address::shown(&long(&TOKEN), visible),
                    "abi": token::abi(),
                    "consume_user_resource_percent": 30u64,
                    "name": "TetherToken",
                    "origin_energy_limit": 10_000_000u64,
                }
            }
            "validateaddress" => validate(params.text("address")),
            "listwitnesses" => chain.witnesses_json(visible),
            "getchainparameters" => {
                let rows = parameters().map(|(key, value)| {
                    let mut row = object! { "key": key };
                    if value != 0 {
                        row.put("value", value);
                    }
                    row
                });
                object! { "chainParameter": rows.collect::<Vec<_>>() }
            }
            "getenergyprices" => object! { "prices": ENERGY_PRICES },
            "getbandwidthprices" => object! { "prices": BANDWIDTH_PRICES },
            "getnextmaintenancetime" => {
                let interval = parameters().next().map_or(1, |(_, interval)| interval.cast_unsigned());
                object! { "num": (chain.millis(chain.head) / interval + 1) * interval }
            }
            "getnodeinfo" => self.node_info(),
            "createtransaction" => self.create(params, moment)?,
            "broadcasttransaction" => {
                let tx = Tx::from_json(&params.whole, visible)?;
                let txid = hex::encode(tx.id);
                match self.chain.submit(tx, now) {
                    Ok(()) => object! { "result": true, "txid": txid },
                    Err((code, words)) => {
                        let words = if visible { words } else { hex::encode(words) };
                        object! { "code": code, "txid": txid, "message": words }
                    }
                }
            }
            "getsignweight" | "getapprovedlist" => {
                signatures(method, &Tx::from_json(&params.whole, visible)?, visible)
            }
            "broadcasthex" => self.broadcast_hex(params, now)?,
            _ => self.trigger(method, params, moment),
        })
    }

    fn broadcast_hex(&mut self, params: &Params, now: Time) -> Result<Json, String> {
        let bytes = hex::decode(params.text("transaction")).map_err(|_| {
            "class org.bouncycastle.util.encoders.DecoderException : exception decoding Hex string: invalid characters \
             encountered in Hex string"
        })?;
        let tx = Tx::read(&bytes).map_err(|why| {
            format!("class com.google.protobuf.InvalidProtocolBufferException : {}", why.message())
        })?;
        let txid = hex::encode(tx.id);
        let mut shown = String::new();
        tx.json(None, true).write(&mut shown);
        let taken = self.chain.submit(tx, now);
        let is_taken = taken.is_ok();
        let (code, words) = taken.err().unwrap_or(("SUCCESS", String::new()));
        Ok(object! {
            "result": is_taken, "code": code, "txid": txid, "message": words, "transaction": shown,
        })
    }

    /// Creates a transaction at `moment`.
    fn make(&self, contract: Contract, fee_limit: i64, moment: u64) -> Tx {
        let chain = &self.chain;
        let (ref_bytes, ref_hash) = chain.reference(chain.solid());
        Tx::new(Body {
            ref_bytes,
            ref_hash,
            expiration: chain.millis(chain.head).cast_signed() + LIFE_MS,
            timestamp: moment.cast_signed(),
            fee_limit,
            data: Vec::new(),
            contracts: vec![contract],
        })
    }

    fn create(&self, params: &Params, moment: u64) -> Result<Json, String> {
        let contract = Contract::Transfer {
            owner: params.address("owner_address")?,
            to: params.address("to_address")?,
            amount: params.number("amount")?,
        };
        self.chain
            .check(&contract)
            .map_err(|why| format!("class org.tron.core.exception.ContractValidateException : {why}"))?;
        let mut tx = self.make(contract, 0, moment);
        let memo = params.text("extra_data");
        if !memo.is_empty() {
            tx.body.data =
                if params.visible { memo.as_bytes().to_vec() } else { params.bytes("extra_data")? };
            tx = Tx::new(tx.body);
        }
        let mut out = object! { "visible": params.visible };
        if let (Json::Object(out), Json::Object(members)) = (&mut out, tx.json(None, params.visible)) {
            out.extend(members);
        }
        Ok(out)
    }

    /// Runs the methods that call a contract: build a transaction, read only, and estimate the cost.
    fn trigger(&self, method: &str, params: &Params, moment: u64) -> Json {
        match self.try_trigger(method, params, moment) {
            Ok(json) => json,
            Err((code, words)) => {
                let words = if params.visible { words } else { hex::encode(words) };
                object! { "result": object! { "code": code, "message": words } }
            }
        }
    }

    fn try_trigger(&self, method: &str, params: &Params, moment: u64) -> Result<Json, Refusal> {
        let other = |why: String| ("OTHER_ERROR", why);
        for name in ["owner_address", "contract_address"] {
            if params.text(name).is_empty() {
                return Err(other(format!(
                    "class java.security.InvalidParameterException : {name} isn't set."
                )));
            }
        }
        let owner = params.address("owner_address").map_err(other)?;
        let contract = params.address("contract_address").map_err(other)?;
        let signature = params.text("function_selector");
        let data = if signature.is_empty() {
            params.bytes("data").map_err(other)?
        } else {
            let arguments = params.bytes("parameter").map_err(other)?;
            [&token::selector(signature)[..], &arguments].concat()
        };
        let value = params.number("call_value").map_err(other)?;
        let fee_limit = params.number("fee_limit").map_err(other)?;
        let invalid = |why: &str| ("CONTRACT_VALIDATE_ERROR", why.to_owned());
        if short(&contract) != Some(TOKEN) {
            return Err(invalid("No contract or not a valid smart contract"));
        }
        let sender = short(&owner).ok_or_else(|| invalid("Invalid ownerAddress!"))?;
        let asked = token::ask(&data);
        let is_read = matches!(asked, Some(Ask::Constant(_) | Ask::Balance(_)));
        let call = Contract::Trigger { owner, contract, value, data };
        if method == "triggersmartcontract" && !is_read {
            let tx = self.make(call, fee_limit, moment);
            return Ok(object! {
                "result": object! { "result": true },
                "transaction": with_visible(tx.json(None, params.visible), params.visible),
            });
        }
        let (answer, energy) = match asked {
            Some(Ask::Constant(bytes)) if value == 0 => (Some(bytes), token::READ_ENERGY),
            Some(Ask::Balance(of)) if value == 0 => {
                (Some(token::word(self.chain.tokens(&of)).to_vec()), token::READ_ENERGY)
            }
            Some(Ask::Transfer { to, amount }) if value == 0 && amount <= self.chain.tokens(&sender) => {
                let is_new = self.chain.tokens(&to) == 0;
                let energy = if is_new { token::SEND_NEW_ENERGY } else { token::SEND_ENERGY };
                (Some(token::word(1).to_vec()), energy)
            }
            _ => (None, token::REVERT_ENERGY),
        };
        if method == "estimateenergy" {
            return match answer {
                Some(_) => Ok(object! { "result": object! { "result": true }, "energy_required": energy }),
                None => Err(("CONTRACT_EXE_ERROR", "REVERT opcode executed".into())),
            };
        }
        let mut result = object! { "result": true };
        let mut ret = object! {};
        if answer.is_none() {
            let words = "REVERT opcode executed";
            result.put("message", if params.visible { words.into() } else { hex::encode(words) });
            ret.put("ret", "FAILED");
        }
        let tx = self.make(call, fee_limit, moment);
        Ok(object! {
            "result": result,
            "energy_used": energy,
            "constant_result": vec![hex::encode(answer.unwrap_or_default())],
            "transaction": with_visible(tx.json(Some(ret), params.visible), params.visible),
        })
    }

    fn node_info(&self) -> Json {
        let chain = &self.chain;
        let place = |height: u64| format!("Num:{height},ID:{}", hex::encode(chain.id(height)));
        let minute = chain.millis(chain.head) / 60_000;
        let free = 20_000_000_000 + minute % 977 * 4_096_000;
        let pool = |name: &'static str, used: u64, most: u64| {
            object! {
                "initSize": 0u64, "maxSize": most, "name": name, "useRate": Json::float(used as f64 / most as f64),
                "useSize": used,
            }
        };
        object! {
            "activeConnectCount": 12u64,
            "beginSyncNum": chain.head.saturating_sub(SOLID_DEPTH + 1),
            "block": place(chain.head),
            "cheatWitnessInfoMap": object! {},
            "configNodeInfo": object! {
                "activeNodeSize": 0u64, "allowAdaptiveEnergy": 0u64, "allowCreationOfContracts": 1u64,
                "backupListenPort": 10_001u64, "backupMemberSize": 0u64, "backupPriority": 8u64,
                "codeVersion": "4.8.1", "dbVersion": 2u64, "discoverEnable": true, "listenPort": 18_888u64,
                "maxConnectCount": 30u64, "maxTimeRatio": Json::float(5.0), "minParticipationRate": 0u64,
                "minTimeRatio": Json::float(0.6), "p2pVersion": "11111", "passiveNodeSize": 0u64,
                "sameIpMaxConnectCount": 2u64, "sendNodeSize": 0u64, "supportConstant": true, "versionNum": "18653",
            },
            "currentConnectCount": 30u64,
            "machineInfo": object! {
                "cpuCount": 16u64, "cpuRate": Json::float((minute % 400) as f64 / 1_000.0),
                "deadLockThreadCount": 0u64, "deadLockThreadInfoList": Json::Array(Vec::new()),
                "freeMemory": free, "javaVersion": "1.8.0_442", "jvmFreeMemory": free / 2,
                "jvmTotalMemory": 34_359_738_368u64,
                "memoryDescInfoList": vec![
                    pool("CMS Old Gen", 9_800_000_000 + minute % 501 * 1_000_000, 25_769_803_776),
                    pool("Par Eden Space", 1_000_000_000 + minute % 97 * 10_000_000, 6_871_947_673),
                ],
                "osName": "Linux 5.15.0", "processCpuRate": Json::float((minute % 300) as f64 / 1_000.0),
                "threadCount": 380u64, "totalMemory": 67_108_864_000u64,
            },
            "passiveConnectCount": 18u64,
            "peerList": Json::Array(Vec::new()),
            "solidityBlock": place(chain.solid()),
            "totalFlow": 0u64,
        }
    }
}

/// Returns the height that a `getblock` request selects: by number, by the start of an id, or by default the newest.
fn chosen(text: &str, head: u64) -> Result<Option<i64>, String> {
    if text.is_empty() {
        return Ok(Some(head.cast_signed()));
    }
    if text.len() == 64 {
        let start = hex::decode(text).ok().and_then(|id| <[u8; 8]>::try_from(&id[..8]).ok());
        let start = start.ok_or("INVALID hex String")?;
        return Ok(Some(i64::from_be_bytes(start)));
    }
    let number = text.parse().map_err(|_| format!("For input string: \"{text}\""))?;
    if number < 0 { Err("number must be non-negative".to_owned()) } else { Ok(Some(number)) }
}

fn with_visible(mut tx: Json, visible: bool) -> Json {
    tx.put("visible", visible);
    tx
}

fn validate(text: &str) -> Json {
    let (bytes, form) = if text.len() == 42 {
        (hex::decode(text).ok(), "Hex string format")
    } else {
        (from_base58(text), "Base58check format")
    };
    match bytes {
        Some(bytes) if short(&bytes).is_some() => object! { "result": true, "message": form },
        _ => object! { "result": false, "message": "Invalid address" },
    }
}
