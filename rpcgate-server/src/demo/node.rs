//! Simulated nodes on local ports: HTTP/1.1 and WebSocket. A submission is stored before its answer.

mod stream;

mod grpc;

use super::submissions::Submissions;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use rpcgate_core::clock::Clock;
use rpcgate_layers::transport::ws::{BadHandshake, ClientHandshake};
use rpcgate_process::accept::{Acceptor, ConnectionBound};
use rpcgate_simulate::{
    Dial, Disturbance, NodeReply, Simulated, SimulatedRequest, SimulatedStreams, StreamDial,
    StreamDisturbance, StreamFate,
};
use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use grpc::{GrpcDisturbance, GrpcNodeListener, GrpcNodeServer};

/// The largest request body of any real node, a UTXO daemon's.
const BODY: usize = 32 << 20;
const BACKLOG: u32 = 1_024;

/// A bound socket that queues connections for a later node.
#[derive(Debug)]
pub struct NodeListener {
    acceptor: Acceptor,
}

impl NodeListener {
    /// Binds a free port of 127.0.0.1.
    ///
    /// # Errors
    /// The operating system's, if no port is free.
    pub fn bind() -> io::Result<NodeListener> {
        Ok(NodeListener { acceptor: Acceptor::bind((Ipv4Addr::LOCALHOST, 0).into(), BACKLOG)? })
    }

    /// Returns the URL for a gateway.
    pub fn url(&self) -> String {
        format!("http://{}", self.acceptor.addr())
    }

    /// Returns the WebSocket URL for a gateway.
    pub fn ws_url(&self) -> String {
        format!("ws://{}", self.acceptor.addr())
    }

    /// Serves `node` here, by `clock`, with the faults of `dial`. Submissions are lost with it.
    pub fn serve(self, node: Box<dyn Simulated>, dial: Dial, clock: Arc<dyn Clock>) -> NodeServer {
        self.start(HostedNode { node, submissions: None, gone: false }, dial, clock)
    }

    /// Like [`NodeListener::serve`], but stores submissions.
    pub(super) fn serve_with_submissions(
        self,
        node: Box<dyn Simulated>,
        submissions: Submissions,
        dial: Dial,
        clock: Arc<dyn Clock>,
    ) -> NodeServer {
        self.start(HostedNode { node, submissions: Some(submissions), gone: false }, dial, clock)
    }

    fn start(self, hosted: HostedNode, dial: Dial, clock: Arc<dyn Clock>) -> NodeServer {
        let url = self.url();
        let ws_url = self.ws_url();
        let shared = Arc::new(Shared {
            hosted: Mutex::new(hosted),
            dial: Mutex::new(dial),
            stream_dial: Mutex::new(StreamDial::new(0)),
            strikes: watch::Sender::new(None),
            taken: watch::Sender::new(()),
            streams: AtomicUsize::new(0),
            clock,
        });
        let accepting = tokio::spawn(accept(self.acceptor, shared.clone()));
        NodeServer { url, ws_url, accepting, shared }
    }
}

/// A simulated node with a socket. Dropping it cuts every connection.
#[derive(Debug)]
pub struct NodeServer {
    url: String,
    ws_url: String,
    accepting: JoinHandle<()>,
    shared: Arc<Shared>,
}

impl NodeServer {
    /// Returns the URL for a gateway.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the WebSocket URL for a gateway.
    pub fn ws_url(&self) -> &str {
        &self.ws_url
    }

    /// Sets the faults of HTTP calls and of handshakes.
    pub fn set_dial(&self, dial: Dial) {
        *self.shared.dial.lock() = dial;
    }

    /// Sets the faults of streams that are opened later.
    pub fn set_stream_dial(&self, dial: StreamDial) {
        *self.shared.stream_dial.lock() = dial;
    }

    /// Strikes every open stream with a fault. It replaces an earlier one that has not been carried out.
    pub fn strike_streams(&self, disturbance: StreamDisturbance) {
        self.shared.strikes.send_replace(Some(disturbance));
    }

    /// Returns the number of open streams.
    pub fn open_streams(&self) -> usize {
        self.shared.streams.load(Ordering::Acquire)
    }
}

impl Drop for NodeServer {
    fn drop(&mut self) {
        // The connections are cut when the accepting task ends.
        self.accepting.abort();
        // They end a little later, and must not append to a file that may belong to the next demo.
        self.shared.hosted.lock().gone = true;
    }
}

/// A node and the file of its submissions, under one lock, so that submissions are stored in order.
#[derive(Debug)]
struct HostedNode {
    node: Box<dyn Simulated>,
    submissions: Option<Submissions>,
    /// Its server was dropped.
    gone: bool,
}

impl HostedNode {
    fn answer(&mut self, request: &SimulatedRequest<'_>, clock: &dyn Clock) -> Result<NodeReply, Cut> {
        if self.gone {
            return Err(Cut);
        }
        Ok(self.node.handle(request, clock.now()))
    }

    /// Returns the node's streams; `None` if it has none, or its server was dropped.
    fn streams(&mut self) -> Option<&mut dyn SimulatedStreams> {
        if self.gone { None } else { self.node.streams() }
    }

    /// Stores new submissions. Returns whether there were any.
    fn store(&mut self) -> bool {
        let taken = self.node.submitted();
        if let Some(submissions) = &mut self.submissions {
            submissions.add(&taken);
        }
        !taken.is_empty()
    }
}

#[derive(Debug)]
struct Shared {
    hosted: Mutex<HostedNode>,
    dial: Mutex<Dial>,
    stream_dial: Mutex<StreamDial>,
    /// The last fault that strikes all open streams.
    strikes: watch::Sender<Option<StreamDisturbance>>,
    /// Notifies streams of a submission.
    taken: watch::Sender<()>,
    streams: AtomicUsize,
    clock: Arc<dyn Clock>,
}

/// The fault that cuts the connection, or the end of the server.
#[derive(Debug)]
struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection was cut on purpose")
    }
}

impl std::error::Error for Cut {}

async fn accept(acceptor: Acceptor, shared: Arc<Shared>) {
    let cut = CancellationToken::new();
    let _cut_when_dropped = cut.clone().drop_guard();
    let connection = |stream, _, permit| {
        let shared = shared.clone();
        let cut = cut.clone();
        async move {
            cut.run_until_cancelled(connection(stream, shared)).await;
            drop(permit);
        }
    };
    acceptor.serve(ConnectionBound::NONE, &TaskTracker::new(), std::future::pending(), connection).await;
}

/// A stream that follows the response to a connection's last request.
type Upgrade = Mutex<Option<(OnUpgrade, StreamFate)>>;

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let upgrade = Arc::new(Upgrade::default());
    let service = service_fn(|request| {
        let shared = shared.clone();
        let upgrade = upgrade.clone();
        async move { shared.answer(request, &upgrade).await }
    });
    let served =
        http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.with_upgrades().await {
        tracing::debug!(%error, "the connection of a simulated node failed");
        return;
    }
    let upgrade = upgrade.lock().take();
    if let Some((upgrade, fate)) = upgrade
        && let Ok(upgraded) = upgrade.await
    {
        stream::serve(TokioIo::new(upgraded), &shared, fate).await;
    }
}

impl Shared {
    async fn answer(
        &self,
        mut request: Request<Incoming>,
        upgrade: &Upgrade,
    ) -> Result<Response<Full<Bytes>>, Cut> {
        let handshake = ClientHandshake::read(&request);
        let upgraded = handshake.is_ok().then(|| hyper::upgrade::on(&mut request));
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, BODY).collect().await else {
            // Broken or too long. The answer on a broken connection is never read.
            return Ok(response(NodeReply { status: 413, content_type: "text/plain", body: Vec::new() }));
        };
        let body = body.to_bytes();
        let fate = self.dial.lock().next();
        match fate {
            Disturbance::Hang => std::future::pending().await,
            Disturbance::Cut { delay } => {
                tokio::time::sleep(delay).await;
                Err(Cut)
            }
            Disturbance::Status { delay, status } => {
                tokio::time::sleep(delay).await;
                let body = b"<html><body>the node is not well</body></html>".to_vec();
                Ok(response(NodeReply { status, content_type: "text/html", body }))
            }
            Disturbance::Answer { delay } => {
                if delay > Duration::ZERO {
                    tokio::time::sleep(delay).await;
                }
                let has_streams = self.hosted.lock().streams().is_some();
                match (handshake, upgraded) {
                    (Ok(handshake), Some(upgraded)) if has_streams => {
                        *upgrade.lock() = Some((upgraded, self.stream_dial.lock().next()));
                        return Ok(handshake.response(None).map(|()| Full::default()));
                    }
                    (Err(error @ (BadHandshake::Version | BadHandshake::Key)), _) if has_streams => {
                        let body = error.to_string().into_bytes();
                        return Ok(response(NodeReply { status: 400, content_type: "text/plain", body }));
                    }
                    _ => {}
                }
                let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
                let request = SimulatedRequest { method: &head.method, path, body: &body };
                let mut hosted = self.hosted.lock();
                let reply = hosted.answer(&request, &*self.clock)?;
                self.store(&mut hosted);
                Ok(response(reply))
            }
        }
    }

    /// Stores new submissions and notifies the streams.
    fn store(&self, hosted: &mut HostedNode) {
        if hosted.store() {
            self.taken.send_replace(());
        }
    }
}

fn response(reply: NodeReply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(reply.body)));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or_default();
    let kind = http::HeaderValue::from_static(reply.content_type);
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::clock::{ManualClock, Time};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const NOW: Time = Time::from_secs(1_800_000_000);

    async fn node(chain: &str, dial: Dial) -> (NodeServer, String) {
        let listener = NodeListener::bind().unwrap();
        let address = listener.acceptor.addr().to_string();
        let clock = Arc::new(ManualClock::at(NOW));
        let node = rpcgate_simulate::node(chain, 7).unwrap();
        (listener.serve(node, dial, clock), address)
    }

    fn post(body: &str) -> String {
        format!("POST / HTTP/1.1\r\nHost: n\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    /// Reads until `end`, or until the other side is done.
    async fn read(stream: &mut TcpStream, end: &str) -> String {
        let mut text = String::new();
        let mut part = [0; 1024];
        while !text.contains(end) {
            match stream.read(&mut part).await {
                Ok(0) | Err(_) => break,
                Ok(count) => text.push_str(&String::from_utf8_lossy(&part[..count])),
            }
        }
        text
    }

    #[tokio::test]
    async fn one_connection_carries_one_call_after_another() {
        let (_node, address) = node("eth", Dial::new(1)).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        for id in 1..=3 {
            let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"eth_chainId"}}"#);
            stream.write_all(post(&call).as_bytes()).await.unwrap();
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"0x1"}}"#);
            let text = read(&mut stream, &answer).await;
            assert!(text.starts_with("HTTP/1.1 200") && text.ends_with(&answer), "{text}");
        }
    }

    #[tokio::test]
    async fn requests_other_than_post_are_answered_as_the_daemon_would() {
        for (chain, method, status) in
            [("eth", "GET", 200), ("eth", "HEAD", 405), ("btc", "GET", 405), ("btc", "HEAD", 405)]
        {
            let (_node, address) = node(chain, Dial::new(1)).await;
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("{method} / HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let text = read(&mut stream, "nothing ends it").await;
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{chain} {method}: {text}");
            assert!(method != "HEAD" || text.ends_with("\r\n\r\n"), "{chain} {method}: {text}");
        }
    }

    #[tokio::test]
    async fn a_body_beyond_the_daemons_limit_is_refused() {
        let (_node, address) = node("btc", Dial::new(1)).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("POST / HTTP/1.1\r\nHost: n\r\nContent-Length: {}\r\n\r\n", BODY + 1);
        stream.write_all(head.as_bytes()).await.unwrap();
        let piece = vec![b' '; 1 << 20];
        for _ in 0..=BODY / piece.len() {
            // The node answers before it has read everything, and may then close.
            if stream.write_all(&piece).await.is_err() {
                break;
            }
        }
        let text = read(&mut stream, "\r\n\r\n").await;
        assert!(text.starts_with("HTTP/1.1 413 "), "{text}");
    }

    #[tokio::test]
    async fn the_faults_of_the_dial_are_carried_out() {
        let call = post(r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#);
        let mut dial = Dial::new(3);
        dial.error_rate = 1.0;
        let (_node, address) = node("eth", dial).await;
        let mut cuts = 0;
        let mut statuses = 0;
        for _ in 0..40 {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            stream.write_all(call.as_bytes()).await.unwrap();
            match read(&mut stream, "</html>").await {
                text if text.is_empty() => cuts += 1,
                text => {
                    assert!(text.starts_with("HTTP/1.1 50"), "{text}");
                    statuses += 1;
                }
            }
        }
        assert!(cuts > 0 && statuses > 0, "{cuts} cut, {statuses} answered");
    }

    #[tokio::test]
    async fn a_hanging_node_closes_its_connections_when_dropped() {
        let mut dial = Dial::new(3);
        dial.hang_rate = 1.0;
        let (node, address) = node("eth", dial).await;
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let call = post(r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#);
        stream.write_all(call.as_bytes()).await.unwrap();
        drop(node);
        assert_eq!(read(&mut stream, "nothing ends it").await, "");
        assert!(TcpStream::connect(&address).await.is_err());
    }
}
