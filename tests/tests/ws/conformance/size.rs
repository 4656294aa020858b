//! Sections 9 (limits and performance) and 10 (messages that a client fragments by itself).

use super::run::{Case, Pieces, Suite};
use crate::stream::{BINARY, CONTINUATION, FIN, Seen, TEXT, frame};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn opcode(section: usize) -> u8 {
    if section % 2 == 1 { TEXT } else { BINARY }
}

fn seen(opcode: u8, payload: Vec<u8>) -> Seen {
    if opcode == TEXT { Seen::Text(payload) } else { Seen::Binary(payload) }
}

fn fragments(opcode: u8, payload: &[u8], size: usize) -> Vec<Vec<u8>> {
    let count = payload.len().div_ceil(size);
    let parts = payload.chunks(size).enumerate();
    let first = |n: usize| {
        let opcode = if n == 0 { opcode } else { CONTINUATION };
        if n + 1 == count { FIN | opcode } else { opcode }
    };
    parts.map(|(n, part)| frame(first(n), part)).collect()
}

// Shows (Streams).
#[tokio::test]
async fn messages_up_to_the_limit_come_back_in_one_frame() {
    let suite = Suite::start().await;
    for section in [1, 2] {
        let opcode = opcode(section);
        for (n, size) in (1..).zip([64 * KIB, 256 * KIB, MIB, 4 * MIB, 8 * MIB, 16 * MIB]) {
            let payload = vec![b'*'; size];
            let case = Case::new(format!("9.{section}.{n}"), vec![frame(FIN | opcode, &payload)]);
            suite.run(vec![case.gets([seen(opcode, payload)])]).await;
        }
    }
}

// Shows (Streams).
#[tokio::test]
async fn messages_in_many_fragments_come_back() {
    let suite = Suite::start().await;
    let sizes = [64, 256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB];
    for section in [3, 4] {
        let opcode = opcode(section);
        for (n, size) in (1..).zip(sizes) {
            let payload = vec![b'*'; 4 * MIB];
            let case = Case::new(format!("9.{section}.{n}"), fragments(opcode, &payload, size));
            suite.run(vec![case.gets([seen(opcode, payload)])]).await;
        }
    }
}

#[tokio::test]
async fn messages_in_small_pieces_come_back() {
    let suite = Suite::start().await;
    for section in [5, 6] {
        let opcode = opcode(section);
        for (n, size) in (1..).zip([64, 128, 256, 512, KIB, 2 * KIB]) {
            let payload = vec![b'*'; MIB];
            let case = Case::new(format!("9.{section}.{n}"), vec![frame(FIN | opcode, &payload)]);
            suite.run(vec![case.by(Pieces::Octets(size)).gets([seen(opcode, payload)])]).await;
        }
    }
}

#[tokio::test]
async fn a_thousand_messages_come_back_in_their_order() {
    let suite = Suite::start().await;
    for section in [7, 8] {
        let opcode = opcode(section);
        for (n, size) in (1..).zip([0, 16, 64, 256, KIB, 4 * KIB]) {
            let payloads = (0..1_000_u32).map(|number| {
                let mut payload = format!("{number:04}").into_bytes();
                payload.resize(size, b'*');
                payload
            });
            let payloads: Vec<_> = payloads.collect();
            let frames = payloads.iter().map(|payload| frame(FIN | opcode, payload)).collect();
            let case = Case::new(format!("9.{section}.{n}"), frames).by(Pieces::Frames);
            suite.run(vec![case.gets(payloads.into_iter().map(|payload| seen(opcode, payload)))]).await;
        }
    }
}

#[tokio::test]
async fn a_message_that_a_client_fragments_by_itself_comes_back() {
    let suite = Suite::start().await;
    let payload = vec![b'*'; 65_536];
    let case = Case::new("10.1.1", fragments(TEXT, &payload, 1_300)).by(Pieces::Frames);
    suite.run(vec![case.gets([Seen::Text(payload)])]).await;
}
