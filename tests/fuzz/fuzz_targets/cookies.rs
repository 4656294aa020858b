//! The cookies of a browser: the value of one is a part of a header, ends with it, and is never that of a different
//! name.
#![no_main]

use http::header::{COOKIE, HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use rpcgate_dashboard::cookie_value;

const NAME: &str = "rpcgate_session";

/// Returns the first cookie of the name, as browsers write them (RFC 6265, section 4.2.1).
fn expected(lines: &[HeaderValue]) -> Option<String> {
    for line in lines.iter().filter_map(|line| line.to_str().ok()) {
        for pair in line.split(';').map(str::trim) {
            if let Some((name, value)) = pair.split_once('=')
                && name == NAME
            {
                return Some(value.to_owned());
            }
        }
    }
    None
}

fuzz_target!(|lines: Vec<Vec<(bool, &[u8])>>| {
    let text = |pairs: &Vec<(bool, &[u8])>| {
        let pair = |(is_named, value): &(bool, &[u8])| {
            let name = if *is_named { "rpcgate_session=" } else { "" };
            [name.as_bytes(), value].concat()
        };
        pairs.iter().map(pair).collect::<Vec<_>>().join(&b"; "[..])
    };
    let lines: Vec<_> = lines.iter().take(64).filter_map(|pairs| HeaderValue::from_bytes(&text(pairs)).ok()).collect();
    let headers: HeaderMap = lines.iter().map(|line| (COOKIE, line.clone())).collect();
    let value = cookie_value(&headers, NAME);
    assert_eq!(value.map(str::to_owned), expected(&lines));
    assert!(value.is_none_or(|value| !value.contains(';')));
});
