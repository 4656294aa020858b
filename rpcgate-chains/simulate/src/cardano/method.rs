//! The methods of Ogmios that need no session.

use super::network::{EPOCH_SLOTS, START, epoch, era_start, era_summaries, genesis, parameters};
use super::tx::{Reference, Tx, address, reward_credential};
use super::{CardanoNode, invalid};
use crate::envelope::Fault;
use crate::json::{Json, object};
use crate::utc;
use rpcgate_core::clock::Time;
use serde_json::Value;

/// The eras in which a transaction's bytes are tried.
const ERAS: [&str; 6] = ["shelley", "allegra", "mary", "alonzo", "babbage", "conway"];

impl CardanoNode {
    pub(super) fn call(&mut self, method: &str, params: &Value, now: Time) -> Result<Json, Fault> {
        let chain = &self.chain;
        Ok(match method {
            "queryNetwork/tip" | "queryLedgerState/tip" => chain.tip(),
            "queryNetwork/blockHeight" => chain.head.into(),
            "queryNetwork/startTime" => START.into(),
            "queryLedgerState/epoch" => epoch(chain.slot(chain.head)).into(),
            "queryLedgerState/eraStart" => era_start(),
            "queryLedgerState/eraSummaries" => era_summaries(),
            "queryNetwork/genesisConfiguration" => {
                let era = params["era"].as_str().and_then(genesis);
                era.ok_or_else(|| invalid("field 'era' must be one of byron, shelley, alonzo, conway"))?
            }
            "queryLedgerState/rewardAccountSummaries" => chain.reward_accounts(&credentials(params)?),
            "queryLedgerState/protocolParameters" => parameters(),
            "queryLedgerState/utxo" => self.utxo(params)?,
            "queryLedgerState/stakePools" => {
                let wanted = params["stakePools"].as_array().map(|rows| {
                    let id = |row: &Value| row["id"].as_str().map(str::to_owned);
                    rows.iter().map(|row| id(row).ok_or_else(|| invalid("malformed stake pool"))).collect()
                });
                let wanted: Option<Vec<String>> = wanted.transpose()?;
                chain.pools(wanted.as_deref(), params["includeStake"] == true)
            }
            "queryLedgerState/rewardsProvenance" => chain.provenance(),
            "submitTransaction" => {
                let bytes = cbor(params)?;
                let tx = Tx::read(&bytes).map_err(|why| undecodable(&why))?;
                let id = hex::encode(tx.id);
                self.chain.submit(&tx, bytes, now)?;
                object! { "transaction": object! { "id": id } }
            }
            "evaluateTransaction" => {
                let tx = Tx::read(&cbor(params)?).map_err(|why| undecodable(&why))?;
                if tx.has_scripts {
                    let message = "Scripts cannot be run here.".to_owned();
                    let data = object! { "reason": "scripts are not simulated" };
                    return Err(Fault { code: 3004, message, data: Some(data) });
                }
                Json::Array(Vec::new())
            }
            _ => return Err(invalid("unknown method in 'method' (beware names are case-sensitive)")),
        })
    }

    fn utxo(&self, params: &Value) -> Result<Json, Fault> {
        let list = |name: &str| match &params[name] {
            Value::Null => Ok(None),
            Value::Array(items) => Ok(Some(items.clone())),
            _ => Err(invalid(&format!("field '{name}' must be a list"))),
        };
        let addresses = list("addresses")?;
        let references = list("outputReferences")?;
        let addresses: Option<Vec<Vec<u8>>> = addresses
            .map(|items| {
                let read = |item: &Value| {
                    let found = item.as_str().and_then(address);
                    found.ok_or_else(|| {
                        invalid("failed to decode an address: neither Base16 nor Bech32 of this network")
                    })
                };
                items.iter().map(read).collect()
            })
            .transpose()?;
        let references: Option<Vec<Reference>> = references
            .map(|items| {
                let read = |item: &Value| {
                    let id = item["transaction"]["id"].as_str().and_then(|id| hex::decode(id).ok());
                    let id = id.and_then(|id| id.try_into().ok());
                    let found = id.and_then(|id| Some((id, item["index"].as_u64()?)));
                    found.ok_or_else(|| invalid("malformed output reference"))
                };
                items.iter().map(read).collect()
            })
            .transpose()?;
        let rows = self.chain.unspent().filter(|(reference, output)| {
            addresses.as_ref().is_none_or(|wanted| wanted.contains(&output.address))
                && references.as_ref().is_none_or(|wanted| wanted.contains(reference))
        });
        Ok(rows.map(|(reference, output)| output.json(&reference)).collect::<Vec<_>>().into())
    }

    /// Answers `GET /health`, which the official client requests before it connects.
    pub(super) fn health(&self, now: Time) -> Json {
        let chain = &self.chain;
        let slot = chain.slot(chain.head);
        let mut tip = chain.tip();
        tip.put("height", chain.head);
        object! {
            "startTime": utc::seconds(self.since.unwrap_or(now)),
            "lastKnownTip": tip,
            "lastTipUpdate": utc::seconds(Time::from_secs(chain.secs(chain.head))),
            "networkSynchronization": Json::float(1.0),
            "currentEra": "conway",
            "metrics": object! {
                "activeConnections": 0u64,
                "runtimeStats": object! {
                    "cpuTime": 0u64, "currentHeapSize": 0u64, "gcCpuTime": 0u64, "maxHeapSize": 0u64,
                },
                "sessionDurations": object! { "max": 0u64, "mean": 0u64, "min": 0u64 },
                "totalConnections": 0u64,
                "totalMessages": 0u64,
                "totalUnrouted": 0u64,
            },
            "connectionStatus": "connected",
            "currentEpoch": epoch(slot),
            "slotInEpoch": slot.saturating_sub(4_492_800) % EPOCH_SLOTS,
            "version": "v6.14.0 (simulated)",
            "network": "mainnet",
        }
    }
}

/// Reads the key hashes of a query for reward accounts: in hex, or as reward accounts in Bech32.
fn credentials(params: &Value) -> Result<Vec<[u8; 28]>, Fault> {
    let lists = ["keys", "scripts"].map(|name| params[name].as_array().map_or(&[][..], Vec::as_slice));
    let read = |item: &Value| {
        let found = item.as_str().and_then(reward_credential);
        found.ok_or_else(|| invalid("failed to decode a stake credential: neither Base16 nor Bech32"))
    };
    lists.concat().iter().map(read).collect()
}

/// Reads the bytes of a transaction in hex.
fn cbor(params: &Value) -> Result<Vec<u8>, Fault> {
    let text = params["transaction"]["cbor"].as_str();
    let text = text.ok_or_else(|| invalid("field 'transaction' must be an object with a field 'cbor'"))?;
    hex::decode(text).map_err(|_| undecodable("failed to decode payload from base16"))
}

/// Returns the error of Ogmios for bytes that are not a transaction: the reason in each era.
fn undecodable(why: &str) -> Fault {
    let rows = ERAS.map(|era| (era.into(), Json::from(why.to_owned())));
    let message =
        "Invalid transaction: it could not be read as one of any era. 'data' says why for each.".to_owned();
    Fault { code: -32_602, message, data: Some(Json::Object(rows.to_vec())) }
}
