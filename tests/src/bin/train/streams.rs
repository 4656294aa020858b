//! WebSocket streams: a client and a node (RFC 6455), for frames of less than 64 KiB.

use crate::{Done, KEY, PATIENCE, answer_to, call, result, start};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

const TEXT: u8 = 0x81;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;

/// The number of calls after which a node sends a push message.
const PUSHES: usize = 8;
const PUSH: &str = r#"{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0x9","result":{"number":"0xf4240"}}}"#;

/// Opens a stream and sends the calls with these numbers on it, one after the other.
pub(crate) fn send(addr: SocketAddr, numbers: impl Iterator<Item = usize>) -> Done<()> {
    let talk = || -> io::Result<Done<()>> {
        let stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut stream = BufReader::new(stream);
        let handshake = format!(
            "GET /ws/eth HTTP/1.1\r\nhost: gateway\r\napikey: {KEY}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.get_mut().write_all(handshake.as_bytes())?;
        let head = head(&mut stream)?;
        if !head.starts_with("HTTP/1.1 101 ") {
            return Ok(Err(format!("no stream is opened: {}", start(&head))));
        }
        for number in numbers {
            let id = (1_000 + number).to_string();
            let method = "eth_getBalance";
            let text = call(&id, method, &format!("[\"0x{number:040x}\",\"latest\"]"));
            stream.get_mut().write_all(&frame(TEXT, text.as_bytes(), Some([1, 2, 3, 4])))?;
            let expected = result(&id, answer_to(method));
            loop {
                match read(&mut stream)? {
                    (TEXT, text) if text == expected.as_bytes() => break,
                    (TEXT, text) if text == PUSH.as_bytes() => {}
                    (PING, payload) => {
                        stream.get_mut().write_all(&frame(PONG, &payload, Some([0; 4])))?;
                    }
                    (_, other) => {
                        return Ok(Err(format!(
                            "{text}\n\nwas answered\n\n{}",
                            String::from_utf8_lossy(&other)
                        )));
                    }
                }
            }
        }
        stream.get_mut().write_all(&frame(CLOSE, &1_000_u16.to_be_bytes(), Some([0; 4])))?;
        while read(&mut stream)?.0 != CLOSE {}
        Ok(Ok(()))
    };
    talk().map_err(|error| format!("a stream broke: {error}"))?
}

/// Answers the calls on a stream whose handshake has been read up to its first line.
pub(crate) fn serve(stream: &mut BufReader<TcpStream>, key: &str) -> io::Result<()> {
    let accept = base64(&sha1(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11").as_bytes()));
    let handshake = format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {accept}\r\n\r\n"
    );
    stream.get_mut().write_all(handshake.as_bytes())?;
    for number in 0.. {
        let (opcode, payload) = read(stream)?;
        let answer = match opcode {
            TEXT => crate::Node::answer(&String::from_utf8_lossy(&payload), ""),
            CLOSE => return stream.get_mut().write_all(&frame(CLOSE, &payload, None)),
            PING => {
                stream.get_mut().write_all(&frame(PONG, &payload, None))?;
                continue;
            }
            _ => continue,
        };
        if number % PUSHES == 0 {
            stream.get_mut().write_all(&frame(TEXT, PUSH.as_bytes(), None))?;
        }
        stream.get_mut().write_all(&frame(TEXT, answer.as_bytes(), None))?;
    }
    Ok(())
}

fn head(stream: &mut impl BufRead) -> io::Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head)
}

/// Returns a whole frame, masked if there is a mask.
fn frame(first: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
    let flag = if mask.is_some() { 0x80 } else { 0 };
    let mut frame = vec![first];
    match u8::try_from(payload.len()) {
        Ok(length @ 0..126) => frame.push(flag | length),
        _ => {
            frame.push(flag | 126);
            frame.extend((payload.len() as u16).to_be_bytes());
        }
    }
    frame.extend(mask.iter().flatten());
    let mask = mask.unwrap_or_default();
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

fn read(stream: &mut impl Read) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    stream.read_exact(&mut head)?;
    let [first, second] = head;
    let mut length = usize::from(second & 0x7f);
    if length == 126 {
        stream.read_exact(&mut head)?;
        length = u16::from_be_bytes(head).into();
    }
    let mut mask = [0; 4];
    if second & 0x80 != 0 {
        stream.read_exact(&mut mask)?;
    }
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload)?;
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Ok((first, payload))
}

/// Computes the hash for the answer to a handshake (FIPS 180-4).
fn sha1(text: &[u8]) -> [u8; 20] {
    let mut padded = [text, &[0x80]].concat();
    // The length fills the last eight bytes of a block.
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend((8 * text.len() as u64).to_be_bytes());
    let mut hash: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in padded.chunks_exact(64) {
        let mut words: Vec<u32> = block
            .chunks_exact(4)
            .map(|word| word.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
            .collect();
        for at in 16..80 {
            words.push((words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1));
        }
        let [mut a, mut b, mut c, mut d, mut e] = hash;
        for (at, word) in words.iter().enumerate() {
            let (mixed, constant) = match at / 20 {
                0 => ((b & c) | (!b & d), 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let sum = a
                .rotate_left(5)
                .wrapping_add(mixed)
                .wrapping_add(e)
                .wrapping_add(constant)
                .wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, sum);
        }
        for (part, more) in hash.iter_mut().zip([a, b, c, d, e]) {
            *part = part.wrapping_add(more);
        }
    }
    let mut bytes = [0; 20];
    bytes.chunks_exact_mut(4).zip(hash).for_each(|(place, part)| place.copy_from_slice(&part.to_be_bytes()));
    bytes
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let number =
            (0..3).fold(0, |sum, at| sum << 8 | usize::from(three.get(at).copied().unwrap_or_default()));
        for place in 0..4 {
            let letter = LETTERS[number >> (18 - 6 * place) & 63];
            text.push(if place <= three.len() { letter.into() } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_is_answered_according_to_rfc_6455() {
        let accept =
            |key: &str| base64(&sha1(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11").as_bytes()));
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn frames_are_read_as_they_were_written() {
        for length in [0, 5, 125, 126, 300] {
            for mask in [None, Some([9, 8, 7, 6])] {
                let payload = vec![7; length];
                let (first, read) = read(&mut &frame(TEXT, &payload, mask)[..]).unwrap();
                assert_eq!((first, read), (TEXT, payload));
            }
        }
    }
}
