//! Addresses: 20 bytes after `41`, in hex or in Base58 with a checksum.

use crate::form::{base58_with_checksum, checked_base58};
use bs58::Alphabet;

/// The first byte of every address of the main network.
const PREFIX: u8 = 0x41;
/// The maximum length of an address text, in bytes.
const LONGEST: usize = 44;

/// Returns the Base58 form of 20 bytes.
pub(super) fn base58(account: &[u8; 20]) -> String {
    let mut bytes = vec![PREFIX];
    bytes.extend_from_slice(account);
    base58_with_checksum(bytes, Alphabet::BITCOIN)
}

/// Returns the Base58 form of an address in hex: 20 bytes, with or without the prefix `41`.
pub(super) fn of_hex(text: &str) -> Option<String> {
    let bytes = hex::decode(text).ok()?;
    let account = if bytes.len() == 20 { &bytes[..] } else { bytes.strip_prefix(&[PREFIX])? };
    Some(base58(account.try_into().ok()?))
}

/// Returns the Base58 form of an address in any form.
pub(super) fn canonical(text: &str) -> Option<String> {
    if text.len() > LONGEST {
        return None;
    }
    if !text.starts_with('T') {
        return of_hex(text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text));
    }
    let body = checked_base58(text, Alphabet::BITCOIN)?;
    (body.len() == 21 && body.first() == Some(&PREFIX)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_an_address_is_the_one_with_the_checksum() {
        let usdt = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t";
        for form in [
            usdt,
            "41a614f803b6fd780986a42c78ec9c7f77e6ded13c",
            "0x41A614F803B6FD780986A42C78EC9C7F77E6DED13C",
            "0xa614f803b6fd780986a42c78ec9c7f77e6ded13c",
            "a614f803b6fd780986a42c78ec9c7f77e6ded13c",
        ] {
            assert_eq!(canonical(form).as_deref(), Some(usdt), "{form}");
        }
    }

    #[test]
    fn an_invalid_address_has_no_form() {
        for wrong in [
            "",
            "T",
            "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6u",
            "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t ",
            "42a614f803b6fd780986a42c78ec9c7f77e6ded13c",
            "0x41a614f803b6fd780986a42c78ec9c7f77e6de",
            "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
            &"T".repeat(10_000),
        ] {
            assert_eq!(canonical(wrong), None, "{wrong}");
        }
    }
}
