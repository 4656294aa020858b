//! Nodes that speak raw bytes, for the tests of the pool.

use super::{AnswerBody, NodeConfig, NodeRequest, NodeRequestError, Pool, PoolLimits};
use bytes::Bytes;
use parking_lot::Mutex;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::clock::{ManualClock, Time};
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::toy::Toy;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

/// A listening node; it is gone when dropped.
pub(super) struct Script {
    pub(super) address: SocketAddr,
    conns: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

/// The node's end of a connection.
pub(super) struct Wire {
    pub(super) stream: TcpStream,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Script {
    /// A node that does `serve` with each connection; connections are numbered from 0.
    pub(super) async fn serve<F, R>(serve: F) -> Self
    where
        F: Fn(usize, Wire) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        Script::serve_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), serve)
    }

    /// The same on a listener that is there already.
    pub(super) fn serve_on<F, R>(listener: TcpListener, serve: F) -> Self
    where
        F: Fn(usize, Wire) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let address = listener.local_addr().unwrap();
        let (conns, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let task = tokio::spawn({
            let (conns, seen) = (conns.clone(), seen.clone());
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let number = conns.fetch_add(1, SeqCst);
                    tokio::spawn(serve(number, Wire { stream, seen: seen.clone() }));
                }
            }
        });
        Script { address, conns, seen, task }
    }

    /// A node that gives `answer` to every request.
    pub(super) async fn always(answer: impl Into<Vec<u8>>) -> Self {
        let answer = Arc::new(answer.into());
        Script::serve(move |_, mut wire| {
            let answer = answer.clone();
            async move {
                while wire.request().await.is_some() {
                    wire.write(&answer[..]).await;
                }
            }
        })
        .await
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Connections accepted so far.
    pub(super) fn conns(&self) -> usize {
        self.conns.load(SeqCst)
    }

    /// Requests read so far, head and body.
    pub(super) fn seen(&self) -> Vec<String> {
        self.seen.lock().clone()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Wire {
    /// The next request, or `None` when the connection ends.
    pub(super) async fn request(&mut self) -> Option<String> {
        let mut read = Vec::new();
        let mut byte = [0];
        while !read.ends_with(b"\r\n\r\n") {
            self.stream.read_exact(&mut byte).await.ok()?;
            read.push(byte[0]);
        }
        let head = String::from_utf8(read).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.stream.read_exact(&mut body).await.ok()?;
        let request = head + &String::from_utf8(body).unwrap();
        self.seen.lock().push(request.clone());
        Some(request)
    }

    pub(super) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        // The other side may have gone; then there is nobody to tell.
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// Adds a line of its own to what was seen.
    pub(super) fn note(&self, what: &str) {
        self.seen.lock().push(what.to_owned());
    }

    /// Closes with a reset instead of an orderly end.
    pub(super) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }

    /// Waits until the other side closes.
    pub(super) async fn closed(&mut self) {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest).await;
    }
}

/// A pool over scripts, with a clock that stands still.
pub(super) struct Fixture {
    pub(super) pool: Arc<Pool>,
    pub(super) clock: Arc<ManualClock>,
}

impl Fixture {
    pub(super) fn new(nodes: &[&Script]) -> Self {
        Fixture::with(&nodes.iter().map(|node| node.url()).collect::<Vec<_>>(), PoolLimits::default())
    }

    pub(super) fn with(urls: &[String], limits: PoolLimits) -> Self {
        let nodes = urls.iter().map(|url| NodeConfig::new(url.parse().unwrap())).collect();
        Fixture::of(nodes, limits)
    }

    pub(super) fn of(nodes: Vec<NodeConfig>, limits: PoolLimits) -> Self {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_700_000_000)));
        Fixture { pool: Pool::new(Toy.facts(), nodes, limits, clock.clone()), clock }
    }

    /// The body of the answer to `ask`, which must be whole.
    pub(super) async fn whole(&self, ask: NodeRequest) -> Result<String, NodeRequestError> {
        match self.pool.ask(&ask, &mut MemoryPermit::default()).await?.body {
            AnswerBody::Whole(body) => Ok(String::from_utf8(body.to_vec()).unwrap()),
            AnswerBody::Larger { .. } => panic!("larger than collected"),
        }
    }

    pub(super) async fn read(&self) -> Result<String, NodeRequestError> {
        self.whole(call("read")).await
    }

    pub(super) async fn broadcast(&self) -> Result<String, NodeRequestError> {
        self.whole(NodeRequest { broadcast: true, ..call("send") }).await
    }

    /// Lets the tasks run until `so`; it is bound to become so.
    pub(super) async fn until(&self, so: impl Fn(&Pool) -> bool) {
        let wait = async {
            while !so(&self.pool) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), wait).await.expect("it never became so");
    }

    /// Connections that wait for a call, those that the node closed left out.
    pub(super) fn idle(&self) -> usize {
        self.pool.sweep();
        self.pool.nodes().map(|node| node.idle).sum()
    }
}

pub(super) fn call(body: &'static str) -> NodeRequest {
    NodeRequest::json_rpc(Bytes::from_static(body.as_bytes()))
}

/// A node that refuses connections: it holds a port on which it does not listen, so that nobody else can.
pub(super) struct Refusing(TcpSocket);

impl Refusing {
    pub(super) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Refusing(socket)
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().unwrap())
    }

    pub(super) fn listen(self) -> TcpListener {
        self.0.listen(16).unwrap()
    }
}

/// An answer with a length.
pub(super) fn answer(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}
