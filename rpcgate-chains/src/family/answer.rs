//! What the readers of blocks share: answers of nodes become values, or an error that names what is wrong with them.

use rpcgate_core::event::ReadError;
use serde::Deserialize;

/// Reads an answer, or a part of one; `wrong` says what is wrong with one that cannot be read.
pub(crate) fn read<'a, T: Deserialize<'a>>(answer: &'a [u8], wrong: &'static str) -> Result<T, ReadError> {
    serde_json::from_slice(answer).map_err(|_| ReadError::Unreadable(wrong))
}

/// Whether a text has nothing but hexadecimal digits, this many of them.
pub(crate) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// A decimal number without leading zeros, as events have amounts; `None` for any other text.
pub(crate) fn whole_number(text: &str) -> Option<String> {
    if text.is_empty() || !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let digits = text.trim_start_matches('0');
    Some(if digits.is_empty() { "0" } else { digits }.to_owned())
}

/// A `direction` of activity.
pub(crate) fn direction(text: &str) -> Option<String> {
    matches!(text, "in" | "out" | "self").then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_cannot_be_read_is_named() {
        assert_eq!(read::<u64>(b" 7\n", "no number"), Ok(7));
        for wrong in [&b""[..], b"null", b"\"7\"", b"7 8", b"-1", b"\xff"] {
            assert_eq!(read::<u64>(wrong, "no number"), Err(ReadError::Unreadable("no number")));
        }
        let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
        let read = read::<serde_json::Value>(&deep, "too deep");
        assert_eq!(read, Err(ReadError::Unreadable("too deep")));
    }

    #[test]
    fn amounts_are_decimal_digits() {
        assert_eq!(whole_number("007").as_deref(), Some("7"));
        assert_eq!(whole_number("000").as_deref(), Some("0"));
        for wrong in ["", "-1", "1.0", "0x1", "1e3", "٣"] {
            assert_eq!(whole_number(wrong), None, "{wrong}");
        }
    }
}
