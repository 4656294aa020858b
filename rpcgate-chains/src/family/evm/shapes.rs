//! The members of EVM events (docs/webhooks-data.md).

use crate::kinds::DIRECTION;
use rpcgate_core::event::{EventMember, EventShape, EventType};

const BLOCK: EventShape = EventShape::of(&[
    EventMember::text("parent_hash"),
    EventMember::number("transactions"),
    EventMember::number("gas_used"),
    EventMember::text("miner"),
]);
const NATIVE: EventShape = EventShape::of(&[
    EventMember::text("address"),
    DIRECTION,
    EventMember::one_of("kind", &["native"]),
    EventMember::text("tx_hash"),
    EventMember::number("index"),
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::amount("value"),
    EventMember::flag("success"),
]);
const ERC20_PARTY: EventShape = EventShape::of(&[
    EventMember::text("address"),
    DIRECTION,
    EventMember::one_of("kind", &["token"]),
    EventMember::one_of("standard", &["erc20"]),
    EventMember::text("token"),
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::amount("value"),
    EventMember::text("tx_hash"),
    EventMember::number("log_index"),
]);
const ERC721_PARTY: EventShape = EventShape::of(&[
    EventMember::text("address"),
    DIRECTION,
    EventMember::one_of("kind", &["token"]),
    EventMember::one_of("standard", &["erc721"]),
    EventMember::text("token"),
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::one_of("value", &["1"]),
    EventMember::text("tx_hash"),
    EventMember::number("log_index"),
    EventMember::amount("token_id"),
]);
const ERC1155_PARTY: EventShape = EventShape::of(&[
    EventMember::text("address"),
    DIRECTION,
    EventMember::one_of("kind", &["token"]),
    EventMember::one_of("standard", &["erc1155"]),
    EventMember::text("token"),
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::amount("value"),
    EventMember::text("tx_hash"),
    EventMember::number("log_index"),
    EventMember::amount("token_id"),
    EventMember::text("operator"),
    EventMember::number("batch_index"),
]);
const ERC20: EventShape = EventShape::of(&[
    EventMember::one_of("standard", &["erc20"]),
    EventMember::text("token"),
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::amount("value"),
    EventMember::text("tx_hash"),
    EventMember::number("log_index"),
]);
const ERC721: EventShape = EventShape::of(&[
    EventMember::one_of("standard", &["erc721"]),
    EventMember::text("token"),
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::one_of("value", &["1"]),
    EventMember::text("tx_hash"),
    EventMember::number("log_index"),
    EventMember::amount("token_id"),
]);
const ERC1155: EventShape = EventShape::of(&[
    EventMember::one_of("standard", &["erc1155"]),
    EventMember::text("token"),
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::amount("value"),
    EventMember::text("tx_hash"),
    EventMember::number("log_index"),
    EventMember::amount("token_id"),
    EventMember::text("operator"),
    EventMember::number("batch_index"),
]);
const LOG: EventShape = EventShape::of(&[
    EventMember::text("address"),
    EventMember::text("topic0"),
    EventMember::text("topic1"),
    EventMember::text("topic2"),
    EventMember::text("topic3"),
    EventMember::text("data"),
    EventMember::text("tx_hash"),
    EventMember::number("log_index"),
    EventMember::text("event"),
]);

pub(super) fn shapes(kind: EventType) -> Option<&'static [EventShape]> {
    Some(match kind {
        EventType::NewBlock => &[BLOCK],
        EventType::AddressActivity => &[NATIVE, ERC20_PARTY, ERC721_PARTY, ERC1155_PARTY],
        EventType::TokenTransfer => &[ERC20, ERC721, ERC1155],
        EventType::ContractEvent => &[LOG],
        _ => return None,
    })
}
