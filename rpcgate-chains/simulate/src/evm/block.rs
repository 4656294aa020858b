//! The JSON of blocks, transactions and receipts.

use super::chain::{Chain, Entry, Log};
use super::network::{Layout, Word};
use super::tx::keccak;
use crate::json::{Json, object};

/// The root of an empty tree.
const EMPTY_ROOT: &str = "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421";
/// The hash of an empty list of uncles.
const NO_UNCLES: &str = "0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347";
/// The hash of an empty list of execution requests (EIP-7685).
const NO_REQUESTS: &str = "0xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Sets the three bits of `item` in a bloom filter of 2048 bits.
fn bloom_add(bloom: &mut [u8; 256], item: &[u8]) {
    let hash = keccak(item);
    for pair in hash[..6].chunks(2) {
        let bit = (usize::from(pair[0]) << 8 | usize::from(pair[1])) & 0x7ff;
        bloom[255 - bit / 8] |= 1 << (bit % 8);
    }
}

fn bloom<'a>(logs: impl Iterator<Item = &'a Log>) -> [u8; 256] {
    let mut out = [0; 256];
    for log in logs {
        bloom_add(&mut out, &log.address);
        log.topics.iter().for_each(|topic| bloom_add(&mut out, topic));
    }
    out
}

/// Returns a placeholder for the root over some hashes; the tree is not built.
fn root(tag: &[u8], entries: &[Entry]) -> Json {
    if entries.is_empty() {
        return EMPTY_ROOT.into();
    }
    let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.tx.hash).collect();
    Json::data(&keccak(&[tag, &bytes].concat()))
}

impl Chain {
    /// Returns block `height`, with whole transactions or their hashes.
    pub(crate) fn block_json(&self, height: u64, full: bool) -> Json {
        let entries = self.entries(height);
        let transactions: Vec<Json> = if full {
            (0..entries.len()).map(|index| self.tx_json(height, index, &entries)).collect()
        } else {
            entries.iter().map(|entry| Json::data(&entry.tx.hash)).collect()
        };
        let mut block = self.header_json(height, &entries);
        block.put("uncles", Vec::<Json>::new());
        block.put("transactions", transactions);
        if matches!(self.state.network.layout, Layout::Geth | Layout::Bsc) {
            block.put("withdrawals", Vec::<Json>::new());
        }
        block
    }

    /// Returns the pending block: the next height, without hash, nonce and miner.
    pub(crate) fn pending_json(&self, full: bool) -> Json {
        let height = self.head + 1;
        let mut block = self.header_json(height, &[]);
        let transactions: Vec<Json> = self
            .state
            .pool
            .iter()
            .map(|(tx, from)| if full { self.waiting_json(tx, from) } else { Json::data(&tx.hash) })
            .collect();
        block.put("uncles", Vec::<Json>::new());
        block.put("transactions", transactions);
        if matches!(self.state.network.layout, Layout::Geth | Layout::Bsc) {
            block.put("withdrawals", Vec::<Json>::new());
        }
        for name in ["hash", "nonce", "miner"] {
            block.set(name, Json::Null);
        }
        block
    }

    /// Returns the header of block `height`, with its size.
    pub(crate) fn header_json(&self, height: u64, entries: &[Entry]) -> Json {
        let parent: Word = height.checked_sub(1).map_or([0; 32], |parent| self.block_hash(parent));
        let gas_used: u64 = entries.iter().map(|entry| entry.gas_used).sum();
        let size: usize = entries.iter().map(|entry| entry.tx.size).sum();
        let logs = entries.iter().flat_map(|entry| &entry.logs);
        let miner: [u8; 20] = self.seed.bytes("miner", self.seed.below("turn", height, 21));
        let mut block = object! {
            "hash": Json::data(&self.block_hash(height)),
            "parentHash": Json::data(&parent),
            "sha3Uncles": NO_UNCLES,
            "miner": Json::data(&miner),
            "stateRoot": Json::data(&self.state_root(height)),
            "transactionsRoot": root(b"transactions", entries),
            "receiptsRoot": root(b"receipts", entries),
            "logsBloom": Json::data(&bloom(logs)),
            "difficulty": Json::quantity(if self.state.network.layout == Layout::Geth { 0u64 } else { 1 }),
            "number": Json::quantity(height),
            "gasLimit": Json::quantity(self.state.network.gas_limit),
            "gasUsed": Json::quantity(gas_used),
            "timestamp": Json::quantity(self.secs(height)),
            "extraData": Json::data(b"simulated"),
            "mixHash": Json::data(&self.seed.bytes::<32>("mix", height)),
            "nonce": "0x0000000000000000",
            "baseFeePerGas": Json::quantity(self.base_fee(height)),
            "totalDifficulty": Json::quantity(height),
            "size": Json::quantity(612 + size as u64),
        };
        let layout = self.state.network.layout;
        if matches!(layout, Layout::Geth | Layout::Bsc) {
            block.put("withdrawalsRoot", EMPTY_ROOT);
        }
        if self.has_blobs() {
            block.put("blobGasUsed", "0x0");
            block.put("excessBlobGas", "0x0");
            block.put("parentBeaconBlockRoot", Json::data(&self.seed.bytes::<32>("beacon", height)));
        }
        match layout {
            Layout::Geth => block.put("requestsHash", NO_REQUESTS),
            Layout::Coreth => {
                block.put("blockExtraData", "0x");
                block.put("blockGasCost", "0x0");
                block.put("extDataGasUsed", "0x0");
                block.put("extDataHash", EMPTY_ROOT);
            }
            Layout::Bsc | Layout::Bor => {}
        }
        block
    }

    pub(crate) fn tx_json(&self, height: u64, index: usize, entries: &[Entry]) -> Json {
        let Some(entry) = entries.get(index) else {
            return Json::Null;
        };
        let mut out = entry.tx.json(&entry.from);
        out.put("blockHash", Json::data(&self.block_hash(height)));
        out.put("blockNumber", Json::quantity(height));
        out.put("transactionIndex", Json::quantity(index as u64));
        out.put("gasPrice", Json::quantity(entry.tx.price(self.base_fee(height))));
        out.put("blockTimestamp", Json::quantity(self.secs(height)));
        out
    }

    /// Returns a transaction that waits in the pool.
    pub(crate) fn waiting_json(&self, tx: &super::tx::Tx, from: &super::network::Address) -> Json {
        let mut out = tx.json(from);
        for name in ["blockHash", "blockNumber", "transactionIndex", "blockTimestamp"] {
            out.put(name, Json::Null);
        }
        out.put("gasPrice", Json::quantity(tx.max_fee));
        out
    }

    pub(crate) fn receipts(&self, height: u64) -> Vec<Json> {
        let entries = self.entries(height);
        let mut total = 0;
        let mut first_log = 0;
        let mut out = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            total += entry.gas_used;
            let logs: Vec<Json> = entry
                .logs
                .iter()
                .enumerate()
                .map(|(at, log)| self.log_json(log, height, index, entry, first_log + at))
                .collect();
            first_log += logs.len();
            out.push(object! {
                "type": Json::quantity(entry.tx.kind),
                "status": if entry.success { "0x1" } else { "0x0" },
                "cumulativeGasUsed": Json::quantity(total),
                "logs": logs,
                "logsBloom": Json::data(&bloom(entry.logs.iter())),
                "transactionHash": Json::data(&entry.tx.hash),
                "transactionIndex": Json::quantity(index as u64),
                "blockHash": Json::data(&self.block_hash(height)),
                "blockNumber": Json::quantity(height),
                "gasUsed": Json::quantity(entry.gas_used),
                "effectiveGasPrice": Json::quantity(entry.tx.price(self.base_fee(height))),
                "from": Json::data(&entry.from),
                "to": entry.tx.to.as_ref().map(|to| Json::data(to)),
                "contractAddress": entry.created.as_ref().map(|address| Json::data(address)),
            });
        }
        out
    }

    pub(crate) fn log_json(
        &self,
        log: &Log,
        height: u64,
        index: usize,
        entry: &Entry,
        log_index: usize,
    ) -> Json {
        object! {
            "address": Json::data(&log.address),
            "topics": log.topics.iter().map(|topic| Json::data(topic)).collect::<Vec<_>>(),
            "data": Json::data(&log.data),
            "blockHash": Json::data(&self.block_hash(height)),
            "blockNumber": Json::quantity(height),
            "blockTimestamp": Json::quantity(self.secs(height)),
            "transactionHash": Json::data(&entry.tx.hash),
            "transactionIndex": Json::quantity(index as u64),
            "logIndex": Json::quantity(log_index as u64),
            "removed": false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::golden::recorded;

    #[test]
    fn a_bloom_is_that_of_a_real_node() {
        let receipt = recorded(include_str!("../../golden/evm.json"), "eth_getTransactionReceipt/logs");
        let bytes = |value: &serde_json::Value| {
            hex::decode(value.as_str().and_then(|text| text.strip_prefix("0x")).expect("hex")).expect("hex")
        };
        let log = &receipt["logs"][0];
        let topics = log["topics"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|topic| bytes(topic).try_into().expect("32 bytes"));
        let log = Log {
            address: bytes(&log["address"]).try_into().expect("20 bytes"),
            topics: topics.collect(),
            data: Vec::new(),
        };
        assert_eq!(bloom([&log].into_iter()).to_vec(), bytes(&receipt["logsBloom"]));
    }
}
