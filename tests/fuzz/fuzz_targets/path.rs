//! A path below a chain's own: it has at most one canonical form, which is unambiguous.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcgate_core::rest::{Path, RestCall, query_without};

fuzz_target!(|text: &str| {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let Some(canonical) = Path::canonical(path) else { return };
    let seen = canonical.as_str();
    assert_eq!(Path::canonical(seen).as_ref(), Some(&canonical));
    assert!(seen.is_ascii() && !seen.contains([';', '\\']) && !seen.contains("//") && !seen.contains("%25"));
    assert!(canonical.segments().all(|segment| !matches!(segment, "" | "." | "..")));
    let left = query_without(query, &["apikey"]);
    assert!(!left.split('&').any(|pair| pair.split('=').next() == Some("apikey")));
    if !seen.is_empty() {
        let _ = RestCall::new(http::Method::GET, &canonical, &left, http::HeaderMap::new());
    }
});
