//! Blocks as Ogmios shows them to clients that follow the chain.

use super::chain::{Chain, MINTED};
use super::network::ada;
use super::tx::{Output, Reference, Tx, assets, bech32};
use crate::json::{Json, object};

/// The number of slots in a period of a key-evolving signature.
const KES_SLOTS: u64 = 129_600;

fn input((id, index): &Reference) -> Json {
    object! { "transaction": object! { "id": hex::encode(id) }, "index": *index }
}

fn output(output: &Output) -> Json {
    object! { "address": bech32("addr", &output.address), "value": output.value() }
}

impl Tx {
    fn in_block(&self) -> Json {
        let mut interval = object! {};
        for (name, bound) in [("invalidBefore", self.valid.0), ("invalidAfter", self.valid.1)] {
            if let Some(bound) = bound {
                interval.put(name, bound);
            }
        }
        let signatories = self.signatures.iter().map(|(key, signature)| {
            object! { "key": hex::encode(key), "signature": hex::encode(signature) }
        });
        object! {
            "id": hex::encode(self.id),
            "spends": "inputs",
            "inputs": self.inputs.iter().map(input).collect::<Vec<_>>(),
            "outputs": self.outputs.iter().map(output).collect::<Vec<_>>(),
            "fee": ada(self.fee),
            "validityInterval": interval,
            "signatories": signatories.collect::<Vec<_>>(),
        }
    }
}

impl Chain {
    /// Returns the residents' transaction in block `height`. Its signatures are random, since the keys do not exist.
    fn traffic_in_block(&self, height: u64) -> Json {
        let (inputs, outputs, fee) = self.traffic(height);
        let id = outputs.first().map_or([0; 32], |((id, _), _)| *id);
        let signatories = [0, 1].map(|side| {
            let n = height << 1 | side;
            object! {
                "key": hex::encode(self.seed.bytes::<32>("key", 2 * (height % 16) + side)),
                "signature": hex::encode(self.seed.bytes::<64>("signature", n)),
            }
        });
        object! {
            "id": hex::encode(id),
            "spends": "inputs",
            "inputs": inputs.iter().map(input).collect::<Vec<_>>(),
            "outputs": outputs.iter().map(|(_, made)| output(made)).collect::<Vec<_>>(),
            "fee": ada(fee),
            "validityInterval": object! {},
            "signatories": Vec::from(signatories),
        }
    }

    /// Returns the transaction in block `height` that mints tokens by a script. The script does not run, and its code
    /// is random.
    fn minting_in_block(&self, height: u64) -> Option<Json> {
        let (spent, ((id, _), made), fee) = self.minting(height)?;
        let policy = || hex::encode(self.policy()).into();
        let script =
            object! { "language": "plutus:v2", "cbor": hex::encode(self.seed.bytes::<48>("script", 0)) };
        let redeemer = object! {
            "redeemer": "d87980",
            "executionUnits": object! { "memory": 21_000u64, "cpu": 6_400_000u64 },
            "validator": object! { "index": 0u64, "purpose": "mint" },
        };
        let signatory = object! {
            "key": hex::encode(self.seed.bytes::<32>("minter key", 0)),
            "signature": hex::encode(self.seed.bytes::<64>("minter signature", height)),
        };
        Some(object! {
            "id": hex::encode(id),
            "spends": "inputs",
            "inputs": vec![input(&spent)],
            "collaterals": vec![input(&spent)],
            "outputs": vec![output(&made)],
            "mint": Json::Object(vec![(policy(), assets(MINTED))]),
            "fee": ada(fee),
            "validityInterval": object! {},
            "scriptIntegrityHash": hex::encode(self.seed.bytes::<32>("integrity", height)),
            "signatories": vec![signatory],
            "scripts": Json::Object(vec![(policy(), script)]),
            "redeemers": vec![redeemer],
        })
    }

    pub(super) fn block(&self, height: u64) -> Json {
        let included = self.included(height);
        let mut transactions = vec![self.traffic_in_block(height)];
        transactions.extend(self.minting_in_block(height));
        transactions.extend(included.iter().map(Tx::in_block));
        let word = |tag: &str, n: u64| hex::encode(self.seed.bytes::<32>(tag, n));
        let slot = self.slot(height);
        let pool = self.seed.below("leader", height, 12);
        let size: usize = included.iter().map(|tx| tx.size).sum();
        object! {
            "type": "praos",
            "era": "conway",
            "id": hex::encode(self.seed.hide("block", height)),
            "ancestor": hex::encode(self.seed.hide("block", height - 1)),
            "height": height,
            "size": object! { "bytes": 1_200 + size },
            "slot": slot,
            "transactions": transactions,
            "protocol": object! { "version": object! { "major": 10u64, "minor": 0u64 } },
            "issuer": object! {
                "verificationKey": word("issuer", pool),
                "vrfVerificationKey": word("vrf", pool),
                "operationalCertificate": object! {
                    "count": 7u64,
                    "kes": object! { "period": slot / KES_SLOTS, "verificationKey": word("kes", pool) },
                },
                "leaderValue": object! {
                    "proof": hex::encode(self.seed.bytes::<80>("proof", height)),
                    "output": hex::encode(self.seed.bytes::<64>("leader value", height)),
                },
            },
        }
    }
}
