//! The calls that nodes have got, counted against their limits per second and per month.

use super::call_rate::CallRate;
use super::month_count::MonthCount;
use parking_lot::Mutex;
use rpcgate_core::chain::{ChainName, NodeAllowance};
use rpcgate_core::clock::{Clock, Time};
use rpcgate_core::month::CalendarMonth;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The number of nodes whose counts are kept although no pool has them any more, so that a node that comes back does
/// not start from zero.
const MOST_REMEMBERED: usize = 4_096;

/// A moment on two clocks: that of rates, which is monotonic, and that of months.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpendingTime {
    elapsed: Duration,
    now: Time,
    month: CalendarMonth,
}

impl SpendingTime {
    pub(crate) fn of(clock: &dyn Clock) -> Self {
        let now = clock.now();
        SpendingTime { elapsed: clock.elapsed(), now, month: CalendarMonth::of(now) }
    }

    /// Returns the time on the monotonic clock, which health uses as well.
    pub(super) fn elapsed(self) -> Duration {
        self.elapsed
    }
}

/// The time at which calls were taken from a node's limits; `None` if its calls are not counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TakenAt(pub(super) Option<SpendingTime>);

/// The calls that a node has got. All pools with the node share the counts, which therefore survive a change of the
/// configuration. No call takes a lock or allocates.
#[derive(Clone, Debug, Default)]
pub struct NodeSpending(Arc<SpendingState>);

#[derive(Debug, Default)]
struct SpendingState {
    rate: CallRate,
    /// Calls of this process.
    own: MonthCount,
    /// Calls of other gateways, if they are known.
    others: MonthCount,
    over_rate: AtomicU64,
    over_budget: AtomicU64,
}

/// The counts of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct NodeSpendingView {
    /// Calls in this month, including the known calls of other gateways.
    pub month_calls: u64,
    /// The number of times that the node was skipped because of its rate per second.
    pub over_rate: u64,
    /// The number of times that the node was skipped because of its budget of the month.
    pub over_budget: u64,
}

impl NodeSpending {
    fn month_calls(&self, at: SpendingTime) -> u64 {
        self.0.own.calls(at.month).saturating_add(self.0.others.calls(at.month))
    }

    /// Returns the calls of a hard budget that are left for this process; `None` without a hard budget.
    fn own_most(&self, allowance: &NodeAllowance, at: SpendingTime) -> Option<u64> {
        Some(allowance.hard_budget()?.saturating_sub(self.0.others.calls(at.month)))
    }

    fn is_within_budget(&self, allowance: &NodeAllowance, calls: u32, at: SpendingTime) -> bool {
        let own = || self.0.own.calls(at.month).saturating_add(calls.into());
        self.own_most(allowance, at).is_none_or(|most| own() <= most)
    }

    /// Reports whether not a single call is left of a hard budget.
    pub(super) fn is_spent(&self, allowance: &NodeAllowance, at: SpendingTime) -> bool {
        !self.is_within_budget(allowance, 1, at)
    }

    pub(super) fn has_capacity(&self, allowance: &NodeAllowance, calls: u32, at: SpendingTime) -> bool {
        self.is_within_budget(allowance, calls, at)
            && allowance.rate.is_none_or(|rate| self.0.rate.has_capacity(rate, calls, at.elapsed))
    }

    /// Takes all `calls` calls, or none. Returns false if they exceed a limit now.
    pub(super) fn take(&self, allowance: &NodeAllowance, calls: u32, at: SpendingTime) -> bool {
        if allowance.rate.is_some_and(|rate| !self.0.rate.take(rate, calls, at.elapsed)) {
            return false;
        }
        let is_counted = match self.own_most(allowance, at) {
            Some(most) => self.0.own.add_within(at.month, calls.into(), most),
            None => {
                self.0.own.add(at.month, calls.into());
                true
            }
        };
        if !is_counted && let Some(rate) = allowance.rate {
            self.0.rate.give_back(rate, calls, at.elapsed, at.elapsed);
        }
        is_counted
    }

    /// Counts calls that are sent regardless of the limits.
    pub(super) fn count(&self, allowance: &NodeAllowance, calls: u32, at: SpendingTime) {
        if let Some(rate) = allowance.rate {
            self.0.rate.count(rate, calls, at.elapsed);
        }
        self.0.own.add(at.month, calls.into());
    }

    /// Gives back calls that were taken at `taken` without a sent byte. `now` is on the monotonic clock.
    pub(super) fn give_back(
        &self,
        allowance: &NodeAllowance,
        calls: u32,
        taken: SpendingTime,
        now: Duration,
    ) {
        if let Some(rate) = allowance.rate {
            self.0.rate.give_back(rate, calls, taken.elapsed, now);
        }
        self.0.own.take_back(taken.month, calls.into());
    }

    /// Returns the rank, the lower first, among nodes between which nothing else decides: a node whose budget is used
    /// too fast comes after all others, then the price counts.
    pub(super) fn cost(&self, allowance: &NodeAllowance, at: SpendingTime) -> (bool, u64) {
        let is_ahead = allowance.is_ahead(self.month_calls(at), at.now);
        (is_ahead, allowance.price.unwrap_or_default().0)
    }

    pub(super) fn pass_over(&self, allowance: &NodeAllowance, calls: u32, at: SpendingTime) {
        let is_within = self.is_within_budget(allowance, calls, at);
        let reason = if is_within { &self.0.over_rate } else { &self.0.over_budget };
        reason.fetch_add(1, Relaxed);
    }

    pub(super) fn view(&self, at: SpendingTime) -> NodeSpendingView {
        NodeSpendingView {
            month_calls: self.month_calls(at),
            over_rate: self.0.over_rate.load(Relaxed),
            over_budget: self.0.over_budget.load(Relaxed),
        }
    }
}

/// The calls that one gateway has sent to a node in a month.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeMonth {
    /// The chain's path.
    pub chain: String,
    /// The node's name, followed by a number if earlier nodes have the same name.
    pub node: String,
    /// The month.
    pub month: CalendarMonth,
    /// The number of calls.
    pub calls: u64,
}

/// The counts of the gateway's nodes, by chain and name. The [`NodeSpending`] of a node outlives its pool.
///
/// ```
/// use rpcgate_core::chain::ChainName;
/// use rpcgate_core::clock::Time;
/// use rpcgate_core::month::CalendarMonth;
/// use rpcgate_layers::nodes::{NodeMonth, NodeSpendings};
///
/// let spendings = NodeSpendings::default();
/// let now = Time::from_secs(1_793_491_200);
/// let month = CalendarMonth::of(now);
/// let kept = NodeMonth { chain: "eth".into(), node: "https://a".into(), month, calls: 7 };
/// spendings.restore(std::slice::from_ref(&kept), now);
/// let _node = spendings.of(ChainName::new("eth"), "https://a");
/// assert_eq!(spendings.months(now), [kept]);
/// ```
#[derive(Debug, Default)]
pub struct NodeSpendings {
    nodes: Mutex<HashMap<(String, String), NodeSpending>>,
}

impl NodeSpendings {
    /// Returns the counts of the node with this name. Nodes of one chain with the same name share them.
    pub fn of(&self, chain: ChainName, node: &str) -> NodeSpending {
        let mut nodes = self.nodes.lock();
        if nodes.len() >= MOST_REMEMBERED {
            nodes.retain(|_, spending| Arc::strong_count(&spending.0) > 1);
        }
        nodes.entry((chain.as_str().to_owned(), node.to_owned())).or_default().clone()
    }

    /// Returns the calls of this process to each node in the month of `now`, sorted by chain and name. Forgets the
    /// counts of earlier months if no pool has their node.
    pub fn months(&self, now: Time) -> Vec<NodeMonth> {
        let month = CalendarMonth::of(now);
        let mut nodes = self.nodes.lock();
        nodes.retain(|_, spending| Arc::strong_count(&spending.0) > 1 || spending.0.own.calls(month) > 0);
        let of = |((chain, node), spending): (&(String, String), &NodeSpending)| {
            let (month, calls) = spending.0.own.read(month);
            NodeMonth { chain: chain.clone(), node: node.clone(), month, calls }
        };
        let mut months: Vec<_> = nodes.iter().map(of).collect();
        drop(nodes);
        months.sort_by(|a, b| (&a.chain, &a.node).cmp(&(&b.chain, &b.node)));
        months
    }

    /// Adds the calls of this gateway from before a restart. Calls of other months are ignored, except those of the
    /// next month: they exist if the clock was set back over the end of a month.
    pub fn restore(&self, stored: &[NodeMonth], now: Time) {
        let month = CalendarMonth::of(now);
        let mut nodes = self.nodes.lock();
        for stored in stored.iter().filter(|stored| stored.month == month || stored.month == month.next()) {
            let name = (stored.chain.clone(), stored.node.clone());
            if nodes.len() < MOST_REMEMBERED || nodes.contains_key(&name) {
                nodes.entry(name).or_default().0.own.add(stored.month, stored.calls);
            }
        }
    }

    /// Sets the number of calls that other gateways have sent to a node in a month. Within a month the number never
    /// falls.
    pub fn set_others(&self, others: &NodeMonth, now: Time) {
        let nodes = self.nodes.lock();
        if let Some(spending) = nodes.get(&(others.chain.clone(), others.node.clone())) {
            spending.0.others.raise(CalendarMonth::of(now), others.month, others.calls);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rpcgate_core::chain::{NodePrice, NodeRate, OverBudget};

    const ETH: ChainName = ChainName::new("eth");
    /// 2026-11-01T00:00:00Z.
    const NOVEMBER: u64 = 1_793_491_200;
    const DAY: u64 = 86_400;

    fn at(secs: u64) -> SpendingTime {
        let now = Time::from_secs(NOVEMBER + secs);
        SpendingTime { elapsed: Duration::from_secs(secs), now, month: CalendarMonth::of(now) }
    }

    fn budget(calls: u64) -> NodeAllowance {
        NodeAllowance { monthly_calls: Some(calls), ..NodeAllowance::default() }
    }

    #[test]
    fn a_hard_budget_is_exact_to_the_call_and_restarts_with_the_month() {
        let spending = NodeSpending::default();
        let allowance = budget(10);
        assert!(spending.take(&allowance, 8, at(0)) && !spending.take(&allowance, 3, at(0)));
        assert!(spending.take(&allowance, 2, at(0)) && spending.is_spent(&allowance, at(0)));
        assert!(!spending.has_capacity(&allowance, 1, at(30 * DAY - 1)));
        assert!(spending.take(&allowance, 10, at(30 * DAY)), "a new month");
        let soft = NodeAllowance { over_budget: OverBudget::Allow, ..allowance };
        assert!(spending.take(&soft, 5, at(30 * DAY)) && !spending.is_spent(&soft, at(30 * DAY)));
        assert_eq!(spending.view(at(30 * DAY)).month_calls, 15);
    }

    #[test]
    fn calls_of_other_gateways_reduce_the_budget() {
        let spendings = NodeSpendings::default();
        let spending = spendings.of(ETH, "a");
        let allowance = budget(10);
        let others = |month, calls| NodeMonth { chain: "eth".into(), node: "a".into(), month, calls };
        let november = CalendarMonth::of(at(0).now);
        spendings.set_others(&others(november, 7), at(0).now);
        spendings.set_others(&others(november, 5), at(0).now);
        assert!(spending.take(&allowance, 3, at(0)) && !spending.has_capacity(&allowance, 1, at(0)));
        spendings.set_others(&others(november, 99), at(30 * DAY).now);
        assert!(spending.take(&allowance, 10, at(30 * DAY)), "that was another month");
    }

    #[test]
    fn calls_over_the_budget_use_no_rate_and_unsent_calls_are_returned() {
        let rate = Some(NodeRate { per_second: 2, burst: 2 });
        let spending = NodeSpending::default();
        let allowance = NodeAllowance { rate, ..budget(3) };
        assert!(spending.take(&allowance, 2, at(0)) && !spending.take(&allowance, 1, at(0)));
        assert!(!spending.take(&allowance, 2, at(1)), "one is left of the budget");
        assert!(spending.take(&allowance, 1, at(1)));
        spending.give_back(&allowance, 1, at(1), at(1).elapsed);
        assert!(spending.take(&allowance, 1, at(1)) && !spending.has_capacity(&allowance, 1, at(9)));
        spending.pass_over(&allowance, 1, at(9));
        spending.pass_over(&NodeAllowance { monthly_calls: None, ..allowance }, 1, at(9));
        spending.count(&allowance, 4, at(9));
        let view = spending.view(at(9));
        assert_eq!((view.month_calls, view.over_rate, view.over_budget), (7, 1, 1));
    }

    #[test]
    fn a_node_that_is_ahead_of_its_budget_comes_after_one_that_costs_more() {
        let priced = |price, calls| NodeAllowance { price: Some(NodePrice(price)), ..budget(calls) };
        let cheap = NodeSpending::default();
        let dear = NodeSpending::default();
        let is_cheaper =
            |time| cheap.cost(&priced(1, 720_000), at(time)) < dear.cost(&priced(9, 720_000), at(time));
        assert!(is_cheaper(0));
        cheap.count(&priced(1, 720_000), 5_000, at(0));
        assert!(!is_cheaper(0) && !is_cheaper(3_600) && is_cheaper(4 * 3_600));
        assert_eq!(NodeSpending::default().cost(&NodeAllowance::default(), at(0)), (false, 0));
    }

    #[test]
    fn counts_outlast_a_node_within_a_month_and_are_bounded() {
        let spendings = NodeSpendings::default();
        spendings.of(ETH, "gone").count(&budget(9), 3, at(0));
        let _held = spendings.of(ETH, "held");
        let names = |secs| {
            let months = spendings.months(at(secs).now);
            months.into_iter().map(|node| (node.node, node.calls)).collect::<Vec<_>>()
        };
        assert_eq!(names(0), [("gone".to_owned(), 3), ("held".to_owned(), 0)]);
        assert_eq!(names(30 * DAY), [("held".to_owned(), 0)]);
        let before = NodeMonth {
            chain: "eth".into(),
            node: "held".into(),
            month: CalendarMonth::of(at(0).now),
            calls: 5,
        };
        spendings.restore(std::slice::from_ref(&before), at(30 * DAY).now);
        assert_eq!(names(30 * DAY), [("held".to_owned(), 0)], "it is another month");
        for number in 0..2 * MOST_REMEMBERED {
            spendings.of(ETH, &number.to_string()).count(&budget(9), 1, at(30 * DAY));
        }
        assert!(spendings.nodes.lock().len() <= MOST_REMEMBERED);
        assert!(names(30 * DAY).iter().any(|(name, _)| name == "held"));
        let stored = spendings.months(at(30 * DAY).now);
        let restarted = NodeSpendings::default();
        restarted.restore(&stored, at(30 * DAY).now);
        assert_eq!(
            restarted.months(at(30 * DAY).now).len(),
            stored.iter().filter(|node| node.calls > 0).count()
        );
    }

    #[test]
    fn counts_are_restored_although_the_clock_was_set_back_over_the_end_of_a_month() {
        let december = CalendarMonth::of(at(30 * DAY).now);
        let stored = NodeMonth { chain: "eth".into(), node: "a".into(), month: december, calls: 5 };
        let spendings = NodeSpendings::default();
        spendings.restore(std::slice::from_ref(&stored), at(30 * DAY - 1).now);
        for secs in [30 * DAY - 1, 30 * DAY] {
            assert_eq!(spendings.months(at(secs).now), std::slice::from_ref(&stored));
        }
    }

    #[test]
    fn counts_of_any_number_of_configured_nodes_are_restored() {
        let spendings = NodeSpendings::default();
        let held: Vec<_> = (0..=MOST_REMEMBERED).map(|node| spendings.of(ETH, &node.to_string())).collect();
        let month = CalendarMonth::of(at(0).now);
        let stored = |node: &str| NodeMonth { chain: "eth".into(), node: node.into(), month, calls: 5 };
        spendings.restore(&[stored("gone"), stored("7")], at(0).now);
        let calls: Vec<_> = held[6..9].iter().map(|node| node.view(at(0)).month_calls).collect();
        assert_eq!((calls, spendings.months(at(0).now).len()), (vec![0, 5, 0], held.len()));
    }

    proptest! {
        // Shows (Nodes and cache).
        #[test]
        fn no_month_exceeds_its_budget_for_any_calls_taken_and_returned(
            budget_calls in 1_u64..200,
            steps in proptest::collection::vec(
                (0_u64..3 * DAY, 1_u32..9, any::<bool>(), any::<bool>()),
                1..200,
            ),
        ) {
            let spending = NodeSpending::default();
            let allowance = budget(budget_calls);
            let mut time = 0;
            let mut used = HashMap::<CalendarMonth, u64>::new();
            // Calls in progress that will not be sent.
            let mut pending: Vec<(SpendingTime, u32)> = Vec::new();
            for (passed, calls, is_sent, is_late) in steps {
                time += passed;
                let moment = at(time);
                for (taken, calls) in pending.drain(..) {
                    spending.give_back(&allowance, calls, taken, moment.elapsed);
                    *used.entry(taken.month).or_default() -= u64::from(calls);
                }
                let left = budget_calls - used.get(&moment.month).copied().unwrap_or_default();
                let is_taken = spending.take(&allowance, calls, moment);
                prop_assert_eq!(is_taken, u64::from(calls) <= left, "exactly what is left");
                match (is_taken, is_sent, is_late) {
                    (true, false, false) => spending.give_back(&allowance, calls, moment, moment.elapsed),
                    (true, _, _) => {
                        *used.entry(moment.month).or_default() += u64::from(calls);
                        pending.extend((!is_sent).then_some((moment, calls)));
                    }
                    (false, ..) => {}
                }
                prop_assert!(spending.view(moment).month_calls <= budget_calls);
            }
        }
    }
}
