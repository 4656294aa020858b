//! How long an answer may be cached: the class that a chain assigns to a method, and the decision about one answer.

use std::time::Duration;

/// A method's cache class: how long its answers may be cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheRule {
    /// Not cached: every submission and broadcast, and every method without a class.
    #[default]
    Never,
    /// Cached for this time, 1 s to 30 s in the deployed defaults.
    Short(Duration),
    /// Constant for as long as the node runs, such as a chain id.
    Static,
    /// Never changes once it is final. Until then, or while it is unknown whether it is, it is cached for `unsettled` only.
    Immutable {
        /// How long an answer is cached that a reorganisation could still change.
        unsettled: Duration,
    },
}

impl CacheRule {
    /// A short class of `secs` seconds.
    pub const fn secs(secs: u64) -> Self {
        CacheRule::Short(Duration::from_secs(secs))
    }

    /// The immutable class, with unsettled answers cached for `secs` seconds.
    pub const fn immutable(secs: u64) -> Self {
        CacheRule::Immutable { unsettled: Duration::from_secs(secs) }
    }

    /// Whether any answer to such a call may be cached.
    pub const fn is_cached(self) -> bool {
        !matches!(self, CacheRule::Never)
    }
}

/// The decision about one answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// Not at all: errors, and answers about things that are not known yet.
    No,
    /// For this time.
    For(Duration),
    /// Until it is evicted for lack of space.
    Forever,
}

impl CacheRule {
    /// The decision about an answer with a result and, for the immutable class, whether that result is `settled`.
    pub const fn keep(self, settled: bool) -> Keep {
        match self {
            CacheRule::Never => Keep::No,
            CacheRule::Short(time) => Keep::For(time),
            CacheRule::Static => Keep::Forever,
            CacheRule::Immutable { unsettled } if settled || unsettled.is_zero() => {
                if settled {
                    Keep::Forever
                } else {
                    Keep::No
                }
            }
            CacheRule::Immutable { unsettled } => Keep::For(unsettled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_immutable_answer_is_kept_for_ever_only_once_it_is_settled() {
        let rule = CacheRule::immutable(2);
        assert_eq!(rule.keep(true), Keep::Forever);
        assert_eq!(rule.keep(false), Keep::For(Duration::from_secs(2)));
        assert_eq!(CacheRule::immutable(0).keep(false), Keep::No);
    }

    #[test]
    fn the_other_classes_do_not_ask() {
        for settled in [true, false] {
            assert_eq!(CacheRule::Never.keep(settled), Keep::No);
            assert_eq!(CacheRule::Static.keep(settled), Keep::Forever);
            assert_eq!(CacheRule::secs(5).keep(settled), Keep::For(Duration::from_secs(5)));
        }
    }
}
