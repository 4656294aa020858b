//! Numbered names and callers: the writer decides which ones get a number, and the reader enforces the limits.

use super::frame::{FrameError, MAX_NAME, TABLE, TABLE_TEXT};
use super::varint::{self, Cursor};
use foldhash::fast::RandomState;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

#[derive(Debug)]
pub(super) struct Numbers<K> {
    numbers: HashMap<K, u32, RandomState>,
    text: usize,
    recent: [Recent; RECENT],
}

/// The number of recent names that are found without a table look-up. The calls of a batch share a few names.
const RECENT: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    text: [u8; 32],
    length: u8,
    number: u32,
}

impl Recent {
    /// Returns the slot of a name. An unused slot holds the empty name, which is never looked up here.
    fn slot(name: &[u8]) -> usize {
        (name.len() + usize::from(name.last().copied().unwrap_or_default())) % RECENT
    }

    fn is(&self, name: &[u8]) -> bool {
        !name.is_empty() && self.text.get(..self.length.into()) == Some(name)
    }

    fn of(name: &[u8], number: u32) -> Option<Self> {
        let mut recent = Recent { number, length: u8::try_from(name.len()).ok()?, ..Recent::default() };
        recent.text.get_mut(..name.len())?.copy_from_slice(name);
        Some(recent)
    }
}

impl<K> Default for Numbers<K> {
    fn default() -> Self {
        Numbers { numbers: HashMap::default(), text: 0, recent: [Recent::default(); RECENT] }
    }
}

impl<K: Hash + Eq> Numbers<K> {
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.numbers.capacity()
    }

    /// Appends a reference to `word`, which has `text` bytes of text. Returns true if its definition must follow.
    pub(super) fn put<Q>(&mut self, word: &Q, text: usize, out: &mut Vec<u8>) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(number) = self.numbers.get(word) {
            varint::put(u64::from(*number) + 1, out);
            return false;
        }
        let next = self.numbers.len();
        if next < TABLE && self.text + text <= TABLE_TEXT {
            self.numbers.insert(word.to_owned(), next as u32);
            self.text += text;
            varint::put(next as u64 + 1, out);
        } else {
            varint::put(0, out);
        }
        true
    }
}

impl Numbers<Vec<u8>> {
    /// Appends a reference to `name`, shortened if it is too long, and its definition if necessary.
    pub(super) fn put_name(&mut self, name: &[u8], out: &mut Vec<u8>) {
        let name = cut(name);
        let slot = Recent::slot(name);
        if self.recent[slot].is(name) {
            varint::put(u64::from(self.recent[slot].number) + 1, out);
            return;
        }
        if self.put(name, name.len(), out) {
            varint::put(name.len() as u64, out);
            out.extend_from_slice(name);
        } else if let Some(recent) = self.numbers.get(name).and_then(|number| Recent::of(name, *number)) {
            self.recent[slot] = recent;
        }
    }
}

/// Cuts `name` to [`MAX_NAME`] bytes, at a character boundary.
fn cut(name: &[u8]) -> &[u8] {
    let Some(after) = name.get(MAX_NAME) else {
        return name;
    };
    let goes_on = |byte: &u8| byte & 0xc0 == 0x80;
    let mut end = MAX_NAME;
    if goes_on(after) {
        // A UTF-8 character has at most three continuation bytes. Bytes with more are not text and may be cut anywhere.
        let back = name[MAX_NAME - 3..MAX_NAME].iter().rev().position(|byte| !goes_on(byte));
        end -= back.map_or(0, |back| back + 1);
    }
    &name[..end]
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Reference {
    /// An earlier definition.
    Known(u32),
    /// A definition here, with the next number.
    New,
    /// A definition here, for this frame only.
    Passing,
}

impl Reference {
    /// Reads a reference to one of `known` words, or to a new one.
    pub(super) fn read(cursor: &mut Cursor<'_>, known: usize) -> Result<Self, FrameError> {
        match cursor.number::<u32>()?.checked_sub(1) {
            None => Ok(Reference::Passing),
            Some(index) if (index as usize) < known => Ok(Reference::Known(index)),
            Some(index) if index as usize == known && known < TABLE => Ok(Reference::New),
            Some(_) => Err(FrameError::Content),
        }
    }
}

#[derive(Debug, Default)]
struct Names {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Names {
    fn push(&mut self, name: &[u8]) -> usize {
        self.text.extend_from_slice(name);
        self.ends.push(self.text.len());
        self.ends.len() - 1
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.text.get(start..end)
    }

    fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.text.truncate(self.ends.last().copied().unwrap_or(0));
    }
}

#[derive(Debug, Default)]
pub(super) struct Known {
    numbered: Names,
    /// Unnumbered names of the newest frame. Their indices follow those of the table.
    passing: Names,
}

impl Known {
    pub(super) fn len(&self) -> usize {
        self.numbered.ends.len()
    }

    /// Drops all but the first `len` numbered names, and all unnumbered ones.
    pub(super) fn keep(&mut self, len: usize) {
        self.numbered.truncate(len);
        self.passing.truncate(0);
    }

    pub(super) fn get(&self, index: u32) -> Option<&[u8]> {
        let index = index as usize;
        match index.checked_sub(TABLE) {
            Some(passing) => self.passing.get(passing),
            None => self.numbered.get(index),
        }
    }

    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<u32, FrameError> {
        let reference = Reference::read(cursor, self.len())?;
        if let Reference::Known(index) = reference {
            return Ok(index);
        }
        let length: usize = cursor.number()?;
        let name = cursor.bytes(length)?;
        if length > MAX_NAME {
            return Err(FrameError::Content);
        }
        let index = match reference {
            Reference::Passing => TABLE + self.passing.push(name),
            _ if self.numbered.text.len() + length > TABLE_TEXT => return Err(FrameError::Content),
            _ => self.numbered.push(name),
        };
        Ok(index as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_between_characters() {
        for (text, rest) in [("a", 1_024), ("é", 1_024), ("€", 1_023), ("🦀", 1_024)] {
            for shift in 0..4 {
                let name = "x".repeat(shift) + &text.repeat(2_000);
                let cut = std::str::from_utf8(cut(name.as_bytes())).unwrap();
                assert!(name.starts_with(cut) && cut.len() > MAX_NAME - text.len(), "{text} after {shift}");
                if shift == 0 {
                    assert_eq!(cut.len(), rest);
                }
            }
        }
        assert_eq!(cut(&[0x80; 3_000]).len(), MAX_NAME, "a name that is not text is shortened too");
        assert_eq!(cut(&[b'x'; MAX_NAME]).len(), MAX_NAME);
    }

    #[test]
    fn a_recent_name_has_the_number_that_the_table_gave_it() {
        // Names that share a slot among the recent ones, and names that have none.
        let names: Vec<Vec<u8>> = [0, 1, 2, 8, 9, 31, 32, 33, 200]
            .into_iter()
            .flat_map(|length| [b'a', b'b', b'i'].map(|byte| vec![byte; length]))
            .collect();
        let mut numbers = Numbers::default();
        let mut known = HashMap::new();
        for name in names.iter().cycle().take(5 * names.len()).flat_map(|name| [name, name]) {
            let mut out = Vec::new();
            numbers.put_name(name, &mut out);
            let next = known.len() as u64;
            let number = *known.entry(name).or_insert(next);
            let mut expected = Vec::new();
            varint::put(number + 1, &mut expected);
            if number == next {
                varint::put(name.len() as u64, &mut expected);
                expected.extend_from_slice(name);
            }
            assert_eq!(out, expected, "{name:?}");
        }
    }
}
