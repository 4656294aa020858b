//! Streams of keys of the management database, at several gateways: changes end them, or apply to later ones.

use crate::node::{Content, StreamNode};
use crate::stream::{Seen, Stream};
use rpcgate_core::clock::SystemClock;
use rpcgate_server::Gateway;
use rpcgate_tests::admin::{ApiUser, TestService};
use rpcgate_tests::gateway::Setup;
use rpcgate_tests::{SOON, TIMEOUT};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Two gateways on one database, with an echo node.
struct Pair {
    service: TestService,
    gateways: Vec<Gateway>,
    operator: ApiUser,
    owner: ApiUser,
    project: String,
    tenant: String,
    _node: StreamNode,
}

impl Pair {
    async fn start() -> Self {
        let node = StreamNode::start(Content::Echo).await;
        let setup = Setup::new().set("chains.eth", &format!("nodes = [\"{}\"]", node.url()));
        let service = TestService::start(setup, Arc::new(SystemClock::new())).await;
        let gateways = vec![service.gateway().await, service.gateway().await];
        let operator = service.operator().await;
        let owner = service.owner("ada@example.com").await;
        let tenant = format!("/operator/tenants/{}", owner.tenant().await);
        operator.put(&tenant, &json!({ "tier": "enterprise" })).await;
        let project = owner.project("streams").await;
        Pair { service, gateways, operator, owner, project, tenant, _node: node }
    }

    /// Opens a stream of this key at each gateway and carries a message on it. A key of a tenant whose plan has just
    /// changed may have to wait.
    async fn streams(&self, key: &str) -> Vec<Stream> {
        let mut streams = Vec::new();
        for gateway in &self.gateways {
            let mut stream = self.until_open(gateway, key).await;
            stream.text("hello").await;
            assert_eq!(stream.next_answering_pings().await, Seen::Text(b"hello".to_vec()));
            streams.push(stream);
        }
        streams
    }

    async fn until_open(&self, gateway: &Gateway, key: &str) -> Stream {
        let wait = async {
            loop {
                match handshake(gateway, key).await {
                    Ok(stream) => return stream,
                    Err(_) => sleep(Duration::from_millis(10)).await,
                }
            }
        };
        timeout(TIMEOUT, wait).await.unwrap()
    }

    /// Makes a change while the streams are read. Each must be closed with 1008 and this reason [soon](SOON) after the
    /// answer to the change.
    async fn closes<C: Future<Output = ()>>(&self, streams: Vec<Stream>, change: C, reason: &str) {
        let clock = self.service.clock().clone();
        let mut reading = JoinSet::new();
        for mut stream in streams {
            let clock = clock.clone();
            reading.spawn(async move { (stream.until_closed().await.0, clock.elapsed()) });
        }
        change.await;
        let changed = clock.elapsed();
        let expected = Seen::Close(Some(1008), reason.into());
        while let Some(ended) = reading.join_next().await {
            let (ending, at) = ended.unwrap();
            let lag = at.saturating_sub(changed);
            tell(&format!("{reason}: closed after {lag:?}"));
            assert_eq!(ending, expected);
            assert!(lag <= SOON, "only after {lag:?}");
        }
    }

    /// Waits until every gateway answers the handshakes of this key with `status`.
    async fn until_refused(&self, key: &str, status: u16) {
        for gateway in &self.gateways {
            let wait = async {
                while handshake(gateway, key).await.map_or_else(|refused| refused.status, |_| 101) != status {
                    sleep(Duration::from_millis(10)).await;
                }
            };
            assert!(timeout(TIMEOUT, wait).await.is_ok(), "never refused with {status}");
        }
    }
}

async fn handshake(gateway: &Gateway, key: &str) -> Result<Stream, crate::stream::RefusedHandshake> {
    Stream::handshake(gateway.addr(), &format!("/ws/eth?apikey={key}"), "").await
}

/// Prints a line, which `cargo test` shows with `--nocapture` and for a failed test.
#[expect(clippy::print_stderr, reason = "a figure for people who run the tests")]
fn tell(line: &str) {
    eprintln!("{line}");
}

// Shows (Streams): Revoking the key or suspending the tenant closes its streams with 1008; a drain closes all streams
// with 1001, one after another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_of_a_deleted_key_close_at_every_gateway_within_a_second() {
    let pair = Pair::start().await;
    let (_, other) = pair.owner.key(&pair.project).await;
    let mut lasting = pair.streams(&other).await;
    for _ in 0..3 {
        let (id, key) = pair.owner.key(&pair.project).await;
        let streams = pair.streams(&key).await;
        pair.closes(streams, pair.owner.delete(&format!("/keys/{id}")), "API key revoked").await;
        pair.until_refused(&key, 401).await;
    }
    for stream in &mut lasting {
        stream.text("still open").await;
        assert_eq!(stream.next_answering_pings().await, Seen::Text(b"still open".to_vec()));
    }
}

// Shows (Streams).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_of_a_suspended_tenant_are_closed_within_a_second_and_may_return_with_it() {
    let pair = Pair::start().await;
    let (_, key) = pair.owner.key(&pair.project).await;
    let status = async |status| drop(pair.operator.put(&pair.tenant, &json!({ "status": status })).await);
    for _ in 0..2 {
        let streams = pair.streams(&key).await;
        pair.closes(streams, status("suspended"), "account suspended").await;
        pair.until_refused(&key, 402).await;
        status("active").await;
    }
    drop(pair.streams(&key).await);
}

// Shows (Streams): `plans.<tier>.ws_connections` limits open streams; a change of operators holds for the next
// handshake.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_streams_that_operators_set_hold_at_every_gateway() {
    let pair = Pair::start().await;
    let (_, one) = pair.owner.key(&pair.project).await;
    let (_, two) = pair.owner.key(&pair.project).await;
    let put = async |body| drop(pair.operator.put("/operator/plans/enterprise", &body).await);
    let streams = pair.streams(&one).await;
    put(json!({ "ws_connections_per_key": 1 })).await;
    pair.until_refused(&one, 429).await;
    let more = pair.streams(&two).await;
    put(json!({ "ws_connections": 2 })).await;
    pair.until_refused(&two, 429).await;
    drop(streams);
    // The project has a free slot again, but this key has none.
    pair.until_refused(&two, 429).await;
    let again = pair.streams(&one).await;
    put(json!({ "ws_connections": 9, "ws_connections_per_key": 9 })).await;
    drop(pair.streams(&two).await);
    for mut stream in more.into_iter().chain(again) {
        stream.text("open all the time").await;
        assert_eq!(stream.next_answering_pings().await, Seen::Text(b"open all the time".to_vec()));
    }
}

// Shows (Streams).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_chain_that_is_switched_off_no_stream_is_opened_and_open_ones_carry_no_call() {
    let pair = Pair::start().await;
    let (_, key) = pair.owner.key(&pair.project).await;
    let mut streams = pair.streams(&key).await;
    pair.operator.put("/operator/chains/eth", &json!({ "enabled": false })).await;
    pair.until_refused(&key, 404).await;
    for stream in &mut streams {
        stream.text(r#"{"jsonrpc":"2.0","id":7,"method":"eth_chainId"}"#).await;
        let Seen::Text(answer) = stream.next_answering_pings().await else { panic!("an answer") };
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.contains(r#""id":7,"error":{"code":-32601"#), "{answer}");
        stream.text("an echo").await;
        let Seen::Text(answer) = stream.next_answering_pings().await else { panic!("an answer") };
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.contains(r#""id":7,"error":{"code":-32601"#), "{answer}");
    }
    pair.operator.put("/operator/chains/eth", &json!({ "enabled": true })).await;
    drop(pair.streams(&key).await);
}
