//! The sockets of simulated streams: WebSocket frames (RFC 6455) around a node's messages, and the faults of a
//! [`StreamFate`].
//!
//! A stream pushes only after everything before has been written, so a slow reader slows its stream and lets nothing
//! grow.

use super::Shared;
use fastwebsockets::{Frame, OpCode, Payload, Role, WebSocketError, WebSocketRead, after_handshake_split};
use rpcgate_core::clock::Time;
use rpcgate_simulate::{SimulatedStreamId, StreamDisturbance, StreamFate};
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, sink};
use tokio::sync::mpsc;

/// The largest message that a node reads, fragments added up: go-ethereum's limit.
const MESSAGE: usize = 32 << 20;
/// The longest time between two readings of the clock, which a test may have moved.
const LOOK: Duration = Duration::from_secs(1);

/// Close codes (RFC 6455, section 7.4.1).
const PROTOCOL_ERROR: u16 = 1002;
const NOT_UTF8: u16 = 1007;
const TOO_BIG: u16 = 1009;
/// Reserved: no endpoint may send it.
const NO_STATUS: u16 = 1005;

/// An invalid frame: all reserved bits are set, and it has the longest length of a frame's head.
const NO_FRAME: [u8; 14] = [0xff; 14];

#[derive(Debug)]
enum Answer {
    /// The node's answers to a message, possibly none.
    Messages(Vec<String>),
    Pong(Vec<u8>),
    /// A close frame with this payload; the stream ends after it.
    Close(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    /// The connection stays open, and nothing more is read.
    Stalled,
    /// The node has ended its side, and reads until the client ends its own.
    HalfClosed,
}

/// Serves an open stream until it ends. Dropping this future also closes it at the node.
pub(super) async fn serve<S>(io: S, shared: &Shared, fate: StreamFate)
where
    S: AsyncRead + AsyncWrite,
{
    let Some(open) = OpenStream::new(shared) else { return };
    let (mut read, mut write) = tokio::io::split(io);
    let end = {
        let (mut frames, _) = after_handshake_split(&mut read, sink(), Role::Server);
        frames.set_auto_close(false);
        frames.set_auto_pong(false);
        frames.set_max_message_size(MESSAGE);
        // One answer is under way at a time: a client whose answers wait is not read.
        let (answers, answered) = mpsc::channel(1);
        let writer = Writer { open: &open, write: &mut write, fate, sent: 0, is_flooding: false, slow: None };
        let writing = writer.run(answered);
        tokio::pin!(writing);
        tokio::select! {
            () = reading(&mut frames, &open, answers) => writing.await,
            end = &mut writing => end,
        }
    };
    match end.unwrap_or(End::Closed) {
        End::Closed => {}
        End::Stalled => std::future::pending().await,
        End::HalfClosed => {
            let mut unread = vec![0; 4096];
            while read.read(&mut unread).await.is_ok_and(|count| count > 0) {}
        }
    }
}

#[derive(Debug)]
struct OpenStream<'a> {
    shared: &'a Shared,
    id: SimulatedStreamId,
}

impl<'a> OpenStream<'a> {
    /// Opens a stream; `None` if the node has no streams, or is gone.
    fn new(shared: &'a Shared) -> Option<Self> {
        let id = shared.hosted.lock().streams()?.open();
        shared.streams.fetch_add(1, Ordering::AcqRel);
        Some(OpenStream { shared, id })
    }

    fn receive(&self, message: &[u8]) -> Vec<String> {
        let now = self.shared.clock.now();
        let mut hosted = self.shared.hosted.lock();
        let answers = hosted.streams().map(|streams| streams.receive(self.id, message, now));
        self.shared.store(&mut hosted);
        answers.unwrap_or_default()
    }

    fn push(&self, is_flooding: bool) -> Vec<String> {
        let now = self.shared.clock.now();
        let mut hosted = self.shared.hosted.lock();
        let Some(streams) = hosted.streams() else { return Vec::new() };
        if is_flooding {
            streams.rewind(self.id);
        }
        streams.push(self.id, now)
    }

    fn next_push(&self) -> Option<Time> {
        let now = self.shared.clock.now();
        self.shared.hosted.lock().streams()?.next_push(self.id, now)
    }
}

impl Drop for OpenStream<'_> {
    fn drop(&mut self) {
        if let Some(streams) = self.shared.hosted.lock().streams() {
            streams.close(self.id);
        }
        self.shared.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Reads frames until the client closes the stream or breaks the protocol.
async fn reading<R>(frames: &mut WebSocketRead<R>, open: &OpenStream<'_>, answers: mpsc::Sender<Answer>)
where
    R: AsyncRead + Unpin,
{
    let mut message: Vec<u8> = Vec::new();
    let mut kind: Option<OpCode> = None;
    loop {
        let frame = frames.read_frame(&mut |_| std::future::ready(Ok::<(), WebSocketError>(()))).await;
        let answer = match frame {
            Err(WebSocketError::IoError(_) | WebSocketError::UnexpectedEOF) => return,
            Err(WebSocketError::FrameTooLarge) => close(TOO_BIG),
            Err(WebSocketError::InvalidUTF8) => close(NOT_UTF8),
            Err(_) => close(PROTOCOL_ERROR),
            Ok(frame) => match frame.opcode {
                OpCode::Ping => Answer::Pong(frame.payload.to_vec()),
                OpCode::Pong => continue,
                OpCode::Close => Answer::Close(frame.payload.to_vec()),
                opcode => {
                    let is_continued = opcode == OpCode::Continuation;
                    if is_continued != kind.is_some() {
                        close(PROTOCOL_ERROR)
                    } else if message.len() + frame.payload.len() > MESSAGE {
                        close(TOO_BIG)
                    } else {
                        let kind = *kind.get_or_insert(opcode);
                        message.extend_from_slice(&frame.payload);
                        if !frame.fin {
                            continue;
                        }
                        if kind == OpCode::Text && std::str::from_utf8(&message).is_err() {
                            close(NOT_UTF8)
                        } else {
                            Answer::Messages(open.receive(&message))
                        }
                    }
                }
            },
        };
        if matches!(answer, Answer::Messages(_)) {
            message.clear();
            kind = None;
        }
        let is_over = matches!(answer, Answer::Close(_));
        if answers.send(answer).await.is_err() || is_over {
            return;
        }
    }
}

fn close(code: u16) -> Answer {
    Answer::Close(code.to_be_bytes().to_vec())
}

async fn pause(open: &OpenStream<'_>, is_flooding: bool) {
    let Some(next) = open.next_push() else { return std::future::pending().await };
    loop {
        let left = next.since(open.shared.clock.now());
        if left.is_zero() || is_flooding {
            return;
        }
        tokio::time::sleep(left.min(LOOK)).await;
    }
}

struct Writer<'a, W> {
    open: &'a OpenStream<'a>,
    write: &'a mut W,
    /// The fault that is still to come.
    fate: StreamFate,
    sent: u64,
    is_flooding: bool,
    /// The bytes of a write and the pause after it.
    slow: Option<(usize, Duration)>,
}

impl<W: AsyncWrite + Unpin> Writer<'_, W> {
    /// Writes answers and pushes. An error means that the connection is gone.
    async fn run(mut self, mut answered: mpsc::Receiver<Answer>) -> io::Result<End> {
        let shared = self.open.shared;
        let mut strikes = shared.strikes.subscribe();
        let mut taken = shared.taken.subscribe();
        // A flood of nothing waits like any other stream.
        let mut has_sent = true;
        loop {
            if let Some(end) = self.disturb_if_due().await? {
                return Ok(end);
            }
            tokio::select! {
                answer = answered.recv() => match answer {
                    None => return Ok(End::Closed),
                    Some(Answer::Messages(messages)) => if let Some(end) = self.send_messages(messages).await? {
                        return Ok(end);
                    },
                    Some(Answer::Pong(payload)) => self.frame(true, OpCode::Pong, &payload).await?,
                    Some(Answer::Close(payload)) => {
                        self.frame(true, OpCode::Close, &payload).await?;
                        self.write.shutdown().await?;
                        return Ok(End::Closed);
                    }
                },
                () = pause(self.open, self.is_flooding && has_sent) => {
                    let messages = self.open.push(self.is_flooding);
                    has_sent = !messages.is_empty();
                    if let Some(end) = self.send_messages(messages).await? {
                        return Ok(end);
                    }
                }
                Ok(()) = strikes.changed() => {
                    let strike = *strikes.borrow_and_update();
                    self.fate = StreamFate { disturbance: strike, after: self.sent, ..self.fate };
                }
                // After a submission the next push may be earlier.
                Ok(()) = taken.changed() => {}
            }
        }
    }

    /// Writes whole messages, and the fault when its turn comes.
    async fn send_messages(&mut self, messages: Vec<String>) -> io::Result<Option<End>> {
        for message in messages {
            let mut bytes = message.as_bytes();
            let mut opcode = OpCode::Text;
            let most = self.fate.fragment.unwrap_or(usize::MAX).max(1);
            while bytes.len() > most {
                let (first, rest) = bytes.split_at(most);
                self.frame(false, opcode, first).await?;
                (bytes, opcode) = (rest, OpCode::Continuation);
            }
            self.frame(true, opcode, bytes).await?;
            self.sent += 1;
            if let Some(end) = self.disturb_if_due().await? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    async fn frame(&mut self, fin: bool, opcode: OpCode, payload: &[u8]) -> io::Result<()> {
        let mut buffer = Vec::new();
        let bytes = Frame::new(fin, opcode, None, Payload::Borrowed(payload)).write(&mut buffer);
        match self.slow {
            None => self.write.write_all(bytes).await?,
            Some((count, pause)) => {
                for piece in bytes.chunks(count.max(1)) {
                    self.write.write_all(piece).await?;
                    self.write.flush().await?;
                    tokio::time::sleep(pause).await;
                }
            }
        }
        self.write.flush().await
    }

    async fn disturb_if_due(&mut self) -> io::Result<Option<End>> {
        let Some(disturbance) = self.fate.disturbance.take_if(|_| self.sent >= self.fate.after) else {
            return Ok(None);
        };
        let end = match disturbance {
            StreamDisturbance::Cut => End::Closed,
            StreamDisturbance::Stall => End::Stalled,
            StreamDisturbance::HalfClose => {
                self.write.shutdown().await?;
                End::HalfClosed
            }
            StreamDisturbance::Garbage => {
                self.write.write_all(&NO_FRAME).await?;
                self.write.flush().await?;
                End::HalfClosed
            }
            StreamDisturbance::BadClose => self.close(NO_STATUS).await?,
            StreamDisturbance::Close(code) => self.close(code).await?,
            StreamDisturbance::Slow { bytes, pause } => {
                self.slow = Some((bytes, pause));
                return Ok(None);
            }
            StreamDisturbance::Flood => {
                self.is_flooding = true;
                return Ok(None);
            }
            // A fault that this socket does not know.
            _ => return Ok(None),
        };
        Ok(Some(end))
    }

    async fn close(&mut self, code: u16) -> io::Result<End> {
        self.frame(true, OpCode::Close, &code.to_be_bytes()).await?;
        self.write.shutdown().await?;
        Ok(End::HalfClosed)
    }
}

#[cfg(test)]
mod tests;
