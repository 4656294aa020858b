//! Sections 1 (framing), 3 (reserved bits), 4 (opcodes), 5 (fragmentation).

use super::run::{Case, PROTOCOL, Pieces, Suite};
use crate::stream::{BINARY, CLOSE, CONTINUATION, FIN, PING, PONG, Seen, TEXT, frame};

const HELLO: &[u8] = b"Hello, world!";

fn text() -> Vec<u8> {
    frame(FIN | TEXT, HELLO)
}

fn ping() -> Vec<u8> {
    frame(FIN | PING, b"")
}

fn echo() -> Seen {
    Seen::Text(HELLO.to_vec())
}

// Shows (Streams): Frames follow RFC 6455: the Autobahn cases 1 to 7, 9 and 10 pass.
#[tokio::test]
async fn messages_of_every_form_of_length_come_back() {
    let suite = Suite::start().await;
    let sizes = [0, 125, 126, 127, 128, 65_535, 65_536, 65_536];
    let mut cases = Vec::new();
    for (section, opcode) in [(1, TEXT), (2, BINARY)] {
        for (n, size) in (1..).zip(sizes) {
            let payload = vec![if opcode == TEXT { b'*' } else { 0xfe }; size];
            let seen =
                if opcode == TEXT { Seen::Text(payload.clone()) } else { Seen::Binary(payload.clone()) };
            let pieces = if n == 8 { Pieces::Octets(997) } else { Pieces::Whole };
            cases.push(
                Case::new(format!("1.{section}.{n}"), vec![frame(FIN | opcode, &payload)])
                    .by(pieces)
                    .gets([seen]),
            );
        }
    }
    suite.run(cases).await;
}

// Shows (Streams).
#[tokio::test]
async fn reserved_bits_fail_the_connection() {
    let suite = Suite::start().await;
    let rsv = |bits: u8, opcode: u8, payload: &[u8]| frame(FIN | bits << 4 | opcode, payload);
    let case = |n: u8, frames| Case::new(format!("3.{n}"), frames).ends(PROTOCOL);
    suite
        .run(vec![
            case(1, vec![rsv(1, TEXT, HELLO)]),
            case(2, vec![text(), rsv(2, TEXT, HELLO), ping()]).gets([echo()]),
            case(3, vec![text(), rsv(3, TEXT, HELLO), ping()]).by(Pieces::Frames).gets([echo()]),
            case(4, vec![text(), rsv(4, TEXT, HELLO), ping()]).by(Pieces::Octets(1)).gets([echo()]),
            case(5, vec![rsv(5, BINARY, &[0xff; 8])]),
            case(6, vec![rsv(6, PING, HELLO)]),
            case(7, vec![rsv(7, CLOSE, b"")]),
        ])
        .await;
}

// Shows (Streams).
#[tokio::test]
async fn reserved_opcodes_fail_the_connection() {
    let suite = Suite::start().await;
    let mut cases = Vec::new();
    for (section, first) in [(1, 3), (2, 11)] {
        for n in 1..=5_u8 {
            let payload = if matches!(n, 1 | 3) { b"" } else { HELLO };
            let reserved = frame(FIN | (first + n - 1), payload);
            let case = Case::new(format!("4.{section}.{n}"), vec![reserved.clone()]);
            let case = match n {
                1 | 2 => case,
                3 | 4 => Case { frames: vec![text(), reserved, ping()], ..case }.gets([echo()]),
                _ => Case { frames: vec![text(), reserved, ping()], ..case }
                    .by(Pieces::Octets(1))
                    .gets([echo()]),
            };
            cases.push(case.ends(PROTOCOL));
        }
    }
    suite.run(cases).await;
}

// Shows (Streams).
#[tokio::test]
async fn fragments_become_the_message_that_they_are_parts_of() {
    let suite = Suite::start().await;
    let case = |n: u8, frames: Vec<Vec<u8>>| Case::new(format!("5.{n}"), frames);
    let begin = |part: &[u8]| frame(TEXT, part);
    let more = |part: &[u8]| frame(CONTINUATION, part);
    let last = |part: &[u8]| frame(FIN | CONTINUATION, part);
    let whole = || Seen::Text(b"fragment1fragment2".to_vec());
    let two = || vec![begin(b"fragment1"), last(b"fragment2")];
    let with_ping = || vec![begin(b"fragment1"), frame(FIN | PING, b"ping"), last(b"fragment2")];
    let pong = || Seen::Pong(b"ping".to_vec());
    let all = [Pieces::Whole, Pieces::Frames, Pieces::Octets(1)];
    let mut cases = vec![
        case(1, vec![frame(PING, b"fragment1"), last(b"fragment2")]).ends(PROTOCOL),
        case(2, vec![frame(PONG, b"fragment1"), last(b"fragment2")]).ends(PROTOCOL),
    ];
    for (n, pieces) in (0_u8..).zip(all) {
        cases.push(case(3 + n, two()).by(pieces).gets([whole()]));
        cases.push(case(6 + n, with_ping()).by(pieces).gets([pong(), whole()]));
        // A continuation without a first fragment.
        cases.push(case(9 + n, vec![last(b"non-continuation payload"), text()]).by(pieces).ends(PROTOCOL));
        cases.push(case(12 + n, vec![more(b"non-continuation payload"), text()]).by(pieces).ends(PROTOCOL));
    }
    let five = |with_pings: bool| {
        let mut frames = vec![begin(b"fragment1"), more(b"fragment2")];
        frames.extend(with_pings.then(|| frame(FIN | PING, b"pongme 1!")));
        frames.extend([more(b"fragment3"), more(b"fragment4")]);
        frames.extend(with_pings.then(|| frame(FIN | PING, b"pongme 2!")));
        frames.push(last(b"fragment5"));
        frames
    };
    let of_five = || {
        let pongs = [b"pongme 1!", b"pongme 2!"].map(|payload| Seen::Pong(payload.to_vec()));
        pongs.into_iter().chain([Seen::Text(b"fragment1fragment2fragment3fragment4fragment5".to_vec())])
    };
    cases.extend([
        case(15, [two(), vec![more(b"fragment3"), frame(FIN | TEXT, b"fragment4")]].concat())
            .gets([whole()])
            .ends(PROTOCOL),
        case(16, [true; 2].map(|_| [more(b"fragment1"), frame(FIN | TEXT, b"fragment2")]).concat())
            .ends(PROTOCOL),
        case(17, [true; 2].map(|_| [last(b"fragment1"), frame(FIN | TEXT, b"fragment2")]).concat())
            .ends(PROTOCOL),
        case(18, vec![begin(b"fragment1"), frame(FIN | TEXT, b"fragment2")]).ends(PROTOCOL),
        case(19, five(true)).by(Pieces::Frames).gets(of_five()),
        case(20, five(true)).by(Pieces::Octets(1)).gets(of_five()),
    ]);
    suite.run(cases).await;
}
