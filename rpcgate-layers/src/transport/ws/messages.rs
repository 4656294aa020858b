//! Whole messages on a stream to a node, for the gateway's own streams.

use super::dial::NodeStream;
use super::incoming::{FrameReader, ReadError};
use super::outgoing::FrameWriter;
use super::wire::Role;
use bytes::{Bytes, BytesMut};
use fastwebsockets::OpCode;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::memory::MemoryPermit;
use std::fmt;
use std::future::poll_fn;
use tokio::io::{ReadHalf, WriteHalf, split};

type Io = TokioIo<Upgraded>;

/// A stream to a node that is read in whole messages. Pings are answered during reads.
pub struct NodeMessages {
    reader: FrameReader<ReadHalf<Io>>,
    writer: FrameWriter<WriteHalf<Io>>,
}

impl NodeMessages {
    /// Creates the message stream. A message of more than `max` bytes ends it.
    pub(crate) fn new(stream: NodeStream, max: usize) -> Self {
        let (read, write) = split(stream.io);
        let reader = FrameReader::new(read, Role::Client, max, MemoryPermit::default());
        NodeMessages { reader, writer: FrameWriter::new(write, Role::Client) }
    }

    /// Sends a text message.
    ///
    /// # Errors
    /// [`Cause::Broken`] if the stream is lost.
    pub async fn send(&mut self, text: impl Into<Bytes>) -> Result<(), Fault> {
        self.write(OpCode::Text, text.into()).await
    }

    /// Returns the next message. If the future is dropped before it is ready, the stream has to be dropped as well,
    /// because a part of a message is lost.
    ///
    /// # Errors
    /// [`Cause::Broken`] if the stream is lost or closed, [`Cause::Oversize`] for a message that is too large,
    /// [`Cause::Undecodable`] for bytes that are not WebSocket frames.
    pub async fn next(&mut self) -> Result<Bytes, Fault> {
        let mut message: Option<BytesMut> = None;
        loop {
            let frame = self.reader.next().await.map_err(|error| {
                Fault::sent(match error {
                    ReadError::Lost => Cause::Broken,
                    ReadError::TooLarge | ReadError::NoMemory => Cause::Oversize,
                    ReadError::Protocol | ReadError::Text => Cause::Undecodable,
                })
            })?;
            match frame.opcode {
                OpCode::Close => return Err(Fault::sent(Cause::Broken)),
                OpCode::Ping => self.write(OpCode::Pong, frame.payload.freeze()).await?,
                OpCode::Pong => {}
                OpCode::Text | OpCode::Binary | OpCode::Continuation => {
                    match &mut message {
                        Some(so_far) => so_far.extend_from_slice(&frame.payload),
                        None => message = Some(frame.payload),
                    }
                    if frame.fin {
                        return Ok(message.unwrap_or_default().freeze());
                    }
                }
            }
        }
    }

    async fn write(&mut self, opcode: OpCode, payload: Bytes) -> Result<(), Fault> {
        self.writer.push(true, opcode, payload);
        let flushed = poll_fn(|cx| self.writer.poll_flush(cx)).await;
        flushed.map_err(|_| Fault::sent(Cause::Broken))
    }
}

impl fmt::Debug for NodeMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeMessages").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::node::NodeIndex;
    use crate::nodes::{NodeConfig, NodeUrl, PoolLimits};
    use crate::testing::scripted_node::PoolFixture;
    use futures_util::{SinkExt, StreamExt};
    use rpcgate_core::tally::Transport;
    use tokio::net::TcpListener;
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::protocol::frame::Frame;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode as Code};

    fn piece(text: &'static str, code: Data, is_last: bool) -> Message {
        Message::Frame(Frame::message(text, Code::Data(code), is_last))
    }

    #[tokio::test]
    async fn messages_arrive_whole_pings_are_answered_and_a_too_large_message_ends_the_stream() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let node = tokio::spawn(async move {
            let (socket, _) = listener.accept().await.unwrap();
            let mut stream = tokio_tungstenite::accept_async(socket).await.unwrap();
            let mut seen = vec![stream.next().await.unwrap().unwrap()];
            stream.send(piece("ab", Data::Text, false)).await.unwrap();
            stream.send(Message::Ping("p".into())).await.unwrap();
            stream.send(piece("cd", Data::Continue, true)).await.unwrap();
            seen.push(stream.next().await.unwrap().unwrap());
            stream.send(Message::text("x".repeat(101))).await.unwrap();
            seen
        });
        let config = NodeConfig::new(NodeUrl::parse(&url, Transport::Ws).unwrap());
        let fixture = PoolFixture::of(vec![config], PoolLimits::default());
        let mut messages = fixture.pool.open_messages(NodeIndex(0), 100).await.unwrap();
        messages.send("hello").await.unwrap();
        assert_eq!(messages.next().await.unwrap(), "abcd");
        assert_eq!(messages.next().await.unwrap_err().cause, Cause::Oversize);
        assert_eq!(node.await.unwrap(), [Message::text("hello"), Message::Pong("p".into())]);
        let without = PoolFixture::of(
            vec![NodeConfig::new("http://127.0.0.1:1".parse().unwrap())],
            PoolLimits::default(),
        );
        let error = without.pool.open_messages(NodeIndex(0), 100).await.unwrap_err();
        assert_eq!(error, Fault::unsent(Cause::NoNode).into());
    }

    // Shows (Webhooks).
    #[tokio::test]
    async fn a_stream_that_cannot_be_opened_does_not_affect_a_probed_node() {
        // The socket does not listen, and no other one gets its port.
        let mute = tokio::net::TcpSocket::new_v4().unwrap();
        mute.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let closed = mute.local_addr().unwrap();
        let by_ws = NodeUrl::parse(&format!("ws://{closed}"), Transport::Ws).unwrap();
        let by_http = NodeConfig::new("http://127.0.0.1:1".parse().unwrap());
        let nodes = [(NodeConfig::new(by_ws.clone()), "unreachable"), (by_http.with_address(by_ws), "well")];
        for (node, health) in nodes {
            let fixture = PoolFixture::of(vec![node], PoolLimits::default());
            assert!(fixture.pool.open_messages(NodeIndex(0), 100).await.is_err());
            assert_eq!(fixture.pool.nodes().next().unwrap().health.name(), health);
        }
    }
}
