//! Promise 74: with one bad node of two, at least 999 of 1,000 calls succeed after two seconds.
//!
//! A [`RawNode`] fails in one way, [`NodeTrial::run`] calls a gateway in front of it, and a [`TrialTable`] collects the
//! results of all kinds of faults, so that a failed test lists each kind that breaks the promise.

#![expect(clippy::unwrap_used, reason = "a node of the tests that cannot listen fails its test")]

use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet, LocalSet};
use tokio::time::{Instant, sleep, timeout};

use crate::gateway::Setup;

/// The time in which the gateway learns that a node is bad. Calls lost in it do not count.
const WARM_UP: Duration = Duration::from_secs(2);

/// The number of pairs of nodes measured in parallel. With more, the test would measure the processor and not the
/// gateway.
const AT_A_TIME: usize = 8;

/// The numbers of parallel clients. One and twenty find different faults.
pub const CROWDS: [usize; 2] = [1, 20];

/// Returns a configuration for a measurement: real time, the default interval of probes, and no limit of the plan that
/// is reached.
pub fn setup(chain: &str) -> Setup {
    Setup::new()
        .in_real_time()
        .set("plans.enterprise", "per_minute = 1000000\nper_hour = 1000000")
        .set(&format!("chains.{chain}"), "probe_interval = \"5s\"")
}

/// A node that speaks raw bytes. Dropping it closes its connections.
#[derive(Debug)]
pub struct RawNode {
    addr: SocketAddr,
    /// A port that is bound but not listened on.
    _port: Option<TcpSocket>,
    accepting: Option<AbortHandle>,
}

impl RawNode {
    /// Starts a node that runs `serve` for each connection.
    pub async fn start<F, R>(serve: F) -> Self
    where
        F: Fn(RawConnection) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                connections.spawn(serve(RawConnection { stream: BufReader::new(stream) }));
                while connections.try_join_next().is_some() {}
            }
        });
        RawNode { addr, _port: None, accepting: Some(accepting.abort_handle()) }
    }

    /// Creates a node that refuses connections. It holds its port, so that no other node of the tests gets it.
    pub fn refusing() -> Self {
        let port = TcpSocket::new_v4().unwrap();
        port.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        RawNode { addr: port.local_addr().unwrap(), _port: Some(port), accepting: None }
    }

    /// Returns the node's URL.
    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.addr)
    }
}

impl Drop for RawNode {
    fn drop(&mut self) {
        if let Some(accepting) = &self.accepting {
            accepting.abort();
        }
    }
}

/// The node's end of a connection.
#[derive(Debug)]
pub struct RawConnection {
    stream: BufReader<TcpStream>,
}

/// A request that a [`RawNode`] has read.
#[derive(Clone, Debug)]
pub struct RawRequest {
    /// The path and query.
    pub target: String,
    /// The body.
    pub body: String,
}

impl RawConnection {
    /// Reads the next request; `None` at the end of the connection.
    pub async fn request(&mut self) -> Option<RawRequest> {
        let mut target = String::new();
        let mut length = 0;
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            let line = line.trim_end();
            if target.is_empty() {
                target = line.split(' ').nth(1)?.to_owned();
            } else if line.is_empty() {
                break;
            } else if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.ok()?;
        Some(RawRequest { target, body: String::from_utf8(body).ok()? })
    }

    /// Writes these bytes. Ignores that the other side has closed.
    pub async fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.get_mut().write_all(bytes).await;
    }

    /// Writes these bytes one by one, with a pause after each, until the other side closes.
    pub async fn trickle(&mut self, bytes: &[u8], pause: Duration) {
        for byte in bytes {
            if self.stream.get_mut().write_all(&[*byte]).await.is_err() {
                return;
            }
            sleep(pause).await;
        }
    }

    /// Closes with a reset (RST) instead of an orderly end.
    pub fn reset(self) {
        let _ = self.stream.into_inner().set_zero_linger();
    }

    /// Keeps the connection open and does nothing more.
    pub async fn hold(self) {
        let _connection = self;
        pending::<()>().await;
    }
}

/// A client of a gateway.
pub trait TrialClient: Send + 'static {
    /// Makes a call that differs from all others of the measurement by its `number`. Returns the fault of the answer.
    fn call(&mut self, number: usize) -> impl Future<Output = Result<(), String>> + Send;
}

/// A gateway with one bad node of two, and its clients.
#[derive(Clone, Copy, Debug)]
pub struct NodeTrial {
    /// The kind of fault.
    pub kind: &'static str,
    /// The number of parallel clients.
    pub clients: usize,
    /// The time that a client waits for an answer.
    pub patience: Duration,
}

impl NodeTrial {
    /// Makes calls for the warm-up, and then the calls that count.
    ///
    /// # Panics
    /// When a client does.
    pub async fn run<C: TrialClient>(self, clients: Vec<C>) -> TrialResult {
        let mut warming = JoinSet::new();
        let began = Instant::now();
        for (index, mut client) in clients.into_iter().enumerate() {
            warming.spawn(async move {
                let mut number = index * NUMBERS;
                while began.elapsed() < WARM_UP {
                    let _ = timeout(self.patience, client.call(number)).await;
                    number += 1;
                    // Twenty clients make at most 400 calls a second, like clients that use each answer before the next
                    // call.
                    sleep(Duration::from_millis(50)).await;
                }
                (client, number)
            });
        }
        let warm = warming.join_all().await;
        let mut counting = JoinSet::new();
        for (mut client, first) in warm {
            counting.spawn(async move {
                let mut results = Vec::new();
                for number in first..first + self.calls_of_each() {
                    let called = timeout(self.patience, client.call(number)).await;
                    results.push(called.unwrap_or_else(|_| Err("no answer in time".to_owned())));
                    if self.clients > 1 {
                        sleep(Duration::from_millis(10)).await;
                    }
                }
                results
            });
        }
        let results: Vec<_> = counting.join_all().await.into_iter().flatten().collect();
        let calls = results.len();
        let mut bad = BTreeMap::new();
        for what in results.into_iter().filter_map(Result::err) {
            *bad.entry(what).or_insert(0) += 1;
        }
        TrialResult { trial: self, calls, bad }
    }

    fn calls_of_each(self) -> usize {
        if self.clients == 1 { 200 } else { 20 }
    }
}

/// The size of the range of call numbers that each client has.
const NUMBERS: usize = 100_000;

/// The result of one trial.
#[derive(Clone, Debug)]
pub struct TrialResult {
    trial: NodeTrial,
    calls: usize,
    /// The number of bad answers by fault.
    bad: BTreeMap<String, usize>,
}

impl TrialResult {
    fn lost(&self) -> usize {
        self.bad.values().sum()
    }

    fn keeps_the_promise(&self) -> bool {
        self.calls > 0 && self.lost() * 1_000 <= self.calls
    }
}

impl fmt::Display for TrialResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.trial.kind;
        let clients = self.trial.clients;
        write!(f, "{kind:<56} {clients:>7} {:>5} of {:>3} ", self.lost(), self.calls)?;
        for (what, count) in &self.bad {
            let shown: String = what.chars().take(90).collect();
            write!(f, " {count} x {shown:?}")?;
        }
        Ok(())
    }
}

/// The trials of one transport. At most eight run at a time.
#[derive(Debug)]
pub struct TrialTable {
    free_slots: Arc<Semaphore>,
    /// Starts gateways on one thread; the gateways and their clients run on all of them.
    starting: LocalSet,
    trials: JoinSet<TrialResult>,
}

impl Default for TrialTable {
    fn default() -> Self {
        let free_slots = Arc::new(Semaphore::new(AT_A_TIME));
        TrialTable { free_slots, starting: LocalSet::new(), trials: JoinSet::new() }
    }
}

impl TrialTable {
    /// Adds a trial. Its nodes and its gateway are created when it begins.
    pub fn add(&mut self, trial: impl Future<Output = TrialResult> + 'static) {
        let free_slots = self.free_slots.clone();
        let waiting = async move {
            let _slot = free_slots.acquire_owned().await.unwrap();
            trial.await
        };
        self.trials.spawn_local_on(waiting, &self.starting);
    }

    /// Waits for all trials.
    ///
    /// # Panics
    /// When a kind of fault breaks the promise; the message lists all that do.
    pub async fn check(self) {
        let TrialTable { starting, trials, .. } = self;
        let rows = starting.run_until(trials.join_all()).await;
        assert!(!rows.is_empty(), "no trial was made");
        let mut broken: Vec<_> =
            rows.iter().filter(|row| !row.keeps_the_promise()).map(ToString::to_string).collect();
        broken.sort();
        assert!(
            broken.is_empty(),
            "{} of {} trials break promise 74:\n{:<56} clients lost calls, and why\n{}",
            broken.len(),
            rows.len(),
            "kind",
            broken.join("\n")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client whose calls fail from this number on.
    struct Failing(usize);

    impl TrialClient for Failing {
        async fn call(&mut self, number: usize) -> Result<(), String> {
            if number % NUMBERS >= self.0 { Err("bad".to_owned()) } else { Ok(()) }
        }
    }

    fn trial(clients: usize) -> NodeTrial {
        NodeTrial { kind: "a kind", clients, patience: Duration::from_secs(1) }
    }

    // Shows (Nodes and cache).
    #[tokio::test(start_paused = true)]
    async fn calls_count_after_the_warm_up_and_one_lost_call_in_200_breaks_the_promise() {
        for clients in CROWDS {
            let all = |first_bad| (0..clients).map(|_| Failing(first_bad)).collect::<Vec<_>>();
            let good = trial(clients).run(all(usize::MAX)).await;
            assert_eq!(good.calls, if clients == 1 { 200 } else { 400 });
            assert!(good.keeps_the_promise());
            let lost = trial(clients).run(all(0)).await;
            assert!(!lost.keeps_the_promise() && lost.lost() == lost.calls);
        }
        let row = |calls| TrialResult { trial: trial(1), calls, bad: [("bad".to_owned(), 1)].into() };
        assert!(!row(200).keeps_the_promise() && !row(999).keeps_the_promise());
        assert!(row(1_000).keeps_the_promise());
    }

    // Shows (Nodes and cache).
    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "a kind")]
    async fn a_kind_that_breaks_the_promise_is_named() {
        let mut table = TrialTable::default();
        table.add(trial(1).run(vec![Failing(0)]));
        table.check().await;
    }
}
