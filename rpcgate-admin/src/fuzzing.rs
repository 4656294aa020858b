//! Readers of bytes from outside that are private to this crate, for the fuzz targets in `tests/fuzz`. Built only with
//! `--cfg fuzzing`, which cargo-fuzz sets.

use crate::management::{page, strict_json};
use http::HeaderMap;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The members of a body of the API.
///
/// # Errors
/// What is wrong, for people.
pub fn members_of_body(body: &[u8]) -> Result<Map<String, Value>, String> {
    strict_json::of_object(body)
}

/// The parameters of a query of the API; of several with one name, the last.
///
/// # Errors
/// What is wrong, for people.
pub fn parameters_of_query(query: &str) -> Result<BTreeMap<String, String>, String> {
    strict_json::of_query(query)
}

/// The value of the cookie `name` that a browser sends to the pages.
pub fn cookie_value<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    page::cookie_value(headers, name)
}
