//! Decides which block comes next in a chain, and which blocks are no longer part of it. The decision depends only on
//! the nodes' answers and the known blocks, so that it can be tested without sockets.

use super::bounded_calls::BoundedCalls;
use rpcgate_core::event::{BlockEvents, BlockReader, BlockRef, EventFilter, NodeCalls, ReadError};
use std::cmp::Reverse;
use std::collections::VecDeque;

/// The maximum number of nodes that answer in one round. Nodes that do not answer do not count: some may never answer
/// because they have no old blocks or no transaction index.
const ANSWERS: usize = 3;

/// The number of consecutive rounds in which no node has the known blocks, before a branch that is not longer replaces
/// them. One address may hide several nodes, which do not always agree.
const PATIENCE: u32 = 3;

/// The number of known blocks, newest first, that are looked for in a node that has a block neither at their heights
/// nor at the height of the oldest. Heights may be skipped, but hardly this number of them.
const ABSENT: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(super) struct ReadNode<'n> {
    pub(super) index: usize,
    pub(super) height: Option<u64>,
    pub(super) calls: &'n dyn NodeCalls,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Finding {
    /// There is nothing new.
    Nothing,
    /// No block is known yet, and this is the newest one.
    Start(BlockRef),
    /// The block that follows the newest known one.
    Next(BlockEvents),
    /// A block above the newest known one, which is still part of the chain. The node has none of the blocks in
    /// between.
    Gap(BlockEvents),
    /// The oldest block above the newest known one that the nodes still have. A round never returns it: it is looked
    /// for when a node has lacked the next block for a long time.
    Pruned(BlockEvents),
    /// Known blocks that are no longer part of the chain, newest first.
    Gone(Vec<BlockRef>),
    /// None of the known blocks is part of the chain. Following continues at this one.
    AllGone(BlockRef),
}

enum View {
    /// Only known blocks, or a part of them.
    Known,
    /// The newest known block, and one above it that does not follow it.
    Gap(BlockEvents),
    /// A different branch that is not longer, or that has no block in common.
    Diverged,
    Found(Finding),
}

/// The relation of a node's chain to the known blocks.
enum Lineage {
    /// The newest known block is part of it.
    Known,
    /// These blocks are not part of it, newest first. The one below them is.
    Left(Vec<BlockRef>),
    /// None of the known blocks is part of it. It has this block at the height of the oldest, or ends there.
    Replaced(BlockRef),
    /// It has no block at any of their heights, and continues above them up to this one.
    Absent(BlockRef),
}

/// The newest known blocks of a chain, and the node that showed the last one.
#[derive(Debug, Default)]
pub(super) struct Follower {
    known: VecDeque<BlockRef>,
    kept: usize,
    current: Option<usize>,
    diverged: u32,
    /// True if a node that has more than the known blocks could not be read in the last round.
    is_held_up: bool,
    /// True if such a node has answered in the last round, without the next block.
    lacks_next: bool,
    /// The head of a node without any of the known heights, if the last round ended with that.
    cut_off: Option<BlockRef>,
}

impl Follower {
    /// Follows from the last of these blocks on, and keeps the newest `kept` blocks.
    pub(super) fn new(blocks: Vec<BlockRef>, kept: u64) -> Self {
        let kept = usize::try_from(kept).unwrap_or(usize::MAX);
        Follower { known: blocks.into(), kept, ..Follower::default() }
    }

    pub(super) fn newest(&self) -> Option<&BlockRef> {
        self.known.back()
    }

    pub(super) fn is_held_up(&self) -> bool {
        self.is_held_up
    }

    pub(super) fn lacks_next(&self) -> bool {
        self.lacks_next
    }

    pub(super) fn cut_off(&self) -> Option<&BlockRef> {
        self.cut_off.as_ref()
    }

    pub(super) fn append(&mut self, block: BlockRef) {
        self.known.push_back(block);
        while self.known.len() > self.kept.max(1) {
            self.known.pop_front();
        }
    }

    /// Removes the newest block.
    pub(super) fn take_back(&mut self) {
        self.known.pop_back();
    }

    /// Forgets all blocks except this one, if there is one.
    pub(super) fn restart(&mut self, at: Option<BlockRef>) {
        self.known = at.into_iter().collect();
        self.diverged = 0;
    }

    /// Asks the nodes for news: first the one that showed the last block, and others if they may have more or if it
    /// does not answer.
    ///
    /// A node whose chain leaves the newest known blocks is followed at once if its chain is longer. If it is not
    /// longer, or has none of the known blocks, it is followed after [`PATIENCE`] rounds in which no node has shown the
    /// known blocks. A node that is only shorter, or does not answer, never removes a block.
    ///
    /// # Errors
    /// The last [`ReadError`] if no node could be read.
    pub(super) async fn round(
        &mut self,
        reader: &dyn BlockReader,
        nodes: &[ReadNode<'_>],
        wanted: &EventFilter,
    ) -> Result<Finding, ReadError> {
        let newest = self.newest().map_or(0, |newest| newest.height);
        let mut order: Vec<_> = nodes.iter().collect();
        order.sort_by_key(|node| (Some(node.index) != self.current, Reverse(node.height), node.index));
        let mut is_known = false;
        (self.is_held_up, self.lacks_next, self.cut_off) = (false, false, None);
        let mut gap = None;
        let mut diverged = None;
        let mut failed = ReadError::Unreachable("it has no node".into());
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
            // The node has switched back meanwhile.
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

    async fn view(
        &self,
        reader: &dyn BlockReader,
        node: &dyn NodeCalls,
        wanted: &EventFilter,
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
            // A head between two known heights is on a different branch.
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

    /// Returns a node's block at the height of the oldest known one.
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
