//! How long a block is waited for that cannot be read, or not with its events, so that none keeps back all others for ever.

use rpcgate_core::clock::Time;
use std::time::Duration;

/// How long at most a block is waited for right after another one that was given up: it may be so with all of them.
const SHORT: Duration = Duration::from_secs(30);

/// The block that cannot be read whole.
#[derive(Debug)]
pub(super) struct BlockPatience {
    /// How long it is tried again (`webhooks.block_patience`). Nodes that are overloaded, or lack a part of their index for a
    /// while, have recovered by then.
    longest: Duration,
    /// Its hash, and since when it is tried.
    block: Option<(String, Time)>,
    is_short: bool,
}

impl BlockPatience {
    pub(super) fn new(longest: Duration) -> Self {
        BlockPatience { longest, block: None, is_short: false }
    }

    /// A block was read with its events.
    pub(super) fn restore(&mut self) {
        (self.block, self.is_short) = (None, false);
    }

    /// There is no such block now.
    pub(super) fn forget(&mut self) {
        self.block = None;
    }

    /// This block could not be read whole; whether it is time to go on without it.
    pub(super) fn has_ended(&mut self, hash: &str, now: Time) -> bool {
        let since = match &self.block {
            // A clock that was set back begins anew.
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

    #[test]
    fn patience_is_with_one_block_and_short_with_those_right_behind_it() {
        let mut patience = BlockPatience::new(Duration::from_secs(600));
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
