//! The possible members of events, to refuse filters that no event can match.

use serde_json::{Map, Value};
use std::fmt;

/// The largest amount, 2^256 - 1.
const MAX_AMOUNT: &str = "115792089237316195423570985008687907853269984665640564039457584007913129639935";

/// The form of a member's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MemberForm {
    /// A text. [`BlockReader::canonical`](super::BlockReader::canonical) may refuse some.
    Text,
    /// A text with a decimal number of at most 2^256 - 1, without sign and leading zeros.
    Amount,
    /// An amount, optionally with a leading `-`.
    SignedAmount,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A whole number from 0 to 2^64 - 1.
    Number,
    /// `true` or `false`.
    Flag,
    /// This boolean. The member is absent if it would be the other one.
    Only(bool),
    /// A text, a whole number or a boolean from a contract.
    Scalar,
}

impl MemberForm {
    /// Reports whether a member can have this value. Texts are [canonical](super::BlockReader::canonical).
    pub fn has(self, value: &Value) -> bool {
        match (self, value) {
            (MemberForm::Text, Value::String(_)) | (MemberForm::Flag, Value::Bool(_)) => true,
            (MemberForm::Amount, Value::String(text)) => is_amount(text),
            (MemberForm::SignedAmount, Value::String(text)) => {
                is_amount(text.strip_prefix('-').filter(|rest| *rest != "0").unwrap_or(text))
            }
            (MemberForm::OneOf(texts), Value::String(text)) => texts.contains(&text.as_str()),
            (MemberForm::Number, Value::Number(number)) => number.is_u64(),
            (MemberForm::Only(only), Value::Bool(found)) => only == *found,
            (MemberForm::Scalar, Value::String(_) | Value::Bool(_)) => true,
            (MemberForm::Scalar, Value::Number(number)) => !number.is_f64(),
            _ => false,
        }
    }
}

/// Describes the values for people.
impl fmt::Display for MemberForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemberForm::Text => f.write_str("text"),
            MemberForm::Amount | MemberForm::SignedAmount => f.write_str("amount as text"),
            MemberForm::OneOf(texts) => write!(f, "\"{}\"", texts.join("\" or \"")),
            MemberForm::Number => f.write_str("whole number"),
            MemberForm::Flag => f.write_str("boolean"),
            MemberForm::Only(only) => write!(f, "{only}"),
            MemberForm::Scalar => f.write_str("text, whole number or boolean"),
        }
    }
}

fn is_amount(text: &str) -> bool {
    let is_digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let is_bounded = text.len() < MAX_AMOUNT.len() || (text.len() == MAX_AMOUNT.len() && text <= MAX_AMOUNT);
    is_digits && is_bounded && (text == "0" || !text.starts_with('0'))
}

/// A member of an event's innermost `data`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventMember {
    /// Its name.
    pub name: &'static str,
    /// The form of its values.
    pub form: MemberForm,
}

impl EventMember {
    /// Creates a text member.
    pub const fn text(name: &'static str) -> Self {
        EventMember { name, form: MemberForm::Text }
    }

    /// Creates a member with a decimal number as text.
    pub const fn amount(name: &'static str) -> Self {
        EventMember { name, form: MemberForm::Amount }
    }

    /// Creates a member that has one of these texts.
    pub const fn one_of(name: &'static str, texts: &'static [&'static str]) -> Self {
        EventMember { name, form: MemberForm::OneOf(texts) }
    }

    /// Creates a whole-number member.
    pub const fn number(name: &'static str) -> Self {
        EventMember { name, form: MemberForm::Number }
    }

    /// Creates a boolean member.
    pub const fn flag(name: &'static str) -> Self {
        EventMember { name, form: MemberForm::Flag }
    }
}

/// The possible members of one form of an event. Lists and objects are omitted, because filters cannot name them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventShape {
    /// The members that the chain's reader defines.
    pub members: &'static [EventMember],
    /// The name prefix of further members, which contracts define; `None` if there are no others.
    pub others: Option<&'static str>,
}

impl EventShape {
    /// Creates a shape with exactly these members.
    pub const fn of(members: &'static [EventMember]) -> Self {
        EventShape { members, others: None }
    }

    /// Adds members whose names begin with `prefix`.
    #[must_use]
    pub const fn and_others(self, prefix: &'static str) -> Self {
        EventShape { members: self.members, others: Some(prefix) }
    }

    /// Returns the form of the member with this name, if it can exist.
    pub fn form(&self, name: &str) -> Option<MemberForm> {
        match self.members.iter().find(|member| member.name == name) {
            Some(member) => Some(member.form),
            None => self.others.filter(|prefix| name.starts_with(prefix)).map(|_| MemberForm::Scalar),
        }
    }

    /// Reports whether an event's data has this shape. Lists and objects are ignored.
    pub fn fits(&self, data: &Map<String, Value>) -> bool {
        let mut scalars = data.iter().filter(|(_, value)| !value.is_array() && !value.is_object());
        scalars.all(|(name, value)| self.form(name).is_some_and(|form| form.has(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SHAPE: EventShape = EventShape::of(&[
        EventMember::text("a"),
        EventMember::amount("value"),
        EventMember { name: "change", form: MemberForm::SignedAmount },
        EventMember::one_of("kind", &["x", "y"]),
        EventMember::number("index"),
        EventMember::flag("success"),
        EventMember { name: "coinbase", form: MemberForm::Only(true) },
    ]);

    fn fits(shape: EventShape, data: &Value) -> bool {
        shape.fits(data.as_object().unwrap())
    }

    // Shows (Webhooks).
    #[test]
    fn a_value_is_of_the_form_of_its_member_or_no_event_has_it() {
        for (name, good, bad) in [
            ("a", vec![json!(""), json!("5")], vec![json!(5), json!(true), json!(null)]),
            (
                "value",
                vec![json!("0"), json!("15"), json!("9".repeat(77)), json!(MAX_AMOUNT)],
                vec![json!(15), json!(""), json!("-1"), json!("015"), json!("1.5"), json!("9".repeat(78))],
            ),
            (
                "change",
                vec![json!("0"), json!("-15"), json!("15")],
                vec![json!("-"), json!("-0"), json!("--1"), json!(-15)],
            ),
            ("kind", vec![json!("x"), json!("y")], vec![json!("z"), json!("X"), json!(1)]),
            ("index", vec![json!(0), json!(u64::MAX)], vec![json!(-1), json!(1.0), json!("1")]),
            ("success", vec![json!(true), json!(false)], vec![json!("true"), json!(1)]),
            ("coinbase", vec![json!(true)], vec![json!(false)]),
        ] {
            for value in good {
                assert!(fits(SHAPE, &json!({name: value})), "{name}: {value}");
            }
            for value in bad {
                assert!(!fits(SHAPE, &json!({name: value})), "{name}: {value}");
            }
        }
    }

    #[test]
    fn members_that_a_shape_does_not_name_are_no_part_of_it_unless_others_may_come() {
        assert!(fits(SHAPE, &json!({})) && fits(SHAPE, &json!({"topics": ["a"], "a": "b"})));
        assert!(!fits(SHAPE, &json!({"b": "b"})));
        let open = SHAPE.and_others("data_");
        assert!(fits(open, &json!({"data_amount": 5, "data_": "x"})));
        assert!(!fits(open, &json!({"data": "x"})) && !fits(open, &json!({"value": 5})));
    }
}
