//! The members of UTXO events (docs/webhooks-data.md).

use crate::kinds::DIRECTION;
use rpcgate_core::event::{EventMember, EventShape, EventType, MemberForm};

const BLOCK: EventShape =
    EventShape::of(&[EventMember::text("parent_hash"), EventMember::number("transactions")]);
const ACTIVITY: EventShape = EventShape::of(&[
    EventMember::text("address"),
    DIRECTION,
    EventMember::amount("value"),
    EventMember::amount("paid"),
    EventMember::amount("received"),
    EventMember::text("token"),
    EventMember::text("tx_hash"),
    EventMember::number("index"),
    EventMember { name: "coinbase", form: MemberForm::Only(true) },
    EventMember { name: "inputs_known", form: MemberForm::Only(false) },
]);
const PAYMENT: EventShape = EventShape::of(&[
    EventMember::text("to"),
    EventMember::amount("value"),
    EventMember::text("token"),
    EventMember::text("tx_hash"),
    EventMember::number("index"),
    EventMember { name: "coinbase", form: MemberForm::Only(true) },
]);
const CASH_TOKENS: EventShape = EventShape::of(&[
    EventMember::text("to"),
    EventMember::one_of("standard", &["cashtokens"]),
    EventMember::amount("value"),
    EventMember::text("token"),
    EventMember::text("token_id"),
    EventMember::text("tx_hash"),
    EventMember::number("index"),
    EventMember { name: "coinbase", form: MemberForm::Only(true) },
]);
const DATA: EventShape = EventShape::of(&[
    EventMember::one_of("event", &["op_return"]),
    EventMember::text("data"),
    EventMember::text("script"),
    EventMember::amount("value"),
    EventMember::text("tx_hash"),
    EventMember::number("index"),
]);

pub(super) fn shapes(kind: EventType, has_cash_tokens: bool) -> Option<&'static [EventShape]> {
    Some(match kind {
        EventType::NewBlock => &[BLOCK],
        EventType::AddressActivity => &[ACTIVITY],
        EventType::TokenTransfer if has_cash_tokens => &[PAYMENT, CASH_TOKENS],
        EventType::TokenTransfer => &[PAYMENT],
        EventType::ContractEvent => &[DATA],
        _ => return None,
    })
}
