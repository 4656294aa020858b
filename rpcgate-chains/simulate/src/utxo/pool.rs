//! The pool of transactions that wait for a block.

use super::coin::{Hash, Kind};
use super::tx::Tx;

#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) tx: Tx,
    pub(crate) txid: Hash,
    /// In 10^-8 coins.
    pub(crate) fee: u64,
    /// The Unix time of its arrival in seconds, and the newest block at that time.
    pub(crate) since: (u64, u64),
}

/// The pool, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Pool(Vec<Waiting>);

impl Pool {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.0.iter()
    }

    pub(crate) fn find(&self, txid: &Hash) -> Option<&Waiting> {
        self.iter().find(|waiting| waiting.txid == *txid)
    }

    /// Reports whether a transaction in the pool spends an output.
    pub(crate) fn spends(&self, kind: Kind, txid: &Hash, vout: u32) -> bool {
        self.iter()
            .flat_map(|waiting| &waiting.tx.inputs)
            .any(|input| input.txid == *txid && input.index(kind) == vout)
    }

    /// Takes out all transactions.
    pub(crate) fn drain(&mut self) -> Vec<Tx> {
        self.0.drain(..).map(|waiting| waiting.tx).collect()
    }

    /// Adds a transaction at the end.
    pub(crate) fn push(&mut self, waiting: Waiting) {
        self.0.push(waiting);
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Waiting> {
        self.0.iter_mut()
    }
}
