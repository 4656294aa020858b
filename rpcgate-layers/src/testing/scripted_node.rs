//! Nodes that send and receive raw bytes, for tests of node clients.

use crate::nodes::{NodeConfig, NodeRequestError, Pool, PoolLimits, RetryPolicy};
use crate::transport::h1::{AnswerBody, NodeRequest};
use bytes::Bytes;
use parking_lot::Mutex;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::clock::{ManualClock, Time};
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::toy::Toy;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

/// A listening node. Dropping it stops it.
pub(crate) struct ScriptedNode {
    pub(crate) address: SocketAddr,
    conns: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    seen: Arc<Mutex<Vec<String>>>,
}

impl ScriptedNode {
    /// Starts a node that runs `serve` for each connection. Connections are numbered from 0.
    pub(crate) async fn serve<F, R>(serve: F) -> Self
    where
        F: Fn(usize, Wire) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        ScriptedNode::serve_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), serve)
    }

    pub(crate) fn serve_on<F, R>(listener: TcpListener, serve: F) -> Self
    where
        F: Fn(usize, Wire) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let address = listener.local_addr().unwrap();
        let conns = Arc::new(AtomicUsize::new(0));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn({
            let conns = conns.clone();
            let seen = seen.clone();
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let number = conns.fetch_add(1, SeqCst);
                    tokio::spawn(serve(number, Wire { stream, seen: seen.clone() }));
                }
            }
        });
        ScriptedNode { address, conns, seen, task }
    }

    /// Starts a node that answers every request with `answer`.
    pub(crate) async fn always(answer: impl Into<Vec<u8>>) -> Self {
        let answer = Arc::new(answer.into());
        ScriptedNode::serve(move |_, mut wire| {
            let answer = answer.clone();
            async move {
                while wire.request().await.is_some() {
                    wire.write(&answer[..]).await;
                }
            }
        })
        .await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn conns(&self) -> usize {
        self.conns.load(SeqCst)
    }

    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().clone()
    }
}

impl Drop for ScriptedNode {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Wire {
    /// Returns the next request; `None` when the connection ends.
    pub(crate) async fn request(&mut self) -> Option<String> {
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

    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        // The other side may have closed, which does not concern the node.
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    pub(crate) fn note(&self, what: &str) {
        self.seen.lock().push(what.to_owned());
    }

    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }

    pub(crate) async fn closed(&mut self) {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest).await;
    }
}

pub(crate) struct PoolFixture {
    pub(crate) pool: Arc<Pool>,
    pub(crate) clock: Arc<ManualClock>,
}

impl PoolFixture {
    pub(crate) fn new(nodes: &[&ScriptedNode]) -> Self {
        PoolFixture::with(&nodes.iter().map(|node| node.url()).collect::<Vec<_>>(), PoolLimits::default())
    }

    pub(crate) fn with(urls: &[String], limits: PoolLimits) -> Self {
        let nodes = urls.iter().map(|url| NodeConfig::new(url.parse().unwrap())).collect();
        PoolFixture::of(nodes, limits)
    }

    pub(crate) fn of(nodes: Vec<NodeConfig>, limits: PoolLimits) -> Self {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_700_000_000)));
        // The clock does not move, so no connection would ever have rested long enough.
        let limits = limits.with_rest(Duration::ZERO);
        PoolFixture { pool: Pool::new(Toy.facts(), nodes, limits, clock.clone()), clock }
    }

    /// Returns the body of the answer to `ask`, which must be complete.
    pub(crate) async fn complete(&self, ask: NodeRequest) -> Result<String, NodeRequestError> {
        match self.pool.ask(&ask, &mut MemoryPermit::default()).await?.body {
            AnswerBody::Complete(body) => Ok(String::from_utf8(body.to_vec()).unwrap()),
            AnswerBody::Larger { .. } => panic!("larger than collected"),
        }
    }

    pub(crate) async fn read(&self) -> Result<String, NodeRequestError> {
        self.complete(call("read")).await
    }

    pub(crate) async fn broadcast(&self) -> Result<String, NodeRequestError> {
        self.complete(NodeRequest { broadcast: true, ..call("send") }).await
    }

    pub(crate) async fn until(&self, so: impl Fn(&Pool) -> bool) {
        let wait = async {
            while !so(&self.pool) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), wait).await.expect("it never became so");
    }

    /// Returns the number of idle connections, without those that the node closed.
    pub(crate) fn idle(&self) -> usize {
        self.pool.sweep();
        self.pool.nodes().map(|node| node.idle).sum()
    }
}

pub(crate) fn call(body: &'static str) -> NodeRequest {
    NodeRequest::json_rpc(Bytes::from_static(body.as_bytes()))
}

/// A node that refuses connections. It reserves a port without listening, so that no other process can use the port.
pub(crate) struct Refusing(TcpSocket);

impl Refusing {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Refusing(socket)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().unwrap())
    }

    pub(crate) fn listen(self) -> TcpListener {
        self.0.listen(16).unwrap()
    }
}

pub(crate) fn answer(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

pub(crate) const fn broken() -> NodeRequestError {
    NodeRequestError::Fault(Fault::sent(Cause::Broken))
}

pub(crate) const fn undecodable() -> NodeRequestError {
    NodeRequestError::Fault(Fault::sent(Cause::Undecodable))
}

/// Starts a node that answers the first `good` requests of each connection and runs `then` for the next.
pub(crate) async fn failing<R: Future<Output = ()> + Send + 'static>(
    good: usize,
    then: impl Fn(Wire) -> R + Clone + Send + Sync + 'static,
) -> ScriptedNode {
    ScriptedNode::serve(move |_, mut wire| {
        let then = then.clone();
        async move {
            for _ in 0..good {
                if wire.request().await.is_none() {
                    return;
                }
                wire.write(answer("{}")).await;
            }
            if wire.request().await.is_some() {
                then(wire).await;
            }
        }
    })
    .await
}

pub(crate) fn ending_after(millis: u64) -> PoolLimits {
    let retry = RetryPolicy { deadline: Duration::from_millis(millis), ..RetryPolicy::default() };
    PoolLimits { retry, ..PoolLimits::default() }
}
