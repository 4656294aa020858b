//! Streams of blocks: each subscription gets the messages of one block after another.

use super::{PUSHES, Sessions, StreamNode, TOLD};
use crate::ledger::{Ledger, LedgerNode, LedgerState};
use rpcgate_core::clock::Time;

/// A subscription to the blocks of a ledger.
pub(crate) trait BlockSubscription<S: LedgerState> {
    /// The newest block whose messages the client got.
    fn sent(&mut self) -> &mut u64;

    /// Returns the number of blocks by which the newest visible block is behind the head.
    fn lag(&self) -> u64 {
        0
    }

    /// Returns the messages of a block.
    fn of_block(&mut self, chain: &Ledger<S>, height: u64) -> Vec<String>;

    /// Reports whether the subscription ended with the last block.
    fn is_over(&self) -> bool {
        false
    }

    /// Writes messages that are due before the next block.
    fn push_early(&mut self, _chain: &Ledger<S>, _out: &mut Vec<String>) {}

    fn is_early_due(&self, _chain: &Ledger<S>) -> bool {
        false
    }
}

/// The subscriptions of one client.
#[derive(Debug)]
pub(crate) struct Subscriptions<T> {
    pub(crate) open: Vec<T>,
}

impl<T> Default for Subscriptions<T> {
    fn default() -> Self {
        Subscriptions { open: Vec::new() }
    }
}

/// A node whose streams only push the messages of blocks.
pub(crate) trait BlockStream: LedgerNode + Sized {
    type Subscription: BlockSubscription<Self::State>;

    fn clients(&mut self) -> &mut Sessions<Subscriptions<Self::Subscription>>;

    /// Answers a message.
    fn hear(
        &mut self,
        session: &mut Subscriptions<Self::Subscription>,
        message: &[u8],
        now: Time,
        out: &mut Vec<String>,
    );
}

impl<N: BlockStream> StreamNode for N {
    type Session = Subscriptions<N::Subscription>;

    fn sessions(&mut self) -> &mut Sessions<Self::Session> {
        self.clients()
    }

    fn receive(&mut self, session: &mut Self::Session, message: &[u8], now: Time, out: &mut Vec<String>) {
        self.hear(session, message, now, out);
    }

    fn push(&mut self, session: &mut Self::Session, _: Time, out: &mut Vec<String>) {
        let chain = self.ledger();
        session.open.iter_mut().for_each(|open| open.push_early(chain, out));
        while out.len() < PUSHES {
            let behind = session.open.iter_mut().filter_map(|open| {
                let newest = chain.head - open.lag();
                let sent = *open.sent();
                (sent < newest).then_some((sent, newest, open))
            });
            let Some((sent, newest, open)) = behind.min_by_key(|(sent, ..)| *sent) else { break };
            let next = sent.max(newest.saturating_sub(TOLD)) + 1;
            *open.sent() = next;
            out.extend(open.of_block(chain, next));
            session.open.retain(|open| !open.is_over());
        }
    }

    fn next_push(&mut self, session: &mut Self::Session, now: Time) -> Option<Time> {
        let chain = self.ledger();
        let is_early_due = session.open.iter().any(|open| open.is_early_due(chain));
        let next = session.open.iter_mut().map(|open| *open.sent() + open.lag() + 1).min()?;
        Some(if is_early_due || next <= chain.height(now) { now } else { chain.time(next) })
    }

    fn rewind(&mut self, session: &mut Self::Session) {
        let head = self.ledger().head;
        for open in &mut session.open {
            let newest = head - open.lag();
            let sent = open.sent();
            *sent = (*sent).min(newest).saturating_sub(1);
        }
    }
}
