//! The members of XRP Ledger events (docs/webhooks-data.md).

use crate::kinds::DIRECTION;
use rpcgate_core::event::{EventMember, EventShape, EventType};

const LEDGER: EventShape =
    EventShape::of(&[EventMember::text("parent_hash"), EventMember::number("transactions")]);
const ACTIVITY: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::number("index"),
    EventMember::text("address"),
    EventMember::text("tx_type"),
    EventMember::flag("success"),
    EventMember::text("result"),
    DIRECTION,
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::amount("fee"),
    EventMember::text("token"),
    EventMember::text("value"),
]);
const PAYMENT: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::number("index"),
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::text("token"),
    EventMember::text("value"),
]);
const TRANSACTION: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::number("index"),
    EventMember::text("tx_type"),
    EventMember::text("address"),
    EventMember::flag("success"),
    EventMember::text("result"),
    EventMember::text("to"),
    EventMember::text("nftoken_id"),
]);

pub(super) fn shapes(kind: EventType) -> Option<&'static [EventShape]> {
    Some(match kind {
        EventType::NewBlock => &[LEDGER],
        EventType::AddressActivity => &[ACTIVITY],
        EventType::TokenTransfer => &[PAYMENT],
        EventType::ContractEvent => &[TRANSACTION],
        _ => return None,
    })
}
