//! Account roots and their changes in a transaction's metadata.

use super::fields::{Engine, Field};
use super::wire::{Account, Fields, Hash, Value, drops, half};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Root {
    /// In drops.
    pub(crate) balance: u64,
    /// The number of its next transaction.
    pub(crate) sequence: u64,
    /// The last transaction that changed it, and its ledger.
    pub(crate) last: (Hash, u64),
}

/// Returns the index of an account root in the state tree.
pub(crate) fn root_index(account: &Account) -> Hash {
    half(&[&[0, 0x61], account])
}

/// Returns a transaction's metadata from the accounts before and after it.
pub(crate) fn meta(nodes: &[(Account, Option<Root>, Option<Root>)], place: usize, engine: Engine) -> Fields {
    let items = nodes.iter().filter_map(|(account, before, after)| {
        let after = (*after)?;
        let id = Value::Bytes(account.to_vec());
        let node = Fields::default()
            .with("LedgerEntryType", Value::Number(97))
            .with("LedgerIndex", Value::Bytes(root_index(account).to_vec()));
        let plain = Fields::default()
            .with("Account", id)
            .with("Balance", drops(after.balance))
            .with("Sequence", Value::Number(after.sequence));
        let Some(before) = before else {
            return Some(("CreatedNode", node.with("NewFields", Value::Object(plain))));
        };
        let mut previous = Fields::default();
        if before.balance != after.balance {
            previous = previous.with("Balance", drops(before.balance));
        }
        if before.sequence != after.sequence {
            previous = previous.with("Sequence", Value::Number(before.sequence));
        }
        let plain = plain.with("Flags", Value::Number(0)).with("OwnerCount", Value::Number(0));
        let mut node = node.with("FinalFields", Value::Object(plain));
        if !previous.is_empty() {
            node = node.with("PreviousFields", Value::Object(previous));
        }
        if before.last.1 > 0 {
            node = node
                .with("PreviousTxnID", Value::Bytes(before.last.0.to_vec()))
                .with("PreviousTxnLgrSeq", Value::Number(before.last.1));
        }
        Some(("ModifiedNode", node))
    });
    let items = items.filter_map(|(name, node)| Some((Field::named(name)?, node))).collect();
    Fields::default()
        .with("AffectedNodes", Value::Array(items))
        .with("TransactionIndex", Value::Number(place as u64))
        .with("TransactionResult", Value::Number(engine.code.unsigned_abs().into()))
}
