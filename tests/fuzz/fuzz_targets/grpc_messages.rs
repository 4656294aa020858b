//! A client's gRPC messages: nodes get the client's bytes unchanged, and none after a message that is too large,
//! however the bytes are split.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use rpcgate_layers::fuzzing::fed_messages;

const MOST: usize = 2_000;
const ROOM: usize = 4 << 20;

/// Returns the messages in a body, each with its flag; the number of their bytes, and whether one is too large.
fn messages(mut body: &[u8]) -> (Vec<(u8, &[u8])>, bool) {
    let mut found = Vec::new();
    while let [flag, a, b, c, d, rest @ ..] = body {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        if length > MOST {
            return (found, true);
        }
        let Some((content, after)) = rest.split_at_checked(length) else { break };
        found.push((*flag, content));
        body = after;
    }
    (found, false)
}

fuzz_target!(|input: &[u8]| {
    let [size, body @ ..] = input else { return };
    let pieces: Vec<_> = body.chunks(usize::from(*size).max(1)).map(Bytes::copy_from_slice).collect();
    let fed = fed_messages(pieces, MOST, ROOM);
    let (all, is_too_large) = messages(body);
    assert_eq!(fed.left, 0);
    match all.first() {
        Some((0, content)) => {
            // A piece with the first message may also hold one that is too large.
            if let Some(first) = &fed.first {
                assert_eq!(first, content);
            } else {
                assert!(is_too_large);
            }
        }
        _ => assert_eq!(fed.first, None),
    }
    if fed.first.is_some() {
        assert!(body.starts_with(&fed.passed));
        assert_eq!(fed.is_complete, !is_too_large);
        assert!(!fed.is_complete || fed.passed == body);
    }
    if let Some(again) = fed.again {
        assert!(all.len() <= 1);
        assert_eq!(again, body);
    }
});
