//! The choice of a node with regard to the limits and prices of nodes.
//!
//! A node that may not get a call now is not a candidate. Among the others, the tier of the best health is considered
//! as usual, and in it only the cheapest nodes. A node whose monthly budget is used up faster than the month passes
//! costs more than any other. The calls are taken from the node's limits before they are sent.

use super::Pool;
use crate::nodes::choice::Candidates;
use crate::nodes::error::NodeRequestError;
use crate::nodes::health::Grade;
use crate::nodes::node::Node;
use crate::nodes::node_set::NodeSet;
use crate::nodes::spending::{SpendingTime, TakenAt};
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::node_try::NodeChoice;

/// Health, tier and cost; the lowest first.
type Rank = (Grade, (bool, u32), (bool, u64));

impl Pool {
    /// Returns the node for the next `calls` calls, the reason for the choice, and the time at which the calls were
    /// counted. `None` if there is no candidate, or if none may get the calls now.
    pub(super) fn choose<'a, N: AsRef<Node>>(
        &self,
        nodes: &'a [N],
        candidates: Candidates,
        calls: u32,
    ) -> Option<(&'a N, NodeChoice, TakenAt)> {
        if !self.has_allowances {
            let (chosen, choice) = self.rotation.choose(nodes, candidates, || self.clock.elapsed())?;
            return Some((chosen, choice, TakenAt::default()));
        }
        let mut passed_over = NodeSet::NONE;
        // Another call may use up the node's limit in the meantime. Then the next round excludes the node.
        for _ in 0..=nodes.len() {
            let at = SpendingTime::of(&*self.clock);
            let (among, why) = least_costly(nodes, candidates, (calls, at), &mut passed_over);
            let candidates = Candidates { among: candidates.among.and(among), ..candidates };
            let (chosen, choice) = self.rotation.choose(nodes, candidates, || at.elapsed())?;
            if let Some(taken) = chosen.as_ref().take(calls, at) {
                return Some((chosen, why.unwrap_or(choice), taken));
            }
        }
        None
    }

    /// Returns the error for a call without a node.
    pub(super) fn unchosen<N: AsRef<Node>>(&self, nodes: &[N], candidates: Candidates) -> NodeRequestError {
        let is_any = self.has_allowances && nodes.iter().any(|node| candidates.has(node.as_ref()));
        if is_any { NodeRequestError::AtLimit } else { Fault::unsent(Cause::NoNode).into() }
    }

    pub(super) fn with_capacity<N: AsRef<Node>>(&self, nodes: &[N], calls: u32) -> NodeSet {
        if !self.has_allowances {
            return NodeSet::ALL;
        }
        let at = SpendingTime::of(&*self.clock);
        let nodes = nodes.iter().map(AsRef::<Node>::as_ref);
        nodes.filter(|node| node.has_capacity(calls, at)).map(|node| node.index).collect()
    }

    /// Reports whether a call over HTTP can be sent to one of these nodes immediately: the node is neither drained nor
    /// in backoff.
    pub(crate) fn has_usable(&self, among: NodeSet) -> bool {
        let candidates = Candidates { among, ..Candidates::from([None, None]) };
        let is_usable = |node: &Node| {
            candidates.has(node)
                && node.health.grade(candidates.kind, || self.clock.elapsed()) < Grade::BackedOff
        };
        self.http.iter().map(AsRef::<Node>::as_ref).any(is_usable)
    }

    pub(super) fn has_healthy<N: AsRef<Node>>(&self, nodes: &[N], candidates: Candidates) -> bool {
        let mut nodes = nodes.iter().map(AsRef::<Node>::as_ref);
        nodes.any(|node| {
            candidates.has(node)
                && node.health.grade(candidates.kind, || self.clock.elapsed()) == Grade::Healthy
        })
    }
}

/// Returns the candidates for the next choice, and the reason if limits or costs excluded others. Counts each node that
/// is skipped because of its limits, unless `passed_over` already has it.
fn least_costly<N: AsRef<Node>>(
    nodes: &[N],
    candidates: Candidates,
    (calls, at): (u32, SpendingTime),
    passed_over: &mut NodeSet,
) -> (NodeSet, Option<NodeChoice>) {
    let all = || nodes.iter().map(AsRef::<Node>::as_ref).filter(|node| candidates.has(node));
    let grade = |node: &Node| node.health.grade(candidates.kind, || at.elapsed());
    let rank = |node: &Node| -> Rank { (grade(node), node.tier(), node.cost(at)) };
    let with_capacity: NodeSet =
        all().filter(|node| node.has_capacity(calls, at)).map(|node| node.index).collect();
    let open = || all().filter(|node| with_capacity.has(node.index));
    let full = || all().filter(|node| !with_capacity.has(node.index));
    full().filter(|node| !passed_over.has(node.index)).for_each(|node| node.pass_over(calls, at));
    *passed_over = passed_over.or(full().map(|node| node.index).collect());
    let Some(best) = open().map(rank).min() else { return (NodeSet::NONE, None) };
    let mut why = None;
    for node in full() {
        let (grade, tier, _) = rank(node);
        if (grade, tier) <= (best.0, best.1) {
            why = Some(NodeChoice::Capacity);
        }
    }
    if best.0 > Grade::Doubtful {
        return (with_capacity, why);
    }
    let is_best = |node: &&Node| rank(node) == best;
    let is_dearer = |node: &Node| {
        let (grade, tier, cost) = rank(node);
        (grade, tier) == (best.0, best.1) && cost > best.2
    };
    if open().any(is_dearer) {
        why = Some(NodeChoice::Cheaper);
    }
    (open().filter(is_best).map(|node| node.index).collect(), why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::node::NodeIndex;
    use crate::nodes::progress::OnSent;
    use crate::nodes::{NodeConfig, NodeHealth, NodeSpending, PoolLimits};
    use crate::testing::scripted_node::{
        PoolFixture, Refusing, ScriptedNode, answer, broken, call, ending_after, failing,
    };
    use crate::transport::h1::NodeRequest;
    use futures_util::FutureExt;
    use rpcgate_core::chain::{NodeAllowance, NodePrice, NodeRate, OverBudget};
    use rpcgate_core::clock::{ManualClock, Time};
    use rpcgate_core::memory::MemoryPermit;
    use rpcgate_core::node_try::NodeTries;
    use std::time::Duration;

    const AT_LIMIT: Result<String, NodeRequestError> = Err(NodeRequestError::AtLimit);
    const MANY: u64 = 1_000_000;

    fn rate(per_second: u32, burst: u32) -> NodeAllowance {
        NodeAllowance { rate: Some(NodeRate { per_second, burst }), ..NodeAllowance::default() }
    }

    fn budget(calls: u64) -> NodeAllowance {
        NodeAllowance { monthly_calls: Some(calls), ..NodeAllowance::default() }
    }

    fn priced(price: u64, allowance: NodeAllowance) -> NodeAllowance {
        NodeAllowance { price: Some(NodePrice(price)), ..allowance }
    }

    fn node(url: &str, allowance: NodeAllowance) -> NodeConfig {
        NodeConfig::new(url.parse().unwrap()).with_allowance(allowance, NodeSpending::default())
    }

    fn pool(nodes: Vec<NodeConfig>) -> PoolFixture {
        PoolFixture::of(nodes, PoolLimits::default())
    }

    fn month_calls(fixture: &PoolFixture) -> Vec<u64> {
        fixture.pool.nodes().map(|node| node.spending.month_calls).collect()
    }

    /// Returns the node that gets a call, and the reason.
    async fn asked(fixture: &PoolFixture) -> (u16, NodeChoice) {
        let mut tries = NodeTries::default();
        let request = call("read");
        let mut memory = MemoryPermit::default();
        let mut on_sent = |_| {};
        let noted = (&mut on_sent as &mut OnSent<'_>, &mut tries);
        fixture.pool.ask_classified(&request, None, &mut memory, noted, Ok).await.unwrap();
        let [only] = tries.as_slice() else { panic!("one try") };
        (only.node, only.choice)
    }

    // Shows (Nodes and cache): A node gets no more calls than its limits of a second and a month allow, to the call,
    // also from parallel calls; one at its limit is skipped; if all are, the call gets 503 without cost.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn parallel_calls_get_exactly_the_nodes_limit_and_the_others_are_to_retry_later() {
        let one = ScriptedNode::always(answer("{}")).await;
        let fixture = pool(vec![node(&one.url(), rate(10, 25))]);
        let storm = async || {
            let calls = (0..100).map(|_| {
                let pool = fixture.pool.clone();
                tokio::spawn(async move { pool.ask(&call("read"), &mut MemoryPermit::default()).await })
            });
            let mut answered = 0;
            for call in calls.collect::<Vec<_>>() {
                match call.await.unwrap() {
                    Ok(_) => answered += 1,
                    Err(error) => assert_eq!(error, NodeRequestError::AtLimit),
                }
            }
            answered
        };
        assert_eq!((storm().await, one.seen().len()), (25, 25));
        fixture.clock.advance(Duration::from_millis(399));
        assert_eq!((storm().await, one.seen().len()), (3, 28));
        fixture.clock.advance(Duration::from_secs(3_600));
        assert_eq!((storm().await, one.seen().len()), (25, 53));
        let view = fixture.pool.nodes().next().unwrap();
        assert_eq!((view.health, view.spending.month_calls), (NodeHealth::Well, 53));
        assert_eq!((view.spending.over_rate, view.spending.over_budget), (247, 0), "each refused call once");
        assert_eq!(fixture.pool.in_flight(), 0);
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn a_node_at_its_limit_is_skipped_like_an_absent_one_and_fallbacks_follow() {
        let own = ScriptedNode::always(answer("{}")).await;
        let paid = ScriptedNode::always(answer("{}")).await;
        let fallback = NodeConfig { priority: 1, ..node(&paid.url(), rate(1, 1)) };
        let fixture = pool(vec![node(&own.url(), rate(1, 2)), fallback]);
        assert_eq!(asked(&fixture).await, (0, NodeChoice::OnlyHealthy));
        assert_eq!(asked(&fixture).await.0, 0);
        assert_eq!(asked(&fixture).await, (1, NodeChoice::Capacity));
        assert_eq!(fixture.read().await, AT_LIMIT);
        fixture.clock.advance(Duration::from_secs(1));
        assert_eq!(asked(&fixture).await.0, 0);
        let unlimited = ScriptedNode::always(answer("{}")).await;
        let fixture = pool(vec![
            node(&own.url(), rate(1, 1)),
            NodeConfig { priority: 9, ..NodeConfig::new(unlimited.url().parse().unwrap()) },
        ]);
        for _ in 0..10 {
            fixture.read().await.unwrap();
        }
        assert_eq!(unlimited.seen().len(), 9);
        assert_eq!(month_calls(&fixture), [1, 0], "a node without an allowance is not counted");
    }

    // Shows (Nodes and cache): Of nodes of one priority the cheapest is used, and one whose budget shrinks too fast
    // after the others; fallbacks stay fallbacks.
    #[tokio::test]
    async fn the_cheaper_of_equal_nodes_is_used_unless_its_budget_shrinks_too_fast() {
        let nodes = [
            ScriptedNode::always(answer("{}")).await,
            ScriptedNode::always(answer("{}")).await,
            ScriptedNode::always(answer("{}")).await,
        ];
        let fallback = NodeConfig { priority: 1, ..node(&nodes[2].url(), priced(0, budget(MANY))) };
        let fixture = pool(vec![
            node(&nodes[0].url(), priced(2, budget(MANY))),
            node(&nodes[1].url(), priced(1, budget(720))),
            fallback,
        ]);
        // 2023-12-01T00:00:00Z: each hour, 1/744 of the budget becomes due.
        fixture.clock.advance(Duration::from_secs(1_701_388_800 - 1_700_000_000));
        assert_eq!(asked(&fixture).await, (1, NodeChoice::Cheaper));
        assert_eq!(asked(&fixture).await, (0, NodeChoice::Cheaper), "the cheaper one has got what is due");
        fixture.clock.advance(Duration::from_secs(3_600));
        assert_eq!(asked(&fixture).await.0, 1);
        assert!(nodes[2].seen().is_empty(), "a fallback stays one, whatever it costs");
        let all_ahead = pool(vec![
            node(&nodes[0].url(), priced(2, budget(10))),
            node(&nodes[1].url(), priced(1, budget(10))),
            NodeConfig { priority: 1, ..node(&nodes[2].url(), budget(MANY)) },
        ]);
        let mut places = Vec::new();
        for _ in 0..20 {
            places.push(asked(&all_ahead).await.0);
        }
        assert_eq!(month_calls(&all_ahead), [10, 10, 0], "{places:?}");
        assert_eq!(asked(&all_ahead).await, (2, NodeChoice::Capacity));
    }

    // Shows (Nodes and cache): A monthly budget restarts with the month, is paced over it, and is kept over reloads and
    // restarts.
    #[tokio::test]
    async fn a_used_up_budget_refuses_until_the_next_month_or_lets_calls_through() {
        let one = ScriptedNode::always(answer("{}")).await;
        let fixture = pool(vec![node(&one.url(), budget(2))]);
        for _ in 0..2 {
            fixture.read().await.unwrap();
        }
        assert_eq!((fixture.read().await, fixture.broadcast().await), (AT_LIMIT, AT_LIMIT));
        let health = |fixture: &PoolFixture| fixture.pool.nodes().next().map(|node| node.health);
        assert_eq!(health(&fixture), Some(NodeHealth::Spent));
        assert!(fixture.pool.is_spent(NodeIndex(0)), "it is not probed");
        // The last second of November, and the first of December.
        fixture.clock.advance(Duration::from_secs(1_701_388_799 - 1_700_000_000));
        assert_eq!(fixture.read().await, AT_LIMIT);
        fixture.clock.advance(Duration::from_secs(1));
        assert_eq!((fixture.read().await, health(&fixture)), (Ok("{}".into()), Some(NodeHealth::Well)));
        let soft = NodeAllowance { over_budget: OverBudget::Allow, ..budget(1) };
        let fixture = pool(vec![node(&one.url(), soft)]);
        for _ in 0..3 {
            fixture.read().await.unwrap();
        }
        assert_eq!((month_calls(&fixture), health(&fixture)), (vec![3], Some(NodeHealth::Well)));
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn the_calls_of_an_array_count_each_and_it_is_sent_whole_or_not_at_all() {
        let one = ScriptedNode::always(answer("[]")).await;
        let fixture = pool(vec![node(&one.url(), budget(5))]);
        let array = || NodeRequest { calls: 3, ..call("array") };
        assert_eq!(fixture.complete(array()).await.unwrap(), "[]");
        assert_eq!(fixture.complete(array()).await, AT_LIMIT);
        fixture.complete(NodeRequest { calls: 2, ..call("array") }).await.unwrap();
        assert_eq!((fixture.read().await, one.seen().len()), (AT_LIMIT, 2));
    }

    // Shows (Nodes and cache): Every try, each call of an array, each copy of a transaction, each hedge, each probe and
    // each call of a stream counts at its node; an unsent one does not.
    #[tokio::test]
    async fn every_try_counts_unless_no_byte_of_it_was_sent() {
        let cut = failing(0, async |_| {}).await;
        let good = ScriptedNode::always(answer("{}")).await;
        let first = NodeConfig { priority: 0, ..node(&cut.url(), budget(MANY)) };
        let second = NodeConfig { priority: 1, ..node(&good.url(), budget(MANY)) };
        let fixture = pool(vec![first.clone(), second]);
        fixture.read().await.unwrap();
        assert_eq!(month_calls(&fixture), [1, 1]);
        let refusing = Refusing::new();
        let fixture = pool(vec![
            node(&refusing.url(), budget(MANY)),
            NodeConfig { priority: 1, ..node(&good.url(), budget(MANY)) },
        ]);
        fixture.read().await.unwrap();
        fixture.broadcast().await.unwrap();
        assert_eq!(month_calls(&fixture), [0, 2], "nothing has reached the first");
        let spent = pool(vec![first.clone(), NodeConfig { priority: 1, ..node(&good.url(), budget(1)) }]);
        spent.read().await.unwrap();
        assert_eq!(spent.read().await, Err(broken()), "no other node may get the second try");
        let alone = pool(vec![node(&cut.url(), budget(1))]);
        assert_eq!(alone.read().await, Err(broken()), "nor may the same");
        assert_eq!(month_calls(&alone), [1]);
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn a_call_whose_client_leaves_counts_only_if_a_byte_of_it_was_sent() {
        let silent = failing(0, |wire| async move {
            let _wire = wire;
            std::future::pending::<()>().await;
        })
        .await;
        let fixture = pool(vec![node(&silent.url(), budget(1))]);
        let mut leaves = Box::pin(fixture.read());
        assert!((&mut leaves).now_or_never().is_none());
        assert_eq!(month_calls(&fixture), [1]);
        drop(leaves);
        assert_eq!((month_calls(&fixture), fixture.pool.in_flight()), (vec![0], 0));
        let arrived = fixture.until(|_| silent.seen().len() == 1);
        tokio::select! { _ = fixture.read() => panic!("the node does not answer"), () = arrived => {} }
        assert_eq!((month_calls(&fixture), fixture.pool.in_flight()), (vec![1], 0));
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn probes_count_and_are_not_held_back() {
        let one = ScriptedNode::always(answer("{}")).await;
        let fixture = pool(vec![node(&one.url(), rate(1, 1))]);
        for _ in 0..3 {
            fixture.pool.ask_node(NodeIndex(0), &call("probe"), Duration::from_secs(9)).await.unwrap();
        }
        assert_eq!((month_calls(&fixture), fixture.read().await), (vec![3], AT_LIMIT));
        fixture.clock.advance(Duration::from_millis(2_999));
        assert_eq!(fixture.read().await, AT_LIMIT);
        fixture.clock.advance(Duration::from_millis(1));
        fixture.read().await.unwrap();
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn a_transaction_goes_to_the_nodes_below_their_limit_and_counts_at_each() {
        let nodes = [
            ScriptedNode::always(answer(r#"{"id":1,"result":"0x1"}"#)).await,
            ScriptedNode::always(answer(r#"{"id":1,"result":"0x1"}"#)).await,
        ];
        let several = PoolLimits::default().with_broadcast_nodes(3);
        let configs = nodes.iter().map(|one| node(&one.url(), budget(2))).collect();
        let fixture = PoolFixture::of(configs, several);
        let chain = std::sync::Arc::new(rpcgate_core::chain::Chain::deployed(std::sync::Arc::new(
            rpcgate_core::toy::Toy,
        )));
        let send = || NodeRequest {
            broadcast: true,
            reader: Some(crate::nodes::reception::ReceptionReader { chain: chain.clone(), is_rest: false }),
            ..call("send")
        };
        for expected in [1, 2] {
            fixture.complete(send()).await.unwrap();
            assert_eq!(month_calls(&fixture), [expected; 2]);
        }
        assert_eq!(fixture.complete(send()).await, AT_LIMIT);
    }

    #[tokio::test]
    async fn new_figures_keep_the_count() {
        let one = ScriptedNode::always(answer("{}")).await;
        let first = node(&one.url(), budget(2));
        let fixture = pool(vec![first.clone()]);
        for _ in 0..2 {
            fixture.read().await.unwrap();
        }
        let again = |allowance| pool(vec![NodeConfig { allowance, ..first.clone() }]);
        assert_eq!(again(budget(2)).read().await, AT_LIMIT);
        let more = again(budget(3));
        more.read().await.unwrap();
        assert_eq!((more.read().await, month_calls(&fixture)), (AT_LIMIT, vec![3]));
        assert_eq!(again(budget(1)).read().await, AT_LIMIT);
    }

    #[test]
    fn a_call_that_has_to_look_again_has_passed_a_node_over_once() {
        let nodes = ["http://a/", "http://b/"].map(|url| node(url, rate(1, 1)));
        let nodes: Vec<_> = nodes.into_iter().enumerate().map(|(at, config)| Node::new(at, config)).collect();
        let at = SpendingTime::of(&ManualClock::at(Time::from_secs(1_700_000_000)));
        let candidates = Candidates::from([None, None]);
        let mut passed_over = NodeSet::NONE;
        let mut look = || least_costly(&nodes, candidates, (1, at), &mut passed_over).0;
        assert!(nodes[0].take(1, at).is_some());
        assert_eq!(
            (look(), look()),
            (NodeSet::from_iter([NodeIndex(1)]), NodeSet::from_iter([NodeIndex(1)]))
        );
        // Another call uses up the limit.
        assert!(nodes[1].take(1, at).is_some() && nodes[1].take(1, at).is_none());
        assert_eq!((look(), look()), (NodeSet::NONE, NodeSet::NONE));
        let counts: Vec<_> = nodes.iter().map(|node| node.config.spending.view(at).over_rate).collect();
        assert_eq!(counts, [1, 1]);
    }

    #[tokio::test]
    async fn a_pool_without_nodes_for_a_call_is_not_at_its_limit() {
        let refusing = Refusing::new();
        let fixture = PoolFixture::of(vec![node(&refusing.url(), budget(1))], ending_after(1_000));
        let avoiding = NodeRequest { avoid: Some(NodeIndex(0)), ..call("read") };
        assert_eq!(fixture.complete(avoiding).await, Err(Fault::unsent(Cause::NoNode).into()));
        assert_eq!(fixture.read().await, Err(Fault::unsent(Cause::Connect).into()));
        assert_eq!(month_calls(&fixture), [0]);
    }
}
