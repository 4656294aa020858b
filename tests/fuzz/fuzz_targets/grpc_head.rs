//! The head of a gRPC call: a path has one form, and `grpc-timeout` is one to eight digits and a unit.
#![no_main]

use http::HeaderValue;
use libfuzzer_sys::fuzz_target;
use rpcgate_core::grpc::GrpcPath;
use rpcgate_layers::fuzzing::{grpc_timeout, grpc_timeout_text};
use std::time::Duration;

/// Reports whether a path has the required form: `^/[a-z][A-Za-z0-9_.]*\.[A-Z]\w*/[A-Z]\w*$`, with no empty label.
fn is_regular(path: &str) -> bool {
    let Some(path) = path.strip_prefix('/') else { return false };
    let [service, method] = path.split('/').collect::<Vec<_>>()[..] else { return false };
    let labels: Vec<_> = service.split('.').collect();
    let Some((name, package)) = labels.split_last() else { return false };
    let word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let upper = |text: &str| word(text) && text.as_bytes()[0].is_ascii_uppercase();
    let lower = package.first().is_some_and(|first| word(first) && first.as_bytes()[0].is_ascii_lowercase());
    upper(name) && upper(method) && lower && package.iter().all(|label| word(label))
}

fn time(text: &str) -> Option<u128> {
    let unit = match text.chars().last()? {
        'H' => 3_600_000_000_000,
        'M' => 60_000_000_000,
        'S' => 1_000_000_000,
        'm' => 1_000_000,
        'u' => 1_000,
        'n' => 1,
        _ => return None,
    };
    let digits = &text[..text.len() - 1];
    let is_number = !digits.is_empty() && digits.len() <= 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse::<u128>().ok()).flatten().map(|number| number * unit)
}

fuzz_target!(|input: (&str, &[u8], u64, u32)| {
    let (path, value, secs, nanos) = input;
    match GrpcPath::parse(path) {
        Some(parsed) => {
            assert!(is_regular(path) && path.len() <= 1024);
            assert_eq!(path, format!("/{}.{}/{}", parsed.package(), parsed.service(), parsed.method()));
            assert!(parsed.is_of(parsed.package()) && !parsed.is_of(""));
        }
        None => assert!(!is_regular(path) || path.len() > 1024),
    }
    if let Ok(value) = HeaderValue::from_bytes(value) {
        let text = std::str::from_utf8(value.as_bytes()).ok();
        assert_eq!(grpc_timeout(&value).map(|time| time.as_nanos()), text.and_then(time));
    }
    let left = Duration::from_secs(secs).saturating_add(Duration::from_nanos(nanos.into()));
    let written = grpc_timeout_text(left);
    let read = grpc_timeout(&written).expect("a time is written as one");
    // Rounded down to a unit. Eight digits of the next finer unit were not enough.
    assert!(read <= left && (left.as_nanos() - read.as_nanos() <= left.as_nanos() / 100_000 || secs > 99_999_999 * 60));
});
