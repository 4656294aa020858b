//! Blocks and the node's own information.

use super::address::{CONSENSUS, text};
use super::chain::{CHAIN, Chain};
use super::fault::Fault;
use super::page::{Page, base64};
use super::tx::Tx;
use crate::hash::sha256;
use crate::json::{Json, object};
use crate::target::Target;
use crate::utc;

/// Returns the root of a list as CometBFT computes it (RFC 6962): leaves and nodes are hashed with a leading byte that
/// distinguishes them, and the size of the left half is the largest power of two.
fn root(leaves: &[[u8; 32]]) -> [u8; 32] {
    match leaves {
        [] => sha256(b""),
        [leaf] => sha256(&[&[0][..], leaf].concat()),
        _ => {
            let (left, right) = leaves.split_at(leaves.len().div_ceil(2).next_power_of_two());
            sha256(&[&[1][..], &root(left), &root(right)].concat())
        }
    }
}

/// The form of a block: the APIs write hashes and names in different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockForm {
    /// REST, as CometBFT's types are mapped to JSON.
    Rest,
    /// REST, with the proposer's address as the SDK writes it.
    Sdk,
    /// CometBFT's own RPC.
    Comet,
}

impl BlockForm {
    /// Returns a hash, or an address of a consensus key.
    fn hash(self, bytes: impl AsRef<[u8]>) -> String {
        match self {
            BlockForm::Rest | BlockForm::Sdk => base64(bytes),
            BlockForm::Comet => hex::encode_upper(bytes),
        }
    }
}

impl Chain {
    /// Reads a height in a path and checks that its block is kept.
    pub(crate) fn known_height(&self, text: &str) -> Result<u64, Fault> {
        let height: i64 = text.parse().map_err(|_| {
            let why = format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
            Fault::argument(format!("type mismatch, parameter: height, error: {why}"))
        })?;
        let Some(height) = u64::try_from(height).ok().filter(|height| *height > 0) else {
            return Err(Fault::unknown(format!("height must be greater than 0, but got {height}")));
        };
        if height > self.head {
            return Err(Fault::argument("requested block height is bigger then the chain length"));
        }
        let lowest = self.oldest();
        if height < lowest {
            let why = format!("height {height} is not available, lowest height is {lowest}");
            return Err(Fault::unknown(why));
        }
        Ok(height)
    }

    /// Returns the time of a block as text.
    pub(crate) fn time_text(&self, height: u64) -> String {
        utc::nanos(self.time(height), self.seed.below("nanos", height, 1_000))
    }

    /// Returns the hash of block `height`. It does not cover client transactions, so that it can be computed without
    /// the blocks below.
    pub(crate) fn id(&self, height: u64, form: BlockForm) -> Json {
        let parts = object! { "total": 1u32, "hash": form.hash(self.seed.bytes::<32>("parts", height)) };
        let hash = form.hash(self.seed.hide("block", height));
        match form {
            BlockForm::Rest | BlockForm::Sdk => object! { "hash": hash, "part_set_header": parts },
            BlockForm::Comet => object! { "hash": hash, "parts": parts },
        }
    }

    /// Returns the height of the kept block with this hash.
    pub(crate) fn height_of(&self, hash: &[u8; 32]) -> Option<u64> {
        self.seed.reveal("block", hash).filter(|height| (self.oldest()..=self.head).contains(height))
    }

    pub(crate) fn header(&self, height: u64, txs: &[[u8; 32]], form: BlockForm) -> Json {
        let word = |tag: &str, n: u64| form.hash(self.seed.bytes::<32>(tag, n));
        let proposer = self.proposer(height);
        let proposer = if form == BlockForm::Sdk { text(CONSENSUS, &proposer) } else { form.hash(proposer) };
        let mut version = object! { "block": "11" };
        if form != BlockForm::Comet {
            version.put("app", "0");
        }
        object! {
            "version": version,
            "chain_id": CHAIN,
            "height": height.to_string(),
            "time": self.time_text(height),
            "last_block_id": self.id(height - 1, form),
            "last_commit_hash": word("commit", height),
            "data_hash": form.hash(root(txs)),
            "validators_hash": word("validators", 0),
            "next_validators_hash": word("validators", 0),
            "consensus_hash": word("consensus", 0),
            "app_hash": word("app", height),
            "last_results_hash": word("results", height),
            "evidence_hash": form.hash(sha256(b"")),
            "proposer_address": proposer,
        }
    }

    /// Returns the commit that made block `height` final.
    pub(crate) fn commit(&self, height: u64, form: BlockForm) -> Json {
        let is_comet = form == BlockForm::Comet;
        let flag = |name: &'static str, number: u32| if is_comet { number.into() } else { Json::from(name) };
        let signatures = self.bonded().enumerate().map(|(n, validator)| {
            let id = height << 8 | n as u64;
            // Sometimes a validator is late.
            if self.seed.below("late", id, 40) == 0 {
                return object! {
                    "block_id_flag": flag("BLOCK_ID_FLAG_ABSENT", 1),
                    "validator_address": if is_comet { "".into() } else { Json::Null },
                    "timestamp": "0001-01-01T00:00:00Z", "signature": Json::Null,
                };
            }
            let delay = std::time::Duration::from_millis(self.seed.below("delay", id, 1_500));
            let moment = utc::nanos(self.time(height).plus(delay), self.seed.below("nanos", id, 1_000));
            object! {
                "block_id_flag": flag("BLOCK_ID_FLAG_COMMIT", 2),
                "validator_address": form.hash(validator.consensus()),
                "timestamp": moment, "signature": base64(self.seed.bytes::<64>("vote", id)),
            }
        });
        let signatures: Vec<_> = signatures.collect();
        object! {
            "height": height.to_string(), "round": 0u32, "block_id": self.id(height, form),
            "signatures": signatures,
        }
    }

    pub(crate) fn whole(&self, height: u64, txs: &[std::sync::Arc<Tx>], form: BlockForm) -> Json {
        let leaves: Vec<_> = txs.iter().map(|tx| tx.hash).collect();
        object! {
            "header": self.header(height, &leaves, form),
            "data": object! { "txs": txs.iter().map(|tx| base64(&tx.raw)).collect::<Vec<_>>() },
            "evidence": object! { "evidence": Json::Array(Vec::new()) },
            "last_commit": self.commit(height - 1, form),
        }
    }

    pub(crate) fn block_txs(&self, height: u64) -> Vec<std::sync::Arc<Tx>> {
        self.entries(height).into_iter().map(|entry| entry.tx).collect()
    }

    /// Answers `blocks/latest` and `blocks/{height}`.
    pub(crate) fn block(&self, height: u64) -> Json {
        let txs = self.block_txs(height);
        object! {
            "block_id": self.id(height, BlockForm::Rest),
            "block": self.whole(height, &txs, BlockForm::Rest),
            "sdk_block": self.whole(height, &txs, BlockForm::Sdk),
        }
    }

    /// Answers `txs/block/{height}`.
    pub(crate) fn block_with_txs(&self, height: u64, target: &Target) -> Result<Json, Fault> {
        let txs = self.block_txs(height);
        let keyed = txs.iter().zip(0u64..).map(|(tx, n)| (n.to_be_bytes().to_vec(), tx.json())).collect();
        let (shown, _) = Page::read(target)?.cut(keyed);
        Ok(object! {
            "txs": Json::Array(shown),
            "block_id": self.id(height, BlockForm::Rest),
            "block": self.whole(height, &txs, BlockForm::Rest),
            "pagination": object! { "next_key": Json::Null, "total": txs.len().to_string() },
        })
    }

    /// Answers `node_info`.
    pub(crate) fn node_info(&self) -> Json {
        let module = |path: &'static str, version: &'static str| {
            let sum = format!("h1:{}", base64(self.seed.bytes::<32>(path, 0)));
            object! { "path": path, "version": version, "sum": sum }
        };
        let modules = vec![
            module("cosmossdk.io/api", "v0.9.2"),
            module("cosmossdk.io/math", "v1.5.3"),
            module("cosmossdk.io/store", "v1.1.2"),
            module("github.com/cometbft/cometbft", "v0.38.19"),
            module("github.com/cosmos/cosmos-sdk", "v0.53.4"),
            module("github.com/cosmos/ibc-go/v10", "v10.3.0"),
        ];
        object! {
            "default_node_info": object! {
                "protocol_version": object! { "p2p": "8", "block": "11", "app": "0" },
                "default_node_id": hex::encode(self.seed.bytes::<20>("node", 0)),
                "listen_addr": "tcp://0.0.0.0:26656",
                "network": CHAIN,
                "version": "0.38.19",
                "channels": base64([0x40, 0x20, 0x21, 0x22, 0x23, 0x30, 0x38, 0x60, 0x61, 0x00]),
                "moniker": "simulated",
                "other": object! { "tx_index": "on", "rpc_address": "tcp://127.0.0.1:26657" },
            },
            "application_version": object! {
                "name": "gaia", "app_name": "gaiad", "version": "v25.2.0",
                "git_commit": hex::encode(self.seed.bytes::<20>("commit", 0)),
                "build_tags": "netgo,ledger", "go_version": "go version go1.24.6 linux/amd64",
                "build_deps": modules, "cosmos_sdk_version": "v0.53.4",
            },
        }
    }

    /// Answers `node/v1beta1/status`.
    pub(crate) fn node_status(&self) -> Json {
        object! {
            "earliest_store_height": self.oldest().to_string(),
            "height": self.head.to_string(),
            "timestamp": self.time_text(self.head),
            "app_hash": base64(self.seed.bytes::<32>("app", self.head)),
            "validator_hash": base64(self.seed.bytes::<32>("validators", 0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_a_list_splits_at_a_power_of_two() {
        let leaf = |n: u8| sha256(&[&[0][..], &[n; 32]].concat());
        let node = |left: [u8; 32], right: [u8; 32]| sha256(&[&[1][..], &left, &right].concat());
        let leaves: Vec<_> = (0..5).map(|n| [n; 32]).collect();
        assert_eq!(root(&leaves[..1]), leaf(0));
        assert_eq!(root(&leaves[..3]), node(node(leaf(0), leaf(1)), leaf(2)));
        let four = node(node(leaf(0), leaf(1)), node(leaf(2), leaf(3)));
        assert_eq!(root(&leaves), node(four, leaf(4)));
        assert_eq!(hex::encode(&root(&[])[..4]), "e3b0c442");
    }
}
