//! Reads the state of one node at all its addresses.

use crate::services::watcher::NodeSession;
use http::{HeaderValue, Method, Uri};
use rpcgate_config::{ANY_NETWORK, NodeSettings};
use rpcgate_core::adapter::{Adapter, NodeStatus, Probe};
use rpcgate_core::clock::{Clock, Time};
use rpcgate_core::event::{NodeCalls, ReadError};
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_layers::nodes::{NodeIndex, NodeRequestError, Pool};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The timeout of an answer or a connection.
const LIMIT: Duration = Duration::from_secs(3);

/// The maximum size of a stream's message in bytes. None is read.
const MESSAGE: usize = 1 << 20;

/// The maximum number of stored characters of a network's name.
const NAME: usize = 100;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NetworkShown {
    Own,
    Other(String),
    /// The node does not show its network.
    Hidden,
    /// The configuration accepts a node of any network.
    Unchecked,
    /// The node could not be asked, for this reason.
    Unknown(String),
}

#[derive(Debug)]
pub(super) struct NodeLook {
    /// Its first address, with masked secrets.
    pub(super) name: String,
    /// Its status, or the reason why it could not be asked. `None` if it has no address for that.
    pub(super) status: Result<Option<NodeStatus>, String>,
    pub(super) network: NetworkShown,
    /// The network that the chain's nodes must show.
    pub(super) expected: String,
    /// The protocols whose addresses accept no connection, with the reasons.
    pub(super) unreached: Vec<(&'static str, String)>,
    /// The node's time, between `before` and `after` by our clock.
    pub(super) date: Option<HeaderValue>,
    pub(super) before: Time,
    pub(super) after: Time,
    pub(super) took: Duration,
}

impl NodeLook {
    /// Reads the state of node `index` of `pool`, which has these settings and must belong to the `expected` network.
    pub(super) async fn take(
        pool: Arc<Pool>,
        index: NodeIndex,
        name: String,
        adapter: Arc<dyn Adapter>,
        settings: &NodeSettings,
        expected: Option<&str>,
        clock: &dyn Clock,
    ) -> Self {
        let session = NodeSession::new(pool.clone(), index, adapter.clone(), LIMIT);
        let probe = adapter.probe();
        // Streams only carry JSON-RPC.
        let can_ask = settings.url.is_some() || (settings.ws.is_some() && matches!(probe, Probe::Rpc { .. }));
        let before = clock.now();
        let began = clock.elapsed();
        let first = if can_ask { Some(ask(&session, probe).await) } else { None };
        let after = clock.now();
        let took = clock.elapsed().saturating_sub(began);
        let date = session.date();
        let status = match first {
            None => Ok(None),
            Some(Err(error)) => Err(with_cause(&pool, index, reason(error))),
            Some(Ok(answer)) => status(&session, &*adapter, &answer).await.map(Some),
        };
        let (network, expected) = match &status {
            Ok(Some(_)) => network(&session, &*adapter, expected).await,
            _ => (NetworkShown::Unknown("it was not asked".into()), String::new()),
        };
        let mut unreached = Vec::new();
        if settings.ws.is_some() && (settings.url.is_some() || !can_ask) {
            let opened = timeout(LIMIT, pool.open_messages(index, MESSAGE)).await;
            let why = match opened {
                Ok(Ok(_)) => None,
                // A refused handshake only has a status.
                Ok(Err(error @ NodeRequestError::Fault(Fault { cause: Cause::Status(_), .. }))) => {
                    Some(error.to_string())
                }
                Ok(Err(error)) => Some(with_cause(&pool, index, error.to_string())),
                Err(_) => Some("no answer in time".into()),
            };
            unreached.extend(why.map(|why| ("WebSocket", why)));
        }
        if let Some(url) = &settings.grpc {
            unreached.extend(connect(url.expose()).await.err().map(|why| ("gRPC", why)));
        }
        NodeLook { name, status, network, expected, unreached, date, before, after, took }
    }
}

/// Adds the cause that the pool has recorded, such as "connection refused", to a failure.
fn with_cause(pool: &Pool, index: NodeIndex, failure: String) -> String {
    match pool.unreachable_reason(index) {
        Some(why) => format!("{failure}: {why}"),
        None => failure,
    }
}

/// Returns the reason why the only asked node gave no answer. The text of [`ReadError::Unreachable`] is about all nodes
/// of a chain.
fn reason(error: ReadError) -> String {
    match error {
        ReadError::Unreachable(why) => why,
        other => other.to_string(),
    }
}

async fn ask(session: &NodeSession, probe: Probe) -> Result<bytes::Bytes, ReadError> {
    match probe {
        Probe::Rpc { method, params } => session.call(method, params.into()).await,
        Probe::Rest { target, body: None } => {
            session.request(Method::GET, target.into(), String::new()).await
        }
        Probe::Rest { target, body: Some(body) } => {
            session.request(Method::POST, target.into(), body.into()).await
        }
    }
}

async fn status(session: &NodeSession, adapter: &dyn Adapter, first: &[u8]) -> Result<NodeStatus, String> {
    let strange = || format!("its answer is not that of a node of {}", adapter.facts().title);
    let status = adapter.seen(first).ok_or_else(strange)?;
    let Some(second) = adapter.second_probe() else { return Ok(status) };
    let answer = ask(session, second).await.map_err(reason)?;
    adapter.seen_second(status, &answer).ok_or_else(strange)
}

async fn network(
    session: &NodeSession,
    adapter: &dyn Adapter,
    expected: Option<&str>,
) -> (NetworkShown, String) {
    if expected == Some(ANY_NETWORK) {
        return (NetworkShown::Unchecked, String::new());
    }
    let Some(network) = adapter.network() else {
        return (NetworkShown::Hidden, String::new());
    };
    let network = match expected {
        Some(name) => network.with_expected(name),
        None => network,
    };
    let shown = match ask(session, network.probe).await {
        Err(error) => NetworkShown::Unknown(reason(error)),
        Ok(answer) => match network.shown(&answer) {
            Ok(()) => NetworkShown::Own,
            Err(Some(other)) => NetworkShown::Other(other.chars().take(NAME).collect()),
            Err(None) => NetworkShown::Hidden,
        },
    };
    (shown, network.expected)
}

async fn connect(url: &str) -> Result<(), String> {
    let url: Uri = url.parse().map_err(|_| "cannot be read".to_owned())?;
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
    let default = if matches!(url.scheme_str(), Some("grpcs" | "https")) { 443 } else { 80 };
    let connected = timeout(LIMIT, TcpStream::connect((host, url.port_u16().unwrap_or(default)))).await;
    match connected {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer in time".into()),
    }
}
