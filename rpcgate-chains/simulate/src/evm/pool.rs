//! Transactions that wait for a block.

use super::network::{Address, Word};
use super::state::Accounts;
use super::tx::Tx;
use crate::envelope::Fault;
use std::collections::{BTreeMap, VecDeque};

/// The maximum number of waiting transactions.
const ROOM: usize = 10_000;

/// The pool. A sender's transactions leave it in the order of their nonces.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// By order of arrival.
    waiting: BTreeMap<u64, (Tx, Address)>,
    arrivals: u64,
    /// The last arrivals, for filters of pending transactions.
    recent: VecDeque<(u64, Word)>,
}

impl Pool {
    /// Returns the waiting transactions, in order of arrival.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Tx, Address)> {
        self.waiting.values()
    }

    pub(crate) fn find(&self, hash: &Word) -> Option<&(Tx, Address)> {
        self.iter().find(|(tx, _)| tx.hash == *hash)
    }

    /// Returns the number of transactions that have ever arrived.
    pub(crate) fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Returns the hashes of the transactions that arrived after the first `seen`.
    pub(crate) fn since(&self, seen: u64) -> Vec<Word> {
        self.recent.iter().filter(|(number, _)| *number > seen).map(|(_, hash)| *hash).collect()
    }

    /// Returns the next nonce of a sender, counting the waiting transactions up to the first gap.
    pub(crate) fn nonce(&self, from: &Address, mut nonce: u64) -> u64 {
        while self.iter().any(|(tx, sender)| sender == from && tx.nonce == nonce) {
            nonce += 1;
        }
        nonce
    }

    /// Takes a transaction, or refuses it with go-ethereum's message. `height` is the newest block.
    pub(crate) fn add(&mut self, tx: Tx, from: Address, state: &Accounts, height: u64) -> Result<(), Fault> {
        let refuse = |message: String| Err(Fault::new(-32000, message));
        let account = state.account(&from, height);
        if tx.nonce < account.nonce {
            return refuse(format!("nonce too low: next nonce {}, tx nonce {}", account.nonce, tx.nonce));
        }
        let spent: u128 = self
            .iter()
            .filter(|(t, sender)| *sender == from && t.nonce < tx.nonce)
            .fold(0, |sum, (t, _)| t.cost().saturating_add(sum));
        let cost = tx.cost();
        let left = account.balance.saturating_sub(spent);
        if cost > left {
            let over = cost - left;
            return refuse(format!(
                "insufficient funds for gas * price + value: balance {}, tx cost {cost}, overshot {over}",
                account.balance
            ));
        }
        let rival = self.waiting.iter().find(|(_, (t, sender))| *sender == from && t.nonce == tx.nonce);
        if let Some((number, (old, _))) = rival {
            let bar = |fee: u128| fee.saturating_add(fee.div_ceil(10));
            if tx.max_fee < bar(old.max_fee) || tx.tip < bar(old.tip) {
                return refuse("replacement transaction underpriced".into());
            }
            let number = *number;
            self.waiting.remove(&number);
        }
        if self.waiting.len() >= ROOM {
            return refuse("txpool is full".into());
        }
        self.arrivals += 1;
        self.recent.push_back((self.arrivals, tx.hash));
        if self.recent.len() > ROOM {
            self.recent.pop_front();
        }
        self.waiting.insert(self.arrivals, (tx, from));
        Ok(())
    }

    /// Reports whether a transaction could run after block `height` in an empty block with the base fee `least`.
    pub(crate) fn may_enter(&self, state: &Accounts, height: u64, least: u128) -> bool {
        self.iter().any(|(tx, from)| {
            let account = state.account(from, height);
            tx.nonce == account.nonce && tx.max_fee >= least && tx.cost() <= account.balance
        })
    }

    /// Removes and returns the first transaction that may run on the state after block `height` within `room` gas.
    pub(crate) fn next(
        &mut self,
        state: &Accounts,
        height: u64,
        base_fee: u128,
        room: u64,
    ) -> Option<(Tx, Address)> {
        let fits = |(tx, from): &(Tx, Address)| {
            let account = state.account(from, height);
            tx.nonce == account.nonce
                && tx.max_fee >= base_fee
                && tx.gas <= room
                && tx.cost() <= account.balance
        };
        let number = *self.waiting.iter().find(|(_, waiting)| fits(waiting))?.0;
        let taken = self.waiting.remove(&number)?;
        // Transactions of the sender that can never run any more leave too.
        let from = taken.1;
        let nonce = taken.0.nonce;
        self.waiting.retain(|_, (tx, sender)| *sender != from || tx.nonce > nonce);
        Some(taken)
    }
}
