//! Journals: no bytes cause a panic, and records that were read are the same after they are written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcgate_core::journal::{Event, EventLine, SegmentHeader, Party, Reader, Writer};

/// A set as it was read. Indices may differ between readers, so words replace them.
#[derive(PartialEq, Debug)]
struct Said {
    event: Event,
    party: Party,
    chain: String,
    lines: Vec<(Vec<u8>, EventLine)>,
}

fn said(reader: &Reader, event: &Event) -> Said {
    let line = |line: &EventLine| {
        let method = reader.method(line.method).expect("a line's method is known");
        (method.to_vec(), EventLine { method: 0, ..*line })
    };
    Said {
        event: Event { party: 0, chain: 0, ..*event },
        party: *reader.party(event.party).expect("an event's caller is known"),
        chain: reader.chain(event.chain).expect("an event's chain is known").into(),
        lines: reader.lines().iter().map(line).collect(),
    }
}

fuzz_target!(|input: (&[u8], Vec<&[u8]>)| {
    let (raw, payloads) = input;
    if let Ok(head) = SegmentHeader::read(raw) {
        assert_eq!(SegmentHeader::read(&head.to_bytes()), Ok(head));
    }
    let _ = Reader::new().frame(raw);

    // Random bytes never have a valid checksum, so each payload gets the one that it needs.
    let mut reader = Reader::new();
    let mut writer = Writer::new();
    let mut reported = Vec::new();
    let mut again = Vec::new();
    for payload in payloads {
        let mut frame = Vec::from((payload.len() as u32).to_le_bytes());
        frame.extend(crc32fast::hash(payload).to_le_bytes());
        frame.extend(payload);
        if let Ok(Some((length, event))) = reader.frame(&frame) {
            assert_eq!(length, frame.len());
            reported.push(said(&reader, &event));
            assert!(writer.copy(&reader, &event, &mut again));
        } else {
            assert!(reader.lines().is_empty());
        }
    }

    let mut reader = Reader::new();
    let mut at = 0;
    let mut retold = Vec::new();
    while let Ok(Some((length, event))) = reader.frame(&again[at..]) {
        retold.push(said(&reader, &event));
        at += length;
    }
    assert_eq!((retold, at), (reported, again.len()));
});
