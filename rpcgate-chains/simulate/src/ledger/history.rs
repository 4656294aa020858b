//! Values that clients change, by block: the state of an account, a sum of gifts or fees.

use std::collections::HashMap;
use std::hash::Hash;

/// One value at each height, oldest first.
#[derive(Debug, Clone)]
pub(crate) struct BlockHistory<V>(Vec<(u64, V)>);

impl<V> Default for BlockHistory<V> {
    fn default() -> Self {
        BlockHistory(Vec::new())
    }
}

impl<V> BlockHistory<V> {
    /// Returns the value after block `height`; `None` before the first change.
    pub(crate) fn at(&self, height: u64) -> Option<&V> {
        let count = self.0.partition_point(|(since, _)| *since <= height);
        self.0.get(count.checked_sub(1)?).map(|(_, value)| value)
    }

    /// Sets the value as of block `height`, or of the last changed block if that is later: an effect of an earlier
    /// transaction may be in a later block.
    pub(crate) fn set(&mut self, height: u64, value: V) {
        match self.0.last_mut() {
            Some((since, last)) if *since >= height => *last = value,
            _ => self.0.push((height, value)),
        }
    }

    /// Forgets the values that no block from `height` on shows.
    pub(crate) fn forget_before(&mut self, height: u64) {
        let old = self.0.partition_point(|(since, _)| *since < height);
        self.0.drain(..old.saturating_sub(1));
    }
}

/// The histories of many values by key.
#[derive(Debug)]
pub(crate) struct History<K, V>(HashMap<K, BlockHistory<V>>);

impl<K, V> Default for History<K, V> {
    fn default() -> Self {
        History(HashMap::new())
    }
}

impl<K: Hash + Eq, V> History<K, V> {
    pub(crate) fn at<Q: Hash + Eq + ?Sized>(&self, key: &Q, height: u64) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.0.get(key)?.at(height)
    }

    pub(crate) fn set(&mut self, key: K, height: u64, value: V) -> &mut BlockHistory<V> {
        let history = self.0.entry(key).or_default();
        history.set(height, value);
        history
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_height_has_the_last_change_up_to_it() {
        let mut history = BlockHistory::default();
        for (height, value) in [(10, 'a'), (12, 'b'), (12, 'c'), (11, 'd'), (20, 'e')] {
            history.set(height, value);
        }
        let seen: Vec<_> = [9, 10, 11, 12, 19, 20, 99].map(|height| history.at(height).copied()).into();
        assert_eq!(seen, [None, Some('a'), Some('a'), Some('d'), Some('d'), Some('e'), Some('e')]);
        history.forget_before(15);
        assert_eq!((history.at(11), history.at(15)), (None, Some(&'d')));
    }

    #[test]
    fn keys_have_separate_histories() {
        let mut history: History<String, u8> = History::default();
        history.set("a".into(), 5, 1);
        history.set("b".into(), 7, 2);
        assert_eq!((history.at("a", 9), history.at("b", 6), history.at("c", 9)), (Some(&1), None, None));
    }
}
