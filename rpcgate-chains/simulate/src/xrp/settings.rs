//! An account that makes no payments: in every fourth ledger it changes its settings or cancels an offer. The ledger
//! index gives the number of its transactions, so that no history is needed.

use super::wire::{Account, Fields, Hash, Value, account_of, drops};
use crate::seed::Seed;

/// The number of ledgers between transactions of the account.
const INTERVAL: u64 = 4;
/// The sequence number of its first transaction.
const SEQUENCE: u64 = 70_000_000;
/// The tag of the hashes of its transactions.
const HASHES: &str = "keeper transaction";

#[derive(Debug)]
pub(crate) struct SettingsTraffic {
    pub(crate) account: Account,
    seed: Seed,
    key: [u8; 33],
    /// The ledger of its first transaction.
    first: u64,
}

impl SettingsTraffic {
    pub(crate) fn new(seed: Seed, key: [u8; 33], first: u64) -> Self {
        SettingsTraffic { account: account_of(&key), seed, key, first }
    }

    /// Reports whether a ledger has a transaction of the account.
    pub(crate) fn is_due(&self, index: u64) -> bool {
        index.checked_sub(self.first).is_some_and(|after| after.is_multiple_of(INTERVAL))
    }

    /// Returns the number of its transactions up to a ledger.
    pub(crate) fn count_at(&self, index: u64) -> u64 {
        index.checked_sub(self.first).map_or(0, |after| after / INTERVAL + 1)
    }

    /// Its sequence number after this many transactions.
    pub(crate) fn sequence(&self, count: u64) -> u64 {
        SEQUENCE + count
    }

    /// Returns the last of this many transactions, and its ledger.
    pub(crate) fn last(&self, count: u64) -> (Hash, u64) {
        let index = count.checked_sub(1).map(|before| self.first + before * INTERVAL);
        index.map(|index| (self.seed.hide(HASHES, index), index)).unwrap_or_default()
    }

    /// Returns the ledger of the transaction with a hash, which may not have closed yet.
    pub(crate) fn find(&self, hash: &Hash) -> Option<u64> {
        self.seed.reveal(HASHES, hash).filter(|index| self.is_due(*index))
    }

    /// Its transaction in a ledger.
    pub(crate) fn transaction(&self, index: u64, sequence: u64, fee: u64) -> Option<(Fields, Hash)> {
        if !self.is_due(index) {
            return None;
        }
        let signature: [u8; 70] = self.seed.bytes("keeper signature", index);
        let tx = Fields::default()
            .with("Flags", Value::Number(0))
            .with("Sequence", Value::Number(sequence))
            .with("LastLedgerSequence", Value::Number(index + 18))
            .with("Fee", drops(fee))
            .with("SigningPubKey", Value::Bytes(self.key.to_vec()))
            .with("TxnSignature", Value::Bytes(signature.to_vec()))
            .with("Account", Value::Bytes(self.account.to_vec()));
        let tx = if sequence.is_multiple_of(2) {
            tx.with("TransactionType", Value::Number(3)).with("Domain", Value::Bytes(b"example.com".to_vec()))
        } else {
            tx.with("TransactionType", Value::Number(8)).with("OfferSequence", Value::Number(sequence - 1))
        };
        Some((tx, self.seed.hide(HASHES, index)))
    }
}
