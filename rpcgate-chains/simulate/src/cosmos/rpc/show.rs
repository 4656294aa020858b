//! The JSON of CometBFT's RPC.

use crate::cosmos::block::BlockForm;
use crate::cosmos::chain::{CHAIN, Chain, Entry};
use crate::cosmos::page::base64;
use crate::cosmos::service::{events, responses};
use crate::cosmos::staking::Validator;
use crate::json::{Json, object};

const VERSION: &str = "0.38.19";

/// Returns the consensus parameters that clients read.
pub(super) fn consensus_params() -> Json {
    object! {
        "block": object! { "max_bytes": "200000", "max_gas": "75000000" },
        "evidence": object! {
            "max_age_num_blocks": "1000000", "max_age_duration": "172800000000000", "max_bytes": "50000",
        },
        "validator": object! { "pub_key_types": vec!["ed25519"] },
        "version": object! {},
        "abci": object! { "vote_extensions_enable_height": "0" },
    }
}

fn public_key(validator: Validator) -> Json {
    object! { "type": "tendermint/PubKeyEd25519", "value": base64(validator.key()) }
}

fn address(validator: Validator) -> String {
    hex::encode_upper(validator.consensus())
}

pub(super) fn tx_result(entry: &Entry) -> Json {
    let outcome = &entry.outcome;
    let data = (outcome.code == 0).then(|| base64(responses(&entry.tx.content.sends)));
    object! {
        "code": outcome.code,
        "data": data,
        "log": outcome.log.clone(),
        "info": "",
        "gas_wanted": entry.tx.content.gas.to_string(),
        "gas_used": outcome.gas_used.to_string(),
        "events": events(entry),
        "codespace": outcome.codespace(),
    }
}

impl Chain {
    fn upper_word(&self, tag: &str, n: u64) -> String {
        hex::encode_upper(self.seed.bytes::<32>(tag, n))
    }

    pub(super) fn comet_header(&self, height: u64) -> Json {
        let hashes: Vec<_> = self.entries(height).iter().map(|entry| entry.tx.hash).collect();
        self.header(height, &hashes, BlockForm::Comet)
    }

    pub(super) fn comet_block(&self, height: u64) -> Json {
        let block = self.whole(height, &self.block_txs(height), BlockForm::Comet);
        object! { "block_id": self.id(height, BlockForm::Comet), "block": block }
    }

    pub(super) fn block_meta(&self, height: u64) -> Json {
        let txs = self.block_txs(height);
        let size: usize = txs.iter().map(|tx| tx.raw.len()).sum();
        object! {
            "block_id": self.id(height, BlockForm::Comet),
            "block_size": (size + 9_600).to_string(),
            "header": self.comet_header(height),
            "num_txs": txs.len().to_string(),
        }
    }

    /// Returns the results of a block, as `block_results` and events show them.
    pub(super) fn finalized(&self, height: u64) -> Json {
        let results = self.entries(height).iter().map(tx_result).collect::<Vec<_>>();
        object! {
            "events": Json::Array(Vec::new()),
            "tx_results": results,
            "validator_updates": Json::Array(Vec::new()),
            "consensus_param_updates": Json::Null,
            "app_hash": base64(self.seed.bytes::<32>("app", height)),
        }
    }

    pub(super) fn block_results(&self, height: u64) -> Json {
        let results = self.entries(height).iter().map(tx_result).collect::<Vec<_>>();
        object! {
            "height": height.to_string(),
            "txs_results": results,
            "finalize_block_events": Json::Array(Vec::new()),
            "validator_updates": Json::Null,
            "consensus_param_updates": Json::Null,
            "app_hash": base64(self.seed.bytes::<32>("app", height)),
        }
    }

    pub(super) fn comet_validators(&self, height: u64) -> Vec<Json> {
        let row = |(validator, power, priority): (Validator, u64, i64)| {
            object! {
                "address": address(validator), "pub_key": public_key(validator),
                "voting_power": power.to_string(), "proposer_priority": priority.to_string(),
            }
        };
        self.powers(height).into_iter().map(row).collect()
    }

    pub(super) fn comet_tx(&self, entry: &Entry) -> Json {
        let block = self.entries(entry.height);
        let index = block.iter().position(|one| one.tx.hash == entry.tx.hash).unwrap_or(0);
        object! {
            "hash": entry.tx.name(), "height": entry.height.to_string(), "index": index,
            "tx_result": tx_result(entry), "tx": base64(&entry.tx.raw),
        }
    }

    pub(super) fn abci_info(&self) -> Json {
        object! {
            "response": object! {
                "data": "GaiaApp", "version": "v25.2.0", "last_block_height": self.head.to_string(),
                "last_block_app_hash": base64(self.seed.bytes::<32>("app", self.head)),
            },
        }
    }

    pub(super) fn comet_status(&self) -> Json {
        let block = |height: u64, name: [&'static str; 4]| {
            let mut out = object! {};
            out.put(name[0], hex::encode_upper(self.seed.hide("block", height)));
            out.put(name[1], self.upper_word("app", height));
            out.put(name[2], height.to_string());
            out.put(name[3], self.time_text(height));
            out
        };
        let latest = ["latest_block_hash", "latest_app_hash", "latest_block_height", "latest_block_time"];
        let earliest =
            ["earliest_block_hash", "earliest_app_hash", "earliest_block_height", "earliest_block_time"];
        let mut sync = block(self.head, latest);
        sync.extend(block(self.oldest(), earliest));
        sync.put("catching_up", false);
        // A node that does not validate has a key as well, without voting power.
        let key = self.seed.bytes::<32>("node key", 0);
        object! {
            "node_info": object! {
                "protocol_version": object! { "p2p": "8", "block": "11", "app": "0" },
                "id": hex::encode(self.seed.bytes::<20>("node", 0)),
                "listen_addr": "tcp://0.0.0.0:26656",
                "network": CHAIN,
                "version": VERSION,
                "channels": "40202122233038606100",
                "moniker": "simulated",
                "other": object! { "tx_index": "on", "rpc_address": "tcp://127.0.0.1:26657" },
            },
            "sync_info": sync,
            "validator_info": object! {
                "address": hex::encode_upper(&crate::hash::sha256(&key)[..20]),
                "pub_key": object! { "type": "tendermint/PubKeyEd25519", "value": base64(key) },
                "voting_power": "0",
            },
        }
    }
}
