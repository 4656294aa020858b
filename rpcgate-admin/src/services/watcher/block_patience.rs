//! How long the events of a block are waited for that cannot be read, so that no block keeps back all others for ever.

use rpcgate_core::clock::Time;
use std::time::Duration;

/// How long a block whose events cannot be read is tried again, while the block itself can be read. Nodes that are
/// overloaded, or lack a part of their index for a while, have recovered by then.
const PATIENCE: Duration = Duration::from_secs(600);

/// The same right after a block that was left without its events: it may be so with all of them.
const SHORT: Duration = Duration::from_secs(30);

/// The block whose events cannot be read.
#[derive(Debug, Default)]
pub(super) struct BlockPatience {
    /// Its hash, and since when it is tried.
    block: Option<(String, Time)>,
    is_short: bool,
}

impl BlockPatience {
    /// A block was read with its events.
    pub(super) fn restore(&mut self) {
        *self = BlockPatience::default();
    }

    /// There is no such block now.
    pub(super) fn forget(&mut self) {
        self.block = None;
    }

    /// The events of this block could not be read, and the block could; whether it is time to go on without them.
    pub(super) fn has_ended(&mut self, hash: &str, now: Time) -> bool {
        let since = match &self.block {
            // A clock that was set back begins anew.
            Some((block, since)) if block == hash && *since <= now => *since,
            _ => now,
        };
        let patience = if self.is_short { SHORT } else { PATIENCE };
        if now.since(since) < patience {
            self.block = Some((hash.to_owned(), since));
            return false;
        }
        *self = BlockPatience { block: None, is_short: true };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_with_one_block_and_short_with_those_right_behind_it() {
        let mut patience = BlockPatience::default();
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
