//! Interned texts and callers.

use crate::journal::TABLE;
use foldhash::fast::RandomState;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// A reserved number that no word has.
const NONE: u32 = u32::MAX;

/// Words, numbered in order of their first occurrence.
///
/// A word usually comes with its number in a journal's reader, which replaces hashing. The found word is compared,
/// because numbers of two readers may mean different words.
#[derive(Debug)]
pub(super) struct Words<W> {
    numbers: HashMap<W, u32, RandomState>,
    words: Vec<W>,
    /// Our numbers, indexed by those of the last reader.
    guesses: Vec<u32>,
}

impl<W> Default for Words<W> {
    fn default() -> Self {
        Words { numbers: HashMap::default(), words: Vec::new(), guesses: Vec::new() }
    }
}

impl<W> Words<W> {
    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    pub(super) fn get(&self, number: u32) -> Option<&W> {
        self.words.get(number as usize)
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, W> {
        self.words.iter()
    }
}

impl<W: Hash + Eq + Clone> Words<W> {
    /// Returns the number of `word`. A new word is stored as the result of `own`.
    pub(super) fn number<Q>(&mut self, word: &Q, own: impl FnOnce(&Q) -> W) -> u32
    where
        W: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        let number = self.words.len() as u32;
        let word = own(word);
        self.numbers.insert(word.clone(), number);
        self.words.push(word);
        number
    }

    /// Returns the number of a word that has the number `index` in a reader.
    pub(super) fn number_at<Q>(&mut self, index: u32, word: &Q, own: impl FnOnce(&Q) -> W) -> u32
    where
        W: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let index = index as usize;
        if let Some(guess) = self.guesses.get(index)
            && self.get(*guess).is_some_and(|known| known.borrow() == word)
        {
            return *guess;
        }
        let number = self.number(word, own);
        // An index beyond the table means a different word in every frame.
        if index < TABLE {
            if self.guesses.len() <= index {
                self.guesses.resize(index + 1, NONE);
            }
            self.guesses[index] = number;
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_its_number_regardless_of_the_readers_number() {
        let mut words: Words<Box<str>> = Words::default();
        let mut at = |index, word: &str| words.number_at(index, word, |name| name.into());
        assert_eq!((at(5, "a"), at(0, "b"), at(5, "a")), (0, 1, 0));
        assert_eq!((at(5, "b"), at(5, "b"), at(0, "a"), at(9, "c")), (1, 1, 0, 2));
        assert_eq!((at(TABLE as u32, "d"), at(TABLE as u32, "e"), at(u32::MAX, "d")), (3, 4, 3));
        assert_eq!(words.number("e", |name| name.into()), 4);
        assert!(words.guesses.len() <= TABLE);
        assert_eq!(words.iter().map(|word| &**word).collect::<Vec<_>>(), ["a", "b", "c", "d", "e"]);
    }
}
