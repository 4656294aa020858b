//! The JSON of checkpoints, transactions and coins.

use super::chain::{Chain, Entry, Gas, Recorded, object_digest};
use super::program::{Change, Coin};
use super::tx::{Id, RECORD, hex_id, reference_json};
use crate::bytes::put_length;
use crate::hash::base58;
use crate::json::{Json, object};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::collections::BTreeMap;

/// The type of the chain's own coin, and of an object that holds it.
pub(crate) const COIN_TYPE: &str = "0x2::sui::SUI";
pub(crate) const OBJECT_TYPE: &str = "0x2::coin::Coin<0x2::sui::SUI>";
/// The digest of a deleted object.
const GONE: &str = "7gyGAp71YXQRoxmFBaHxofQXAipvgHyBKPyxmdSJxyvz";
/// The first checkpoint of the main network; clients identify the chain by its digest.
pub(crate) const GENESIS: &str = "4btiuiMPvEENsttpZC7CZ53DruC3MAgfznDbASZ7DR6S";
const GENESIS_MILLIS: u64 = 1_681_393_657_483;

/// The parts of a transaction or an object that a request selects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options<'a>(pub(crate) &'a Value);

impl Options<'_> {
    pub(crate) fn wants(self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }
}

/// An object at its current version.
pub(super) struct Object {
    pub(super) kind: &'static str,
    pub(super) version: u64,
    pub(super) owner: Json,
    pub(super) previous: Id,
    pub(super) rebate: &'static str,
    /// `true` if its owner can transfer it.
    pub(super) is_public: bool,
    pub(super) fields: Json,
    /// The content after the id in BCS: a number.
    pub(super) content: u64,
}

fn owner_json(owner: &Id) -> Json {
    object! { "AddressOwner": hex_id(owner) }
}

impl Gas {
    fn json(self) -> Json {
        object! {
            "computationCost": self.computation.to_string(),
            "storageCost": self.storage.to_string(),
            "storageRebate": self.rebate.to_string(),
            "nonRefundableStorageFee": self.lost.to_string(),
        }
    }
}

impl Change {
    /// Returns the object after the transaction, with its owner.
    fn owned(&self) -> Option<Json> {
        let coin = self.after?;
        let reference = (self.id, coin.version, object_digest(&self.id, coin.version));
        Some(object! { "owner": owner_json(&coin.owner), "reference": reference_json(&reference) })
    }
}

impl Entry {
    fn changed(&self, created: bool) -> Vec<Json> {
        let those = self.changes.iter().filter(|change| change.before.is_none() == created);
        those.filter_map(Change::owned).collect()
    }

    fn lamport(&self) -> u64 {
        self.changes.iter().filter_map(|change| change.after).map(|coin| coin.version).max().unwrap_or(0)
    }

    pub(crate) fn effects(&self, epoch: u64) -> Json {
        let status = match &self.failure {
            None => object! { "status": "success" },
            Some(why) => object! { "status": "failure", "error": why.clone() },
        };
        let modified = self.changes.iter().filter_map(|change| {
            let before = change.before?;
            Some(object! { "objectId": hex_id(&change.id), "sequenceNumber": before.version.to_string() })
        });
        let gone = self.changes.iter().filter(|change| change.after.is_none());
        let deleted: Vec<Json> = gone
            .map(|change| {
                object! { "objectId": hex_id(&change.id), "version": self.lamport(), "digest": GONE }
            })
            .collect();
        let gas = self.changes.iter().find(|change| change.id == self.gas_coin).and_then(Change::owned);
        let mut out = object! {
            "messageVersion": "v1",
            "status": status,
            "executedEpoch": epoch.to_string(),
            "gasUsed": self.gas.json(),
            "modifiedAtVersions": Json::Array(modified.collect()),
            "transactionDigest": base58(&self.digest),
        };
        let created = self.changed(true);
        if !created.is_empty() {
            out.put("created", created);
        }
        out.put("mutated", self.changed(false));
        if !deleted.is_empty() {
            out.put("deleted", deleted);
        }
        out.put("gasObject", gas);
        if let Some(Recorded { coin, value, .. }) = self.recorded {
            out.put("eventsDigest", base58(&object_digest(&coin, value)));
        }
        out.put("dependencies", self.dependencies.iter().map(|id| base58(id)).collect::<Vec<_>>());
        out
    }

    pub(crate) fn object_changes(&self) -> Json {
        let sender = || Json::from(hex_id(&self.tx.sender));
        let show = |change: &Change| {
            let id = hex_id(&change.id);
            match (change.before, change.after) {
                (before, Some(after)) => {
                    let mut out = object! {
                        "type": if before.is_some() { "mutated" } else { "created" },
                        "sender": sender(), "owner": owner_json(&after.owner), "objectType": OBJECT_TYPE,
                        "objectId": id, "version": after.version.to_string(),
                    };
                    if let Some(before) = before {
                        out.put("previousVersion", before.version.to_string());
                    }
                    out.put("digest", base58(&object_digest(&change.id, after.version)));
                    out
                }
                (_, None) => object! {
                    "type": "deleted", "sender": sender(), "objectType": OBJECT_TYPE, "objectId": id,
                    "version": self.lamport().to_string(),
                },
            }
        };
        Json::Array(self.changes.iter().map(show).collect())
    }

    pub(crate) fn balance_changes(&self) -> Json {
        let mut sums: BTreeMap<Id, i128> = BTreeMap::new();
        for Change { before, after, .. } in &self.changes {
            for (coin, sign) in [(before, -1), (after, 1)] {
                if let Some(Coin { owner, balance, .. }) = coin {
                    *sums.entry(*owner).or_default() += sign * i128::from(*balance);
                }
            }
        }
        let moved = sums.into_iter().filter(|(_, sum)| *sum != 0);
        let shown = moved.map(|(owner, sum)| {
            object! { "owner": owner_json(&owner), "coinType": COIN_TYPE, "amount": sum.to_string() }
        });
        Json::Array(shown.collect())
    }

    pub(crate) fn events(&self) -> Json {
        let show = |recorded: Recorded| {
            let Recorded { package, coin, from, to, value } = recorded;
            let [module, _] = RECORD;
            let bytes = [&coin[..], &from, &to, &value.to_le_bytes()].concat();
            object! {
                "id": object! { "txDigest": base58(&self.digest), "eventSeq": "0" },
                "packageId": hex_id(&package), "transactionModule": module, "sender": hex_id(&self.tx.sender),
                "type": format!("{}::{module}::Payment", hex_id(&package)),
                "parsedJson": object! {
                    "coin": hex_id(&coin), "from": hex_id(&from), "to": hex_id(&to), "value": value.to_string(),
                },
                "bcsEncoding": "base64", "bcs": STANDARD.encode(bytes),
            }
        };
        Json::Array(self.recorded.into_iter().map(show).collect())
    }

    /// Returns the signed bytes with their signatures, in BCS.
    fn packed(&self) -> Vec<u8> {
        let mut out = vec![1, 0, 0, 0];
        out.extend_from_slice(&self.raw);
        put_length(self.signatures.len(), &mut out);
        for signature in &self.signatures {
            put_length(signature.len(), &mut out);
            out.extend_from_slice(signature);
        }
        out
    }
}

impl Chain {
    /// Returns a transaction with the parts that the request selects.
    pub(crate) fn transaction_json(&self, entry: &Entry, options: Options<'_>) -> Json {
        let mut out = object! { "digest": base58(&entry.digest) };
        if options.wants("showInput") {
            let signatures = entry.signatures.iter().map(|raw| STANDARD.encode(raw)).collect::<Vec<_>>();
            out.put("transaction", object! { "data": entry.tx.json(), "txSignatures": signatures });
        }
        if options.wants("showRawInput") {
            out.put("rawTransaction", STANDARD.encode(entry.packed()));
        }
        if options.wants("showEffects") {
            out.put("effects", entry.effects(self.epoch(entry.checkpoint)));
        }
        if options.wants("showEvents") {
            out.put("events", entry.events());
        }
        if options.wants("showObjectChanges") {
            out.put("objectChanges", entry.object_changes());
        }
        if options.wants("showBalanceChanges") {
            out.put("balanceChanges", entry.balance_changes());
        }
        if entry.checkpoint <= self.head {
            out.put("timestampMs", self.millis(entry.checkpoint).to_string());
            out.put("checkpoint", entry.checkpoint.to_string());
        }
        out
    }

    pub(crate) fn checkpoint_json(&self, number: u64) -> Json {
        let none = || Json::Array(Vec::new());
        if number == 0 {
            return object! {
                "epoch": "0", "sequenceNumber": "0", "digest": GENESIS, "networkTotalTransactions": "1",
                "epochRollingGasCostSummary": Gas::default().json(),
                "timestampMs": GENESIS_MILLIS.to_string(),
                "transactions": vec![base58(&self.seed.bytes::<32>("genesis", 0))],
                "checkpointCommitments": none(), "validatorSignature": STANDARD.encode([0; 48]),
            };
        }
        let listed = self.listed(number).iter().map(|digest| base58(digest)).collect::<Vec<_>>();
        object! {
            "epoch": self.epoch(number).to_string(),
            "sequenceNumber": number.to_string(),
            "digest": base58(&self.checkpoint_digest(number)),
            "networkTotalTransactions": self.total(number).to_string(),
            "previousDigest": base58(&self.checkpoint_digest(number - 1)),
            "epochRollingGasCostSummary": self.rolling(number).json(),
            "timestampMs": self.millis(number).to_string(),
            "transactions": listed,
            "checkpointCommitments": none(),
            "validatorSignature": STANDARD.encode(self.seed.bytes::<48>("signature", number)),
        }
    }

    /// Returns the current state of an object: a coin or a system object.
    fn object(&self, id: &Id) -> Option<Object> {
        self.system(id).or_else(|| {
            let (coin, previous) = self.coin(id)?;
            Some(Object {
                kind: OBJECT_TYPE,
                version: coin.version,
                owner: owner_json(&coin.owner),
                previous,
                rebate: "988000",
                is_public: true,
                fields: object! { "balance": coin.balance.to_string(), "id": object! { "id": hex_id(id) } },
                content: coin.balance,
            })
        })
    }

    /// Returns an object, or the error for one that does not exist.
    pub(crate) fn object_json(&self, id: &Id, options: Options<'_>) -> Json {
        let Some(object) = self.object(id) else {
            let error = match self.last_version(id) {
                Some(version) => object! {
                    "code": "deleted", "object_id": hex_id(id), "version": version, "digest": GONE,
                },
                None => object! { "code": "notExists", "object_id": hex_id(id) },
            };
            return object! { "error": error };
        };
        let Object { kind, version, owner, previous, rebate, is_public, fields, content } = object;
        let mut out = object! {
            "objectId": hex_id(id), "version": version.to_string(), "digest": base58(&object_digest(id, version)),
        };
        let bcs = object! {
            "dataType": "moveObject", "type": kind, "hasPublicTransfer": is_public, "version": version,
            "bcsBytes": STANDARD.encode(coin_bytes(id, content)),
        };
        let fields = object! {
            "dataType": "moveObject", "type": kind, "hasPublicTransfer": is_public, "fields": fields,
        };
        for (option, name, part) in [
            ("showType", "type", kind.into()),
            ("showOwner", "owner", owner),
            ("showPreviousTransaction", "previousTransaction", base58(&previous).into()),
            ("showStorageRebate", "storageRebate", rebate.into()),
            ("showDisplay", "display", object! { "data": Json::Null, "error": Json::Null }),
            ("showContent", "content", fields),
            ("showBcs", "bcs", bcs),
        ] {
            if options.wants(option) {
                out.put(name, part);
            }
        }
        object! { "data": out }
    }
}

/// Returns the content of a coin in BCS.
pub(crate) fn coin_bytes(id: &Id, balance: u64) -> Vec<u8> {
    [&id[..], &balance.to_le_bytes()].concat()
}
