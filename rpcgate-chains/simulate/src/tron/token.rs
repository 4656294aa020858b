//! The only contract: a TRC-20 token at the address of Tether's, with the functions that wallets read.

use super::address::Address;
use crate::json::{Json, object};
use sha3::{Digest, Keccak256};

/// The contract's address, `TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t`.
pub(super) const TOKEN: Address = [
    0xa6, 0x14, 0xf8, 0x03, 0xb6, 0xfd, 0x78, 0x09, 0x86, 0xa4, 0x2c, 0x78, 0xec, 0x9c, 0x7f, 0x77, 0xe6,
    0xde, 0xd1, 0x3c,
];

/// The total supply, in millionths.
pub(super) const SUPPLY: i64 = 80_000_000_000_000_000;

/// The request of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    /// A fixed answer, already encoded.
    Constant(Vec<u8>),
    /// The balance of an account.
    Balance(Address),
    /// A transfer of tokens, in millionths.
    Transfer { to: Address, amount: i64 },
}

/// The energy of a call that only reads.
pub(super) const READ_ENERGY: i64 = 935;
/// The energy of a transfer to an account that already has tokens.
pub(super) const SEND_ENERGY: i64 = 64_285;
/// The energy of a transfer to an account without tokens.
pub(super) const SEND_NEW_ENERGY: i64 = 130_285;
/// The energy used until a transfer is refused.
pub(super) const REVERT_ENERGY: i64 = 2_512;

/// Returns the first four bytes of a signature's hash.
pub(super) fn selector(signature: &str) -> [u8; 4] {
    let hash: [u8; 32] = Keccak256::digest(signature.as_bytes()).into();
    [hash[0], hash[1], hash[2], hash[3]]
}

/// Encodes a number as 32 bytes.
pub(super) fn word(number: i64) -> [u8; 32] {
    let mut out = [0; 32];
    out[24..].copy_from_slice(&number.to_be_bytes());
    out
}

/// Encodes an address as 32 bytes.
pub(super) fn padded(address: &Address) -> [u8; 32] {
    let mut out = [0; 32];
    out[12..].copy_from_slice(address);
    out
}

pub(super) fn transfer_topic() -> [u8; 32] {
    Keccak256::digest(b"Transfer(address,address,uint256)").into()
}

fn text(value: &str) -> Vec<u8> {
    let mut out = word(32).to_vec();
    out.extend_from_slice(&word(value.len() as i64));
    out.extend_from_slice(value.as_bytes());
    out.resize(64 + value.len().next_multiple_of(32), 0);
    out
}

/// Decodes call data; `None` if the contract refuses it.
pub(super) fn ask(data: &[u8]) -> Option<Ask> {
    let (head, arguments) = data.split_at_checked(4)?;
    let account = |n: usize| -> Option<Address> { arguments.get(32 * n + 12..32 * n + 32)?.try_into().ok() };
    let is = |signature| selector(signature) == *head;
    Some(match () {
        () if is("name()") => Ask::Constant(text("Tether USD")),
        () if is("symbol()") => Ask::Constant(text("USDT")),
        () if is("decimals()") => Ask::Constant(word(6).to_vec()),
        () if is("totalSupply()") => Ask::Constant(word(SUPPLY).to_vec()),
        // There are no allowances here.
        () if is("allowance(address,address)") => account(1).map(|_| Ask::Constant(word(0).to_vec()))?,
        () if is("balanceOf(address)") => Ask::Balance(account(0)?),
        () if is("transfer(address,uint256)") => {
            let (high, low) = arguments.get(32..64)?.split_at(24);
            let amount = i64::from_be_bytes(low.try_into().ok()?);
            // An amount beyond 64 bits is refused like any amount that the sender does not have.
            let fits = amount >= 0 && high.iter().all(|byte| *byte == 0);
            Ask::Transfer { to: account(0)?, amount: if fits { amount } else { i64::MAX } }
        }
        () => return None,
    })
}

pub(super) fn transfer(to: &Address, amount: i64) -> Vec<u8> {
    [&selector("transfer(address,uint256)")[..], &padded(to), &word(amount)].concat()
}

/// Returns the contract's interface (ABI) as a node stores it.
pub(super) fn abi() -> Json {
    let item =
        |name: &'static str, inputs: &[(&'static str, &'static str)], output: &'static str, view: bool| {
            let mut item = object! {};
            if !inputs.is_empty() {
                let inputs = inputs.iter().map(|(name, kind)| object! { "name": *name, "type": *kind });
                item.put("inputs", inputs.collect::<Vec<_>>());
            }
            if view {
                item.put("constant", true);
            }
            item.put("name", name);
            item.put("outputs", vec![object! { "type": output }]);
            item.put("type", "Function");
            item.put("stateMutability", if view { "View" } else { "Nonpayable" });
            item
        };
    object! { "entrys": vec![
        item("name", &[], "string", true),
        item("symbol", &[], "string", true),
        item("decimals", &[], "uint256", true),
        item("totalSupply", &[], "uint256", true),
        item("balanceOf", &[("who", "address")], "uint256", true),
        item("allowance", &[("_owner", "address"), ("_spender", "address")], "uint256", true),
        item("transfer", &[("_to", "address"), ("_value", "uint256")], "bool", false),
        object! {
            "name": "Transfer",
            "inputs": vec![
                object! { "indexed": true, "name": "from", "type": "address" },
                object! { "indexed": true, "name": "to", "type": "address" },
                object! { "name": "value", "type": "uint256" },
            ],
            "type": "Event",
        },
    ] }
}
