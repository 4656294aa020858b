//! The rule that selects the head of the chain from the heights that nodes report.
//!
//! The head decides which blocks are final, and so which answers are stored permanently. A single wrong answer of a
//! single node that is too high must do no harm:
//!
//! - Half of the nodes that answer, and at least two in a pool of three or more, must have reached the height or be
//!   within the allowed lag.
//! - The height may not grow much faster than the block rate. A higher one is believed if two nodes and half of all
//!   show it, or if it persists for several rounds: then the nodes have caught up with a chain from which they were cut
//!   off.
//! - If the head falls back far, the earlier head was wrong, and the answers that were stored because of it must go.

use std::time::Duration;

/// The factor by which blocks may come faster than usual.
const HASTE: u32 = 2;

/// The maximum factor by which the measured block rate may exceed the rate in the chain's facts, for example on a test
/// network.
const MAX_RATE: u64 = 100;

/// The number of consecutive rounds after which a height that has grown too fast is believed.
const ROUNDS: u32 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NodeHeight {
    pub(super) height: u64,
    /// True if the node says that it has not caught up.
    pub(super) is_syncing: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BelievedHead {
    pub(super) height: u64,
    /// True if the previous head was much higher.
    pub(super) has_fallen: bool,
}

/// The believed height, and a suspect one.
#[derive(Debug)]
pub(super) struct HeadBelief {
    max_lag: u64,
    /// The usual number of blocks per second, in millionths.
    usual_rate: u64,
    /// The measured number of blocks per second, in millionths, if it is higher than the usual one.
    rate: u64,
    /// The height and the time of its round.
    believed: Option<(u64, Duration)>,
    suspect: Option<SuspectHead>,
}

#[derive(Clone, Copy, Debug)]
struct SuspectHead {
    first: u64,
    first_at: Duration,
    last: u64,
    last_at: Duration,
    rounds: u32,
}

impl HeadBelief {
    /// Creates the belief for a chain with a block every `block_time`, whose nodes may be `max_lag` blocks behind.
    /// `before` is the head that is known at `now`.
    pub(super) fn new(block_time: Duration, max_lag: u64, before: Option<u64>, now: Duration) -> Self {
        let rate = per_second(1, block_time).max(1);
        let believed = before.map(|height| (height, now));
        HeadBelief { max_lag, usual_rate: rate, rate, believed, suspect: None }
    }

    /// Returns the head after a round with these answers of `nodes` nodes; `None` if no node has answered so far.
    /// Rounds that clients triggered (`is_extra`) do not make a height more credible.
    pub(super) fn observe(
        &mut self,
        mut answers: Vec<NodeHeight>,
        nodes: usize,
        is_extra: bool,
        now: Duration,
    ) -> Option<BelievedHead> {
        // Syncing nodes count only if no other node answers.
        if answers.iter().any(|answer| !answer.is_syncing) {
            answers.retain(|answer| !answer.is_syncing);
        }
        let mut heights: Vec<u64> = answers.iter().map(|answer| answer.height).collect();
        heights.sort_unstable_by(|a, b| b.cmp(a));
        let limit = self.limit(now);
        let highest = self.supported(&heights, nodes, u64::MAX);
        let found = match highest {
            Some(highest) if highest > limit && !self.is_credible(highest, &heights, is_extra, now) => {
                self.supported(&heights, nodes, limit)
            }
            found => {
                self.suspect = None;
                found
            }
        };
        let before = self.believed.map(|(height, _)| height);
        if let Some(found) = found {
            self.believed = Some((found, now));
        }
        let (height, _) = self.believed?;
        let has_fallen = before.is_some_and(|before| height.saturating_add(self.max_lag) < before);
        Some(BelievedHead { height, has_fallen })
    }

    /// Returns the highest height up to `limit` that enough nodes have reached. `heights` are in descending order.
    fn supported(&self, heights: &[u64], nodes: usize, limit: u64) -> Option<u64> {
        let least = heights.len().div_ceil(2).max(if nodes > 2 { heights.len().min(2) } else { 1 });
        let support =
            |head: u64| heights.iter().filter(|height| height.saturating_add(self.max_lag) >= head).count();
        heights.iter().copied().find(|height| *height <= limit && support(*height) >= least)
    }

    /// Returns the maximum height to which the head can have grown since it was set.
    fn limit(&self, now: Duration) -> u64 {
        let grown = |(height, at): (u64, Duration)| self.grown(height, self.rate, now.saturating_sub(at));
        self.believed.map_or(u64::MAX, grown)
    }

    /// Returns the maximum height after `time` with blocks at `rate`.
    fn grown(&self, height: u64, rate: u64, time: Duration) -> u64 {
        let blocks = time.as_millis() * u128::from(rate) * u128::from(HASTE) / 1_000_000_000;
        let blocks = u64::try_from(blocks).unwrap_or(u64::MAX);
        height.saturating_add(self.max_lag).saturating_add(blocks)
    }

    /// Reports whether a height beyond the limit is believed nevertheless. `heights` are those of all nodes.
    fn is_credible(&mut self, height: u64, heights: &[u64], is_extra: bool, now: Duration) -> bool {
        let agreeing = heights.iter().filter(|other| other.abs_diff(height) <= self.max_lag).count();
        if agreeing >= 2 && agreeing * 2 >= heights.len() {
            return true;
        }
        let known = self.suspect.filter(|suspect| self.follows(suspect, height, now));
        let new = SuspectHead { first: height, first_at: now, last: height, last_at: now, rounds: 0 };
        let mut suspect = known.unwrap_or(new);
        suspect.rounds += u32::from(!is_extra);
        (suspect.last, suspect.last_at) = (height, now);
        self.suspect = Some(suspect);
        if suspect.rounds < ROUNDS {
            return false;
        }
        self.rate = self.rate.max(suspect.rate().min(self.usual_rate.saturating_mul(MAX_RATE)));
        true
    }

    /// Reports whether a node that has shown the suspect height may show this one now.
    fn follows(&self, suspect: &SuspectHead, height: u64, now: Duration) -> bool {
        // The growth rate is unknown until the suspect height was seen twice.
        let is_new = suspect.rounds < 2;
        let rate = self.rate.max(suspect.rate());
        let most = self.grown(suspect.last, rate, now.saturating_sub(suspect.last_at));
        height.saturating_add(self.max_lag) >= suspect.last && (is_new || height <= most)
    }
}

impl SuspectHead {
    fn rate(&self) -> u64 {
        per_second(self.last - self.first.min(self.last), self.last_at.saturating_sub(self.first_at))
    }
}

/// Returns the rate of `blocks` in `time`, in millionths of a block per second.
fn per_second(blocks: u64, time: Duration) -> u64 {
    let rate = u128::from(blocks) * 1_000_000_000 / time.as_millis().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A chain with a block every ten seconds, whose nodes may be three blocks behind, probed every second.
    struct Site {
        belief: HeadBelief,
        nodes: usize,
        now: Duration,
    }

    impl Site {
        fn new(nodes: usize) -> Self {
            let now = 1_000 * SECOND;
            Site { belief: HeadBelief::new(10 * SECOND, 3, None, now), nodes, now }
        }

        /// Returns the head after a round, and whether the previous one was much higher.
        fn round(&mut self, heights: &[u64]) -> (u64, bool) {
            self.now += SECOND;
            let answers = heights.iter().map(|height| NodeHeight { height: *height, is_syncing: false });
            let head = self.belief.observe(answers.collect(), self.nodes, false, self.now).unwrap();
            (head.height, head.has_fallen)
        }
    }

    #[test]
    fn the_highest_height_that_enough_nodes_have_reached_is_the_head() {
        for (nodes, heights, head) in [
            (1, &[7][..], 7),
            (2, &[4, 6], 6),
            (2, &[1, 6], 6),
            (3, &[4, 6], 6),
            (3, &[4], 4),
            (3, &[1_000_000, 6], 6),
            (4, &[4, 6, 20, 5], 6),
            (4, &[4, 6, 9, 5], 9),
            (5, &[100, 100, 50, 50, 50], 50),
        ] {
            assert_eq!(Site::new(nodes).round(heights), (head, false), "{heights:?} of {nodes}");
        }
        let mut none = HeadBelief::new(SECOND, 3, None, SECOND);
        assert_eq!(none.observe(Vec::new(), 3, false, SECOND), None);
        let mut known = HeadBelief::new(SECOND, 3, Some(9), SECOND);
        assert_eq!(known.observe(Vec::new(), 3, false, SECOND).map(|head| head.height), Some(9));
    }

    #[test]
    fn a_node_that_reports_catching_up_counts_only_if_it_is_alone() {
        let mut site = Site::new(2);
        let syncing = NodeHeight { height: 500, is_syncing: true };
        let well = NodeHeight { height: 100, is_syncing: false };
        let height =
            |site: &mut Site, answers| site.belief.observe(answers, 2, false, site.now).unwrap().height;
        assert_eq!(height(&mut site, vec![syncing, well]), 100);
        assert_eq!(height(&mut Site::new(2), vec![syncing]), 500);
    }

    // Shows (Nodes and cache): One absurd height makes nothing final, and answers stored under a head that falls back
    // far are dropped (promise 77).
    #[test]
    fn one_absurd_height_is_not_believed_in_a_pool_of_any_size() {
        for nodes in 1..5 {
            let mut site = Site::new(nodes);
            let mut heights = vec![100; nodes];
            assert_eq!(site.round(&heights), (100, false));
            heights[0] = i64::MAX as u64;
            for _ in 0..3 {
                assert_eq!(site.round(&heights), (100, false), "{nodes}");
            }
            heights[0] = 101;
            assert_eq!(site.round(&heights).0, 101, "{nodes}");
            heights[0] = i64::MAX as u64;
            assert!(site.round(&heights).0 <= 101, "the rounds before do not count");
        }
    }

    // Shows (Nodes and cache).
    #[test]
    fn a_head_may_grow_as_fast_as_blocks_come_and_after_an_outage_by_all_of_them() {
        let mut site = Site::new(1);
        assert_eq!(site.round(&[100]), (100, false));
        assert_eq!(site.round(&[103]), (103, false), "several may come at once");
        site.now += 3_600 * SECOND;
        assert_eq!(site.round(&[463]), (463, false));
        assert_eq!(site.round(&[600]), (463, false), "but not as many in a second");
    }

    // Shows (Nodes and cache).
    #[test]
    fn a_node_that_was_cut_off_is_believed_when_it_stays_so_or_another_agrees() {
        let mut site = Site::new(1);
        assert_eq!(site.round(&[100]).0, 100);
        let heads: Vec<_> = [900, 900, 901, 901].iter().map(|height| site.round(&[*height]).0).collect();
        assert_eq!(heads, [100, 100, 100, 901]);
        let mut site = Site::new(2);
        assert_eq!(site.round(&[100, 100]).0, 100);
        assert_eq!(site.round(&[900, 101]).0, 101);
        assert_eq!(site.round(&[901, 901]).0, 901);
    }

    #[test]
    fn rounds_that_clients_ask_for_make_no_height_credible() {
        let mut site = Site::new(1);
        site.round(&[100]);
        for _ in 0..20 {
            let answer = vec![NodeHeight { height: 900, is_syncing: false }];
            let head = site.belief.observe(answer, 1, true, site.now);
            assert_eq!(head.map(|head| head.height), Some(100));
        }
    }

    #[test]
    fn a_chain_that_is_faster_than_its_facts_is_followed_after_some_rounds() {
        let mut site = Site::new(1);
        let heads: Vec<_> = (0..12).map(|round| site.round(&[100 + 10 * round]).0).collect();
        assert_eq!(heads[..5], [100, 100, 100, 100, 140]);
        assert_eq!(heads[5..], [150, 160, 170, 180, 190, 200, 210], "{heads:?}");
    }

    // Shows (Nodes and cache).
    #[test]
    fn a_head_that_falls_back_far_is_believed_and_reported_once() {
        let mut site = Site::new(1);
        assert_eq!(site.round(&[1_000_000]), (1_000_000, false), "the first one is believed");
        assert_eq!(site.round(&[100]), (100, true));
        assert_eq!(site.round(&[100]), (100, false));
        assert_eq!(site.round(&[97]), (97, false), "a node may be three blocks behind");
    }
}
