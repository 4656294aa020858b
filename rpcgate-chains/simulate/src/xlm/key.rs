//! Keys of validators as text.

use crate::seed::Seed;

const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// The version byte of a public key, which makes its text begin with G.
const PUBLIC_KEY: u8 = 6 << 3;
/// The number of characters of a short key.
const SHORT: usize = 5;

/// Returns the checksum of keys: CRC-16 with the polynomial 0x1021 and the initial value 0 (XMODEM).
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u16::from(*byte) << 8, |sum, _| sum << 1 ^ if sum >> 15 == 1 { 0x1021 } else { 0 })
    })
}

/// Returns a public key as text (SEP-23): its version byte, the key and a checksum in base 32.
fn text(key: &[u8; 32]) -> String {
    let mut bytes = vec![PUBLIC_KEY];
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
    let mut out = String::new();
    let mut held = 0u32;
    let mut bits = 0;
    for byte in bytes {
        held = held << 8 | u32::from(byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            let letter = ALPHABET.get((held >> bits & 31) as usize).copied().unwrap_or(b'A');
            out.push(char::from(letter));
        }
    }
    out
}

pub(crate) fn of(seed: Seed, n: u64) -> String {
    text(&seed.bytes("node", n))
}

/// Returns the key of a validator, full or short.
pub(crate) fn shown(seed: Seed, n: u64, is_full: bool) -> String {
    let key = of(seed, n);
    if is_full { key } else { key.chars().take(SHORT).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_written_as_the_network_writes_it() {
        // The account of the network's root: the hash of its passphrase is the seed of this key.
        let key = hex::decode("3f0c34bf93ad0d9971d04ccc90f705511c838aad9734a4a2fb0d7a03fc7fe89a").unwrap();
        let written = "GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZ";
        assert_eq!(text(&key.try_into().unwrap()), written);
        assert_eq!(checksum(b"123456789"), 0x31c3);
    }
}
