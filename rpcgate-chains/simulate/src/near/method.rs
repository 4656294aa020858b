//! The methods of a NEAR node.

use super::NearNode;
use super::chain::{Chain, EPOCH_LENGTH, Refusal, SHARDS, shard};
use super::state::{Account, GAS_PRICE, TOKEN, WRAPPED, view};
use super::trouble::Trouble;
use super::tx::{Hash, Key, is_account_id};
use crate::hash::{base58, from_base58};
use crate::json::{Json, object};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rpcgate_core::clock::Time;
use serde_json::Value;

/// The block that a request selects.
#[derive(Debug, Clone, Copy)]
enum Reference {
    Height(u64),
    Hash(Hash),
    /// The distance in blocks behind the head.
    Behind(u64),
    Earliest,
}

impl Reference {
    fn id(value: &Value) -> Result<Reference, Trouble> {
        match value {
            Value::Number(number) => number.as_u64().map(Reference::Height),
            Value::String(text) => from_base58(text).map(Reference::Hash),
            _ => None,
        }
        .ok_or_else(|| {
            Trouble::parse("Failed parsing args: data did not match any variant of untagged enum BlockId")
        })
    }

    /// Reads a reference from an object's members or from a list's only item.
    fn read(params: &Value) -> Result<Reference, Trouble> {
        if let Value::Array(items) = params {
            return match items.as_slice() {
                [one] => Reference::id(one),
                _ => Err(Trouble::parse("Failed parsing args: expected an array of one block id")),
            };
        }
        if let Some(id) = params.get("block_id") {
            return Reference::id(id);
        }
        let unknown = |name: &str, text: &Value| {
            Trouble::parse(format!("Failed parsing args: unknown variant `{text}` of {name}"))
        };
        if let Some(finality) = params.get("finality") {
            return match finality.as_str() {
                Some("optimistic") => Ok(Reference::Behind(0)),
                Some("near-final") => Ok(Reference::Behind(1)),
                Some("final") => Ok(Reference::Behind(2)),
                _ => Err(unknown("finality", finality)),
            };
        }
        match params.get("sync_checkpoint") {
            Some(Value::String(text)) if text == "genesis" || text == "earliest_available" => {
                Ok(Reference::Earliest)
            }
            Some(other) => Err(unknown("sync_checkpoint", other)),
            None => Err(Trouble::parse(
                "Failed parsing args: missing field `block_id`, `finality` or `sync_checkpoint`",
            )),
        }
    }
}

impl Chain {
    fn look_up(&self, reference: Reference) -> Result<u64, Trouble> {
        let height = match reference {
            Reference::Behind(back) => return Ok(self.head - back),
            Reference::Earliest => return Ok(self.oldest()),
            Reference::Height(height) => Some(height).filter(|height| *height <= self.head),
            Reference::Hash(hash) => self.block_by_hash(&hash),
        };
        let name = || match reference {
            Reference::Hash(hash) => format!("BLOCK: {}", base58(&hash)),
            Reference::Height(height) => format!("BLOCK HEIGHT: {height}"),
            _ => String::new(),
        };
        height.filter(|height| *height >= self.oldest()).ok_or_else(|| Trouble::unknown_block(&name()))
    }

    /// Returns the block whose state is requested. Requests for the state of a garbage-collected block have a separate
    /// error.
    fn state_at(&self, reference: Reference) -> Result<u64, Trouble> {
        let old = match reference {
            Reference::Height(height) => Some(height),
            Reference::Hash(hash) => self.block_by_hash(&hash),
            _ => None,
        };
        match old {
            Some(height) if height < self.oldest() => {
                let hash = base58(&self.block_hash(height));
                let data = format!(
                    "The data for block #{height} is garbage collected on this node, use an archival node to \
                     fetch historical data"
                );
                let info = object! { "block_hash": hash, "block_height": height };
                Err(Trouble::handler("GARBAGE_COLLECTED_BLOCK", info, data))
            }
            _ => self.look_up(reference),
        }
    }
}

/// Returns a member of an object or an item of a list.
fn part<'a>(params: &'a Value, index: usize, name: &str) -> &'a Value {
    const NOTHING: &Value = &Value::Null;
    match params {
        Value::Array(items) => items.get(index).unwrap_or(NOTHING),
        other => other.get(name).unwrap_or(NOTHING),
    }
}

fn text<'a>(params: &'a Value, index: usize, name: &str) -> Result<&'a str, Trouble> {
    part(params, index, name)
        .as_str()
        .ok_or_else(|| Trouble::parse(format!("Failed parsing args: missing field `{name}`")))
}

fn hash(params: &Value, index: usize, name: &str) -> Result<Hash, Trouble> {
    let value = text(params, index, name)?;
    from_base58(value)
        .ok_or_else(|| Trouble::parse(format!("Failed parsing args: `{value}` is no CryptoHash")))
}

impl NearNode {
    pub(super) fn call(&mut self, method: &str, params: &Value, now: Time) -> Result<Json, Trouble> {
        let chain = &self.chain;
        match method {
            "health" => Ok(Json::Null),
            "status" => {
                let uptime = self.since.map_or(0, |since| now.since(since).as_secs());
                Ok(chain.status(uptime))
            }
            "network_info" => Ok(chain.network(now.minute())),
            "gas_price" => {
                let reference = match part(params, 0, "block_id") {
                    Value::Null => Reference::Behind(0),
                    id => Reference::id(id)?,
                };
                chain.look_up(reference)?;
                Ok(object! { "gas_price": GAS_PRICE.to_string() })
            }
            "block" => Ok(chain.block_json(chain.look_up(Reference::read(params)?)?)),
            "chunk" => self.chunk(params),
            "validators" => self.validators(params),
            "query" => self.query(params),
            "tx" | "EXPERIMENTAL_tx_status" => self.status_of(method, params, now),
            "EXPERIMENTAL_receipt" => {
                let id = hash(params, 0, "receipt_id")?;
                let entry = chain.receipt(&id).filter(|entry| entry.outcome.height <= chain.head);
                let shown = entry.and_then(|entry| {
                    let receipt = entry.receipts.iter().find(|receipt| receipt.outcome.id == id)?;
                    Some(receipt.json(&entry))
                });
                shown.ok_or_else(|| {
                    let info = object! { "receipt_id": base58(&id) };
                    Trouble::handler(
                        "UNKNOWN_RECEIPT",
                        info,
                        format!("Receipt with id {} has never been observed on this node", base58(&id)),
                    )
                })
            }
            "EXPERIMENTAL_protocol_config" => {
                chain.look_up(Reference::read(params)?)?;
                Ok(config())
            }
            "broadcast_tx_async" => {
                let raw = signed(params)?;
                self.submit(&raw, now).map(|hash| base58(&hash).into())
            }
            "broadcast_tx_commit" => {
                let raw = signed(params)?;
                let hash = self.submit(&raw, now)?;
                self.outcome(&hash, false)
            }
            "send_tx" => {
                let raw = signed(params)?;
                let wait = until(params)?;
                let hash = self.submit(&raw, now)?;
                if matches!(wait, "NONE" | "INCLUDED") {
                    return Ok(object! { "final_execution_status": wait });
                }
                self.outcome(&hash, false)
            }
            _ => Err(Trouble::unknown_method(method)),
        }
    }

    fn submit(&mut self, raw: &[u8], now: Time) -> Result<Hash, Trouble> {
        self.chain.submit(raw, now).map_err(|refusal| match refusal {
            Refusal::Unreadable => {
                Trouble::parse("Failed parsing args: the value could not be decoded into the target type")
            }
            Refusal::Invalid(why) => Trouble::handler(
                "INVALID_TRANSACTION",
                object! {},
                object! { "TxExecutionError": object! { "InvalidTxError": why } },
            ),
            Refusal::Full => {
                let data = object! { "TxExecutionError": object! { "InvalidTxError": "StorageError" } };
                Trouble::handler("INVALID_TRANSACTION", object! {}, data)
            }
        })
    }

    fn outcome(&self, hash: &Hash, receipts: bool) -> Result<Json, Trouble> {
        let unknown = || {
            let name = base58(hash);
            let data = format!("Transaction {name} doesn't exist");
            Trouble::handler("UNKNOWN_TRANSACTION", object! { "requested_transaction_hash": name }, data)
        };
        let entry = self.chain.transaction(hash).ok_or_else(unknown)?;
        Ok(self.chain.outcome_of(&entry, receipts))
    }

    fn status_of(&mut self, method: &str, params: &Value, now: Time) -> Result<Json, Trouble> {
        let wait = until(params)?;
        let id = if part(params, 0, "tx_hash").is_null() && params.get("signed_tx_base64").is_some() {
            let raw = signed(params)?;
            self.submit(&raw, now)?
        } else {
            let id = hash(params, 0, "tx_hash")?;
            let sender = text(params, 1, "sender_account_id")?;
            if !is_account_id(sender) {
                return Err(Trouble::parse(format!("Failed parsing args: `{sender}` is no account id")));
            }
            // Real nodes look in the shard of the sender that the parameters name.
            let entry = self.chain.transaction(&id);
            if entry.is_some_and(|entry| shard(&entry.tx.signer) != shard(sender)) {
                return self.outcome(&[0; 32], false);
            }
            id
        };
        if wait == "NONE"
            && self.chain.transaction(&id).is_some_and(|entry| entry.outcome.height > self.chain.head)
        {
            return Ok(object! { "final_execution_status": wait });
        }
        self.outcome(&id, method == "EXPERIMENTAL_tx_status")
    }

    fn chunk(&self, params: &Value) -> Result<Json, Trouble> {
        let chain = &self.chain;
        let by_hash = match params {
            Value::Array(items) if items.len() == 1 => items.first().and_then(Value::as_str),
            other => other.get("chunk_id").and_then(Value::as_str),
        };
        let unknown = |name: String| {
            let data = format!("DB Not Found Error: CHUNK: {name} \n Cause: Unknown");
            Trouble::handler("UNKNOWN_CHUNK", object! { "chunk_hash": name }, data)
        };
        if let Some(name) = by_hash {
            let hash = from_base58(name)
                .ok_or_else(|| Trouble::parse(format!("Failed parsing args: `{name}` is no CryptoHash")))?;
            let place = chain.find_chunk(&hash).filter(|(height, _)| *height >= chain.oldest());
            let (height, shard) = place.ok_or_else(|| unknown(name.to_owned()))?;
            return Ok(chain.chunk_json(height, shard));
        }
        // A block and a shard may be a nested list within the list.
        let params = match params {
            Value::Array(items) => items.first().filter(|first| first.is_array()).unwrap_or(params),
            other => other,
        };
        let reference = Reference::id(part(params, 0, "block_id"))?;
        let shard = part(params, 1, "shard_id")
            .as_u64()
            .ok_or_else(|| Trouble::parse("Failed parsing args: missing field `shard_id`"))?;
        let height = chain.look_up(reference)?;
        if shard >= SHARDS {
            let data = format!("Shard id {shard} does not exist");
            return Err(Trouble::handler("INVALID_SHARD_ID", object! { "shard_id": shard }, data));
        }
        Ok(chain.chunk_json(height, shard))
    }

    fn validators(&self, params: &Value) -> Result<Json, Trouble> {
        let chain = &self.chain;
        let unknown = || Trouble::handler("UNKNOWN_EPOCH", object! {}, "Unknown epoch");
        let start = if let Some(id) = params.get("epoch_id") {
            let id = id.as_str().and_then(from_base58);
            let id = id.ok_or_else(|| Trouble::parse("Failed parsing args: `epoch_id` is no CryptoHash"))?;
            chain.epoch_of(&id).ok_or_else(unknown)?
        } else {
            match part(params, 0, "block_id") {
                Value::Null => Chain::epoch_start(chain.head),
                Value::String(latest) if latest == "latest" => Chain::epoch_start(chain.head),
                id => {
                    let height = chain.look_up(Reference::id(id)?)?;
                    let last = (height + 1).is_multiple_of(EPOCH_LENGTH);
                    // Only the newest block and the last block of an epoch give information about the epoch.
                    if height != chain.head && !last {
                        let data = "Validator info unavailable";
                        return Err(Trouble::handler("VALIDATOR_INFO_UNAVAILABLE", object! {}, data));
                    }
                    Chain::epoch_start(height)
                }
            }
        };
        Ok(chain.validators(start))
    }

    fn query(&self, params: &Value) -> Result<Json, Trouble> {
        let chain = &self.chain;
        let kind = params
            .get("request_type")
            .and_then(Value::as_str)
            .ok_or_else(|| Trouble::parse("Failed parsing args: missing field `request_type`"))?;
        const KINDS: [&str; 6] = [
            "view_account",
            "view_code",
            "view_state",
            "view_access_key",
            "view_access_key_list",
            "call_function",
        ];
        if !KINDS.contains(&kind) {
            return Err(Trouble::parse(format!("Failed parsing args: unknown variant `{kind}`")));
        }
        let name = text(params, 0, "account_id")?;
        if !is_account_id(name) {
            return Err(Trouble::parse(format!("Failed parsing args: `{name}` is no account id")));
        }
        let reference = Reference::read(params)?;
        let height = chain.state_at(reference)?;
        let find = |name: &str| match reference {
            Reference::Behind(_) => chain.state.latest(name, height),
            _ => chain.state.account(name, height),
        };
        let block = base58(&chain.block_hash(height));
        let place = |mut info: Json| {
            info.put("block_hash", block.clone());
            info.put("block_height", height);
            info
        };
        let account = find(name).ok_or_else(|| {
            let data = format!("account {name} does not exist while viewing");
            let info = place(object! { "requested_account_id": name.to_owned() });
            Trouble::handler("UNKNOWN_ACCOUNT", info, data)
        })?;
        let out = match kind {
            "view_account" => object! {
                "amount": account.amount.to_string(),
                "code_hash": base58(&account.code.unwrap_or_default()),
                "locked": "0",
                "storage_paid_at": 0u64,
                "storage_usage": account.storage(),
            },
            "view_code" => {
                let hash = account.code.ok_or_else(|| {
                    let data =
                        format!("Contract code for contract ID #{name} has never been observed on the node");
                    let info = place(object! { "contract_account_id": name.to_owned() });
                    Trouble::handler("NO_CONTRACT_CODE", info, data)
                })?;
                object! { "code_base64": STANDARD.encode(chain.state.code(&hash)), "hash": base58(&hash) }
            }
            "view_state" => {
                let prefix = match params.get("prefix_base64") {
                    None => Vec::new(),
                    Some(prefix) => {
                        let prefix = prefix.as_str().and_then(|text| STANDARD.decode(text).ok());
                        prefix
                            .ok_or_else(|| Trouble::parse("Failed parsing args: invalid `prefix_base64`"))?
                    }
                };
                let mut values = Vec::new();
                if name == TOKEN && b"STATE".starts_with(&prefix) {
                    let supply = chain.state.token_supply().to_le_bytes();
                    values
                        .push(object! { "key": STANDARD.encode(b"STATE"), "value": STANDARD.encode(supply) });
                }
                object! { "values": values }
            }
            "view_access_key" => {
                let text = text(params, 0, "public_key")?;
                let key = Key::parse(text).ok_or_else(|| {
                    Trouble::parse(format!("Failed parsing args: `{text}` is no public key"))
                })?;
                let (nonce, permission) = account.keys.get(&key).ok_or_else(|| {
                    let data = format!("access key {text} does not exist while viewing");
                    let info = place(object! { "public_key": text.to_owned() });
                    Trouble::handler("UNKNOWN_ACCESS_KEY", info, data)
                })?;
                object! { "nonce": *nonce, "permission": permission.json() }
            }
            "view_access_key_list" => object! { "keys": keys(&account) },
            _ => {
                let method = text(params, 0, "method_name")?;
                let args = text(params, 0, "args_base64")?;
                let args = STANDARD
                    .decode(args)
                    .map_err(|why| Trouble::parse(format!("Failed parsing args: {why}")))?;
                let ran = match account.code {
                    None => Err(format!(
                        "CompilationError(CodeDoesNotExist {{ account_id: AccountId(\"{name}\") }})"
                    )),
                    Some(_) if ![TOKEN, WRAPPED].contains(&name) => {
                        Err("MethodResolveError(MethodNotFound)".to_owned())
                    }
                    Some(_) => view(&chain.state, name, method, &args, find),
                };
                let value = ran.map_err(|why| {
                    let data = format!("Function call returned an error: {why}");
                    Trouble::handler("CONTRACT_EXECUTION_ERROR", place(object! { "vm_error": why }), data)
                })?;
                object! { "logs": Json::Array(Vec::new()), "result": value }
            }
        };
        Ok(place(out))
    }
}

fn keys(account: &Account) -> Vec<Json> {
    let show = |(key, (nonce, permission)): (&Key, &(u64, super::tx::Permission))| {
        object! {
            "access_key": object! { "nonce": *nonce, "permission": permission.json() },
            "public_key": key.text(),
        }
    };
    account.keys.iter().map(show).collect()
}

/// Reads the bytes of a signed transaction.
fn signed(params: &Value) -> Result<Vec<u8>, Trouble> {
    let text = text(params, 0, "signed_tx_base64")?;
    STANDARD.decode(text).map_err(|why| Trouble::parse(format!("Failed parsing args: {why}")))
}

/// Reads the execution status that a transaction must reach before the answer.
fn until(params: &Value) -> Result<&'static str, Trouble> {
    const STAGES: [&str; 6] =
        ["NONE", "INCLUDED", "EXECUTED_OPTIMISTIC", "INCLUDED_FINAL", "EXECUTED", "FINAL"];
    match params.get("wait_until") {
        None => Ok("EXECUTED_OPTIMISTIC"),
        Some(stage) => STAGES
            .into_iter()
            .find(|known| stage == known)
            .ok_or_else(|| Trouble::parse(format!("Failed parsing args: unknown variant `{stage}`"))),
    }
}

/// Returns the protocol parameters that clients read.
fn config() -> Json {
    object! {
        "chain_id": "mainnet",
        "epoch_length": EPOCH_LENGTH,
        "gas_limit": 1_000_000_000_000_000u64,
        "genesis_height": 9_820_210u64,
        "min_gas_price": GAS_PRICE.to_string(),
        "max_gas_price": "10000000000000000000000",
        "protocol_version": super::show::PROTOCOL,
        "runtime_config": object! { "storage_amount_per_byte": "10000000000000000000" },
        "transaction_validity_period": 86_400u64,
    }
}
