use super::*;
use crate::spawn::{Spawn, Work};
use http::Version;
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use rpcgate_core::backend::usage_sink::{MemoryUsageSink, Outcome};
use rpcgate_core::clock::{ManualClock, Time};
use rpcgate_core::plan::{Plan, Tier};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::toy::Toy;
use std::time::Duration;
use tokio::task::JoinHandle;

/// A node that does not exist: calls that reach it fail, and their answers are never cached.
const NODE: &str = "http://127.0.0.1:9";

fn builder() -> GatewayBuilder {
    GatewayService::builder().chain(Arc::new(Toy), [NODE])
}

async fn ask(gateway: &mut GatewayService, key: Option<&str>, method: &str) -> (u16, String) {
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
    let mut request = Request::post("/toy").body(Full::new(Bytes::from(body))).unwrap();
    if let Some(key) = key {
        request.headers_mut().insert("apikey", key.parse().unwrap());
    }
    let Ok(response) = gateway.call(request).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_key_calls_on_its_own_plan_and_no_other_key_does() {
    let clock = Arc::new(ManualClock::at(Time::from_secs(1_000_000)));
    let keys = builder().key("free", Plan::of(Tier::Free)).key("more", Plan::of(Tier::Standard));
    let mut gateway = keys.clock(clock).build().unwrap();
    for _ in 0..10 {
        assert_eq!(ask(&mut gateway, Some("free"), "admin_stop").await.0, 200);
    }
    assert_eq!(ask(&mut gateway, Some("free"), "admin_stop").await.0, 429);
    assert_eq!(ask(&mut gateway, Some("more"), "admin_stop").await.0, 200);
    assert_eq!(ask(&mut gateway, Some("other"), "admin_stop").await.0, 401);
    assert_eq!(ask(&mut gateway, None, "admin_stop").await.0, 401);
}

#[tokio::test]
async fn an_open_gateway_needs_no_key_and_meters_its_one_caller() {
    let sink = Arc::new(MemoryUsageSink::default());
    let mut gateway = builder().open(Plan::of(Tier::Free)).usage_sink(sink.clone()).build().unwrap();
    for key in [None, Some("any")] {
        let (status, body) = ask(&mut gateway, key, "admin_stop").await;
        assert!(status == 200 && body.contains("-32601"), "{status} {body}");
    }
    let records = sink.records();
    assert_eq!(records.len(), 2);
    assert_eq!((records[0].key, records[0].windowed), (records[1].key, 1));
}

#[tokio::test]
async fn one_service_answers_every_transport_in_its_own_form() {
    let nodes = [NODE, "ws://127.0.0.1:9", "GRPC://127.0.0.1:9"];
    let builder = GatewayService::builder().chain(Arc::new(Toy), nodes).open(Plan::of(Tier::Free));
    let mut gateway = builder.build().unwrap();
    let no_handshake = Request::get("/ws/toy").body(Full::<Bytes>::default()).unwrap();
    let Ok(response) = gateway.call(no_handshake).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["upgrade"]),
        (426, &"websocket".parse().unwrap())
    );
    let mut call = Request::post("/unknown.Service/Read").body(Full::<Bytes>::default()).unwrap();
    call.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    for (version, form) in [(Version::HTTP_2, "application/grpc"), (Version::HTTP_11, "application/json")] {
        *call.version_mut() = version;
        let Ok(response) = gateway.call(call.clone()).await;
        assert_eq!(response.headers()["content-type"], form);
    }
    assert_eq!(ask(&mut gateway, None, "admin_stop").await.0, 200);
    assert!(gateway.handle().drain(Duration::ZERO).await, "no stream was open");
}

#[tokio::test]
async fn a_transport_without_a_node_is_not_served() {
    let sink = Arc::new(MemoryUsageSink::default());
    let streams = GatewayService::builder().chain(Arc::new(Toy), ["ws://127.0.0.1:9"]);
    let mut gateway = streams.open(Plan::of(Tier::Free)).usage_sink(sink.clone()).build().unwrap();
    let (status, body) = ask(&mut gateway, None, "toy_id").await;
    assert_eq!(status, Refusal::NotServed.status().as_u16());
    assert!(body.contains(Refusal::NotServed.message()), "{body}");
    assert_eq!(sink.records()[0].lines[0].outcome, Outcome::Refused);
}

#[tokio::test]
async fn a_build_reports_missing_and_invalid_settings() {
    let plan = Plan::of(Tier::Free);
    let error = |builder: GatewayBuilder| builder.build().unwrap_err().to_string();
    assert_eq!(error(builder()), "the gateway has no key and no directory, and is not open");
    assert_eq!(error(GatewayService::builder().key("k", plan)), "the gateway has no chain");
    assert_eq!(
        error(builder().open(plan).key("k", plan)),
        "a directory replaces keys: give one or the other"
    );
    assert_eq!(error(builder().chain(Arc::new(Toy), [NODE]).open(plan)), "two chains are named toy");
    let none = GatewayService::builder().chain(Arc::new(Toy), [""; 0]).open(plan);
    assert_eq!(error(none), "the chain toy has no node");
    let bad = GatewayService::builder().chain(Arc::new(Toy), ["ftp://node"]).open(plan);
    assert!(error(bad).starts_with("a node of toy: ftp://node: "));
}

#[test]
fn outside_a_runtime_it_is_built_only_with_its_own_spawn() {
    let plan = Plan::of(Tier::Free);
    assert!(matches!(builder().open(plan).build(), Err(BuildError::NoRuntime)));
    assert!(builder().open(plan).build_apart().is_ok());
}

/// Runs work as tasks and remembers them.
#[derive(Debug, Default)]
struct Tracked(Mutex<Vec<JoinHandle<()>>>);

impl Spawn for Tracked {
    fn spawn(&self, work: Work) {
        self.0.lock().push(tokio::spawn(work));
    }
}

#[tokio::test(start_paused = true)]
async fn probes_and_sweeps_stop_with_the_last_clone() {
    let tracked = Arc::new(Tracked::default());
    let gateway = builder().open(Plan::of(Tier::Free)).spawn(tracked.clone()).build().unwrap();
    let task = tracked.0.lock().pop().unwrap();
    let clone = gateway.clone();
    drop(gateway);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!task.is_finished());
    drop(clone);
    tokio::time::timeout(Duration::from_secs(1), task).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn housekeeping_forgets_inactive_callers() {
    let clock = Arc::new(ManualClock::at(Time::from_secs(1_000_000)));
    let counters = Arc::new(rpcgate_core::backend::counters::MemoryCounters::default());
    let built = builder().open(Plan::of(Tier::Free)).clock(clock.clone()).counters(counters.clone());
    let (mut gateway, housekeeping) = built.build_apart().unwrap();
    let task = tokio::spawn(housekeeping.run());
    ask(&mut gateway, None, "admin_stop").await;
    assert!(!counters.is_empty());
    clock.advance(Duration::from_secs(2 * 86_400));
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(counters.is_empty());
    task.abort();
}
