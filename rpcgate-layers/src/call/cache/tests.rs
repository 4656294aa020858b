use super::{BoundedReplies, Cache, CacheLayer, SingleFlight};
use crate::call::join::join;
use crate::testing::{Fixture, ScriptedService};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::join_all;
use parking_lot::Mutex;
use rpcgate_core::adapter::{Adapter, NodeStatus, Permanence, Probe};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::backend::reply_store::ReplySought;
use rpcgate_core::backend::suite;
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::call::{Cached, CallState, CallView, Calls, Settled};
use rpcgate_core::chain::{Chain, ChainHead, ChainName, ChainOverrides, Facts, Finality, Method};
use rpcgate_core::clock::Time;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::{CompleteReply, Form, Inner, Reply, Source};
use rpcgate_core::tally::HeadConsistency;
use rpcgate_core::toy::Toy;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Semaphore;
use tower_layer::Layer;
use tower_service::Service;

/// The size of the store in bytes, enough for every test that does not fill it on purpose.
const ROOM: u64 = 2 << 20;

/// The result of a call at the node.
type Ending = fn() -> CallState;
type Say = Box<dyn FnMut(&str) -> CallState + Send>;

/// The service behind the cache. It counts calls, waits while it is held, and answers as configured.
#[derive(Clone)]
struct Node(Arc<Inside>);

struct Inside {
    /// The calls that reached the node, as `method params`.
    asked: Mutex<Vec<String>>,
    /// The number of sets that were dropped before they were answered.
    left: AtomicUsize,
    passes: Semaphore,
    say: Mutex<Say>,
}

struct Leaving<'a>(&'a Inside, bool);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.left.fetch_add(1, SeqCst);
        }
    }
}

impl Node {
    fn asked(&self) -> Vec<String> {
        self.0.asked.lock().clone()
    }

    fn calls(&self) -> usize {
        self.0.asked.lock().len()
    }

    fn left(&self) -> usize {
        self.0.left.load(SeqCst)
    }

    fn says(&self, say: impl FnMut(&str) -> CallState + Send + 'static) {
        *self.0.say.lock() = Box::new(say);
    }

    fn release(&self, sets: usize) {
        self.0.passes.add_permits(sets);
    }
}

impl Service<Calls<Cached>> for Node {
    type Response = Calls<Settled>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Calls<Settled>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut calls: Calls<Cached>) -> Self::Future {
        let inside = self.0.clone();
        let tally = calls.tally_mut();
        if !tally.has_open() {
            return Box::pin(std::future::ready(Ok(calls.at())));
        }
        let chain = tally.chain.name();
        for entry in tally.entries.iter_mut().filter(|entry| entry.is_open()) {
            let view = entry.call.view(&tally.body, chain);
            let said = [view.sent, b" ", view.params].concat();
            inside.asked.lock().push(String::from_utf8(said).unwrap());
            entry.state = CallState::Sent;
        }
        Box::pin(async move {
            let mut leaving = Leaving(&inside, false);
            inside.passes.acquire().await.unwrap().forget();
            let tally = calls.tally_mut();
            for entry in tally.entries.iter_mut().filter(|entry| matches!(entry.state, CallState::Sent)) {
                let view = entry.call.view(&tally.body, chain);
                let said = String::from_utf8([view.sent, b" ", view.params].concat()).unwrap();
                let state = (inside.say.lock())(&said);
                entry.state = state;
            }
            leaving.1 = true;
            Ok(calls.at())
        })
    }
}

fn result(text: impl Into<String>) -> CallState {
    CallState::Answered(Reply { form: Form::Result(text.into().into()), from: Source::Node })
}

/// A cache in front of a node that answers each call with its method, its parameters and its number.
struct Site {
    fixture: Fixture,
    node: Node,
    store: Arc<BoundedReplies>,
    cache: Cache<Node>,
}

type Going = <Cache<Node> as Service<Calls<rpcgate_core::call::Parsed>>>::Future;

impl Site {
    /// A site whose node answers immediately.
    fn open() -> Self {
        let site = Site::held(Fixture::new());
        site.node.release(100_000);
        site
    }

    /// A site whose node waits until it is released.
    fn held(fixture: Fixture) -> Self {
        let mut number = 0;
        let say = move |said: &str| {
            number += 1;
            result(format!("\"{} #{number}\"", said.replace('"', "'")))
        };
        let node = Node(Arc::new(Inside {
            asked: Mutex::default(),
            left: AtomicUsize::new(0),
            passes: Semaphore::new(0),
            say: Mutex::new(Box::new(say)),
        }));
        let store = Arc::new(BoundedReplies::new(ROOM));
        let cache = CacheLayer::new(store.clone(), fixture.clock.clone()).layer(node.clone());
        Site { fixture, node, store, cache }
    }

    fn go(&self, body: impl Into<String>) -> Going {
        self.go_as(&self.fixture, body)
    }

    fn go_as(&self, fixture: &Fixture, body: impl Into<String>) -> Going {
        self.cache.clone().call(fixture.calls(body.into().leak().as_bytes()))
    }

    /// Starts a request that then waits for the node.
    fn under_way(&self, body: impl Into<String>) -> Going {
        let mut going = self.go(body);
        assert!((&mut going).now_or_never().is_none(), "it should wait");
        going
    }

    async fn settle(&self, body: impl Into<String>) -> Calls<Settled> {
        let Ok(calls) = self.go(body).await;
        calls
    }

    /// Returns the body of the answer, and whether it was a hit.
    async fn send(&self, body: impl Into<String>) -> (String, bool) {
        reported(self.settle(body).await)
    }

    fn in_flight(&self) -> &SingleFlight {
        &self.cache.shared.in_flight
    }
}

fn reported(calls: Calls<Settled>) -> (String, bool) {
    let hit = calls.tally().is_hit();
    (String::from_utf8(join(calls, usize::MAX).body.to_vec()).unwrap(), hit)
}

fn one(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

fn read(id: usize) -> String {
    one(&id.to_string(), "toy_read", "[1]")
}

fn many(calls: &[String]) -> String {
    format!("[{}]", calls.join(","))
}

fn says(id: &str, text: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"{text}"}}"#)
}

#[tokio::test]
async fn a_miss_is_fetched_and_the_next_call_is_a_hit_under_its_own_id() {
    let site = Site::open();
    assert_eq!(site.send(one("1", "toy_read", "[1]")).await, (says("1", "toy_read [1] #1"), false));
    assert_eq!(site.send(one("\"x\"", "toy_read", "[1]")).await, (says("\"x\"", "toy_read [1] #1"), true));
    assert_eq!(site.node.calls(), 1);
    assert!(site.in_flight().is_empty());
}

#[tokio::test]
async fn the_exact_bytes_of_the_parameters_count() {
    let site = Site::open();
    for params in ["[1]", "[1 ]", "[1.0]", "[\"1\"]", "[ 1]", "{}", "null"] {
        assert!(!site.send(one("1", "toy_read", params)).await.1, "{params}");
    }
    assert!(
        !site.send(r#"{"id":1,"method":"toy_read"}"#).await.1,
        "no parameters are parameters of their own"
    );
    assert_eq!(site.node.calls(), 8);
    assert!(
        site.send(r#"{"id":1,"method":"toy\u005fread","params":[1]}"#).await.1,
        "escapes make no other method"
    );
}

#[tokio::test]
async fn methods_and_chains_have_separate_answers() {
    let site = Site::open();
    site.send(one("1", "toy_read", "[1]")).await;
    assert!(!site.send(one("1", "toy_block", "[1]")).await.1);
    static FACTS: Facts = Facts::json_rpc("toy2", "Toy").with_final_depth(2).with_max_lag(3);
    let chain = Arc::new(Chain::deployed(Arc::new(Variant(&FACTS))));
    let other = Fixture { chain, ..site.fixture.clone() };
    let Ok(calls) = site.go_as(&other, read(1)).await;
    assert!(!calls.tally().is_hit());
    assert_eq!(site.node.calls(), 3);
}

const TOY: Facts = Facts::json_rpc("toy", "Toy").with_final_depth(2).with_max_lag(3);

/// The toy chain with other facts, whose results are heights that become final.
#[derive(Debug)]
struct Variant(&'static Facts);

impl Adapter for Variant {
    fn facts(&self) -> &'static Facts {
        self.0
    }

    fn methods(&self) -> Vec<Method> {
        Toy.methods()
    }

    fn settled(&self, call: CallView<'_>, result: &[u8], finality: &Finality) -> Permanence {
        match self.seen(result).map(|seen| seen.height) {
            Some(height) if finality.is_final(height) => Permanence::Yes,
            Some(_) => Permanence::NotYet,
            None => Toy.settled(call, result, finality),
        }
    }

    fn probe(&self) -> Probe {
        Toy.probe()
    }

    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        Toy.seen(answer)
    }
}

#[tokio::test]
async fn errors_and_unknown_results_are_never_cached() {
    let failed = || CallState::Failed(Fault::sent(Cause::Broken));
    let error = || {
        let form = Form::Error(Bytes::from_static(b"{\"code\":-1}"), http::StatusCode::OK);
        CallState::Answered(Reply { form, from: Source::Node })
    };
    let whole_error = || {
        let form = Form::Complete(CompleteReply {
            status: http::StatusCode::OK,
            body: Bytes::from_static(b"{\"error\":{}}"),
            id: None,
            inner: Inner::Error(Bytes::from_static(b"{}")),
        });
        CallState::Answered(Reply { form, from: Source::Node })
    };
    let null = || result("null");
    let refused = || CallState::Refused(Refusal::Overloaded);
    let states: [(&str, Ending); 5] = [
        ("failed", failed),
        ("error", error),
        ("whole error", whole_error),
        ("null", null),
        ("refused", refused),
    ];
    for (name, state) in states {
        let site = Site::open();
        site.node.says(move |_| state());
        for method in ["toy_id", "toy_read", "toy_block"] {
            let before = site.node.calls();
            site.send(one("1", method, "[1]")).await;
            assert!(!site.send(one("1", method, "[1]")).await.1, "{name} {method}");
            assert_eq!(site.node.calls() - before, 2, "{name} {method}");
        }
        site.node.says(|_| result("1"));
        site.send(read(1)).await;
        assert!(site.send(read(1)).await.1, "after {name} a good answer is kept");
    }
}

#[tokio::test]
async fn only_the_result_of_a_nodes_own_answer_is_stored() {
    let site = Site::open();
    site.node.says(|_| {
        let body = Bytes::from_static(br#"{"id":1,"result":[7],"took":3}"#);
        let inner = Inner::Result(body.slice(17..20));
        let form = Form::Complete(CompleteReply { status: http::StatusCode::OK, body, id: None, inner });
        CallState::Answered(Reply { form, from: Source::Node })
    });
    assert_eq!(site.send(read(1)).await.0, r#"{"id":1,"result":[7],"took":3}"#);
    assert_eq!(site.send(read(2)).await, (r#"{"jsonrpc":"2.0","id":2,"result":[7]}"#.into(), true));
}

#[tokio::test]
async fn a_short_answer_is_over_exactly_when_its_time_is() {
    let site = Site::open();
    site.send(read(1)).await;
    site.fixture.clock.advance(Duration::from_micros(1_999_999));
    assert!(site.send(read(2)).await.1);
    site.fixture.clock.advance(Duration::from_micros(1));
    assert!(!site.send(read(3)).await.1);
    assert_eq!(site.node.calls(), 2);
}

#[tokio::test]
async fn the_lifetime_of_an_answer_begins_with_its_arrival() {
    let site = Site::held(Fixture::new());
    let going = site.under_way(read(1));
    site.fixture.clock.advance(Duration::from_secs(10));
    site.node.release(100);
    let Ok(_) = going.await;
    site.fixture.clock.advance(Duration::from_micros(1_999_999));
    assert!(site.send(read(2)).await.1);
}

#[tokio::test]
async fn static_and_final_answers_stay() {
    let site = Site::open();
    for method in ["toy_id", "toy_block"] {
        site.send(one("1", method, "[1]")).await;
        site.fixture.clock.advance(Duration::from_secs(1_000_000));
        assert!(site.send(one("1", method, "[1]")).await.1, "{method}");
    }
}

#[tokio::test]
async fn an_immutable_answer_near_the_head_has_a_short_time_until_it_is_final() {
    let head = Arc::new(ChainHead::default());
    let chain = Arc::new(Chain::new(Arc::new(Variant(&TOY)), ChainOverrides::default(), true, head.clone()));
    let site = Site::held(Fixture { chain, ..Fixture::new() });
    site.node.release(100);
    site.node.says(|_| result("100"));
    let block = one("1", "toy_block", "[100]");
    for known in [0, 100, 101] {
        head.set(known);
        assert!(!site.send(&*block).await.1, "head {known}");
        assert!(site.send(&*block).await.1, "head {known}");
        site.fixture.clock.advance(Duration::from_secs(2));
    }
    head.set(102);
    assert!(!site.send(&*block).await.1);
    site.fixture.clock.advance(Duration::from_secs(1_000_000));
    assert!(site.send(&*block).await.1);
    assert_eq!(site.node.calls(), 4);
}

// Shows (Nodes and cache): An answer that was requested before its block was final is never kept forever, even if it
// arrives late.
#[tokio::test]
async fn an_answer_whose_block_becomes_final_in_transit_is_not_kept_forever() {
    let head = Arc::new(ChainHead::default());
    let chain = Arc::new(Chain::new(Arc::new(Variant(&TOY)), ChainOverrides::default(), true, head.clone()));
    let site = Site::held(Fixture { chain, ..Fixture::new() });
    site.node.says(|_| result("100"));
    let block = one("1", "toy_block", "[100]");
    head.set(101);
    let going = site.under_way(&*block);
    head.set(102);
    site.node.release(100);
    let Ok(_) = going.await;
    assert!(site.send(&*block).await.1, "for a short time");
    site.fixture.clock.advance(Duration::from_secs(2));
    assert!(!site.send(&*block).await.1, "another block may have taken its place before that was final");
    site.fixture.clock.advance(Duration::from_secs(1_000_000));
    assert!(site.send(&*block).await.1);
    assert_eq!(site.node.calls(), 2);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn dropped_answers_are_not_found_and_pending_ones_are_neither_stored_nor_followed() {
    let site = Site::held(Fixture::new());
    site.node.release(1);
    let block = one("1", "toy_block", "[1]");
    site.send(&*block).await;
    assert!(site.send(&*block).await.1);
    site.fixture.chain.head().drop_replies();
    let before = site.under_way(&*block);
    assert_eq!(site.node.calls(), 2, "the stored answer is gone");
    site.fixture.chain.head().drop_replies();
    let after = site.under_way(&*block);
    assert_eq!(site.node.calls(), 3, "the call of before is not followed");
    site.node.release(2);
    let Ok(_) = before.await;
    let Ok(calls) = after.await;
    assert_eq!(reported(calls).0, says("1", "toy_block [1] #3"));
    assert_eq!(site.send(&*block).await, (says("1", "toy_block [1] #3"), true));
}

#[tokio::test]
async fn methods_without_a_class_broadcasts_and_notifications_are_never_looked_up() {
    // The operator may give a broadcast a cache class; it is still sent.
    let changes =
        ChainOverrides::default().with_cache("toy_send", rpcgate_core::cache_rule::CacheRule::Static);
    let chain = Arc::new(Chain::new(Arc::new(Toy), changes, true, Arc::default()));
    let site = Site::held(Fixture { chain, ..Fixture::new() });
    site.node.release(100);
    let notification = r#"{"jsonrpc":"2.0","method":"toy_read","params":[1]}"#.to_owned();
    let calls =
        [one("1", "toy_scan", "[1]"), one("1", "toy_send", "[1]"), one("1", "other", "[1]"), notification];
    for call in &calls {
        for _ in 0..2 {
            let calls = site.settle(&**call).await;
            let CallState::Answered(reply) = &calls.tally().entries[0].state else { panic!("{call}") };
            assert_eq!(reply.from, Source::Node, "{call}");
        }
    }
    assert_eq!(site.node.calls(), 8);
    assert_eq!(site.store.entries(), 0);
    let two = site.under_way_pair(&calls);
    assert_eq!(two, 8, "nor does one wait for another");
}

impl Site {
    /// Returns the number of calls that reach a held node when all of `calls` are sent twice at the same time.
    fn under_way_pair(&self, calls: &[String]) -> usize {
        let held = Site::held(self.fixture.clone());
        let going: Vec<_> = calls.iter().chain(calls).map(|call| held.under_way(&**call)).collect();
        assert!(held.in_flight().is_empty());
        drop(going);
        held.node.calls()
    }
}

#[tokio::test]
async fn a_thousand_simultaneous_callers_of_the_same_make_one_call() {
    let site = Site::held(Fixture::new());
    let going: Vec<_> = (0..1_000).map(|id| site.under_way(read(id))).collect();
    assert_eq!(site.node.calls(), 1);
    site.node.release(1);
    for (id, calls) in join_all(going).await.into_iter().enumerate() {
        let Ok(calls) = calls;
        assert_eq!(reported(calls), (says(&id.to_string(), "toy_read [1] #1"), false));
    }
    assert_eq!(site.node.calls(), 1);
    let records = site.fixture.sink.records();
    assert_eq!(records.len(), 1_000);
    let lines: Vec<_> = records.iter().flat_map(|record| &record.lines).collect();
    assert!(lines.iter().all(|line| (line.cu, line.outcome) == (5, Outcome::Answered)));
    assert_eq!(lines.iter().filter(|line| line.cached).count(), 999);
    assert!(site.in_flight().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_tasks_on_two_threads_make_one_call() {
    let site = Arc::new(Site::held(Fixture::new()));
    let tasks: Vec<_> = (0..1_000)
        .map(|id| {
            let site = site.clone();
            tokio::spawn(async move { site.send(read(id)).await.0 })
        })
        .collect();
    site.node.release(1);
    for (id, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await.unwrap(), says(&id.to_string(), "toy_read [1] #1"));
    }
    assert_eq!(site.node.calls(), 1);
    assert!(site.in_flight().is_empty());
}

#[tokio::test]
async fn followers_get_the_failure_of_their_leader_and_the_next_call_is_sent_again() {
    let error = || {
        CallState::Answered(Reply {
            form: Form::Error(Bytes::from_static(b"{\"code\":-5}"), http::StatusCode::OK),
            from: Source::Node,
        })
    };
    let failed = || CallState::Failed(Fault::sent(Cause::Status(503)));
    let refused = || CallState::Refused(Refusal::Overloaded);
    let states: [(Ending, Outcome, u32); 3] =
        [(error, Outcome::NodeError, 5), (failed, Outcome::Failed, 0), (refused, Outcome::Refused, 0)];
    for (state, outcome, charged) in states {
        let site = Site::held(Fixture::new());
        site.node.says(move |_| state());
        let going: Vec<_> = (0..10).map(|id| site.under_way(read(id))).collect();
        site.node.release(1);
        let bodies: Vec<_> = join_all(going).await.into_iter().map(|Ok(calls)| reported(calls).0).collect();
        for (id, body) in bodies.iter().enumerate() {
            assert_eq!(*body, bodies[0].replace(r#""id":0"#, &format!(r#""id":{id}"#)));
            assert!(body.contains(r#""error":{"#), "{body}");
        }
        assert_eq!(site.node.calls(), 1, "{outcome:?}");
        for record in site.fixture.sink.records() {
            assert_eq!((record.lines[0].outcome, record.lines[0].cu), (outcome, charged));
        }
        site.node.says(|_| result("7"));
        site.node.release(1);
        assert_eq!(site.send(read(77)).await, (r#"{"jsonrpc":"2.0","id":77,"result":7}"#.into(), false));
        assert!(site.in_flight().is_empty());
    }
}

// Shows (Nodes and cache): A project that has used up its memory does not cause refusals for others that send the same
// call.
#[tokio::test]
async fn a_project_is_not_refused_because_that_of_its_leader_is_unless_all_are() {
    for may_others in [true, false] {
        let site = Site::held(Fixture::new());
        let others = Fixture { caller: Arc::new(suite::caller(2)), ..site.fixture.clone() };
        let mut asked = 0;
        site.node.says(move |_| {
            asked += 1;
            if asked > 1 && may_others { result("7") } else { CallState::Refused(Refusal::Overloaded) }
        });
        let mut own = vec![site.under_way(read(0)), site.under_way(read(0))];
        let mut other: Vec<_> = (0..5).map(|_| site.go_as(&others, read(0))).collect();
        assert!(other.iter_mut().all(|going| going.now_or_never().is_none()));
        assert_eq!(site.node.calls(), 1);
        own.append(&mut other);
        let mut going = join_all(own);
        site.node.release(1);
        assert!((&mut going).now_or_never().is_none(), "the others wait for one of them");
        site.node.release(1);
        let bodies = going.await.into_iter().map(|Ok(calls)| reported(calls).0);
        let refused: Vec<_> = bodies.map(|body| body.contains("error")).collect();
        assert_eq!(refused[..2], [true; 2]);
        assert_eq!(refused[2..], [!may_others; 5]);
        assert_eq!(site.node.calls(), 2, "one of the other project asked for all of it");
        assert!(site.in_flight().is_empty());
    }
}

#[tokio::test]
async fn a_result_of_a_whole_batch_is_not_passed_on_to_followers_of_its_calls() {
    let for_all = || {
        let form = Form::Error(Bytes::from_static(b"{\"code\":-5}"), http::StatusCode::OK);
        CallState::Answered(Reply { form, from: Source::NodeForAll })
    };
    let too_large = || CallState::Failed(Fault::sent(Cause::Oversize));
    let ends: [Ending; 2] = [for_all, too_large];
    for end in ends {
        let site = Site::held(Fixture::new());
        let first = site.under_way(many(&[read(1), one("2", "toy_scan", "[]")]));
        let others: Vec<_> = (0..5).map(|_| site.under_way(read(3))).collect();
        let mut asked = 0;
        site.node.says(move |_| {
            asked += 1;
            if asked <= 2 { end() } else { result("7") }
        });
        site.node.release(2);
        let Ok(calls) = first.await;
        assert!(reported(calls).0.contains("error"));
        for Ok(calls) in join_all(others).await {
            assert_eq!(reported(calls).0, r#"{"jsonrpc":"2.0","id":3,"result":7}"#);
        }
        assert_eq!(site.node.calls(), 3, "one of the five asked again for all");
        assert!(site.in_flight().is_empty());
    }
}

// Shows (Nodes and cache): A chain's `timeout` bounds a call over all its tries and waits, in batches too; a failure of
// a leading call fails its followers (promise 62).
#[tokio::test]
async fn the_failure_of_a_call_in_a_batch_is_the_answer_of_its_followers() {
    let failed = || CallState::Failed(Fault::sent(Cause::Timeout));
    let refused = || CallState::Refused(Refusal::Overloaded);
    let ends: [Ending; 2] = [failed, refused];
    for end in ends {
        let site = Site::held(Fixture::new());
        let batch = || many(&[read(1), one("2", "toy_block", "[1]")]);
        let first = site.under_way(batch());
        let batches: Vec<_> = (0..100).map(|_| site.under_way(batch())).collect();
        let alone = site.under_way(read(3));
        site.node.says(move |_| end());
        site.node.release(1);
        let Ok(calls) = first.await;
        assert!(reported(calls).0.contains("error"));
        for Ok(calls) in join_all(batches).await {
            assert_eq!(reported(calls).0.matches("error").count(), 2);
        }
        let Ok(calls) = alone.await;
        assert!(reported(calls).0.contains("error"));
        assert_eq!(site.node.calls(), 2, "no call was repeated");
        assert!(site.in_flight().is_empty());
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_follower_of_an_older_call_is_not_bound_by_its_deadline() {
    let site = Site::held(Fixture::new());
    let first = site.under_way(many(&[read(1), one("2", "toy_scan", "[]")]));
    let mut second = site.under_way(read(3));
    let mut asked = 0;
    site.node.says(move |_| {
        asked += 1;
        let form = Form::Error(Bytes::from_static(b"{\"code\":-5}"), http::StatusCode::OK);
        match asked {
            1 | 2 => CallState::Answered(Reply { form, from: Source::NodeForAll }),
            3 => CallState::Failed(Fault::sent(Cause::Timeout)),
            _ => result("7"),
        }
    });
    site.fixture.clock.advance(site.fixture.chain.timeout() - Duration::from_secs(1));
    site.node.release(1);
    let Ok(_) = first.await;
    assert!((&mut second).now_or_never().is_none(), "it asks itself, and has a second left");
    let third = site.under_way(read(4));
    assert_eq!(site.node.calls(), 3);
    site.node.release(2);
    let Ok(calls) = second.await;
    assert!(reported(calls).0.contains("error"));
    let Ok(calls) = third.await;
    assert_eq!(reported(calls).0, r#"{"jsonrpc":"2.0","id":4,"result":7}"#);
    assert_eq!(site.node.calls(), 4);
    assert!(site.in_flight().is_empty());
}

// Shows (Nodes and cache).
#[tokio::test(start_paused = true)]
async fn a_follower_waits_no_longer_than_a_call_may_take() {
    let site = Site::held(Fixture::new());
    let _first = site.under_way(many(&[read(1), one("2", "toy_block", "[1]")]));
    let began = tokio::time::Instant::now();
    let clock = site.fixture.clock.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            clock.advance(Duration::from_millis(100));
        }
    });
    let followers = [site.under_way(read(3)), site.under_way(many(&[read(4), one("5", "toy_block", "[1]")]))];
    for Ok(calls) in join_all(followers).await {
        assert!(reported(calls).0.contains("backend request failed"));
    }
    assert_eq!(began.elapsed().as_secs(), site.fixture.chain.timeout().as_secs());
    assert_eq!(site.node.calls(), 2);
}

// Shows (Nodes and cache): A call that has been in flight for two seconds gets no more followers, so a silent node does
// not delay all who send the same call.
#[tokio::test]
async fn a_call_that_takes_long_is_followed_no_more_and_its_answer_replaces_no_later_one() {
    let site = Site::held(Fixture::new());
    let first = site.under_way(read(1));
    site.fixture.clock.advance(Duration::from_secs(2));
    let second = site.under_way(read(2));
    let third = site.under_way(read(3));
    assert_eq!(site.node.calls(), 2, "the second one leads, and the third one follows that");
    site.node.release(1);
    let Ok(first) = first.await;
    assert_eq!(reported(first).0, says("1", "toy_read [1] #1"));
    let fourth = site.under_way(read(4));
    assert_eq!(site.node.calls(), 2, "nothing is stored yet, and the second one is still joined");
    site.node.release(1);
    for (going, id) in [(second, "2"), (third, "3"), (fourth, "4")] {
        let Ok(calls) = going.await;
        assert_eq!(reported(calls).0, says(id, "toy_read [1] #2"));
    }
    assert_eq!(site.send(read(5)).await, (says("5", "toy_read [1] #2"), true));
    assert!(site.in_flight().is_empty());
}

// Shows (Nodes and cache): Cached answers are never older than their TTL by the monotonic clock, independently of the
// wall clock (promise 65).
#[tokio::test]
async fn a_step_of_the_wall_clock_does_not_change_the_age_of_answers() {
    let site = Site::open();
    let now = site.fixture.now();
    assert!(!site.send(read(1)).await.1);
    site.fixture.clock.set(now.plus(Duration::from_secs(3_600)));
    assert!(site.send(read(2)).await.1);
    site.fixture.clock.set(Time::from_secs(now.secs() - 3_600));
    assert!(site.send(read(3)).await.1);
    site.fixture.clock.advance(Duration::from_secs(2));
    assert!(!site.send(read(4)).await.1, "two seconds are over all the same");
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_request_from_long_ago_gets_no_expired_answer() {
    let site = Site::open();
    let late = site.fixture.calls(read(1).leak().as_bytes());
    assert!(!site.send(read(2)).await.1);
    site.fixture.clock.advance(Duration::from_secs(2));
    let Ok(calls) = site.cache.clone().call(late).await;
    assert!(!reported(calls).1);
}

async fn others_run() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

// Shows (Commands and configuration).
#[tokio::test]
async fn a_followed_call_continues_when_its_client_leaves() {
    let site = Site::held(Fixture::new());
    let leader = site.under_way(read(0));
    let followers: Vec<_> = (1..10).map(|id| site.under_way(read(id))).collect();
    drop(leader);
    others_run().await;
    assert_eq!((site.node.calls(), site.node.left()), (1, 0));
    assert!(site.fixture.sink.records().is_empty(), "it is still under way");
    site.node.release(1);
    for (id, calls) in (1..).zip(join_all(followers).await) {
        let Ok(calls) = calls;
        assert_eq!(reported(calls).0, says(&id.to_string(), "toy_read [1] #1"));
    }
    others_run().await;
    assert_eq!(site.node.calls(), 1);
    assert!(site.in_flight().is_empty());
    let lines: Vec<_> = site.fixture.sink.records().into_iter().flat_map(|record| record.lines).collect();
    assert_eq!((lines.len(), lines.iter().filter(|line| line.cached).count()), (10, 9));
    assert!(lines.iter().all(|line| line.cu == 5), "the leader's call was answered too, so it is charged");
}

#[tokio::test]
async fn an_unfollowed_call_ends_with_its_client() {
    let site = Site::held(Fixture::new());
    let alone = site.under_way(read(1));
    let followed_once = site.under_way(one("1", "toy_block", "[1]"));
    drop(site.under_way(one("2", "toy_block", "[1]")));
    // Only the set itself waits for its second entry.
    let twice = site.under_way(many(&[one("1", "toy_id", "[]"), one("2", "toy_id", "[]")]));
    assert_eq!(site.node.calls(), 3);
    drop((alone, followed_once, twice));
    others_run().await;
    assert_eq!(site.node.left(), 3);
    assert!(site.in_flight().is_empty());
    let lines: Vec<_> = site.fixture.sink.records().into_iter().flat_map(|record| record.lines).collect();
    assert!(lines.iter().all(|line| line.outcome == Outcome::Abandoned));
    let charged: Vec<_> =
        lines.iter().filter(|line| line.cu > 0).map(|line| (&*line.method, line.cu)).collect();
    assert_eq!(
        charged,
        [("toy_read", 5), ("toy_block", 10)],
        "what a node got is charged, what only waited is not"
    );
}

#[tokio::test]
async fn a_follower_that_leaves_is_not_charged_and_does_not_disturb_others() {
    let site = Site::held(Fixture::new());
    let leader = site.under_way(read(0));
    drop(site.under_way(read(1)));
    let records = site.fixture.sink.records();
    assert_eq!((records[0].lines[0].outcome, records[0].lines[0].cu), (Outcome::Abandoned, 0));
    site.node.release(1);
    let Ok(calls) = leader.await;
    assert_eq!(reported(calls).0, says("0", "toy_read [1] #1"));
}

/// Checks that the followers of a lost leader send one call and share its answer.
async fn lost(site: &Site, followers: Vec<Going>) {
    let mut followers = followers;
    for follower in &mut followers {
        assert!(follower.now_or_never().is_none());
    }
    assert_eq!(site.node.calls(), 1, "one of them leads, the others follow it");
    site.node.release(1);
    for (id, calls) in join_all(followers).await.into_iter().enumerate() {
        let Ok(calls) = calls;
        assert_eq!(reported(calls).0, says(&id.to_string(), "toy_read [1] #1"));
    }
    assert_eq!(site.node.calls(), 1);
    assert!(site.in_flight().is_empty());
}

#[tokio::test]
async fn a_leader_that_is_lost_leaves_exactly_one_new_leader() {
    let site = Site::held(Fixture::new());
    let leader = site.go(read(0));
    let followers: Vec<_> = (0..100).map(|id| site.under_way(read(id))).collect();
    assert_eq!(site.node.calls(), 0);
    drop(leader);
    lost(&site, followers).await;
}

#[tokio::test]
async fn a_leader_that_panics_leaves_exactly_one_new_leader() {
    let site = Site::held(Fixture::new());
    let mut first = true;
    site.node.says(move |_| {
        assert!(!std::mem::take(&mut first), "this test's node panics once");
        result("\"toy_read [1] #1\"")
    });
    let leader = tokio::spawn(site.go(read(0)));
    others_run().await;
    let followers: Vec<_> = (0..100).map(|id| site.under_way(read(id))).collect();
    site.node.release(1);
    assert!(leader.await.unwrap_err().is_panic());
    others_run().await;
    assert_eq!(std::mem::take(&mut *site.node.0.asked.lock()).len(), 1);
    lost(&site, followers).await;
}

#[tokio::test]
async fn a_leader_without_a_runtime_is_lost_and_not_stuck() {
    let site = Site::held(Fixture::new());
    let leader = site.under_way(read(0));
    let followers: Vec<_> = (0..100).map(|id| site.under_way(read(id))).collect();
    std::thread::spawn(move || drop(leader)).join().unwrap();
    assert_eq!(site.node.left(), 1);
    site.node.0.asked.lock().clear();
    lost(&site, followers).await;
}

#[tokio::test]
async fn a_set_answers_its_followers_before_it_waits_for_others() {
    let site = Site::held(Fixture::new());
    let sought = ReplySought::new(ChainName::new("toy"), b"toy_read", b"[2]");
    let super::Joined::Lead(lead) = site.in_flight().join(&sought, &Bytes::new(), Duration::ZERO) else {
        panic!("there is no other call")
    };
    let mut elsewhere = super::Leads::default();
    elsewhere.push(site.in_flight(), 0, lead, 0);
    let pair = |params: [&str; 2]| many(&params.map(|params| one("1", "toy_read", params)));
    let waiting = site.under_way(pair(["[1]", "[2]"]));
    let mut follower = site.under_way(one("9", "toy_read", "[1]"));
    assert_eq!(
        site.node.asked(),
        ["toy_read [1]"],
        "the call that it leads is sent although it waits for [2]"
    );
    site.node.release(1);
    let mut waiting = waiting;
    assert!((&mut waiting).now_or_never().is_none());
    let Ok(calls) = (&mut follower).now_or_never().expect("its leader has landed");
    assert_eq!(reported(calls).0, says("9", "toy_read [1] #1"));
    elsewhere
        .land_last(super::singleflight::LeadOutcome::Answered(Form::Result(Bytes::from_static(b"\"else\""))));
    let Ok(calls) = waiting.await;
    assert_eq!(reported(calls).0, format!("[{},{}]", says("1", "toy_read [1] #1"), says("1", "else")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_that_lead_and_follow_each_other_crosswise_all_end() {
    let site = Arc::new(Site::held(Fixture::new()));
    site.node.says(|said| result(said.rsplit(' ').next().unwrap()));
    site.node.release(1_000_000);
    for round in 0..100 {
        let keys: Vec<_> = (0..20).map(|n| format!("[{round},{n}]")).collect();
        let bodies = (0..8).map(|turn| {
            let mut keys = keys.clone();
            keys.rotate_left(turn * 5 % 20);
            if turn % 2 == 1 {
                keys.reverse();
            }
            keys
        });
        let tasks: Vec<_> = bodies
            .map(|keys| {
                let site = site.clone();
                tokio::spawn(async move {
                    let body =
                        many(&keys.iter().map(|params| one("1", "toy_read", params)).collect::<Vec<_>>());
                    let answer = |params| format!(r#"{{"jsonrpc":"2.0","id":1,"result":{params}}}"#);
                    let expected = many(&keys.iter().map(answer).collect::<Vec<_>>());
                    assert_eq!(site.send(body).await.0, expected);
                })
            })
            .collect();
        let all = tokio::time::timeout(Duration::from_secs(60), join_all(tasks));
        all.await.expect("no set waits for ever").into_iter().for_each(Result::unwrap);
    }
    assert_eq!(site.node.calls(), 2_000, "each key once");
    assert!(site.in_flight().is_empty());
}

#[tokio::test]
async fn the_same_call_twice_in_a_set_is_sent_once() {
    let site = Site::open();
    let three = || many(&[read(1), read(2), one("3", "toy_read", "[2]")]);
    let answers = format!(
        "[{},{},{}]",
        says("1", "toy_read [1] #1"),
        says("2", "toy_read [1] #1"),
        says("3", "toy_read [2] #2")
    );
    assert_eq!(site.send(three()).await, (answers.clone(), false));
    assert_eq!(site.send(three()).await, (answers, true));
    assert_eq!(site.node.calls(), 2);
    let cached: Vec<_> =
        site.fixture.sink.records()[0].lines.iter().map(|line| (line.cached, line.cu)).collect();
    assert_eq!(cached, [(false, 5), (true, 5), (false, 5)]);
}

#[tokio::test]
async fn a_set_is_a_hit_only_when_all_of_it_was_stored() {
    let site = Site::open();
    site.send(read(1)).await;
    assert!(site.send(many(&[read(1), read(2)])).await.1);
    assert!(!site.send(many(&[read(1), one("2", "toy_read", "[2]")])).await.1);
    assert!(!site.send(many(&[read(1), "5".into()])).await.1, "a refused item was not in the cache");
    let site = Site::held(Fixture::new());
    let both = [site.under_way(read(1)), site.under_way(read(2))];
    site.node.release(1);
    for calls in join_all(both).await {
        let Ok(calls) = calls;
        assert!(!reported(calls).1, "a shared answer did not exist when the request arrived");
    }
}

#[tokio::test]
async fn tenants_share_answers_and_each_is_charged() {
    let site = Site::open();
    let other = Fixture { caller: Arc::new(suite::caller(2)), ..site.fixture.clone() };
    site.send(read(1)).await;
    let Ok(calls) = site.go_as(&other, read(2)).await;
    assert_eq!(reported(calls), (says("2", "toy_read [1] #1"), true));
    let records = site.fixture.sink.records();
    assert_ne!(records[0].tenant, records[1].tenant);
    assert_eq!((records[0].lines[0].cu, records[1].lines[0].cu), (5, 5));
    assert_eq!(site.node.calls(), 1);
}

#[tokio::test]
async fn the_cache_is_bounded_in_bytes() {
    let site = Site::open();
    site.node.says(|_| result(format!("\"{}\"", "x".repeat(10_000))));
    for n in 0..500 {
        site.send(one("1", "toy_block", &format!("[{n}]"))).await;
    }
    assert!(site.store.bytes() <= ROOM, "{} bytes", site.store.bytes());
    assert!(site.store.entries() > 50, "{} answers", site.store.entries());
    site.node.says(|_| result(format!("\"{}\"", "x".repeat(1 << 18))));
    site.send(one("1", "toy_block", "[\"large\"]")).await;
    assert!(
        !site.send(one("1", "toy_block", "[\"large\"]")).await.1,
        "one answer may not drive out all others"
    );
}

#[tokio::test]
async fn a_set_with_nothing_to_look_up_passes_unchanged() {
    let site = Site::open();
    let (body, hit) = site.send(many(&[one("1", "toy_scan", "[]"), "7".into()])).await;
    assert!(body.contains("toy_scan [] #1") && body.contains("invalid request"), "{body}");
    assert!(!hit && site.in_flight().is_empty());
}

/// Returns the source of the answer to a client that has seen the height `least`.
async fn source(
    cache: &mut Cache<ScriptedService>,
    fixture: &Fixture,
    body: &'static str,
    least: Option<u64>,
) -> Source {
    let mut calls = fixture.calls(body.as_bytes());
    calls.tally_mut().consistency = least.map(|least| HeadConsistency { least, shown: None });
    let Ok(calls) = cache.call(calls).await;
    match &calls.tally().entries[0].state {
        CallState::Answered(reply) => reply.from,
        other => panic!("{other:?}"),
    }
}

// Shows (Nodes and cache): The cache answers such a client only with immutable answers.
#[tokio::test]
async fn a_client_that_has_seen_a_head_gets_only_what_never_changes_from_the_cache() {
    let fixture = Fixture::new();
    let mut cache = CacheLayer::new(Arc::new(BoundedReplies::new(ROOM)), fixture.clock.clone())
        .layer(ScriptedService::default());
    let block = r#"{"id":1,"method":"toy_block"}"#;
    let read = r#"{"id":1,"method":"toy_read"}"#;
    for body in [block, read] {
        assert_eq!(source(&mut cache, &fixture, body, Some(7)).await, Source::Node);
        assert_eq!(source(&mut cache, &fixture, body, None).await, Source::Node, "it was not shared");
        assert_eq!(source(&mut cache, &fixture, body, None).await, Source::Stored);
    }
    assert_eq!(source(&mut cache, &fixture, block, Some(7)).await, Source::Stored);
    assert_eq!(source(&mut cache, &fixture, read, Some(7)).await, Source::Node);
}
