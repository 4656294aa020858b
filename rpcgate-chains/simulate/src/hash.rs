//! Hashes, signatures and texts of bytes that several chains use.

use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, UnparsedPublicKey};

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

/// Reports whether a signature of a message is valid for an Ed25519 key.
pub(crate) fn is_signed_ed25519(key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
}

pub(crate) fn base58(bytes: &[u8]) -> String {
    bs58::encode(bytes).into_string()
}

/// Reads exactly `N` bytes in base58. A longer text is not decoded, since decoding takes quadratic time.
pub(crate) fn from_base58<const N: usize>(text: &str) -> Option<[u8; N]> {
    // A digit holds more than 5.8 bits.
    if text.len() * 29 / 40 > N + 1 {
        return None;
    }
    bs58::decode(text).into_vec().ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base58_is_read_back_and_a_text_of_another_length_is_refused() {
        for bytes in [[0; 32], [7; 32], [0xff; 32]] {
            assert_eq!(from_base58(&base58(&bytes)), Some(bytes));
        }
        assert_eq!(from_base58::<32>(&base58(&[7; 33])), None);
        assert_eq!(from_base58::<32>(&"1".repeat(100_000)), None);
        assert_eq!(from_base58::<32>("0"), None);
    }
}
