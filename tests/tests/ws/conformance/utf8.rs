//! Section 6 (texts are UTF-8). The payloads of 6.5 to 6.23 are those of Markus Kuhn's stress test for decoders.

use super::run::{Case, NOT_UTF8, Pieces, Suite};
use crate::stream::{CONTINUATION, FIN, Seen, TEXT, frame};

const KOSME: &[u8] = "\u{3ba}\u{1f79}\u{3c3}\u{3bc}\u{3b5}".as_bytes();

fn text(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    let one = |(n, part): (usize, &&[u8])| {
        let opcode = if n == 0 { TEXT } else { CONTINUATION };
        frame(if n + 1 == parts.len() { FIN | opcode } else { opcode }, part)
    };
    parts.iter().enumerate().map(one).collect()
}

/// Returns a text in fragments of one octet each.
fn octets(payload: &[u8]) -> Vec<Vec<u8>> {
    text(&payload.chunks(1).collect::<Vec<_>>())
}

fn echo(payload: &[u8]) -> [Seen; 1] {
    [Seen::Text(payload.to_vec())]
}

#[tokio::test]
async fn empty_texts_and_texts_that_are_utf8_come_back() {
    let suite = Suite::start().await;
    let text1 = "Hello-µ@ßöäüàá-UTF-8!!".as_bytes();
    suite
        .run(vec![
            Case::new("6.1.1", text(&[b""])).gets(echo(b"")),
            Case::new("6.1.2", text(&[b"", b"", b""])).gets(echo(b"")),
            Case::new("6.1.3", text(&[b"", b"middle frame payload", b""]))
                .gets(echo(b"middle frame payload")),
            Case::new("6.2.1", text(&[text1])).gets(echo(text1)),
            Case::new("6.2.2", text(&[&text1[..11], &text1[11..]])).gets(echo(text1)),
            Case::new("6.2.3", octets(text1)).gets(echo(text1)),
            Case::new("6.2.4", octets(KOSME)).gets(echo(KOSME)),
        ])
        .await;
}

#[tokio::test]
async fn texts_that_are_not_utf8_fail_the_connection_in_one_frame_or_in_many() {
    let suite = Suite::start().await;
    let surrogate = [KOSME, b"\xed\xa0\x80", b"edited"].concat();
    let beyond = b"\xf4\x90\x80\x80";
    let rest = b"edited";
    let whole = [KOSME, beyond, rest].concat();
    suite
        .run(vec![
            Case::new("6.3.1", text(&[&surrogate])).ends(NOT_UTF8),
            Case::new("6.3.2", octets(&surrogate)).ends(NOT_UTF8),
            Case::new("6.4.1", text(&[KOSME, beyond, rest])).by(Pieces::Frames).ends(NOT_UTF8),
            Case::new("6.4.2", text(&[&whole[..12], &whole[12..13], &whole[13..]]))
                .by(Pieces::Frames)
                .ends(NOT_UTF8),
            Case::new("6.4.3", text(&[&whole])).by(Pieces::Octets(7)).ends(NOT_UTF8),
            Case::new("6.4.4", text(&[&whole])).by(Pieces::Octets(1)).ends(NOT_UTF8),
        ])
        .await;
}

/// The number of a section, whether its payloads are UTF-8, and the payloads.
type Section = (u8, bool, Vec<Vec<u8>>);

fn bytes(payloads: &[&[u8]]) -> Vec<Vec<u8>> {
    payloads.iter().map(|payload| payload.to_vec()).collect()
}

/// Returns each lead octet of a range, followed by a space.
fn lonely(leads: std::ops::RangeInclusive<u8>) -> Vec<u8> {
    leads.flat_map(|lead| [lead, b' ']).collect()
}

fn sections() -> Vec<Section> {
    let missing: [&[u8]; 10] = [
        b"\xc0",
        b"\xe0\x80",
        b"\xf0\x80\x80",
        b"\xf8\x80\x80\x80",
        b"\xfc\x80\x80\x80\x80",
        b"\xdf",
        b"\xef\xbf",
        b"\xf7\xbf\xbf",
        b"\xfb\xbf\xbf\xbf",
        b"\xfd\xbf\xbf\xbf\xbf",
    ];
    // U+FFFE and U+FFFF, and their equivalents in every plane.
    let non_characters = (0..17_u32).flat_map(|plane| [plane << 16 | 0xfffe, plane << 16 | 0xffff]);
    let non_characters = non_characters.map(|point| char::from_u32(point).unwrap().to_string().into_bytes());
    let specials = 0xfff9..=0xffff_u32;
    let specials = specials.map(|point| char::from_u32(point).unwrap().to_string().into_bytes());
    vec![
        (
            5,
            true,
            bytes(&[KOSME, "Hello-µ@ßöäüàá-UTF-8!!".as_bytes(), b"\xf0\x9f\x98\x80", b"$", b"\xe2\x82\xac"]),
        ),
        (7, true, bytes(&[b"\x00", b"\xc2\x80", b"\xe0\xa0\x80", b"\xf0\x90\x80\x80"])),
        (8, false, bytes(&[b"\xf8\x88\x80\x80\x80", b"\xfc\x84\x80\x80\x80\x80"])),
        (9, true, bytes(&[b"\x7f", b"\xdf\xbf", b"\xef\xbf\xbf", b"\xf4\x8f\xbf\xbf"])),
        (10, false, bytes(&[b"\xf7\xbf\xbf\xbf", b"\xfb\xbf\xbf\xbf\xbf", b"\xfd\xbf\xbf\xbf\xbf\xbf"])),
        (11, true, bytes(&[b"\xed\x9f\xbf", b"\xee\x80\x80", b"\xef\xbf\xbd", b"\xf4\x8f\xbf\xbf"])),
        (11, false, bytes(&[b"\xf4\x90\x80\x80"])),
        (
            12,
            false,
            [
                (2..=7).map(|length| [0x80, 0xbf].into_iter().cycle().take(length).collect()).collect(),
                vec![vec![0x80], vec![0xbf], (0x80..=0xbf).collect::<Vec<u8>>()],
            ]
            .concat(),
        ),
        (
            13,
            false,
            vec![
                lonely(0xc0..=0xdf),
                lonely(0xe0..=0xef),
                lonely(0xf0..=0xf7),
                lonely(0xf8..=0xfb),
                lonely(0xfc..=0xfd),
            ],
        ),
        (14, false, bytes(&missing)),
        (15, false, vec![missing.concat()]),
        (16, false, bytes(&[b"\xfe", b"\xff", b"\xfe\xfe\xff\xff"])),
        (
            17,
            false,
            bytes(&[
                b"\xc0\xaf",
                b"\xe0\x80\xaf",
                b"\xf0\x80\x80\xaf",
                b"\xf8\x80\x80\x80\xaf",
                b"\xfc\x80\x80\x80\x80\xaf",
            ]),
        ),
        (
            18,
            false,
            bytes(&[
                b"\xc1\xbf",
                b"\xe0\x9f\xbf",
                b"\xf0\x8f\xbf\xbf",
                b"\xf8\x87\xbf\xbf\xbf",
                b"\xfc\x83\xbf\xbf\xbf\xbf",
            ]),
        ),
        (
            19,
            false,
            bytes(&[
                b"\xc0\x80",
                b"\xe0\x80\x80",
                b"\xf0\x80\x80\x80",
                b"\xf8\x80\x80\x80\x80",
                b"\xfc\x80\x80\x80\x80\x80",
            ]),
        ),
        (
            20,
            false,
            bytes(&[
                b"\xed\xa0\x80",
                b"\xed\xad\xbf",
                b"\xed\xae\x80",
                b"\xed\xaf\xbf",
                b"\xed\xb0\x80",
                b"\xed\xbe\x80",
                b"\xed\xbf\xbf",
            ]),
        ),
        (
            21,
            false,
            bytes(&[
                b"\xed\xa0\x80\xed\xb0\x80",
                b"\xed\xa0\x80\xed\xbf\xbf",
                b"\xed\xad\xbf\xed\xb0\x80",
                b"\xed\xad\xbf\xed\xbf\xbf",
                b"\xed\xae\x80\xed\xb0\x80",
                b"\xed\xae\x80\xed\xbf\xbf",
                b"\xed\xaf\xbf\xed\xb0\x80",
                b"\xed\xaf\xbf\xed\xbf\xbf",
            ]),
        ),
        (22, true, non_characters.collect()),
        (23, true, specials.collect()),
    ]
}

// Shows (Streams).
#[tokio::test]
async fn every_payload_of_the_stress_test_is_distinguished() {
    let suite = Suite::start().await;
    let mut cases = Vec::new();
    for (section, is_utf8, payloads) in sections() {
        for (n, payload) in (1..).zip(payloads) {
            let case = Case::new(format!("6.{section}.{n}"), text(&[&payload]));
            cases.push(if is_utf8 { case.gets(echo(&payload)) } else { case.ends(NOT_UTF8) });
        }
    }
    suite.run(cases).await;
}

#[tokio::test]
async fn a_text_that_ends_within_a_character_is_not_utf8() {
    let suite = Suite::start().await;
    let boundaries = [2, 5, 7, 9, 11];
    let mut cases = Vec::new();
    for length in 1..=KOSME.len() {
        let payload = &KOSME[..length];
        let case = Case::new(format!("6.6.{length}"), text(&[payload]));
        let is_whole = boundaries.contains(&length);
        cases.push(if is_whole { case.gets(echo(payload)) } else { case.ends(NOT_UTF8) });
    }
    suite.run(cases).await;
}
