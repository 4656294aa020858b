//! The methods of a Sui node.

use super::SuiNode;
use super::chain::{Chain, PRICE};
use super::show::{COIN_TYPE, OBJECT_TYPE, Options, coin_bytes};
use super::tx::{Id, LONGEST, Program, Tx, hex_id, parse_id};
use crate::envelope::Fault;
use crate::hash::{base58, from_base58};
use crate::json::{Json, object};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rpcgate_core::clock::Time;
use serde_json::Value;

/// The first bytes of the main network's first checkpoint digest.
const CHAIN: &str = "35834a8a";
/// The maximum number of items in one call.
const MOST: usize = 50;

static NOTHING: Value = Value::Null;

/// Parameters in order, or by their names.
#[derive(Debug, Clone, Copy)]
struct Params<'a>(&'a Value);

fn invalid(data: impl Into<String>) -> Fault {
    let data = Some(Json::from(data.into()));
    Fault { code: -32602, message: "Invalid params".into(), data }
}

impl<'a> Params<'a> {
    fn get(self, index: usize, name: &str) -> &'a Value {
        match self.0 {
            Value::Array(items) => items.get(index).unwrap_or(&NOTHING),
            other => other.get(name).unwrap_or(&NOTHING),
        }
    }

    fn text(self, index: usize, name: &str) -> Result<&'a str, Fault> {
        match self.get(index, name) {
            Value::String(text) => Ok(text),
            Value::Null => Err(invalid("No more params")),
            other => Err(invalid(format!("invalid type: {other}, expected a string"))),
        }
    }

    fn list(self, index: usize, name: &str) -> Result<&'a [Value], Fault> {
        match self.get(index, name) {
            Value::Array(items) if items.len() <= MOST => Ok(items),
            Value::Array(_) => Err(Fault::new(-32602, format!("Input exceeds limit of {MOST}"))),
            Value::Null => Err(invalid("No more params")),
            other => Err(invalid(format!("invalid type: {other}, expected a sequence"))),
        }
    }

    fn id(self, index: usize, name: &str) -> Result<Id, Fault> {
        object_id(self.text(index, name)?)
    }

    fn bytes(self, index: usize, name: &str) -> Result<Vec<u8>, Fault> {
        base64(self.text(index, name)?)
    }

    fn options(self, index: usize) -> Options<'a> {
        Options(self.get(index, "options"))
    }
}

fn base64(text: &str) -> Result<Vec<u8>, Fault> {
    if text.len() > 2 * LONGEST {
        return Err(invalid("the bytes are too many"));
    }
    STANDARD.decode(text).map_err(|why| invalid(format!("Invalid base64: {why}")))
}

fn object_id(text: &str) -> Result<Id, Fault> {
    parse_id(text).ok_or_else(|| invalid(format!("AccountAddressParseError: {text} is no address")))
}

fn transaction_digest(value: &Value) -> Result<Id, Fault> {
    let text = value.as_str().unwrap_or_default();
    from_base58(text).ok_or_else(|| invalid(format!("Invalid digest: {text} is not 32 bytes of base58")))
}

fn refused(why: String) -> Fault {
    Fault::new(-32002, why)
}

impl SuiNode {
    pub(super) fn call(&mut self, method: &str, params: &Value, now: Time) -> Result<Json, Fault> {
        let params = Params(params);
        let chain = &self.chain;
        match method {
            "sui_getLatestCheckpointSequenceNumber" => Ok(chain.head.to_string().into()),
            "sui_getChainIdentifier" => Ok(CHAIN.into()),
            "sui_getTotalTransactionBlocks" => Ok(chain.total(chain.head).to_string().into()),
            "suix_getReferenceGasPrice" | "sui_getReferenceGasPrice" => Ok(PRICE.to_string().into()),
            "sui_getCheckpoint" => self.checkpoint(params),
            "sui_getCheckpoints" => self.checkpoints(params),
            "sui_getObject" => Ok(chain.object_json(&params.id(0, "object_id")?, params.options(1))),
            "sui_multiGetObjects" => {
                let ids = params.list(0, "object_ids")?.iter();
                let ids: Vec<Id> =
                    ids.map(|id| object_id(id.as_str().unwrap_or_default())).collect::<Result<_, _>>()?;
                Ok(Json::Array(ids.iter().map(|id| chain.object_json(id, params.options(1))).collect()))
            }
            "suix_getOwnedObjects" => self.owned(params),
            "suix_getCoins" | "suix_getAllCoins" => self.coins(method, params),
            "suix_getBalance" => {
                let owner = params.id(0, "owner")?;
                match params.get(1, "coin_type") {
                    Value::Null => Ok(chain.balance(&owner, COIN_TYPE)),
                    other => Ok(chain.balance(&owner, coin_type(other)?)),
                }
            }
            "suix_getAllBalances" => {
                let owner = params.id(0, "owner")?;
                let some = !chain.coins_of(&owner).is_empty();
                Ok(Json::Array(some.then(|| chain.balance(&owner, COIN_TYPE)).into_iter().collect()))
            }
            "suix_getCoinMetadata" => Ok(if coin_type(params.get(0, "coin_type"))? == COIN_TYPE {
                object! {
                    "decimals": 9u64, "name": "Sui", "symbol": "SUI", "description": "", "iconUrl": Json::Null,
                    "id": hex_id(&chain.seed.bytes("metadata", 0)),
                }
            } else {
                Json::Null
            }),
            "sui_getTransactionBlock" => {
                let digest = transaction_digest(params.get(0, "digest"))?;
                let entry = chain.transaction(&digest).ok_or_else(|| {
                    let name = base58(&digest);
                    let why =
                        format!("Could not find the referenced transaction [TransactionDigest({name})].");
                    Fault::new(-32602, why)
                })?;
                Ok(chain.transaction_json(&entry, params.options(1)))
            }
            "sui_multiGetTransactionBlocks" => self.transactions(params),
            "sui_getEvents" => {
                let digest = transaction_digest(params.get(0, "transaction_digest"))?;
                match chain.transaction(&digest) {
                    Some(entry) => Ok(entry.events()),
                    None => {
                        let name = base58(&digest);
                        let why =
                            format!("Could not find the referenced transaction [TransactionDigest({name})].");
                        Err(Fault::new(-32602, why))
                    }
                }
            }
            "sui_dryRunTransactionBlock" => self.dry_run(params),
            "sui_devInspectTransactionBlock" => self.inspect(params),
            "sui_executeTransactionBlock" => self.execute(params, now),
            _ => Err(Fault::new(-32601, "Method not found")),
        }
    }

    fn checkpoint(&self, params: Params<'_>) -> Result<Json, Fault> {
        let chain = &self.chain;
        let id = match params.get(0, "id") {
            Value::Number(number) => number.to_string(),
            _ => params.text(0, "id")?.to_owned(),
        };
        let found = match id.parse::<u64>() {
            Ok(number) => {
                let kept = number == 0 || (chain.oldest()..=chain.head).contains(&number);
                kept.then_some(number)
            }
            Err(_) => {
                let digest = from_base58(&id)
                    .ok_or_else(|| invalid("data did not match any variant of untagged enum CheckpointId"))?;
                let number = if id == super::show::GENESIS { Some(0) } else { chain.checkpoint_of(&digest) };
                number.filter(|number| *number == 0 || (chain.oldest()..=chain.head).contains(number))
            }
        };
        let number = found.ok_or_else(|| {
            Fault::new(-32602, format!("Verified checkpoint not found for sequence number or digest: {id}"))
        })?;
        Ok(chain.checkpoint_json(number))
    }

    fn checkpoints(&self, params: Params<'_>) -> Result<Json, Fault> {
        let chain = &self.chain;
        let cursor = match params.get(0, "cursor") {
            Value::Null => None,
            Value::String(text) => Some(text.parse::<u64>().map_err(|_| invalid("the cursor is no number"))?),
            other => Some(other.as_u64().ok_or_else(|| invalid("the cursor is no number"))?),
        };
        let limit = params.get(1, "limit").as_u64().unwrap_or(MOST as u64).clamp(1, MOST as u64);
        let descending = params.get(2, "descending_order").as_bool().unwrap_or(false);
        let low = chain.oldest();
        let high = chain.head;
        let numbers: Vec<u64> = if descending {
            let top = cursor.map_or(high, |cursor| cursor.saturating_sub(1).min(high));
            (low..=top).rev().take(limit as usize).collect()
        } else {
            let bottom = cursor.map_or(low, |cursor| cursor.saturating_add(1).max(low));
            (bottom..=high).take(limit as usize).collect()
        };
        let last = numbers.last().copied();
        let more = last.is_some_and(|last| if descending { last > low } else { last < high });
        let data: Vec<Json> = numbers.iter().map(|number| chain.checkpoint_json(*number)).collect();
        Ok(object! { "data": data, "nextCursor": last.map(|last| last.to_string()), "hasNextPage": more })
    }

    fn transactions(&self, params: Params<'_>) -> Result<Json, Fault> {
        let digests = params.list(0, "digests")?.iter();
        let digests: Vec<Id> = digests.map(transaction_digest).collect::<Result<_, _>>()?;
        let twice = digests
            .iter()
            .enumerate()
            .any(|(index, one)| digests.iter().skip(index + 1).any(|two| one == two));
        if twice {
            return Err(Fault::new(-32602, "The list of digests in the input contain duplicates"));
        }
        let show = |digest: &Id| match self.chain.transaction(digest) {
            Some(entry) => self.chain.transaction_json(&entry, params.options(1)),
            // An unknown object is described by its digest alone.
            None => object! { "digest": base58(digest) },
        };
        Ok(Json::Array(digests.iter().map(show).collect()))
    }

    /// Returns the page of an owner's coins that the request selects.
    fn page(&self, owner: &Id, cursor: &Value, limit: &Value) -> Result<(Vec<Id>, Json, bool), Fault> {
        let after = match cursor {
            Value::Null => None,
            Value::String(text) => Some(object_id(text)?),
            other => return Err(invalid(format!("invalid type: {other}, expected a string"))),
        };
        let limit = limit.as_u64().unwrap_or(MOST as u64).clamp(1, MOST as u64) as usize;
        let all = self.chain.coins_of(owner).into_iter().map(|(id, ..)| id);
        let mut ids: Vec<Id> =
            all.filter(|id| after.is_none_or(|after| *id > after)).take(limit + 1).collect();
        let more = ids.len() > limit;
        ids.truncate(limit);
        Ok((ids.clone(), ids.last().map(hex_id).into(), more))
    }

    fn owned(&self, params: Params<'_>) -> Result<Json, Fault> {
        let owner = params.id(0, "address")?;
        let query = params.get(1, "query");
        let options = Options(query.get("options").unwrap_or(&NOTHING));
        let kind = query.get("filter").and_then(|filter| filter.get("StructType")).and_then(Value::as_str);
        let (ids, cursor, more) = self.page(&owner, params.get(2, "cursor"), params.get(3, "limit"))?;
        if kind.is_some_and(|kind| kind != OBJECT_TYPE && kind != "0x2::coin::Coin") {
            return Ok(
                object! { "data": Json::Array(Vec::new()), "nextCursor": Json::Null, "hasNextPage": false },
            );
        }
        let data: Vec<Json> = ids.iter().map(|id| self.chain.object_json(id, options)).collect();
        Ok(object! { "data": data, "nextCursor": cursor, "hasNextPage": more })
    }

    fn coins(&self, method: &str, params: Params<'_>) -> Result<Json, Fault> {
        let owner = params.id(0, "owner")?;
        let one = method == "suix_getCoins";
        if one && !params.get(1, "coin_type").is_null() && coin_type(params.get(1, "coin_type"))? != COIN_TYPE
        {
            return Ok(
                object! { "data": Json::Array(Vec::new()), "nextCursor": Json::Null, "hasNextPage": false },
            );
        }
        let first = usize::from(one) + 1;
        let cursor = params.get(first, "cursor");
        let limit = params.get(first + 1, "limit");
        let (ids, cursor, more) = self.page(&owner, cursor, limit)?;
        let show = |id: &Id| {
            let (coin, last) = self.chain.coin(id)?;
            Some(object! {
                "coinType": COIN_TYPE, "coinObjectId": hex_id(id), "version": coin.version.to_string(),
                "digest": base58(&super::chain::object_digest(id, coin.version)),
                "balance": coin.balance.to_string(), "previousTransaction": base58(&last),
            })
        };
        let data: Vec<Json> = ids.iter().filter_map(show).collect();
        Ok(object! { "data": data, "nextCursor": cursor, "hasNextPage": more })
    }

    fn dry_run(&self, params: Params<'_>) -> Result<Json, Fault> {
        let raw = params.bytes(0, "tx_bytes")?;
        let tx =
            Tx::decode(&raw).ok_or_else(|| invalid("Deserialization error: the bytes are no transaction"))?;
        let entry = self.chain.dry_run(&raw, tx).map_err(refused)?;
        Ok(object! {
            "effects": entry.effects(self.chain.epoch(self.chain.head)),
            "events": Json::Array(Vec::new()),
            "objectChanges": entry.object_changes(),
            "balanceChanges": entry.balance_changes(),
            "input": entry.tx.json(),
            "executionErrorSource": entry.failure.clone(),
            "suggestedGasPrice": PRICE.to_string(),
        })
    }

    fn inspect(&self, params: Params<'_>) -> Result<Json, Fault> {
        let sender = params.id(0, "sender_address")?;
        let raw = params.bytes(1, "tx_bytes")?;
        let program = Program::decode(&raw)
            .ok_or_else(|| invalid("Deserialization error: the bytes are no transaction kind"))?;
        let price = match params.get(2, "gas_price") {
            Value::Null => PRICE,
            Value::String(text) => text.parse().map_err(|_| invalid("the gas price is no number"))?,
            other => other.as_u64().ok_or_else(|| invalid("the gas price is no number"))?,
        };
        let entry = self.chain.inspect(&raw, program, sender, price).map_err(refused)?;
        let mut out = object! {
            "effects": entry.effects(self.chain.epoch(self.chain.head)), "events": Json::Array(Vec::new()),
        };
        if let Some(why) = entry.failure {
            out.put("error", why);
            return Ok(out);
        }
        let results = entry.results.iter().map(|given| {
            let values = given.iter().map(|(id, balance)| {
                let bytes = coin_bytes(id, *balance).into_iter().map(Json::from).collect();
                Json::Array(vec![Json::Array(bytes), OBJECT_TYPE.into()])
            });
            let values: Vec<Json> = values.collect();
            if values.is_empty() {
                object! {}
            } else {
                object! { "returnValues": values }
            }
        });
        out.put("results", Json::Array(results.collect()));
        Ok(out)
    }

    fn execute(&mut self, params: Params<'_>, now: Time) -> Result<Json, Fault> {
        let raw = params.bytes(0, "tx_bytes")?;
        let signatures = params.list(1, "signatures")?.iter();
        let signatures: Vec<Vec<u8>> =
            signatures.map(|text| base64(text.as_str().unwrap_or_default())).collect::<Result<_, _>>()?;
        let options = params.options(2);
        let local = match params.get(3, "request_type") {
            Value::Null => options.wants("showObjectChanges") || options.wants("showBalanceChanges"),
            Value::String(kind) if kind == "WaitForLocalExecution" => true,
            Value::String(kind) if kind == "WaitForEffectsCert" => false,
            other => return Err(invalid(format!("unknown variant {other}"))),
        };
        if Tx::decode(&raw).is_none() {
            return Err(invalid("Deserialization error: the bytes are no transaction"));
        }
        let entry = self.chain.execute(&raw, signatures, now).map_err(refused)?;
        let entry = entry.ok_or_else(|| {
            Fault::new(-32050, "Transaction is not processed because the node is overloaded, retry later")
        })?;
        let mut out = self.chain.transaction_json(&entry, options);
        out.put("confirmedLocalExecution", local);
        Ok(out)
    }
}

fn coin_type(value: &Value) -> Result<&str, Fault> {
    let text = value.as_str().ok_or_else(|| invalid("invalid type: expected a struct tag"))?;
    let parts: Vec<&str> = text.split("::").collect();
    let [address, module, name, ..] = parts.as_slice() else {
        return Err(Fault::new(-32602, format!("Invalid struct type: {text}")));
    };
    let sui = parse_id(address).is_some_and(|id| id == TWO) && *module == "sui" && *name == "SUI";
    Ok(if sui { COIN_TYPE } else { text })
}

/// The address of the framework's package.
const TWO: Id = {
    let mut id = [0; 32];
    id[31] = 2;
    id
};

impl Chain {
    fn balance(&self, owner: &Id, coin_type: &str) -> Json {
        let coins = if coin_type == COIN_TYPE { self.coins_of(owner) } else { Vec::new() };
        let total: u128 = coins.iter().map(|(_, coin, _)| u128::from(coin.balance)).sum();
        object! {
            "coinType": coin_type.to_owned(), "coinObjectCount": coins.len(),
            "totalBalance": total.to_string(), "lockedBalance": object! {},
            "fundsInAddressBalance": "0",
        }
    }
}
