//! JSON as nodes write it: members in order, amounts with all their digits.

use std::borrow::Cow;
use std::fmt::Write;

/// A JSON value to be written. Numbers are stored as text, so that `0.00001000` keeps its zeros.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// A number, already written.
    Number(String),
    Text(Cow<'static, str>),
    Array(Vec<Json>),
    /// Any value, already written.
    Written(String),
    /// An object, members in order.
    Object(Vec<(Cow<'static, str>, Json)>),
}

impl Json {
    /// Appends the value to `out`, without spaces.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(written) | Json::Written(written) => out.push_str(written),
            Json::Text(text) => write_text(text, out),
            Json::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (index, (name, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_text(name, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Returns a value from a data file, without the spaces and lines between its parts.
    pub(crate) fn written(file: &str) -> Self {
        let mut is_text = false;
        let mut before = ' ';
        let is_part = |c: &char| {
            is_text ^= *c == '"' && before != '\\';
            before = *c;
            is_text || !c.is_ascii_whitespace()
        };
        Json::Written(file.chars().filter(is_part).collect())
    }

    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    /// Adds a member to an object; does nothing to any other value.
    pub(crate) fn put(&mut self, name: &'static str, value: impl Into<Json>) {
        if let Json::Object(members) = self {
            members.push((Cow::Borrowed(name), value.into()));
        }
    }

    /// Adds the members of an object to an object.
    pub(crate) fn extend(&mut self, other: Json) {
        if let (Json::Object(members), Json::Object(more)) = (self, other) {
            members.extend(more);
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|(known, _)| known == name).map(|(_, value)| value),
            _ => None,
        }
    }

    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<Json>) {
        if let Json::Object(members) = self {
            match members.iter_mut().find(|(known, _)| known == name) {
                Some((_, slot)) => *slot = value.into(),
                None => members.push((Cow::Borrowed(name), value.into())),
            }
        }
    }

    /// Returns a big-endian number as `0x` and hex, without leading zeros.
    pub(crate) fn quantity_of(bytes: &[u8]) -> Self {
        let digits = hex::encode(bytes);
        let digits = digits.trim_start_matches('0');
        Json::Text(format!("0x{}", if digits.is_empty() { "0" } else { digits }).into())
    }

    /// Returns a number with a fraction, in the shortest form that keeps its value.
    pub(crate) fn float(value: f64) -> Self {
        Json::Number(serde_json::Number::from_f64(value).map_or_else(|| "0".into(), |n| n.to_string()))
    }

    /// Returns an amount of 10^-8 units: `100_000_000` is `1.00000000`.
    pub(crate) fn amount(value: impl Into<u128>) -> Self {
        let value = value.into();
        Json::Number(format!("{}.{:08}", value / 100_000_000, value % 100_000_000))
    }

    /// Returns `0x` and the bytes in hex.
    pub(crate) fn data(bytes: &[u8]) -> Self {
        let mut text = String::with_capacity(2 + 2 * bytes.len());
        text.push_str("0x");
        text.push_str(&hex::encode(bytes));
        Json::Text(text.into())
    }

    /// Returns `0x` and the number in hex, without leading zeros.
    pub(crate) fn quantity(value: impl Into<u128>) -> Self {
        Json::Text(format!("{:#x}", value.into()).into())
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c < ' ' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Json::Bool(value)
    }
}

impl From<&'static str> for Json {
    fn from(value: &'static str) -> Self {
        Json::Text(Cow::Borrowed(value))
    }
}

impl From<String> for Json {
    fn from(value: String) -> Self {
        Json::Text(value.into())
    }
}

macro_rules! from_number {
    ($($kind:ty),*) => {$(
        impl From<$kind> for Json {
            fn from(value: $kind) -> Self {
                Json::Number(value.to_string())
            }
        }
    )*};
}
from_number!(u8, u32, u64, usize, i32, i64);

impl<T: Into<Json>> From<Vec<T>> for Json {
    fn from(items: Vec<T>) -> Self {
        Json::Array(items.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Json::Null, Into::into)
    }
}

/// Creates an object from its members: `object! { "height": 7u64, "hash": hash }`.
macro_rules! object {
    ($($name:literal : $value:expr),* $(,)?) => {
        $crate::json::Json::Object(vec![
            $((std::borrow::Cow::Borrowed($name), $crate::json::Json::from($value))),*
        ])
    };
}
pub(crate) use object;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_are_read_back() {
        let value = object! {
            "text": String::from("a\"b\\c\n\u{1}é"), "none": Json::Null, "list": vec![1u64, 2], "yes": true,
            "amount": Json::amount(1_000u64), "float": Json::float(0.5), "hex": Json::quantity(0u64),
        };
        let mut out = String::new();
        value.write(&mut out);
        assert!(out.contains(r#""amount":0.00001000,"float":0.5,"hex":"0x0""#), "{out}");
        let read: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(read["text"], "a\"b\\c\n\u{1}é");
        assert_eq!(read["list"][1], 2);
    }
}
