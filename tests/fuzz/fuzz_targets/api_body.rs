//! A body and a query of the management API: it accepts exactly what JSON and forms define, without a NUL, and each
//! refusal has a reason.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcgate_admin::fuzzing::{members_of_body, parameters_of_query};
use serde_json::Value;

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
    match members_of_body(body) {
        Ok(members) => {
            let members = Value::Object(members);
            assert!(!holds_nul(&members));
            assert_eq!(parsed.expect("only JSON is accepted"), members);
        }
        Err(why) => assert!(!why.is_empty() && !why.contains('\0')),
    }
    match parameters_of_query(query) {
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
