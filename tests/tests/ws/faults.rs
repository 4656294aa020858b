//! Failures under many live streams: every client learns about them from a close frame, and afterwards all resources
//! are free.

use crate::node::{Behaviour, Content, StreamNode};
use crate::stream::{CLOSE, FIN, PONG, Seen, Stream, TEXT, close, frame};
use crate::{gateway, left, setup};
use rpcgate_config::{Overlay, PlanChange};
use rpcgate_core::plan::Tier;
use rpcgate_tests::gateway::{Setup, TestGateway};
use rpcgate_tests::until;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use tokio::task::JoinSet;

const SUBSCRIBE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}"#;
const HEADS: Content = Content::Heads(HEADS_OF_A_HUNDRED);
const HEADS_OF_A_HUNDRED: Duration = Duration::from_millis(50);
/// Settings that find dead sides in two seconds instead of sixty.
const QUICK: [&str; 2] = ["ping_interval = \"1s\"", "dead_after = \"2s\""];

/// Streams with a subscription. A task for each reads it until it is closed or leaves.
struct Crowd {
    reading: JoinSet<Seen>,
    leave: watch::Sender<bool>,
}

impl Crowd {
    /// Opens this number of streams. Each has received the id of its subscription and a head.
    async fn gather(gateway: &TestGateway, count: usize) -> Self {
        let mut reading = JoinSet::new();
        let leave = watch::Sender::new(false);
        let ready = Arc::new(AtomicUsize::new(0));
        for number in 1..=count {
            if number % 900 == 0 {
                // The handshakes are requests of the plan.
                gateway.pass(60);
            }
            let stream = Stream::open(gateway.addr()).await;
            reading.spawn(attend(stream, ready.clone(), leave.subscribe()));
        }
        until("every stream has a head", || ready.load(Relaxed) == count).await;
        Crowd { reading, leave }
    }

    fn leave(&self) {
        self.leave.send_replace(true);
    }

    /// Returns the close frames and their counts.
    async fn endings(mut self) -> BTreeMap<String, usize> {
        let mut endings = BTreeMap::new();
        while let Some(ending) = self.reading.join_next().await {
            *endings.entry(format!("{:?}", ending.unwrap())).or_default() += 1;
        }
        endings
    }
}

/// Subscribes and reads until the stream ends. Returns the close frame.
async fn attend(stream: Stream, ready: Arc<AtomicUsize>, mut leave: watch::Receiver<bool>) -> Seen {
    let Stream { mut read, mut write } = stream;
    write.write_all(&frame(FIN | TEXT, SUBSCRIBE.as_bytes())).await.unwrap();
    let mut messages = 0;
    let mut has_left = false;
    loop {
        let seen = {
            let mut next = pin!(read.next());
            let seen = tokio::select! {
                seen = &mut next => Some(seen),
                _ = leave.changed(), if !has_left => None,
            };
            match seen {
                Some(seen) => seen,
                None => {
                    has_left = true;
                    write.write_all(&close(1000, b"")).await.unwrap();
                    next.await
                }
            }
        };
        match seen {
            // The gateway may be gone before the pong.
            Seen::Ping(payload) => drop(write.write_all(&frame(FIN | PONG, &payload)).await),
            Seen::Text(_) => {
                messages += 1;
                if messages == 2 {
                    ready.fetch_add(1, Relaxed);
                }
            }
            closed => {
                if !has_left {
                    let _ = write.write_all(&frame(FIN | CLOSE, &[])).await;
                }
                if closed != Seen::End {
                    assert_eq!(read.next().await, Seen::End);
                }
                return closed;
            }
        }
    }
}

/// Runs a test in which the first node fails under `count` streams.
async fn under(count: usize, trouble: Behaviour, reason: &str) {
    // The total of heads per second does not depend on the number of streams: the nodes, the gateway and the clients of
    // this test share one thread, and the gateway would close clients that get behind.
    let heads = Content::Heads(HEADS_OF_A_HUNDRED.mul_f64(count as f64 / 100.0));
    let first = StreamNode::start(heads).await;
    let second = StreamNode::start(heads).await;
    let nodes = format!("nodes = [\"{}\", {{ ws = \"{}\", priority = 1 }}]", first.url(), second.url());
    let setup = QUICK.iter().fold(Setup::new(), |setup, line| setup.set("gateway.ws", line));
    let setup = setup.set("plans.enterprise", &format!("ws_connections = {count}"));
    let gateway = setup.set("chains.eth", &nodes).start().await;
    let ports = [gateway.addr().port(), first.addr.port(), second.addr.port()];
    let mut warm = Stream::open(gateway.addr()).await;
    warm.raw(&close(1000, b"")).await;
    assert!(matches!(warm.until_closed().await.0, Seen::Close(Some(1000), _)));
    drop(warm);
    let before = left::Left::settled(&ports).await;

    let crowd = Crowd::gather(&gateway, count).await;
    assert_eq!((first.open(), second.open()), (count, 0));
    first.behave(trouble);
    assert_eq!(crowd.endings().await, [(format!("Close(Some(1012), {reason:?})"), count)].into());

    // All slots are free again, and the second node serves the clients that return.
    gateway.pass(60);
    let again = Crowd::gather(&gateway, count).await;
    assert_eq!(second.opened(), count);
    first.behave(Behaviour::Answers);
    again.leave();
    assert_eq!(again.endings().await, [("Close(Some(1000), \"\")".to_owned(), count)].into());
    until("the nodes have no stream", || first.open() + second.open() == 0).await;
    before.is_reached_again(&ports).await;
}

const LOST: &str = "the connection to the node was lost, reconnect";
const SILENT: &str = "the node stopped answering, reconnect";

// Shows (Streams): If nodes are killed, stalled or half-closed under live streams, every client gets 1012 and a reason,
// new streams go to another node, and no task, socket or slot is leaked (promises 19, 20).
#[tokio::test]
async fn when_a_node_dies_every_client_gets_its_close_frame_and_nothing_is_left() {
    under(100, Behaviour::Dies, LOST).await;
}

// Shows (Streams).
#[tokio::test]
async fn when_a_node_half_closes_every_client_gets_its_close_frame_and_nothing_is_left() {
    under(100, Behaviour::HalfCloses, LOST).await;
}

// Shows (Streams).
#[tokio::test]
async fn when_a_node_stalls_every_client_gets_its_close_frame_and_nothing_is_left() {
    under(100, Behaviour::Stalls, SILENT).await;
}

#[tokio::test]
#[ignore = "full size: 1,000 streams for each fault, 4,000 file handles"]
async fn a_thousand_streams_end_cleanly_under_the_same_faults() {
    under(1_000, Behaviour::Dies, LOST).await;
    under(1_000, Behaviour::HalfCloses, LOST).await;
    under(1_000, Behaviour::Stalls, SILENT).await;
}

// Shows (Streams): A handshake that no node accepts is a 502 and keeps no slot.
#[tokio::test]
async fn a_handshake_that_no_node_takes_is_an_http_error_and_keeps_no_slot() {
    let node = StreamNode::start(Content::Echo).await;
    let setup = setup(&node.url(), &[]).set("plans.enterprise", "ws_connections = 1");
    let gateway = setup.start().await;
    node.behave(Behaviour::Dies);
    for _ in 0..5 {
        let refused = Stream::open_as(gateway.addr(), "default").await.err().unwrap();
        assert_eq!(refused.status, 502, "{refused:?}");
        assert!(refused.head.contains("x-ratelimit-limit-minute: "), "{refused:?}");
    }
    node.behave(Behaviour::Answers);
    let mut stream = Stream::open(gateway.addr()).await;
    stream.text("again").await;
    assert_eq!(stream.next().await, Seen::Text(b"again".to_vec()));
}

// Shows (Streams).
#[tokio::test]
async fn streams_close_when_their_key_loses_access_or_their_tenant_is_suspended() {
    let node = StreamNode::start(HEADS).await;
    let setup = setup(&node.url(), &[]).key("other", "").set("tenants.else", "plan = \"enterprise\"");
    let setup = setup.set("projects.else", "tenant = \"else\"").key("third", "project = \"else\"");
    let setup = setup.key("narrowed", "");
    let gateway = setup.start().await;
    let mut streams = BTreeMap::new();
    for name in ["default", "other", "third", "narrowed"] {
        let mut stream = Stream::open_as(gateway.addr(), name).await.unwrap();
        stream.text(SUBSCRIBE).await;
        stream.next().await;
        streams.insert(name, stream);
    }
    let revoked = setup.clone().set("keys.default", "revoked = true");
    assert!(gateway.server.reload(revoked.config()).is_ok());
    let closed = |reason: &str| Seen::Close(Some(1008), reason.into());
    let mut default = streams.remove("default").unwrap();
    assert_eq!(default.until_closed().await.0, closed("API key revoked"));
    assert!(gateway.server.reload(revoked.set("tenants.else", "suspended = true").config()).is_ok());
    let mut third = streams.remove("third").unwrap();
    assert_eq!(third.until_closed().await.0, closed("account suspended"));
    assert!(gateway.server.reload(setup.set("keys.narrowed", "chains = [\"btc\"]").config()).is_ok());
    let mut narrowed = streams.remove("narrowed").unwrap();
    assert_eq!(narrowed.until_closed().await.0, closed("API key not permitted for this chain"));
    let refused = Stream::open_as(gateway.addr(), "narrowed").await.err().unwrap();
    assert_eq!(refused.status, 403, "{refused:?}");
    let mut other = streams.remove("other").unwrap();
    for _ in 0..3 {
        assert!(matches!(other.next_answering_pings().await, Seen::Text(_)), "it goes on");
    }
    until("only its stream is open", || node.open() == 1).await;
}

// Shows (Commands and configuration).
// Shows (Streams).
#[tokio::test]
async fn a_drain_closes_streams_with_1001_one_after_another() {
    let node = StreamNode::start(HEADS).await;
    let gateway = setup(&node.url(), &[]).set("shutdown", "grace = \"4s\"").start().await;
    let mut crowd = Crowd::gather(&gateway, 60).await;
    let gateway = Arc::new(gateway);
    let draining = tokio::spawn({
        let gateway = gateway.clone();
        async move { gateway.server.drain().await }
    });
    let mut open = Vec::new();
    while let Some(ending) = crowd.reading.join_next().await {
        assert!(matches!(ending.unwrap(), Seen::Close(Some(1001), reason) if reason.contains("reconnect")));
        open.push(node.open());
    }
    assert!(open[0] > 40, "when the first has ended most are open: {open:?}");
    let steps = open.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(steps > 10, "they end one after another: {open:?}");
    assert_eq!(draining.await.unwrap().cut, 0);
}

// Shows (Streams).
// Shows (Hostile and odd traffic).
#[tokio::test]
async fn clients_that_vanish_without_a_word_are_found_and_their_slots_are_free_again() {
    let node = StreamNode::start(Content::Echo).await;
    let setup = setup(&node.url(), &QUICK).set("plans.enterprise", "ws_connections = 21");
    let gateway = setup.start().await;
    let mut lively = Stream::open(gateway.addr()).await;
    // They neither answer pings nor close, like a client whose cable was pulled.
    let mut vanished = Vec::new();
    for _ in 0..20 {
        vanished.push(Stream::open(gateway.addr()).await);
    }
    let refused = Stream::open_as(gateway.addr(), "default").await.err().unwrap();
    assert_eq!(refused.status, 429, "{refused:?}");
    let mut echoes = 0;
    while node.open() > 1 {
        lively.text("still here").await;
        assert_eq!(lively.next_answering_pings().await, Seen::Text(b"still here".to_vec()));
        echoes += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(echoes > 2, "the other stream went on: {echoes}");
    for mut stream in vanished {
        let Seen::Close(code, _) = stream.until_closed().await.0 else { panic!("no close frame") };
        assert_eq!(code, Some(1008));
    }
    let mut again = Vec::new();
    for _ in 0..20 {
        again.push(Stream::open(gateway.addr()).await);
    }
}

// Shows (Streams).
#[tokio::test]
async fn a_flood_of_handshakes_stays_within_the_plan_and_disturbs_no_other_project() {
    let node = StreamNode::start(Content::Echo).await;
    let setup = setup(&node.url(), &[]).set("tenants.else", "plan = \"enterprise\"");
    let setup = setup.set("projects.else", "tenant = \"else\"").key("else", "project = \"else\"");
    let gateway = setup.set("plans.enterprise", "ws_connections = 30").start().await;
    let mut other = Stream::open_as(gateway.addr(), "else").await.unwrap();
    let mut flood = JoinSet::new();
    for _ in 0..20 {
        let addr = gateway.addr();
        flood.spawn(async move {
            let mut open = Vec::new();
            let mut refused = 0;
            for _ in 0..60 {
                match Stream::open_as(addr, "default").await {
                    Ok(stream) => open.push(stream),
                    Err(answer) => {
                        assert_eq!(answer.status, 429, "{answer:?}");
                        refused += 1;
                    }
                }
            }
            (open, refused)
        });
    }
    let mut open = Vec::new();
    let mut refused = 0;
    while let Some(part) = flood.join_next().await {
        let (streams, refusals) = part.unwrap();
        open.extend(streams);
        refused += refusals;
        other.text("undisturbed").await;
        assert_eq!(other.next().await, Seen::Text(b"undisturbed".to_vec()));
    }
    assert_eq!((open.len(), refused), (30, 1_170));
    assert_eq!(node.opened(), 31, "no node heard of the rest");
    drop(open);
    until("the slots are free again", || node.open() == 1).await;
}

// Shows (Streams).
#[tokio::test]
async fn connections_that_send_half_a_handshake_are_cut() {
    let node = StreamNode::start(Content::Echo).await;
    let setup = setup(&node.url(), &[]).set("gateway.limits", "header_timeout = \"300ms\"");
    let gateway = setup.start().await;
    let mut halves = Vec::new();
    for _ in 0..50 {
        let mut half = tokio::net::TcpStream::connect(gateway.addr()).await.unwrap();
        half.write_all(b"GET /ws/eth HTTP/1.1\r\nhost: h\r\nupgrade: websocket\r\n").await.unwrap();
        halves.push(half);
    }
    until("none is open", || gateway.server.connections() == 0).await;
    assert_eq!(node.opened(), 0);
}

// Shows (Streams).
#[tokio::test]
async fn a_changed_limit_of_the_plan_holds_for_the_next_handshake_and_ends_no_stream() {
    let node = StreamNode::start(Content::Echo).await;
    let gateway = gateway(&node.url(), &[]).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(Stream::open(gateway.addr()).await);
    }
    let change = PlanChange { ws_connections: Some(2), ..Default::default() };
    let plans = [(Tier::Enterprise, change)].into();
    let overlay = Overlay { plans, ..Default::default() };
    assert!(gateway.server.overlay(&overlay).is_ok());
    let refused = Stream::open_as(gateway.addr(), "default").await.err().unwrap();
    assert_eq!(refused.status, 429);
    assert!(refused.body.contains("stream limit reached"), "{refused:?}");
    for stream in &mut streams {
        stream.text("open").await;
        assert_eq!(stream.next().await, Seen::Text(b"open".to_vec()));
    }
    streams.truncate(1);
    until("two have ended", || node.open() == 1).await;
    Stream::open_as(gateway.addr(), "default").await.unwrap();
}
