//! The configurations of the pools of a world.

use crate::Duration;
use crate::arrivals::PoolRules;
use crate::check::DEADLINE;
use rpcgate_layers::nodes::{BatchingPolicy, HedgePolicy, PoolLimits, RetryBudget, RetryPolicy};

/// The number of calls that pay for one retry where few are allowed.
const CALLS_PER_REPEAT: u32 = 50;
/// The number of hedges that earlier calls have saved up.
const SAVED_HEDGES: u64 = 10;
const HEDGED_PERCENT: u32 = 1;

/// The configuration of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PoolKind {
    /// A read may be tried twice, but only few are.
    FewRetries,
    /// Most reads could be sent to a second node, but only few are.
    Hedging,
    /// Reads of several clients are sent together.
    Gathering,
    /// A transaction goes to two nodes, and a slow try of a read is given up.
    TwoForWrites,
}

impl PoolKind {
    pub(crate) const ALL: [PoolKind; 4] =
        [PoolKind::FewRetries, PoolKind::Hedging, PoolKind::Gathering, PoolKind::TwoForWrites];

    /// Returns the limits of the pool, and the rules that follow from them.
    pub(crate) fn pool(self) -> (PoolLimits, PoolRules) {
        let retry = RetryPolicy::default().with_deadline(DEADLINE);
        let limits = PoolLimits::default().with_max_lag(Some(3));
        // Two tries, and one more if the node had closed the connection of one.
        let rules = PoolRules { write_nodes: 1, tries: 3, calls_per_repeat: None, calls_per_hedge: None };
        match self {
            PoolKind::FewRetries => {
                let budget =
                    RetryBudget::default().with_min_per_sec(0).with_calls_per_retry(CALLS_PER_REPEAT);
                let rules = PoolRules { calls_per_repeat: Some(CALLS_PER_REPEAT.into()), ..rules };
                (limits.with_retry(retry.with_budget(budget)), rules)
            }
            PoolKind::Hedging => {
                let hedge = HedgePolicy::default().with_percentile(20).with_max_percent(HEDGED_PERCENT);
                let calls = 100 / u64::from(HEDGED_PERCENT);
                // The hedge has one try, which may come twice as well.
                let rules = PoolRules { tries: 5, calls_per_hedge: Some((calls, SAVED_HEDGES)), ..rules };
                (limits.with_retry(retry).with_hedge(Some(hedge)), rules)
            }
            PoolKind::Gathering => {
                let batching = BatchingPolicy::default().with_wait(Duration::from_millis(100));
                // Each of two tries may come in an array, again for a closed connection, and alone.
                let rules = PoolRules { tries: 7, ..rules };
                (limits.with_retry(retry).with_batching(Some(batching)), rules)
            }
            PoolKind::TwoForWrites => {
                let retry = retry.with_per_try(Duration::from_secs(3));
                (limits.with_retry(retry).with_broadcast_nodes(2), PoolRules { write_nodes: 2, ..rules })
            }
        }
    }
}
