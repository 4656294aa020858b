//! Addresses: 20 bytes of a public key's hash, written in hex behind `41` or in Base58 with a checksum.

use crate::hash::sha256;
use crate::json::Json;

/// The first byte of every address of the main network.
const PREFIX: u8 = 0x41;

/// An address without its first byte, which is always the same.
pub(super) type Address = [u8; 20];

/// Returns the 21 bytes of an address in messages.
pub(super) fn long(address: &Address) -> Vec<u8> {
    let mut out = vec![PREFIX];
    out.extend_from_slice(address);
    out
}

/// Reads the 21 bytes of an address in a message.
pub(super) fn short(bytes: &[u8]) -> Option<Address> {
    bytes.strip_prefix(&[PREFIX])?.try_into().ok()
}

/// Returns the Base58 form of any bytes, with its checksum.
pub(super) fn base58(bytes: &[u8]) -> String {
    let check = sha256(&sha256(bytes));
    bs58::encode([bytes, &check[..4]].concat()).into_string()
}

/// Decodes the Base58 form; `None` if the text is not Base58 or its checksum is wrong.
pub(super) fn from_base58(text: &str) -> Option<Vec<u8>> {
    let bytes = bs58::decode(text).into_vec().ok()?;
    let (body, check) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    (sha256(&sha256(body))[..4] == *check).then(|| body.to_vec())
}

/// Returns the bytes of an address field as JSON: Base58 if the client set `visible`, else hex.
pub(super) fn shown(bytes: &[u8], visible: bool) -> Json {
    if visible { base58(bytes).into() } else { hex::encode(bytes).into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_those_of_the_network() {
        let bytes = hex::decode("41a614f803b6fd780986a42c78ec9c7f77e6ded13c").expect("hex");
        assert_eq!(base58(&bytes), "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t");
        assert_eq!(from_base58("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"), Some(bytes.clone()));
        assert_eq!(short(&bytes).map(|address| long(&address)), Some(bytes));
        for wrong in ["", "T", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6u", "0OIl"] {
            assert_eq!(from_base58(wrong), None, "{wrong}");
        }
    }
}
