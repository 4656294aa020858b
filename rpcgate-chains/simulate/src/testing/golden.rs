//! Comparison of answers with those of real nodes.

use crate::{Simulated, SimulatedRequest};
use rpcgate_core::clock::Time;
use serde_json::{Value, json};

/// The time at which tests start.
pub(crate) const NOW: Time = Time::from_secs(1_800_000_000);

/// Posts a body. Returns the status and the body of the answer.
pub(crate) fn post(node: &mut dyn Simulated, body: &str, now: Time) -> (u16, String) {
    let request = SimulatedRequest { method: &http::Method::POST, path: "/", body: body.as_bytes() };
    let reply = node.handle(&request, now);
    assert_eq!(reply.content_type, "application/json");
    (reply.status, String::from_utf8(reply.body).expect("UTF-8"))
}

#[expect(clippy::needless_pass_by_value, reason = "callers write their parameters in place")]
pub(crate) fn call(node: &mut dyn Simulated, method: &str, params: Value, now: Time) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    serde_json::from_str(&post(node, &body, now).1).expect("JSON")
}

#[track_caller]
pub(crate) fn result(node: &mut dyn Simulated, method: &str, params: Value, now: Time) -> Value {
    let answer = call(node, method, params, now);
    assert!(answer.get("error").is_none_or(Value::is_null), "{method}: {answer}");
    answer["result"].clone()
}

/// Calls a method that fails. Returns code and message.
#[track_caller]
pub(crate) fn refusal(node: &mut dyn Simulated, method: &str, params: Value, now: Time) -> (i64, String) {
    let answer = call(node, method, params, now);
    let error = &answer["error"];
    let code = error["code"].as_i64().unwrap_or_else(|| panic!("{method} did not refuse: {answer}"));
    (code, error["message"].as_str().expect("a message").to_owned())
}

/// Returns the answer of a real node to the recorded request `name`.
pub(crate) fn recorded(fixture: &str, name: &str) -> Value {
    let rows: Vec<Value> = serde_json::from_str(fixture).expect("a fixture");
    let row =
        rows.into_iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name} is not recorded"));
    row["response"]["result"].clone()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Compares member names and types recursively. Members named in `spare` may exist on one side only. Each item of an
/// array must have the shape of one of the recorded items.
pub(crate) fn same_shape(real: &Value, ours: &Value, spare: &[&str]) -> Result<(), String> {
    match (real, ours) {
        (Value::Object(real), Value::Object(ours)) => {
            let names = |side: &serde_json::Map<String, Value>, other: &serde_json::Map<String, Value>| {
                let only =
                    side.keys().filter(|name| !other.contains_key(*name) && !spare.contains(&name.as_str()));
                only.cloned().collect::<Vec<_>>()
            };
            let missing = names(real, ours);
            let extra = names(ours, real);
            if !missing.is_empty() || !extra.is_empty() {
                return Err(format!(": missing {missing:?}, extra {extra:?}"));
            }
            for (name, value) in ours {
                if let Some(real) = real.get(name) {
                    same_shape(real, value, spare).map_err(|why| format!(".{name}{why}"))?;
                }
            }
            Ok(())
        }
        (Value::Array(real), Value::Array(ours)) if !real.is_empty() => {
            for (index, item) in ours.iter().enumerate() {
                let tries: Vec<_> = real.iter().map(|real| same_shape(real, item, spare)).collect();
                if tries.iter().all(Result::is_err) {
                    let why = tries.into_iter().find_map(Result::err).unwrap_or_default();
                    return Err(format!("[{index}]{why}"));
                }
            }
            Ok(())
        }
        _ if kind(real) == kind(ours) => Ok(()),
        _ => Err(format!(": {} where a real node has {}", kind(ours), kind(real))),
    }
}

#[track_caller]
pub(crate) fn assert_shape(name: &str, real: &Value, ours: &Value, spare: &[&str]) {
    if let Err(why) = same_shape(real, ours, spare) {
        panic!("{name}{why}\n ours: {ours}\n real: {real}");
    }
}

#[test]
fn shapes_differ_by_names_and_types_only() {
    let real = json!({ "a": 1, "b": [{ "c": "x" }, { "d": true }] });
    assert!(same_shape(&real, &json!({ "a": 7, "b": [{ "d": false }] }), &[]).is_ok());
    for wrong in
        [json!({ "a": 7 }), json!({ "a": "7", "b": [] }), json!({ "a": 1, "b": [{ "c": 1 }] }), json!(null)]
    {
        assert!(same_shape(&real, &wrong, &[]).is_err(), "{wrong}");
    }
    assert!(same_shape(&real, &json!({ "a": 7 }), &["b"]).is_ok());
}
