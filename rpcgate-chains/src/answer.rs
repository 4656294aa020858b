//! Readers of nodes' JSON answers: strict about the parts that events use, tolerant of everything else.

use rpcgate_core::event::ReadError;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use std::fmt;

/// The maximum length, in bytes, of an event's text that any sender of a transaction can write.
pub(crate) const TEXT_BYTES: usize = 1_024;

/// The maximum length, in bytes, of a stored error text.
const REASON_BYTES: usize = 200;

/// Deserializes an answer or a part of one. `what` is the text of the error.
pub(crate) fn read<'a, T: Deserialize<'a>>(answer: &'a [u8], what: &'static str) -> Result<T, ReadError> {
    serde_json::from_slice(answer).map_err(|_| ReadError::Unreadable(what))
}

fn start(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}

/// Returns the start of a text, of at most [`TEXT_BYTES`].
pub(crate) fn shortened(text: &str) -> &str {
    start(text, TEXT_BYTES)
}

/// Returns a node's refusal with the start of its text.
pub(crate) fn refused(code: i64, text: &str) -> ReadError {
    ReadError::Refused { code, message: start(text, REASON_BYTES).to_owned() }
}

struct Digits;

impl Visitor<'_> for Digits {
    type Value = u128;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, or a text of its digits")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<u128, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<u128, E> {
        u128::try_from(value).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u128, E> {
        integer(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// Parses a text that has only digits.
pub(crate) fn integer(text: &str) -> Option<u128> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// An amount in JSON, a number or a text. It is never read by way of a floating point number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Amount(pub(crate) u128);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Digits).map(Amount)
    }
}

/// Deserializes a 64-bit number, which may be a text.
pub(crate) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let Amount(value) = Amount::deserialize(deserializer)?;
    u64::try_from(value).map_err(|_| D::Error::custom("more than 64 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_and_anything_else_is_unreadable() {
        for (text, value) in [
            ("7", 7),
            ("18446744073709551615", u64::MAX.into()),
            ("\"340282366920938463463374607431768211455\"", u128::MAX),
        ] {
            assert_eq!(read::<Amount>(text.as_bytes(), "an amount"), Ok(Amount(value)));
        }
        for text in ["1.0", "1e3", "-1", "\"\"", "\"+1\"", "\"-1\"", "\" 1\"", "null", "18446744073709551616"]
        {
            let wrong = Err(ReadError::Unreadable("an amount"));
            assert_eq!(read::<Amount>(text.as_bytes(), "an amount"), wrong, "{text}");
        }
    }

    #[test]
    fn texts_are_shortened_between_characters() {
        assert_eq!(shortened("abc"), "abc");
        let long = "ü".repeat(600);
        assert_eq!(shortened(&long).len(), 1_024);
        assert_eq!(shortened(&format!("a{long}")).len(), 1_023);
        let message = |text: &str| match refused(7, text) {
            ReadError::Refused { code: 7, message } => message,
            other => panic!("{other}"),
        };
        assert_eq!(message("short"), "short");
        assert_eq!(message(&"ü".repeat(150)), "ü".repeat(100));
        assert_eq!(message(&format!("a{}", "ü".repeat(150))).len(), 199);
    }

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
}
