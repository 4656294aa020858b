//! The maximum time to wait for a block that cannot be read, or not with its events. After it, the watcher goes on, so
//! that later blocks are not delayed.

use rpcgate_core::clock::Time;
use std::time::Duration;

/// The maximum time to wait for a block right after another one was given up, because all of them may be affected.
const SHORT: Duration = Duration::from_secs(30);

/// The time that the watcher has waited for an unreadable block.
#[derive(Debug)]
pub(super) struct BlockTimeout {
    /// The maximum time to retry (`webhooks.block_patience`). Nodes that are overloaded, or temporarily lack a part of
    /// their index, recover within it.
    longest: Duration,
    block: Option<(String, Time)>,
    is_short: bool,
}

impl BlockTimeout {
    pub(super) fn new(longest: Duration) -> Self {
        BlockTimeout { longest, block: None, is_short: false }
    }

    /// Resets the wait after a block was read with its events.
    pub(super) fn restore(&mut self) {
        (self.block, self.is_short) = (None, false);
    }

    /// Forgets the block. The next wait may still be a short one.
    pub(super) fn forget(&mut self) {
        self.block = None;
    }

    /// Records that a block could not be read, and reports whether the wait for it is over.
    pub(super) fn has_ended(&mut self, hash: &str, now: Time) -> bool {
        let since = match &self.block {
            // If the clock was set back, the wait starts again.
            Some((block, since)) if block == hash && *since <= now => *since,
            _ => now,
        };
        let patience = if self.is_short { self.longest.min(SHORT) } else { self.longest };
        if now.since(since) < patience {
            self.block = Some((hash.to_owned(), since));
            return false;
        }
        (self.block, self.is_short) = (None, true);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Webhooks).
    #[test]
    fn the_timeout_is_full_for_one_block_and_short_for_the_blocks_right_after_it() {
        let mut patience = BlockTimeout::new(Duration::from_secs(600));
        let at = Time::from_secs;
        assert!(!patience.has_ended("a", at(1_000)));
        assert!(!patience.has_ended("a", at(1_599)));
        assert!(!patience.has_ended("b", at(1_600)), "another block in its place");
        assert!(!patience.has_ended("b", at(100)), "the clock was set back");
        assert!(!patience.has_ended("b", at(699)));
        assert!(patience.has_ended("b", at(700)));
        assert!(!patience.has_ended("c", at(701)));
        assert!(patience.has_ended("c", at(731)));
        assert!(!patience.has_ended("d", at(732)));
        patience.forget();
        assert!(!patience.has_ended("d", at(800)), "the nodes were away in between");
        patience.restore();
        assert!(!patience.has_ended("e", at(801)));
        assert!(!patience.has_ended("e", at(1_400)));
        assert!(patience.has_ended("e", at(1_401)));
    }
}
