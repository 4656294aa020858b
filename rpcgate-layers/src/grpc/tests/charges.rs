//! Charges by the end of an answer whose head has left.

use super::*;
use rpcgate_core::backend as counted;
use rpcgate_core::backend::counters::{Counters, MemoryCounters, WindowCount};
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use rpcgate_core::in_flight::{InFlight, InFlightCall};
use rpcgate_core::quota::{Grant, Mask};
use rpcgate_core::window::Windows;
use std::sync::atomic::AtomicI64;

/// The phase, outcome and cost of each record of a call.
type Recorded = Vec<(Phase, Outcome, u32)>;

/// Returns the end of a call that is answered with a head and then these frames, and its records.
async fn ended(frames: Vec<Frame<Bytes>>) -> (Answer, Recorded) {
    let (pieces, body) = fed(1);
    let body = Arc::new(Mutex::new(Some(body)));
    let node = Node::serve(move |_| {
        let body = body.lock().take().unwrap();
        async move { head(body) }
    })
    .await;
    let gateway = Gateway::new(&[&node.url]);
    let answer = gateway.send(READ, &[("apikey", KEY)], Full::from(message(b"ask"))).await;
    assert_eq!(answer.headers()["x-compute-units"], "5", "the head says what the call costs");
    assert!(gateway.records().is_empty());
    let feeding = async {
        for frame in frames {
            pieces.send(frame).await.unwrap();
        }
        drop(pieces);
    };
    let (answer, ()) = tokio::join!(complete(answer), feeding);
    gateway.quiet().await;
    let chain = gateway.fixture.chain.name();
    assert_eq!(
        gateway.counts.ended().iter().map(|(of, _, calls)| (*of, *calls)).collect::<Vec<_>>(),
        [(chain, 1)]
    );
    let caller = &gateway.fixture.caller;
    let records = gateway.records();
    let charged: u32 = records.iter().map(|record| record.lines[0].cu).sum();
    let used = gateway.fixture.counters.used(caller.project, gateway.fixture.now());
    assert_eq!(used, u64::from(charged), "what is not charged is returned to the quota");
    let parts = records.iter().map(|record| (record.phase, record.lines[0].outcome, record.lines[0].cu));
    (answer, parts.collect())
}

// Shows (Nodes and cache).
#[tokio::test]
async fn an_answer_of_one_message_is_charged_if_it_ends_with_a_status_of_the_call() {
    let half = || Frame::data(Bytes::from_static(&[0, 0, 0, 0, 9, 1]));
    type Case = (&'static str, Vec<Frame<Bytes>>, Option<&'static str>, Outcome, u32);
    let cases: [Case; 9] = [
        ("answered", vec![data(b"one"), trailers("0")], Some("0"), Outcome::Answered, 5),
        ("refused by the node", vec![data(b"one"), trailers("3")], Some("3"), Outcome::NodeError, 5),
        ("a head alone", vec![], Some("14"), Outcome::Failed, 0),
        ("no trailers", vec![data(b"one")], Some("14"), Outcome::Failed, 0),
        ("half a message", vec![half()], None, Outcome::Failed, 0),
        ("half a message with trailers", vec![half(), trailers("0")], None, Outcome::Failed, 0),
        ("no node now", vec![trailers("14")], Some("14"), Outcome::NodeError, 0),
        ("no node now, late", vec![data(b"one"), trailers("14")], Some("14"), Outcome::NodeError, 0),
        ("our credentials", vec![data(b"one"), trailers("16")], Some("14"), Outcome::Failed, 0),
    ];
    for (name, frames, status, outcome, units) in cases {
        let (answer, parts) = ended(frames).await;
        assert_eq!(parts, [(Phase::Complete, outcome, units)], "{name}");
        assert_eq!(answer.is_broken, status.is_none(), "{name}");
        let Some(status) = status else { continue };
        assert_eq!(answer.status(), status, "{name}");
        let corrected = answer.trailers.unwrap().get("x-compute-units").cloned();
        assert_eq!(corrected.is_some_and(|units| units == "0"), units == 0, "{name}");
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_stream_is_charged_from_its_second_message_for_every_kind_of_end() {
    let begun = (Phase::Begin, Outcome::Answered, 5);
    for (last, end) in [
        (trailers("0"), Outcome::Answered),
        (trailers("14"), Outcome::NodeError),
        (Frame::data(Bytes::from_static(&[0, 0])), Outcome::Failed),
    ] {
        let (_, parts) = ended(vec![data(b"one"), data(b"two"), last]).await;
        assert_eq!(parts, [begun, (Phase::End, end, 0)]);
    }
    let second = Frame::data(Bytes::from_static(&[0]));
    let (answer, parts) = ended(vec![data(b"one"), second]).await;
    assert_eq!(parts, [begun, (Phase::End, Outcome::Failed, 0)], "it has begun");
    assert!(answer.is_broken);
}

/// Counters that track the calls in flight.
#[derive(Debug, Default)]
struct Noting {
    counters: MemoryCounters,
    in_flight: Arc<InFlight>,
}

impl Counters for Noting {
    fn take(&self, caller: &Caller, weight: u32, now: Time) -> counted::Answer<WindowCount> {
        self.counters.take(caller, weight, now)
    }

    fn peek(&self, caller: &Caller, now: Time) -> Windows {
        self.counters.peek(caller, now)
    }

    fn reserve(&self, caller: &Caller, costs: &[u32], now: Time) -> counted::Answer<(Mask, Grant)> {
        self.counters.reserve(caller, costs, now)
    }

    fn refund(&self, project: ProjectId, hour: u64, units: u64) {
        self.counters.refund(project, hour, units);
    }

    fn in_flight(&self) -> Option<InFlightCall> {
        Some(self.in_flight.enter())
    }
}

#[tokio::test]
async fn a_long_answer_does_not_hold_its_in_flight_slot() {
    let (pieces, body) = fed(1);
    let body = Arc::new(Mutex::new(Some(body)));
    let node = Node::serve(move |_| {
        let body = body.lock().take().unwrap();
        async move { head(body) }
    })
    .await;
    let noting = Arc::<Noting>::default();
    let counters = noting.clone();
    let gateway = Gateway::built(
        &[&node.url],
        |_| (),
        &|fixture| fixture,
        |parts| {
            Arc::make_mut(&mut parts.accounting).counters = counters;
        },
    );
    let mut answer = gateway.send(READ, &[("apikey", KEY)], Full::from(message(b"ask"))).await.into_body();
    pieces.send(data(b"one")).await.unwrap();
    next(&mut answer).await;
    let moment = AtomicI64::new(0);
    let is_over = || {
        let now = moment.fetch_add(1, SeqCst);
        noting.in_flight.advance(now) == now
    };
    assert!(!is_over(), "it may be a unary call");
    tokio::select! {
        frame = answer.frame() => panic!("{frame:?}"),
        () = until(is_over) => {}
    }
    assert!(gateway.records().is_empty());
    pieces.send(trailers("0")).await.unwrap();
    answer.frame().await.unwrap().unwrap();
    assert_eq!(gateway.records()[0].lines[0].cu, 5);
}
