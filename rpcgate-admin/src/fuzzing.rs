//! Parsers of external input that are private to this crate, for the fuzz targets in `tests/fuzz`. Built only with
//! `--cfg fuzzing`, which cargo-fuzz sets.

use crate::management::{page, strict_json};
use http::HeaderMap;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Parses the members of an API request's body.
///
/// # Errors
/// The error for the user.
pub fn members_of_body(body: &[u8]) -> Result<Map<String, Value>, String> {
    strict_json::of_object(body)
}

/// Parses the parameters of an API request's query. Of several with one name, the last counts.
///
/// # Errors
/// The error for the user.
pub fn parameters_of_query(query: &str) -> Result<BTreeMap<String, String>, String> {
    strict_json::of_query(query)
}

/// Returns the value of the cookie `name` that a browser sends to the pages.
pub fn cookie_value<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    page::cookie_value(headers, name)
}
