//! The client's side of a stream, frame by frame and octet by octet (RFC 6455, section 5).

use rpcgate_tests::TIMEOUT;
use rpcgate_tests::gateway::key;
use std::net::SocketAddr;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

/// The flag of the final fragment of a message.
pub(crate) const FIN: u8 = 0x80;
pub(crate) const CONTINUATION: u8 = 0;
pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

/// A message, a control frame or the end, as the client reads it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    Text(Vec<u8>),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    /// A close frame with its code, if it has one, and its reason.
    Close(Option<u16>, String),
    End,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, payload) = match self {
            Seen::Text(payload) => ("Text", payload),
            Seen::Binary(payload) => ("Binary", payload),
            Seen::Ping(payload) => ("Ping", payload),
            Seen::Pong(payload) => ("Pong", payload),
            Seen::Close(code, reason) => return write!(f, "Close({code:?}, {reason:?})"),
            Seen::End => return f.write_str("End"),
        };
        let shown = &payload[..payload.len().min(24)];
        write!(f, "{kind}({} bytes: {})", payload.len(), shown.escape_ascii())
    }
}

const BEFORE: &str = r#"{"jsonrpc":"2.0","id":7,"method":"eth_chainId","params":[""#;
const BEHIND: &str = r#""]}"#;

/// Returns a call with this parameter. An echo node answers it with the text alone.
pub(crate) fn call(text: &str) -> String {
    format!("{BEFORE}{text}{BEHIND}")
}

pub(crate) fn called(message: &[u8]) -> Option<&[u8]> {
    message.strip_prefix(BEFORE.as_bytes())?.strip_suffix(BEHIND.as_bytes())
}

/// Returns a frame as a client writes it: the first octet (FIN, reserved bits, opcode), a length, a masked payload.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let mut bytes = vec![first];
    match payload.len() {
        short @ ..126 => bytes.push(0x80 | short as u8),
        medium @ ..65_536 => {
            bytes.push(0x80 | 126);
            bytes.extend((medium as u16).to_be_bytes());
        }
        long => {
            bytes.push(0x80 | 127);
            bytes.extend((long as u64).to_be_bytes());
        }
    }
    bytes.extend(mask);
    bytes.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
    bytes
}

pub(crate) fn close(code: u16, reason: &[u8]) -> Vec<u8> {
    frame(FIN | CLOSE, &[&code.to_be_bytes()[..], reason].concat())
}

/// Returns the target of a handshake of the key of that name on `/ws/eth`.
pub(crate) fn target(name: &str) -> String {
    format!("/ws/eth?apikey={}", key(name))
}

#[derive(Debug)]
pub(crate) struct RefusedHandshake {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

pub(crate) struct Stream {
    pub(crate) read: StreamReader,
    pub(crate) write: OwnedWriteHalf,
}

impl Stream {
    /// Opens a stream of the key called `default` on `/ws/eth`.
    pub(crate) async fn open(gateway: SocketAddr) -> Self {
        Stream::open_as(gateway, "default").await.unwrap()
    }

    /// Opens a stream of the key of that name on `/ws/eth`.
    pub(crate) async fn open_as(gateway: SocketAddr, name: &str) -> Result<Self, RefusedHandshake> {
        Stream::handshake(gateway, &target(name), "").await
    }

    pub(crate) async fn handshake(
        gateway: SocketAddr,
        target: &str,
        headers: &str,
    ) -> Result<Self, RefusedHandshake> {
        let socket = TcpStream::connect(gateway).await.unwrap();
        socket.set_nodelay(true).unwrap();
        Stream::over(socket, target, headers).await
    }

    /// Opens a stream with this handshake on this connection.
    pub(crate) async fn over(
        socket: TcpStream,
        target: &str,
        headers: &str,
    ) -> Result<Self, RefusedHandshake> {
        let (read, mut write) = socket.into_split();
        let request = format!(
            "GET {target} HTTP/1.1\r\nhost: gateway\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
        );
        write.write_all(request.as_bytes()).await.unwrap();
        let mut read = BufReader::new(read);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let line = timeout(TIMEOUT, read.read_line(&mut head)).await.unwrap().unwrap();
            assert!(line > 0, "the connection ends in the head: {head}");
        }
        let status = head[9..12].parse().unwrap();
        if status != 101 {
            let head = head.to_ascii_lowercase();
            let length = head.split_once("content-length: ").map_or("0", |(_, rest)| rest);
            let mut body = vec![0; length.split("\r\n").next().unwrap_or_default().parse().unwrap()];
            timeout(TIMEOUT, read.read_exact(&mut body)).await.unwrap().unwrap();
            return Err(RefusedHandshake { status, head, body: String::from_utf8(body).unwrap() });
        }
        assert!(
            head.to_ascii_lowercase().contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="),
            "{head}"
        );
        Ok(Stream { read: StreamReader { read, fragments: None }, write })
    }

    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        self.write.write_all(bytes).await.unwrap();
    }

    /// Writes a text message of one frame: JSON unchanged, and anything else in a [`call`].
    pub(crate) async fn text(&mut self, text: &str) {
        let message = if text.starts_with(['{', '[']) { text.to_owned() } else { call(text) };
        self.raw(&frame(FIN | TEXT, message.as_bytes())).await;
    }

    /// Returns the next message, control frame or end.
    pub(crate) async fn next(&mut self) -> Seen {
        self.read.next().await
    }

    /// Returns the next message, pong or end. Answers pings.
    pub(crate) async fn next_answering_pings(&mut self) -> Seen {
        loop {
            match self.next().await {
                Seen::Ping(payload) => self.raw(&frame(FIN | PONG, &payload)).await,
                other => return other,
            }
        }
    }

    /// Reads up to a close frame and then the end of the connection. Returns the close frame and the number of earlier
    /// messages.
    pub(crate) async fn until_closed(&mut self) -> (Seen, usize) {
        let mut messages = 0;
        loop {
            match self.next().await {
                closed @ Seen::Close(..) => {
                    // The gateway may be gone already.
                    let _ = self.write.write_all(&frame(FIN | CLOSE, &[])).await;
                    while self.next().await != Seen::End {}
                    return (closed, messages);
                }
                Seen::End => return (Seen::End, messages),
                Seen::Ping(payload) => {
                    let _ = self.write.write_all(&frame(FIN | PONG, &payload)).await;
                }
                _ => messages += 1,
            }
        }
    }
}

pub(crate) struct StreamReader {
    read: BufReader<OwnedReadHalf>,
    /// The opcode and the payload so far of a message that arrives in fragments.
    fragments: Option<(u8, Vec<u8>)>,
}

impl StreamReader {
    /// Returns the next message, control frame or end.
    ///
    /// # Panics
    /// When the gateway breaks the protocol, or is silent for too long.
    pub(crate) async fn next(&mut self) -> Seen {
        timeout(TIMEOUT, self.read()).await.unwrap()
    }

    async fn read(&mut self) -> Seen {
        loop {
            let Some((first, payload)) = self.frame().await else { return Seen::End };
            let fin = first & FIN != 0;
            let opcode = first & 0x0f;
            assert_eq!(first & 0x70, 0, "reserved bits");
            if opcode >= CLOSE {
                assert!(fin && payload.len() <= 125, "a control frame is short and not fragmented");
            }
            match opcode {
                PING => return Seen::Ping(payload),
                PONG => return Seen::Pong(payload),
                CLOSE if payload.is_empty() => return Seen::Close(None, String::new()),
                CLOSE => {
                    let code = u16::from_be_bytes([payload[0], payload[1]]);
                    return Seen::Close(Some(code), String::from_utf8(payload[2..].to_vec()).unwrap());
                }
                CONTINUATION => {
                    let (_, whole) = self.fragments.as_mut().unwrap();
                    whole.extend(payload);
                }
                TEXT | BINARY => {
                    assert!(self.fragments.is_none(), "a message within another");
                    self.fragments = Some((opcode, payload));
                }
                other => panic!("opcode {other}"),
            }
            if let Some((opcode, whole)) = self.fragments.take_if(|_| fin) {
                return if opcode == TEXT { Seen::Text(whole) } else { Seen::Binary(whole) };
            }
        }
    }

    async fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.read.read_exact(&mut head).await.ok()?;
        let [first, second] = head;
        assert_eq!(second & 0x80, 0, "a server does not mask");
        let length = match second {
            126 => u64::from(self.read.read_u16().await.ok()?),
            127 => self.read.read_u64().await.ok()?,
            short => u64::from(short),
        };
        let is_shortest = match second {
            126 => length > 125,
            127 => length > u64::from(u16::MAX),
            _ => true,
        };
        assert!(is_shortest, "the length is not in its shortest form");
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.read.read_exact(&mut payload).await.ok()?;
        Some((first, payload))
    }
}
