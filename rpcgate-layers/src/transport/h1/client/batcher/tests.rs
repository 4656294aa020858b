use super::*;
use crate::nodes::{HedgePolicy, NodeConfig, NodeSpending, NodeUrl, PoolLimits, RetryBudget, RetryPolicy};
use crate::testing::scripted_node::{PoolFixture, ScriptedNode, Wire, answer};
use futures_util::FutureExt;
use futures_util::future::join_all;
use proptest::prelude::*;
use rpcgate_core::chain::{NodeAllowance, NodeRate};
use std::sync::atomic::AtomicBool;

/// A single read with this number as its id.
fn read(number: usize) -> NodeRequest {
    let body = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"toy_read"}}"#));
    let batchable = Some(Box::new(BatchableCall { number, body: body.clone(), path: None }));
    NodeRequest { batchable, ..NodeRequest::json_rpc(body) }
}

fn reply(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"of {id}"}}"#)
}

fn all(replies: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", replies.into_iter().collect::<Vec<_>>().join(","))
}

fn ids(request: &str) -> Vec<String> {
    let id = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect();
    request.split("\"id\":").skip(1).map(id).collect()
}

fn is_array(request: &str) -> bool {
    request.contains("\r\n\r\n[")
}

/// A node that answers calls, and arrays with the result of `arrays` for their ids: an HTTP answer, or nothing at all.
async fn node(arrays: impl Fn(&[String]) -> Option<String> + Clone + Send + Sync + 'static) -> ScriptedNode {
    ScriptedNode::serve(move |_, mut wire: Wire| {
        let arrays = arrays.clone();
        async move {
            while let Some(request) = wire.request().await {
                let ids = ids(&request);
                let said = if is_array(&request) { arrays(&ids) } else { Some(answer(&reply(&ids[0]))) };
                match said {
                    Some(said) => wire.write(said).await,
                    None => {
                        wire.closed().await;
                        return wire.note("closed");
                    }
                }
            }
        }
    })
    .await
}

async fn good() -> ScriptedNode {
    node(|ids| Some(answer(&all(ids.iter().map(|id| reply(id)))))).await
}

/// A timeout that a busy machine does not reach.
fn patient() -> BatchingPolicy {
    BatchingPolicy::default().with_timeout(Duration::from_secs(60))
}

fn limits(policy: BatchingPolicy) -> PoolLimits {
    PoolLimits::default().with_batching(Some(policy))
}

fn fixture(nodes: &[&ScriptedNode]) -> PoolFixture {
    let urls: Vec<_> = nodes.iter().map(|node| node.url()).collect();
    PoolFixture::with(&urls, limits(patient()))
}

async fn all_of(
    fixture: &PoolFixture,
    numbers: impl IntoIterator<Item = usize>,
) -> Vec<Result<String, NodeRequestError>> {
    join_all(numbers.into_iter().map(|number| fixture.complete(read(number)))).await
}

fn own(numbers: impl IntoIterator<Item = usize>) -> Vec<Result<String, NodeRequestError>> {
    numbers.into_iter().map(|number| Ok(reply(&number.to_string()))).collect()
}

fn counts(fixture: &PoolFixture) -> (u64, u64, u64) {
    let counts = fixture.pool.arrays().unwrap();
    (counts.arrays, counts.calls, counts.abandoned)
}

// Shows (Nodes and cache): Single reads of several clients are sent to a node in fewer requests; each client gets its
// own answer under its own id, in any order of the node's answers.
#[tokio::test]
async fn calls_that_come_together_are_sent_in_one_request_and_each_gets_its_own_answer() {
    let node = good().await;
    let fixture = fixture(&[&node]);
    assert_eq!(all_of(&fixture, 0..24).await, own(0..24));
    assert_eq!((node.seen().len(), counts(&fixture)), (3, (3, 24, 0)));
    assert_eq!(all_of(&fixture, 0..3).await, own(0..3));
    assert_eq!((node.seen().len(), counts(&fixture)), (4, (4, 27, 0)));
    assert!(node.seen().iter().all(|request| is_array(request)));
    assert_eq!(fixture.pool.in_flight() + fixture.pool.nodes().map(|node| node.in_flight).sum::<usize>(), 0);
}

/// A pool of this node, which takes `burst` calls at once.
fn limited(node: &ScriptedNode, burst: u32) -> PoolFixture {
    let rate = Some(NodeRate { per_second: 1, burst });
    let allowance = NodeAllowance { rate, ..NodeAllowance::default() };
    let config = NodeConfig::new(node.url().parse().unwrap());
    let config = config.with_allowance(allowance, NodeSpending::default());
    PoolFixture::of(vec![config], limits(BatchingPolicy::default()))
}

// Shows (Nodes and cache).
#[tokio::test]
async fn each_call_of_an_array_counts_and_once_more_if_it_is_sent_alone_afterwards() {
    let month_calls = |fixture: &PoolFixture| fixture.pool.nodes().next().unwrap().spending.month_calls;
    let good = good().await;
    let fixture = limited(&good, 6);
    let answered = all_of(&fixture, 0..9).await;
    assert_eq!(answered[..6], own(0..6));
    assert!(answered[6..].iter().all(|late| *late == Err(NodeRequestError::AtLimit)), "{answered:?}");
    assert_eq!((good.seen().len(), counts(&fixture), month_calls(&fixture)), (1, (1, 6, 0), 6));
    let rejecting = node(|_| Some(answer(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600}}"#))).await;
    let fixture = limited(&rejecting, 8);
    assert_eq!(all_of(&fixture, 0..4).await, own(0..4));
    assert_eq!((counts(&fixture), month_calls(&fixture)), ((1, 4, 1), 8));
    assert_eq!(fixture.complete(read(9)).await, Err(NodeRequestError::AtLimit));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_many_tasks_on_several_threads_each_get_their_own_answer() {
    let node = good().await;
    let fixture = fixture(&[&node]);
    let tasks = (0..32).map(|task| {
        let pool = fixture.pool.clone();
        tokio::spawn(async move {
            for number in (0..20).map(|n| task * 100 + n) {
                let said = pool.ask(&read(number), &mut MemoryPermit::default()).await.unwrap();
                let expected = reply(&number.to_string());
                assert!(matches!(said.body, AnswerBody::Complete(ref body) if *body == expected), "{said:?}");
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let (arrays, calls, abandoned) = counts(&fixture);
    let alone = node.seen().iter().filter(|request| !is_array(request)).count() as u64;
    assert_eq!((calls + alone, abandoned), (640, 0));
    assert_eq!(node.seen().len() as u64, arrays + alone);
}

#[tokio::test]
async fn a_call_that_is_alone_is_sent_as_it_is() {
    let node = good().await;
    let fixture = fixture(&[&node]);
    let other = NodeRequest { batchable: None, ..read(1) };
    let (one, two) = tokio::join!(fixture.complete(read(0)), fixture.complete(other));
    assert_eq!([one, two], [Ok(reply("0")), Ok(reply("1"))]);
    assert_eq!((node.seen().len(), counts(&fixture)), (2, (0, 0, 0)));
    assert!(!node.seen().iter().any(|request| is_array(request)));
}

#[tokio::test]
async fn a_call_waits_for_the_configured_time_and_no_longer_if_the_array_is_full() {
    let node = good().await;
    let policy = patient().with_max_calls(3).with_wait(Duration::from_secs(1));
    let fixture = PoolFixture::with(&[node.url()], limits(policy));
    let first = fixture.complete(read(0));
    let second = async {
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        fixture.complete(read(1)).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!([first, second], [Ok(reply("0")), Ok(reply("1"))]);
    assert_eq!(counts(&fixture), (1, 2, 0), "the second one came in time");
    let short = patient().with_wait(Duration::from_millis(20));
    let fixture = PoolFixture::with(&[node.url()], limits(short));
    assert_eq!(all_of(&fixture, [7]).await, own([7]), "its time is over and it is alone");
    assert_eq!(counts(&fixture), (0, 0, 0));
    let forever = patient().with_max_calls(2).with_wait(Duration::from_secs(3_600));
    let fixture = PoolFixture::with(&[node.url()], limits(forever));
    assert_eq!(all_of(&fixture, 0..4).await, own(0..4));
    assert_eq!(counts(&fixture), (2, 4, 0));
}

#[tokio::test]
async fn an_array_has_at_most_the_configured_number_of_calls() {
    let node = good().await;
    for (max_batch, arrays) in [(Some(2), 3), (Some(1), 0), (None, 1)] {
        let mut config = NodeConfig::new(node.url().parse::<NodeUrl>().unwrap());
        config.max_batch = max_batch;
        let fixture = PoolFixture::of(vec![config], limits(patient()));
        assert_eq!(all_of(&fixture, 0..6).await, own(0..6));
        assert_eq!(counts(&fixture).0, arrays, "{max_batch:?}");
    }
}

#[tokio::test]
async fn two_calls_with_the_same_number_are_not_in_one_array() {
    let node = good().await;
    let fixture = fixture(&[&node]);
    assert_eq!(all_of(&fixture, [5, 5, 6]).await, own([5, 5, 6]));
    assert_eq!((node.seen().len(), counts(&fixture)), (2, (1, 2, 0)));
}

// Shows (Nodes and cache): An error, a missing answer and a client that leaves affect no other call of an array; a
// failed array is one failure of its node.
#[tokio::test]
async fn an_error_in_an_array_is_the_answer_of_its_call_alone() {
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-7}}"#;
    let node = node(move |ids| {
        let said = |id: &String| if id == "1" { error.to_owned() } else { reply(id) };
        Some(answer(&all(ids.iter().rev().map(said))))
    })
    .await;
    let fixture = fixture(&[&node]);
    let answers = all_of(&fixture, 0..3).await;
    assert_eq!(answers, [Ok(reply("0")), Ok(error.to_owned()), Ok(reply("2"))]);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_call_that_an_array_omits_or_answers_twice_fails_alone_and_is_retried_elsewhere() {
    for twice in [false, true] {
        let careless = node(move |ids| {
            let said = |id: &String| match id.as_str() {
                "1" if twice => vec![reply(id), reply(id)],
                "1" => vec![],
                _ => vec![reply(id)],
            };
            Some(answer(&all(ids.iter().flat_map(said))))
        })
        .await;
        let alone = fixture(&[&careless]);
        let cause = if twice { Cause::Undecodable } else { Cause::Unanswered };
        let answers = all_of(&alone, 0..3).await;
        assert_eq!(
            answers,
            [Ok(reply("0")), Err(NodeRequestError::Fault(Fault::sent(cause))), Ok(reply("2"))]
        );
        let node = good().await;
        let mut fallback = NodeConfig::new(node.url().parse::<NodeUrl>().unwrap());
        fallback.priority = 1;
        let first = NodeConfig::new(careless.url().parse::<NodeUrl>().unwrap());
        let fixture = PoolFixture::of(vec![first, fallback], limits(patient()));
        assert_eq!(all_of(&fixture, 0..3).await, own(0..3));
        assert_eq!(node.seen().iter().map(|request| ids(request)).collect::<Vec<_>>(), [["1"]]);
    }
}

// Shows (Nodes and cache): A node that rejects an array, or answers it late or too verbosely, gets its calls alone, and
// no array for a while.
#[tokio::test]
async fn a_node_that_rejects_arrays_gets_its_calls_alone_and_no_array_for_a_while() {
    let refusals = [
        answer(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no arrays"}}"#),
        answer(r#"[{"jsonrpc":"2.0","id":0,"error":{"code":-32600,"message":"batch too large"}}]"#),
        answer("[]"),
        answer("no arrays"),
        "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "HTTP/1.1 501 Not Implemented\r\ncontent-length: 2\r\n\r\nno".to_owned(),
    ];
    for refusal in refusals {
        let node = node(move |_| Some(refusal.clone())).await;
        let fixture = fixture(&[&node]);
        assert_eq!(all_of(&fixture, 0..3).await, own(0..3));
        assert_eq!((node.seen().len(), counts(&fixture)), (4, (1, 3, 1)));
        assert_eq!(all_of(&fixture, 0..3).await, own(0..3));
        assert_eq!((node.seen().len(), counts(&fixture)), (7, (1, 3, 1)), "it is known");
        fixture.clock.advance(Duration::from_secs(1));
        assert_eq!(all_of(&fixture, 0..3).await, own(0..3));
        fixture.clock.advance(Duration::from_secs(1));
        assert_eq!(all_of(&fixture, 0..3).await, own(0..3));
        assert_eq!((node.seen().len(), counts(&fixture)), (14, (2, 6, 2)), "each time for twice as long");
        assert_eq!(fixture.pool.nodes().next().unwrap().health.name(), "well");
    }
}

/// The reply to a call with this number, with another spelling of the number or without one.
fn respelled(id: &str, spelling: &str) -> String {
    reply(id).replace(&format!("\"id\":{id}"), &spelling.replace('N', id))
}

#[tokio::test]
async fn the_replies_in_an_array_are_matched_in_any_spelling_of_their_numbers() {
    for spelling in ["\"id\":N.0", "\"id\":\"N\"", "\"id\":Ne0"] {
        let node = node(move |ids| Some(answer(&all(ids.iter().map(|id| respelled(id, spelling)))))).await;
        let fixture = fixture(&[&node]);
        let answers = all_of(&fixture, 0..3).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 3, "{spelling} {answers:?}");
        assert_eq!(node.seen().len(), 1, "{spelling}");
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn calls_of_an_array_with_unrelated_replies_are_sent_alone() {
    for spelling in ["\"id\":null", "\"x\":N", "\"id\":99N", "\"id\":[N]"] {
        let node = node(move |ids| Some(answer(&all(ids.iter().map(|id| respelled(id, spelling)))))).await;
        let fixture = fixture(&[&node]);
        assert_eq!(all_of(&fixture, 0..3).await, own(0..3), "{spelling}");
        assert_eq!(node.seen().len(), 1 + 3, "{spelling}");
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn an_array_with_a_too_large_or_late_answer_is_abandoned_and_its_calls_sent_alone() {
    let large = all(["0", "1"].map(|id| format!(r#"{{"id":{id},"result":"{}"}}"#, "x".repeat(MAX_ANSWER))));
    for said in [Some(answer(&large)), None] {
        let node = node(move |_| said.clone()).await;
        let policy = BatchingPolicy::default().with_timeout(Duration::from_millis(300));
        let fixture = PoolFixture::with(&[node.url()], limits(policy));
        assert_eq!(all_of(&fixture, 0..2).await, own(0..2));
        assert_eq!(counts(&fixture), (1, 2, 1));
        assert_eq!(all_of(&fixture, 0..2).await, own(0..2));
        assert_eq!(counts(&fixture), (1, 2, 1), "no array for a while");
    }
}

// Shows (Nodes and cache): Calls of an abandoned array are sent alone within the chain's budget of retries; without one
// they fail.
#[tokio::test]
async fn calls_of_an_abandoned_array_are_sent_alone_only_while_the_chain_has_retries() {
    let large = all(["0", "1"].map(|id| format!(r#"{{"id":{id},"result":"{}"}}"#, "x".repeat(MAX_ANSWER))));
    for (said, cause) in [
        (Some(answer("no arrays")), Cause::Undecodable),
        (Some(answer(&large)), Cause::Oversize),
        (None, Cause::Timeout),
    ] {
        let node = node(move |_| said.clone()).await;
        let policy = BatchingPolicy::default().with_timeout(Duration::from_millis(300));
        // Two calls earn one retry, and no retry is free.
        let budget = RetryBudget::default().with_min_per_sec(0).with_calls_per_retry(2);
        let limits = limits(policy).with_retry(RetryPolicy::default().with_budget(budget));
        let fixture = PoolFixture::with(&[node.url()], limits);
        let failed = || Err(NodeRequestError::Fault(Fault::sent(cause)));
        assert_eq!(all_of(&fixture, 0..4).await, [Ok(reply("0")), Ok(reply("1")), failed(), failed()]);
        let alone = node.seen().iter().filter(|seen| seen.contains("toy_read") && !is_array(seen)).count();
        assert_eq!((alone, counts(&fixture)), (2, (1, 4, 1)), "{cause:?}");
        assert_eq!(fixture.pool.nodes().next().unwrap().health.name(), "well");
        assert!(!fixture.pool.take_retry(), "they were those of the chain");
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_failed_array_is_a_failed_try_of_each_of_its_calls_and_one_failure_of_its_node() {
    let breaking = ScriptedNode::serve(|number, mut wire: Wire| async move {
        while let Some(request) = wire.request().await {
            if number == 0 {
                return wire.reset();
            }
            wire.write(answer(&reply(&ids(&request)[0]))).await;
        }
    })
    .await;
    let once = fixture(&[&breaking]);
    assert_eq!(all_of(&once, 0..8).await, own(0..8));
    assert_eq!(breaking.seen().iter().filter(|request| is_array(request)).count(), 1);
    assert_eq!((breaking.seen().len(), once.pool.nodes().next().unwrap().health.name()), (9, "well"));
    let retry = RetryPolicy::default().with_attempts(1);
    let status = ScriptedNode::always("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").await;
    let limits = limits(patient()).with_retry(retry);
    let fixture = PoolFixture::with(&[status.url()], limits);
    let reject = |answer: NodeAnswer| -> Result<(), _> {
        assert!(matches!(answer.body, AnswerBody::Complete(ref body) if body.is_empty()));
        Err(Fault::sent(Cause::Status(answer.status.as_u16())))
    };
    let asked = (0..8).map(|number| {
        let pool = fixture.pool.clone();
        async move {
            let mut memory = MemoryPermit::default();
            let mut tries = NodeTries::default();
            pool.ask_classified(&read(number), None, &mut memory, (&mut |_| {}, &mut tries), reject).await
        }
    });
    let answers = join_all(asked).await;
    assert_eq!(answers, vec![Err(NodeRequestError::Fault(Fault::sent(Cause::Status(503)))); 8]);
    assert_eq!(status.seen().len(), 1);
    assert_eq!(fixture.pool.nodes().next().unwrap().health.name(), "well", "one failure, not eight");
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_failure_at_a_second_node_is_recorded_even_after_an_array_failed_at_the_first() {
    let busy = ScriptedNode::always("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").await;
    let silent = node(|_| None).await;
    let first = NodeConfig::new(busy.url().parse::<NodeUrl>().unwrap());
    let mut fallback = NodeConfig::new(silent.url().parse::<NodeUrl>().unwrap());
    fallback.priority = 1;
    let retry = RetryPolicy::default().with_per_try(Duration::from_secs(1));
    let fixture = PoolFixture::of(vec![first, fallback], limits(patient()).with_retry(retry));
    let reject =
        |answer: NodeAnswer| -> Result<(), _> { Err(Fault::sent(Cause::Status(answer.status.as_u16()))) };
    let asked = (0..2).map(|number| {
        let pool = fixture.pool.clone();
        async move {
            let mut memory = MemoryPermit::default();
            let mut tries = NodeTries::default();
            pool.ask_classified(&read(number), None, &mut memory, (&mut |_| {}, &mut tries), reject).await
        }
    });
    let answers = join_all(asked).await;
    assert_eq!(answers, vec![Err(NodeRequestError::Fault(Fault::sent(Cause::Status(503)))); 2]);
    let faults: Vec<_> = fixture.pool.nodes().map(|node| node.faults).collect();
    assert_eq!(faults, [1, 2], "one array, and two calls that took too long");
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_call_whose_client_leaves_before_it_is_sent_leaves_no_hole_and_was_not_sent() {
    let node = good().await;
    let fixture = fixture(&[&node]);
    let is_sent = AtomicBool::new(false);
    let mut on_sent = |sent| is_sent.store(sent, Relaxed);
    let request = read(0);
    let mut memory = MemoryPermit::default();
    let mut tries = NodeTries::default();
    let noted = (&mut on_sent as &mut crate::nodes::progress::OnSent<'_>, &mut tries);
    let mut leaves = Box::pin(fixture.pool.ask_classified(&request, None, &mut memory, noted, Ok));
    assert!((&mut leaves).now_or_never().is_none());
    let mut one = Box::pin(fixture.complete(read(1)));
    let mut two = Box::pin(fixture.complete(read(2)));
    assert!((&mut one).now_or_never().is_none() && (&mut two).now_or_never().is_none());
    drop(leaves);
    let (one, two) = tokio::join!(one, two);
    assert_eq!([one, two], [Ok(reply("1")), Ok(reply("2"))]);
    assert_eq!(node.seen().iter().map(|request| ids(request)).collect::<Vec<_>>(), [["1", "2"]]);
    assert!(!is_sent.load(Relaxed));
}

#[tokio::test]
async fn a_call_that_another_took_along_was_sent_although_its_client_leaves_at_once() {
    let node = good().await;
    let limits = limits(patient().with_max_calls(2)).with_hedge(Some(HedgePolicy::default()));
    for hedge in [None, Some("toy_read")] {
        let fixture = PoolFixture::with(&[node.url()], limits);
        let is_sent = AtomicBool::new(false);
        let mut on_sent = |sent| is_sent.store(sent, Relaxed);
        let request = NodeRequest { hedge, ..read(0) };
        let mut memory = MemoryPermit::default();
        let mut tries = NodeTries::default();
        let noted = (&mut on_sent as &mut crate::nodes::progress::OnSent<'_>, &mut tries);
        let mut leaves = Box::pin(fixture.pool.ask_classified(&request, None, &mut memory, noted, Ok));
        assert!((&mut leaves).now_or_never().is_none());
        let mut stays = Box::pin(fixture.complete(read(1)));
        assert!((&mut stays).now_or_never().is_none(), "the array is full and sent");
        drop(leaves);
        assert_eq!(stays.await, Ok(reply("1")));
        assert!(is_sent.load(Relaxed), "{hedge:?}");
    }
}

// Shows (Nodes and cache).
#[test]
fn the_first_connected_client_of_a_failed_array_reports_the_failure() {
    let (calls, mut receivers): (Vec<_>, Vec<_>) = (0..3)
        .map(|number| {
            let (outcome, receiver) = oneshot::channel();
            let ticket = number as u64;
            let body = Bytes::new();
            (WaitingCall { ticket, number, body, path: None, outcome }, receiver)
        })
        .unzip();
    drop(receivers.remove(0));
    give_all(calls, || Err(Fault::sent(Cause::Broken).into()));
    let reports = receivers.iter_mut().map(|receiver| match receiver.try_recv() {
        Ok(BatchOutcome::Ended { result: Err(_), is_shared }) => !is_shared,
        _ => panic!("every call failed"),
    });
    assert_eq!(reports.collect::<Vec<_>>(), [true, false]);
}

#[tokio::test]
async fn an_array_whose_clients_have_all_left_is_stopped() {
    let silent = node(|_| None).await;
    let policy = BatchingPolicy::default().with_timeout(Duration::from_secs(3_600));
    let fixture = PoolFixture::with(&[silent.url()], limits(policy));
    let asked = async {
        all_of(&fixture, 0..2).await;
    };
    let arrived = fixture.until(|_| silent.seen().len() == 1);
    tokio::select! { () = asked => panic!("the node does not answer"), () = arrived => {} }
    fixture.until(|_| silent.seen().contains(&"closed".to_owned())).await;
    assert_eq!(fixture.pool.nodes().map(|node| node.in_flight).sum::<usize>(), 0);
}

proptest! {
    // Shows (Nodes and cache).
    #[test]
    fn each_call_gets_its_own_answer_for_any_order_of_the_nodes_answers(
        (order, answered, quoted) in (1_usize..40).prop_flat_map(|calls| (
            Just((0..calls).collect::<Vec<_>>()).prop_shuffle(),
            proptest::collection::vec(any::<bool>(), calls),
            any::<bool>(),
        ))
    ) {
        let text = |number: &usize| {
            let id = if quoted { format!("\"{number}\"") } else { number.to_string() };
            format!(r#"{{"result":[{number}],"id":{id}}}"#)
        };
        let stray = r#"{"result":[1000000],"id":null}"#.to_owned();
        let said = order.iter().filter(|number| answered[**number]).map(text).chain([stray]);
        let body = Bytes::from(all(said));
        let (calls, receivers): (Vec<_>, Vec<_>) = (0..order.len()).map(|number| {
            let (outcome, receiver) = oneshot::channel();
            let ticket = number as u64;
            let body = Bytes::new();
            (WaitingCall { ticket, number, body, path: None, outcome }, receiver)
        }).unzip();
        let Ok(Replies::Many(many)) = replies(&body, DEEPEST) else { panic!("an array") };
        let other = Bytes::from(all([text(&1_000_000)]));
        let Ok(Replies::Many(others)) = replies(&other, DEEPEST) else { panic!("an array") };
        prop_assert!(numbers(&calls, &other, &others).is_err(), "a reply to a call that is not in the array");
        let Ok(numbers) = numbers(&calls, &body, &many) else { panic!("all are in the array") };
        give_each(calls, &body, &many, &numbers, NodeIndex(0));
        for (number, mut receiver) in receivers.into_iter().enumerate() {
            let Ok(BatchOutcome::Ended { result, is_shared: false }) = receiver.try_recv() else {
                panic!("call {number} has no outcome of its own")
            };
            match result {
                Ok(answer) => prop_assert!(
                    answered[number] && matches!(answer.body, AnswerBody::Complete(ref body) if *body == text(&number))
                ),
                Err(failure) => {
                    prop_assert!(!answered[number]);
                    prop_assert_eq!(failure, TryFailure::BadAnswer(Fault::sent(Cause::Unanswered)));
                }
            }
        }
    }
}
