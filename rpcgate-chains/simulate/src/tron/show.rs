//! Blocks, accounts and receipts as JSON.

use super::address::{Address, long, shown};
use super::chain::{Account, Chain, Entry, FREE_NET, Outcome, WITNESSES};
use super::network::OPERATIONS;
use super::token::{self, TOKEN};
use crate::hash::sha256;
use crate::json::{Json, object};

impl Outcome {
    /// Its name, and its number in a transaction's result.
    pub(super) fn named(self) -> (&'static str, i64) {
        match self {
            Outcome::Success => ("SUCCESS", 1),
            Outcome::Revert => ("REVERT", 2),
            Outcome::OutOfEnergy => ("OUT_OF_ENERGY", 10),
        }
    }
}

impl Entry {
    /// Returns the transaction, as `gettransactionbyid` and blocks show it.
    pub(super) fn json(&self, visible: bool) -> Json {
        self.tx.json(Some(object! { "contractRet": self.receipt.outcome.named().0 }), visible)
    }

    /// Returns the result, as `gettransactioninfobyid` shows it.
    pub(super) fn info(&self, chain: &Chain, height: u64, visible: bool) -> Json {
        let receipt = &self.receipt;
        let is_call = receipt.energy != 0 || receipt.outcome != Outcome::Success;
        let mut out = object! { "id": hex::encode(self.tx.id) };
        put_unless_zero(&mut out, "fee", receipt.fee);
        out.put("blockNumber", height);
        out.put("blockTimeStamp", chain.millis(height));
        let done = if receipt.moved.is_some() { hex::encode(token::word(1)) } else { String::new() };
        out.put("contractResult", vec![done]);
        if is_call {
            out.put("contract_address", shown(&long(&TOKEN), visible));
        }
        let mut costs = object! {};
        put_unless_zero(&mut costs, "energy_fee", receipt.energy_fee);
        if is_call {
            if receipt.energy_fee == 0 {
                put_unless_zero(&mut costs, "energy_usage", receipt.energy);
            }
            put_unless_zero(&mut costs, "energy_usage_total", receipt.energy);
        }
        put_unless_zero(&mut costs, "net_usage", receipt.net_usage);
        put_unless_zero(&mut costs, "net_fee", receipt.net_fee);
        if is_call {
            costs.put("result", receipt.outcome.named().0);
        }
        out.put("receipt", costs);
        if let Some((from, to, amount)) = receipt.moved {
            let address = if visible { shown(&long(&TOKEN), true) } else { hex::encode(TOKEN).into() };
            let topics = [token::transfer_topic(), token::padded(&from), token::padded(&to)];
            out.put(
                "log",
                vec![object! {
                    "address": address,
                    "topics": topics.iter().map(hex::encode).collect::<Vec<_>>(),
                    "data": hex::encode(token::word(amount)),
                }],
            );
        }
        let message = match receipt.outcome {
            Outcome::Success => return out,
            Outcome::Revert => "REVERT opcode executed".to_owned(),
            Outcome::OutOfEnergy => format!(
                "Not enough energy for 'PUSH1' operation executing: curInvokeEnergyLimit[{0}], curOpEnergy[3], \
                 usedEnergy[{0}]",
                receipt.energy
            ),
        };
        out.put("result", "FAILED");
        out.put("resMessage", hex::encode(message));
        out
    }
}

fn put_unless_zero(out: &mut Json, name: &'static str, number: i64) {
    if number != 0 {
        out.put(name, number);
    }
}

/// Returns the root of a tree of hashes. A hash without a partner moves up unchanged.
fn root(mut hashes: Vec<[u8; 32]>) -> [u8; 32] {
    while hashes.len() > 1 {
        let pair = |pair: &[[u8; 32]]| if pair.len() == 2 { sha256(&pair.concat()) } else { pair[0] };
        hashes = hashes.chunks(2).map(pair).collect();
    }
    hashes.first().copied().unwrap_or_default()
}

impl Chain {
    /// Returns block `height`, with its transactions if requested.
    pub(super) fn block(&self, height: u64, detail: bool, visible: bool) -> Json {
        let entries = self.entries(height);
        let leaf = |entry: &Entry| sha256(&entry.tx.write(Some(entry.receipt.outcome.named().1)));
        let mut data = object! {};
        if height != 0 {
            data.put("number", height);
        }
        data.put("txTrieRoot", hex::encode(root(entries.iter().map(leaf).collect())));
        data.put("witness_address", shown(&long(&self.witness(height)), visible));
        let parent = height.checked_sub(1).map_or([0; 32], |parent| self.id(parent));
        data.put("parentHash", hex::encode(parent));
        data.put("version", 32u64);
        data.put("timestamp", self.millis(height));
        let mut out = object! {
            "blockID": hex::encode(self.id(height)),
            "block_header": object! {
                "raw_data": data,
                "witness_signature": hex::encode(self.signature(height)),
            },
        };
        if detail && !entries.is_empty() {
            out.put("transactions", entries.iter().map(|entry| entry.json(visible)).collect::<Vec<_>>());
        }
        out
    }

    pub(super) fn account_json(
        &self,
        address: &Address,
        account: &Account,
        moment: u64,
        visible: bool,
    ) -> Json {
        let shown_address = shown(&long(address), visible);
        let mut out = object! {};
        if *address == TOKEN {
            out.put("account_name", if visible { "Tether USD".into() } else { hex::encode("Tether USD") });
            out.put("type", "Contract");
        }
        if let Some(name) = self.name(address) {
            out.put("account_name", if visible { name.to_owned() } else { hex::encode(name) });
            out.put("type", "AssetIssue");
        }
        out.put("address", shown_address.clone());
        put_unless_zero(&mut out, "balance", account.balance);
        out.put("create_time", account.created);
        if account.last != 0 {
            out.put("latest_opration_time", account.last);
        }
        put_unless_zero(&mut out, "free_net_usage", self.net_used(account, moment));
        if account.last != 0 {
            out.put("latest_consume_free_time", account.last);
        }
        if account.witness {
            out.put("is_witness", true);
        }
        out.put("net_window_size", 28_800_000u64);
        out.put("net_window_optimized", true);
        out.put(
            "account_resource",
            object! { "energy_window_size": 28_800_000u64, "energy_window_optimized": true },
        );
        if *address == TOKEN {
            return out;
        }
        let keys = || vec![object! { "address": shown_address.clone(), "weight": 1u64 }];
        out.put(
            "owner_permission",
            object! { "permission_name": "owner", "threshold": 1u64, "keys": keys() },
        );
        if account.witness {
            out.put("witness_permission", object! {
                "type": "Witness", "id": 1u64, "permission_name": "witness", "threshold": 1u64, "keys": keys(),
            });
        }
        out.put(
            "active_permission",
            vec![object! {
                "type": "Active", "id": 2u64, "permission_name": "active", "threshold": 1u64,
                "operations": OPERATIONS, "keys": keys(),
            }],
        );
        let stakes = [object! {}, object! { "type": "ENERGY" }, object! { "type": "TRON_POWER" }];
        out.put("frozenV2", Json::Array(stakes.to_vec()));
        out.put("asset_optimized", true);
        out
    }

    /// Returns the resources that an account may still use.
    pub(super) fn resources(&self, account: &Account, moment: u64) -> Json {
        let mut out = object! {};
        put_unless_zero(&mut out, "freeNetUsed", self.net_used(account, moment));
        out.put("freeNetLimit", FREE_NET);
        out.put("TotalNetLimit", 43_200_000_000u64);
        out.put("TotalNetWeight", 26_500_000_000u64);
        out.put("TotalEnergyLimit", 180_000_000_000u64);
        out.put("TotalEnergyWeight", 19_300_000_000u64);
        out
    }

    /// Returns the producers, with their statistics up to now.
    pub(super) fn witnesses_json(&self, visible: bool) -> Json {
        let rows = self.state.witnesses.iter().enumerate().map(|(place, address)| {
            let behind = (0..WITNESSES).find(|back| {
                self.head.checked_sub(*back).is_some_and(|height| self.witness(height) == *address)
            });
            let last = self.head - behind.unwrap_or(0);
            object! {
                "address": shown(&long(address), visible),
                "voteCount": 900_000_000u64 - 7_000_000 * place as u64,
                "url": format!("https://witness-{}.example", place + 1),
                "totalProduced": last / WITNESSES,
                "totalMissed": 100 + place as u64,
                "latestBlockNum": last,
                "latestSlotNum": self.millis(last) / 3_000,
                "isJobs": true,
            }
        });
        object! { "witnesses": Json::Array(rows.collect()) }
    }
}
