//! The limits of a stream: a client sends too much or reads too slowly.

use crate::node::{Content, StreamNode};
use crate::stream::{BINARY, CONTINUATION, FIN, PING, Seen, Stream, TEXT, frame};
use crate::{gateway, setup};
use rpcgate_tests::until;
use tokio::io::AsyncWriteExt;

const MIB: usize = 1 << 20;

/// Settings that find dead and slow sides in two seconds instead of sixty.
const QUICK: [&str; 2] = ["ping_interval = \"1s\"", "dead_after = \"2s\""];

/// Returns the maximum number of bytes that the system holds for the two connections of a stream: the send buffer and
/// the receive buffer of each.
pub(crate) fn sockets() -> usize {
    let largest = |name: &str| {
        let limits = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
        // The usual value on systems other than Linux.
        limits.split_whitespace().nth(2).map_or(8 * MIB, |most| most.parse().unwrap())
    };
    2 * (largest("tcp_wmem") + largest("tcp_rmem"))
}

fn too_large() -> Seen {
    Seen::Close(Some(1009), "message too large".into())
}

// Shows (Streams): Messages of up to 16 MiB pass, with fragments added up; larger ones close with 1009.
// Shows (Hostile and odd traffic): WebSocket follows RFC 6455 with limited messages; slow readers and dead clients are
// closed (promise 48).
#[tokio::test]
async fn a_message_beyond_16_mib_closes_the_stream_in_frames_or_fragments_both_ways() {
    let node = StreamNode::start(Content::Echo).await;
    let gateway = gateway(&node.url(), &[]).await;
    // The head of a frame is enough.
    let mut stream = Stream::open(gateway.addr()).await;
    let head =
        [&[FIN | BINARY, 0x80 | 127][..], &(16 * MIB as u64 + 1).to_be_bytes(), &[1, 2, 3, 4]].concat();
    stream.raw(&head).await;
    assert_eq!(stream.until_closed().await.0, too_large());
    // Fragments are added up.
    let Stream { read, mut write } = Stream::open(gateway.addr()).await;
    let writing = tokio::spawn(async move {
        for number in 0..17 {
            let opcode = if number == 0 { TEXT } else { CONTINUATION };
            if write.write_all(&frame(opcode, &vec![b'*'; MIB])).await.is_err() {
                break;
            }
        }
        write
    });
    let mut read = read;
    assert_eq!(read.next().await, too_large());
    drop((read, writing.await));
    // Fragments of a node are added up too.
    let large = StreamNode::start(Content::Flood(17 * MIB)).await;
    let gateway = crate::gateway(&large.url(), &[]).await;
    let mut stream = Stream::open(gateway.addr()).await;
    stream.text("begin").await;
    assert_eq!(stream.until_closed().await, (too_large(), 0));
}

// Shows (Streams).
#[tokio::test]
async fn handshakes_beyond_the_gateways_stream_limit_get_503_and_calls_still_pass() {
    let node = StreamNode::start(Content::Echo).await;
    // 39 of the connections may be streams, and one of them is reserved for other projects.
    let gateway = setup(&node.url(), &[]).connections(40).start().await;
    let mut streams = Vec::new();
    for _ in 0..38 {
        streams.push(Stream::open(gateway.addr()).await);
    }
    let refused = Stream::open_as(gateway.addr(), "default").await.err().unwrap();
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.head.contains("retry-after: 1"), "{refused:?}");
    let answer = gateway.client().call("eth", "eth_chainId", "[]").await;
    assert!(answer.text().contains("chain not available at this location"), "{answer:?}");
    for stream in &mut streams {
        stream.text("all are served").await;
        assert_eq!(stream.next().await, Seen::Text(b"all are served".to_vec()));
    }
    streams.pop();
    until("its place is free", || gateway.server.streams() == 37).await;
    Stream::open(gateway.addr()).await;
}

#[tokio::test]
async fn the_configured_size_limit_of_messages_is_enforced() {
    let node = StreamNode::start(Content::Echo).await;
    let gateway = gateway(&node.url(), &["max_message = \"64KiB\""]).await;
    let mut stream = Stream::open(gateway.addr()).await;
    let longest = "x".repeat((64 << 10) - crate::stream::call("").len());
    stream.text(&longest).await;
    assert_eq!(stream.next().await, Seen::Text(longest.clone().into_bytes()));
    stream.text(&format!("{longest}x")).await;
    assert_eq!(stream.until_closed().await.0, too_large());
}

// Shows (Streams).
// Shows (Hostile and odd traffic).
#[tokio::test]
async fn a_client_that_reads_nothing_is_closed_with_1008_and_little_is_held_for_it() {
    let node = StreamNode::start(Content::Flood(64 << 10)).await;
    let setup = setup(&node.url(), &QUICK).set("gateway.ws", "max_backlog = \"1MiB\"");
    let gateway = setup.key("other", "").start().await;
    let mut slow = Stream::open(gateway.addr()).await;
    slow.text("begin").await;
    until("the node cannot send any more", || node.is_blocked()).await;
    // Another stream continues at the same time.
    let mut other = Stream::open_as(gateway.addr(), "other").await.unwrap();
    other.text("begin").await;
    for _ in 0..200 {
        assert!(matches!(other.next_answering_pings().await, Seen::Binary(_)));
    }
    drop(other);
    until("the slow stream ends", || node.open() == 0).await;
    let (closed, messages) = slow.until_closed().await;
    assert_eq!(closed, Seen::Close(Some(1008), "messages are read too slowly".into()));
    assert!(messages * (64 << 10) <= sockets() + 2 * MIB, "{messages}");
}

// Shows (Streams): A slow client slows its node, and a client that reads nothing is closed with 1008; the memory for
// either is bounded.
#[tokio::test]
async fn a_slow_client_slows_its_node_and_loses_nothing() {
    let node = StreamNode::start(Content::Flood(64 << 10)).await;
    let gateway = gateway(&node.url(), &["max_backlog = \"1MiB\""]).await;
    let mut slow = Stream::open(gateway.addr()).await;
    slow.text("begin").await;
    until("the node cannot send any more", || node.is_blocked()).await;
    let held = node.sent();
    assert!(held <= sockets() + 2 * MIB, "{held} bytes are on the way");
    let mut got = 0;
    while got <= 2 * held {
        let Seen::Binary(payload) = slow.next().await else { panic!("a message") };
        got += payload.len();
    }
}

// Shows (Streams): Floods of pings and handshakes, half-open connections and half-finished handshakes are bounded and
// disturb no other client.
#[tokio::test]
async fn a_flood_of_pings_is_slowed_and_disturbs_no_other_stream() {
    let node = StreamNode::start(Content::Echo).await;
    let gateway = setup(&node.url(), &QUICK).key("other", "").start().await;
    let Stream { mut read, mut write } = Stream::open(gateway.addr()).await;
    let flooding = tokio::spawn(async move {
        let pings = frame(FIN | PING, &[b'p'; 125]).repeat(500);
        // It reads no pong.
        while write.write_all(&pings).await.is_ok() {
            tokio::task::yield_now().await;
        }
    });
    let mut other = Stream::open_as(gateway.addr(), "other").await.unwrap();
    while node.open() > 1 {
        other.text("undisturbed").await;
        assert_eq!(other.next_answering_pings().await, Seen::Text(b"undisturbed".to_vec()));
    }
    loop {
        match read.next().await {
            Seen::Pong(_) | Seen::Ping(_) => {}
            Seen::Close(code, _) => {
                assert_eq!(code, Some(1008));
                break;
            }
            Seen::End => break,
            other => panic!("{other:?}"),
        }
    }
    drop(read);
    // Pings and pongs are on the way in both directions of both connections, and each side is slowed by the next.
    flooding.await.unwrap();
    assert!(node.pings() <= 2 * sockets() + 10 * MIB, "{} bytes", node.pings());
}
