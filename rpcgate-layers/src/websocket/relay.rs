//! The two directions of a stream.

use super::close::CloseReason;
use super::link::{Link, OWN_PING, SMALL, check_close};
use super::messages::{ToClient, ToNode};
use crate::transport::ws::incoming::{FrameReader, ReadError, ReadFrame};
use bytes::BytesMut;
use fastwebsockets::OpCode;
use rpcgate_core::memory::MemoryPermit;
use smallvec::SmallVec;
use std::future::pending;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use tokio::io::AsyncRead;
use tokio::task::coop::consume_budget;

/// The maximum number of fragments whose boundaries are kept. The rest of a message with more fragments is forwarded as
/// one fragment.
const MAX_FRAGMENTS: usize = 4_096;

struct Assembly {
    opcode: OpCode,
    payload: BytesMut,
    /// The end offsets of all fragments but the last.
    ends: SmallVec<[usize; 1]>,
}

/// Relays the client's frames until the stream ends, and stores the reason in `ended`. The rest of a rejected message
/// is read and dropped: closing a connection with unread bytes resets it, which may lose the close frame.
pub(super) async fn from_client<R>(link: &Link, reader: &mut FrameReader<R>, ended: &OnceLock<CloseReason>)
where
    R: AsyncRead + Unpin,
{
    let reason = relay_client(link, reader).await;
    let _ = ended.set(reason);
    if matches!(reason, CloseReason::TooLarge | CloseReason::NoMemory) {
        reader.discard().await;
    }
}

/// Reads the client's frames until the stream ends. Calls are decided once their message is complete. Control frames
/// pass immediately.
async fn relay_client<R>(link: &Link, reader: &mut FrameReader<R>) -> CloseReason
where
    R: AsyncRead + Unpin,
{
    let mut assembly: Option<Assembly> = None;
    loop {
        // Thousands of small frames may arrive together, and other streams must not wait for all of them.
        consume_budget().await;
        let ReadFrame { fin, opcode, payload } = match reader.next().await {
            Ok(frame) => frame,
            Err(ReadError::Lost) if link.node.has_closed() => return CloseReason::Node,
            Err(error) => return of_client(error),
        };
        match opcode {
            OpCode::Close => {
                if let Err(reason) = check_close(&payload) {
                    return reason;
                }
                link.client.closes();
                link.node.send_close(&payload);
                if link.is_closing() || link.node.has_closed() {
                    return CloseReason::Node;
                }
                // The node closes next.
                pending::<()>().await;
            }
            _ if link.is_closing() => {}
            OpCode::Ping | OpCode::Pong => {
                if opcode == OpCode::Ping || *payload != *OWN_PING {
                    link.node.send(true, opcode, payload.freeze());
                }
            }
            OpCode::Text | OpCode::Binary | OpCode::Continuation => {
                let message = match (assembly.take(), fin) {
                    (None, true) => Assembly { opcode, payload, ends: SmallVec::new() },
                    (None, false) => {
                        let ends = SmallVec::from_slice(&[payload.len()]);
                        assembly = Some(Assembly { opcode, payload, ends });
                        continue;
                    }
                    (Some(mut message), _) => {
                        message.payload.unsplit(payload);
                        if !fin {
                            if message.ends.len() < MAX_FRAGMENTS {
                                message.ends.push(message.payload.len());
                            }
                            assembly = Some(message);
                            continue;
                        }
                        // The library has checked texts of one frame.
                        if message.opcode == OpCode::Text && std::str::from_utf8(&message.payload).is_err() {
                            return CloseReason::InvalidText;
                        }
                        message
                    }
                };
                link.received.fetch_add(1, Relaxed);
                receive(link, message);
            }
        }
        if let Err(reason) = link.node_ready().await {
            return reason;
        }
        if let Err(reason) = link.client_ready().await {
            return reason;
        }
    }
}

fn receive(link: &Link, message: Assembly) {
    let Assembly { opcode, payload, ends } = message;
    let payload = payload.freeze();
    let verdict = link.messages.lock().decide(&payload, &link.key);
    match verdict.to_node {
        None => {}
        Some(ToNode::Rewritten(text)) => link.node.send(true, opcode, text.into()),
        Some(ToNode::Unchanged) if ends.is_empty() => link.node.send(true, opcode, payload),
        Some(ToNode::Unchanged) => {
            let mut start = 0;
            for (number, end) in ends.into_iter().enumerate() {
                let opcode = if number == 0 { opcode } else { OpCode::Continuation };
                link.node.send(false, opcode, payload.slice(start..end));
                start = end;
            }
            link.node.send(true, OpCode::Continuation, payload.slice(start..));
        }
    }
    if let Some(text) = verdict.to_client {
        link.client.send(true, opcode, text.into());
    }
}

/// A message of the node whose fragments are collected, to join answers to refused calls with it.
struct HeldMessage {
    opcode: OpCode,
    payload: BytesMut,
    memory: MemoryPermit,
}

impl HeldMessage {
    fn add(&mut self, fragment: BytesMut) -> Result<(), CloseReason> {
        self.payload.unsplit(fragment);
        let len = self.payload.len();
        if len > SMALL && self.memory.take_up_to(len).is_err() {
            return Err(CloseReason::NoMemory);
        }
        Ok(())
    }
}

/// Reads the node's frames until the stream ends. Frames and fragments pass immediately, unless answers to refused
/// calls must be joined with their message.
pub(super) async fn from_node<R>(link: &Link, reader: &mut FrameReader<R>) -> CloseReason
where
    R: AsyncRead + Unpin,
{
    let mut held: Option<HeldMessage> = None;
    loop {
        consume_budget().await;
        // A slow client slows down its node.
        if let Err(reason) = link.client_ready().await {
            return reason;
        }
        let ReadFrame { fin, opcode, payload } = match reader.next().await {
            Ok(frame) => frame,
            Err(ReadError::TooLarge) => return CloseReason::TooLarge,
            Err(ReadError::NoMemory) => return CloseReason::NoMemory,
            Err(_) if link.client.has_closed() => return CloseReason::Client,
            Err(_) => return CloseReason::NodeLost,
        };
        match opcode {
            OpCode::Close => {
                if check_close(&payload).is_err() {
                    return CloseReason::NodeLost;
                }
                link.node.closes();
                link.client.send_close(&payload);
                if link.client.has_closed() {
                    return CloseReason::Client;
                }
                // The client closes next.
                pending::<()>().await;
            }
            OpCode::Ping | OpCode::Pong => {
                if opcode == OpCode::Ping || *payload != *OWN_PING {
                    link.client.send(true, opcode, payload.freeze());
                }
            }
            OpCode::Continuation => match &mut held {
                Some(message) => {
                    if let Err(reason) = message.add(payload) {
                        return reason;
                    }
                    if let Some(message) = held.take_if(|_| fin) {
                        deliver(link, true, message.opcode, message.payload);
                    }
                }
                None => {
                    link.messages.lock().stream.send(u32::try_from(payload.len()).unwrap_or(u32::MAX));
                    link.client.send(fin, opcode, payload.freeze());
                }
            },
            OpCode::Text | OpCode::Binary if !fin && link.messages.lock().joins() => {
                let memory = link.backlog.lock().sibling();
                let mut message = HeldMessage { opcode, payload: BytesMut::new(), memory };
                if let Err(reason) = message.add(payload) {
                    return reason;
                }
                held = Some(message);
            }
            OpCode::Text | OpCode::Binary => deliver(link, fin, opcode, payload),
        }
    }
}

/// Records a message of the node, or its first fragment, and sends it to the client.
fn deliver(link: &Link, fin: bool, opcode: OpCode, payload: BytesMut) {
    let mut messages = link.messages.lock();
    let payload = match messages.with_named_ids(&payload) {
        None => payload,
        Some(text) => BytesMut::from(&text[..]),
    };
    let to_client = messages.account(&payload);
    drop(messages);
    match to_client {
        ToClient::Unchanged => link.client.send(fin, opcode, payload.freeze()),
        ToClient::Joined(answers) => link.client.send(fin, opcode, answers.into()),
        ToClient::Followed(refused) => {
            link.client.send(fin, opcode, payload.freeze());
            link.client.send(true, opcode, refused.into());
        }
    }
}

fn of_client(error: ReadError) -> CloseReason {
    match error {
        ReadError::Lost => CloseReason::ClientLost,
        ReadError::Protocol => CloseReason::ProtocolError,
        ReadError::Text => CloseReason::InvalidText,
        ReadError::TooLarge => CloseReason::TooLarge,
        ReadError::NoMemory => CloseReason::NoMemory,
    }
}
