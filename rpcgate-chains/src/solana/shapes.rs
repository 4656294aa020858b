//! The members of Solana events (docs/webhooks-data.md).

use crate::kinds::DIRECTION;
use rpcgate_core::event::{EventMember, EventShape, EventType};

const BLOCK: EventShape = EventShape::of(&[
    EventMember::text("parent_hash"),
    EventMember::number("transactions"),
    EventMember::number("parent_slot"),
    EventMember::number("block_height"),
]);
const ACTIVITY: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::text("address"),
    DIRECTION,
    EventMember::amount("value"),
    EventMember::amount("paid"),
    EventMember::amount("received"),
    EventMember::flag("success"),
]);
const TOKENS: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::text("token"),
    EventMember::amount("value"),
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::number("index"),
]);
const DATA: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::text("program"),
    EventMember::one_of("kind", &["instruction", "data"]),
    EventMember::number("index"),
    EventMember::text("data"),
]);
const LOG: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::text("program"),
    EventMember::one_of("kind", &["log"]),
    EventMember::number("index"),
    EventMember::text("log"),
]);

pub(super) fn shapes(kind: EventType) -> Option<&'static [EventShape]> {
    Some(match kind {
        EventType::NewBlock => &[BLOCK],
        EventType::AddressActivity => &[ACTIVITY],
        EventType::TokenTransfer => &[TOKENS],
        EventType::ContractEvent => &[DATA, LOG],
        _ => return None,
    })
}
