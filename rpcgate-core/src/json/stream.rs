//! Checking of a JSON text while it streams through.

use super::text::plain_end;
use super::{DEEPEST, SyntaxError};

/// A checker of a JSON text that arrives in chunks and is not kept.
///
/// The grammar is that of the [module](super), without checks of non-ASCII bytes in strings. The state has a fixed
/// size.
///
/// ```
/// use rpcgate_core::json::JsonStream;
///
/// let mut stream = JsonStream::new();
/// stream.read(br#"{"a":[1,"#).unwrap();
/// assert!(!stream.is_complete());
/// stream.read(b"2]} ").unwrap();
/// assert!(stream.is_complete());
/// assert!(stream.read(b"<html>").is_err());
/// ```
#[derive(Clone, Debug)]
pub struct JsonStream {
    state: State,
    depth: usize,
    /// One bit per open level: set for an object.
    kinds: [u64; DEEPEST / 64],
}

impl Default for JsonStream {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Value,
    /// A value, or the end of the array that just began.
    FirstItem,
    Name,
    /// A name, or the end of the object that just began.
    FirstName,
    Colon,
    /// A comma, the end of an array or object, or, outside of them, the end of the text.
    After,
    String {
        is_name: bool,
    },
    Escape {
        is_name: bool,
    },
    /// `left` hexadecimal digits.
    Hex {
        is_name: bool,
        left: u8,
    },
    /// The rest of `true`, `false` or `null`.
    Literal(&'static [u8]),
    Number(NumberState),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NumberState {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

impl NumberState {
    fn begin(byte: u8) -> Self {
        match byte {
            b'-' => NumberState::Minus,
            b'0' => NumberState::Zero,
            _ => NumberState::Integer,
        }
    }

    /// Returns the position after `byte`; `None` if it does not belong to the number.
    fn after(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (NumberState::Minus, b'0') => Some(NumberState::Zero),
            (NumberState::Minus | NumberState::Integer, b'0'..=b'9') => Some(NumberState::Integer),
            (NumberState::Zero | NumberState::Integer, b'.') => Some(NumberState::Point),
            (NumberState::Point | NumberState::Fraction, b'0'..=b'9') => Some(NumberState::Fraction),
            (NumberState::Zero | NumberState::Integer | NumberState::Fraction, b'e' | b'E') => {
                Some(NumberState::E)
            }
            (NumberState::E, b'+' | b'-') => Some(NumberState::Sign),
            (NumberState::E | NumberState::Sign | NumberState::Exponent, b'0'..=b'9') => {
                Some(NumberState::Exponent)
            }
            _ => None,
        }
    }

    fn may_end(self) -> bool {
        matches!(
            self,
            NumberState::Zero | NumberState::Integer | NumberState::Fraction | NumberState::Exponent
        )
    }
}

/// An observer of the members of the outermost object. Offsets refer to the current chunk.
pub(crate) trait WatchMembers {
    /// Gets a part of a member's name as written. An escape is reported as its backslash.
    fn name(&mut self, _part: &[u8]) {}
    /// Gets the start of the value after the last name.
    fn begin(&mut self, _offset: usize) {}
    /// Gets the offset after the value.
    fn end(&mut self, _offset: usize) {}
    /// Gets the offset of the object's closing brace.
    fn close(&mut self, _offset: usize) {}
}

impl WatchMembers for () {}

impl JsonStream {
    /// Creates a checker before the first byte.
    pub const fn new() -> Self {
        JsonStream { state: State::Value, depth: 0, kinds: [0; DEEPEST / 64] }
    }

    /// Reads the next chunk.
    ///
    /// # Errors
    /// Returns the offset in the chunk of the first invalid byte. The state is meaningless afterwards.
    pub fn read(&mut self, chunk: &[u8]) -> Result<(), SyntaxError> {
        self.watched(chunk, &mut ())
    }

    /// Reports whether the chunks so far are a whole JSON text.
    pub fn is_complete(&self) -> bool {
        let is_over = match self.state {
            State::After => true,
            State::Number(digits) => digits.may_end(),
            _ => false,
        };
        is_over && self.depth == 0
    }

    /// Reads the next chunk and reports the members of the outermost object.
    pub(crate) fn watched(&mut self, chunk: &[u8], watch: &mut impl WatchMembers) -> Result<(), SyntaxError> {
        let mut pos = 0;
        while let Some(&byte) = chunk.get(pos) {
            match self.state {
                State::String { is_name } => {
                    let end = plain_end(chunk, pos);
                    if is_name && self.depth == 1 {
                        watch.name(chunk.get(pos..end).unwrap_or_default());
                    }
                    pos = end + 1;
                    match chunk.get(end) {
                        None => return Ok(()),
                        Some(b'"') if is_name => self.state = State::Colon,
                        Some(b'"') => self.end_value(pos, watch),
                        Some(b'\\') => {
                            if is_name && self.depth == 1 {
                                watch.name(b"\\");
                            }
                            self.state = State::Escape { is_name };
                        }
                        Some(_) => return Err(SyntaxError::at(end)),
                    }
                    continue;
                }
                State::Escape { is_name } => match byte {
                    b'u' => self.state = State::Hex { is_name, left: 4 },
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {
                        self.state = State::String { is_name };
                    }
                    _ => return Err(SyntaxError::at(pos)),
                },
                State::Hex { is_name, left } => {
                    if !byte.is_ascii_hexdigit() {
                        return Err(SyntaxError::at(pos));
                    }
                    self.state = if left > 1 {
                        State::Hex { is_name, left: left - 1 }
                    } else {
                        State::String { is_name }
                    };
                }
                State::Literal(rest) => {
                    let Some((expected, rest)) = rest.split_first() else { return Err(SyntaxError::at(pos)) };
                    if byte != *expected {
                        return Err(SyntaxError::at(pos));
                    }
                    self.state = State::Literal(rest);
                    if rest.is_empty() {
                        self.end_value(pos + 1, watch);
                    }
                }
                State::Number(digits) => match digits.after(byte) {
                    Some(digits) => self.state = State::Number(digits),
                    None if digits.may_end() => {
                        // Reads the byte again: it is not part of the number.
                        self.end_value(pos, watch);
                        continue;
                    }
                    None => return Err(SyntaxError::at(pos)),
                },
                _ if matches!(byte, b' ' | b'\n' | b'\r' | b'\t') => {}
                State::After => match byte {
                    b',' if self.depth > 0 => {
                        self.state = if self.is_in_object() { State::Name } else { State::Value };
                    }
                    b'}' | b']' if self.depth > 0 && self.is_in_object() == (byte == b'}') => {
                        self.close(pos, watch);
                    }
                    _ => return Err(SyntaxError::at(pos)),
                },
                State::Colon if byte == b':' => self.state = State::Value,
                State::FirstName if byte == b'}' => self.close(pos, watch),
                State::FirstItem if byte == b']' => self.close(pos, watch),
                State::Name | State::FirstName if byte == b'"' => {
                    self.state = State::String { is_name: true }
                }
                State::Value | State::FirstItem => self.begin_value(pos, byte, watch)?,
                State::Colon | State::Name | State::FirstName => return Err(SyntaxError::at(pos)),
            }
            pos += 1;
        }
        Ok(())
    }

    fn begin_value(
        &mut self,
        pos: usize,
        byte: u8,
        watch: &mut impl WatchMembers,
    ) -> Result<(), SyntaxError> {
        if self.is_outermost() {
            watch.begin(pos);
        }
        self.state = match byte {
            b'"' => State::String { is_name: false },
            b'-' | b'0'..=b'9' => State::Number(NumberState::begin(byte)),
            b't' => State::Literal(b"rue"),
            b'f' => State::Literal(b"alse"),
            b'n' => State::Literal(b"ull"),
            b'{' | b'[' if self.depth < DEEPEST => {
                let is_object = byte == b'{';
                let word = &mut self.kinds[self.depth / 64 % (DEEPEST / 64)];
                let bit = 1 << (self.depth % 64);
                *word = if is_object { *word | bit } else { *word & !bit };
                self.depth += 1;
                if is_object { State::FirstName } else { State::FirstItem }
            }
            _ => return Err(SyntaxError::at(pos)),
        };
        Ok(())
    }

    fn end_value(&mut self, pos: usize, watch: &mut impl WatchMembers) {
        self.state = State::After;
        if self.is_outermost() {
            watch.end(pos);
        }
    }

    fn close(&mut self, pos: usize, watch: &mut impl WatchMembers) {
        if self.is_outermost() {
            watch.close(pos);
        }
        self.depth -= 1;
        self.end_value(pos + 1, watch);
    }

    fn is_outermost(&self) -> bool {
        self.depth == 1 && self.is_in_object()
    }

    fn is_in_object(&self) -> bool {
        let level = self.depth.wrapping_sub(1);
        self.depth > 0 && self.kinds[level / 64 % (DEEPEST / 64)] >> (level % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::json::Cursor;
    use crate::json::tests::json_text;

    fn is_json(text: &[u8]) -> bool {
        let mut cursor = Cursor::new(text, DEEPEST);
        cursor.value().and_then(|_| cursor.end()).is_ok()
    }

    fn streamed(text: &[u8], cuts: &[usize]) -> bool {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (text.len() + 1)).chain([0, text.len()]).collect();
        cuts.sort_unstable();
        let mut stream = JsonStream::new();
        cuts.windows(2).all(|cut| stream.read(&text[cut[0]..cut[1]]).is_ok()) && stream.is_complete()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        // Shows (Nodes and cache).
        #[test]
        fn a_text_in_chunks_is_accepted_where_the_cursor_accepts_the_whole(
            text in json_text(),
            cuts in vec(any::<usize>(), 0..6),
            damage in vec((any::<prop::sample::Index>(), 0..3_u8, any::<prop::sample::Index>()), 0..3),
        ) {
            const LIKELY: &[u8] = b"{}[]\",:\\u0123456789eE+-. \n\t\x00\x1f\x7fntf";
            let mut bytes = text.into_bytes();
            for (place, kind, likely) in damage {
                let at = place.index(bytes.len() + 1);
                let likely = LIKELY[likely.index(LIKELY.len())];
                match kind {
                    0 if at < bytes.len() => { bytes.remove(at); }
                    1 => bytes.insert(at, likely),
                    2 if at < bytes.len() => bytes[at] = likely,
                    _ => bytes.truncate(at),
                }
            }
            if std::str::from_utf8(&bytes).is_ok() {
                prop_assert_eq!(streamed(&bytes, &cuts), is_json(&bytes), "{:?}", String::from_utf8_lossy(&bytes));
            }
        }
    }

    #[test]
    fn a_text_that_is_cut_or_continues_is_not_complete() {
        let whole = br#"{"id":1,"result":["x\u00e9",-1.5e+3,true,false,null,{}]}"#;
        assert!(streamed(whole, &[]));
        for end in 0..whole.len() {
            assert!(!streamed(&whole[..end], &[end / 2]), "{end}");
        }
        for behind in ["<html>", "{}", "\0", ",", "]", "1"] {
            assert!(!streamed(&[whole, behind.as_bytes()].concat(), &[whole.len()]), "{behind}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |levels: usize| ["[".repeat(levels), "]".repeat(levels)].concat();
        assert!(streamed(nested(DEEPEST).as_bytes(), &[7]));
        assert!(!streamed(nested(DEEPEST + 1).as_bytes(), &[7]));
    }
}
