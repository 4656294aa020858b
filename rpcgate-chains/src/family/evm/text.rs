//! Addresses, hashes and numbers in the form of events: lower-case hexadecimal digits, and amounts as decimal text.

use super::signatures::is_known_event;
use crate::form::{direction, is_hex, whole_number};
use sha3::{Digest, Keccak256};

/// The hexadecimal digits of an address, and of a hash or topic.
const ADDRESS: usize = 40;
const HASH: usize = 64;

fn digits(text: &str) -> Option<&str> {
    text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))
}

fn lower(digits: &str) -> String {
    let mut out = String::with_capacity(2 + digits.len());
    out.push_str("0x");
    out.push_str(digits);
    out.make_ascii_lowercase();
    out
}

pub(super) fn hash(text: &str) -> Option<String> {
    digits(text).filter(|digits| is_hex(digits, HASH)).map(lower)
}

/// Parses a node's address, in any letter case.
pub(super) fn address(text: &str) -> Option<String> {
    digits(text).filter(|digits| is_hex(digits, ADDRESS)).map(lower)
}

pub(super) fn data(text: &str) -> Option<String> {
    digits(text).filter(|digits| digits.len().is_multiple_of(2) && is_hex(digits, digits.len())).map(lower)
}

pub(super) fn quantity(text: &str) -> Option<u64> {
    let digits = digits(text)?;
    if !is_hex(digits, digits.len()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// Parses a 256-bit number to decimal text.
pub(super) fn amount(text: &str) -> Option<String> {
    digits(text).filter(|digits| !digits.is_empty()).and_then(decimal)
}

pub(super) fn decimal(digits: &str) -> Option<String> {
    /// The base of the sum's parts: the largest power of ten that fits into 64 bits when multiplied by 2^32.
    const BASE: u64 = 1_000_000_000;
    let digits = digits.trim_start_matches('0');
    if digits.len() > HASH || !is_hex(digits, digits.len()) {
        return None;
    }
    if digits.len() <= 32 {
        let digits = if digits.is_empty() { "0" } else { digits };
        return u128::from_str_radix(digits, 16).ok().map(|number| number.to_string());
    }
    let padded = format!("{digits:0>HASH$}");
    // The parts of the sum, lowest first.
    let mut parts: Vec<u64> = Vec::with_capacity(9);
    for start in (0..HASH).step_by(8) {
        let mut carry = u64::from_str_radix(padded.get(start..start + 8)?, 16).ok()?;
        for part in &mut parts {
            let sum = (*part << 32) + carry;
            *part = sum % BASE;
            carry = sum / BASE;
        }
        while carry > 0 {
            parts.push(carry % BASE);
            carry /= BASE;
        }
    }
    let (highest, rest) = parts.split_last()?;
    let mut out = highest.to_string();
    for part in rest.iter().rev() {
        out.push_str(&format!("{part:09}"));
    }
    Some(out)
}

/// Returns the address in a word of 64 digits, if its other bytes are zero.
pub(super) fn address_in(word: &str) -> Option<String> {
    let (zeros, address) = word.split_at_checked(HASH - ADDRESS)?;
    (zeros.bytes().all(|digit| digit == b'0') && is_hex(address, ADDRESS)).then(|| lower(address))
}

/// Parses a user's address: its letters are in one case, or match its checksum (EIP-55).
fn typed_address(text: &str) -> Option<String> {
    let digits = digits(text).filter(|digits| is_hex(digits, ADDRESS))?;
    let has = |is: fn(&u8) -> bool| digits.as_bytes().iter().any(is);
    let is_mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    (!is_mixed || has_checksum(digits)).then(|| lower(digits))
}

/// Reports whether exactly those letters are upper case for which the hash of the address has a high half-byte.
fn has_checksum(digits: &str) -> bool {
    let hash: [u8; 32] = Keccak256::digest(digits.to_ascii_lowercase()).into();
    let halves = hash.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits
        .bytes()
        .zip(halves)
        .all(|(digit, half)| !digit.is_ascii_alphabetic() || digit.is_ascii_uppercase() == (half >= 8))
}

/// Returns a filter's value in the form of events.
pub(super) fn canonical(key: &str, value: &str) -> Option<String> {
    match key {
        "address" | "from" | "to" | "token" | "operator" | "miner" => typed_address(value),
        "tx_hash" | "block_hash" | "parent_hash" | "topic0" | "topic1" | "topic2" | "topic3" => hash(value),
        "data" => data(value),
        "event" => is_known_event(value).then(|| value.to_owned()),
        "value" | "token_id" => whole_number(value),
        "direction" => direction(value),
        _ => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_of_256_bits_become_decimal_text() {
        for (hex, text) in [
            ("0x0", "0"),
            ("0x00000000", "0"),
            ("0xff", "255"),
            ("0xde0b6b3a7640000", "1000000000000000000"),
            ("0xffffffffffffffffffffffffffffffff", "340282366920938463463374607431768211455"),
            ("0x100000000000000000000000000000000", "340282366920938463463374607431768211456"),
            (
                "0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
                "115792089237316195423570985008687907853269984665640564039457584007913129639935",
            ),
        ] {
            assert_eq!(amount(hex).as_deref(), Some(text));
        }
        // 10^60, whose parts are nearly all zero.
        let million = "0x9f4f2726179a224501d762422c946590d91000000000000000";
        assert_eq!(amount(million).unwrap(), format!("1{}", "0".repeat(60)));
        let long = format!("0x1{}", "0".repeat(64));
        for wrong in ["", "0x", "12", "0xg", "0x-1", "0x+1", &long] {
            assert_eq!(amount(wrong), None, "{wrong}");
        }
    }

    // Shows (Events of chains): Filters write an address in any form of its chain, checksums included (EVM, UTXO, XRP).
    #[test]
    fn an_address_in_mixed_case_needs_its_checksum() {
        // From EIP-55.
        for address in [
            "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
            "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
            "0x52908400098527886E0F7030069857D2E4169EE7",
            "0xde709f2102306220921060314715629080e2fb77",
        ] {
            let lower = address.to_lowercase();
            for text in [address, &lower, &format!("0x{}", address[2..].to_uppercase())] {
                assert_eq!(canonical("address", text).as_ref(), Some(&lower), "{text}");
            }
        }
        for wrong in [
            "0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
            "5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
            "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAe",
            "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
            "",
        ] {
            assert_eq!(canonical("address", wrong), None, "{wrong}");
        }
    }

    #[test]
    fn values_of_other_keys_have_one_form_too() {
        let hash = format!("0x{}", "Ab".repeat(32));
        for key in ["tx_hash", "topic0", "topic3", "parent_hash", "block_hash"] {
            assert_eq!(canonical(key, &hash), Some(hash.to_lowercase()), "{key}");
            assert_eq!(canonical(key, "0xab"), None, "{key}");
        }
        assert_eq!(canonical("value", "010").as_deref(), Some("10"));
        assert_eq!(canonical("value", "0x10"), None);
        assert_eq!(canonical("direction", "inward"), None);
        assert_eq!(canonical("direction", "self").as_deref(), Some("self"));
        assert_eq!(canonical("data", "0xABC"), None);
        assert_eq!(canonical("standard", "erc20").as_deref(), Some("erc20"));
    }

    proptest! {
        #[test]
        fn decimal_text_is_that_of_the_number(number: u128) {
            prop_assert_eq!(amount(&format!("{number:#x}")), Some(number.to_string()));
            let wide = format!("0x{number:x}{}", "0".repeat(32));
            let text = amount(&wide).unwrap();
            prop_assert!(number == 0 || text.len() > number.to_string().len());
        }

        #[test]
        fn no_text_is_too_strange(key in "[a-z_0-9]{0,12}", value in ".{0,80}") {
            if let Some(text) = canonical(&key, &value) {
                prop_assert_eq!(canonical(&key, &text), Some(text.clone()));
            }
        }
    }
}
