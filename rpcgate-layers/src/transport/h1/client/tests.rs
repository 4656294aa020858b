use super::super::{AnswerBody, NodeRequest};
use crate::nodes::{NodeConfig, PoolLimits};
use crate::testing::scripted_node::{PoolFixture, ScriptedNode, answer, broken, call, failing, undecodable};
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, StatusCode};
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::memory::MemoryPermit;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn a_node_sees_only_the_gateways_request() {
    let node = ScriptedNode::always(answer("{}")).await;
    let url = format!("http://us:p%40ss@{}/v3/?key=k", node.address);
    let mut config = NodeConfig::new(url.parse().unwrap());
    config.headers.push((http::HeaderName::from_static("x-own"), HeaderValue::from_static("o")));
    let fixture = PoolFixture::of(vec![config], PoolLimits::default());
    let mut ask = call("{\"id\":1}");
    ask.headers.insert("apikey", HeaderValue::from_static("secret"));
    ask.headers.insert("x-forwarded-for", HeaderValue::from_static("1.2.3.4"));
    fixture.complete(ask).await.unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "POST /v3/?key=k HTTP/1.1\r\nhost: {}\r\naccept-encoding: identity\r\nuser-agent: rpcgate/{version}\r\n\
         authorization: Basic dXM6cEBzcw==\r\nx-own: o\r\ncontent-type: application/json\r\ncontent-length: 8\r\n\r\n\
         {{\"id\":1}}",
        node.address
    );
    assert_eq!(node.seen(), [expected]);
}

#[tokio::test]
async fn a_rest_call_is_sent_to_a_path_below_the_url() {
    let node = ScriptedNode::always(answer("{}")).await;
    let fixture = PoolFixture::with(&[format!("{}/api", node.url())], PoolLimits::default());
    let mut ask = call("");
    (ask.method, ask.path) = (Method::GET, Some(PathAndQuery::from_static("/v2/x?y=1")));
    ask.headers.insert("accept", HeaderValue::from_static("text/plain"));
    fixture.complete(ask).await.unwrap();
    let [seen] = &node.seen()[..] else { panic!("one request") };
    assert!(seen.starts_with("GET /api/v2/x?y=1 HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains("\r\naccept: text/plain\r\n"), "{seen}");
    assert!(!seen.contains("content-type") && !seen.contains("content-length"), "{seen}");
}

#[tokio::test]
async fn an_answer_that_is_cut_anywhere_is_a_fault() {
    let full = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 12\r\n\r\n{\"result\":1}";
    let chunked =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\n{\"resu\r\n6\r\nlt\":1}\r\n0\r\n\r\n";
    for (text, steps) in [(full, 7), (chunked, 5)] {
        for cut in (0..text.len()).step_by(steps) {
            let node = failing(0, move |mut wire| async move { wire.write(&text[..cut]).await }).await;
            let fixture = PoolFixture::new(&[&node]);
            assert_eq!(fixture.broadcast().await, Err(broken()), "cut at {cut} of {text}");
            assert_eq!((node.seen().len(), fixture.idle()), (1, 0));
        }
        let node = ScriptedNode::always(text).await;
        assert_eq!(PoolFixture::new(&[&node]).read().await.unwrap(), "{\"result\":1}");
    }
}

#[tokio::test]
async fn a_half_closed_connection_is_not_used_again() {
    let node = ScriptedNode::serve(|_, mut wire| async move {
        wire.request().await;
        wire.write(answer("{}")).await;
        wire.stream.shutdown().await.unwrap();
        wire.closed().await;
    })
    .await;
    let fixture = PoolFixture::new(&[&node]);
    fixture.read().await.unwrap();
    fixture.until(|_| fixture.idle() == 0).await;
    assert_eq!(fixture.broadcast().await.unwrap(), "{}");
    assert_eq!(node.seen().len(), 2);
}

#[tokio::test]
async fn a_node_that_half_closes_instead_of_answering_is_a_fault() {
    let node = failing(0, async |mut wire| {
        wire.stream.shutdown().await.unwrap();
        wire.closed().await;
    })
    .await;
    assert_eq!(PoolFixture::new(&[&node]).broadcast().await, Err(broken()));
}

#[tokio::test]
async fn an_early_answer_counts_but_its_connection_is_not_used_again() {
    let node = ScriptedNode::serve(|number, mut wire| async move {
        if number == 0 {
            let mut byte = [0];
            wire.stream.read_exact(&mut byte).await.unwrap();
            wire.write("HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\n{}").await;
            // The rest of the request is never read.
            std::future::pending::<()>().await;
        }
        while wire.request().await.is_some() {
            wire.write(answer("next")).await;
        }
    })
    .await;
    let fixture = PoolFixture::new(&[&node]);
    let large = NodeRequest { broadcast: true, ..NodeRequest::json_rpc(Bytes::from(vec![b' '; 32 << 20])) };
    let early = fixture.pool.ask(&large, &mut MemoryPermit::default()).await.unwrap();
    assert_eq!(early.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(fixture.broadcast().await.unwrap(), "next");
    assert_eq!(node.conns(), 2);
}

#[tokio::test]
async fn bytes_after_an_answer_are_not_an_answer_to_the_next_call() {
    let poison = answer("poison");
    let node = ScriptedNode::serve(move |number, mut wire| {
        let poison = poison.clone();
        async move {
            let tail = if number == 0 { poison } else { String::new() };
            while wire.request().await.is_some() {
                wire.write(answer("good") + &tail).await;
            }
        }
    })
    .await;
    let fixture = PoolFixture::new(&[&node]);
    for _ in 0..3 {
        assert_eq!(fixture.read().await.unwrap(), "good");
    }
    assert_eq!((node.conns(), node.seen().len()), (2, 3));
}

#[tokio::test]
async fn bytes_that_arrive_on_an_idle_connection_close_it() {
    let node = ScriptedNode::serve(|_, mut wire| async move {
        wire.request().await;
        wire.write(answer("good")).await;
        wire.stream.flush().await.unwrap();
        tokio::task::yield_now().await;
        wire.write(answer("poison")).await;
        wire.closed().await;
    })
    .await;
    let fixture = PoolFixture::new(&[&node]);
    assert_eq!(fixture.read().await.unwrap(), "good");
    fixture.until(|_| fixture.idle() == 0).await;
    assert_eq!(fixture.read().await.unwrap(), "good");
}

/// A node that closes its first connection after an answer on it, and a channel that reports the close. It has a thread
/// of its own, so that the pool's thread can be blocked until then.
fn ending() -> (String, std::sync::mpsc::Receiver<String>) {
    use std::io::{BufRead, BufReader, Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (seen_requests, requests) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let serve = |reply: &str| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let head: Vec<_> =
                reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            let mut body = [0; 4];
            reader.read_exact(&mut body).unwrap();
            stream.write_all(answer(reply).as_bytes()).unwrap();
            (stream, format!("{} {}", head.len(), String::from_utf8_lossy(&body)))
        };
        let (stream, seen) = serve("first");
        drop(stream);
        seen_requests.send(seen).unwrap();
        let (_stream, seen) = serve("second");
        seen_requests.send(seen).unwrap();
    });
    (url, requests)
}

#[tokio::test]
async fn a_broadcast_on_a_connection_that_has_just_ended_is_sent_on_another() {
    let (url, requests) = ending();
    let fixture = PoolFixture::with(&[url], PoolLimits::default());
    assert_eq!(fixture.broadcast().await.unwrap(), "first");
    // The thread blocks, so the pool cannot notice the close before its next call.
    assert_eq!(requests.recv().unwrap(), "6 send");
    assert_eq!(fixture.broadcast().await.unwrap(), "second");
    assert_eq!(requests.recv().unwrap(), "6 send");
}

#[tokio::test]
async fn informational_responses_are_skipped() {
    let early = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n";
    let node = ScriptedNode::always(early.to_owned() + &answer("{}")).await;
    let fixture = PoolFixture::new(&[&node]);
    for _ in 0..2 {
        assert_eq!(fixture.read().await.unwrap(), "{}");
    }
    assert_eq!(node.conns(), 1);
}

#[tokio::test]
async fn bytes_that_are_not_an_http_answer_are_undecodable() {
    for garbage in [
        "\x16\x03\x01 not http\r\n\r\n",
        "{\"result\":1}\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}",
    ] {
        let node = ScriptedNode::always(garbage).await;
        let fixture = PoolFixture::new(&[&node]);
        assert_eq!(fixture.read().await, Err(undecodable()), "{garbage}");
        assert_eq!(node.seen().len(), 1, "a node that talks nonsense is not asked again: {garbage}");
    }
}

#[tokio::test]
async fn chunks_that_cannot_be_read_are_a_fault() {
    for chunks in ["x\r\n", "2\r\n{}xx", "ffffffffffffffffff\r\n", "2\r\n{}\r\nz"] {
        let node =
            ScriptedNode::always(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}"))
                .await;
        assert_eq!(PoolFixture::new(&[&node]).broadcast().await, Err(broken()), "{chunks}");
    }
}

#[tokio::test]
async fn trailers_are_omitted_and_the_connection_stays() {
    let node = ScriptedNode::always(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x\r\n\r\n2\r\n{}\r\n0\r\nx: y\r\n\r\n",
    )
    .await;
    let fixture = PoolFixture::new(&[&node]);
    for _ in 0..2 {
        let answer = fixture.pool.ask(&call("a"), &mut MemoryPermit::default()).await.unwrap();
        assert!(answer.framed && answer.headers.is_empty(), "{answer:?}");
    }
    assert_eq!(node.conns(), 1);
}

#[tokio::test]
async fn a_node_that_closes_after_each_answer_gets_a_connection_for_each_call() {
    for head in ["HTTP/1.1 200 OK\r\nconnection: close", "HTTP/1.0 200 OK"] {
        let node = ScriptedNode::always(format!("{head}\r\ncontent-length: 2\r\n\r\n{{}}")).await;
        let fixture = PoolFixture::new(&[&node]);
        for _ in 0..3 {
            assert_eq!(fixture.broadcast().await.unwrap(), "{}");
        }
        assert_eq!((node.conns(), fixture.idle()), (3, 0));
    }
}

#[tokio::test]
async fn a_body_that_ends_with_the_connection_is_returned_whole_or_not_at_all() {
    let node = failing(0, async |mut wire| wire.write("HTTP/1.0 200 OK\r\n\r\n{\"result\":1}").await).await;
    let fixture = PoolFixture::new(&[&node]);
    let answer = fixture.pool.ask(&call("a"), &mut MemoryPermit::default()).await.unwrap();
    assert!(
        !answer.framed && matches!(answer.body, AnswerBody::Complete(ref body) if body == "{\"result\":1}")
    );
    assert_eq!(
        fixture.complete(NodeRequest { buffer: 11, broadcast: true, ..call("a") }).await,
        Err(undecodable())
    );
}

#[tokio::test]
async fn leaving_a_call_closes_its_connection() {
    let node = failing(0, async |mut wire| {
        wire.closed().await;
        wire.note("closed");
    })
    .await;
    let fixture = PoolFixture::new(&[&node]);
    {
        let mut room = MemoryPermit::default();
        let call = call("a");
        let mut ask = Box::pin(fixture.pool.ask(&call, &mut room));
        let seen = fixture.until(|_| !node.seen().is_empty());
        tokio::select! { _ = &mut ask => panic!("no answer was sent"), () = seen => {} }
    }
    fixture.until(|_| node.seen().len() == 2).await;
    assert_eq!(fixture.pool.in_flight(), 0);
}

#[tokio::test]
async fn compressed_answers_are_decoded_within_bounds() {
    let text = "{\"result\":0}".repeat(1000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, text.as_bytes()).unwrap();
    let body = gzip.finish().unwrap();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", body.len());
    let node = ScriptedNode::always([head.as_bytes(), &body].concat()).await;
    let fixture = PoolFixture::new(&[&node]);
    let ask = NodeRequest { buffer: 10, max: text.len(), ..call("a") };
    let answer = fixture.pool.ask(&ask.clone(), &mut MemoryPermit::default()).await.unwrap();
    assert!(
        answer.headers.is_empty() && matches!(answer.body, AnswerBody::Complete(ref body) if *body == text)
    );
    for max in [text.len() - 1, body.len() - 1] {
        let error = fixture.complete(NodeRequest { max, ..ask.clone() }).await;
        assert_eq!(error, Err(Fault::sent(Cause::Oversize).into()), "{max}");
    }
}

#[tokio::test]
async fn a_call_is_repeated_at_a_node_that_gave_up_waiting() {
    let node = failing(1, async |mut wire| {
        wire.write("HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await;
    })
    .await;
    let fixture = PoolFixture::new(&[&node]);
    fixture.read().await.unwrap();
    assert_eq!(fixture.read().await.unwrap(), "{}");
    assert_eq!(node.conns(), 2);
}
