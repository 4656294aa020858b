//! What breaks under many live streams: every client learns it from a close frame, and afterwards nothing is left of them.

use crate::node::{Behaviour, Content, StreamNode};
use crate::stream::{Seen, Stream};
use crate::{gateway, left, setup};
use rpcgate_core::config::{Overlay, PlanChange};
use rpcgate_core::plan::Tier;
use rpcgate_tests::gateway::{Setup, TestGateway};
use rpcgate_tests::until;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

const SUBSCRIBE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}"#;
const HEADS: Content = Content::Heads(Duration::from_millis(50));
/// Dead sides are found in two seconds instead of sixty.
const QUICK: [&str; 2] = ["ping_interval = \"1s\"", "dead_after = \"2s\""];

/// This many streams with a subscription, each of which has got a head.
async fn subscribed(gateway: &TestGateway, count: usize) -> Vec<Stream> {
    let mut streams = Vec::new();
    for number in 0..count {
        if number % 900 == 899 {
            // The handshakes are requests of the plan.
            gateway.pass(60);
        }
        let mut stream = Stream::open(gateway.addr()).await;
        stream.text(SUBSCRIBE).await;
        streams.push(stream);
    }
    for stream in &mut streams {
        for _ in 0..2 {
            assert!(matches!(stream.next_answering_pings().await, Seen::Text(_)), "an id, then a head");
        }
    }
    streams
}

/// How the streams end, each read by a task of its own.
async fn endings(streams: Vec<Stream>) -> BTreeMap<String, usize> {
    let mut reading = JoinSet::new();
    for mut stream in streams {
        reading.spawn(async move { stream.until_closed().await.0 });
    }
    let mut endings = BTreeMap::new();
    while let Some(ending) = reading.join_next().await {
        *endings.entry(format!("{:?}", ending.unwrap())).or_default() += 1;
    }
    endings
}

/// A first node under `count` streams gets into trouble.
async fn under(count: usize, trouble: Behaviour, reason: &str) {
    let (first, second) = (StreamNode::start(HEADS).await, StreamNode::start(HEADS).await);
    let nodes = format!("nodes = [\"{}\", {{ ws = \"{}\", priority = 1 }}]", first.url(), second.url());
    let setup = QUICK.iter().fold(Setup::new(), |setup, line| setup.set("gateway.ws", line));
    let setup = setup.set("plans.enterprise", &format!("ws_connections = {count}"));
    let gateway = setup.set("chains.eth", &nodes).start().await;
    let ports = [gateway.addr().port(), first.addr.port(), second.addr.port()];
    let mut warm = Stream::open(gateway.addr()).await;
    warm.raw(&crate::stream::close(1000, b"")).await;
    assert!(matches!(warm.until_closed().await.0, Seen::Close(Some(1000), _)));
    drop(warm);
    let before = left::Left::settled(&ports).await;

    let streams = subscribed(&gateway, count).await;
    assert_eq!((first.open(), second.open()), (count, 0));
    first.behave(trouble);
    assert_eq!(endings(streams).await, [(format!("Close(Some(1012), {reason:?})"), count)].into());

    // All slots are free again, and another node takes the clients that return.
    gateway.pass(60);
    let again = subscribed(&gateway, count).await;
    assert_eq!(second.opened(), count);
    first.behave(Behaviour::Answers);
    for mut stream in again {
        stream.raw(&crate::stream::close(1000, b"")).await;
        assert!(matches!(stream.until_closed().await.0, Seen::Close(Some(1000), _)));
    }
    until("the nodes have no stream", || first.open() + second.open() == 0).await;
    before.is_reached_again(&ports).await;
}

const LOST: &str = "the connection to the node was lost, reconnect";
const SILENT: &str = "the node stopped answering, reconnect";

#[tokio::test]
async fn when_a_node_dies_every_client_gets_its_close_frame_and_nothing_is_left() {
    under(100, Behaviour::Dies, LOST).await;
}

#[tokio::test]
async fn when_a_node_half_closes_every_client_gets_its_close_frame_and_nothing_is_left() {
    under(100, Behaviour::HalfCloses, LOST).await;
}

#[tokio::test]
async fn when_a_node_stalls_every_client_gets_its_close_frame_and_nothing_is_left() {
    under(100, Behaviour::Stalls, SILENT).await;
}

#[tokio::test]
#[ignore = "full size: 1,000 streams for each fault, 4,000 file handles"]
async fn under_a_thousand_streams_as_well() {
    under(1_000, Behaviour::Dies, LOST).await;
    under(1_000, Behaviour::HalfCloses, LOST).await;
    under(1_000, Behaviour::Stalls, SILENT).await;
}

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

#[tokio::test]
async fn streams_of_a_revoked_key_or_a_suspended_tenant_are_closed_and_no_others() {
    let node = StreamNode::start(HEADS).await;
    let setup = setup(&node.url(), &[]).key("other", "").set("tenants.else", "plan = \"enterprise\"");
    let setup = setup.set("projects.else", "tenant = \"else\"").key("third", "project = \"else\"");
    let gateway = setup.start().await;
    let mut streams = BTreeMap::new();
    for name in ["default", "other", "third"] {
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
    let mut other = streams.remove("other").unwrap();
    for _ in 0..3 {
        assert!(matches!(other.next_answering_pings().await, Seen::Text(_)), "it goes on");
    }
    until("only its stream is open", || node.open() == 1).await;
}

#[tokio::test]
async fn a_drain_closes_streams_with_1001_one_after_another() {
    let node = StreamNode::start(HEADS).await;
    let gateway = setup(&node.url(), &[]).set("shutdown", "grace = \"4s\"").start().await;
    let streams = subscribed(&gateway, 60).await;
    let gateway = std::sync::Arc::new(gateway);
    let draining = tokio::spawn({
        let gateway = gateway.clone();
        async move { gateway.server.drain().await }
    });
    let mut reading = JoinSet::new();
    for mut stream in streams {
        reading.spawn(async move { stream.until_closed().await.0 });
    }
    let mut open = Vec::new();
    while let Some(ending) = reading.join_next().await {
        assert!(matches!(ending.unwrap(), Seen::Close(Some(1001), reason) if reason.contains("reconnect")));
        open.push(node.open());
    }
    assert!(open[0] > 40, "when the first has ended most are open: {open:?}");
    let steps = open.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(steps > 10, "they end one after another: {open:?}");
    assert_eq!(draining.await.unwrap().cut, 0);
}

#[tokio::test]
async fn clients_that_vanish_without_a_word_are_found_and_their_slots_are_free_again() {
    let node = StreamNode::start(Content::Echo).await;
    let setup = setup(&node.url(), &QUICK).set("plans.enterprise", "ws_connections = 21");
    let gateway = setup.start().await;
    let mut lively = Stream::open(gateway.addr()).await;
    // They neither answer pings nor close: so does a client behind a cable that was pulled.
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
            let (mut open, mut refused) = (Vec::new(), 0);
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
    let (mut open, mut refused) = (Vec::new(), 0);
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
    assert!(refused.body.contains("WebSocket stream limit"), "{refused:?}");
    for stream in &mut streams {
        stream.text("open").await;
        assert_eq!(stream.next().await, Seen::Text(b"open".to_vec()));
    }
    streams.truncate(1);
    until("two have ended", || node.open() == 1).await;
    Stream::open_as(gateway.addr(), "default").await.unwrap();
}
