//! A node's answer, whole, as a prefix and streamed: a prefix never contradicts the whole, and a stream accepts no other answer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcgate_core::envelope::{ReplyKind, ReplyNumber, ReplyStream, Replies, replies, reply_head, reply_number};
use rpcgate_core::json::DEEPEST;

fuzz_target!(|body: &[u8]| {
    let whole = replies(body, 512);
    for cut in [body.len() / 4, body.len() / 2, body.len()] {
        let head = reply_head(&body[..cut]);
        if let Ok(Replies::Single(reply)) = &whole {
            match head {
                ReplyKind::Result => assert!(reply.error.is_none() || reply.result.is_some()),
                ReplyKind::Error => assert!(reply.error.is_some()),
                ReplyKind::Bad => assert!(reply.error.is_none() && reply.result.is_none()),
                ReplyKind::Undecided => {}
            }
        }
        let bytes = bytes::Bytes::copy_from_slice(body);
        let mut stream = ReplyStream::new(7);
        let mut takes = |range| stream.read(&bytes.slice(range)).is_ok();
        let is_accepted = takes(0..cut) && takes(cut..body.len()) && stream.is_complete();
        if is_accepted && std::str::from_utf8(body).is_ok() && body.trim_ascii_start().starts_with(b"{") {
            let Ok(Replies::Single(reply)) = replies(body, DEEPEST) else { panic!("no whole reply") };
            assert!(reply_number(reply.id.map(|id| id.of(body)), 7) != ReplyNumber::Other);
        }
    }
});
