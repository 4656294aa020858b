//! A chain whose newest blocks are replaced at times, with its whole history.

use crate::{Dice, Duration, between};
use std::collections::BTreeMap;

const FIRST: u64 = 1_000;
/// The maximum number of blocks that one reorganisation replaces: fewer than the depth at which Ethereum's blocks are
/// final.
const DEEPEST: u64 = 60;

/// A block of one height, and the time in which it was part of the chain.
#[derive(Clone, Copy, Debug)]
struct Version {
    hash: u64,
    from: Duration,
    until: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct ForkingChain {
    versions: BTreeMap<u64, Vec<Version>>,
    hashes: u64,
    pub(crate) reorganisations: u64,
}

impl ForkingChain {
    /// Creates a chain whose hashes are the numbers from `hashes` on.
    pub(crate) fn new(hashes: u64) -> Self {
        let mut chain = ForkingChain { hashes, ..ForkingChain::default() };
        for height in 1..=FIRST {
            chain.append(height, Duration::ZERO);
        }
        chain
    }

    fn append(&mut self, height: u64, now: Duration) {
        self.hashes += 1;
        let version = Version { hash: self.hashes, from: now, until: Duration::MAX };
        self.versions.entry(height).or_default().push(version);
    }

    /// Adds a block. Sometimes a longer branch replaces the last blocks, mostly few of them.
    pub(crate) fn grow(&mut self, dice: &mut Dice, now: Duration) {
        let height = self.height(now);
        if dice.below(4) == 0 {
            let deepest = if dice.below(5) == 0 { DEEPEST } else { 3 };
            self.reorganisations += 1;
            for replaced in height + 1 - between(dice, 1, deepest)..=height {
                let version = self.versions.get_mut(&replaced).and_then(|versions| versions.last_mut());
                version.unwrap().until = now;
                self.append(replaced, now);
            }
        }
        self.append(height + 1, now);
    }

    /// Returns the height at a moment. A chain never gets shorter.
    pub(crate) fn height(&self, at: Duration) -> u64 {
        let has_begun = |versions: &[Version]| versions.iter().any(|version| version.from <= at);
        let newest = self.versions.iter().rev().find(|(_, versions)| has_begun(versions));
        newest.map_or(0, |(height, _)| *height)
    }

    /// Returns the hash of the block of this height at a moment.
    pub(crate) fn hash(&self, height: u64, at: Duration) -> Option<u64> {
        let versions = self.versions.get(&height)?;
        let version = versions.iter().find(|version| version.from <= at && at < version.until)?;
        Some(version.hash)
    }

    /// Reports whether a block with this hash was part of the chain at any time since `since`.
    pub(crate) fn was_part(&self, height: u64, hash: u64, since: Duration) -> bool {
        let mut versions = self.versions.get(&height).into_iter().flatten();
        versions.any(|version| version.hash == hash && version.until >= since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_tests::load::TestSeed;

    // Shows (Reliability).
    #[test]
    fn a_replaced_block_was_part_of_the_chain_until_then() {
        let mut chain = ForkingChain::new(0);
        let mut dice = TestSeed(1).dice(0);
        let mut before = BTreeMap::new();
        for second in 1..=200 {
            let now = Duration::from_secs(second);
            chain.grow(&mut dice, now);
            assert_eq!(chain.height(now), FIRST + second);
            let last = now - Duration::from_secs(1);
            for height in 1..FIRST + second {
                let old = chain.hash(height, last).unwrap();
                let new = chain.hash(height, now).unwrap();
                assert_eq!(before.insert(height, new).unwrap_or(old), old);
                assert!(chain.was_part(height, old, now) && chain.was_part(height, new, now));
                assert_eq!(old == new, chain.was_part(height, old, now + Duration::from_secs(1)));
            }
        }
        assert!(chain.reorganisations > 20);
    }
}
