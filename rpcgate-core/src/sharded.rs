//! A map in many parts, each with a lock of its own that is held for a few additions only: callers wait for nobody
//! but, now and then, a neighbour in the same part.

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

const SHARDS: usize = 64;

/// Counts and the like, by key or project.
#[derive(Debug)]
pub struct Sharded<K, V> {
    hash: RandomState,
    shards: [Mutex<HashMap<K, V, RandomState>>; SHARDS],
}

impl<K, V> Default for Sharded<K, V> {
    fn default() -> Self {
        Sharded { hash: RandomState::default(), shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl<K: Hash + Eq + Copy, V: Default> Sharded<K, V> {
    /// Acts on the value under `key`, a new one if there is none. `act` must not come back to this map.
    pub fn with<T>(&self, key: K, act: impl FnOnce(&mut V) -> T) -> T {
        act(self.shard(key).lock().entry(key).or_default())
    }

    /// Looks at the value under `key`. `act` must not come back to this map.
    pub fn look<T>(&self, key: K, act: impl FnOnce(Option<&V>) -> T) -> T {
        act(self.shard(key).lock().get(&key))
    }

    /// Forgets what `keep` does not want.
    pub fn retain(&self, keep: impl Fn(&V) -> bool) {
        for shard in &self.shards {
            shard.lock().retain(|_, value| keep(value));
        }
    }

    /// Acts on every value, part by part. `act` must not come back to this map.
    pub fn each(&self, mut act: impl FnMut(K, &mut V)) {
        for shard in &self.shards {
            shard.lock().iter_mut().for_each(|(key, value)| act(*key, value));
        }
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.lock().is_empty())
    }

    fn shard(&self, key: K) -> &Mutex<HashMap<K, V, RandomState>> {
        &self.shards[self.hash.hash_one(key) as usize % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_together() {
        let counts: Sharded<u64, u64> = Sharded::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|n| counts.with(n % 100, |count| *count += 1)));
            }
        });
        assert_eq!(
            (0..100).map(|n| counts.look(n, |count| count.copied().unwrap_or_default())).sum::<u64>(),
            40_000
        );
        let mut sum = 0;
        counts.each(|_, count| sum += std::mem::take(count));
        counts.each(|_, count| sum += *count);
        assert_eq!(sum, 40_000, "each is met once, and stays as it was left");
        counts.retain(|_| false);
        assert!(counts.is_empty());
    }
}
