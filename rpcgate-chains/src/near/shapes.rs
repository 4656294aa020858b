//! The members of NEAR events (docs/webhooks-data.md).

use crate::kinds::DIRECTION;
use rpcgate_core::event::{EventMember, EventShape, EventType};

const BLOCK: EventShape = EventShape::of(&[EventMember::text("parent_hash"), EventMember::number("chunks")]);
const ACTIVITY: EventShape = EventShape::of(&[
    EventMember::text("address"),
    DIRECTION,
    EventMember::amount("value"),
    EventMember::amount("paid"),
    EventMember::amount("received"),
    EventMember::text("tx_hash"),
    EventMember::flag("success"),
    EventMember::text("from"),
    EventMember::text("to"),
]);
const NEP141: EventShape = EventShape::of(&[
    EventMember::text("token"),
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::text("tx_hash"),
    EventMember::text("receipt_id"),
    EventMember::number("log_index"),
    EventMember::number("index"),
    EventMember::one_of("standard", &["nep141"]),
    EventMember::amount("value"),
]);
const NEP171: EventShape = EventShape::of(&[
    EventMember::text("token"),
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::text("tx_hash"),
    EventMember::text("receipt_id"),
    EventMember::number("log_index"),
    EventMember::number("index"),
    EventMember::one_of("standard", &["nep171"]),
    EventMember::text("token_id"),
]);
const NEP245: EventShape = EventShape::of(&[
    EventMember::text("token"),
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::text("tx_hash"),
    EventMember::text("receipt_id"),
    EventMember::number("log_index"),
    EventMember::number("index"),
    EventMember::one_of("standard", &["nep245"]),
    EventMember::text("token_id"),
    EventMember::amount("value"),
]);
const LOG: EventShape = EventShape::of(&[
    EventMember::text("address"),
    EventMember::text("standard"),
    EventMember::text("version"),
    EventMember::text("event"),
    EventMember::text("payload"),
    EventMember::text("tx_hash"),
    EventMember::text("receipt_id"),
    EventMember::number("log_index"),
]);

pub(super) fn shapes(kind: EventType) -> Option<&'static [EventShape]> {
    Some(match kind {
        EventType::NewBlock => &[BLOCK],
        EventType::AddressActivity => &[ACTIVITY],
        EventType::TokenTransfer => &[NEP141, NEP171, NEP245],
        EventType::ContractEvent => &[LOG],
        _ => return None,
    })
}
