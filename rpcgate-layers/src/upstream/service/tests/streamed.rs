//! Answers that are too large for the buffer, and bytes that belong to no answer.

use super::*;
use crate::reply_body::ReplyBody;
use rpcgate_core::caller::RequestId;

const LIMITS: ReplyLimits =
    ReplyLimits { buffer: 1_000, max: 2_000, stream_max: 1 << 20, stream_time: Duration::from_secs(600) };

/// Sends a call as the gateway does, and reads the whole answer.
async fn streamed(site: &Site, call: &'static str, limits: ReplyLimits) -> Result<String, Fault> {
    let Ok(calls) = site.upstream.clone().with_limits(limits).call(site.fixture.calls(call.as_bytes())).await;
    let pending = join(calls, usize::MAX);
    let body = match pending.flow {
        Some(flow) => ReplyBody::flowing(flow, pending.tally),
        None => ReplyBody::complete(pending.body),
    };
    let hint = http_body::Body::size_hint(&body).exact();
    let bytes = body.collect().await?.to_bytes();
    assert!(hint.is_none_or(|hint| hint == bytes.len() as u64), "{hint:?}");
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

fn chunked(body: &str) -> String {
    let chunk = |chunk: &[u8]| format!("{:x}\r\n{}\r\n", chunk.len(), std::str::from_utf8(chunk).unwrap());
    let chunks: String = body.as_bytes().chunks(777).map(chunk).collect();
    format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_streamed_answer_has_its_clients_id_in_every_position() {
    let long = "x".repeat(100_000);
    for (reply, expected) in [
        (
            format!(r#"{{"jsonrpc":"2.0","id":0,"result":"{long}"}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":"m\u0069ne","result":"{long}"}}"#),
        ),
        (format!(r#"{{"result":"{long}","id":0}}"#), format!(r#"{{"result":"{long}","id":"m\u0069ne"}}"#)),
        (
            format!(r#"{{"error":{{"data":"{long}"}}}}"#),
            format!(r#"{{"error":{{"data":"{long}"}},"id":"m\u0069ne"}}"#),
        ),
    ] {
        for reply in [answer(&reply), chunked(&reply)] {
            let node = ScriptedNode::always(reply).await;
            let site = Site::new(&[&node]);
            for _ in 0..2 {
                let read = streamed(&site, r#"{"id":"m\u0069ne","method":"toy_scan"}"#, LIMITS).await;
                assert!(read.as_deref() == Ok(&*expected));
            }
            assert_eq!(node.conns(), 1, "a whole answer leaves its connection usable");
            assert!(site.lines().iter().all(|line| line.0 == 75));
        }
    }
}

// Shows (Nodes and cache): A streamed answer is checked to its end, has its client's own id, and is bounded in bytes
// and time; an incomplete one gets no clean end and is not charged (promise 79).
#[tokio::test]
async fn a_streamed_answer_that_is_not_whole_has_no_clean_end_and_is_not_charged() {
    let whole = format!(r#"{{"jsonrpc":"2.0","id":0,"result":["{}"]}}"#, "x".repeat(100_000));
    let half = whole.len() / 2;
    for bad in [
        whole[..half].to_owned(),
        whole[..whole.len() - 1].to_owned(),
        format!("{whole}<html>502</html>"),
        format!("{whole}{whole}"),
        format!("{}\0\0{}", &whole[..half], &whole[half..]),
        whole.replace("\"]}", "\"}}"),
        whole.replace("\"id\":0", "\"id\":999"),
        format!(r#"{},"id":999}}"#, whole.replace("\"id\":0,", "").trim_end_matches('}')),
        format!(r#"{},"id":0}}"#, whole.trim_end_matches('}')),
    ] {
        for reply in [answer(&bad), chunked(&bad)] {
            let node = closing(reply).await;
            let site = Site::new(&[&node]);
            let read = streamed(&site, READ, LIMITS).await;
            let is_failure = read.as_ref().is_ok_and(|body| body.contains("-32603"));
            assert!(is_failure || read == Err(Fault::sent(Cause::Undecodable)), "{:.60}", read.unwrap());
            assert_eq!(site.lines(), [(0, 200, Outcome::Failed)]);
            assert_eq!(site.pool.idle(), 0, "what follows on the connection is unknown");
        }
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_streamed_answer_is_bounded_in_bytes() {
    let whole = format!(r#"{{"id":0,"result":"{}"}}"#, "x".repeat(100_000));
    let node = ScriptedNode::always(answer(&whole)).await;
    let site = Site::new(&[&node]);
    let bytes = |stream_max: usize| ReplyLimits { stream_max: stream_max as u64, ..LIMITS };
    assert!(streamed(&site, READ, bytes(whole.len())).await.unwrap() == whole);
    assert_eq!(streamed(&site, READ, bytes(whole.len() - 1)).await, Err(Fault::sent(Cause::Oversize)));
    assert_eq!(site.lines()[1], (0, 200, Outcome::Failed));
}

// Shows (Nodes and cache).
#[tokio::test(start_paused = true)]
async fn a_streamed_answer_is_bounded_in_time() {
    let node = ScriptedNode::serve(|_, mut wire: Wire| async move {
        wire.request().await;
        wire.write("HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\n{\"id\":0,\"result\":\"").await;
        for _ in 0..1_000 {
            wire.write("x".repeat(100_000)).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await;
    let site = Site::new(&[&node]);
    let began = tokio::time::Instant::now();
    let limits = ReplyLimits { stream_max: u64::MAX, stream_time: Duration::from_secs(60), ..LIMITS };
    assert_eq!(streamed(&site, READ, limits).await, Err(Fault::sent(Cause::Timeout)));
    assert_eq!(began.elapsed().as_secs(), 60);
}

// Shows (Nodes and cache): Answers of different exchanges with a node never mix: each call has a number; an answer with
// another number is a failed try and closes its connection; an answer to HEAD, 204 or 304 closes it too; connections
// without numbers in their answers pause before the next call (promise 76).
#[tokio::test]
async fn a_late_answer_is_never_that_to_another_call() {
    // After each answer, in the same packet or later, the previous one comes again.
    let node = ScriptedNode::serve(|_, mut wire: Wire| async move {
        let mut last = None;
        while let Some(request) = wire.request().await {
            let reply = echoed(request.split_once("\r\n\r\n").unwrap().1, 0);
            wire.write(answer(&reply)).await;
            tokio::task::yield_now().await;
            if let Some(last) = last.replace(reply) {
                wire.write(answer(&last)).await;
            }
        }
    })
    .await;
    let site = Site::new(&[&node]);
    for call in 0..200_u128 {
        let text = format!(r#"{{"id":1,"method":"toy_scan","params":[{call}]}}"#).leak();
        let mut calls = site.fixture.calls(text.as_bytes());
        calls.tally_mut().request = RequestId(call);
        let Ok(calls) = site.upstream.clone().call(calls).await;
        let body = super::text(&join(calls, usize::MAX));
        let own = format!(r#"{{"id":1,"result":["toy_scan",[{call}]],"jsonrpc":"2.0"}}"#);
        // While retries last, each call gets its own answer.
        assert!(body == own || call >= 20 && body.contains("-32603"), "{call}: {body}");
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn an_answer_to_another_call_closes_its_connection_and_is_tried_at_another_node() {
    let other = |id: &'static str| ScriptedNode::always(answer(&format!(r#"{{"id":{id},"result":1}}"#)));
    let stale = other("7").await;
    let good = other("0").await;
    let site = Site::new(&[&stale, &good]);
    for _ in 0..4 {
        assert_eq!(site.send(READ).await.1, r#"{"id":0,"result":1}"#);
    }
    let seen = stale.seen().len();
    assert!(seen > 0 && stale.conns() == seen, "each of its answers closes a connection");
    assert_eq!(good.conns(), 1);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn an_answer_without_an_id_counts_only_on_a_connection_that_has_shown_none() {
    let bare = r#"{"jsonrpc":"2.0","result":5}"#;
    let node = ScriptedNode::always(answer(bare)).await;
    let site = Site::new(&[&node]);
    for _ in 0..2 {
        assert_eq!(site.send(r#"{"id":7,"method":"a"}"#).await.1, r#"{"jsonrpc":"2.0","id":7,"result":5}"#);
    }
    let node = ScriptedNode::serve(move |number, mut wire: Wire| async move {
        for reply in [r#"{"id":0,"result":1}"#, bare] {
            wire.request().await;
            // Only the first connection shows numbers.
            wire.write(answer(if number == 0 { reply } else { bare })).await;
        }
    })
    .await;
    let site = Site::new(&[&node]);
    assert_eq!(site.states_of(SEND).await, [r#"whole {"id":0,"result":1}"#]);
    assert_eq!(site.states_of(SEND).await, ["Broken"], "it may be that to an earlier call");
    assert_eq!(site.states_of(SEND).await, ["5"]);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn the_answers_to_another_array_are_a_failed_try() {
    let array =
        |first: usize| answer(&format!(r#"[{{"id":{first},"result":1}},{{"id":{},"result":2}}]"#, first + 1));
    let stale = ScriptedNode::always(array(128)).await;
    let good = ScriptedNode::always(array(0)).await;
    let site = Site::new(&[&stale, &good]);
    for _ in 0..4 {
        assert_eq!(site.states_of(r#"[{"id":1,"method":"a"},{"id":2,"method":"b"}]"#).await, ["1", "2"]);
    }
    assert!(!stale.seen().is_empty() && stale.conns() == stale.seen().len());
}
