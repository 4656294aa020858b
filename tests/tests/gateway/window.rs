use crate::*;

const PLANS: [(&str, [u64; 3]); 4] = [
    ("free", [10, 500, 10_000]),
    ("standard", [50, 2_500, 50_000]),
    ("premium", [100, 5_000, 100_000]),
    ("enterprise", [1_000, 50_000, 1_000_000]),
];

async fn of(plan: &str, lines: &[(&str, &str)]) -> (Node, TestGateway, TestClient) {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url()).plan(plan).key("second", "");
    let gateway = lines.iter().fold(setup, |setup, (table, line)| setup.set(table, line)).start().await;
    let client = gateway.client();
    (node, gateway, client)
}

// Shows (Plans): The four plans have the specified windows.
#[tokio::test]
async fn each_plan_has_its_three_windows_in_the_headers() {
    for (plan, [minute, hour, day]) in PLANS {
        let (_node, _gateway, client) = of(plan, &[]).await;
        let reply = client.call("eth", "m", "[]").await;
        let got: Vec<_> = RATE.iter().map(|name| reply.number(name)).collect();
        assert_eq!(got, [minute, minute - 1, hour, hour - 1, day, day - 1, minute, minute - 1, 45], "{plan}");
    }
}

// Shows (Errors): An exceeded plan window gets 429, `message` and `Retry-After`.
// Shows (Plans).
#[tokio::test]
async fn each_plan_serves_exactly_its_requests_a_minute() {
    for (plan, [minute, ..]) in PLANS {
        let (node, gateway, client) = of(plan, &[]).await;
        for left in (0..minute).rev() {
            let reply = client.call("eth", "m", "[]").await;
            assert_eq!((reply.status, reply.number("x-ratelimit-remaining-minute")), (200, left));
        }
        for _ in 0..3 {
            let reply = client.call("eth", "m", "[]").await;
            assert_eq!(
                (reply.status, reply.text().as_str()),
                (429, r#"{"message":"API rate limit exceeded"}"#),
                "{plan}"
            );
            assert_eq!(
                (reply.number("retry-after"), reply.number("x-ratelimit-remaining-minute"), reply.cu()),
                (45, 0, 0)
            );
        }
        assert_eq!(node.requests() as u64, minute);
        gateway.pass(45);
        let reply = client.call("eth", "m", "[]").await;
        assert_eq!((reply.status, reply.number("x-ratelimit-remaining-minute")), (200, minute - 1));
    }
}

// Shows (Limits, budget and quota): Windows are fixed on the UTC clock.
#[tokio::test]
async fn windows_are_fixed_on_the_utc_clock() {
    let (_node, gateway, client) = of("free", &[]).await;
    gateway.clock.advance(std::time::Duration::from_micros(44_999_999));
    for left in (0..10).rev() {
        assert_eq!(client.call("eth", "m", "[]").await.number("x-ratelimit-remaining-minute"), left);
    }
    let reply = client.call("eth", "m", "[]").await;
    assert_eq!((reply.status, reply.number("retry-after"), reply.number("ratelimit-reset")), (429, 1, 1));
    gateway.clock.advance(std::time::Duration::from_micros(1));
    let reply = client.call("eth", "m", "[]").await;
    assert_eq!(
        (reply.status, reply.number("x-ratelimit-remaining-minute"), reply.number("ratelimit-reset")),
        (200, 9, 60)
    );
    assert_eq!(reply.number("x-ratelimit-remaining-hour"), 489);
}

// Shows (Limits, budget and quota): `Retry-After` is the latest reset among the exhausted windows.
#[tokio::test]
async fn retry_after_is_the_latest_reset_among_the_exhausted_windows() {
    let lines = [("plans.free", "per_minute = 3\nper_hour = 5\nper_day = 6")];
    let (_node, gateway, client) = of("free", &lines).await;
    let ask = async || {
        let reply = client.call("eth", "m", "[]").await;
        (reply.status, reply.header("retry-after").map(|value| value.parse::<u64>().unwrap()))
    };
    for _ in 0..3 {
        assert_eq!(ask().await, (200, None));
    }
    assert_eq!(ask().await, (429, Some(45)), "the minute");
    gateway.pass(45);
    assert_eq!((ask().await, ask().await), ((200, None), (200, None)));
    assert_eq!(ask().await, (429, Some(1_740)), "the hour");
    gateway.pass(1_740);
    assert_eq!(ask().await, (200, None));
    assert_eq!(ask().await, (429, Some(54_000)), "the day");
    gateway.pass(54_000);
    assert_eq!(ask().await, (200, None), "a new day");
    let reply = client.call("eth", "m", "[]").await;
    assert_eq!(
        (reply.number("x-ratelimit-remaining-day"), reply.number("x-ratelimit-remaining-hour")),
        (4, 3)
    );
}

// Shows (Limits, budget and quota).
#[tokio::test]
async fn when_two_windows_are_exhausted_the_later_one_counts() {
    let lines = [("plans.free", "per_minute = 2\nper_hour = 2\nper_day = 9")];
    let (_node, _gateway, client) = of("free", &lines).await;
    client.call("eth", "m", "[]").await;
    client.call("eth", "m", "[]").await;
    assert_eq!(client.call("eth", "m", "[]").await.number("retry-after"), 1_785);
}

// Shows (Limits, budget and quota): They are checked together before any is counted; a refused request is not counted.
#[tokio::test]
async fn a_refused_request_is_counted_in_no_window() {
    let lines = [("plans.free", "per_minute = 2\nper_hour = 4\nper_day = 100")];
    let (_node, gateway, client) = of("free", &lines).await;
    for _ in 0..20 {
        client.call("eth", "m", "[]").await;
    }
    let reply = client.call("eth", "m", "[]").await;
    assert_eq!(
        (reply.number("x-ratelimit-remaining-hour"), reply.number("x-ratelimit-remaining-day")),
        (2, 98)
    );
    assert_eq!(gateway.records().iter().map(|record| record.windowed).sum::<u32>(), 2);
    assert_eq!(gateway.lines().iter().filter(|line| line.status == 429 && line.cu == 0).count(), 19);
}

// Shows (Limits, budget and quota): `ratelimit-*` describe the window with the fewest requests left; if two are equal,
// the shorter one.
#[tokio::test]
async fn the_short_headers_describe_the_window_with_the_fewest_requests_left() {
    let lines = [("plans.free", "per_minute = 4\nper_hour = 4\nper_day = 7")];
    let (_node, gateway, client) = of("free", &lines).await;
    let mut short = Vec::new();
    for pass in [0, 0, 45, 0] {
        gateway.pass(pass);
        let reply = client.call("eth", "m", "[]").await;
        short.push([
            reply.number("ratelimit-limit"),
            reply.number("ratelimit-remaining"),
            reply.number("ratelimit-reset"),
        ]);
    }
    assert_eq!(short, [[4, 3, 45], [4, 2, 45], [4, 1, 1_740], [4, 0, 1_740]]);
}

// Shows (Plans).
#[tokio::test]
async fn windows_are_per_key() {
    let (_node, gateway, client) = of("free", &[]).await;
    for _ in 0..11 {
        client.call("eth", "m", "[]").await;
    }
    assert_eq!(client.call("eth", "m", "[]").await.status, 429);
    assert_eq!(
        gateway.client_of("second").call("eth", "m", "[]").await.number("x-ratelimit-remaining-minute"),
        9
    );
    assert_eq!(client.another().call("eth", "m", "[]").await.status, 429, "whatever the connection");
}

// Shows (Plans).
#[tokio::test]
async fn windows_count_over_all_chains() {
    let (_evm, _utxo, gateway) = ten(Setup::new().plan("free")).await;
    let client = gateway.client();
    for (chain, left) in EVM.iter().chain(&UTXO).zip((0..10).rev()) {
        assert_eq!(client.call(chain, "m", "[]").await.number("x-ratelimit-remaining-minute"), left);
    }
    assert_eq!(client.call("eth", "m", "[]").await.status, 429);
}

// Shows (Limits, budget and quota): `rps_limit` refuses with the same 429 and `Retry-After: 1`.
#[tokio::test]
async fn the_requests_per_second_of_a_project_are_limited_over_all_its_keys() {
    let (node, gateway, client) = of("enterprise", &[("projects.default", "rps_limit = 2")]).await;
    let second = gateway.client_of("second");
    assert_eq!(
        (client.call("eth", "m", "[]").await.status, second.call("eth", "m", "[]").await.status),
        (200, 200)
    );
    for client in [&client, &second] {
        let reply = client.call("eth", "m", "[]").await;
        assert_eq!(
            (reply.status, reply.text().as_str(), reply.number("retry-after")),
            (429, r#"{"message":"API rate limit exceeded"}"#, 1)
        );
        assert_eq!(reply.number("x-ratelimit-remaining-minute"), 999, "not counted in the windows");
    }
    gateway.pass(1);
    assert_eq!(client.call("eth", "m", "[]").await.status, 200);
    assert_eq!(node.requests(), 3);
}

// Shows (Order of decisions): A call belongs to the minute and hour of its arrival.
#[tokio::test]
async fn a_call_belongs_to_the_minute_and_hour_of_its_arrival() {
    let (node, gateway, client) = of("free", &[]).await;
    node.hold();
    let late = tokio::spawn(async move { client.call("eth", "eth_getBalance", "[]").await });
    node.got(1).await;
    gateway.pass(3_600);
    node.release();
    let late = late.await.unwrap();
    assert_eq!((late.number("x-ratelimit-remaining-minute"), late.number("ratelimit-reset")), (9, 45));
    assert_eq!(gateway.client().call("eth", "m", "[]").await.number("x-ratelimit-remaining-hour"), 499);
    assert_eq!(gateway.records()[0].arrival, START);
    assert_eq!(gateway.records()[0].latency.as_secs(), 3_600);
}

// Shows (Limits, budget and quota).
#[tokio::test]
async fn calls_at_the_same_time_share_the_windows_exactly() {
    let (node, gateway, _) = of("free", &[]).await;
    let calls = (0..40).map(|_| {
        let client = gateway.client();
        tokio::spawn(async move { client.call("eth", "m", "[]").await.status })
    });
    let mut served = 0;
    for call in calls.collect::<Vec<_>>() {
        served += usize::from(call.await.unwrap() == 200);
    }
    assert_eq!((served, node.requests()), (10, 10));
}

// Shows (Order of decisions).
#[tokio::test]
async fn a_batch_that_is_refused_by_the_windows_is_refused_as_a_whole() {
    let (node, gateway, client) = of("free", &[("plans.free", "per_minute = 1")]).await;
    client.call("eth", "m", "[]").await;
    let reply = client.batch("eth", &[("eth_chainId", "[]"), ("m", "[]")]).await;
    assert_eq!((reply.status, reply.text().as_str()), (429, r#"{"message":"API rate limit exceeded"}"#));
    assert_eq!((reply.cu(), node.requests()), (0, 1));
    assert_eq!(
        gateway.lines().iter().filter(|line| line.outcome == Outcome::Refused).count(),
        2,
        "each item is a usage call"
    );
}

// Shows (Reliability): Steps of the clock keep waits bounded (promise 21).
#[tokio::test]
async fn after_a_clock_step_no_client_waits_longer_than_a_window() {
    let (_node, gateway, client) = of("free", &[]).await;
    let now = START.secs();
    for secs in [now + 3_600, now - 3_600, now, now - 86_400, now + 86_400, now + 1] {
        gateway.clock.set(rpcgate_core::clock::Time::from_secs(secs));
        for _ in 0..12 {
            let reply = client.call("eth", "m", "[]").await;
            assert!(matches!(reply.status, 200 | 429));
            if reply.status == 429 {
                assert!((1..=86_400).contains(&reply.number("retry-after")));
            }
        }
    }
}

/// Sends a request whose head the gateway has read and whose body it waits for.
async fn parked(gateway: &TestGateway, body: &str) -> Connection {
    let mut connection = Connection::open(gateway.addr()).await.unwrap();
    let head = format!(
        "POST /eth HTTP/1.1\r\nhost: h\r\napikey: {}\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        key("default"),
        body.len()
    );
    connection.write(head.as_bytes()).await.unwrap();
    assert_eq!(connection.read(true).await.unwrap().status, 100);
    connection
}

// Shows (Limits, budget and quota): A late arrival resets no window, second, pace, heavy budget or safeguard; setting
// the clock back locks no key out (promise 59).
#[tokio::test]
async fn a_body_that_arrives_windows_after_its_head_does_not_reset_a_window() {
    const CALL: &str = r#"{"jsonrpc":"2.0","id":9,"method":"m"}"#;
    for (span, limit) in [(60, "per_minute = 3"), (3_600, "per_hour = 3"), (86_400, "per_day = 3")] {
        let (node, gateway, client) = of("free", &[("plans.free", limit)]).await;
        let mut late = parked(&gateway, CALL).await;
        gateway.pass(2 * span);
        for _ in 0..3 {
            assert_eq!(client.call("eth", "m", "[]").await.status, 200, "{limit}");
        }
        late.write(CALL.as_bytes()).await.unwrap();
        let refused = late.read(false).await.unwrap();
        assert_eq!(refused.status, 429, "{limit}: it counts in the current span");
        assert!((1..=span).contains(&refused.number("retry-after")), "{limit}");
        assert_eq!(
            client.call("eth", "m", "[]").await.status,
            429,
            "{limit}: the current span was not reset"
        );
        assert_eq!(node.requests(), 3, "{limit}");
    }
}

// Shows (Limits, budget and quota).
#[tokio::test]
async fn late_bodies_do_not_gain_extra_seconds() {
    const CALL: &str = r#"{"jsonrpc":"2.0","id":9,"method":"m"}"#;
    let (node, gateway, client) = of("enterprise", &[("projects.default", "rps_limit = 1")]).await;
    let mut late = Vec::new();
    for _ in 0..4 {
        late.push(parked(&gateway, CALL).await);
        gateway.pass(1);
    }
    assert_eq!(client.call("eth", "m", "[]").await.status, 200);
    for connection in &mut late {
        connection.write(CALL.as_bytes()).await.unwrap();
        assert_eq!(connection.read(false).await.unwrap().status, 429);
    }
    assert_eq!(node.requests(), 1);
}

// Shows (Limits, budget and quota).
#[tokio::test]
async fn setting_the_clock_back_locks_no_key_out() {
    let (_node, gateway, client) = of("free", &[]).await;
    for _ in 0..10 {
        assert_eq!(client.call("eth", "m", "[]").await.status, 200);
    }
    gateway.clock.set(rpcgate_core::clock::Time::from_secs(START.secs() - 3_600));
    let served = async { while client.call("eth", "m", "[]").await.status != 200 {} };
    assert!(tokio::time::timeout(std::time::Duration::from_secs(20), served).await.is_ok());
}
