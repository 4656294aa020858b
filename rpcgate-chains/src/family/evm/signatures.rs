//! The event signatures by which logs are understood.

use sha3::{Digest, Keccak256};
use std::collections::HashMap;
use std::sync::LazyLock;

pub(super) const TRANSFER: &str = "Transfer(address,address,uint256)";
pub(super) const SINGLE: &str = "TransferSingle(address,address,address,uint256,uint256)";
pub(super) const BATCH: &str = "TransferBatch(address,address,address,uint256[],uint256[])";

/// Events that many contracts have. Only their names are in events.
pub(super) const SIGNATURES: [&str; 20] = [
    TRANSFER,
    SINGLE,
    BATCH,
    "Approval(address,address,uint256)",
    "ApprovalForAll(address,address,bool)",
    "URI(string,uint256)",
    "Deposit(address,uint256)",
    "Withdrawal(address,uint256)",
    "Swap(address,uint256,uint256,uint256,uint256,address)",
    "Swap(address,address,int256,int256,uint160,uint128,int24)",
    "Sync(uint112,uint112)",
    "Mint(address,uint256,uint256)",
    "Burn(address,uint256,uint256,address)",
    "PairCreated(address,address,address,uint256)",
    "OwnershipTransferred(address,address)",
    "RoleGranted(bytes32,address,address)",
    "RoleRevoked(bytes32,address,address)",
    "Paused(address)",
    "Unpaused(address)",
    "Upgraded(address)",
];

pub(super) static TOPICS: LazyLock<HashMap<String, &'static str>> = LazyLock::new(|| {
    let topic = |signature: &str| format!("0x{}", hex::encode(Keccak256::digest(signature)));
    SIGNATURES.iter().map(|signature| (topic(signature), *signature)).collect()
});

/// Reports whether `name` is an event with a known signature: events contain no other names.
pub(super) fn is_known_event(name: &str) -> bool {
    SIGNATURES.iter().filter_map(|signature| signature.split_once('(')).any(|(known, _)| known == name)
}
