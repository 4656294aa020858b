//! A client's body: an accepted body is JSON, and a call written to a node is read back as the same call.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcgate_core::envelope::{Limits, ParsedBody, WireId, parse};

fuzz_target!(|body: &[u8]| {
    let Ok(parsed) = parse(body, &Limits::default()) else { return };
    let text = std::str::from_utf8(body).expect("only UTF-8 is accepted");
    serde_json::from_str::<&serde_json::value::RawValue>(text).expect("only JSON is accepted");
    let items = match parsed {
        ParsedBody::Single(item) => vec![item],
        ParsedBody::Batch(items) => items,
    };
    for call in items.into_iter().flatten() {
        let mut sent = Vec::new();
        call.write(body, WireId::Own, &mut sent);
        let Ok(ParsedBody::Single(Ok(again))) = parse(&sent, &Limits::default().with_depth(256)) else {
            panic!("a call is written as a call")
        };
        assert_eq!(call.method.text(body), again.method.text(&sent));
        assert_eq!(call.params.map(|p| p.of(body)), again.params.map(|p| p.of(&sent)));
        assert_eq!(call.id.map(|p| p.of(body)), again.id.map(|p| p.of(&sent)));
    }
});
