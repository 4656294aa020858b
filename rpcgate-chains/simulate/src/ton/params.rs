//! The parameters of a call: members of a JSON body, or of the query.

use super::Failure;
use super::address::Address;
use crate::target::decoded;
use serde_json::{Map, Value};

/// The members of a request.
#[derive(Debug)]
pub(super) struct Params {
    members: Map<String, Value>,
    /// `true` if they come from a URL or a plain body instead of JSON-RPC. The error texts differ.
    rest: bool,
}

impl Params {
    pub(super) fn new(members: Map<String, Value>, rest: bool) -> Self {
        Params { members, rest }
    }

    /// Members of a query, all of them text.
    pub(super) fn of_query(query: &str) -> Self {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let members = pairs.map(|(name, value)| (decoded(name, true), Value::String(decoded(value, true))));
        Params::new(members.collect(), true)
    }

    /// Members of a JSON body.
    pub(super) fn of_body(body: &[u8]) -> Result<Self, Failure> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(members)) => Ok(Params::new(members, true)),
            Ok(_) => Err(Failure::new(
                422,
                "Validation error: body\n  value is not a valid dict (type=type_error.dict)",
            )),
            Err(_) => Err(Failure::new(
                422,
                "Validation error: body\n  Expecting value (type=value_error.jsondecode)",
            )),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    /// Reads a required text.
    pub(super) fn text(&self, name: &str) -> Result<&str, Failure> {
        match self.get(name) {
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(self.wrong(name, "str type expected (type=type_error.str)")),
            None => Err(self.missing(name)),
        }
    }

    /// Reads an optional integer.
    pub(super) fn maybe_number(&self, name: &str) -> Result<Option<i64>, Failure> {
        let wrong = || self.wrong(name, "value is not a valid integer (type=type_error.integer)");
        match self.get(name) {
            None => Ok(None),
            Some(Value::Number(number)) => number.as_i64().map(Some).ok_or_else(wrong),
            Some(Value::String(text)) => text.parse().map(Some).map_err(|_| wrong()),
            Some(_) => Err(wrong()),
        }
    }

    /// Reads a required integer.
    pub(super) fn number(&self, name: &str) -> Result<i64, Failure> {
        self.maybe_number(name)?.ok_or_else(|| self.missing(name))
    }

    /// Reads a required address.
    pub(super) fn address(&self) -> Result<Address, Failure> {
        Address::read(self.text("address")?).ok_or_else(|| Failure::new(416, "Incorrect address"))
    }

    pub(super) fn wrong(&self, name: &str, what: &str) -> Failure {
        if self.rest {
            Failure::new(422, format!("query -> {name}\n  {what}"))
        } else {
            Failure::new(422, format!("Can't parse integer in parameter {name}"))
        }
    }

    fn missing(&self, name: &str) -> Failure {
        if self.rest {
            self.wrong(name, "field required (type=value_error.missing)")
        } else {
            Failure::new(422, "Non-optional argument expected")
        }
    }
}
