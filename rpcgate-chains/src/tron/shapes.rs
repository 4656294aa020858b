//! The members of TRON events (docs/webhooks-data.md).

use crate::kinds::DIRECTION;
use rpcgate_core::event::{EventMember, EventShape, EventType};

const BLOCK: EventShape =
    EventShape::of(&[EventMember::text("parent_hash"), EventMember::number("transactions")]);
const ACTIVITY: EventShape = EventShape::of(&[
    EventMember::text("address"),
    DIRECTION,
    EventMember::amount("value"),
    EventMember::amount("paid"),
    EventMember::amount("received"),
    EventMember::text("tx_hash"),
    EventMember::flag("success"),
    EventMember::text("tx_type"),
    EventMember::text("token"),
]);
const TRC10: EventShape = EventShape::of(&[
    EventMember::text("token"),
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::text("tx_hash"),
    EventMember::one_of("standard", &["trc10"]),
    EventMember::amount("value"),
    EventMember::number("index"),
]);
const TRC20: EventShape = EventShape::of(&[
    EventMember::text("token"),
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::text("tx_hash"),
    EventMember::one_of("standard", &["trc20"]),
    EventMember::amount("value"),
    EventMember::number("log_index"),
]);
const TRC721: EventShape = EventShape::of(&[
    EventMember::text("token"),
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::text("tx_hash"),
    EventMember::one_of("standard", &["trc721"]),
    EventMember::amount("token_id"),
    EventMember::number("log_index"),
]);
const LOG: EventShape = EventShape::of(&[
    EventMember::text("address"),
    EventMember::text("tx_hash"),
    EventMember::number("log_index"),
    EventMember::text("topic0"),
    EventMember::text("data"),
]);

pub(super) fn shapes(kind: EventType) -> Option<&'static [EventShape]> {
    Some(match kind {
        EventType::NewBlock => &[BLOCK],
        EventType::AddressActivity => &[ACTIVITY],
        EventType::TokenTransfer => &[TRC10, TRC20, TRC721],
        EventType::ContractEvent => &[LOG],
        _ => return None,
    })
}
