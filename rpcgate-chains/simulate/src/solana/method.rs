//! The methods of a Solana node, and its accounts as JSON.

use super::chain::{Chain, Commitment, EPOCH_SLOTS, FIRST, Key, SYSTEM};
use crate::envelope::Fault;
use crate::hash::{base58, from_base58};
use crate::json::{Json, object};
use serde_json::Value;

const VERSION: &str = "2.3.13";
/// The maximum number of signatures in one `getSignatureStatuses`.
const SIGNATURES: usize = 256;
/// A blockhash is valid for this many blocks.
const VALID: u64 = 150;

pub(super) fn invalid(why: impl Into<String>) -> Fault {
    Fault::new(-32602, why)
}

/// Returns a parameter by its position.
pub(super) fn parameter(params: &Value, place: usize) -> &Value {
    params.get(place).unwrap_or(&Value::Null)
}

/// Returns the commitment that an object of options names; finalized by default.
pub(super) fn commitment(options: &Value) -> Result<Commitment, Fault> {
    match &options["commitment"] {
        Value::Null => Ok(Commitment::Finalized),
        Value::String(name) => match name.as_str() {
            "processed" => Ok(Commitment::Processed),
            "confirmed" => Ok(Commitment::Confirmed),
            "finalized" => Ok(Commitment::Finalized),
            name => Err(invalid(format!(
                "Invalid params: unknown variant `{name}`, expected one of `processed`, `confirmed`, `finalized`."
            ))),
        },
        _ => Err(invalid("Invalid params: invalid type of `commitment`, expected a string.")),
    }
}

/// Reads a public key.
pub(super) fn key(value: &Value) -> Result<Key, Fault> {
    let text = value.as_str().ok_or_else(|| invalid("Invalid params: invalid type, expected a string."))?;
    if bs58::decode(text).into_vec().is_err() {
        return Err(invalid("Invalid param: Invalid"));
    }
    from_base58(text).ok_or_else(|| invalid("Invalid param: WrongSize"))
}

/// The encoding of account data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// A string in base58: the default.
    Plain,
    /// An array of the data and this name of the encoding.
    Named(&'static str),
}

impl Encoding {
    pub(super) fn read(options: &Value) -> Result<Self, Fault> {
        match &options["encoding"] {
            Value::Null => Ok(Encoding::Plain),
            name => match name.as_str() {
                Some("base58") => Ok(Encoding::Named("base58")),
                // Data is not parsed, since its program is unknown.
                Some("base64" | "jsonParsed") => Ok(Encoding::Named("base64")),
                Some("base64+zstd") => Ok(Encoding::Named("base64+zstd")),
                _ => Err(invalid("Invalid params: unknown variant of `encoding`.")),
            },
        }
    }
}

impl Chain {
    /// Returns a plain account, which has no data; `None` if it does not exist.
    pub(super) fn account(&self, key: &Key, slot: u64, encoding: Encoding) -> Option<Json> {
        let lamports = self.lamports(key, slot);
        (lamports > 0).then(|| {
            object! {
                "data": match encoding {
                    Encoding::Plain => "".into(),
                    // An empty frame of Zstandard.
                    Encoding::Named("base64+zstd") => Json::from(vec!["KLUv/SAAAQAA", "base64+zstd"]),
                    Encoding::Named(name) => Json::from(vec!["", name]),
                },
                "executable": false,
                "lamports": lamports,
                "owner": base58(&SYSTEM),
                "rentEpoch": u64::MAX,
                "space": 0u64,
            }
        })
    }

    pub(super) fn call(&self, method: &str, params: &Value) -> Result<Json, Fault> {
        let slot =
            |place| commitment(parameter(params, place)).map(|commitment| self.head - commitment.lag());
        let with_context = |slot: u64, value: Json| {
            object! { "context": object! { "apiVersion": VERSION, "slot": slot }, "value": value }
        };
        Ok(match method {
            "getHealth" => "ok".into(),
            "getVersion" => object! { "feature-set": 3_640_012_085u64, "solana-core": VERSION },
            "getGenesisHash" => "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d".into(),
            "getIdentity" => object! { "identity": base58(&self.seed.bytes::<32>("identity", 0)) },
            "getSlot" => slot(0)?.into(),
            "getBlockHeight" => Chain::block_height(slot(0)?).into(),
            "getTransactionCount" => self.transactions(slot(0)?).into(),
            "getFirstAvailableBlock" | "minimumLedgerSlot" => FIRST.into(),
            "getEpochInfo" => {
                let slot = slot(0)?;
                object! {
                    "absoluteSlot": slot, "blockHeight": Chain::block_height(slot), "epoch": slot / EPOCH_SLOTS,
                    "slotIndex": slot % EPOCH_SLOTS, "slotsInEpoch": EPOCH_SLOTS,
                    "transactionCount": self.transactions(slot),
                }
            }
            "getLatestBlockhash" => {
                let slot = slot(0)?;
                let last = Chain::block_height(slot) + VALID;
                with_context(slot, object! { "blockhash": self.hash(slot), "lastValidBlockHeight": last })
            }
            "getBlock" => self.block(params)?,
            "getBlocks" | "getBlocksWithLimit" => self.blocks(params, method == "getBlocksWithLimit")?,
            "getBlockTime" => {
                let slot = parameter(params, 0)
                    .as_u64()
                    .ok_or_else(|| invalid("`params` should have at least 1 argument(s)"))?;
                if !(FIRST..=self.head).contains(&slot) {
                    return Err(Fault::new(-32004, format!("Block not available for slot {slot}")));
                }
                self.time(slot).secs().into()
            }
            "getBalance" => {
                let key = key(parameter(params, 0))?;
                let slot = slot(1)?;
                with_context(slot, self.lamports(&key, slot).into())
            }
            "getAccountInfo" => {
                let key = key(parameter(params, 0))?;
                let slot = slot(1)?;
                let encoding = Encoding::read(parameter(params, 1))?;
                with_context(slot, self.account(&key, slot, encoding).into())
            }
            "getMinimumBalanceForRentExemption" => {
                let space = parameter(params, 0)
                    .as_u64()
                    .ok_or_else(|| invalid("`params` should have at least 1 argument(s)"))?;
                space.saturating_add(128).saturating_mul(6_960).into()
            }
            "getSignatureStatuses" => {
                let list = parameter(params, 0).as_array();
                let list = list.ok_or_else(|| invalid("`params` should have at least 1 argument(s)"))?;
                if list.len() > SIGNATURES {
                    return Err(invalid(format!("Too many inputs provided; max {SIGNATURES}")));
                }
                let row = |signature: &Value| -> Result<Json, Fault> {
                    let signature = signature.as_str().and_then(from_base58::<64>);
                    let signature = signature.ok_or_else(|| invalid("Invalid param: WrongSize"))?;
                    Ok(self.slot_of(&signature).map(|slot| self.status(slot)).into())
                };
                with_context(self.head, list.iter().map(row).collect::<Result<Vec<_>, _>>()?.into())
            }
            _ => return Err(Fault::new(-32601, "Method not found")),
        })
    }

    fn status(&self, slot: u64) -> Json {
        let depth = self.head - slot;
        let (name, confirmations): (&str, Json) = match depth {
            depth if depth >= Commitment::Finalized.lag() => ("finalized", Json::Null),
            depth if depth >= Commitment::Confirmed.lag() => ("confirmed", depth.into()),
            _ => ("processed", 0u64.into()),
        };
        object! {
            "confirmationStatus": name.to_owned(), "confirmations": confirmations, "err": Json::Null,
            "slot": slot, "status": object! { "Ok": Json::Null },
        }
    }
}
