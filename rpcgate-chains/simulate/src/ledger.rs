//! The ledger that the simulated chains share: a pure state machine of blocks, submissions and clients' transactions.
//!
//! A block is a function of the seed and its height, so the ledger stores no blocks, only what clients changed. Each
//! chain adds its state, the effects of its transactions and the form of its answers.

mod history;
mod mempool;
mod node;
mod submission;
mod timeline;
mod traffic;

use super::seed::Seed;
pub(crate) use history::{BlockHistory, History};
pub(crate) use mempool::Mempool;
pub(crate) use node::{LedgerNode, ledger_of};
use rpcgate_core::clock::Time;
use std::collections::{BTreeMap, HashMap};
use submission::SubmissionLog;
pub use submission::{NoSubmission, SUBMISSION_BYTES, SUBMISSIONS, Submission};
pub use timeline::EPOCH;
use timeline::Timeline;
pub(crate) use traffic::{GroupPayment, GroupTraffic, Payment, ResidentTraffic};

/// The hash of a block or a transaction.
pub(crate) type Hash = [u8; 32];

/// The pace of a chain's blocks, and those that a node keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRules {
    /// The height at the epoch of the simulated chains.
    pub(crate) base: u64,
    /// The time between blocks in milliseconds, and by how much a block may be late.
    pub(crate) slot_ms: u64,
    pub(crate) jitter_ms: u64,
    /// The first block. A clock before it shows this block, so that every block has the predecessors that it names.
    pub(crate) first: u64,
    /// The number of blocks before the newest that the node keeps.
    pub(crate) kept: u64,
}

impl BlockRules {
    /// Creates the rules of a chain that keeps all its blocks, 2 to 5 s apart.
    pub(crate) const fn of(base: u64) -> Self {
        BlockRules { base, slot_ms: 3_500, jitter_ms: 1_500, first: 0, kept: u64::MAX }
    }
}

/// The part of a ledger that differs between chains.
pub(crate) trait LedgerState: Sized + Send + std::fmt::Debug {
    /// A client's transaction in a block, with its outcome.
    type Entry: Send + std::fmt::Debug;

    /// Advances to block `height`, which is not below the head. A chain with a mempool includes its transactions.
    fn advance(ledger: &mut Ledger<Self>, height: u64) {
        ledger.head = height;
    }

    /// Takes a submission again. A refusal has no effect: if the list was edited, a later transaction may lack its
    /// predecessor or its coins.
    fn resubmit(ledger: &mut Ledger<Self>, raw: &[u8], moment: Time);

    /// Completes a replay.
    fn replayed(_ledger: &mut Ledger<Self>) {}
}

#[derive(Debug)]
pub(crate) struct Ledger<S: LedgerState> {
    pub(crate) seed: Seed,
    /// The height of the newest block.
    pub(crate) head: u64,
    pub(crate) state: S,
    pub(crate) submissions: SubmissionLog,
    rules: BlockRules,
    timeline: Timeline,
    /// Clients' transactions by block, and the position of each. The next block may already have some.
    blocks: BTreeMap<u64, Vec<S::Entry>>,
    places: HashMap<Hash, (u64, usize)>,
}

impl<S: LedgerState> Ledger<S> {
    pub(crate) fn new(seed: Seed, rules: BlockRules, state: S) -> Self {
        Ledger {
            seed,
            head: 0,
            state,
            submissions: SubmissionLog::default(),
            rules,
            timeline: Timeline::new(seed, rules),
            blocks: BTreeMap::new(),
            places: HashMap::new(),
        }
    }

    /// Begins a request at `now`: earlier submissions are no longer the newest, and the blocks of `now` exist.
    pub(crate) fn begin(&mut self, now: Time) {
        self.submissions.begin_request();
        self.advance(now);
    }

    /// Advances to the blocks of `now`. Does nothing if time stepped back.
    pub(crate) fn advance(&mut self, now: Time) {
        let height = self.height(now);
        S::advance(self, height);
    }

    /// Returns the height of the newest block at `now`, without advancing to it.
    pub(crate) fn height(&self, now: Time) -> u64 {
        self.height_at(now).max(self.head).max(self.rules.first)
    }

    /// Returns the height of the newest block at a time, which may be long ago.
    pub(crate) fn height_at(&self, time: Time) -> u64 {
        self.timeline.height(time)
    }

    pub(crate) fn time(&self, height: u64) -> Time {
        self.timeline.time(height)
    }

    /// Returns the Unix time of a block in milliseconds.
    pub(crate) fn millis(&self, height: u64) -> u64 {
        self.time(height).millis()
    }

    /// Returns the Unix time of a block in seconds.
    pub(crate) fn secs(&self, height: u64) -> u64 {
        self.time(height).secs()
    }

    /// Returns `now`, or the time of the newest block if the clock stepped back behind it.
    pub(crate) fn moment(&self, now: Time) -> Time {
        now.max(self.time(self.head))
    }

    /// Returns the height of the oldest block that is kept.
    pub(crate) fn oldest(&self) -> u64 {
        self.head.saturating_sub(self.rules.kept).max(self.rules.first)
    }

    /// Returns the hash of a block. It does not cover clients' transactions, so that a block need not be computed for
    /// its hash, and forgetting old transactions is not a reorganisation.
    pub(crate) fn block_hash(&self, height: u64) -> Hash {
        self.seed.hide("block", height)
    }

    /// Returns the height of an existing block by its hash, whether it is kept or not.
    pub(crate) fn block_by_hash(&self, hash: &Hash) -> Option<u64> {
        self.seed.reveal("block", hash).filter(|height| *height <= self.head)
    }

    /// Stores an accepted transaction in the log of submissions; `None` if the node is full.
    pub(crate) fn accept(&mut self, raw: Vec<u8>, now: Time) -> Option<()> {
        let moment = self.moment(now);
        self.submissions.take(moment, raw)
    }

    /// Adds a client's transaction to a block, after those that it already has.
    pub(crate) fn include(&mut self, height: u64, id: Hash, entry: S::Entry) {
        let entries = self.blocks.entry(height).or_default();
        self.places.insert(id, (height, entries.len()));
        entries.push(entry);
    }

    /// Returns the clients' transactions of a block.
    pub(crate) fn included(&self, height: u64) -> &[S::Entry] {
        self.blocks.get(&height).map_or(&[], Vec::as_slice)
    }

    /// Returns the blocks that have clients' transactions, in a range of heights.
    pub(crate) fn included_in(
        &self,
        heights: impl std::ops::RangeBounds<u64>,
    ) -> impl DoubleEndedIterator<Item = (u64, &[S::Entry])> {
        self.blocks.range(heights).map(|(height, entries)| (*height, entries.as_slice()))
    }

    /// Returns the block of a client's transaction and its index among those of clients. The block may be the next one.
    pub(crate) fn place(&self, id: &Hash) -> Option<(u64, usize)> {
        self.places.get(id).copied()
    }

    /// Returns a client's transaction, which may be in the next block, and its block.
    pub(crate) fn find(&self, id: &Hash) -> Option<(u64, &S::Entry)> {
        let (height, index) = self.place(id)?;
        Some((height, self.included(height).get(index)?))
    }

    /// Forgets the oldest blocks with clients' transactions until at most `count` transactions remain.
    pub(crate) fn forget(&mut self, count: usize) {
        while self.places.len() > count {
            let Some((oldest, _)) = self.blocks.pop_first() else { return };
            self.places.retain(|_, (height, _)| *height != oldest);
        }
    }

    /// Takes the submissions of a node of the same chain and seed again, in order.
    pub(crate) fn replay(&mut self, past: &[Submission]) {
        for Submission { moment, raw } in past {
            self.advance(*moment);
            S::resubmit(self, raw, *moment);
        }
        S::replayed(self);
        self.submissions.begin_request();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Notes;

    impl LedgerState for Notes {
        type Entry = Vec<u8>;

        fn resubmit(ledger: &mut Ledger<Self>, raw: &[u8], moment: Time) {
            if ledger.accept(raw.to_vec(), moment).is_some() {
                let next = ledger.head + 1;
                ledger.include(next, [raw[0]; 32], raw.to_vec());
            }
        }
    }

    fn ledger() -> Ledger<Notes> {
        let rules = BlockRules { first: 900, kept: 50, ..BlockRules::of(1_000) };
        Ledger::new(Seed::of("notes", 7), rules, Notes)
    }

    fn later(secs: u64) -> Time {
        Time::from_secs(EPOCH.secs() + secs)
    }

    #[test]
    fn the_head_never_steps_back_and_never_before_the_first_block() {
        let mut ledger = ledger();
        ledger.begin(Time::from_secs(0));
        assert_eq!((ledger.head, ledger.oldest()), (900, 900));
        ledger.begin(later(3_600));
        let head = ledger.head;
        assert_eq!(ledger.oldest(), head - 50);
        ledger.begin(EPOCH);
        assert_eq!(ledger.head, head);
        assert_eq!(ledger.moment(EPOCH), ledger.time(head));
    }

    #[test]
    fn blocks_are_found_by_their_hashes_once_they_exist() {
        let mut ledger = ledger();
        ledger.begin(EPOCH);
        let head = ledger.head;
        assert_eq!(ledger.block_by_hash(&ledger.block_hash(head)), Some(head));
        assert_eq!(ledger.block_by_hash(&ledger.block_hash(head + 1)), None);
        assert_eq!(ledger.block_by_hash(&[7; 32]), None);
    }

    #[test]
    fn a_replay_repeats_the_blocks_of_clients() {
        let mut first = ledger();
        let mut past = Vec::new();
        for n in 1..=3u8 {
            let now = later(100 * u64::from(n));
            first.begin(now);
            Notes::resubmit(&mut first, &[n], now);
            past.extend(first.submissions.newest());
        }
        let mut second = ledger();
        second.replay(&past);
        assert!(second.submissions.newest().is_empty());
        for n in 1..=3u8 {
            assert_eq!(second.find(&[n; 32]), first.find(&[n; 32]));
            assert_eq!(second.find(&[n; 32]).map(|(_, entry)| entry.clone()), Some(vec![n]));
        }
        first.forget(1);
        assert_eq!(first.included_in(..).count(), 1);
        assert!(first.find(&[1; 32]).is_none() && first.find(&[3; 32]).is_some());
    }
}
