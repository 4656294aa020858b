//! A body and a query of the management API: it accepts exactly what JSON and forms define, without a NUL, and each
//! refusal has a reason.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcgate_management::strict_json::{of_object, of_query};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(holds_nul),
        Value::Object(members) => members.values().any(holds_nul),
        _ => false,
    }
}

fuzz_target!(|input: (&[u8], &str)| {
    let (body, query) = input;
    let parsed = serde_json::from_slice::<Value>(body);
    match of_object::<Map<String, Value>>(body).map_err(|error| error.to_string()) {
        Ok(members) => {
            let members = Value::Object(members);
            assert!(!holds_nul(&members));
            assert_eq!(parsed.expect("only JSON is accepted"), members);
        }
        Err(why) => assert!(!why.is_empty() && !why.contains('\0')),
    }
    match of_query::<BTreeMap<String, String>>(query).map_err(|error| error.to_string()) {
        Ok(parameters) => {
            let all: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
            assert!(all.iter().all(|(_, text)| !text.contains('\0')));
            for (name, text) in &parameters {
                let last = all.iter().rev().find(|(other, _)| other == name);
                assert_eq!(last.map(|(_, text)| &**text), Some(&**text));
            }
        }
        Err(why) => assert!(!why.is_empty()),
    }
});
