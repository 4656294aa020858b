//! The directory in memory.

use super::{Directory, KeyLookup};
use crate::caller::Caller;
use crate::secret::KeyHash;
use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A directory with a fixed set of keys that is replaced as a whole, such as those of a configuration file.
#[derive(Default)]
pub struct MemoryDirectory {
    keys: ArcSwap<Keys>,
}

/// All keys by hash, and used keys by text, because one hash takes the time of several layers.
#[derive(Default)]
struct Keys {
    by_hash: HashMap<KeyHash, KeyLookup, RandomState>,
    seen: RwLock<HashMap<Box<str>, KeyLookup, RandomState>>,
}

impl From<HashMap<KeyHash, KeyLookup, RandomState>> for Keys {
    fn from(by_hash: HashMap<KeyHash, KeyLookup, RandomState>) -> Self {
        Keys { by_hash, seen: RwLock::default() }
    }
}

impl fmt::Debug for MemoryDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryDirectory({} keys)", self.keys.load().by_hash.len())
    }
}

impl MemoryDirectory {
    /// Creates a directory of these callers by the hash of their key.
    pub fn new(callers: impl IntoIterator<Item = (KeyHash, Arc<Caller>)>) -> Self {
        let directory = MemoryDirectory::default();
        directory.replace(callers);
        directory
    }

    /// Replaces all callers. Keys that are missing in `callers` are revoked.
    pub fn replace(&self, callers: impl IntoIterator<Item = (KeyHash, Arc<Caller>)>) {
        let mut keys: HashMap<_, _, RandomState> = HashMap::default();
        for (hash, known) in &self.keys.load().by_hash {
            if let KeyLookup::Known(caller) | KeyLookup::Revoked(caller) = known {
                keys.insert(*hash, KeyLookup::Revoked(caller.clone()));
            }
        }
        keys.extend(callers.into_iter().map(|(hash, caller)| (hash, KeyLookup::Known(caller))));
        self.keys.store(Arc::new(Keys::from(keys)));
    }

    /// Revokes a key, and returns true if it existed.
    pub fn revoke(&self, hash: KeyHash) -> bool {
        let mut found = false;
        self.keys.rcu(|keys| {
            let mut keys = keys.by_hash.clone();
            if let Some(known) = keys.get_mut(&hash)
                && let KeyLookup::Known(caller) = known
            {
                *known = KeyLookup::Revoked(caller.clone());
                found = true;
            }
            Keys::from(keys)
        });
        found
    }
}

impl Directory for MemoryDirectory {
    fn peek(&self, key: &str) -> KeyLookup {
        let keys = self.keys.load();
        if let Some(known) = keys.seen.read().get(key) {
            return known.clone();
        }
        // Only existing keys are remembered, so unknown ones cannot fill the memory.
        let Some(known) = keys.by_hash.get(&KeyHash::of(key)) else { return KeyLookup::Unknown };
        keys.seen.write().insert(key.into(), known.clone());
        known.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::suite;

    #[test]
    fn memory_passes_the_suite_of_directories() {
        suite::directory(|callers| {
            let directory = Arc::new(MemoryDirectory::new(callers));
            let writer = directory.clone();
            (directory, Box::new(move |hash| assert!(writer.revoke(hash))))
        });
    }

    #[test]
    fn a_key_missing_from_the_new_list_is_a_revoked_one() {
        let directory = MemoryDirectory::new([(KeyHash::of("a"), suite::caller(1).into())]);
        directory.replace([(KeyHash::of("b"), suite::caller(2).into())]);
        assert!(matches!(directory.peek("a"), KeyLookup::Revoked(_)));
        assert!(matches!(directory.peek("b"), KeyLookup::Known(_)));
        directory.replace([(KeyHash::of("a"), suite::caller(1).into())]);
        assert!(matches!(directory.peek("a"), KeyLookup::Known(_)), "and may come back");
    }
}
