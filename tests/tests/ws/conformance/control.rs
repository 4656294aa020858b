//! Sections 2 (pings and pongs) and 7 (closing).

use super::run::{Case, End, NOT_UTF8, PROTOCOL, Pieces, Suite};
use crate::stream::{CLOSE, CONTINUATION, FIN, PING, PONG, Seen, TEXT, close, frame};

fn ping(payload: &[u8]) -> Vec<u8> {
    frame(FIN | PING, payload)
}

fn pong(payload: &[u8]) -> Seen {
    Seen::Pong(payload.to_vec())
}

// Shows (Streams).
#[tokio::test]
async fn pings_are_answered_by_pongs_and_pongs_by_nothing() {
    let suite = Suite::start().await;
    let case = |n: u8, frames| Case::new(format!("2.{n}"), frames);
    let binary = [0, 0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0, 0xff];
    let longest = [0xfe; 125];
    let unsolicited = || frame(FIN | PONG, b"unsolicited pong payload");
    let ten = || (0..10).map(|n| ping(format!("payload-{n}").as_bytes())).collect::<Vec<_>>();
    let pongs = || (0..10).map(|n| pong(format!("payload-{n}").as_bytes()));
    suite
        .run(vec![
            case(1, vec![ping(b"")]).gets([pong(b"")]),
            case(2, vec![ping(b"Hello, world!")]).gets([pong(b"Hello, world!")]),
            case(3, vec![ping(&binary)]).gets([pong(&binary)]),
            case(4, vec![ping(&longest)]).gets([pong(&longest)]),
            case(5, vec![ping(&[0xfe; 126])]).ends(PROTOCOL),
            case(6, vec![ping(&longest)]).by(Pieces::Octets(1)).gets([pong(&longest)]),
            case(7, vec![frame(FIN | PONG, b"")]),
            case(8, vec![unsolicited()]),
            case(9, vec![unsolicited(), ping(b"ping payload")]).gets([pong(b"ping payload")]),
            case(10, ten()).gets(pongs()),
            case(11, ten()).by(Pieces::Octets(1)).gets(pongs()),
        ])
        .await;
}

// Shows (Streams).
#[tokio::test]
async fn nothing_after_a_close_frame_is_answered() {
    let suite = Suite::start().await;
    let case = |n: u8, frames| Case::new(format!("7.1.{n}"), frames).ends(End::Closed(Some(1000)));
    let text = || frame(FIN | TEXT, b"Hello World!");
    let bye = || close(1000, b"");
    let large = vec![b'*'; 256 << 10];
    let last = frame(FIN | CONTINUATION, b"fragment2");
    suite
        .run(vec![
            case(1, vec![text(), bye()]).gets([Seen::Text(b"Hello World!".to_vec())]),
            case(2, vec![bye(), bye()]),
            case(3, vec![bye(), ping(b"")]),
            case(4, vec![bye(), text()]),
            case(5, vec![frame(TEXT, b"fragment1"), bye(), last]),
            case(6, vec![frame(FIN | TEXT, &large), text(), bye(), ping(b"")])
                .gets([Seen::Text(large), Seen::Text(b"Hello World!".to_vec())]),
        ])
        .await;
}

#[tokio::test]
async fn the_payload_of_a_close_frame_is_checked() {
    let suite = Suite::start().await;
    let longest = [b'*'; 123];
    let mut not_utf8 = "\u{3ba}\u{1f79}\u{3c3}\u{3bc}\u{3b5}".as_bytes().to_vec();
    not_utf8.extend(b"\xed\xa0\x80edited");
    suite
        .run(vec![
            Case::new("7.3.1", vec![frame(FIN | CLOSE, b"")]).ends(End::Closed(None)),
            Case::new("7.3.2", vec![frame(FIN | CLOSE, b"a")]).ends(PROTOCOL),
            Case::new("7.3.3", vec![close(1000, b"")]).ends(End::Closed(Some(1000))),
            Case::new("7.3.4", vec![close(1000, b"Hello World!")]).ends(End::Closed(Some(1000))),
            Case::new("7.3.5", vec![close(1000, &longest)]).ends(End::Closed(Some(1000))),
            Case::new("7.3.6", vec![close(1000, &[b'*'; 124])]).ends(PROTOCOL),
            Case::new("7.5.1", vec![close(1000, &not_utf8)]).ends(NOT_UTF8),
        ])
        .await;
}

// Shows (Streams).
#[tokio::test]
async fn close_codes_that_may_be_sent_are_echoed_and_others_fail_the_connection() {
    let suite = Suite::start().await;
    let valid = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999];
    let invalid = [0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999];
    let mut cases = Vec::new();
    for (n, code) in (1..).zip(valid) {
        cases.push(Case::new(format!("7.7.{n}"), vec![close(code, b"")]).ends(End::Closed(Some(code))));
    }
    for (n, code) in (1..).zip(invalid) {
        cases.push(Case::new(format!("7.9.{n}"), vec![close(code, b"")]).ends(PROTOCOL));
    }
    for (n, code) in (1..).zip([5000, 65_535]) {
        cases.push(Case::new(format!("7.13.{n}"), vec![close(code, b"")]).ends(PROTOCOL));
    }
    suite.run(cases).await;
}
