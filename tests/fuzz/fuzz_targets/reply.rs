//! A node's answer, whole and as a prefix: a prefix never contradicts the whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcgate_core::envelope::{ReplyKind, Replies, replies, reply_head};

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
    }
});
