//! The newest height of a chain, and the finality of its blocks.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The newest block height that a chain's nodes reported, and the epoch of the chain's stored answers.
#[derive(Debug, Default)]
pub struct ChainHead {
    height: AtomicU64,
    epoch: AtomicU32,
}

impl ChainHead {
    /// Returns the height; `None` until one is known.
    pub fn height(&self) -> Option<u64> {
        match self.height.load(Relaxed) {
            0 => None,
            height => Some(height),
        }
    }

    /// Sets the height. 0 means unknown.
    pub fn set(&self, height: u64) {
        self.height.store(height, Relaxed);
    }

    /// Returns how often stored answers were dropped. An answer is found only in the epoch in which its call was sent.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Relaxed)
    }

    /// Drops the chain's stored answers, and those of calls in flight.
    pub fn drop_replies(&self) {
        self.epoch.fetch_add(1, Relaxed);
    }
}

/// The finality of a chain's blocks, by the number of blocks on top of them.
///
/// ```
/// use rpcgate_core::chain::{ChainHead, Finality};
/// use std::sync::Arc;
///
/// let head = Arc::new(ChainHead::default());
/// let finality = Finality::new(head.clone(), 6);
/// assert!(!finality.is_final(1), "no height is known");
/// head.set(106);
/// assert!(finality.is_final(100) && !finality.is_final(101));
/// ```
#[derive(Clone, Debug)]
pub struct Finality {
    head: Arc<ChainHead>,
    depth: u64,
}

impl Finality {
    /// Creates a finality for blocks that are final with `depth` others on top. 0: at once.
    pub const fn new(head: Arc<ChainHead>, depth: u64) -> Self {
        Finality { head, depth }
    }

    /// Returns the chain's head.
    pub const fn head(&self) -> &Arc<ChainHead> {
        &self.head
    }

    /// Returns the number of blocks on top of a final one.
    pub const fn depth(&self) -> u64 {
        self.depth
    }

    /// Returns the finality as of the newest height `height`. An answer requested then may be older than the blocks
    /// that became final since, and contain what a reorganisation replaced.
    ///
    /// ```
    /// use rpcgate_core::chain::Finality;
    /// use std::sync::Arc;
    ///
    /// let finality = Finality::new(Arc::default(), 6);
    /// finality.head().set(106);
    /// assert!(finality.is_final(100) && !finality.as_of(Some(105)).is_final(100));
    /// ```
    pub fn as_of(&self, height: Option<u64>) -> Cow<'_, Finality> {
        let now = self.head.height();
        let earlier = height.min(now);
        if earlier == now {
            return Cow::Borrowed(self);
        }
        let head = ChainHead::default();
        head.set(earlier.unwrap_or_default());
        Cow::Owned(Finality::new(Arc::new(head), self.depth))
    }

    /// Reports whether the block at `height` is final. False while the newest height is unknown.
    pub fn is_final(&self, height: u64) -> bool {
        self.head.height().is_some_and(|head| head >= height.saturating_add(self.depth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_final_when_enough_blocks_follow_it() {
        let finality = Finality::new(Arc::default(), 6);
        assert!(!finality.is_final(1), "no head is known");
        finality.head().set(106);
        assert!(finality.is_final(100) && !finality.is_final(101));
    }

    // Shows (Nodes and cache).
    #[test]
    fn finality_never_comes_from_later_blocks_or_from_a_head_that_is_gone() {
        let finality = Finality::new(Arc::default(), 6);
        finality.head().set(106);
        for (before, last) in [(None, None), (Some(0), None), (Some(105), Some(99)), (Some(106), Some(100))] {
            let earlier = finality.as_of(before);
            for height in [1, 99, 100, 101] {
                let is_final = last.is_some_and(|last| height <= last);
                assert_eq!(earlier.is_final(height), is_final, "{before:?} {height}");
            }
        }
        assert!(!finality.as_of(Some(200)).is_final(101));
    }
}
