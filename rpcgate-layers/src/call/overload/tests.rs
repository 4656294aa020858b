use super::*;
use crate::testing::{self, Fixture, ScriptedService};
use rpcgate_core::backend::suite;
use rpcgate_core::call::{CallState, Listed};
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::ChainName;
use rpcgate_core::node_try::{NodeChoice, TryEnd};
use rpcgate_core::overload::LoadRules;
use rpcgate_core::plan::{Plan, Tier};
use std::convert::Infallible;
use std::time::Duration;
use tower::{ServiceExt, service_fn};

const TOY: ChainName = ChainName::new("toy");
const READ: &[u8] = br#"{"id":1,"method":"toy_read","params":[1]}"#;
const TWO: &[u8] = br#"[{"id":1,"method":"a"},{"id":2,"method":"b"}]"#;

/// Returns loads that limit the toy chain to between 4 and 20 sets.
fn limited(fixture: &Fixture) -> Arc<ChainLoads> {
    let loads = Arc::new(ChainLoads::new(LoadRules::default()));
    for millis in [[100; 20].as_slice(), &[2_000; 8]].concat() {
        let places = fill(&loads, fixture, &suite::caller(99));
        fixture.clock.advance(Duration::from_millis(millis));
        places.into_iter().for_each(|slot| slot.answered(0, fixture.clock.elapsed()));
    }
    let limit = loads.get(TOY).unwrap().limit().unwrap();
    assert!((4..20).contains(&limit), "{limit}");
    loads
}

/// Enters up to 100 sets of a caller and returns their places.
fn fill(loads: &ChainLoads, fixture: &Fixture, caller: &Caller) -> Vec<LoadSlot> {
    let enter = |_| loads.enter(TOY, caller, fixture.clock.elapsed()).ok().flatten();
    (0..100).filter_map(enter).collect()
}

async fn travel(loads: &Arc<ChainLoads>, fixture: &Fixture, body: &'static [u8]) -> Calls<Placed> {
    let layer = OverloadLayer::by(loads.clone(), fixture.clock.clone());
    testing::through(layer, fixture.calls(body).at::<Listed>()).await
}

#[tokio::test]
async fn a_set_beyond_the_load_is_refused_as_a_whole_and_holds_no_slot() {
    let fixture = Fixture::new();
    let loads = limited(&fixture);
    let held = fill(&loads, &fixture, &fixture.caller);
    let calls = travel(&loads, &fixture, TWO).await;
    assert_eq!(calls.tally().refused, Some(Refusal::Shed));
    assert!(
        calls.tally().entries.iter().all(|entry| matches!(entry.state, CallState::Refused(Refusal::Shed)))
    );
    let load = loads.get(TOY).unwrap();
    assert_eq!(load.in_flight(), held.len());
    let request = calls.tally().request;
    drop((calls, held));
    assert_eq!(load.in_flight(), 0);
    assert_eq!(fixture.recent.find(request).unwrap().facts.refused, Some(Refusal::Shed), "it is explained");
    assert_eq!((load.turned_away() > 0, fixture.sink.records()[0].lines.len()), (true, 2));
}

#[tokio::test]
async fn a_set_has_one_slot_until_its_account_is_closed_or_dropped() {
    let fixture = Fixture::new();
    let loads: Arc<ChainLoads> = Arc::default();
    let calls = travel(&loads, &fixture, TWO).await;
    let load = loads.get(TOY).unwrap();
    assert_eq!(load.in_flight(), 1);
    let other = travel(&loads, &fixture, READ).await;
    assert_eq!(load.in_flight(), 2);
    drop(calls);
    assert_eq!(load.in_flight(), 1);
    let _ = other.into_tally().close();
    assert_eq!(load.in_flight(), 0);
}

#[tokio::test]
async fn a_set_without_an_open_call_has_no_slot_and_a_disabled_limiter_has_none() {
    let fixture = Fixture::new();
    let loads: Arc<ChainLoads> = Arc::default();
    let mut calls = fixture.calls(READ).at::<Listed>();
    calls.tally_mut().entries[0].state = CallState::Refused(Refusal::NotPermitted);
    let layer = OverloadLayer::by(loads.clone(), fixture.clock.clone());
    let calls: Calls<Placed> = testing::through(layer, calls).await;
    assert!(calls.tally().load_slot.is_none() && loads.get(TOY).is_none());
    let calls = travel(&Arc::new(ChainLoads::off()), &fixture, READ).await;
    assert!(calls.tally().load_slot.is_none() && calls.tally().has_open());
}

#[tokio::test]
async fn a_modest_project_is_admitted_where_a_greedy_one_is_not() {
    let fixture = Fixture::new();
    let loads = limited(&fixture);
    let greedy = fill(&loads, &fixture, &suite::caller(7));
    let calls = travel(&loads, &fixture, READ).await;
    assert_eq!(calls.tally().refused, None);
    assert!(loads.enter(TOY, &suite::caller(7), fixture.clock.elapsed()).is_err());
    drop((calls, greedy));
}

#[test]
fn a_higher_tier_has_a_larger_share() {
    let fixture = Fixture::new();
    let on = |n, tier| Caller::of(n, Plan::of(tier));
    let free = on(1, Tier::Free);
    let large = on(2, Tier::Enterprise);
    let loads = Arc::new(ChainLoads::new(LoadRules::default().with_least(18)));
    for millis in [[100; 20].as_slice(), &[2_000; 8]].concat() {
        let places = fill(&loads, &fixture, &free);
        fixture.clock.advance(Duration::from_millis(millis));
        places.into_iter().for_each(|slot| slot.answered(0, fixture.clock.elapsed()));
    }
    // Both callers have a place, so the shares are 1/9 and 8/9.
    let first = loads.enter(TOY, &large, fixture.clock.elapsed()).unwrap();
    let free = fill(&loads, &fixture, &free);
    let more = fill(&loads, &fixture, &large);
    assert!(more.len() > 2, "{} beside {}", more.len(), free.len());
    drop((first, free, more));
    assert_eq!(loads.get(TOY).unwrap().in_flight(), 0);
}

/// Answers `sets` sets after `millis`.
async fn answer(loads: &Arc<ChainLoads>, fixture: &Fixture, end: TryEnd, millis: u64, sets: usize) {
    let mut in_flight = Vec::new();
    for _ in 0..sets {
        let mut calls = travel(loads, fixture, READ).await;
        if calls.tally().refused.is_some() {
            continue;
        }
        let tally = calls.tally_mut();
        tally.tries.set_calls([0]);
        tally.tries.push((1, 0), NodeChoice::Only);
        tally.tries.begin(fixture.clock.elapsed());
        tally.tries.end(end, fixture.clock.elapsed());
        in_flight.push(calls);
    }
    fixture.clock.advance(Duration::from_millis(millis));
    for calls in in_flight {
        let Ok(calls) = ScriptedService::default().call(calls).await;
        let _ = calls.into_tally().close();
    }
}

#[tokio::test]
async fn the_limit_follows_how_late_nodes_answer() {
    for (end, is_limited) in [
        (TryEnd::Answered, true),
        (TryEnd::Running, true),
        (TryEnd::IdleClosed, false),
        (TryEnd::Failed(rpcgate_core::fault::Fault::unsent(rpcgate_core::fault::Cause::Connect)), false),
        (TryEnd::Failed(rpcgate_core::fault::Fault::sent(rpcgate_core::fault::Cause::Timeout)), true),
    ] {
        let fixture = Fixture::new();
        let loads: Arc<ChainLoads> = Arc::default();
        for _ in 0..5 {
            answer(&loads, &fixture, TryEnd::Answered, 200, 40).await;
        }
        let load = loads.get(TOY).unwrap();
        assert_eq!((load.limit(), load.in_flight()), (None, 0));
        for _ in 0..4 {
            answer(&loads, &fixture, end, 3_000, 40).await;
        }
        assert_eq!((load.limit().is_some(), load.in_flight()), (is_limited, 0), "{end:?}");
    }
}

#[tokio::test]
async fn a_foreign_request_holds_its_slot_until_its_response_is_complete() {
    let fixture = Fixture::new();
    let loads = Arc::<ChainLoads>::default();
    let caller = fixture.caller.clone();
    let layer = OverloadLayer::by(loads.clone(), fixture.clock.clone()).with_caller(
        move |request: &http::Request<bool>| request.body().then(|| (caller.clone().into(), TOY)),
    );
    let seen = loads.clone();
    let inner = service_fn(move |_: http::Request<bool>| {
        let in_flight = seen.get(TOY).map_or(0, |load| load.in_flight());
        std::future::ready(Ok::<_, Infallible>(http::Response::new(bytes::Bytes::from(
            in_flight.to_string(),
        ))))
    });
    let service = layer.layer(inner);
    assert_eq!(service.clone().oneshot(http::Request::new(true)).await.unwrap().body(), "1");
    assert_eq!(service.clone().oneshot(http::Request::new(false)).await.unwrap().status(), 401);
    let waiting = service.clone().call(http::Request::new(true));
    assert_eq!(loads.get(TOY).unwrap().in_flight(), 1);
    drop(waiting);
    assert_eq!(loads.get(TOY).unwrap().in_flight(), 0);
}
