//! Follows the blocks of a chain: matches and stores the data of the nodes block by block.

use super::block_timeout::BlockTimeout;
use super::bounded_calls::BoundedCalls;
use super::failure_log::FailureLog;
use super::follow::{Finding, Follower, ReadNode};
use super::oldest_block::oldest_above;
use super::pool_nodes::UsableNode;
use super::watched_chain::WatchedChain;
use rpcgate_core::event::{BlockEvents, BlockReader, BlockRef, EventFilter, EventType, ReadError};
use rpcgate_store::{StoreError, UnfinishedBlock, WatchOutcome};
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// The minimum number of stored blocks, which show the blocks that are no longer part of the chain.
const KEPT: u64 = 256;

/// The number of nodes that are searched for the oldest block.
const SEARCHED: usize = 8;

const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The pause after a new block, because another may follow soon.
const SHORT_PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Then {
    Again,
    /// Take the next step after this pause.
    Wait(Duration),
    /// Stop, because another watcher follows the chain.
    Stop,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum StepError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The state of following, as stored in the database.
#[derive(Debug)]
struct Progress {
    follower: Follower,
    /// A block whose deliveries are only partly made.
    unfinished: Option<BlockRef>,
    /// Blocks up to this height replace others.
    replaced_until: Option<u64>,
    /// True if the distance to the head at the start of following is known.
    is_measured: bool,
}

/// Follows the blocks of a chain while it has subscriptions.
pub(super) struct BlockWatch<'w> {
    chain: &'w WatchedChain,
    reader: &'w dyn BlockReader,
    progress: Option<Progress>,
    /// True if no progress of the chain is stored.
    forgotten: bool,
    is_active: bool,
    pace: Interval,
    failures: FailureLog,
    /// The wait for a block whose events no node shows, or for the blocks before one that nodes leave out.
    patience: BlockTimeout,
    /// The wait for a block that no node has.
    absence: BlockTimeout,
}

impl<'w> BlockWatch<'w> {
    pub(super) fn new(chain: &'w WatchedChain, reader: &'w dyn BlockReader) -> Self {
        let mut pace = interval(Duration::from_secs(1) / chain.settings.catch_up_per_second.max(1));
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let failures = FailureLog::new("the chain is followed").of_chain(chain.name);
        BlockWatch {
            chain,
            reader,
            progress: None,
            forgotten: false,
            is_active: false,
            pace,
            failures,
            patience: BlockTimeout::new(chain.settings.block_patience),
            absence: BlockTimeout::new(chain.settings.block_patience),
        }
    }

    /// Follows the chain until another watcher has it.
    pub(super) async fn run(mut self) {
        loop {
            let step = self.step().await;
            self.failures.note(&step);
            let then = match step {
                Ok(then) => then,
                Err(error) => {
                    if let StepError::Store(_) = error {
                        // The last write may have succeeded or not.
                        self.progress = None;
                    }
                    self.chain.nodes.reset();
                    Then::Wait(self.pause())
                }
            };
            match then {
                Then::Again => {}
                Then::Wait(pause) => self.chain.wait(pause).await,
                Then::Stop => return,
            }
        }
    }

    fn pause(&self) -> Duration {
        self.chain.settings.probe_interval.min(LONGEST_PAUSE)
    }

    fn retained_blocks(&self) -> u64 {
        self.chain.settings.final_depth.max(KEPT)
    }

    /// Reads the nodes once, and acts on the result.
    pub(super) async fn step(&mut self) -> Result<Then, StepError> {
        if !self.has_subscribers() {
            return self.forget().await;
        }
        self.forgotten = false;
        if self.progress.is_none() && self.load().await? == WatchOutcome::LeaseLost {
            return Ok(Then::Stop);
        }
        let Some(mut progress) = self.progress.take() else { return Ok(Then::Wait(SHORT_PAUSE)) };
        let then = self.advance(&mut progress).await;
        self.progress = Some(progress);
        then
    }

    /// Reports whether there is a subscription to an event that blocks show.
    fn has_subscribers(&self) -> bool {
        let kinds = EventType::ALL.into_iter().filter(|kind| *kind != EventType::Health);
        kinds.into_iter().any(|kind| self.chain.index.wants(self.chain.name, kind))
    }

    async fn forget(&mut self) -> Result<Then, StepError> {
        self.progress = None;
        if !self.forgotten {
            let outcome = self.chain.store.forget_followed(&self.chain.lease(), self.chain.now()).await?;
            if outcome == WatchOutcome::LeaseLost {
                return Ok(Then::Stop);
            }
            self.forgotten = true;
            self.chain.see(None);
        }
        Ok(Then::Wait(SHORT_PAUSE))
    }

    /// Reads the stored progress, and finishes an interrupted removal of a block.
    async fn load(&mut self) -> Result<WatchOutcome, StoreError> {
        let followed = self.chain.store.followed(self.chain.name).await?;
        let mut replaced_until = followed.replaced_until;
        let unfinished = match followed.unfinished {
            Some(UnfinishedBlock::Leaving(block)) => {
                if self.take_back(&block).await? == WatchOutcome::LeaseLost {
                    return Ok(WatchOutcome::LeaseLost);
                }
                replaced_until = replaced_until.max(Some(block.height));
                None
            }
            Some(UnfinishedBlock::Appending(block)) => Some(block),
            None => None,
        };
        let follower = Follower::new(followed.blocks, self.retained_blocks());
        self.chain.see(follower.newest());
        self.progress = Some(Progress { follower, unfinished, replaced_until, is_measured: false });
        Ok(WatchOutcome::Done)
    }

    async fn advance(&mut self, progress: &mut Progress) -> Result<Then, StepError> {
        if let Some(then) = self.skip(progress).await? {
            return Ok(then);
        }
        let finding = self.look(&mut progress.follower).await;
        if finding.is_err() {
            self.measure(progress);
        }
        match finding? {
            Finding::Nothing => {
                self.measure(progress);
                let soon = std::mem::take(&mut self.is_active);
                Ok(Then::Wait(if soon { self.pause().min(SHORT_PAUSE) } else { self.pause() }))
            }
            Finding::Start(block) => {
                tracing::info!(
                    chain = self.chain.name,
                    height = block.height,
                    "following the chain from here on"
                );
                self.begin_at(progress, block).await
            }
            Finding::Next(next) => self.append(progress, next).await,
            Finding::Gap(next) => self.cross(progress, next).await,
            Finding::Pruned(next) => {
                self.leap(progress, next, "the nodes have pruned the blocks that come next").await
            }
            Finding::Gone(blocks) => self.reorganise(progress, blocks).await,
            Finding::AllGone(block) => {
                let chain = self.chain.name;
                let known = progress.follower.newest().map(|newest| newest.height);
                tracing::error!(
                    chain,
                    known,
                    height = block.height,
                    "no known block is part of the chain any more: following continues here, and no events are reverted"
                );
                self.chain.metrics.lost(chain);
                let outcome = self.chain.store.forget_followed(&self.chain.lease(), self.chain.now()).await?;
                if outcome == WatchOutcome::LeaseLost {
                    return Ok(Then::Stop);
                }
                (progress.unfinished, progress.replaced_until) = (None, None);
                progress.follower.restart(None);
                self.begin_at(progress, block).await
            }
        }
    }

    /// Asks the nodes for news. If no node shows the events of a block within the patience, the block is stored without
    /// them: a sender's data in it, or a node without an index, must not block all later ones.
    async fn look(&mut self, follower: &mut Follower) -> Result<Finding, ReadError> {
        let filter = self.chain.index.filter(self.chain.name);
        let found = self.round(follower, &filter).await;
        let is_stuck = match &found {
            Ok(Finding::Nothing) => follower.is_held_up(),
            Ok(Finding::Next(_)) => {
                self.patience.restore();
                self.absence.restore();
                false
            }
            Ok(Finding::Gap(_)) => return found,
            Ok(_) => false,
            Err(_) => true,
        };
        let is_bare = [EventType::AddressActivity, EventType::TokenTransfer, EventType::ContractEvent]
            .into_iter()
            .all(|kind| !filter.wants(kind));
        if !is_stuck || is_bare {
            self.patience.forget();
            if is_stuck {
                return self.go_beyond(follower, found, &filter).await;
            }
            self.absence.forget();
            return found;
        }
        if found.is_err() {
            // A lost stream is reopened.
            self.chain.nodes.reset();
        }
        let bare = EventFilter::new(filter.wants(EventType::NewBlock).then_some(EventType::NewBlock));
        match self.round(follower, &bare).await {
            Ok(Finding::Next(next)) => {
                self.absence.forget();
                if !self.patience.has_ended(&next.block.hash, self.chain.now()) {
                    return found;
                }
                let chain = self.chain.name;
                let height = next.block.height;
                let error = found.err().map(|error| error.to_string()).unwrap_or_default();
                tracing::error!(
                    chain,
                    height,
                    error,
                    "the events of a block cannot be read: it is reported without them, and they are lost"
                );
                self.chain.metrics.unread(chain);
                Ok(Finding::Next(next))
            }
            Ok(Finding::Nothing) | Err(_) => {
                self.patience.forget();
                self.go_beyond(follower, found, &filter).await
            }
            // A different branch is visible without events.
            other => other,
        }
    }

    /// Finds the oldest block that a node still has, once the answering nodes have lacked the next one for the
    /// patience, although their chain is ahead. They have pruned it while no watcher was running.
    async fn go_beyond(
        &mut self,
        follower: &Follower,
        found: Result<Finding, ReadError>,
        filter: &EventFilter,
    ) -> Result<Finding, ReadError> {
        let head = self.chain.nodes.head();
        let newest = follower.newest().filter(|newest| head.is_some_and(|head| head > newest.height));
        let Some(newest) = newest.filter(|_| follower.lacks_next()) else {
            self.absence.forget();
            return found;
        };
        if !self.absence.has_ended(&newest.hash, self.chain.now()) {
            return found;
        }
        let mut oldest: Option<(BlockRef, UsableNode)> = None;
        for node in self.chain.nodes.usable().into_iter().take(SEARCHED) {
            // The wait for a node that does not answer is over.
            let block = oldest_above(self.reader, &*node.calls, newest.height).await;
            let block = block.ok().flatten();
            let block =
                block.filter(|block| oldest.as_ref().is_none_or(|(best, _)| block.height < best.height));
            oldest = block.map(|block| (block, node)).or(oldest);
        }
        let Some((block, node)) = oldest else {
            return follower.cut_off().map_or(found, |head| Ok(Finding::AllGone(head.clone())));
        };
        let below = BlockRef::new(block.height - 1, "", "", 0);
        let next = self.reader.after(&BoundedCalls::new(&*node.calls), &below, filter).await;
        let next = next.ok().flatten().filter(|next| next.block.hash == block.hash);
        Ok(Finding::Pruned(next.unwrap_or_else(|| {
            self.chain.metrics.unread(self.chain.name);
            BlockEvents { block, events: Vec::new() }
        })))
    }

    async fn round(&self, follower: &mut Follower, filter: &EventFilter) -> Result<Finding, ReadError> {
        let usable = self.chain.nodes.usable();
        let nodes: Vec<_> = usable
            .iter()
            .map(|node| ReadNode { index: node.index, height: node.height, calls: &*node.calls })
            .collect();
        follower.round(self.reader, &nodes, filter).await
    }

    /// Skips blocks that are too far behind the head. While the watcher catches up, the chain may be twice as far
    /// ahead, so that blocks are not skipped one by one.
    async fn skip(&mut self, progress: &mut Progress) -> Result<Option<Then>, StepError> {
        let most = self.chain.settings.catch_up_blocks;
        let (Some(newest), Some(head)) = (progress.follower.newest(), self.chain.nodes.head()) else {
            return Ok(None);
        };
        let allowed = if progress.is_measured { most.saturating_mul(2) } else { most };
        progress.is_measured = true;
        if head.saturating_sub(newest.height) <= allowed {
            return Ok(None);
        }
        let target = head - most;
        let at = BlockRef::new(target, "", "", 0);
        let Some(node) = self.chain.nodes.usable().into_iter().max_by_key(|node| node.height) else {
            return Ok(None);
        };
        let block = match self.reader.at(&*node.calls, &at).await {
            Ok(Some(block)) => block,
            Err(error @ ReadError::Unreachable(_)) => return Err(error.into()),
            // The height has no block, the node has pruned it, or needs more than the height to find a block.
            Ok(None) | Err(_) => match oldest_above(self.reader, &*node.calls, target).await? {
                Some(block) => block,
                None => self.reader.head(&*node.calls).await?,
            },
        };
        if block.height <= newest.height {
            return Ok(None);
        }
        let chain = self.chain.name;
        let from = newest.height;
        tracing::error!(
            chain,
            from,
            to = block.height,
            "the chain is too far ahead: blocks are skipped, and their events are lost"
        );
        self.chain.metrics.skipped(chain, block.height - from);
        if let Some(unfinished) = progress.unfinished.take()
            && self.take_back(&unfinished).await? == WatchOutcome::LeaseLost
        {
            return Ok(Some(Then::Stop));
        }
        self.begin_at(progress, block).await.map(Some)
    }

    /// Continues at a block without reporting its events.
    async fn begin_at(&mut self, progress: &mut Progress, block: BlockRef) -> Result<Then, StepError> {
        let lease = self.chain.lease();
        let now = self.chain.now();
        let outcome = self.chain.store.append_block(&lease, &block, &[], self.retained_blocks(), now).await?;
        if outcome == WatchOutcome::LeaseLost {
            return Ok(Then::Stop);
        }
        progress.follower.append(block);
        self.measure(progress);
        Ok(Then::Again)
    }

    /// Continues at a block after missing ones that no node has, when the patience ends. A node may have lost them, or
    /// may be several nodes behind one address.
    async fn cross(&mut self, progress: &mut Progress, next: BlockEvents) -> Result<Then, StepError> {
        if !self.patience.has_ended(&next.block.hash, self.chain.now()) {
            self.measure(progress);
            return Err(ReadError::Unreadable("the nodes leave out blocks").into());
        }
        self.leap(progress, next, "the nodes leave out blocks").await
    }

    /// Continues at a block, and loses the events of the ones before it.
    async fn leap(
        &mut self,
        progress: &mut Progress,
        next: BlockEvents,
        why: &'static str,
    ) -> Result<Then, StepError> {
        let chain = self.chain.name;
        let to = next.block.height;
        let from = progress.follower.newest().map_or(to, |newest| newest.height);
        tracing::error!(chain, from, to, "{why}: their events are lost");
        // At least one, because heights may have gaps.
        self.chain.metrics.skipped(chain, to.saturating_sub(from + 1).max(1));
        self.append(progress, next).await
    }

    async fn append(&mut self, progress: &mut Progress, next: BlockEvents) -> Result<Then, StepError> {
        self.pace.tick().await;
        let BlockEvents { block, events } = next;
        if let Some(unfinished) = progress.unfinished.take()
            && (unfinished.height, &unfinished.hash) != (block.height, &block.hash)
        {
            if self.take_back(&unfinished).await? == WatchOutcome::LeaseLost {
                return Ok(Then::Stop);
            }
            progress.replaced_until = progress.replaced_until.max(Some(unfinished.height));
        }
        let is_replacing = progress.replaced_until.is_some_and(|until| block.height <= until);
        let matched = self.chain.matched(&block, events, is_replacing).await?;
        let appended = self
            .chain
            .store
            .append_block(&self.chain.lease(), &block, &matched, self.retained_blocks(), self.chain.now())
            .await?;
        if appended == WatchOutcome::LeaseLost {
            return Ok(Then::Stop);
        }
        self.chain.metrics.count_events(self.chain.name, &matched);
        progress.replaced_until = progress.replaced_until.filter(|until| block.height < *until);
        self.is_active = true;
        progress.follower.append(block);
        self.measure(progress);
        Ok(Then::Again)
    }

    async fn reorganise(&mut self, progress: &mut Progress, gone: Vec<BlockRef>) -> Result<Then, StepError> {
        let chain = self.chain.name;
        let depth = gone.len();
        let highest = gone.first().map(|block| block.height);
        tracing::warn!(
            chain,
            depth,
            highest,
            "blocks are no longer part of the chain: their events are reverted"
        );
        let unfinished = progress.unfinished.take();
        for block in unfinished.iter().chain(&gone) {
            if self.take_back(block).await? == WatchOutcome::LeaseLost {
                return Ok(Then::Stop);
            }
            progress.replaced_until = progress.replaced_until.max(Some(block.height));
        }
        for _ in &gone {
            progress.follower.take_back();
        }
        self.chain.metrics.reorganised(chain, depth);
        self.measure(progress);
        Ok(Then::Again)
    }

    async fn take_back(&self, block: &BlockRef) -> Result<WatchOutcome, StoreError> {
        self.chain.store.take_back(&self.chain.lease(), block, self.chain.now()).await
    }

    fn measure(&self, progress: &Progress) {
        let newest = progress.follower.newest();
        self.chain.see(newest);
        if let Some(newest) = newest {
            let behind = self.chain.nodes.head().map_or(0, |head| head.saturating_sub(newest.height));
            let seconds =
                i64::try_from(self.chain.now().secs()).unwrap_or(i64::MAX).saturating_sub(newest.timestamp);
            self.chain.metrics.followed(self.chain.name, newest.height, behind, seconds);
        }
    }
}
