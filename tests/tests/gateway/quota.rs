use crate::*;
use proptest::prelude::*;
use rpcgate_core::clock::Time;
use rpcgate_core::quota::Rolling;

async fn of(ceiling: u64) -> (Node, TestGateway, TestClient) {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url()).node("bsc", &node.url()).key("second", "");
    let gateway = setup.set("projects.default", &format!("cu_per_day = {ceiling}")).start().await;
    let client = gateway.client();
    (node, gateway, client)
}

const REFUSED: i64 = -32005;

// Shows (Errors): A reached quota gets -32005 at HTTP 200.
// Shows (Limits, budget and quota): A call at or above the ceiling is refused; the call that crosses the ceiling is
// served.
// Shows (Limits, budget and quota): A single call that the quota refuses is HTTP 200 with -32005.
#[tokio::test]
async fn the_call_that_crosses_the_ceiling_is_served_and_the_next_is_refused() {
    let (node, gateway, client) = of(20).await;
    for code in [0, 0, REFUSED, REFUSED] {
        assert_eq!(client.call("eth", "eth_estimateGas", "[]").await.code(), code);
    }
    let reply = client.post("eth", r#"{"jsonrpc":"2.0","id":"x","method":"eth_getBalance"}"#).await;
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (
            200,
            r#"{"jsonrpc":"2.0","id":"x","error":{"code":-32005,"message":"compute unit quota exceeded"}}"#
        )
    );
    assert_eq!((reply.cu(), reply.cache(), rated(&reply)), (0, "MISS", true));
    assert_eq!((node.requests(), gateway.charged()), (2, 30));
}

// Shows (Limits, budget and quota).
#[tokio::test]
async fn exactly_at_the_ceiling_the_next_call_is_refused() {
    let (_node, _gateway, client) = of(15).await;
    assert_eq!(client.call("eth", "eth_estimateGas", "[]").await.code(), 0);
    assert_eq!(client.call("eth", "m", "[]").await.code(), REFUSED);
}

// Shows (Limits, budget and quota): The quota admits calls that cost nothing.
#[tokio::test]
async fn calls_that_cost_nothing_always_pass() {
    for ceiling in [0, 1] {
        let (_node, _gateway, client) = of(ceiling).await;
        client.call("eth", "eth_estimateGas", "[]").await;
        for method in ["eth_chainId", "net_version", "web3_clientVersion", "net_listening"] {
            assert_eq!(client.call("eth", method, "[]").await.code(), 0, "{method}");
        }
        assert_eq!(client.call("eth", "m", "[]").await.code(), REFUSED);
    }
}

// Shows (Compute Units): A limit of 0 refuses every call that costs something.
#[tokio::test]
async fn a_ceiling_of_0_refuses_every_call_that_costs_something() {
    let (node, gateway, client) = of(0).await;
    assert_eq!(client.call("eth", "eth_blockNumber", "[]").await.code(), REFUSED);
    assert_eq!((node.requests(), gateway.charged()), (0, 0));
}

// Shows (Limits, budget and quota): The quota decides a batch entry by entry in order.
#[tokio::test]
async fn a_batch_is_reserved_entry_by_entry_in_its_order() {
    let (node, _gateway, client) = of(21).await;
    let reply = client
        .batch(
            "eth",
            &[
                ("eth_estimateGas", "[]"),
                ("eth_getBalance", "[]"),
                ("m", "[]"),
                ("eth_chainId", "[]"),
                ("m", "[]"),
            ],
        )
        .await;
    assert_eq!((reply.status, reply.codes(), reply.cu()), (200, vec![0, 0, 0, 0, REFUSED], 21));
    assert_eq!(node.calls().len(), 4);
}

// Shows (Compute Units): All keys and chains of a project share one ceiling; cached answers count.
#[tokio::test]
async fn the_quota_is_shared_by_all_keys_and_chains_of_a_project() {
    let (_node, gateway, client) = of(30).await;
    let second = gateway.client_of("second");
    assert_eq!(client.call("eth", "eth_estimateGas", "[]").await.code(), 0);
    assert_eq!(second.call("bsc", "eth_estimateGas", "[]").await.code(), 0);
    assert_eq!(client.call("bsc", "m", "[]").await.code(), REFUSED);
    assert_eq!(second.call("eth", "m", "[]").await.code(), REFUSED);
}

// Shows (Compute Units).
#[tokio::test]
async fn answers_from_the_cache_count_too() {
    let (node, _gateway, client) = of(30).await;
    for code in [0, 0, REFUSED] {
        assert_eq!(client.call("eth", "eth_call", "[]").await.code(), code);
    }
    assert_eq!(node.requests(), 1);
}

// Shows (Compute Units): A project has 100,000 units a day by default.
#[tokio::test]
async fn a_project_without_a_record_has_100_000_units() {
    let node = Node::evm().await;
    let gateway =
        Setup::of("bsc", &node.url()).set("chains.bsc", "cu = { big = 99999, one = 1 }").start().await;
    let client = gateway.client();
    for (method, code) in [("big", 0), ("one", 0), ("one", REFUSED), ("eth_chainId", 0)] {
        assert_eq!(client.call("bsc", method, "[]").await.code(), code, "{method}");
    }
}

// Shows (Limits, budget and quota): Refusals and backend failures are not charged.
#[tokio::test]
async fn units_of_unanswered_and_refused_calls_are_returned() {
    let (node, gateway, client) = of(15).await;
    for answer in [Raw { status: 502, ..Raw::default() }, Raw::json(200, "garbage"), Raw::json(429, "{}")] {
        node.always(answer);
        let reply = client.call("eth", "eth_estimateGas", "[]").await;
        assert_eq!((reply.code(), reply.cu()), (-32603, 0));
    }
    for (method, status) in [("admin_x", 200), ("debug_x", 403)] {
        assert_eq!(client.call("eth", method, "[]").await.status, status);
    }
    node.whole(|_| None);
    assert_eq!(client.call("eth", "eth_estimateGas", "[]").await.code(), 0, "all of it is still there");
    assert_eq!(client.call("eth", "eth_estimateGas", "[]").await.code(), REFUSED);
    assert_eq!(gateway.charged(), 15);
}

// Shows (Limits, budget and quota): A call at a node is charged even if its client disconnects.
#[tokio::test]
async fn a_call_at_a_node_is_charged_if_its_client_disconnects() {
    let (node, gateway, _) = of(100).await;
    node.hold();
    let call = br#"{"jsonrpc":"2.0","id":9,"method":"eth_estimateGas"}"#;
    let mut connection = Connection::open(gateway.addr()).await.unwrap();
    let head = format!(
        "POST /eth HTTP/1.1\r\nhost: h\r\napikey: {}\r\ncontent-length: {}\r\n\r\n",
        key("default"),
        call.len()
    );
    connection.write(&[head.as_bytes(), call].concat()).await.unwrap();
    node.got(1).await;
    drop(connection);
    until("the call is recorded", || !gateway.records().is_empty()).await;
    node.release();
    assert_eq!(only_line(&gateway), ("eth_estimateGas".into(), Outcome::Abandoned, 15, 499));
}

// Shows (Compute Units): The quota covers a rolling 24 hours by the hour.
#[tokio::test]
async fn units_expire_hour_by_hour_24_hours_after_their_hour_began() {
    let (_node, gateway, client) = of(30).await;
    // 08:30 and 09:30: 15 units each.
    assert_eq!(client.call("eth", "eth_estimateGas", "[]").await.code(), 0);
    gateway.pass(3_600);
    assert_eq!(client.call("eth", "eth_estimateGas", "[]").await.code(), 0);
    assert_eq!(client.call("eth", "m", "[]").await.code(), REFUSED);
    // 07:59:59.9 of the next day: the hour of 08:00 is the oldest of the 24.
    let hour = START.secs() / 3_600;
    gateway.clock.set(Time::from_millis((hour + 24) * 3_600_000 - 100));
    assert_eq!(client.call("eth", "m", "[]").await.code(), REFUSED);
    gateway.clock.set(Time::from_millis((hour + 24) * 3_600_000 + 100));
    assert_eq!(
        client.call("eth", "eth_estimateGas", "[]").await.code(),
        0,
        "08:00:00.1: those of the first hour have left"
    );
    assert_eq!(client.call("eth", "m", "[]").await.code(), REFUSED);
    gateway.clock.set(Time::from_millis((hour + 25) * 3_600_000));
    assert_eq!(client.call("eth", "m", "[]").await.code(), 0, "09:00: those of the second too");
}

// Shows (Order of decisions).
#[tokio::test]
async fn a_refund_goes_to_the_hour_it_was_taken_from() {
    let (node, gateway, client) = of(15).await;
    node.hold();
    node.always(Raw { status: 502, ..Raw::default() });
    let late = tokio::spawn(async move { client.call("eth", "eth_estimateGas", "[]").await.code() });
    node.got(1).await;
    gateway.pass(3_600);
    let other = gateway.client();
    assert_eq!(other.call("eth", "m", "[]").await.code(), REFUSED, "reserved while it is under way");
    node.release();
    assert_eq!(late.await.unwrap(), -32603);
    node.whole(|_| None);
    assert_eq!(other.call("eth", "m", "[]").await.code(), 0);
}

// Shows (Limits, budget and quota): The ceiling is exceeded by at most one call (promise 24).
#[tokio::test]
async fn calls_at_the_same_time_overrun_the_ceiling_by_one_call_at_most() {
    let (node, gateway, _) = of(160).await;
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let client = gateway.client();
            tokio::spawn(async move { client.call("bsc", "eth_getLogs", "[]").await.code() })
        })
        .collect();
    let mut served = 0;
    for call in calls {
        served += usize::from(call.await.unwrap() == 0);
    }
    assert_eq!((served, node.requests(), gateway.charged()), (3, 3, 225));
    let (_node, _gateway, client) = of(160).await;
    let reply = client.batch("bsc", &[("eth_getLogs", "[]"); 100]).await;
    assert_eq!(reply.cu(), 225, "nor does one batch");
}

// Shows (Management).
#[tokio::test]
async fn a_change_of_the_ceiling_takes_effect_at_once() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url());
    let small = setup.clone().set("projects.default", "cu_per_day = 1");
    let gateway = small.start().await;
    let client = gateway.client();
    assert_eq!(
        (client.call("eth", "m", "[]").await.code(), client.call("eth", "m", "[]").await.code()),
        (0, REFUSED)
    );
    assert!(gateway.server.reload(setup.config()).is_ok());
    assert_eq!(client.call("eth", "m", "[]").await.code(), 0);
    assert!(gateway.server.reload(small.config()).is_ok());
    assert_eq!(client.call("eth", "m", "[]").await.code(), REFUSED);
}

/// A model that adds up the whole history each time.
#[derive(Debug, Default)]
struct Model {
    taken: Vec<(u64, u64)>,
}

impl Model {
    fn used(&self, hour: u64) -> u64 {
        self.taken.iter().filter(|(taken, _)| taken + 24 > hour).map(|(_, units)| units).sum()
    }

    fn refund(&mut self, hour: u64, units: u64) {
        let mut left = units;
        for (taken, own) in self.taken.iter_mut().filter(|(taken, _)| *taken == hour) {
            let back = left.min(*own);
            let _ = taken;
            *own -= back;
            left -= back;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    // Shows (Compute Units).
    // Shows (Limits, budget and quota): Units expire with their hour on any schedule (promise 22).
    #[test]
    fn any_schedule_of_calls_and_refunds_uses_the_units_of_its_24_hours(
        ceiling in 0u64..400,
        steps in prop::collection::vec((0u64..30_000_000, prop::collection::vec(0u32..100, 1..6), any::<bool>()), 1..24),
    ) {
        let mut rolling = Rolling::default();
        let mut model = Model::default();
        let mut now = Time::from_millis(1_800_000_000_000);
        for (wait, costs, refunded) in steps {
            now = Time::from_millis(now.millis() + wait);
            let (mask, grant) = rolling.reserve(&costs, ceiling, now);
            let mut used = model.used(now.hour());
            let mut granted = 0;
            for (place, cost) in costs.iter().enumerate() {
                let fits = *cost == 0 || used < ceiling;
                prop_assert_eq!(mask.has(place), fits);
                if fits {
                    used += u64::from(*cost);
                    granted += u64::from(*cost);
                }
            }
            model.taken.push((now.hour(), granted));
            prop_assert_eq!((grant.hour, grant.units), (now.hour(), granted));
            if refunded {
                rolling.refund(grant.hour, granted / 2);
                model.refund(grant.hour, granted / 2);
            }
            prop_assert_eq!(rolling.used(now), model.used(now.hour()));
            // The units of an hour expire with the first moment of the 24th hour after it, not a microsecond earlier.
            let edge = Time::from_secs((now.hour() + 24) * 3_600);
            let before = Time::from_micros(edge.micros() - 1);
            prop_assert_eq!(rolling.used(before), model.used(now.hour() + 23));
            prop_assert_eq!(rolling.used(edge), 0);
        }
    }
}

// Shows (Plans, bills and payments): The quota of a plan, in the file or set by operators, applies to its projects that
// have no own quota; gateways apply it within 1 s.
#[tokio::test]
async fn a_project_without_a_quota_of_its_own_has_that_of_its_plan() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url())
        .set("plans.enterprise", "cu_per_day = 20")
        .set("projects.own", "cu_per_day = 1000")
        .key("second", "project = \"own\"\n");
    let gateway = setup.start().await;
    let client = gateway.client();
    for code in [0, 0, REFUSED] {
        assert_eq!(client.call("eth", "eth_estimateGas", "[]").await.code(), code);
    }
    let own = gateway.client_of("second");
    for _ in 0..4 {
        assert_eq!(own.call("eth", "eth_estimateGas", "[]").await.code(), 0, "a quota of its own prevails");
    }
}
