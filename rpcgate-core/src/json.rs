//! In-place JSON parsing: the start and end of each value, never a tree of values.
//!
//! The grammar is exactly that of RFC 8259: UTF-8 throughout, well-formed escapes, no control characters in strings, no
//! leading zeros, nothing after the value, no byte order mark. Nesting is bounded and needs no stack. An escaped lone
//! surrogate passes in a skipped value, but [`unescape`] refuses it because it is not text.

mod cursor;
mod space;
mod stream;
mod text;

use std::fmt;
use std::ops::Range;

pub use cursor::{Cursor, DEEPEST};
pub use space::{close_up, has_space};
pub use stream::JsonStream;
pub(crate) use stream::WatchMembers;
pub use text::{Text, unescape, write_string};

/// A part of a body: offset and length in bytes. Bodies are smaller than 4 GiB.
///
/// ```
/// use rpcgate_core::json::Span;
///
/// let span = Span::new(1, 3);
/// assert_eq!(span.of(b"[42]"), b"42");
/// assert_eq!(span.of(b"["), b"");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Span {
    start: u32,
    len: u32,
}

impl Span {
    /// Creates the span from `start` to before `end`; empty if `end` is not after `start`. Caps offsets at 4 GiB.
    #[inline]
    pub const fn new(start: usize, end: usize) -> Self {
        let start = offset(start);
        Span { start, len: offset(end).saturating_sub(start) }
    }

    /// Creates a span like [`new`](Self::new) without checks, for ordered offsets from a [`Cursor`].
    #[inline]
    const fn within(start: usize, end: usize) -> Self {
        Span { start: start as u32, len: end.wrapping_sub(start) as u32 }
    }

    /// Returns the offset of the first byte.
    #[inline]
    pub const fn start(self) -> usize {
        self.start as usize
    }

    /// Returns the offset after the last byte.
    #[inline]
    pub const fn end(self) -> usize {
        self.start as usize + self.len as usize
    }

    /// Returns the number of bytes.
    #[inline]
    pub const fn len(self) -> usize {
        self.len as usize
    }

    /// Reports whether the span has no bytes.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns the bytes. Empty if the span exceeds `body`, which is then not the body that it was made from.
    #[inline]
    pub fn of(self, body: &[u8]) -> &[u8] {
        body.get(self.range()).unwrap_or_default()
    }

    /// Returns the span as a range of offsets, for `bytes::Bytes::slice`.
    #[inline]
    pub const fn range(self) -> Range<usize> {
        self.start()..self.end()
    }
}

const fn offset(at: usize) -> u32 {
    if at > u32::MAX as usize { u32::MAX } else { at as u32 }
}

/// The error for malformed text. `offset` is the first offending byte, or the length of the text if it ends too early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SyntaxError {
    offset: u32,
}

impl SyntaxError {
    /// Creates an error at this byte.
    #[inline]
    pub const fn at(at: usize) -> Self {
        SyntaxError { offset: offset(at) }
    }

    /// Returns the offset of the error, in bytes from the start.
    pub const fn offset(self) -> usize {
        self.offset as usize
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed JSON at byte {}", self.offset)
    }
}

impl std::error::Error for SyntaxError {}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    fn space() -> impl Strategy<Value = &'static str> + Clone {
        prop_oneof![8 => Just(""), 1 => Just(" "), 1 => Just("\n\t\r ")]
    }

    /// Generates string literals, including lone surrogates.
    pub(crate) fn string_text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            6 => "[ !#-\\[\\]-~]{0,12}",
            1 => any::<char>().prop_filter("plain", |c| *c >= ' ' && *c != '"' && *c != '\\').prop_map(String::from),
            2 => prop::sample::select(vec!["\\n", "\\\"", "\\\\", "\\/", "\\b", "\\f", "\\r", "\\t"]).prop_map(String::from),
            1 => any::<u16>().prop_map(|unit| format!("\\u{unit:04x}")),
            1 => any::<char>().prop_map(|c| {
                let mut units = [0; 2];
                c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04X}")).collect()
            }),
        ];
        vec(piece, 0..5).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
    }

    fn number_text() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<i64>().prop_map(|n| n.to_string()),
            any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(|n| format!("{n:e}")),
            "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,4})?",
        ]
    }

    /// Generates JSON texts of every kind, with white space, repeated names, and numbers beyond any float.
    pub(crate) fn json_text() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            prop::sample::select(vec!["null", "true", "false", "[]", "{}", "[ ]", "{\n}"])
                .prop_map(String::from),
            number_text(),
            string_text(),
        ];
        leaf.prop_recursive(5, 40, 6, |inner| {
            let item = (space(), inner.clone(), space()).prop_map(|(a, value, b)| format!("{a}{value}{b}"));
            let member = (space(), string_text(), space(), item.clone())
                .prop_map(|(a, n, b, v)| format!("{a}{n}{b}:{v}"));
            prop_oneof![
                vec(item, 0..6).prop_map(|items| format!("[{}]", items.join(","))),
                vec(member, 0..6).prop_map(|members| format!("{{{}}}", members.join(","))),
            ]
        })
    }

    fn read(text: &[u8], depth: usize) -> Result<Span, SyntaxError> {
        let mut cursor = Cursor::new(text, depth);
        let span = cursor.value()?;
        cursor.end()?;
        Ok(span)
    }

    /// Reads everything by entering it, to compare both ways through a text.
    fn walk(cursor: &mut Cursor<'_>) -> Result<Span, SyntaxError> {
        let first = cursor.peek();
        let start = cursor.offset();
        match first {
            Some(b'{') => {
                cursor.enter_object()?;
                while cursor.next_member()?.is_some() {
                    walk(cursor)?;
                }
            }
            Some(b'[') => {
                cursor.enter_array()?;
                while cursor.next_item()? {
                    walk(cursor)?;
                }
            }
            _ => return cursor.value(),
        }
        Ok(Span::new(start, cursor.offset()))
    }

    fn agrees_with_serde_json(text: &[u8]) {
        let expected = serde_json::from_slice::<&RawValue>(text).map(|raw| raw.get().as_bytes());
        let ours = read(text, 128).map(|span| span.of(text));
        assert_eq!(ours.ok(), expected.ok(), "{:?}", String::from_utf8_lossy(text));
        let mut cursor = Cursor::new(text, 128);
        let walked = walk(&mut cursor).and_then(|span| cursor.end().map(|()| span.of(text)));
        assert_eq!(walked, ours, "{:?}", String::from_utf8_lossy(text));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn every_json_text_is_accepted_where_serde_json_sees_it(text in json_text()) {
            prop_assert!(serde_json::from_str::<&RawValue>(&text).is_ok());
            agrees_with_serde_json(text.as_bytes());
        }

        #[test]
        fn a_damaged_text_is_accepted_only_if_serde_json_accepts_it(
            text in json_text(),
            damage in vec((any::<prop::sample::Index>(), 0..4_u8, any::<u8>(), any::<prop::sample::Index>()), 1..4),
        ) {
            const LIKELY: &[u8] = b"{}[]\",:\\u0123456789eE+-. \n\t\x00\x1f\x7f\x80\xc3\xff\xed\xa0ntf";
            let mut bytes = text.into_bytes();
            for (place, kind, byte, likely) in damage {
                let at = place.index(bytes.len() + 1);
                match kind {
                    0 if at < bytes.len() => { bytes.remove(at); }
                    1 => bytes.insert(at, LIKELY[likely.index(LIKELY.len())]),
                    2 if at < bytes.len() => bytes[at] = LIKELY[likely.index(LIKELY.len())],
                    3 if at < bytes.len() => bytes[at] = byte,
                    _ => bytes.truncate(at),
                }
            }
            agrees_with_serde_json(&bytes);
        }

        #[test]
        fn a_cut_text_fails_at_its_end(text in json_text(), cut in any::<prop::sample::Index>()) {
            let object = format!("{{\"a\":{text}}}");
            let mut cut = cut.index(object.len());
            while !object.is_char_boundary(cut) {
                cut -= 1;
            }
            prop_assert_eq!(read(&object.as_bytes()[..cut], 128), Err(SyntaxError::at(cut)));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..64)) {
            agrees_with_serde_json(&bytes);
            let _ = unescape(&bytes);
        }
    }

    #[test]
    fn the_grammar_is_strict() {
        for good in [
            "0",
            "-0",
            "1.5e+3",
            "1E400",
            "123456789012345678901234567890",
            " null ",
            "\"\\ud800\"",
            "\"\u{7f}é😀\"",
            "[1 , 2]",
            "{\"a\" : {} }",
            "\r\n\t true",
            "\"\"",
            "[[],{}]",
        ] {
            agrees_with_serde_json(good.as_bytes());
            assert!(read(good.as_bytes(), 128).is_ok(), "{good}");
        }
        for bad in [
            "",
            " ",
            "01",
            "-",
            "+1",
            ".5",
            "1.",
            "1e",
            "1e+",
            "0x1",
            "NaN",
            "Infinity",
            "nul",
            "nulL",
            "True",
            "tru e",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1",
            "]",
            "[}",
            "{]",
            "{\"a\":1,}",
            "{,}",
            "{\"a\"}",
            "{\"a\" 1}",
            "{\"a\":}",
            "{a:1}",
            "{1:1}",
            "{\"a\":1 \"b\":2}",
            "{\"a\":1",
            "\"",
            "\"a",
            "\"\\",
            "\"\\x41\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "'a'",
            "\"a\nb\"",
            "\"\u{1f}aaaaaaaaaaa\"",
            "1 2",
            "{}{}",
            "[] []",
            "null,",
            "\u{feff}1",
            "//c\n1",
            "1\0",
            "\u{a0}1",
        ] {
            agrees_with_serde_json(bad.as_bytes());
            assert!(read(bad.as_bytes(), 128).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_utf8_is_json() {
        for bad in [
            &b"\"\xff\""[..],
            b"\"\xc0\xaf\"",
            b"\"\xed\xa0\x80\"",
            b"\"\xf4\x90\x80\x80\"",
            b"1\x80",
            b"\xef\xbb\xbf1",
        ] {
            agrees_with_serde_json(bad);
            assert!(read(bad, 128).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn depth_is_counted_and_bounded() {
        let nest = |open: &str, close: &str, levels: usize| {
            format!("{}1{}", open.repeat(levels), close.repeat(levels))
        };
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":[", "]}]")] {
            let per_turn = open.matches(['[', '{']).count();
            for limit in [3, 63, 66, 126, 129, DEEPEST - 1] {
                let turns = limit / per_turn;
                let exact = turns * per_turn;
                let text = nest(open, close, turns);
                assert!(read(text.as_bytes(), exact).is_ok(), "{open} {limit}");
                assert!(read(text.as_bytes(), exact - 1).is_err(), "{open} {limit}");
                let mut cursor = Cursor::new(text.as_bytes(), exact);
                assert!(walk(&mut cursor).is_ok());
                let mut cursor = Cursor::new(text.as_bytes(), exact - 1);
                assert!(walk(&mut cursor).is_err());
            }
            assert!(read(nest(open, close, 100_000).as_bytes(), 128).is_err());
            assert!(read(nest(open, close, 100_000).as_bytes(), usize::MAX).is_err());
        }
        assert_eq!(read(&[b'['; 100_000], 128), Err(SyntaxError::at(128)));
        assert!(read(b"1", 0).is_ok());
        assert!(read(b"[]", 0).is_err());
    }

    #[test]
    fn closing_brackets_are_matched_at_every_depth() {
        for depth in 1..300 {
            let mut kinds = Vec::new();
            let mut text = String::new();
            for level in 0..depth {
                let object = (level * 7 + depth) % 3 == 0;
                text.push_str(if object { "{\"k\":" } else { "[" });
                kinds.push(if object { '}' } else { ']' });
            }
            text.push('0');
            text.extend(kinds.iter().rev());
            assert!(read(text.as_bytes(), 300).is_ok());
            let wrong = text.len() - 1 - depth / 2;
            let swapped = if text.as_bytes()[wrong] == b'}' { b']' } else { b'}' };
            let mut bytes = text.into_bytes();
            bytes[wrong] = swapped;
            if depth > 1 {
                assert_eq!(read(&bytes, 300), Err(SyntaxError::at(wrong)), "{depth}");
            }
        }
    }

    #[test]
    fn a_span_of_another_body_is_empty() {
        assert_eq!(Span::new(2, 9).of(b"12345"), b"");
        assert_eq!(Span::new(9, 2), Span::new(9, 9));
        assert_eq!(Span::new(0, usize::MAX).len(), u32::MAX as usize);
        assert_eq!(Span::new(1, 3).range(), 1..3);
    }
}
