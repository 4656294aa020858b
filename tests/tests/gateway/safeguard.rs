use crate::*;
use std::net::SocketAddr;

/// Three refusals a minute, two minutes in a row.
const ENABLED: &str = "enabled = true\nrefusals = 3\nminutes = 2";

const PLAN: &str = "per_minute = 8\nper_hour = 400\nper_day = 1000";

/// A quarter of these limits.
const QUARTER: [u64; 3] = [2, 100, 250];
const FULL: [u64; 3] = [8, 400, 1_000];

async fn gateway(safeguard: &str) -> (Node, TestGateway) {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url()).plan("free").key("second", "").set("plans.free", PLAN);
    let gateway = setup.set("safeguard", safeguard).start().await;
    (node, gateway)
}

async fn ask(client: &TestClient) -> TestReply {
    client.call("eth", "m", "[]").await
}

fn limits(reply: &TestReply) -> [u64; 3] {
    ["minute", "hour", "day"].map(|span| reply.number(&format!("x-ratelimit-limit-{span}")))
}

/// Uses up the minute and makes this number of refused calls.
async fn hammer(gateway: &TestGateway, client: &TestClient, refusals: u64) {
    while ask(client).await.number("x-ratelimit-remaining-minute") > 0 {}
    for _ in 0..refusals {
        let reply = ask(client).await;
        assert_eq!((reply.status, limits(&reply)), (429, FULL));
    }
    gateway.pass(60);
}

/// Calls until the limits of the key called `default` are scaled down.
async fn storm(gateway: &TestGateway, client: &TestClient) {
    hammer(gateway, client, 3).await;
    hammer(gateway, client, 3).await;
}

// Shows (Limits, budget and quota): With the safeguard enabled, a key in a storm of refusals is throttled: it has a
// quarter of its limits for an hour, in headers and decisions, and then all of them again.
#[tokio::test]
async fn the_safeguard_is_off_unless_an_operator_enables_it() {
    let (_node, gateway) = gateway("refusals = 3\nminutes = 2").await;
    let client = gateway.client();
    for _ in 0..4 {
        hammer(&gateway, &client, 20).await;
    }
    assert_eq!(limits(&ask(&client).await), FULL);
}

// Shows (Limits, budget and quota).
#[tokio::test]
async fn after_a_storm_a_quarter_of_the_limits_is_shown_and_enforced() {
    let (node, gateway) = gateway(ENABLED).await;
    let client = gateway.client();
    storm(&gateway, &client).await;
    let served = node.requests();
    for left in [1, 0] {
        let reply = ask(&client).await;
        assert_eq!((reply.status, limits(&reply)), (200, QUARTER));
        assert_eq!(reply.number("x-ratelimit-remaining-minute"), left);
        assert_eq!((reply.number("ratelimit-limit"), reply.number("ratelimit-remaining")), (2, left));
    }
    for _ in 0..10 {
        let reply = ask(&client).await;
        assert_eq!((reply.status, limits(&reply)), (429, QUARTER));
        assert_eq!(reply.text(), r#"{"message":"API rate limit exceeded"}"#);
    }
    assert_eq!(node.requests(), served + 2);
    let reply = client.send("POST", "/eth", &[], b"no json").await;
    assert_eq!((reply.status, limits(&reply)), (400, QUARTER), "whatever it is answered");
    gateway.pass(60);
    assert_eq!(ask(&client).await.number("x-ratelimit-remaining-minute"), 1, "the minutes go on");
}

// Shows (Limits, budget and quota).
#[tokio::test]
async fn a_throttle_ends_automatically_after_an_hour() {
    let (_node, gateway) = gateway(ENABLED).await;
    let client = gateway.client();
    storm(&gateway, &client).await;
    // The cool-down began 60 s ago.
    gateway.pass(3_600 - 60 - 1);
    assert_eq!(limits(&ask(&client).await), QUARTER);
    gateway.pass(1);
    assert_eq!(limits(&ask(&client).await), FULL);
    // The next cool-down requires both minutes again.
    hammer(&gateway, &client, 3).await;
    assert_eq!(limits(&ask(&client).await), FULL);
    hammer(&gateway, &client, 3).await;
    assert_eq!(limits(&ask(&client).await), QUARTER);
}

// Shows (Limits, budget and quota).
#[tokio::test]
async fn one_minute_of_refusals_or_two_with_a_quiet_one_between_are_not_a_storm() {
    let (_node, gateway) = gateway(ENABLED).await;
    let client = gateway.client();
    for _ in 0..3 {
        hammer(&gateway, &client, 30).await;
        gateway.pass(60);
    }
    for _ in 0..5 {
        hammer(&gateway, &client, 2).await;
    }
    assert_eq!(limits(&ask(&client).await), FULL);
}

// Shows (Limits, budget and quota).
#[tokio::test]
async fn only_the_key_that_caused_the_storm_has_smaller_limits() {
    let (_node, gateway) = gateway(ENABLED).await;
    let client = gateway.client();
    let second = gateway.client_of("second");
    storm(&gateway, &client).await;
    assert_eq!((limits(&ask(&client).await), limits(&ask(&second).await)), (QUARTER, FULL));
    assert_eq!(limits(&ask(&client.another()).await), QUARTER, "whatever the connection");
}

// Shows (Limits, budget and quota).
#[tokio::test]
async fn a_projects_requests_per_second_are_scaled_down_for_the_key() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url()).key("second", "").set("projects.default", "rps_limit = 4");
    let gateway = setup.set("safeguard", ENABLED).start().await;
    let client = gateway.client();
    let second = gateway.client_of("second");
    let served = async |client: &TestClient| {
        let mut served = 0;
        for _ in 0..7 {
            served += u64::from(ask(client).await.status == 200);
        }
        gateway.pass(60);
        served
    };
    assert_eq!(
        (served(&client).await, served(&client).await),
        (4, 4),
        "three of seven were refused each time"
    );
    assert_eq!((served(&client).await, served(&second).await), (1, 4));
}

// Shows (Limits, budget and quota): A storm is 429s in consecutive minutes; usage and metrics show it, and a reload
// switches the safeguard.
#[tokio::test]
async fn every_429_counts_and_no_other_refusal_does() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url()).set("safeguard", ENABLED).key("second", "chains = [\"btc\"]");
    let gateway = setup.start().await;
    let client = gateway.client();
    let second = gateway.client_of("second");
    for _ in 0..2 {
        for n in 0..4 {
            let paced = client.call("eth", "eth_getLogs", "[{}]").await.status;
            assert_eq!(paced, if n == 0 { 200 } else { 429 });
            assert_eq!(ask(&second).await.status, 403);
        }
        gateway.pass(60);
    }
    assert_eq!(limits(&ask(&client).await)[0], 250);
    assert_eq!(limits(&ask(&second).await)[0], 1_000);
}

// Shows (Limits, budget and quota): While a key is throttled, `Retry-After` does not point beyond the end of the
// throttling.
#[tokio::test]
async fn retry_after_does_not_point_beyond_the_end_of_the_throttle() {
    let (_node, gateway) = gateway("enabled = true\nrefusals = 3\nminutes = 2\ncooldown = \"10m\"").await;
    let client = gateway.client();
    // After the storm, 250 requests of the day are left, and more were made before.
    for _ in 0..40 {
        for _ in 0..8 {
            assert_eq!(ask(&client).await.status, 200);
        }
        gateway.pass(60);
    }
    storm(&gateway, &client).await;
    let reply = ask(&client).await;
    assert_eq!((reply.status, limits(&reply)), (429, QUARTER));
    assert_eq!(reply.number("retry-after"), 540);
    gateway.pass(539);
    assert_eq!(ask(&client).await.number("retry-after"), 1);
    gateway.pass(1);
    assert_eq!(ask(&client).await.status, 200);
}

// Shows (Limits, budget and quota).
#[tokio::test]
async fn usage_shows_the_refusals_and_none_is_billed() {
    let (_node, gateway) = gateway(ENABLED).await;
    let client = gateway.client();
    storm(&gateway, &client).await;
    for _ in 0..7 {
        ask(&client).await;
    }
    let refused: Vec<_> = gateway.lines().into_iter().filter(|line| line.status == 429).collect();
    assert_eq!(refused.len(), 3 + 3 + 5, "the last five would have been served without the safeguard");
    assert!(refused.iter().all(|line| line.cu == 0 && line.outcome == Outcome::Refused));
    let records = gateway.records();
    assert_eq!(records.iter().map(|record| record.windowed).sum::<u32>(), 8 + 8 + 2);
    assert!(records.iter().all(|record| record.tier.name() == "free"), "the plan is as it was");
}

// Shows (Limits, budget and quota).
#[tokio::test]
async fn metrics_count_throttled_keys_and_throttles() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url()).plan("free").set("plans.free", PLAN).set("safeguard", ENABLED);
    let gateway = setup.set("telemetry", "listen = \"127.0.0.1:0\"").start().await;
    let metrics = TestClient::new(gateway.server.metrics_addr().unwrap(), None);
    let reported = async || {
        let page = metrics.send("GET", "/metrics", &[], b"").await.text();
        ["rpcgate_cooled_keys ", "rpcgate_storms_total "].map(|name| {
            let value = page.lines().find_map(|line| line.strip_prefix(name));
            value.unwrap_or_else(|| panic!("{name} is missing: {page}")).to_owned()
        })
    };
    assert_eq!(reported().await, ["0", "0"]);
    storm(&gateway, &gateway.client()).await;
    assert_eq!(reported().await, ["1", "1"]);
    gateway.pass(3_600);
    ask(&gateway.client()).await;
    assert_eq!(reported().await, ["0", "1"]);
}

// Shows (Limits, budget and quota).
#[tokio::test]
async fn a_reload_enables_and_changes_the_safeguard_and_restores_all_limits() {
    let (node, gateway) = gateway("").await;
    let client = gateway.client();
    let reload = |safeguard: &str| {
        let setup = Setup::of("eth", &node.url()).plan("free").key("second", "").set("plans.free", PLAN);
        let mut config = setup.set("safeguard", safeguard).config();
        config.gateway.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        assert_eq!(gateway.server.reload(config).unwrap(), [""; 0]);
    };
    storm(&gateway, &client).await;
    assert_eq!(limits(&ask(&client).await), FULL);
    reload(ENABLED);
    gateway.pass(120);
    storm(&gateway, &client).await;
    assert_eq!(limits(&ask(&client).await), QUARTER);
    reload(&format!("{ENABLED}\npercent = 50"));
    assert_eq!(limits(&ask(&client).await), [4, 200, 500]);
    reload("");
    assert_eq!(limits(&ask(&client).await), FULL);
}
