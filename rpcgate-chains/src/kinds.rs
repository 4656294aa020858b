//! The types of events that most chains have, and a member that they share.

use rpcgate_core::event::{EventFilter, EventMember, EventType};

/// The role of an address in a transaction.
pub(crate) const DIRECTION: EventMember = EventMember::one_of("direction", &["in", "out", "self"]);

pub(crate) const KINDS: &[EventType] =
    &[EventType::NewBlock, EventType::AddressActivity, EventType::TokenTransfer, EventType::ContractEvent];

/// Reports whether the wanted events need the transactions of a block.
pub(crate) fn wants_transactions(filter: &EventFilter) -> bool {
    KINDS.iter().any(|kind| *kind != EventType::NewBlock && filter.wants(*kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_block_is_reported_without_its_transactions() {
        assert!(!wants_transactions(&EventFilter::new([EventType::NewBlock, EventType::Health])));
        for kind in &KINDS[1..] {
            assert!(wants_transactions(&EventFilter::new([*kind])), "{kind}");
        }
    }
}
