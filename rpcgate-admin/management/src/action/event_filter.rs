//! The filters of subscriptions, and the check whether an event can match them.
//!
//! A filter with a misspelled member or a value of the wrong type matches nothing, and its author would wait without an
//! error. So each member is compared with those that the chain's reader documents ([`EventShape`]): a filter is
//! accepted if one form of the event has all its members with possible values.

use crate::error::{ActionError, Part};
use rpcgate_core::event::{BlockReader, EventMember, EventShape, EventType, HealthPhase, MemberForm};
use serde_json::{Map, Value};

const MAX_FILTER: usize = 16;
/// The maximum bytes of a member's name.
const MAX_KEY: usize = 64;
/// The maximum bytes of a text.
const MAX_VALUE: usize = 1_024;

/// The members around the innermost data of every event.
const AROUND: [&str; 5] = ["chain", "event_type", "block_num", "block_hash", "timestamp"];

/// The member of events of a block that replaces another block. Other events do not have it.
const REORGANIZED: EventMember = EventMember { name: "reorganized", form: MemberForm::Only(true) };

/// Members that are added to events after the comparison with filters.
const LATER: [&str; 2] = ["removed", "truncated"];

const HEALTH: &[EventShape] = &[EventShape::of(&[EventMember::one_of(
    "phase",
    &[HealthPhase::Healthy.name(), HealthPhase::Degraded.name()],
)])];

fn wrong(why: String) -> ActionError {
    ActionError::field("filter", why)
}

/// Refuses a filter that is too large, or that no event can match.
///
/// # Errors
/// [`ActionError::Invalid`] with the reason and the list of existing members.
pub(super) fn expect_possible(
    chain: &str,
    reader: Option<&dyn BlockReader>,
    kind: EventType,
    filter: &Map<String, Value>,
) -> Result<(), ActionError> {
    if filter.len() > MAX_FILTER {
        return Err(ActionError::named("filter", format!("has more than {MAX_FILTER} members")));
    }
    let events = Events { chain, reader, kind };
    for (key, value) in filter {
        expect_scalar(key, value)?;
        match events.judge(key, value) {
            Verdict::Possible => {}
            Verdict::Unknown => {
                return Err(wrong(format!(
                    "no event of the type {kind} on {chain} has a member `{key}`. {}",
                    events.members()
                )));
            }
            Verdict::Impossible => {
                return Err(wrong(format!(
                    "no event of the type {kind} on {chain} has this value of `{key}`. {}",
                    events.members()
                )));
            }
        }
    }
    if !events.have_together(filter) {
        return Err(wrong(format!(
            "no event of the type {kind} on {chain} has all of these members with these values. {}",
            events.members()
        )));
    }
    Ok(())
}

/// Refuses a member that can never be compared, for any event.
fn expect_scalar(key: &str, value: &Value) -> Result<(), ActionError> {
    if key.is_empty() || key.len() > MAX_KEY || key.chars().any(char::is_control) {
        let why = format!(" has a name that no event has: {MAX_KEY} bytes at most");
        let parts =
            [Part::Words("a member of ".into()), Part::Field("filter".into()), Part::Words(why.into())];
        return Err(ActionError::of_parts("filter", parts));
    }
    match value {
        Value::String(text) if text.len() > MAX_VALUE => {
            Err(wrong(format!("`{key}` must be at most {MAX_VALUE} bytes long")))
        }
        Value::String(_) | Value::Number(_) | Value::Bool(_) => Ok(()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err(wrong(format!("`{key}` must be a text, a number or a boolean")))
        }
    }
}

/// Reports whether a member of an event can have this name: all names, including those from contracts, consist of
/// letters, digits and `_`.
fn is_identifier(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// An event can have it.
    Possible,
    /// No event has a member with this name.
    Unknown,
    /// No event has this value.
    Impossible,
}

impl Verdict {
    fn of(is_possible: bool) -> Self {
        if is_possible { Verdict::Possible } else { Verdict::Impossible }
    }
}

#[derive(Clone, Copy, Debug)]
struct Events<'e> {
    chain: &'e str,
    reader: Option<&'e dyn BlockReader>,
    kind: EventType,
}

impl Events<'_> {
    /// Returns the forms of the innermost data; `None` if they are not known.
    fn shapes(&self) -> Option<&'static [EventShape]> {
        match self.kind {
            EventType::Health => Some(HEALTH),
            kind => self.reader?.shapes(kind),
        }
    }

    /// Returns the value in the form that events have; `None` if no event can have it.
    fn canonical(&self, key: &str, value: &Value) -> Option<Value> {
        match (self.reader, value) {
            (Some(reader), Value::String(text)) => reader.canonical(key, text).map(Value::String),
            _ => Some(value.clone()),
        }
    }

    /// Judges a member around the innermost data, or one that watchers add to it; `None` for any other.
    fn judge_around(&self, key: &str, value: &Value) -> Option<Verdict> {
        Some(match key {
            "chain" => Verdict::of(value == self.chain),
            "event_type" => Verdict::of(value == self.kind.name()),
            // An event about the health of a chain belongs to no block.
            "block_num" if self.kind == EventType::Health => Verdict::of(value.as_u64() == Some(0)),
            "block_hash" if self.kind == EventType::Health => Verdict::of(value == ""),
            // No chain is older than 1970.
            "block_num" | "timestamp" => Verdict::of(value.as_i64().is_some_and(|number| number >= 0)),
            "block_hash" => Verdict::of(value.is_string() && self.canonical(key, value).is_some()),
            name if name == REORGANIZED.name && self.kind != EventType::Health => {
                Verdict::of(REORGANIZED.form.has(value))
            }
            name if LATER.contains(&name) || !is_identifier(name) => Verdict::Unknown,
            _ => return None,
        })
    }

    fn judge(&self, key: &str, value: &Value) -> Verdict {
        if let Some(verdict) = self.judge_around(key, value) {
            return verdict;
        }
        let canonical = self.canonical(key, value);
        let Some(shapes) = self.shapes() else { return Verdict::of(canonical.is_some()) };
        let mut forms = shapes.iter().filter_map(|shape| shape.form(key)).peekable();
        if forms.peek().is_none() {
            return Verdict::Unknown;
        }
        Verdict::of(canonical.is_some_and(|value| forms.any(|form| form.has(&value))))
    }

    /// Reports whether one form of the event has all members of the filter.
    fn have_together(&self, filter: &Map<String, Value>) -> bool {
        let Some(shapes) = self.shapes() else { return true };
        let inner = filter.iter().filter(|(key, value)| self.judge_around(key, value).is_none());
        let inner: Vec<_> =
            inner.filter_map(|(key, value)| Some((key, self.canonical(key, value)?))).collect();
        shapes
            .iter()
            .any(|shape| inner.iter().all(|(key, value)| shape.form(key).is_some_and(|form| form.has(value))))
    }

    fn members(&self) -> String {
        let mut named: Vec<(&str, Vec<String>)> = Vec::new();
        let mut others = None;
        for shape in self.shapes().into_iter().flatten() {
            others = others.or(shape.others);
            for member in shape.members {
                let form = member.form.to_string();
                match named.iter_mut().find(|(name, _)| *name == member.name) {
                    Some((_, forms)) if forms.contains(&form) => {}
                    Some((_, forms)) => forms.push(form),
                    None => named.push((member.name, vec![form])),
                }
            }
        }
        let mut all: Vec<_> =
            named.into_iter().map(|(name, forms)| format!("{name} ({})", forms.join(" or "))).collect();
        match others {
            Some("") => all.push("those that contracts name".into()),
            Some(prefix) => all.push(format!("those that contracts name, after {prefix}")),
            None => {}
        }
        let added = Some(REORGANIZED.name).filter(|_| self.kind != EventType::Health);
        all.extend(AROUND.into_iter().chain(added).map(str::to_owned));
        format!("The members that exist: {}", all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::subscriptions::known_chain;
    use serde_json::json;

    const ADDRESS: &str = "0x00000000219ab540356cbb839cbe05303d7705fa";
    const HASH: &str = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

    fn check(chain: &str, kind: EventType, filter: &Value) -> Result<(), String> {
        let adapter = known_chain(chain).unwrap();
        let done = expect_possible(chain, adapter.block_reader(), kind, filter.as_object().unwrap());
        done.map_err(|error| {
            assert_eq!(error.wrong_field(), Some("filter"));
            error.to_string()
        })
    }

    // Shows (Webhooks).
    #[test]
    fn a_filter_that_an_event_can_match_is_accepted() {
        use EventType::{AddressActivity, ContractEvent, Health, NewBlock, TokenTransfer};
        for (chain, kind, filter) in [
            ("eth", AddressActivity, json!({"address": "0x00000000219ab540356cBB839Cbe05303d7705Fa"})),
            ("eth", AddressActivity, json!({"address": ADDRESS, "direction": "in", "value": "005"})),
            ("eth", AddressActivity, json!({"kind": "token", "standard": "erc721", "token_id": "7"})),
            ("eth", NewBlock, json!({})),
            ("eth", NewBlock, json!({"transactions": 5, "gas_used": 0, "reorganized": true})),
            ("eth", NewBlock, json!({"chain": "eth", "event_type": "new_block", "block_num": 7})),
            ("eth", NewBlock, json!({"block_hash": HASH, "timestamp": 0})),
            ("eth", ContractEvent, json!({"event": "Transfer", "topic0": HASH, "data": "0x00"})),
            (
                "xrp",
                TokenTransfer,
                json!({"value": "1.5e-7", "token": "USD.rvYAfWj5gh67oV6fW32ZzP3Aw4Eubs59B"}),
            ),
            ("btc", AddressActivity, json!({"coinbase": true, "inputs_known": false})),
            ("sui", ContractEvent, json!({"amount": 5, "is_open": true, "module": "pool"})),
            ("aptos", ContractEvent, json!({"data_amount": "5", "data": true})),
            ("cardano", ContractEvent, json!({"kind": "mint", "value": "-5"})),
            ("ton", TokenTransfer, json!({"token": "jetton"})),
            ("xlm", NewBlock, json!({"block_num": 7})),
            ("eth", Health, json!({"phase": "Degraded", "chain": "eth", "block_hash": "", "block_num": 0})),
            (
                "cosmos",
                TokenTransfer,
                json!({"token": "ibc/27394FB092D2ECCD56123C74F36E4C1F926001CEADA9CA97"}),
            ),
            ("aptos", TokenTransfer, json!({"token": "0x1::aptos_coin::AptosCoin"})),
            ("aptos", ContractEvent, json!({"type": "0x1::coin::Event<0x1::a::B, vector<u8>>"})),
            ("ton", NewBlock, json!({"parent_hash": "00".repeat(32)})),
            ("bch", TokenTransfer, json!({"standard": "cashtokens", "token": "ab".repeat(32)})),
            ("liquid", AddressActivity, json!({"token": "ab".repeat(32)})),
            ("eth", TokenTransfer, json!({"standard": "erc721", "value": "01"})),
        ] {
            assert_eq!(check(chain, kind, &filter), Ok(()), "{filter}");
        }
    }

    // Shows (Webhooks): Every accepted filter can match, and an impossible one is refused with the existing members
    // (promise 86).
    #[test]
    fn a_filter_that_nothing_can_match_is_refused_with_the_members_that_exist() {
        use EventType::{AddressActivity, ContractEvent, Health, NewBlock, TokenTransfer};
        const UNKNOWN: &str = "has a member";
        const VALUE: &str = "has this value of";
        for (chain, kind, key, value, why) in [
            ("eth", AddressActivity, "adress", json!(ADDRESS), UNKNOWN),
            ("eth", AddressActivity, "Address", json!(ADDRESS), UNKNOWN),
            ("eth", AddressActivity, "topics", json!(HASH), UNKNOWN),
            ("eth", AddressActivity, "removed", json!(true), UNKNOWN),
            ("sui", ContractEvent, "truncated", json!(true), UNKNOWN),
            ("sui", ContractEvent, "removed", json!(true), UNKNOWN),
            ("aptos", NewBlock, "parent_hash", json!("0x1"), UNKNOWN),
            ("xlm", NewBlock, "transactions", json!(1), UNKNOWN),
            ("eth", Health, "address", json!(ADDRESS), UNKNOWN),
            ("eth", Health, "reorganized", json!(true), UNKNOWN),
            ("sui", ContractEvent, "no such", json!(true), UNKNOWN),
            ("eth", AddressActivity, "address", json!(5), VALUE),
            ("eth", AddressActivity, "address", json!("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"), VALUE),
            ("eth", AddressActivity, "success", json!("true"), VALUE),
            ("eth", AddressActivity, "direction", json!("both"), VALUE),
            ("eth", AddressActivity, "value", json!(5), VALUE),
            ("eth", AddressActivity, "value", json!("0x5"), VALUE),
            ("eth", AddressActivity, "value", json!("1.5"), VALUE),
            ("eth", AddressActivity, "kind", json!("nft"), VALUE),
            ("eth", TokenTransfer, "standard", json!("ERC20"), VALUE),
            ("eth", TokenTransfer, "log_index", json!(-1), VALUE),
            ("eth", TokenTransfer, "log_index", json!("1"), VALUE),
            ("eth", ContractEvent, "event", json!("Transfr"), VALUE),
            ("eth", ContractEvent, "topic0", json!("Transfer(address,address,uint256)"), VALUE),
            ("eth", NewBlock, "transactions", json!(1.5), VALUE),
            ("eth", NewBlock, "reorganized", json!(false), VALUE),
            ("eth", NewBlock, "chain", json!("bsc"), VALUE),
            ("eth", NewBlock, "event_type", json!("health"), VALUE),
            ("eth", NewBlock, "block_num", json!("7"), VALUE),
            ("eth", NewBlock, "block_num", json!(-7), VALUE),
            ("eth", NewBlock, "timestamp", json!("now"), VALUE),
            ("eth", NewBlock, "block_hash", json!(7), VALUE),
            ("eth", NewBlock, "block_hash", json!("0x12"), VALUE),
            ("eth", Health, "phase", json!("Sick"), VALUE),
            ("eth", Health, "phase", json!(1), VALUE),
            ("eth", Health, "block_num", json!(5), VALUE),
            ("eth", Health, "block_hash", json!(HASH), VALUE),
            ("eth", Health, "timestamp", json!(-1), VALUE),
            ("eth", NewBlock, "timestamp", json!(-1), VALUE),
            ("eth", NewBlock, "block_num", json!(u64::MAX), VALUE),
            ("eth", AddressActivity, "value", json!("9".repeat(78)), VALUE),
            ("aptos", NewBlock, "block_hash", json!("zz zz"), VALUE),
            ("aptos", NewBlock, "block_hash", json!(""), VALUE),
            ("aptos", TokenTransfer, "token", json!("zz::zz"), VALUE),
            ("aptos", ContractEvent, "type", json!("zz zz"), VALUE),
            ("aptos", ContractEvent, "type", json!(""), VALUE),
            ("ton", NewBlock, "block_hash", json!("zz zz"), VALUE),
            ("ton", NewBlock, "parent_hash", json!("zz zz"), VALUE),
            ("ton", NewBlock, "parent_hash", json!(""), VALUE),
            ("ton", ContractEvent, "body", json!("zz zz"), VALUE),
            ("cosmos", TokenTransfer, "token", json!(""), VALUE),
            ("cosmos", AddressActivity, "token", json!(" "), VALUE),
            ("cosmos", ContractEvent, "type", json!(""), VALUE),
            ("xrp", AddressActivity, "result", json!(" "), VALUE),
            ("xrp", TokenTransfer, "value", json!("1.50"), VALUE),
            ("tron", AddressActivity, "tx_type", json!(""), VALUE),
            ("tron", ContractEvent, "data", json!("abc"), VALUE),
            ("solana", ContractEvent, "data", json!("zz zz"), VALUE),
            ("sui", ContractEvent, "module", json!("zz zz"), VALUE),
            ("cardano", ContractEvent, "purpose", json!(""), VALUE),
            ("cardano", ContractEvent, "redeemer", json!("abc"), VALUE),
            ("btc", TokenTransfer, "standard", json!("cashtokens"), UNKNOWN),
            ("btc", TokenTransfer, "token", json!("ab".repeat(32)), VALUE),
            ("btc", ContractEvent, "data", json!("abc"), VALUE),
            ("btc", AddressActivity, "coinbase", json!(false), VALUE),
            ("near", AddressActivity, "tx_hash", json!("0x12"), VALUE),
            ("solana", TokenTransfer, "tx_hash", json!("5"), VALUE),
            ("sui", TokenTransfer, "tx_hash", json!(HASH), VALUE),
            ("cardano", AddressActivity, "address", json!(ADDRESS), VALUE),
            ("tron", ContractEvent, "data", json!("text"), VALUE),
            ("aptos", ContractEvent, "version", json!("7"), VALUE),
            ("xrp", TokenTransfer, "value", json!("much"), VALUE),
            ("ton", ContractEvent, "opcode", json!("transfer"), VALUE),
            ("sui", ContractEvent, "amount", json!(1.5), VALUE),
        ] {
            let text = check(chain, kind, &json!({key: value})).unwrap_err();
            let expected =
                format!("no event of the type {kind} on {chain} {why} `{key}`. The members that exist: ");
            assert!(text.starts_with(&expected), "{value}: {text}");
            assert!(text.contains("block_num, block_hash, timestamp"), "{text}");
        }
        let text = check("eth", AddressActivity, &json!({"adress": ADDRESS})).unwrap_err();
        for member in
            ["address (text)", "direction (\"in\" or \"out\" or \"self\")", "kind (\"native\" or \"token\")"]
        {
            assert!(text.contains(member), "{text}");
        }
    }

    // Shows (Webhooks).
    #[test]
    fn members_that_no_form_of_an_event_has_together_are_refused() {
        use EventType::{AddressActivity, ContractEvent, TokenTransfer};
        for (chain, kind, filter) in [
            ("eth", TokenTransfer, json!({"standard": "erc20", "token_id": "7"})),
            ("eth", TokenTransfer, json!({"standard": "erc721", "value": "5"})),
            ("eth", AddressActivity, json!({"kind": "native", "token": ADDRESS})),
            ("tron", TokenTransfer, json!({"standard": "trc721", "value": "7"})),
            ("ton", TokenTransfer, json!({"token": "TON", "jetton_wallet": format!("0:{}", "0".repeat(64))})),
            ("solana", ContractEvent, json!({"kind": "log", "data": "x"})),
            ("cardano", ContractEvent, json!({"kind": "script", "value": "1"})),
        ] {
            let text = check(chain, kind, &filter).unwrap_err();
            assert!(text.contains("has all of these members with these values"), "{filter}: {text}");
        }
    }

    // Shows (Webhooks).
    #[test]
    fn a_filter_that_is_too_large_or_has_no_scalars_is_refused() {
        let many: Map<_, _> = (0..=MAX_FILTER).map(|n| (format!("key{n}"), json!(n))).collect();
        let check = |filter: &Value| check("eth", EventType::NewBlock, filter);
        assert_eq!(check(&Value::Object(many)), Err("`filter` has more than 16 members".into()));
        let long = json!({"miner": "x".repeat(MAX_VALUE + 1)});
        assert_eq!(check(&long), Err("`miner` must be at most 1024 bytes long".into()));
        for value in [json!(null), json!([]), json!([1]), json!({"b": 1})] {
            let text = "`miner` must be a text, a number or a boolean";
            assert_eq!(check(&json!({"miner": value})), Err(text.into()));
        }
        for name in ["", "a\nb", "x".repeat(MAX_KEY + 1).as_str()] {
            let text = "a member of `filter` has a name that no event has: 64 bytes at most";
            assert_eq!(check(&json!({name: 1})), Err(text.into()));
        }
    }

    #[test]
    fn every_event_type_of_every_chain_lists_its_members() {
        for adapter in rpcgate_chains::catalog() {
            let reader = adapter.block_reader().unwrap();
            for kind in reader.kinds() {
                assert!(reader.shapes(*kind).is_some(), "{} {kind}", adapter.facts().name);
            }
        }
    }
}
