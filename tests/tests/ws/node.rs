//! Nodes that accept streams, and their faults. They use a WebSocket implementation that the gateway does not use.

use crate::stream::called;
use futures_util::{SinkExt, StreamExt};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Bytes, Message};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Behaviour {
    Answers,
    /// It neither reads nor writes, and keeps its connections open.
    Stalls,
    /// It has ended its direction of every connection, without a close frame, and no longer reads.
    HalfCloses,
    /// It drops its connections without a close frame.
    Dies,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Every message comes back.
    Echo,
    /// A subscription to heads is answered with an id, then a head is pushed at this interval.
    Heads(Duration),
    /// The first message is answered with messages of this size, as fast as the client takes them.
    Flood(usize),
}

struct Shared {
    behaviour: watch::Sender<Behaviour>,
    content: Content,
    open: AtomicUsize,
    opened: AtomicUsize,
    sent: AtomicUsize,
    pings: AtomicUsize,
    last: Mutex<Instant>,
}

/// A node on its own socket. It stops when dropped.
pub(crate) struct StreamNode {
    pub(crate) addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

impl StreamNode {
    pub(crate) async fn start(content: Content) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            behaviour: watch::Sender::new(Behaviour::Answers),
            content,
            open: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
            sent: AtomicUsize::new(0),
            pings: AtomicUsize::new(0),
            last: Mutex::new(Instant::now()),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone())).abort_handle();
        StreamNode { addr, shared, accepting }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.addr)
    }

    /// Sets the behaviour for open and later streams.
    pub(crate) fn behave(&self, behaviour: Behaviour) {
        self.shared.behaviour.send_replace(behaviour);
    }

    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Relaxed)
    }

    /// Returns the number of streams that were ever opened.
    pub(crate) fn opened(&self) -> usize {
        self.shared.opened.load(Relaxed)
    }

    /// Returns the bytes of messages with which it has flooded its clients.
    pub(crate) fn sent(&self) -> usize {
        self.shared.sent.load(Relaxed)
    }

    /// Returns the bytes of pings that it has read.
    pub(crate) fn pings(&self) -> usize {
        self.shared.pings.load(Relaxed)
    }

    /// Reports whether it has sent something, but nothing for 500 ms although it floods its clients: they take no more.
    pub(crate) fn is_blocked(&self) -> bool {
        const WHILE: Duration = Duration::from_millis(500);
        self.sent() > 0 && self.shared.last.lock().unwrap().elapsed() > WHILE
    }
}

impl Drop for StreamNode {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut streams = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        streams.spawn(serve(socket, shared.clone()));
        while streams.try_join_next().is_some() {}
    }
}

async fn serve(socket: TcpStream, shared: Arc<Shared>) {
    let _ = socket.set_nodelay(true);
    let mut behaviour = shared.behaviour.subscribe();
    let is_well = |behaviour: &Behaviour| *behaviour == Behaviour::Answers;
    if !is_well(&behaviour.borrow_and_update()) {
        // A node that does not work accepts no new stream.
        return;
    }
    let config = WebSocketConfig::default().max_frame_size(None).max_message_size(None);
    let Ok(mut stream) = tokio_tungstenite::accept_async_with_config(socket, Some(config)).await else {
        return;
    };
    shared.open.fetch_add(1, Relaxed);
    shared.opened.fetch_add(1, Relaxed);
    let trouble = tokio::select! {
        () = talk(&mut stream, &shared) => None,
        trouble = behaviour.wait_for(|behaviour| !is_well(behaviour)) => trouble.ok().map(|trouble| *trouble),
    };
    match trouble {
        None | Some(Behaviour::Dies | Behaviour::Answers) => {}
        Some(trouble) => {
            if trouble == Behaviour::HalfCloses {
                let _ = stream.get_mut().shutdown().await;
            }
            // The socket stays open until the node works again.
            let _ = behaviour.wait_for(is_well).await;
        }
    }
    drop(stream);
    shared.open.fetch_sub(1, Relaxed);
}

/// Returns the message itself, or the text in a call of the tests.
fn echoed(message: Message) -> Message {
    let data = message.clone().into_data();
    match called(&data) {
        None => message,
        Some(text) if message.is_text() => Message::text(String::from_utf8_lossy(text).into_owned()),
        Some(text) => Message::binary(text.to_vec()),
    }
}

async fn talk(stream: &mut WebSocketStream<TcpStream>, shared: &Shared) {
    while let Some(Ok(message)) = stream.next().await {
        if let Message::Ping(payload) = &message {
            shared.pings.fetch_add(payload.len(), Relaxed);
        }
        if !(message.is_text() || message.is_binary()) {
            // The library sends pongs and answers to close frames.
            if stream.flush().await.is_err() {
                return;
            }
            continue;
        }
        let sent = match shared.content {
            Content::Echo => stream.send(echoed(message)).await,
            Content::Heads(every) => heads(stream, every).await,
            Content::Flood(size) => return drop(flood(stream, size, shared).await),
        };
        if sent.is_err() {
            return;
        }
    }
}

type Sent = Result<(), tokio_tungstenite::tungstenite::Error>;

async fn heads(stream: &mut WebSocketStream<TcpStream>, every: Duration) -> Sent {
    stream.send(Message::text(r#"{"jsonrpc":"2.0","id":1,"result":"0x1"}"#)).await?;
    let mut number = 0_u64;
    let mut ticks = tokio::time::interval(every);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                number += 1;
                stream.send(Message::text(format!(
                    r#"{{"jsonrpc":"2.0","method":"eth_subscription","params":{{"subscription":"0x1","result":{{"number":"{number:#x}"}}}}}}"#
                ))).await?;
            }
            // Reading answers pings and close frames.
            read = stream.next() => match read {
                Some(Ok(_)) => stream.flush().await?,
                Some(Err(error)) => return Err(error),
                None => return Err(tokio_tungstenite::tungstenite::Error::ConnectionClosed),
            },
        }
    }
}

async fn flood(stream: &mut WebSocketStream<TcpStream>, size: usize, shared: &Shared) -> Sent {
    let payload = Bytes::from(vec![b'x'; size]);
    let (mut sink, mut source) = stream.split();
    loop {
        let mut sending = pin!(sink.send(Message::binary(payload.clone())));
        loop {
            tokio::select! {
                sent = &mut sending => break sent?,
                // It reads while it cannot send, and leaves when the stream ends.
                read = source.next() => match read {
                    Some(Ok(message)) if !message.is_close() => {}
                    _ => return Ok(()),
                },
            }
        }
        shared.sent.fetch_add(size, Relaxed);
        *shared.last.lock().unwrap() = Instant::now();
    }
}
