//! The JSON of blocks, chunks and transactions.

use super::chain::{Chain, EPOCH_LENGTH, Entry, Outcome, Receipt, SHARDS, Status, shard};
use super::state::{GAS_PRICE, NEAR};
use super::tx::Hash;
use crate::hash::base58;
use crate::json::{Json, object};
use crate::utc;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

pub(crate) const PROTOCOL: u64 = 81;
/// The gas limit of a chunk.
const GAS_LIMIT: u64 = 1_000_000_000_000_000;
/// The block producers in the order of their turns, with their stakes in NEAR.
const VALIDATORS: [(&str, u64); 9] = [
    ("astro-stakers.poolv1.near", 12_450_118),
    ("figment.poolv1.near", 21_904_433),
    ("bisontrails2.poolv1.near", 18_230_007),
    ("zavodil.poolv1.near", 9_011_540),
    ("everstake.poolv1.near", 8_604_921),
    ("aurora.pool.near", 7_312_066),
    ("epic.poolv1.near", 6_005_870),
    ("stakely_v2.poolv1.near", 4_880_012),
    ("rekt.poolv1.near", 3_117_245),
];

impl Chain {
    fn named(&self, tag: &str, height: u64) -> Json {
        base58(&self.seed.bytes::<32>(tag, height)).into()
    }

    fn block_name(&self, height: u64) -> Json {
        base58(&self.block_hash(height)).into()
    }

    fn producer(&self, height: u64) -> &'static str {
        VALIDATORS[self.seed.below("producer", height, VALIDATORS.len() as u64) as usize].0
    }

    fn signature(&self, tag: &str, height: u64) -> Json {
        format!("ed25519:{}", base58(&self.seed.bytes::<64>(tag, height))).into()
    }

    /// Returns the height of the first block of the epoch of `height`.
    pub(crate) fn epoch_start(height: u64) -> u64 {
        height / EPOCH_LENGTH * EPOCH_LENGTH
    }

    /// Returns the id of an epoch: the hash of the last block two epochs before it.
    pub(crate) fn epoch_id(&self, height: u64) -> Hash {
        self.block_hash(Chain::epoch_start(height) - EPOCH_LENGTH - 1)
    }

    /// Returns the first block of the epoch with an id.
    pub(crate) fn epoch_of(&self, id: &Hash) -> Option<u64> {
        let start = self.block_by_hash(id)? + 1 + EPOCH_LENGTH;
        (start.is_multiple_of(EPOCH_LENGTH) && start <= self.head).then_some(start)
    }

    pub(crate) fn block_json(&self, height: u64) -> Json {
        let chunks: Vec<Json> = (0..SHARDS).map(|shard| self.chunk_header(height, shard)).collect();
        let next_epoch = self.block_hash(Chain::epoch_start(height) - 1);
        let none = || Json::Array(Vec::new());
        let nanos = self.nanos(height);
        object! {
            "author": self.producer(height),
            "chunks": chunks,
            "header": object! {
                "approvals": vec![self.signature("approval", height), Json::Null],
                "block_body_hash": self.named("body", height),
                "block_merkle_root": self.named("merkle", height),
                "block_ordinal": height - 16_000_000,
                "challenges_result": none(),
                "challenges_root": base58(&[0; 32]),
                "chunk_endorsements": none(),
                "chunk_headers_root": self.named("headers", height),
                "chunk_mask": vec![true; SHARDS as usize],
                "chunk_receipts_root": self.named("receipts", height),
                "chunk_tx_root": self.named("transactions", height),
                "chunks_included": SHARDS,
                "epoch_id": base58(&self.epoch_id(height)),
                "epoch_sync_data_hash": Json::Null,
                "gas_price": GAS_PRICE.to_string(),
                "hash": self.block_name(height),
                "height": height,
                "last_ds_final_block": self.block_name(height - 1),
                "last_final_block": self.block_name(height - 2),
                "latest_protocol_version": PROTOCOL,
                "next_bp_hash": self.named("producers", Chain::epoch_start(height)),
                "next_epoch_id": base58(&next_epoch),
                "outcome_root": self.named("outcomes", height),
                "prev_hash": self.block_name(height - 1),
                "prev_height": height - 1,
                "prev_state_root": self.named("state", height - 1),
                "random_value": self.named("random", height),
                "rent_paid": "0",
                "signature": self.signature("block", height),
                "timestamp": nanos,
                "timestamp_nanosec": nanos.to_string(),
                "total_supply": (1_285_000_000 * NEAR + u128::from(height) * NEAR / 5).to_string(),
                "validator_proposals": none(),
                "validator_reward": "0",
            },
        }
    }

    fn chunk_header(&self, height: u64, number: u64) -> Json {
        let id = height * 16 + number;
        let gas: u64 = self.outcomes(height, number).iter().map(|(_, outcome)| outcome.gas).sum();
        let empty = base58(&[0; 32]);
        object! {
            "balance_burnt": (u128::from(gas) * GAS_PRICE).to_string(),
            "bandwidth_requests": object! { "V1": object! { "requests": Json::Array(Vec::new()) } },
            "chunk_hash": base58(&self.chunk_hash(height, number)),
            "congestion_info": object! {
                "allowed_shard": number, "buffered_receipts_gas": "0", "delayed_receipts_gas": "0",
                "receipt_bytes": 0u64,
            },
            "encoded_length": 308 + self.seed.below("length", id, 4_000),
            "encoded_merkle_root": self.named("encoded", id),
            "gas_limit": GAS_LIMIT,
            "gas_used": gas,
            "height_created": height,
            "height_included": height,
            "outcome_root": self.named("outcome", id),
            "outgoing_receipts_root": self.named("outgoing", id),
            "prev_block_hash": self.block_name(height - 1),
            "prev_state_root": self.named("state", id),
            "rent_paid": "0",
            "shard_id": number,
            "signature": self.signature("chunk", id),
            "tx_root": if gas == 0 { Json::from(empty) } else { self.named("root", id) },
            "validator_proposals": Json::Array(Vec::new()),
            "validator_reward": "0",
        }
    }

    /// Returns the outcomes in one shard of a block.
    fn outcomes(&self, height: u64, number: u64) -> Vec<(Entry, Outcome)> {
        let made = self.entries(height).into_iter().map(|entry| (entry.outcome.clone(), entry));
        let ran = self.receipts_of(height).into_iter().map(|(entry, receipt)| (receipt.outcome, entry));
        made.chain(ran)
            .filter(|(outcome, _)| shard(&outcome.executor) == number)
            .map(|(outcome, entry)| (entry, outcome))
            .collect()
    }

    /// Returns a chunk with its transactions and the receipts that run in it.
    pub(crate) fn chunk_json(&self, height: u64, number: u64) -> Json {
        let transactions: Vec<Json> = self
            .entries(height)
            .iter()
            .filter(|entry| shard(&entry.tx.signer) == number)
            .map(|entry| entry.tx.json())
            .collect();
        let receipts: Vec<Json> = self
            .receipts_of(height)
            .iter()
            .filter(|(_, receipt)| shard(&receipt.to) == number)
            .map(|(entry, receipt)| receipt.json(entry))
            .collect();
        object! {
            "author": self.producer(height),
            "header": self.chunk_header(height, number),
            "receipts": receipts,
            "transactions": transactions,
        }
    }

    fn outcome_json(&self, outcome: &Outcome) -> Json {
        let status = match &outcome.status {
            Status::Value(value) => object! { "SuccessValue": STANDARD.encode(value) },
            Status::Receipt(id) => object! { "SuccessReceiptId": base58(id) },
            Status::Failure(why) => object! { "Failure": why.clone() },
        };
        object! {
            "block_hash": self.block_name(outcome.height),
            "id": base58(&outcome.id),
            "outcome": object! {
                "executor_id": outcome.executor.clone(),
                "gas_burnt": outcome.gas,
                "logs": outcome.logs.clone(),
                "metadata": object! { "gas_profile": Json::Null, "version": 1u64 },
                "receipt_ids": outcome.receipts.iter().map(|id| base58(id)).collect::<Vec<_>>(),
                "status": status,
                "tokens_burnt": (u128::from(outcome.gas) * GAS_PRICE).to_string(),
            },
            "proof": Json::Array(Vec::new()),
        }
    }

    /// Returns the final outcome of a transaction. Receipts of future blocks are shown with their future outcome, which
    /// is already known.
    pub(crate) fn outcome_of(&self, entry: &Entry, receipts: bool) -> Json {
        let last = entry.receipts.first().map(|receipt| &receipt.outcome.status);
        let status = match last {
            Some(Status::Failure(why)) => object! { "Failure": why.clone() },
            Some(Status::Value(value)) => object! { "SuccessValue": STANDARD.encode(value) },
            _ => object! { "SuccessValue": "" },
        };
        let end = entry.end();
        let finality = if end + 2 <= self.head { "FINAL" } else { "EXECUTED_OPTIMISTIC" };
        let mut out = object! { "final_execution_status": finality };
        if receipts {
            let made = entry.receipts.iter().map(|receipt| receipt.json(entry)).collect::<Vec<_>>();
            out.put("receipts", made);
        }
        let ran =
            entry.receipts.iter().map(|receipt| self.outcome_json(&receipt.outcome)).collect::<Vec<_>>();
        out.put("receipts_outcome", ran);
        out.put("status", status);
        out.put("transaction", entry.tx.json());
        out.put("transaction_outcome", self.outcome_json(&entry.outcome));
        out
    }

    /// Returns the validators of the epoch that begins with block `start`.
    pub(crate) fn validators(&self, start: u64) -> Json {
        let passed = self.head.min(start + EPOCH_LENGTH - 1) - start;
        let key = |n: u64| format!("ed25519:{}", base58(&self.seed.bytes::<32>("validator", n)));
        let stake = |n: u64, staked: u64, epoch: u64| {
            let more = self.seed.below("stake", n + epoch, 40_000);
            (u128::from(staked + more) * NEAR).to_string()
        };
        let epoch = start / EPOCH_LENGTH;
        let mut current = Vec::new();
        let mut next = Vec::new();
        for (n, (name, staked)) in (0..).zip(VALIDATORS) {
            let due = passed / VALIDATORS.len() as u64;
            current.push(object! {
                "account_id": name,
                "is_slashed": false,
                "num_expected_blocks": due,
                "num_expected_chunks": passed,
                "num_expected_chunks_per_shard": vec![passed],
                "num_expected_endorsements": passed,
                "num_expected_endorsements_per_shard": vec![passed],
                "num_produced_blocks": due,
                "num_produced_chunks": passed,
                "num_produced_chunks_per_shard": vec![passed],
                "num_produced_endorsements": passed,
                "num_produced_endorsements_per_shard": vec![passed],
                "public_key": key(n),
                "shards": vec![n],
                "shards_endorsed": vec![n],
                "stake": stake(n, staked, epoch),
            });
            next.push(object! {
                "account_id": name, "public_key": key(n), "shards": vec![n],
                "stake": stake(n, staked, epoch + 1),
            });
        }
        let none = || Json::Array(Vec::new());
        object! {
            "current_fishermen": none(), "current_proposals": none(), "current_validators": current,
            "epoch_height": epoch - 200, "epoch_start_height": start, "next_fishermen": none(),
            "next_validators": next, "prev_epoch_kickout": none(),
        }
    }

    pub(crate) fn status(&self, uptime: u64) -> Json {
        let head = self.head;
        let oldest = self.oldest();
        let time = |height| utc::nanos(self.time(height), self.fraction(height));
        let validators: Vec<Json> =
            VALIDATORS.iter().map(|(name, _)| object! { "account_id": *name, "is_slashed": false }).collect();
        let node = format!("ed25519:{}", base58(&self.seed.bytes::<32>("node", 0)));
        object! {
            "chain_id": "mainnet",
            "detailed_debug_status": Json::Null,
            "genesis_hash": "EPnLgE7iEq9s7yTkos96M3cWymH5avBAPm3qx3NXqR8H",
            "latest_protocol_version": PROTOCOL,
            "node_key": Json::Null,
            "node_public_key": node,
            "protocol_version": PROTOCOL,
            "rpc_addr": "0.0.0.0:3030",
            "sync_info": object! {
                "earliest_block_hash": self.block_name(oldest),
                "earliest_block_height": oldest,
                "earliest_block_time": time(oldest),
                "epoch_id": base58(&self.epoch_id(head)),
                "epoch_start_height": Chain::epoch_start(head),
                "latest_block_hash": self.block_name(head),
                "latest_block_height": head,
                "latest_block_time": time(head),
                "latest_state_root": self.named("state", head),
                "syncing": false,
            },
            "uptime_sec": uptime,
            "validator_account_id": Json::Null,
            "validator_public_key": Json::Null,
            "validators": validators,
            "version": object! {
                "build": "2.9.0", "commit": "3a5d6f5c1", "rustc_version": "1.86.0", "version": "2.9.0",
            },
        }
    }

    /// Answers `network_info`.
    pub(crate) fn network(&self, minute: u64) -> Json {
        let id = |n: u64| format!("ed25519:{}", base58(&self.seed.bytes::<32>("peer", n)));
        let addr = |n: u64| {
            let [a, b, c, d] = self.seed.bytes::<4>("addr", n);
            format!("{}.{b}.{c}.{}:24567", a % 200 + 11, d.max(1))
        };
        let count = 20 + self.seed.below("peers", minute, 12);
        let peers: Vec<Json> =
            (0..count).map(|n| object! { "account_id": Json::Null, "addr": addr(n), "id": id(n) }).collect();
        let known: Vec<Json> = (100u64..)
            .zip(VALIDATORS)
            .map(|(n, (name, _))| object! { "account_id": name, "addr": addr(n), "peer_id": id(n) })
            .collect();
        object! {
            "active_peers": peers,
            "known_producers": known,
            "num_active_peers": count,
            "peer_max_count": 40u64,
            "received_bytes_per_sec": 900_000 + self.seed.below("received", minute, 400_000),
            "sent_bytes_per_sec": 500_000 + self.seed.below("sent", minute, 300_000),
        }
    }
}

impl Receipt {
    pub(crate) fn json(&self, entry: &Entry) -> Json {
        object! {
            "predecessor_id": self.from.clone(),
            "priority": 0u64,
            "receipt": object! {
                "Action": object! {
                    "actions": self.actions.iter().map(super::tx::Action::json).collect::<Vec<_>>(),
                    "gas_price": GAS_PRICE.to_string(),
                    "input_data_ids": Json::Array(Vec::new()),
                    "is_promise_yield": false,
                    "output_data_receivers": Json::Array(Vec::new()),
                    "signer_id": entry.tx.signer.clone(),
                    "signer_public_key": entry.tx.key.text(),
                },
            },
            "receipt_id": base58(&self.outcome.id),
            "receiver_id": self.to.clone(),
        }
    }
}
