//! A map in many shards, each with a briefly held lock, so that callers rarely wait for each other.

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

const SHARDS: usize = 64;

/// A sharded map of small values such as counts, by key or project.
#[derive(Debug)]
pub struct Sharded<K, V> {
    hash: RandomState,
    shards: [Mutex<Shard<K, V>>; SHARDS],
}

#[derive(Debug)]
struct Shard<K, V> {
    values: HashMap<K, V, RandomState>,
    /// The newest epoch of [`Sharded::with_expiring`].
    epoch: u64,
}

impl<K, V> Default for Shard<K, V> {
    fn default() -> Self {
        Shard { values: HashMap::default(), epoch: 0 }
    }
}

impl<K, V> Default for Sharded<K, V> {
    fn default() -> Self {
        Sharded { hash: RandomState::default(), shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl<K: Hash + Eq + Copy, V: Default> Sharded<K, V> {
    /// Calls `act` with the value of `key`, inserting the default if absent. `act` must not use this map.
    pub fn with<T>(&self, key: K, act: impl FnOnce(&mut V) -> T) -> T {
        act(self.shard(key).lock().values.entry(key).or_default())
    }

    /// Calls `act` like [`with`](Sharded::with), and removes the value if it is back at its default.
    pub fn with_rest<T>(&self, key: K, act: impl FnOnce(&mut V) -> T) -> T
    where
        V: PartialEq,
    {
        let mut shard = self.shard(key).lock();
        let value = shard.values.entry(key).or_default();
        let done = act(value);
        if *value == V::default() {
            shard.values.remove(&key);
        }
        done
    }

    /// Calls `act` like [`with`](Sharded::with), for values that expire. The first call per shard with a new `epoch`,
    /// which only grows, removes the values for which `keep` is false, instead of a sweep. Neither function may use
    /// this map.
    pub fn with_expiring<T>(
        &self,
        key: K,
        epoch: u64,
        keep: impl Fn(&V) -> bool,
        act: impl FnOnce(&mut V) -> T,
    ) -> T {
        let mut shard = self.shard(key).lock();
        if epoch > shard.epoch {
            shard.epoch = epoch;
            shard.values.retain(|_, value| keep(value));
        }
        act(shard.values.entry(key).or_default())
    }

    /// Calls `act` with the value of `key`, if present. `act` must not use this map.
    pub fn look<T>(&self, key: K, act: impl FnOnce(Option<&V>) -> T) -> T {
        act(self.shard(key).lock().values.get(&key))
    }

    /// Removes the values for which `keep` is false.
    pub fn retain(&self, mut keep: impl FnMut(&mut V) -> bool) {
        for shard in &self.shards {
            shard.lock().values.retain(|_, value| keep(value));
        }
    }

    /// Calls `act` with every value, shard by shard. `act` must not use this map.
    pub fn each(&self, mut act: impl FnMut(K, &mut V)) {
        for shard in &self.shards {
            shard.lock().values.iter_mut().for_each(|(key, value)| act(*key, value));
        }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().values.len()).sum()
    }

    /// Reports whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.lock().values.is_empty())
    }

    fn shard(&self, key: K) -> &Mutex<Shard<K, V>> {
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
