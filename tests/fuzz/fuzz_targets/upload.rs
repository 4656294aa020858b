//! An uploaded file: its stored name never has a folder and fits into a header, and its type is one of the accepted
//! ones.
#![no_main]

use http::HeaderValue;
use libfuzzer_sys::fuzz_target;
use rpcgate_management::attachment::{disposition, file_name, media_type, sniff};

fuzz_target!(|input: (&str, &[u8])| {
    let (given, content) = input;
    let Some(kind) = sniff(content) else { return };
    assert!(!media_type(kind).contains("html"));
    let name = file_name(given, kind);
    assert!(!name.is_empty() && name.chars().count() <= 100 && !name.starts_with('.'));
    assert!(!name.contains(['/', '\\', '<', '>', '"', '\0', '\r', '\n']));
    assert_eq!(file_name(&name, kind), name, "a name that is given back stays");
    let value = disposition(&name);
    assert!(value.is_ascii() && HeaderValue::from_str(&value).is_ok());
    assert_eq!(value.matches('"').count(), 2);
});
