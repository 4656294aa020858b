//! A gateway that runs: started, reloaded, drained.

use crate::access::AccessLog;
use crate::assemble::{self, Backends};
use crate::counting::Counting;
use crate::journal::JournalError;
use crate::listen::Connections;
use crate::listen::http::{Bounds, Listener};
use crate::listen::tls::{self, BadCertificate};
use crate::metrics::{self, MetricsListener, Reloads, Watched};
use crate::nodes;
use crate::reload::Reloadable;
use crate::state::{Keys, State};
use parking_lot::Mutex;
use rpcgate_admin::store::NodeState;
use rpcgate_core::backend::counters::MemoryCounters;
use rpcgate_core::backend::directory::Directory;
use rpcgate_core::backend::usage_observer::ObservedSink;
use rpcgate_core::backend::usage_sink::{MemoryUsageSink, UsageSink};
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_core::config::{Config, Overlay};
use rpcgate_layers::call::cache::BoundedReplies;
use rpcgate_layers::redis::{BadRedis, NoSeed, Standing};
use rpcgate_layers::stack::{Parts, http_stack};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::task::{AbortHandle, JoinHandle};

/// What a gateway is started with beside its configuration.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// What outlives the process: its journal, its counters, and the keys of the management database behind those of
    /// the configuration. The gateway is ready once it is, and closes it at the end of its drain. If absent, nothing
    /// outlives the process but what the next three take elsewhere.
    pub state: Option<Arc<State>>,
    /// Where records go; if absent, to the journal of `state`; without one nowhere, and the log says so.
    pub sink: Option<Arc<dyn UsageSink>>,
    /// Who may call; if absent, the keys of the configuration, which a reload replaces, and those of `state`.
    pub directory: Option<Arc<dyn Directory>>,
    /// Counters of this process, and what is counted already; if absent, those of the configuration: in Redis, or in
    /// the process, with what `state` has counted.
    pub counters: Option<Arc<MemoryCounters>>,
    /// Client connections that may be open at a time; one more is answered 503 and closed.
    pub connections: usize,
}

impl Default for StartOptions {
    /// The machine's clock, memory and the configuration's keys; 32,768 connections.
    fn default() -> Self {
        StartOptions {
            clock: Arc::new(SystemClock::new()),
            state: None,
            sink: None,
            directory: None,
            counters: None,
            connections: 32_768,
        }
    }
}

/// Why a gateway did not start, or did not take a new configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("gateway.listen: {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The address for metrics cannot be listened on.
    #[error(
        "telemetry.listen: {addr}: {source}; each program on a host needs one of its own (RPCGATE_TELEMETRY__LISTEN)"
    )]
    Telemetry {
        /// The address.
        addr: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// Certificate or key cannot be used.
    #[error(transparent)]
    Certificate(#[from] BadCertificate),
    /// A node cannot be used.
    #[error("chains.{chain}.nodes: {why}")]
    Node {
        /// The chain's path.
        chain: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// There can be no journal there.
    #[error("journal.dir {path}: {why}")]
    Folder {
        /// The path.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// There can be no Redis at this URL.
    #[error(transparent)]
    Redis(#[from] BadRedis),
    /// There can be no database at this URL.
    #[error("{0}")]
    Database(String),
}

impl StartError {
    /// Whether the configuration must be mended, rather than the machine.
    pub const fn is_configuration(&self) -> bool {
        match self {
            StartError::Listen { .. }
            | StartError::Telemetry { .. }
            | StartError::Journal(JournalError::InUse { .. } | JournalError::Thread(_)) => false,
            StartError::Certificate(_)
            | StartError::Node { .. }
            | StartError::Folder { .. }
            | StartError::Database(_)
            | StartError::Redis(_)
            | StartError::Journal(_) => true,
        }
    }
}

/// Looks at what a configuration refers to, as a start would, without starting anything.
///
/// # Errors
/// [`StartError`] with the first thing that a start would stumble over.
pub fn dry_run(config: &Config) -> Result<(), StartError> {
    if let Some(pair) = config.gateway.tls.pair() {
        tls::config(pair)?;
    }
    State::check(config)?;
    Counting::check(config)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    for adapter in rpcgate_chains::catalog() {
        let name = adapter.facts().name;
        if let Some(chain) = config.chains.get(name.as_str()) {
            nodes::pool(adapter.facts(), chain, &clock)
                .map_err(|why| StartError::Node { chain: name.as_str(), why })?;
        }
    }
    Ok(())
}

/// How a drain ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drained {
    /// Connections that were cut when the grace was over.
    pub cut: usize,
}

/// A gateway that serves. Dropped without [`drain`](Gateway::drain), it ends at once, calls in flight included.
pub struct Gateway {
    addr: SocketAddr,
    live: Arc<Reloadable>,
    state: Option<Arc<State>>,
    connections: Arc<Connections>,
    counting: Counting,
    accepting: Mutex<Option<JoinHandle<()>>>,
    sweeping: AbortHandle,
    metrics: Option<(SocketAddr, AbortHandle)>,
    reloads: Arc<Reloads>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("addr", &self.addr).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Starts a gateway: when this returns, it accepts connections.
    ///
    /// # Errors
    /// [`StartError`]; then nothing runs.
    pub async fn start(config: Config, options: StartOptions) -> Result<Gateway, StartError> {
        let StartOptions { clock, state, sink, directory, counters, connections } = options;
        let (keys, directory) = match directory {
            Some(directory) => (None, directory),
            None => {
                let keys = Arc::new(Keys::new(&config, state.as_ref().map(|state| state.directory())));
                (Some(keys.clone()), keys as Arc<dyn Directory>)
            }
        };
        let journal = state.as_ref().filter(|_| sink.is_none()).map(|state| state.journal());
        let sink = sink.or_else(|| Some(state.as_ref()?.sink())).unwrap_or_else(|| {
            tracing::warn!("usage is metered but not kept: nobody said where");
            // Nothing in this process could read records, so none are held.
            Arc::new(MemoryUsageSink::bounded(0))
        });
        let counting = match (counters, &state) {
            (Some(counters), _) => Counting::Here(counters),
            (None, Some(state)) => state.counters(),
            (None, None) => Counting::open(&config, Arc::new(NoSeed))?,
        };
        let scraped = config
            .telemetry
            .listen
            .map(|addr| MetricsListener::bind(addr).map_err(|source| StartError::Telemetry { addr, source }));
        // Without anybody to ask, nothing is counted.
        let (sink, scraped) = match scraped.transpose()? {
            None => (sink, None),
            Some(listener) => {
                let (sink, calls) = metrics::counted(sink, journal);
                (sink, Some((listener, calls)))
            }
        };
        let sink: Arc<dyn UsageSink> = Arc::new(ObservedSink::new(sink, Arc::new(AccessLog)));
        for setting in without_effect(&config, state.is_some()) {
            tracing::warn!(setting, "this setting has no effect in this version");
        }
        let listen = config.gateway.listen;
        let bounds = Bounds::new(&config.gateway.limits, connections);
        let listener =
            Listener::bind(listen).map_err(|source| StartError::Listen { addr: listen, source })?;
        let addr = listener.addr();
        let live = Arc::new(Reloadable::new(config.clone(), clock.clone(), keys, state.clone())?);
        if let Some(state) = &state {
            let live = Arc::downgrade(&live);
            let told = live.clone();
            state.attach(move |overlay| live.upgrade().map_or(Ok(()), |live| live.overlay(overlay)));
            state.tell_standing(move || told.upgrade().map(|live| live.standing()).unwrap_or_default());
        }
        let replies = Arc::new(BoundedReplies::new(config.cache.bytes));
        let backends = Backends {
            clock: clock.clone(),
            sink: sink.clone(),
            directory,
            counters: counting.clone(),
            replies: replies.clone(),
        };
        let (chains, pools, safeguard) = (live.chains.clone(), live.pools.clone(), live.safeguard.clone());
        let (parts, swept) = assemble::parts(&config, backends, chains, pools, safeguard);
        let connections = Connections::behind(sink, state.clone());
        let parts = Parts { spawn: connections.clone(), ..parts };
        let accepting = tokio::spawn(listener.serve(
            http_stack(parts),
            bounds,
            live.certificate.clone(),
            connections.clone(),
        ));
        let sweeping = tokio::spawn(swept.run());
        let reloads = Arc::<Reloads>::default();
        let metrics = scraped.map(|(listener, calls)| {
            let addr = listener.addr();
            let watched = Watched {
                live: live.clone(),
                connections: connections.clone(),
                state: state.clone(),
                replies,
                counting: counting.clone(),
                reloads: reloads.clone(),
                clock,
            };
            tracing::info!(%addr, "metrics at /metrics");
            (addr, tokio::spawn(listener.serve(metrics::page(calls, watched))).abort_handle())
        });
        let served: Vec<&str> = live
            .chains
            .load()
            .iter()
            .filter(|chain| chain.is_served())
            .map(|chain| chain.name().as_str())
            .collect();
        tracing::info!(%addr, tls = live.certificate.is_some(), chains = %served.join(","), "serving");
        Ok(Gateway {
            addr,
            live,
            state,
            connections,
            counting,
            accepting: Mutex::new(Some(accepting)),
            sweeping: sweeping.abort_handle(),
            metrics,
            reloads,
        })
    }

    /// Where it listens: with the port that was picked, where 0 was asked for.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where Prometheus finds `/metrics`; `None` without `telemetry.listen`.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|(addr, _)| *addr)
    }

    /// Its URL, without a path.
    pub fn url(&self) -> String {
        let scheme = if self.live.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.addr)
    }

    /// Whether it wants requests: what `/readyz` says.
    pub fn ready(&self) -> bool {
        self.connections.unready().is_none()
    }

    /// How the counters in Redis stand; `None`: they are in the process.
    pub fn counters(&self) -> Option<Standing> {
        self.counting.standing()
    }

    /// Client connections that are open.
    pub fn connections(&self) -> usize {
        self.connections.open()
    }

    /// How the nodes stand, by chain, in the order of the configuration.
    pub fn nodes(&self) -> Vec<NodeState> {
        self.live.nodes()
    }

    /// Puts another configuration in force for chains, their nodes, plans, keys, the certificate and the grace. Gives
    /// back the tables that differ but need a restart. Nothing that goes on is disturbed: no connection is dropped, and
    /// pools and heads of chains whose nodes stay the same are kept.
    ///
    /// # Errors
    /// [`StartError`]; then all is as it was before.
    pub fn reload(&self, config: Config) -> Result<Vec<&'static str>, StartError> {
        let done = self.live.replace(config);
        self.reloads.count(done.is_ok());
        done
    }

    /// Counts a configuration that was to be put in force and could not be read.
    pub fn refuse_reload(&self) {
        self.reloads.count(false);
    }

    /// Puts what operators set over the configuration, in the place of what they had set before. It stays over what a
    /// [`reload`](Gateway::reload) brings. A gateway with a state does this by itself.
    ///
    /// # Errors
    /// [`StartError`]; then all is as it was before.
    pub fn overlay(&self, overlay: &Overlay) -> Result<(), StartError> {
        self.live.overlay(overlay)
    }

    /// Ends it with good manners: readiness is gone, nothing is accepted any more, connections without a call are
    /// closed, calls in flight are finished; what is not done after `shutdown.grace` is cut. Then what was recorded is
    /// shipped, and its state is closed.
    pub async fn drain(&self) -> Drained {
        self.connections.close();
        let accepting = self.accepting.lock().take();
        if let Some(accepting) = accepting {
            // The socket goes with it: from here on nobody can connect. It has no other end than its own.
            let _ = accepting.await;
        }
        let cut = self.connections.wait(self.live.grace()).await;
        self.stop();
        self.counting.close().await;
        if let Some(state) = &self.state {
            state.close().await;
        }
        Drained { cut }
    }

    fn stop(&self) {
        self.sweeping.abort();
        if let Some((_, metrics)) = &self.metrics {
            metrics.abort();
        }
        self.live.stop();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
        self.connections.close();
        self.connections.cut();
    }
}

/// Settings that somebody gave and that nothing here acts on.
fn without_effect(config: &Config, has_state: bool) -> Vec<&'static str> {
    let nodes = || config.chains.values().flat_map(|chain| &chain.nodes);
    let settings = [
        ("gateway.ws", config.gateway.ws != Default::default()),
        ("database", !has_state && config.database != Default::default()),
        ("journal", !has_state && config.journal != Default::default()),
        ("retention", !has_state && config.retention != Default::default()),
        ("webhooks", config.webhooks != Default::default()),
        ("gateway.grpc_listen", config.gateway.grpc_listen.is_some()),
        ("telemetry.otlp_url", config.telemetry.otlp_url.is_some()),
        ("chains.*.nodes.ws", nodes().any(|node| node.ws.is_some())),
        ("chains.*.nodes.grpc", nodes().any(|node| node.grpc.is_some())),
    ];
    settings.into_iter().filter(|(_, given)| *given).map(|(setting, _)| setting).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::captured_log::CapturedLog;
    use crate::command::run;
    use rpcgate_admin::process::load;
    use rpcgate_core::config::{LogFormat, Setting};
    use std::path::{Path, PathBuf};
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::Semaphore;

    pub(crate) const KEY: &str = "rpcg_ABCDEFGsecretsecretsecret";
    const OTHER: &str = "rpcg_HIJKLMNsecretsecretsecret";

    /// A node that answers `"0x10"` to everything; a call named `held` waits for a permit.
    pub(crate) struct Node {
        pub(crate) addr: SocketAddr,
        permits: Arc<Semaphore>,
        asked: Arc<Semaphore>,
    }

    impl Node {
        pub(crate) async fn start() -> Node {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            let node =
                Node { addr, permits: Arc::new(Semaphore::new(0)), asked: Arc::new(Semaphore::new(0)) };
            let (permits, asked) = (node.permits.clone(), node.asked.clone());
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(answer_all(stream, permits.clone(), asked.clone()));
                }
            });
            node
        }
    }

    async fn answer_all(mut stream: TcpStream, permits: Arc<Semaphore>, asked: Arc<Semaphore>) {
        let mut text = Vec::new();
        while stream.read_buf(&mut text).await.is_ok_and(|read| read > 0) {
            let got = String::from_utf8_lossy(&text).into_owned();
            let Some((_, body)) = got.split_once("\r\n\r\n") else { continue };
            if !body.ends_with('}') {
                continue;
            }
            if body.contains("held") {
                asked.add_permits(1);
                permits.acquire().await.unwrap().forget();
            }
            let answer = r#"{"jsonrpc":"2.0","id":1,"result":"0x10"}"#;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
            stream.write_all(format!("{head}{answer}").as_bytes()).await.unwrap();
            text.clear();
        }
    }

    struct Fixture {
        node: Node,
        file: PathBuf,
        dir: tempfile::TempDir,
        gateway: Gateway,
    }

    fn config(file: &Path) -> Config {
        load(Some(file), &[], &[Setting::new("--gateway", "gateway.listen", "127.0.0.1:0")]).unwrap()
    }

    impl Fixture {
        async fn new(more: &str) -> Fixture {
            let (node, dir) = (Node::start().await, tempfile::tempdir().unwrap());
            let file = dir.path().join("rpcgate.toml");
            std::fs::write(&file, text(&node, more)).unwrap();
            let gateway = Gateway::start(config(&file), StartOptions::default()).await.unwrap();
            Fixture { node, file, dir, gateway }
        }

        /// Puts another file in the place of the old one and reads it.
        fn reload(&self, more: &str) {
            std::fs::write(&self.file, text(&self.node, more)).unwrap();
            run::reload(&self.gateway, &self.file);
        }

        async fn send(&self, request: &str) -> String {
            send(self.gateway.addr(), request).await
        }

        async fn call(&self, key: &str, method: &str) -> String {
            self.send(&post("/eth", key, method)).await
        }
    }

    fn text(node: &Node, more: &str) -> String {
        format!(
            "[gateway]\nlisten = \"127.0.0.1:0\"\n[tenants.default]\nplan = \"enterprise\"\n[keys.k]\nkey = {KEY:?}\n\
             [chains.eth]\nnodes = [\"http://{}\"]\n{more}",
            node.addr
        )
    }

    pub(crate) fn post(path: &str, key: &str, method: &str) -> String {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":[]}}"#);
        format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\napikey: {key}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    /// Sends a request over a connection of its own.
    pub(crate) async fn send(addr: SocketAddr, request: &str) -> String {
        let mut client = TcpStream::connect(addr).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        read(&mut client).await
    }

    pub(crate) async fn read(client: &mut TcpStream) -> String {
        let mut text = Vec::new();
        // A connection that is reset says no more than one that is closed.
        let _ = client.read_to_end(&mut text).await;
        String::from_utf8_lossy(&text).into_owned()
    }

    pub(crate) fn is_served(answer: &str) -> bool {
        answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(r#""result":"0x10"}"#)
    }

    pub(crate) fn units(answer: &str) -> &str {
        answer.split("x-compute-units: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap_or("none")
    }

    #[tokio::test]
    async fn a_call_goes_to_its_node_and_comes_back() {
        let fixture = Fixture::new("").await;
        assert!(fixture.gateway.ready());
        let answer = fixture.call(KEY, "some_method").await;
        assert!(is_served(&answer), "{answer}");
        assert!(fixture.call("nobody's", "some_method").await.starts_with("HTTP/1.1 401 "));
        let answer = fixture.send(&post("/btc", KEY, "getblockcount")).await;
        assert!(answer.contains("chain not available at this location"), "{answer}");
    }

    #[tokio::test]
    async fn heads_above_the_limits_are_refused_in_words() {
        let fixture = Fixture::new("").await;
        let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(9 << 10));
        let large = format!("POST /eth HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(17 << 10));
        for (request, status, words) in
            [(long, "414", "URI too long"), (large, "431", "request headers too large")]
        {
            let answer = fixture.send(&request).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
            assert!(answer.ends_with(&format!("{{\"message\":\"{words}\"}}")), "{answer}");
        }
        let many = |count| (0..count).map(|n| format!("x-{n}: y\r\n")).collect::<String>();
        // Of the second one hyper itself says so.
        for count in [101, 500] {
            let answer = fixture.send(&format!("POST /eth HTTP/1.1\r\n{}\r\n", many(count))).await;
            assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
            assert!(answer.ends_with("{\"message\":\"request headers too large\"}"), "{answer}");
        }
        for strange in ["POST /eth\r\n\r\n", "POST /eth HTTP/1.1\r\nx y\r\n\r\n", "\0\r\n\r\n"] {
            let answer = fixture.send(strange).await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{strange}: {answer}");
            assert!(answer.ends_with("{\"message\":\"bad request\"}"), "{answer}");
        }
    }

    #[tokio::test]
    async fn a_request_that_says_in_two_ways_how_long_it_is_is_refused_and_ends_its_connection() {
        let fixture = Fixture::new("").await;
        let lines = ["content-length: 4", "Transfer-Encoding: chunked"];
        for [one, other] in [lines, [lines[1], lines[0]]] {
            let request = format!(
                "POST /eth HTTP/1.1\r\nhost: x\r\napikey: {KEY}\r\n{one}\r\n{other}\r\n\r\n0\r\n\r\n{}",
                post("/eth", KEY, "some_method")
            );
            let answer = fixture.send(&request).await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
            assert!(answer.contains("connection: close\r\n"), "{answer}");
            assert_eq!(answer.matches("HTTP/1.1").count(), 1, "what follows is not answered: {answer}");
        }
        // As long a head as there may be, the length last.
        let (path, long) = ("x".repeat(8_000), "y".repeat(15_000));
        let request =
            format!("POST /{path} HTTP/1.1\r\nhost: x\r\nx: {long}\r\n{}\r\n{}\r\n\r\n", lines[1], lines[0]);
        let answer = fixture.send(&request).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("bad request"), "{answer}");
        assert!(is_served(&fixture.call(KEY, "some_method").await));
    }

    #[tokio::test]
    async fn an_encoded_request_right_behind_one_with_a_length_is_served() {
        let fixture = Fixture::new("").await;
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"some_method"}"#;
        let head = format!("POST /eth HTTP/1.1\r\nhost: x\r\napikey: {KEY}\r\nconnection: close\r\n");
        let encoded =
            format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{call}\r\n0\r\n\r\n", call.len());
        let before = post("/eth", KEY, "some_method").replace("connection: close\r\n", "");
        let answers = fixture.send(&(before + &encoded)).await;
        assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 2, "{answers}");
    }

    #[tokio::test]
    async fn a_drain_finishes_the_call_in_flight_and_accepts_nobody() {
        let fixture = Fixture::new("").await;
        let mut client = TcpStream::connect(fixture.gateway.addr()).await.unwrap();
        client.write_all(post("/eth", KEY, "held").as_bytes()).await.unwrap();
        fixture.node.asked.acquire().await.unwrap().forget();
        let drain = async {
            let drained = fixture.gateway.drain().await;
            assert_eq!(drained, Drained { cut: 0 });
        };
        let rest = async {
            while fixture.gateway.ready() {
                tokio::task::yield_now().await;
            }
            while TcpStream::connect(fixture.gateway.addr()).await.is_ok() {
                tokio::task::yield_now().await;
            }
            fixture.node.permits.add_permits(1);
            let answer = read(&mut client).await;
            assert!(is_served(&answer), "{answer}");
        };
        tokio::join!(drain, rest);
        assert_eq!(fixture.gateway.connections(), 0);
    }

    #[tokio::test]
    async fn a_call_beyond_the_grace_is_cut() {
        let fixture = Fixture::new("[shutdown]\ngrace = \"1ms\"\n").await;
        let mut client = TcpStream::connect(fixture.gateway.addr()).await.unwrap();
        client.write_all(post("/eth", KEY, "held").as_bytes()).await.unwrap();
        fixture.node.asked.acquire().await.unwrap().forget();
        assert_eq!(fixture.gateway.drain().await, Drained { cut: 1 });
        assert_eq!(read(&mut client).await, "");
    }

    #[tokio::test]
    async fn a_reload_changes_keys_weights_and_chains_at_once() {
        let fixture = Fixture::new("").await;
        let mut kept = TcpStream::connect(fixture.gateway.addr()).await.unwrap();
        assert_eq!(units(&fixture.call(KEY, "some_method").await), "1");
        fixture.reload(&format!("cu = {{ some_method = 7 }}\n[keys.other]\nkey = {OTHER:?}\n"));
        assert_eq!(units(&fixture.call(KEY, "some_method").await), "7");
        assert!(is_served(&fixture.call(OTHER, "some_method").await));
        fixture.reload("enabled = false\n");
        assert!(fixture.call(OTHER, "some_method").await.starts_with("HTTP/1.1 401 "));
        assert!(fixture.call(KEY, "some_method").await.contains("chain not available"));
        fixture.reload("");
        kept.write_all(post("/eth", KEY, "some_method").as_bytes()).await.unwrap();
        let answer = read(&mut kept).await;
        assert!(is_served(&answer), "a connection survives it: {answer}");
    }

    #[tokio::test]
    async fn a_file_that_is_wrong_changes_nothing_and_the_log_says_why() {
        let lines = CapturedLog::default();
        let _listening = lines.capture("info", LogFormat::Json);
        let fixture = Fixture::new("cu = { some_method = 7 }\n").await;
        fixture.reload("cu = { some_method = 8 }\nno_such_key = 1\n");
        assert_eq!(units(&fixture.call(KEY, "some_method").await), "7");
        assert!(lines.text().contains("unknown key chains.eth.no_such_key"), "{}", lines.text());
        std::fs::remove_file(&fixture.file).unwrap();
        run::reload(&fixture.gateway, &fixture.file);
        assert!(lines.text().contains("cannot be read"), "{}", lines.text());
        assert!(is_served(&fixture.call(KEY, "some_method").await));
    }

    #[tokio::test]
    async fn a_reload_says_what_needs_a_restart() {
        let fixture = Fixture::new("").await;
        let mut config = config(&fixture.file);
        assert_eq!(fixture.gateway.reload(config.clone()).unwrap(), Vec::<&str>::new());
        config.gateway.limits.body = 1 << 20;
        config.cache.bytes = 0;
        config.shutdown.grace = Duration::ZERO;
        for _ in 0..2 {
            assert_eq!(fixture.gateway.reload(config.clone()).unwrap(), ["gateway", "cache"]);
        }
        assert_eq!(fixture.gateway.live.grace(), Duration::ZERO, "the grace is live");
    }

    #[tokio::test]
    async fn what_is_laid_over_the_configuration_stays_over_a_reload_until_it_is_replaced() {
        let fixture = Fixture::new("cu = { some_method = 3 }\n").await;
        let weights = [("eth".to_owned(), [("some_method".to_owned(), 7)].into())].into();
        fixture.gateway.overlay(&Overlay { weights, ..Overlay::default() }).unwrap();
        assert_eq!(units(&fixture.call(KEY, "some_method").await), "7");
        fixture.reload("cu = { some_method = 4, other = 5 }\n");
        assert_eq!(units(&fixture.call(KEY, "some_method").await), "7");
        assert_eq!(units(&fixture.call(KEY, "other").await), "5");
        let chains = [("eth".to_owned(), false)].into();
        fixture.gateway.overlay(&Overlay { chains, ..Overlay::default() }).unwrap();
        assert!(fixture.call(KEY, "some_method").await.contains("chain not available"));
        fixture.reload("enabled = true\n");
        assert!(
            fixture.call(KEY, "some_method").await.contains("chain not available"),
            "both must enable it"
        );
        fixture.gateway.overlay(&Overlay::default()).unwrap();
        assert_eq!(units(&fixture.call(KEY, "some_method").await), "1");
    }

    #[tokio::test]
    async fn counters_that_are_brought_along_are_counted_on() {
        let fixture = Fixture::new("").await;
        let config = config(&fixture.file);
        let counters = Arc::new(MemoryCounters::default());
        let clock =
            Arc::new(rpcgate_core::clock::ManualClock::at(rpcgate_core::clock::Time::from_secs(1_000_000)));
        let used = [("k", [7, 8, 9])].map(|(name, used)| (config.keys[name].id, used)).to_vec();
        let restored =
            rpcgate_core::backend::counters::Restored { now: clock.now(), windows: used, units: Vec::new() };
        counters.restore(&restored);
        let options = StartOptions { clock, counters: Some(counters), ..StartOptions::default() };
        let gateway = Gateway::start(config, options).await.unwrap();
        let answer = send(gateway.addr(), &post("/eth", KEY, "some_method")).await;
        assert!(answer.contains("x-ratelimit-remaining-minute: 992\r\n"), "{answer}");
    }

    #[tokio::test]
    async fn pools_and_heads_of_chains_that_stay_are_kept() {
        let fixture = Fixture::new("").await;
        let state = || {
            let pools = fixture.gateway.live.pools.load();
            let chains = fixture.gateway.live.chains.load();
            let chain = chains.get("eth").unwrap();
            (pools.get(chain.name()).unwrap().clone(), chain.head().clone())
        };
        let before = state();
        fixture.reload("cu = { some_method = 7 }\n");
        let after = state();
        assert!(Arc::ptr_eq(&before.0, &after.0) && Arc::ptr_eq(&before.1, &after.1));
        fixture.reload("timeout = \"1s\"\n");
        let changed = state();
        assert!(!Arc::ptr_eq(&before.0, &changed.0) && Arc::ptr_eq(&before.1, &changed.1));
    }

    #[tokio::test]
    async fn no_log_holds_a_key() {
        let lines = CapturedLog::default();
        let _listening = lines.capture("trace", LogFormat::Text);
        let fixture = Fixture::new("[chains.bsc]\nnodes = [\"http://user:hunter2@127.0.0.1:1\"]\n").await;
        assert!(is_served(&fixture.call(KEY, "some_method").await));
        fixture.call(OTHER, "some_method").await;
        fixture.send(&post(&format!("/eth?apikey={OTHER}"), "", "some_method")).await;
        assert!(fixture.send(&post("/bsc", KEY, "some_method")).await.contains("backend request failed"));
        fixture.send(&format!("POST /{KEY} HTTP/1.1\r\nhost: x\r\n{KEY}\r\n\r\n")).await;
        fixture.reload(&format!("bad = 1\n[keys.twice]\nkey = {KEY:?}\n"));
        fixture.gateway.drain().await;
        let text = lines.text();
        assert!(text.contains("failed"), "the failed call is told: {text}");
        assert!(!text.contains("secretsecret") && !text.contains("hunter2"), "{text}");
    }

    #[tokio::test]
    async fn a_start_that_fails_leaves_nothing_behind() {
        let fixture = Fixture::new("").await;
        let mut taken = config(&fixture.file);
        taken.gateway.listen = fixture.gateway.addr();
        let error = Gateway::start(taken, StartOptions::default()).await.unwrap_err();
        assert!(matches!(error, StartError::Listen { .. }) && !error.is_configuration(), "{error}");
        let mut broken = config(&fixture.file);
        broken.gateway.tls.cert = Some(fixture.dir.path().join("none.pem"));
        broken.gateway.tls.key = Some(fixture.dir.path().join("none.pem"));
        let error = Gateway::start(broken, StartOptions::default()).await.unwrap_err();
        assert!(error.is_configuration(), "{error}");
    }

    #[tokio::test]
    async fn a_gateway_that_is_dropped_is_gone() {
        let fixture = Fixture::new("").await;
        let mut client = TcpStream::connect(fixture.gateway.addr()).await.unwrap();
        client.write_all(post("/eth", KEY, "held").as_bytes()).await.unwrap();
        fixture.node.asked.acquire().await.unwrap().forget();
        let addr = fixture.gateway.addr();
        drop(fixture.gateway);
        assert_eq!(read(&mut client).await, "");
        while TcpStream::connect(addr).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }
}
