//! A client that writes HTTP/1.1 exactly as given and reads the answers.

#![expect(clippy::unwrap_used, reason = "what a client of the tests cannot do fails its test")]

use crate::TIMEOUT;
use serde_json::Value;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// A client with a key, on a kept-alive connection.
#[derive(Debug)]
pub struct TestClient {
    addr: SocketAddr,
    key: Option<String>,
    kept: Mutex<Option<Connection>>,
    id: AtomicU64,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct TestReply {
    /// The HTTP status.
    pub status: u16,
    /// The headers in their order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, chunks joined.
    pub body: Vec<u8>,
}

impl TestReply {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Returns the number in a header.
    ///
    /// # Panics
    /// When it is missing or no number.
    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        let Some(value) = self.header(name) else { panic!("{name} is missing: {self:?}") };
        value.parse().unwrap()
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(json) => json,
            Err(error) => panic!("{error}: {self:?}"),
        }
    }

    /// Returns the JSON-RPC error number; 0 for an answer without one.
    pub fn code(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap_or_default()
    }

    /// Returns the JSON-RPC error numbers of a batch's items in order; 0 for those without one.
    pub fn codes(&self) -> Vec<i64> {
        let json = self.json();
        let items = json.as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["error"]["code"].as_i64().unwrap_or_default()).collect()
    }

    /// Returns the value of `x-compute-units`.
    #[track_caller]
    pub fn cu(&self) -> u64 {
        self.number("x-compute-units")
    }

    /// Returns the value of `x-cache`.
    pub fn cache(&self) -> &str {
        self.header("x-cache").unwrap_or_default()
    }
}

/// One connection to a server.
#[derive(Debug)]
pub struct Connection {
    stream: BufStream<TcpStream>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// When nothing listens there.
    pub async fn open(addr: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream: BufStream::new(stream) })
    }

    /// Writes bytes unchanged.
    ///
    /// # Errors
    /// When the server has closed.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// Reads one answer. With `head` it answers a HEAD request and has no body.
    ///
    /// # Errors
    /// When the connection ends before the answer does.
    pub async fn read(&mut self, head: bool) -> io::Result<TestReply> {
        match timeout(TIMEOUT, self.read_on(head)).await {
            Ok(reply) => reply,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    async fn read_on(&mut self, head: bool) -> io::Result<TestReply> {
        let status_line = self.line().await?;
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status: u16 =
            status.ok_or_else(|| io::Error::other(format!("no status line: {status_line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| io::Error::other("no header"))?;
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
        let mut reply = TestReply { status, headers, body: Vec::new() };
        if head || status == 204 || status == 304 {
        } else if reply.header("transfer-encoding") == Some("chunked") {
            loop {
                let size = self.line().await?;
                let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
                let mut chunk = vec![0; size];
                self.stream.read_exact(&mut chunk).await?;
                self.line().await?;
                reply.body.extend(chunk);
                if size == 0 {
                    break;
                }
            }
        } else if let Some(length) = reply.header("content-length") {
            reply.body = vec![0; length.parse().map_err(io::Error::other)?];
            self.stream.read_exact(&mut reply.body).await?;
        } else {
            self.stream.read_to_end(&mut reply.body).await?;
        }
        Ok(reply)
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).await?;
        if line.pop() != Some(b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        String::from_utf8(line).map_err(io::Error::other)
    }

    /// Waits until the server closes. Returns the bytes that arrived before.
    ///
    /// # Panics
    /// When it does not.
    pub async fn closed(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let closed = timeout(TIMEOUT, self.stream.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "the server keeps the connection open");
        rest
    }
}

impl TestClient {
    /// Creates a client of the server at `addr` with this key.
    pub fn new(addr: SocketAddr, key: Option<&str>) -> Self {
        let key = key.map(str::to_owned);
        TestClient { addr, key, kept: Mutex::default(), id: AtomicU64::new(1_000) }
    }

    /// Returns the same client on another connection.
    pub fn another(&self) -> Self {
        TestClient::new(self.addr, self.key.as_deref())
    }

    /// Calls `method` at `/<chain>` under a new id.
    pub async fn call(&self, chain: &str, method: &str, params: &str) -> TestReply {
        let id = self.id.fetch_add(1, Relaxed);
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        self.post(chain, body).await
    }

    /// Posts `calls` (method and params) at `/<chain>` as an array under the ids 0, 1, 2, …
    pub async fn batch(&self, chain: &str, calls: &[(&str, &str)]) -> TestReply {
        self.post(chain, batch(calls)).await
    }

    /// Posts these bytes to `/<chain>`.
    pub async fn post(&self, chain: &str, body: impl AsRef<[u8]>) -> TestReply {
        self.send("POST", &format!("/{chain}"), &[], body.as_ref()).await
    }

    /// Sends a request with additional headers. A `host` among them replaces the usual one.
    ///
    /// # Panics
    /// When no answer comes.
    pub async fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> TestReply {
        let mut request = format!("{method} {target} HTTP/1.1\r\n");
        if headers.iter().all(|(name, _)| *name != "host") {
            request += "host: gateway\r\n";
        }
        let key = self.key.iter().map(|key| ("apikey", key.as_str()));
        for (name, value) in key.chain(headers.iter().copied()) {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("content-length: {}\r\n\r\n", body.len());
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(body);
        self.raw(&bytes, method == "HEAD").await
    }

    async fn raw(&self, bytes: &[u8], head: bool) -> TestReply {
        let mut kept = self.kept.lock().await;
        // The server may have closed the kept-alive connection.
        if let Some(mut connection) = kept.take() {
            let read = match connection.write(bytes).await {
                Ok(()) => connection.read(head).await,
                Err(error) => Err(error),
            };
            if let Ok(reply) = read {
                return keep(&mut kept, connection, reply);
            }
        }
        let mut connection = Connection::open(self.addr).await.unwrap();
        // A server may answer and close before it has read everything.
        let written = connection.write(bytes).await;
        match connection.read(head).await {
            Ok(reply) => keep(&mut kept, connection, reply),
            Err(error) => panic!("no answer: {error} (written: {written:?})"),
        }
    }
}

fn keep(kept: &mut Option<Connection>, connection: Connection, reply: TestReply) -> TestReply {
    if reply.header("connection") != Some("close") {
        *kept = Some(connection);
    }
    reply
}

/// Returns an array of calls (method and params) under the ids 0, 1, 2, …
pub fn batch(calls: &[(&str, &str)]) -> String {
    let item = |(id, (method, params)): (usize, &(&str, &str))| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    };
    let items: Vec<_> = calls.iter().enumerate().map(item).collect();
    format!("[{}]", items.join(","))
}
