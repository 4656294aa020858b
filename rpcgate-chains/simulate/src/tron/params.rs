//! The parameters of a call: members of a JSON body, or of the query.

use super::tx::{address_field, hex_field, parse_error};
use serde_json::{Map, Value};

/// The members of a request.
#[derive(Debug)]
pub(super) struct Params {
    pub(super) whole: Value,
    /// `true` if the client writes and expects addresses in Base58.
    pub(super) visible: bool,
}

impl Params {
    /// Members of a query, all of them text.
    pub(super) fn of_query(query: &str) -> Self {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let members: Map<_, _> =
            pairs.map(|(name, value)| (name.to_owned(), Value::String(value.to_owned()))).collect();
        Params::new(members)
    }

    /// Members of a body; none for an empty one.
    pub(super) fn of_body(body: &[u8]) -> Result<Self, String> {
        if body.trim_ascii().is_empty() {
            return Ok(Params::new(Map::new()));
        }
        match serde_json::from_slice(body) {
            Ok(Value::Object(members)) => Ok(Params::new(members)),
            _ => {
                Err("class com.alibaba.fastjson.JSONException : syntax error, expect {, actual error, pos 0"
                    .into())
            }
        }
    }

    /// Members of a message. Addresses are bytes there, which its JSON shows in hex.
    pub(super) fn of_message(whole: Value) -> Self {
        Params { whole, visible: false }
    }

    fn new(members: Map<String, Value>) -> Self {
        let whole = Value::Object(members);
        let visible = is_set(&whole["visible"]);
        Params { whole, visible }
    }

    /// Reads a number; 0 if it is absent.
    pub(super) fn number(&self, name: &str) -> Result<i64, String> {
        let value = &self.whole[name];
        let wrong = || parse_error(&format!("Couldn't parse integer: For input string: {value}"));
        match value {
            Value::Null => Ok(0),
            Value::Number(number) => number.as_i64().ok_or_else(wrong),
            Value::String(text) => text.parse().map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }

    /// Reads a flag; false if it is absent.
    pub(super) fn switch(&self, name: &str) -> bool {
        is_set(&self.whole[name])
    }

    /// Returns a text; empty if it is absent.
    pub(super) fn text(&self, name: &str) -> &str {
        self.whole[name].as_str().unwrap_or_default()
    }

    /// Reads bytes in hex; empty if they are absent.
    pub(super) fn bytes(&self, name: &str) -> Result<Vec<u8>, String> {
        hex_field(&self.whole[name])
    }

    /// Reads a hash; `None` if it does not have 32 bytes, so that no look-up finds anything.
    pub(super) fn hash(&self, name: &str) -> Result<Option<[u8; 32]>, String> {
        Ok(self.bytes(name)?.try_into().ok())
    }

    /// Reads the bytes of an address.
    pub(super) fn address(&self, name: &str) -> Result<Vec<u8>, String> {
        address_field(&self.whole[name], self.visible)
    }
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Bool(is_set) => *is_set,
        Value::String(text) => text.eq_ignore_ascii_case("true"),
        _ => false,
    }
}
