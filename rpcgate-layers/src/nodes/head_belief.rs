//! Which of the heights that nodes show is believed to be the head of the chain.
//!
//! A height decides which blocks are final, and so what is stored for ever. One that is too high, in a single answer of a single
//! node, must not do harm:
//!
//! - Half of the nodes that answer, and two in a pool of three or more, must have reached it, or be as little behind as a node may be.
//! - It may not grow much faster than blocks come. A height beyond that is believed if two nodes and half of all show it, or if it is
//!   still shown after several rounds: then nodes have caught up with a chain from which they were cut off.
//! - If the head falls back far, it was wrong before, and what was stored by it must go.

use std::time::Duration;

/// How many times as fast as usual blocks may come.
const HASTE: u32 = 2;

/// How many times as fast as the chain's facts say blocks may turn out to come, as on a network for tests.
const MAX_RATE: u64 = 100;

/// Rounds in a row in which a height is shown before it is believed although it has grown too fast.
const ROUNDS: u32 = 4;

/// The height of a node that has answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NodeHeight {
    pub(super) height: u64,
    /// Whether the node says that it has not caught up.
    pub(super) is_syncing: bool,
}

/// The result of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BelievedHead {
    pub(super) height: u64,
    /// Whether the one before was much higher.
    pub(super) has_fallen: bool,
}

/// The height that is believed, and one that may be.
#[derive(Debug)]
pub(super) struct HeadBelief {
    max_lag: u64,
    /// Blocks that usually come in a second, in millionths.
    usual_rate: u64,
    /// Blocks that have been seen to come in a second, if they are more.
    rate: u64,
    /// With the time of its round.
    believed: Option<(u64, Duration)>,
    suspect: Option<SuspectHead>,
}

/// A height that has grown too fast.
#[derive(Clone, Copy, Debug)]
struct SuspectHead {
    first: u64,
    first_at: Duration,
    last: u64,
    last_at: Duration,
    rounds: u32,
}

impl HeadBelief {
    /// The belief in the head of a chain whose blocks come every `block_time`, and whose nodes may be `max_lag` behind. `before` is
    /// what is known at the time `now`.
    pub(super) fn new(block_time: Duration, max_lag: u64, before: Option<u64>, now: Duration) -> Self {
        let rate = per_second(1, block_time).max(1);
        let believed = before.map(|height| (height, now));
        HeadBelief { max_lag, usual_rate: rate, rate, believed, suspect: None }
    }

    /// The head after a round in which these of the `nodes` have answered; `None` if none has, and nothing is believed yet. Rounds that
    /// clients asked for (`is_extra`) do not make a height more credible.
    pub(super) fn observe(
        &mut self,
        mut answers: Vec<NodeHeight>,
        nodes: usize,
        is_extra: bool,
        now: Duration,
    ) -> Option<BelievedHead> {
        // Those that say that they have not caught up count only if no other node answers.
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

    /// The highest of the heights up to `limit` that enough nodes have reached. `heights` are in descending order.
    fn supported(&self, heights: &[u64], nodes: usize, limit: u64) -> Option<u64> {
        let least = heights.len().div_ceil(2).max(if nodes > 2 { heights.len().min(2) } else { 1 });
        let support =
            |head: u64| heights.iter().filter(|height| height.saturating_add(self.max_lag) >= head).count();
        heights.iter().copied().find(|height| *height <= limit && support(*height) >= least)
    }

    /// Up to where the head may have grown by itself.
    fn limit(&self, now: Duration) -> u64 {
        let grown = |(height, at): (u64, Duration)| self.grown(height, self.rate, now.saturating_sub(at));
        self.believed.map_or(u64::MAX, grown)
    }

    /// Up to where a height may have grown in this time, with blocks at this rate.
    fn grown(&self, height: u64, rate: u64, time: Duration) -> u64 {
        let blocks = time.as_millis() * u128::from(rate) * u128::from(HASTE) / 1_000_000_000;
        let blocks = u64::try_from(blocks).unwrap_or(u64::MAX);
        height.saturating_add(self.max_lag).saturating_add(blocks)
    }

    /// Whether a height beyond the limit is believed nevertheless. `heights` are those of all nodes.
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

    /// Whether a node that has shown the suspect height may show this one now.
    fn follows(&self, suspect: &SuspectHead, height: u64, now: Duration) -> bool {
        // How fast it grows is not known before it was seen twice.
        let is_new = suspect.rounds < 2;
        let rate = self.rate.max(suspect.rate());
        let most = self.grown(suspect.last, rate, now.saturating_sub(suspect.last_at));
        height.saturating_add(self.max_lag) >= suspect.last && (is_new || height <= most)
    }
}

impl SuspectHead {
    /// Blocks that have come in a second, in millionths.
    fn rate(&self) -> u64 {
        per_second(self.last - self.first.min(self.last), self.last_at.saturating_sub(self.first_at))
    }
}

/// The blocks that come in a second if these come in this time, in millionths.
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

        /// The head after a round, and whether the one before was much higher.
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
    fn a_node_that_says_that_it_has_not_caught_up_counts_only_alone() {
        let mut site = Site::new(2);
        let syncing = NodeHeight { height: 500, is_syncing: true };
        let well = NodeHeight { height: 100, is_syncing: false };
        let height =
            |site: &mut Site, answers| site.belief.observe(answers, 2, false, site.now).unwrap().height;
        assert_eq!(height(&mut site, vec![syncing, well]), 100);
        assert_eq!(height(&mut Site::new(2), vec![syncing]), 500);
    }

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

    #[test]
    fn a_head_may_grow_as_fast_as_blocks_come_and_after_an_outage_by_all_of_them() {
        let mut site = Site::new(1);
        assert_eq!(site.round(&[100]), (100, false));
        assert_eq!(site.round(&[103]), (103, false), "several may come at once");
        site.now += 3_600 * SECOND;
        assert_eq!(site.round(&[463]), (463, false));
        assert_eq!(site.round(&[600]), (463, false), "but not as many in a second");
    }

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

    #[test]
    fn a_head_that_falls_back_far_is_believed_and_reported_once() {
        let mut site = Site::new(1);
        assert_eq!(site.round(&[1_000_000]), (1_000_000, false), "the first one is believed");
        assert_eq!(site.round(&[100]), (100, true));
        assert_eq!(site.round(&[100]), (100, false));
        assert_eq!(site.round(&[97]), (97, false), "a node may be three blocks behind");
    }
}
