//! Cache lifetimes: the class that a chain assigns to a method, and the decision for one answer.

use std::time::Duration;

/// The cache class of a method.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheRule {
    /// Not cached: every submission and broadcast, and every method without a class.
    #[default]
    Never,
    /// Cached for this time, 1 s to 30 s in the deployed defaults.
    Short(Duration),
    /// Constant while the node runs, such as a chain id.
    Static,
    /// Never changes after it is final. Before that, or if its finality is unknown, it is cached for `unsettled`.
    Immutable {
        /// The cache lifetime of an answer that a reorganisation could still change.
        unsettled: Duration,
    },
}

impl CacheRule {
    /// Returns a short class of `secs` seconds.
    pub const fn secs(secs: u64) -> Self {
        CacheRule::Short(Duration::from_secs(secs))
    }

    /// Returns the immutable class, with unsettled answers cached for `secs` seconds.
    pub const fn immutable(secs: u64) -> Self {
        CacheRule::Immutable { unsettled: Duration::from_secs(secs) }
    }

    /// Reports whether answers of this class may be cached.
    pub const fn is_cached(self) -> bool {
        !matches!(self, CacheRule::Never)
    }
}

/// The cache decision for one answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheDecision {
    /// Not cached: errors, and answers about things that are not known yet.
    No,
    /// Cached for this time.
    For(Duration),
    /// Cached until evicted for lack of space.
    Forever,
}

impl CacheRule {
    /// Returns the decision for an answer with a result. `settled` matters for the immutable class.
    pub const fn keep(self, settled: bool) -> CacheDecision {
        match self {
            CacheRule::Never => CacheDecision::No,
            CacheRule::Short(time) => CacheDecision::For(time),
            CacheRule::Static => CacheDecision::Forever,
            CacheRule::Immutable { unsettled } if settled || unsettled.is_zero() => {
                if settled {
                    CacheDecision::Forever
                } else {
                    CacheDecision::No
                }
            }
            CacheRule::Immutable { unsettled } => CacheDecision::For(unsettled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_immutable_answer_is_kept_forever_only_once_it_is_settled() {
        let rule = CacheRule::immutable(2);
        assert_eq!(rule.keep(true), CacheDecision::Forever);
        assert_eq!(rule.keep(false), CacheDecision::For(Duration::from_secs(2)));
        assert_eq!(CacheRule::immutable(0).keep(false), CacheDecision::No);
    }

    #[test]
    fn the_other_classes_do_not_ask() {
        for settled in [true, false] {
            assert_eq!(CacheRule::Never.keep(settled), CacheDecision::No);
            assert_eq!(CacheRule::Static.keep(settled), CacheDecision::Forever);
            assert_eq!(CacheRule::secs(5).keep(settled), CacheDecision::For(Duration::from_secs(5)));
        }
    }
}
