//! A cursor that moves through a JSON text token by token.

use std::fmt;

use super::text::{Text, end_of};
use super::{Span, SyntaxError};

/// The deepest nesting that a [`Cursor`] supports.
pub const DEEPEST: usize = 1024;

/// A reader of one JSON text that returns the spans of its parts.
///
/// A value is skipped ([`value`](Self::value)) or entered: after [`enter_object`](Self::enter_object), every
/// [`next_member`](Self::next_member) is followed by reading its value, and after [`enter_array`](Self::enter_array),
/// every [`next_item`](Self::next_item) by reading that item. After an error the position is meaningless.
/// [`end`](Self::end) checks that the text is complete.
///
/// ```
/// use rpcgate_core::json::{Cursor, SyntaxError};
///
/// fn first_param(params: &[u8]) -> Result<Option<&[u8]>, SyntaxError> {
///     let mut cursor = Cursor::new(params, 128);
///     cursor.enter_array()?;
///     if !cursor.next_item()? {
///         return Ok(None);
///     }
///     Ok(Some(cursor.value()?.of(params)))
/// }
///
/// assert_eq!(first_param(br#"[ "0x1b4", false ]"#), Ok(Some(&br#""0x1b4""#[..])));
/// ```
pub struct Cursor<'a> {
    /// Valid UTF-8, which every scan below relies on.
    text: &'a [u8],
    pos: usize,
    depth: usize,
    limit: usize,
    /// One bit per level that `value` has open: set for an object.
    kinds: [u64; DEEPEST / 64],
    /// Set just after an opening bracket, where a comma is not allowed.
    fresh: bool,
    /// Set if `text` is the whole input.
    is_valid: bool,
    /// Set if `text` has no control characters except white space at its end, so that no complete string contains one.
    bare: bool,
}

impl fmt::Debug for Cursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("pos", &self.pos)
            .field("len", &self.text.len())
            .field("depth", &self.depth)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the first byte of `text`. Deeper nesting than `max_depth` (at most [`DEEPEST`]) is an error.
    ///
    /// A text is read up to the first byte that is not UTF-8, or beyond 4 GiB. [`end`](Self::end) then refuses it.
    #[inline]
    pub fn new(text: &'a [u8], max_depth: usize) -> Self {
        let (valid, bare) = survey(text);
        Cursor {
            text: text.get(..valid).unwrap_or_default(),
            pos: 0,
            depth: 0,
            limit: max_depth.min(DEEPEST),
            kinds: [0; DEEPEST / 64],
            fresh: false,
            is_valid: valid == text.len(),
            bare,
        }
    }

    /// Skips white space and returns the first byte of the next token, which shows its kind; `None` at the end.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        self.pos = skip_space(self.text, self.pos);
        self.text.get(self.pos).copied()
    }

    /// Returns the offset of the next byte to read.
    #[inline]
    pub const fn offset(&self) -> usize {
        self.pos
    }

    /// Estimates the number of items in the array, at most `most`, by the length of the first one from `from`.
    pub(crate) fn items_like(&self, from: usize, most: usize) -> usize {
        let left = self.text.len().saturating_sub(self.pos);
        (left / self.pos.saturating_sub(from).max(1) + 1).min(most)
    }

    /// Skips one value of any kind and returns its span, without the white space around it.
    #[inline]
    pub fn value(&mut self) -> Result<Span, SyntaxError> {
        let start = skip_space(self.text, self.pos);
        self.pos = match self.text.get(start) {
            Some(b'"') => end_of(self.text, start, self.bare)?,
            Some(b'{' | b'[') => self.nested(start)?,
            _ => scalar(self.text, start)?,
        };
        Ok(Span::within(start, self.pos))
    }

    /// Skips a value like [`value`](Self::value), optimised for this likely value without leading white space.
    #[inline]
    pub(crate) fn value_likely(&mut self, likely: &[u8]) -> Result<Span, SyntaxError> {
        let start = self.pos;
        if self.take(likely) { Ok(Span::within(start, self.pos)) } else { self.value() }
    }

    /// Skips a value like [`value`](Self::value), optimised for whole numbers.
    #[inline]
    pub(crate) fn value_number(&mut self) -> Result<Span, SyntaxError> {
        let start = self.pos;
        if let Some(b'1'..=b'9') = self.text.get(start) {
            let end = digits_end(self.text, start + 1);
            if !matches!(self.text.get(end), Some(b'.' | b'e' | b'E')) {
                self.pos = end;
                return Ok(Span::within(start, end));
            }
        }
        self.value()
    }

    /// Reads one string. Any other kind of value is an error.
    #[inline]
    pub fn string(&mut self) -> Result<Text, SyntaxError> {
        let start = skip_space(self.text, self.pos);
        if self.text.get(start) != Some(&b'"') {
            return Err(SyntaxError::at(start));
        }
        let text = Text::read(self.text, start, self.bare)?;
        self.pos = text.raw().end();
        Ok(text)
    }

    /// Skips these bytes, a run of whole tokens, if they are next. Comparing with the likely bytes is several times
    /// cheaper than searching for their end.
    #[inline]
    pub(crate) fn take(&mut self, likely: &[u8]) -> bool {
        let took = self.text.get(self.pos..).is_some_and(|rest| rest.starts_with(likely));
        if took {
            self.pos += likely.len();
        }
        took
    }

    #[inline]
    pub(crate) fn second(&self) -> Option<u8> {
        self.text.get(self.pos + 1).copied()
    }

    /// Moves to the start of the next member's name; returns false at the end of the object.
    #[inline]
    pub(crate) fn next_name(&mut self) -> Result<bool, SyntaxError> {
        let more = self.next(b'}')?;
        if more {
            self.pos = skip_space(self.text, self.pos);
        }
        Ok(more)
    }

    #[inline]
    pub(crate) fn name(&mut self) -> Result<Text, SyntaxError> {
        let name = self.string()?;
        let colon = skip_space(self.text, self.pos);
        if self.text.get(colon) != Some(&b':') {
            return Err(SyntaxError::at(colon));
        }
        self.pos = colon + 1;
        Ok(name)
    }

    /// Enters an object. Any other kind of value is an error.
    #[inline]
    pub fn enter_object(&mut self) -> Result<(), SyntaxError> {
        self.enter(b'{')
    }

    /// Enters an array. Any other kind of value is an error.
    #[inline]
    pub fn enter_array(&mut self) -> Result<(), SyntaxError> {
        self.enter(b'[')
    }

    /// Reads the next member's name, up to its value. `None` at the end of the object, with the cursor after it.
    #[inline]
    pub fn next_member(&mut self) -> Result<Option<Text>, SyntaxError> {
        if self.next_name()? { self.name().map(Some) } else { Ok(None) }
    }

    /// Moves to the next item of the array. Returns false at the end of the array, with the cursor after it.
    #[inline]
    pub fn next_item(&mut self) -> Result<bool, SyntaxError> {
        self.next(b']')
    }

    /// Checks that only white space is left.
    #[inline]
    pub fn end(&mut self) -> Result<(), SyntaxError> {
        match self.peek() {
            None if self.is_valid => Ok(()),
            _ => Err(SyntaxError::at(self.pos)),
        }
    }

    #[inline]
    fn enter(&mut self, open: u8) -> Result<(), SyntaxError> {
        if self.peek() != Some(open) || self.depth >= self.limit {
            return Err(SyntaxError::at(self.pos));
        }
        self.pos += 1;
        self.depth += 1;
        self.fresh = true;
        Ok(())
    }

    /// Skips the comma before a further part, or `close`.
    #[inline]
    fn next(&mut self, close: u8) -> Result<bool, SyntaxError> {
        let fresh = std::mem::take(&mut self.fresh);
        match self.peek() {
            Some(b',') if !fresh => {
                self.pos += 1;
                Ok(true)
            }
            Some(byte) if byte == close && self.depth > 0 => {
                self.pos += 1;
                self.depth -= 1;
                Ok(false)
            }
            Some(_) if fresh => Ok(true),
            _ => Err(SyntaxError::at(self.pos)),
        }
    }

    /// Returns the end of the array or object that opens at `start`. A loop with one bit per level needs no stack.
    fn nested(&mut self, start: usize) -> Result<usize, SyntaxError> {
        let text = self.text;
        let bare = self.bare;
        let base = self.depth;
        let mut depth = base;
        let mut pos = start;
        let mut in_object = false;
        'value: loop {
            match text.get(pos) {
                Some(b'"') => pos = end_of(text, pos, bare)?,
                Some(&open @ (b'{' | b'[')) => {
                    if depth >= self.limit {
                        return Err(SyntaxError::at(pos));
                    }
                    in_object = open == b'{';
                    self.mark(depth, in_object);
                    depth += 1;
                    pos = skip_space(text, pos + 1);
                    if text.get(pos) != Some(&closing(in_object)) {
                        if in_object {
                            pos = member_name(text, pos, bare)?;
                        }
                        continue 'value;
                    }
                }
                _ => pos = scalar(text, pos)?,
            }
            loop {
                if depth == base {
                    return Ok(pos);
                }
                pos = skip_space(text, pos);
                match text.get(pos) {
                    Some(b',') => {
                        pos = skip_space(text, pos + 1);
                        if in_object {
                            pos = member_name(text, pos, bare)?;
                        }
                        continue 'value;
                    }
                    Some(&byte) if byte == closing(in_object) => {
                        pos += 1;
                        depth -= 1;
                        in_object = depth > base && self.is_object(depth - 1);
                    }
                    _ => return Err(SyntaxError::at(pos)),
                }
            }
        }
    }

    #[inline]
    fn mark(&mut self, level: usize, object: bool) {
        let word = &mut self.kinds[level / 64 % (DEEPEST / 64)];
        let bit = 1 << (level % 64);
        *word = if object { *word | bit } else { *word & !bit };
    }

    #[inline]
    fn is_object(&self, level: usize) -> bool {
        self.kinds[level / 64 % (DEEPEST / 64)] >> (level % 64) & 1 == 1
    }
}

/// Returns the length of the UTF-8 prefix of `text` whose offsets fit a [`Span`], and whether `text` has no control
/// characters except white space at its end. Compiles to a few vector instructions per 32 bytes.
#[inline]
fn survey(text: &[u8]) -> (usize, bool) {
    let text = text.get(..u32::MAX as usize).unwrap_or(text);
    // Many nodes end their answers with a line feed.
    let inner = text.trim_ascii_end();
    let (bits, least) =
        inner.iter().fold((0, u8::MAX), |(bits, least), &byte| (bits | byte, least.min(byte)));
    let bare = least >= b' ';
    if bits < 0x80 {
        return (text.len(), bare);
    }
    (std::str::from_utf8(text).map_or_else(|error| error.valid_up_to(), str::len), bare)
}

#[inline]
const fn closing(in_object: bool) -> u8 {
    if in_object { b'}' } else { b']' }
}

#[inline]
fn skip_space(text: &[u8], pos: usize) -> usize {
    // Most clients and nodes write no white space.
    if text.get(pos).is_some_and(|byte| *byte <= b' ') { spaces_end(text, pos) } else { pos }
}

#[inline(never)]
fn spaces_end(text: &[u8], mut pos: usize) -> usize {
    while matches!(text.get(pos), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        pos += 1;
    }
    pos
}

#[inline]
fn member_name(text: &[u8], pos: usize, bare: bool) -> Result<usize, SyntaxError> {
    if text.get(pos) != Some(&b'"') {
        return Err(SyntaxError::at(pos));
    }
    let colon = skip_space(text, end_of(text, pos, bare)?);
    if text.get(colon) != Some(&b':') {
        return Err(SyntaxError::at(colon));
    }
    Ok(skip_space(text, colon + 1))
}

#[inline]
fn scalar(text: &[u8], pos: usize) -> Result<usize, SyntaxError> {
    match text.get(pos) {
        Some(b'-' | b'0'..=b'9') => number(text, pos),
        Some(b't') => literal(text, pos, b"true"),
        Some(b'f') => literal(text, pos, b"false"),
        Some(b'n') => literal(text, pos, b"null"),
        _ => Err(SyntaxError::at(pos)),
    }
}

#[inline]
fn literal(text: &[u8], mut pos: usize, word: &[u8]) -> Result<usize, SyntaxError> {
    for byte in word {
        if text.get(pos) != Some(byte) {
            return Err(SyntaxError::at(pos));
        }
        pos += 1;
    }
    Ok(pos)
}

#[inline]
fn number(text: &[u8], mut pos: usize) -> Result<usize, SyntaxError> {
    if text.get(pos) == Some(&b'-') {
        pos += 1;
    }
    pos = match text.get(pos) {
        Some(b'0') => pos + 1,
        _ => digits(text, pos)?,
    };
    if text.get(pos) == Some(&b'.') {
        pos = digits(text, pos + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(pos) {
        pos += 1;
        if let Some(b'+' | b'-') = text.get(pos) {
            pos += 1;
        }
        pos = digits(text, pos)?;
    }
    Ok(pos)
}

#[inline]
fn digits(text: &[u8], start: usize) -> Result<usize, SyntaxError> {
    let end = digits_end(text, start);
    if end == start { Err(SyntaxError::at(end)) } else { Ok(end) }
}

#[inline]
fn digits_end(text: &[u8], start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    start + rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len())
}
