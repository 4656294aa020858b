//! gRPC over HTTP/2 without TLS: a client and a node (RFC 9113), whose headers are written and never read.

use crate::{Done, KEY, PATIENCE};
use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const PATH: &str = "/cosmos.bank.v1beta1.Query/SupplyOf";
const REQUEST: &[u8] = b"\0\0\0\0\x07\x0a\x05uatom";
const ANSWER: &[u8] = b"\0\0\0\0\x19\x0a\x17\x0a\x05uatom\x12\x0e12345678901234";

const IN_FLIGHT: usize = 4;

// Types and flags of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// Sends this number of calls over one connection.
pub(crate) fn send(addr: SocketAddr, calls: usize) -> Done<()> {
    let talk = || -> io::Result<Done<()>> {
        let stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut stream = BufReader::new(stream);
        stream.get_mut().write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat())?;
        let mut number = 1;
        for begun in (0..calls).step_by(IN_FLIGHT) {
            let mut out = Vec::new();
            let count = IN_FLIGHT.min(calls - begun);
            for _ in 0..count {
                out.extend(frame(HEADERS, END_HEADERS, number, &head(number == 1)));
                out.extend(frame(DATA, END_STREAM, number, REQUEST));
                number += 2;
            }
            stream.get_mut().write_all(&out)?;
            let mut answers = 0;
            let mut ends = 0;
            while ends < count {
                let Frame { kind, flags, payload, .. } = read(&mut stream)?;
                let out = stream.get_mut();
                match kind {
                    DATA if payload == ANSWER => answers += 1,
                    SETTINGS if flags & ACK == 0 => out.write_all(&frame(SETTINGS, ACK, 0, &[]))?,
                    PING if flags & ACK == 0 => out.write_all(&frame(PING, ACK, 0, &payload))?,
                    DATA | RESET | GOAWAY => return Ok(Err(format!("frame {kind} with {payload:?}"))),
                    _ => {}
                }
                ends += usize::from(kind == HEADERS && flags & END_STREAM != 0);
            }
            if answers != count {
                return Ok(Err(format!("{answers} of {count} calls have an answer")));
            }
            let room = frame(WINDOW, 0, 0, &((count * ANSWER.len()) as u32).to_be_bytes());
            stream.get_mut().write_all(&room)?;
        }
        Ok(Ok(()))
    };
    talk().map_err(|error| format!("a connection broke: {error}"))?
}

/// Returns the header fields of a call. The first call of a connection adds them to its table, where the others find
/// them (RFC 7541, section 6).
fn head(is_first: bool) -> Vec<u8> {
    const POST: u8 = 0x83;
    const HTTP: u8 = 0x86;
    const ADDED: u8 = 0x40;
    let fields = [
        (":path", PATH),
        (":authority", "gateway"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("apikey", KEY),
    ];
    let mut head = vec![POST, HTTP];
    for (number, (name, value)) in fields.iter().enumerate() {
        if is_first {
            head.push(ADDED);
            [name, value].iter().for_each(|text| string(text, &mut head));
        } else {
            // The newest field of the table is number 62.
            head.push(0x80 | (62 + (fields.len() - 1 - number) as u8));
        }
    }
    head
}

fn string(text: &str, out: &mut Vec<u8>) {
    out.push(text.len() as u8);
    out.extend(text.as_bytes());
}

/// Encodes a field that is not added to the table.
fn field(name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![0];
    [name, value].iter().for_each(|text| string(text, &mut field));
    field
}

/// Starts a node that answers every call at once.
pub(crate) fn start() -> Done<SocketAddr> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| format!("the node: {error}"))?;
    let addr = listener.local_addr().map_err(|error| format!("the node: {error}"))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The gateway's answers show a broken connection.
            thread::spawn(move || serve(stream));
        }
    });
    Ok(addr)
}

fn serve(stream: TcpStream) -> io::Result<()> {
    const STATUS_200: u8 = 0x88;
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    stream.read_exact(&mut [0; PREFACE.len()])?;
    stream.get_mut().write_all(&frame(SETTINGS, 0, 0, &[]))?;
    let head = [vec![STATUS_200], field("content-type", "application/grpc")].concat();
    let trailers = field("grpc-status", "0");
    loop {
        let Frame { kind, flags, stream: number, payload } = read(&mut stream)?;
        let mut out = Vec::new();
        match kind {
            SETTINGS if flags & ACK == 0 => out.extend(frame(SETTINGS, ACK, 0, &[])),
            PING if flags & ACK == 0 => out.extend(frame(PING, ACK, 0, &payload)),
            GOAWAY => return Ok(()),
            DATA if !payload.is_empty() => {
                out.extend(frame(WINDOW, 0, 0, &(payload.len() as u32).to_be_bytes()));
            }
            _ => {}
        }
        if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
            out.extend(frame(HEADERS, END_HEADERS, number, &head));
            out.extend(frame(DATA, 0, number, ANSWER));
            out.extend(frame(HEADERS, END_HEADERS | END_STREAM, number, &trailers));
        }
        // Calls that arrived together are answered together, as nodes do.
        stream.get_mut().write_all(&out)?;
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn read(stream: &mut impl Read) -> io::Result<Frame> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let [high, middle, low, kind, flags, number @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
    stream.read_exact(&mut payload)?;
    Ok(Frame { kind, flags, stream: u32::from_be_bytes(number), payload })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_answered_by_a_node() {
        send(start().unwrap(), 10).unwrap();
    }
}
