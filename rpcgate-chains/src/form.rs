//! Text forms that several chains share: hexadecimal digits, decimal numbers, and base58 with a checksum.

use bs58::Alphabet;
use ring::digest::{SHA256, digest};

/// The maximum length, in bytes, of a base58 text that is decoded for its checksum; no address with one is longer.
const LONGEST: usize = 64;

/// Reports whether a text is exactly this number of hexadecimal digits.
pub(crate) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Returns this number of hexadecimal digits in lower case.
pub(crate) fn lower_hex(text: &str, digits: usize) -> Option<String> {
    is_hex(text, digits).then(|| text.to_ascii_lowercase())
}

/// Returns hexadecimal bytes, possibly none, in lower case.
pub(crate) fn hex_bytes(text: &str) -> Option<String> {
    if text.len().is_multiple_of(2) { lower_hex(text, text.len()) } else { None }
}

/// Accepts a program's name: not empty, without control characters and surrounding blanks.
pub(crate) fn program_name(text: &str) -> Option<String> {
    let is_name = !text.is_empty() && text.trim() == text && !text.contains(char::is_control);
    is_name.then(|| text.to_owned())
}

/// Accepts a decimal number without leading zeros, the form of amounts in events.
pub(crate) fn whole_number(text: &str) -> Option<String> {
    if text.is_empty() || !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let digits = text.trim_start_matches('0');
    Some(if digits.is_empty() { "0" } else { digits }.to_owned())
}

pub(crate) fn direction(text: &str) -> Option<String> {
    matches!(text, "in" | "out" | "self").then(|| text.to_owned())
}

/// Accepts base58 of this number of bytes, which has one spelling.
pub(crate) fn base58(text: &str, bytes: usize) -> Option<String> {
    // A byte takes at most two digits.
    let is_possible = text.len() <= 2 * bytes;
    let decoded = is_possible.then(|| bs58::decode(text).into_vec().ok()).flatten()?;
    (decoded.len() == bytes).then(|| text.to_owned())
}

/// Returns the first four bytes of the doubled hash.
fn checksum(body: &[u8]) -> [u8; 4] {
    let hash = digest(&SHA256, digest(&SHA256, body).as_ref());
    let mut out = [0; 4];
    out.iter_mut().zip(hash.as_ref()).for_each(|(out, byte)| *out = *byte);
    out
}

/// Returns the bytes before the checksum of a base58 text, if the checksum is right.
pub(crate) fn checked_base58(text: &str, alphabet: &Alphabet) -> Option<Vec<u8>> {
    if text.len() > LONGEST {
        return None;
    }
    let mut bytes = bs58::decode(text).with_alphabet(alphabet).into_vec().ok()?;
    let sum = bytes.split_off(bytes.len().checked_sub(4)?);
    (checksum(&bytes)[..] == sum[..]).then_some(bytes)
}

pub(crate) fn base58_with_checksum(mut bytes: Vec<u8>, alphabet: &Alphabet) -> String {
    bytes.extend(checksum(&bytes));
    bs58::encode(bytes).with_alphabet(alphabet).into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_decimal_digits() {
        assert_eq!(whole_number("007").as_deref(), Some("7"));
        assert_eq!(whole_number("000").as_deref(), Some("0"));
        for wrong in ["", "-1", "1.0", "0x1", "1e3", "٣"] {
            assert_eq!(whole_number(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn bytes_in_base58_are_counted() {
        let hash = "9xKkpbdYzPs8Ho3WbJBaiUxfr9vXwA9m2cdG7e6YvSFR";
        assert_eq!(base58(hash, 32).as_deref(), Some(hash));
        assert_eq!(base58(&"1".repeat(64), 64), Some("1".repeat(64)));
        // 32 bytes have 32 to 44 digits: without its first digit this text is another hash, without two it is 31 bytes.
        let shorter = &hash[1..];
        assert_eq!(base58(shorter, 32).as_deref(), Some(shorter));
        let longer = format!("{hash}1");
        for wrong in ["", "0", &hash[2..], &longer, &"1".repeat(31), &"1".repeat(33), &"z".repeat(10_000)] {
            assert_eq!(base58(wrong, 32), None, "{wrong}");
        }
    }

    #[test]
    fn digits_are_counted_and_in_lower_case() {
        assert_eq!(lower_hex("00fF", 4).as_deref(), Some("00ff"));
        for wrong in ["", "0ff", "00fff", "00fg", "0xff", "éé"] {
            assert_eq!(lower_hex(wrong, 4), None, "{wrong}");
        }
    }

    #[test]
    fn names_and_bytes_that_no_chain_writes_are_refused() {
        assert_eq!(hex_bytes("00fF").as_deref(), Some("00ff"));
        assert_eq!(hex_bytes("").as_deref(), Some(""));
        for wrong in ["0", "0ff", "0g", "0xff"] {
            assert_eq!(hex_bytes(wrong), None, "{wrong}");
        }
        assert_eq!(program_name("plutus:v2").as_deref(), Some("plutus:v2"));
        assert_eq!(program_name("wasm-my event").as_deref(), Some("wasm-my event"));
        for wrong in ["", " ", " a", "a ", "a\nb"] {
            assert_eq!(program_name(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn base58_is_checked_in_its_alphabet() {
        for (text, alphabet, first) in [
            ("1BgGZ9tcN4rm9KBzDn7KprQz87SZ26SAMH", Alphabet::BITCOIN, 0),
            ("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", Alphabet::BITCOIN, 0x41),
            ("rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh", Alphabet::RIPPLE, 0),
        ] {
            let bytes = checked_base58(text, alphabet).expect(text);
            assert_eq!((bytes.len(), bytes[0]), (21, first));
            assert_eq!(base58_with_checksum(bytes, alphabet), text);
            assert_eq!(checked_base58(&text[..33], alphabet), None, "{text}");
        }
        assert_eq!(checked_base58("rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh", Alphabet::BITCOIN), None);
        for wrong in ["", "1", "111", "0OIl", &"1".repeat(10_000)] {
            assert_eq!(checked_base58(wrong, Alphabet::BITCOIN), None, "{wrong}");
        }
    }
}
