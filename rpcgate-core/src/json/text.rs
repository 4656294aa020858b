//! JSON strings: scanning, unescaping and writing.

use std::borrow::Cow;

use super::{Span, SyntaxError};

/// A string literal in a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Text {
    raw: Span,
    escaped: bool,
}

impl Text {
    /// Returns the literal as written, with its quotes.
    #[inline]
    pub const fn raw(self) -> Span {
        self.raw
    }

    /// Returns the part between the quotes, with unresolved escapes.
    #[inline]
    pub const fn inner(self) -> Span {
        Span::new(self.raw.start() + 1, self.raw.end().saturating_sub(1))
    }

    /// Reports whether the literal contains an escape, so that [`inner`](Self::inner) differs from its text.
    #[inline]
    pub const fn is_escaped(self) -> bool {
        self.escaped
    }

    /// Returns the unescaped text; `None` if it escapes a lone surrogate. Copies only if there is an escape.
    pub fn resolve(self, body: &[u8]) -> Option<Cow<'_, str>> {
        unescape(self.raw.of(body))
    }

    #[inline]
    pub(super) fn read(text: &[u8], open: usize, bare: bool) -> Result<Self, SyntaxError> {
        let stop = run_end(text, open + 1, bare);
        if text.get(stop) == Some(&b'"') {
            return Ok(Text { raw: Span::within(open, stop + 1), escaped: false });
        }
        let end = rest(text, stop, bare)?;
        Ok(Text { raw: Span::within(open, end), escaped: true })
    }
}

/// Returns the end of the literal whose opening quote is at `open`. `bare` means that `text` has no control characters
/// except white space at its end, so the scan can ignore them.
#[inline]
pub(super) fn end_of(text: &[u8], open: usize, bare: bool) -> Result<usize, SyntaxError> {
    let stop = run_end(text, open + 1, bare);
    if text.get(stop) == Some(&b'"') { Ok(stop + 1) } else { rest(text, stop, bare) }
}

/// Returns the offset of the first byte at or after `pos` that ends the literal or needs a check, or the end of `text`.
#[inline]
fn run_end(text: &[u8], pos: usize, bare: bool) -> usize {
    if !bare {
        return plain_end(text, pos);
    }
    let rest = text.get(pos..).unwrap_or_default();
    match memchr::memchr2(b'"', b'\\', rest) {
        Some(at) => pos + at,
        // The string does not end. The offending byte may be white space after the last token.
        None => plain_end(text, pos),
    }
}

/// Returns the offset after a literal that needs more than one run. `stop` is its first byte that is not plain.
#[inline(never)]
fn rest(text: &[u8], mut stop: usize, bare: bool) -> Result<usize, SyntaxError> {
    loop {
        match text.get(stop) {
            Some(b'"') => return Ok(stop + 1),
            Some(b'\\') => stop = run_end(text, escape_end(text, stop)?, bare),
            _ => return Err(SyntaxError::at(stop)),
        }
    }
}

fn escape_end(text: &[u8], at: usize) -> Result<usize, SyntaxError> {
    match text.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => {
            for digit in at + 2..at + 6 {
                if !text.get(digit).is_some_and(u8::is_ascii_hexdigit) {
                    return Err(SyntaxError::at(digit));
                }
            }
            Ok(at + 6)
        }
        _ => Err(SyntaxError::at(at + 1)),
    }
}

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
const QUOTES: u64 = u64::from_ne_bytes([b'"'; 8]);
const BACKSLASHES: u64 = u64::from_ne_bytes([b'\\'; 8]);
const SPACES: u64 = u64::from_ne_bytes([b' '; 8]);

/// The length from which a run is scanned in blocks.
const SHORT: usize = 64;

/// Returns the offset of the first quote, backslash or control character at or after `pos`, or the end of `text`.
#[inline]
pub(super) fn plain_end(text: &[u8], pos: usize) -> usize {
    let end = words_end(text, pos, pos.saturating_add(SHORT));
    if text.get(end).is_some_and(|&byte| !is_special(byte)) {
        return long_end(text, end);
    }
    end
}

/// Searches like [`plain_end`], but stops at most 7 bytes after `until`.
///
/// Compares eight bytes at a time: subtraction borrows into the high bit of a byte that is too small, and the minuend's
/// high bit distinguishes it from one above 0x7f. A borrow may also mark the byte after a hit, never the one before, so
/// the lowest mark is exact.
#[inline]
fn words_end(text: &[u8], mut pos: usize, until: usize) -> usize {
    while let Some(chunk) = text.get(pos..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ QUOTES;
        let backslash = word ^ BACKSLASHES;
        let hits = (quote.wrapping_sub(ONES) | backslash.wrapping_sub(ONES) | word.wrapping_sub(SPACES))
            & !word
            & HIGHS;
        if hits != 0 {
            return pos + (hits.trailing_zeros() / 8) as usize;
        }
        pos += 8;
        if pos >= until {
            return pos;
        }
    }
    while text.get(pos).is_some_and(|&byte| !is_special(byte)) {
        pos += 1;
    }
    pos
}

/// Scans the rest of a long run, such as contract code, in blocks that compile to vector instructions.
#[inline(never)]
fn long_end(text: &[u8], mut pos: usize) -> usize {
    while let Some(block) = text.get(pos..).and_then(<[u8]>::first_chunk::<64>) {
        if block.iter().fold(false, |found, &byte| found | is_special(byte)) {
            break;
        }
        pos += block.len();
    }
    words_end(text, pos, usize::MAX)
}

const fn is_special(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte < b' '
}

/// Returns the text of a string literal. `raw` includes its quotes.
///
/// `None` for a lone surrogate, which is not Unicode text, and for bytes that are not a string literal.
///
/// ```
/// use rpcgate_core::json::unescape;
///
/// assert_eq!(unescape(br#""m\u0065thod""#).as_deref(), Some("method"));
/// assert_eq!(unescape(br#""\ud800""#), None);
/// ```
pub fn unescape(raw: &[u8]) -> Option<Cow<'_, str>> {
    let inner = std::str::from_utf8(raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?).ok()?;
    let Some((head, mut rest)) = inner.split_once('\\') else {
        return Some(Cow::Borrowed(inner));
    };
    let mut text = String::with_capacity(inner.len());
    text.push_str(head);
    loop {
        let (escaped, after) = one_escape(rest)?;
        text.push(escaped);
        match after.split_once('\\') {
            Some((plain, next)) => {
                text.push_str(plain);
                rest = next;
            }
            None => {
                text.push_str(after);
                return Some(Cow::Owned(text));
            }
        }
    }
}

/// Returns the character of an escape, and the rest after it. `rest` starts after the backslash.
fn one_escape(rest: &str) -> Option<(char, &str)> {
    let mut chars = rest.chars();
    let escaped = match chars.next()? {
        plain @ ('"' | '\\' | '/') => plain,
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => return unicode_escape(chars.as_str()),
        _ => return None,
    };
    Some((escaped, chars.as_str()))
}

/// Returns the character of one `\u` escape, or of a surrogate pair of two. `rest` starts after the `u`.
fn unicode_escape(rest: &str) -> Option<(char, &str)> {
    let (first, rest) = unit(rest)?;
    if !(0xd800..0xe000).contains(&first) {
        return Some((char::from_u32(first)?, rest));
    }
    let (second, rest) = unit(rest.strip_prefix("\\u")?)?;
    if first >= 0xdc00 || !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    Some((char::from_u32(code)?, rest))
}

/// Parses four hexadecimal digits as a UTF-16 unit.
fn unit(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    let mut value = 0;
    for digit in digits.chars() {
        value = value * 16 + digit.to_digit(16)?;
    }
    Some((value, rest))
}

/// Appends `text` as a JSON string with quotes. Escapes only the characters that need it.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, special) = rest.split_at_checked(plain_end(rest, 0)).unwrap_or((rest, &[]));
        out.extend_from_slice(plain);
        let Some((&byte, after)) = special.split_first() else {
            break;
        };
        write_escape(out, byte);
        rest = after;
    }
    out.push(b'"');
}

fn write_escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 0x0f)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::json::tests::string_text;

    fn naive(text: &[u8], pos: usize) -> usize {
        text.iter().skip(pos).position(|&b| is_special(b)).map_or(text.len(), |at| pos + at)
    }

    #[test]
    fn the_scan_of_many_bytes_agrees_with_a_scan_of_single_bytes() {
        for byte in 0..=u8::MAX {
            for before in (0..20).chain(28..70) {
                for filler in [b'a', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xff] {
                    let mut text = vec![filler; before.max(20) + 4];
                    text[before] = byte;
                    assert_eq!(plain_end(&text, 0), naive(&text, 0), "{byte} at {before} in {filler}");
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn the_scan_is_right_on_any_bytes(text in vec(any::<u8>(), 0..140), pos in 0..140_usize) {
            let pos = pos.min(text.len());
            prop_assert_eq!(plain_end(&text, pos), naive(&text, pos));
        }

        #[test]
        fn escapes_resolve_as_in_serde_json(literal in string_text()) {
            let expected = serde_json::from_str::<String>(&literal).ok();
            prop_assert_eq!(unescape(literal.as_bytes()).map(Cow::into_owned), expected);
        }

        #[test]
        fn a_written_string_equals_that_of_serde_json(text in vec(any::<char>(), 0..20)) {
            let text: String = text.into_iter().chain("\"\\\0\u{1f}\n\r\t\u{8}\u{c}/\u{7f}".chars()).collect();
            let mut out = Vec::new();
            write_string(&mut out, &text);
            prop_assert_eq!(String::from_utf8_lossy(&out), serde_json::to_string(&text).unwrap());
            prop_assert_eq!(unescape(&out).map(Cow::into_owned), Some(text));
        }
    }

    #[test]
    fn a_plain_literal_is_not_copied() {
        assert!(matches!(unescape(b"\"abc\""), Some(Cow::Borrowed("abc"))));
        assert!(matches!(unescape(b"\"\""), Some(Cow::Borrowed(""))));
    }

    #[test]
    fn bytes_that_are_not_a_string_have_no_text() {
        for bad in [
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\udc00\ud800""#,
            r#""\ud800\ud800""#,
            r#""\ud800x""#,
            r#""\ud800\u0041""#,
            r#""\ud800\n""#,
            r#""\u12""#,
            r#""\u+123""#,
            r#""\x""#,
            r#""\""#,
            "\"",
            "",
            "abc",
            "\"abc",
        ] {
            assert_eq!(unescape(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(unescape(b"\"\xff\""), None);
        assert_eq!(unescape(br#""\ud83d\ude00""#).as_deref(), Some("😀"));
    }
}
