//! Following a chain: which block comes next, and which are no longer part of it. Everything is decided by what the nodes
//! show and by the blocks that are known, so that it can be tested without sockets.

use super::bounded_calls::BoundedCalls;
use rpcgate_core::event::{BlockEvents, BlockReader, BlockRef, NodeCalls, ReadError, Wanted};
use std::cmp::Reverse;
use std::collections::VecDeque;

/// Nodes that answer in one round, at most. Those that do not answer are no reason not to ask the others: some may never
/// answer, because they have no old blocks or no index of transactions.
const ANSWERS: usize = 3;

/// Rounds in a row in which no node has the known blocks, before others that are not more take their place: a node behind
/// one address may be several, which do not always agree.
const PATIENCE: u32 = 3;

/// Known blocks that are looked for, the newest first, in a node that has a block at none of their heights and not at that of
/// the oldest: heights may be skipped, but hardly so many of them.
const ABSENT: usize = 8;

/// A node as following sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadNode<'n> {
    /// Its place among the nodes.
    pub(super) index: usize,
    /// Its height, as far as it is known.
    pub(super) height: Option<u64>,
    /// How it is asked.
    pub(super) calls: &'n dyn NodeCalls,
}

/// What a round has found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Finding {
    /// There is nothing new.
    Nothing,
    /// Nothing is known yet, and this is the newest block.
    Start(BlockRef),
    /// The block that follows the newest known one.
    Next(BlockEvents),
    /// A block above the newest known one, which is still part of the chain: the node has none of those in between.
    Gap(BlockEvents),
    /// The oldest block above the newest known one that the nodes still have. No round finds it: it is looked for when a node
    /// has lacked the next block for long.
    Pruned(BlockEvents),
    /// These known blocks are no longer part of the chain, the newest first.
    Gone(Vec<BlockRef>),
    /// None of the known blocks is part of the chain any more. Following goes on at this one.
    AllGone(BlockRef),
}

/// What one node shows.
enum View {
    /// Nothing but what is known, or a part of it.
    Known,
    /// The newest known block, and one above it that does not follow it.
    Gap(BlockEvents),
    /// Others than those that are known, and not more of them, or none in common.
    Diverged,
    Found(Finding),
}

/// How the chain of a node relates to the known blocks.
enum Lineage {
    /// The newest known block is part of it.
    Known,
    /// These are not, the newest first, and the one below them is.
    Left(Vec<BlockRef>),
    /// None of them is: it has others at their heights, of which this is the lowest, or it ends below.
    Replaced(BlockRef),
    /// It has no block at any of their heights, and goes on above them up to this one.
    Absent(BlockRef),
}

/// The newest blocks of a chain that are known, and the node that showed the last one.
#[derive(Debug, Default)]
pub(super) struct Follower {
    known: VecDeque<BlockRef>,
    /// How many are kept.
    kept: usize,
    current: Option<usize>,
    diverged: u32,
    /// Whether a node that has more than is known could not be read in the last round.
    is_held_up: bool,
    /// Whether such a node has answered in the last round, without the block that comes next.
    lacks_next: bool,
    /// The head of a node that has no block at any known height, if the last round ended with that.
    cut_off: Option<BlockRef>,
}

impl Follower {
    /// Follows from the last of these blocks on, and keeps the newest `kept` of those that are known.
    pub(super) fn new(blocks: Vec<BlockRef>, kept: u64) -> Self {
        let kept = usize::try_from(kept).unwrap_or(usize::MAX);
        Follower { known: blocks.into(), kept, ..Follower::default() }
    }

    /// The newest block that is known.
    pub(super) fn newest(&self) -> Option<&BlockRef> {
        self.known.back()
    }

    /// Whether a node that has more than is known could not be read in the last round, although another one was.
    pub(super) fn is_held_up(&self) -> bool {
        self.is_held_up
    }

    /// Whether a node that has more than is known has answered in the last round, without the block that comes next.
    pub(super) fn lacks_next(&self) -> bool {
        self.lacks_next
    }

    /// The head of a node that has no block at any known height, if the last round ended with that.
    pub(super) fn cut_off(&self) -> Option<&BlockRef> {
        self.cut_off.as_ref()
    }

    /// A block was appended.
    pub(super) fn append(&mut self, block: BlockRef) {
        self.known.push_back(block);
        while self.known.len() > self.kept.max(1) {
            self.known.pop_front();
        }
    }

    /// The newest block was taken back.
    pub(super) fn take_back(&mut self) {
        self.known.pop_back();
    }

    /// Nothing is known any more but this block, if there is one.
    pub(super) fn restart(&mut self, at: Option<BlockRef>) {
        self.known = at.into_iter().collect();
        self.diverged = 0;
    }

    /// Asks the nodes what is new: the one that showed the last block, and others if they may have more, or if it does not
    /// answer.
    ///
    /// A node is followed although it leads away from the newest known blocks if its chain is longer than they are. If it is
    /// not, or has none of them, it is followed after [`PATIENCE`] rounds in which no node has shown the known blocks. A node that is merely shorter is
    /// no reason to take anything back, and neither is one that does not answer.
    ///
    /// # Errors
    /// The last [`ReadError`] if no node could be read.
    pub(super) async fn round(
        &mut self,
        reader: &dyn BlockReader,
        nodes: &[ReadNode<'_>],
        wanted: &Wanted,
    ) -> Result<Finding, ReadError> {
        let newest = self.newest().map_or(0, |newest| newest.height);
        let mut order: Vec<_> = nodes.iter().collect();
        order.sort_by_key(|node| (Some(node.index) != self.current, Reverse(node.height), node.index));
        let mut is_known = false;
        (self.is_held_up, self.lacks_next, self.cut_off) = (false, false, None);
        let mut gap = None;
        let (mut diverged, mut failed) = (None, ReadError::Unreachable("it has no node".into()));
        let mut answers = 0;
        for node in order {
            if answers == ANSWERS {
                break;
            }
            if is_known && node.height.is_none_or(|height| height <= newest) {
                continue;
            }
            let view = self.view(reader, node.calls, wanted).await;
            answers += usize::from(view.is_ok());
            match view {
                Ok(View::Known) => {
                    if !is_known {
                        self.current = Some(node.index);
                    }
                    is_known = true;
                }
                Ok(View::Gap(next)) => gap = gap.or(Some(next)),
                Ok(View::Diverged) => {
                    let is_higher = node.height.is_some_and(|height| height > newest);
                    self.is_held_up |= is_higher;
                    self.lacks_next |= is_higher;
                    diverged = diverged.or(Some(node));
                }
                Ok(View::Found(finding)) => {
                    (self.current, self.diverged) = (Some(node.index), 0);
                    return Ok(finding);
                }
                Err(error) => {
                    let is_higher = node.height.is_some_and(|height| height > newest);
                    self.is_held_up |= is_higher;
                    self.lacks_next |= is_higher && !matches!(error, ReadError::Unreachable(_));
                    failed = error;
                }
            }
        }
        if let Some(next) = gap {
            self.diverged = 0;
            return Ok(Finding::Gap(next));
        }
        if is_known {
            self.diverged = 0;
            return Ok(Finding::Nothing);
        }
        let Some(node) = diverged else { return Err(failed) };
        self.diverged += 1;
        if self.diverged < PATIENCE {
            return Ok(Finding::Nothing);
        }
        self.current = Some(node.index);
        let finding = match self.lineage(reader, node.calls).await? {
            // The node has changed its mind meanwhile.
            Lineage::Known => Finding::Nothing,
            Lineage::Left(blocks) => Finding::Gone(blocks),
            Lineage::Replaced(block) => Finding::AllGone(block),
            Lineage::Absent(head) => {
                self.cut_off = Some(head);
                return Err(ReadError::Unreadable("the node has neither the known blocks nor the next one"));
            }
        };
        self.diverged = 0;
        Ok(finding)
    }

    /// What one node shows.
    async fn view(
        &self,
        reader: &dyn BlockReader,
        node: &dyn NodeCalls,
        wanted: &Wanted,
    ) -> Result<View, ReadError> {
        let Some(newest) = self.newest() else {
            return Ok(View::Found(Finding::Start(reader.head(node).await?)));
        };
        if let Some(next) = reader.after(&BoundedCalls::new(node), newest, wanted).await? {
            if next.block.height <= newest.height {
                return Err(ReadError::Unreadable("the next block is not above the last one"));
            }
            let follows = if next.block.parent.is_empty() {
                is_part(reader, node, newest).await?
            } else {
                next.block.parent == newest.hash
            };
            if follows {
                return Ok(View::Found(Finding::Next(next)));
            }
            return Ok(match self.lineage(reader, node).await? {
                Lineage::Known => View::Gap(next),
                Lineage::Left(blocks) => View::Found(Finding::Gone(blocks)),
                Lineage::Replaced(_) | Lineage::Absent(_) => View::Diverged,
            });
        }
        let head = reader.head(node).await?;
        let Some(highest) = self.known.iter().rev().find(|block| block.height <= head.height) else {
            return Ok(View::Known);
        };
        let is_known = if highest.height == head.height {
            highest.hash == head.hash
        } else {
            // A head between two known heights is on another branch.
            highest.height == newest.height && is_part(reader, node, newest).await?
        };
        Ok(if is_known { View::Known } else { View::Diverged })
    }

    /// Looks for the known blocks in a node's chain.
    async fn lineage(&self, reader: &dyn BlockReader, node: &dyn NodeCalls) -> Result<Lineage, ReadError> {
        let mut has_others = false;
        for (depth, block) in self.known.iter().rev().enumerate() {
            let there = reader.at(node, block).await?;
            if there.as_ref().is_some_and(|there| there.hash == block.hash) {
                let gone: Vec<_> = self.known.iter().rev().take(depth).cloned().collect();
                return Ok(if gone.is_empty() { Lineage::Known } else { Lineage::Left(gone) });
            }
            has_others |= there.is_some();
            if depth == ABSENT && !has_others && self.at_oldest(reader, node).await?.is_none() {
                break;
            }
        }
        let head = reader.head(node).await?;
        if !has_others && self.newest().is_some_and(|newest| newest.height < head.height) {
            return Ok(Lineage::Absent(head));
        }
        Ok(Lineage::Replaced(self.at_oldest(reader, node).await?.unwrap_or(head)))
    }

    /// A node's block at the height of the oldest known one.
    async fn at_oldest(
        &self,
        reader: &dyn BlockReader,
        node: &dyn NodeCalls,
    ) -> Result<Option<BlockRef>, ReadError> {
        match self.known.front() {
            Some(oldest) => reader.at(node, oldest).await,
            None => Ok(None),
        }
    }
}

async fn is_part(
    reader: &dyn BlockReader,
    node: &dyn NodeCalls,
    block: &BlockRef,
) -> Result<bool, ReadError> {
    Ok(reader.at(node, block).await?.is_some_and(|now| now.hash == block.hash))
}

#[cfg(test)]
mod tests;
