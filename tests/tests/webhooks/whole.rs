//! From blocks to a receiver, with everything that a user does with an endpoint.

use super::chains::ComingBlocks;
use crate::*;

const CHAINS: [&str; 5] = ["eth", "btc", "xrp", "tron", "cardano"];
const KINDS: [&str; 4] = ["new_block", "token_transfer", "contract_event", "address_activity"];
/// The time of one step: Cardano has a block that mints in 80 seconds, and the others have dozens of blocks.
const WINDOW: Duration = Duration::from_secs(100);
/// The topics of token transfers: `Transfer` of ERC-20 and ERC-721, `TransferSingle` and `TransferBatch` of ERC-1155.
const TRANSFERS: [&str; 3] = [
    "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
    "0xc3d58168c5ae7397731d063d5bbf3d657854427343f4c083240f7aacaa2d0f62",
    "0x4a39dc06d4c0dbc64b70af90fd698a233a518aa5d07e595d983b8c0526c8f7fb",
];

/// Returns the URL of a new database on PostgreSQL if this file is included under that name.
fn url() -> Option<String> {
    #[cfg(have_postgres)]
    if module_path!().contains("on_postgres") {
        return Some(rpcgate_tests::services::postgres::Postgres::shared().database());
    }
    None
}

fn of_kind(received: &[Value], chain: &str, kind: &str) -> Vec<Value> {
    let is_wanted = |event: &&Value| event["chain"] == chain && event["event_type"] == kind;
    received.iter().filter(is_wanted).cloned().collect()
}

fn events(received: &[ReceivedDelivery]) -> Vec<Value> {
    received.iter().map(ReceivedDelivery::event).collect()
}

fn ids(received: &[ReceivedDelivery]) -> BTreeSet<String> {
    received.iter().map(|delivery| delivery.id().to_owned()).collect()
}

fn bodies(received: &[ReceivedDelivery]) -> Vec<Vec<u8>> {
    let mut bodies: Vec<_> = received.iter().map(|delivery| delivery.body.clone()).collect();
    bodies.sort();
    bodies
}

struct Endpoint {
    chains: Chains,
    receiver: WebhookReceiver,
    service: TestService,
    owner: ApiUser,
    project: String,
    id: String,
    secret: String,
    /// The address whose activity is subscribed to, by chain.
    watched: BTreeMap<&'static str, String>,
    /// An endpoint that gets only the new blocks of one chain.
    other: String,
}

impl Endpoint {
    /// Creates an endpoint with subscriptions to everything, whose chains are followed from now on.
    async fn new() -> Self {
        let chains = Chains::start(&CHAINS);
        let receiver = WebhookReceiver::start().await;
        let setup = chains
            .setup()
            .set("webhooks", "attempts = 3")
            .set("webhooks", "waits = [\"100ms\", \"200ms\"]")
            .set("webhooks", "timeout = \"2s\"");
        let clock = Arc::new(SystemClock::new());
        let service = TestService::start_on(url(), setup, clock).await.with_webhooks();
        let owner = service.owner("ada@example.com").await;
        let project = owner.project("wallet").await;
        let from = START;
        let to = START.plus(WINDOW);
        let watched: BTreeMap<_, _> =
            CHAINS.map(|chain| (chain, ComingBlocks::of(chain).address(from, to))).into();
        let mut subscriptions = Vec::new();
        for (chain, address) in &watched {
            for kind in KINDS.into_iter().chain(["health"]) {
                let mut subscription = json!({ "chain": chain, "event_type": kind });
                if kind == "address_activity" {
                    // Addresses of Ethereum may be written in one case.
                    let address = if *chain == "eth" { address.to_uppercase() } else { address.clone() };
                    subscription["filter"] = json!({ "address": address.replacen("0X", "0x", 1) });
                }
                subscriptions.push(subscription);
            }
        }
        let blocks = [json!({ "chain": "eth", "event_type": "new_block" })];
        let (other, _) = endpoint(&owner, &project, &receiver.url("/other"), &blocks).await;
        let (id, secret) = endpoint(&owner, &project, &receiver.url("/all"), &subscriptions).await;
        let endpoint = Endpoint { chains, receiver, service, owner, project, id, secret, watched, other };
        endpoint.follow().await;
        endpoint
    }

    async fn follow(&self) {
        for chain in CHAINS {
            let height = Some(self.chains.height(chain));
            let is_followed = async || self.service.followed(chain).await == height;
            until_within(TIMEOUT, &format!("{chain} is followed"), is_followed).await;
        }
    }

    async fn quiet(&self) {
        all_delivered(&self.owner, &[&self.id, &self.other]).await;
    }

    fn received(&self) -> Vec<ReceivedDelivery> {
        self.receiver.at("/all")
    }

    fn path(&self, rest: &str) -> String {
        format!("/webhooks/{}{rest}", self.id)
    }

    /// Requests a test event and returns the identifier of its delivery.
    async fn test(&self) -> String {
        let reply = self.owner.ask("POST", &self.path("/test"), None).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    /// Returns the attempts at a delivery that have arrived.
    fn attempts(&self, id: &str) -> Vec<ReceivedDelivery> {
        let mut received = self.received();
        received.retain(|delivery| delivery.id() == id);
        received
    }

    async fn tested(&self) -> ReceivedDelivery {
        let id = self.test().await;
        until("a test event arrives", || !self.attempts(&id).is_empty()).await;
        self.attempts(&id).remove(0)
    }

    async fn ends(&self, id: &str, status: &str) -> Value {
        let path = format!("/deliveries/{id}");
        let has_ended = async || self.owner.shown(&path).await["status"] == status;
        until_within(TIMEOUT, &format!("a delivery is {status}"), has_ended).await;
        self.owner.shown(&path).await
    }
}

/// Checks that each block between these times is reported once, with its parent and its events.
fn blocks_are_told(chain: &str, received: &[Value], from: Time, to: Time) {
    let coming = ComingBlocks::of(chain);
    let blocks = of_kind(received, chain, "new_block");
    let by_height: BTreeMap<_, _> = blocks.iter().map(|event| (height_of(event), event)).collect();
    let heights: Vec<_> = by_height.keys().copied().collect();
    let expected: Vec<_> = (coming.height(from) + 1..=coming.height(to)).collect();
    assert_eq!((blocks.len(), heights), (expected.len(), expected), "{chain}");
    let mut before: Option<&Value> = None;
    for event in by_height.into_values() {
        if let Some(before) = before {
            assert_eq!(event["data"]["data"]["parent_hash"], before["data"]["block_hash"], "{chain}");
        }
        before = Some(event);
    }
}

/// Checks that the events equal the logs of Ethereum's node between these times.
fn logs_are_told(received: &[Value], from: Time, to: Time) {
    let mut coming = ComingBlocks::of("eth");
    let first = coming.height(from) + 1;
    let last = coming.height(to);
    let range = json!([{ "fromBlock": format!("{first:#x}"), "toBlock": format!("{last:#x}") }]);
    let logs = coming.call("eth_getLogs", &range, to);
    let all = logs.as_array().unwrap();
    let place = |log: &Value| (log["transactionHash"].clone(), log["logIndex"].clone());
    let told = |kind: &str| -> BTreeSet<String> {
        let place = |event: &Value| {
            let (data, index) = (&event["data"]["data"], event["data"]["data"]["log_index"].as_u64());
            json!([data["tx_hash"], format!("{:#x}", index.unwrap())]).to_string()
        };
        of_kind(received, "eth", kind).iter().map(place).collect()
    };
    let expected = |is_wanted: &dyn Fn(&Value) -> bool| -> BTreeSet<String> {
        let places = all.iter().filter(|log| is_wanted(log)).map(place);
        places.map(|(hash, index)| json!([hash, index]).to_string()).collect()
    };
    assert_eq!(told("contract_event"), expected(&|_| true));
    assert_eq!(
        told("token_transfer"),
        expected(&|log| TRANSFERS.contains(&log["topics"][0].as_str().unwrap()))
    );
    let head = coming.call("eth_getBlockByNumber", &json!([format!("{last:#x}"), false]), to);
    let newest = of_kind(received, "eth", "new_block").into_iter().find(|event| height_of(event) == last);
    assert_eq!(newest.unwrap()["data"]["block_hash"], head["hash"]);
}

// Shows (Webhook event types): Events of all five types from nodes behind sockets reach a receiver, signed, and the
// list and the log have them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_all_types_reach_a_receiver_signed_and_are_listed_and_logged() {
    let all = Endpoint::new().await;
    let from = START;
    let to = START.plus(WINDOW);
    all.chains.clock.advance(WINDOW);
    all.follow().await;
    all.quiet().await;
    let received = all.received();
    let told = events(&received);
    for chain in CHAINS {
        blocks_are_told(chain, &told, from, to);
        let activity = of_kind(&told, chain, "address_activity");
        let addresses: BTreeSet<_> =
            activity.iter().map(|event| event["data"]["data"]["address"].to_string()).collect();
        assert_eq!(addresses.len(), 1, "{chain}: {addresses:?}");
        // TRON's nodes and users write addresses in different forms.
        if chain != "tron" {
            assert_eq!(activity[0]["data"]["data"]["address"], all.watched[chain], "{chain}");
        }
        for kind in ["token_transfer", "contract_event"] {
            assert!(!of_kind(&told, chain, kind).is_empty(), "{chain}: {kind}");
        }
        assert!(of_kind(&told, chain, "health").is_empty(), "{chain} was well all the time");
    }
    logs_are_told(&told, from, to);
    for delivery in &received {
        assert_eq!(delivery.header("x-signature"), signed(&all.secret, &delivery.body));
        assert_eq!((delivery.attempt(), delivery.header("x-signature-next")), (1, ""));
        assert_eq!((delivery.header("x-replay"), delivery.header("content-type")), ("", "application/json"));
    }
    // The list has every delivery, and the log every event.
    let listed = deliveries(&all.owner, &all.id, "delivered").await;
    let listed_ids: BTreeSet<_> = listed.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!((listed.len(), &listed_ids), (received.len(), &ids(&received)));
    assert!(listed.iter().all(|one| one["attempts"] == 1 && one["last_status"] == 204));
    let whole = all.owner.shown(&format!("/deliveries/{}", received[0].id())).await;
    assert_eq!(whole["request"]["body"].as_str().unwrap().as_bytes(), received[0].body);
    assert_eq!(whole["history"][0]["status"], 204);
    let log = all.owner.all(&format!("/projects/{}/events?limit=1000", all.project)).await;
    let mut logged: Vec<_> = log.iter().map(|event| event["data"].to_string()).collect();
    let mut told: Vec<_> = told.iter().map(|event| event["data"].to_string()).collect();
    logged.sort();
    told.sort();
    assert_eq!(logged, told);
    all.service.stop().await;
}

// Shows (Webhook event types).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_is_reported_when_all_nodes_of_a_chain_fail_and_when_they_recover() {
    let all = Endpoint::new().await;
    let phases = || -> Vec<_> {
        let health = of_kind(&events(&all.received()), "xrp", "health");
        health.iter().map(|event| event["data"]["data"]["phase"].clone()).collect()
    };
    all.chains.fail("xrp", true);
    // The other chains continue.
    all.chains.clock.advance(WINDOW);
    until_within(2 * TIMEOUT, "the chain is degraded", async || phases() == ["Degraded"]).await;
    let heights = of_kind(&events(&all.received()), "btc", "new_block").len();
    assert!(heights > 10, "{heights}");
    assert!(of_kind(&events(&all.received()), "xrp", "new_block").is_empty());
    all.chains.fail("xrp", false);
    until_within(2 * TIMEOUT, "it is healthy", async || phases() == ["Degraded", "Healthy"]).await;
    all.follow().await;
    all.quiet().await;
    let told = events(&all.received());
    for chain in CHAINS {
        blocks_are_told(chain, &told, START, START.plus(WINDOW));
        assert_eq!(of_kind(&told, chain, "health").is_empty(), chain != "xrp", "{chain}");
    }
    all.service.stop().await;
}

// Shows (Webhooks): Users retry, replay, rotate the secret and delete; a deleted endpoint gets nothing more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_retry_replay_rotate_and_delete() {
    let all = Endpoint::new().await;
    all.chains.clock.advance(WINDOW);
    all.follow().await;
    all.quiet().await;
    let originals = all.received();

    // Every attempt fails until a user requests one more.
    all.receiver.answer(500);
    let id = all.test().await;
    let failed = all.ends(&id, "failed").await;
    assert_eq!((&failed["attempts"], &failed["last_status"]), (&json!(3), &json!(500)));
    all.receiver.answer(200);
    let retried = all.owner.ask("POST", &format!("/deliveries/{id}/retry"), None).await;
    assert_eq!(retried.status, 200, "{retried:?}");
    let history = all.ends(&id, "delivered").await["history"].clone();
    let statuses: Vec<_> = history.as_array().unwrap().iter().map(|one| one["status"].clone()).collect();
    assert_eq!(statuses, [500, 500, 500, 200]);
    let attempts = all.attempts(&id);
    let numbers: Vec<_> = attempts.iter().map(ReceivedDelivery::attempt).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    for attempt in &attempts {
        assert_eq!(attempt.body, attempts[0].body);
        assert_eq!(attempt.header("x-signature"), signed(&all.secret, &attempt.body));
    }

    // A replay sends the same events in other deliveries.
    let range = json!({ "from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z" });
    let replay = all.owner.ask("POST", &all.path("/replay"), Some(&range)).await;
    assert_eq!((replay.status, &replay.json()["deliveries"]), (202, &json!(originals.len())));
    // They are made after the answer.
    let replayed = |one: &ReceivedDelivery| one.header("x-replay") == "true";
    let is_there = async || all.received().iter().filter(|one| replayed(one)).count() >= originals.len();
    until_within(3 * TIMEOUT, "the replay arrives", is_there).await;
    all.quiet().await;
    let mut replayed = all.received();
    replayed.retain(|delivery| delivery.header("x-replay") == "true");
    assert_eq!(bodies(&replayed), bodies(&originals));
    assert_eq!(ids(&replayed).len(), replayed.len());
    assert!(ids(&replayed).is_disjoint(&ids(&all.receiver.received()[..originals.len()])));
    assert!(ids(&replayed).is_disjoint(&ids(&originals)));
    for delivery in &replayed {
        assert_eq!(delivery.header("x-signature"), signed(&all.secret, &delivery.body));
    }

    // Two secrets sign during an overlap; without one only the newest.
    let rotate = async |body: Option<&Value>| {
        let reply = all.owner.ask("POST", &all.path("/secret"), body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["secret"].as_str().unwrap().to_owned()
    };
    let next = rotate(Some(&json!({ "overlap_hours": 1 }))).await;
    let test = all.tested().await;
    assert_eq!(test.header("x-signature"), signed(&all.secret, &test.body));
    assert_eq!(test.header("x-signature-next"), signed(&next, &test.body));
    let newest = rotate(None).await;
    let test = all.tested().await;
    assert_eq!(test.header("x-signature"), signed(&newest, &test.body));
    assert_eq!(test.header("x-signature-next"), "");

    // A deleted endpoint gets nothing, while another one gets the next blocks.
    all.quiet().await;
    let before = all.received().len();
    let others = all.receiver.at("/other").len();
    all.owner.delete(&all.path("")).await;
    assert_eq!(all.owner.ask("GET", &all.path(""), None).await.status, 404);
    all.chains.clock.advance(WINDOW);
    let height = all.chains.height("eth");
    let is_told = || events(&all.receiver.at("/other")).iter().any(|event| height_of(event) == height);
    until("the other endpoint gets new blocks", is_told).await;
    all_delivered(&all.owner, &[&all.other]).await;
    let told = all.receiver.at("/other");
    assert!(told.len() > others + 20, "{}", told.len());
    blocks_are_told("eth", &events(&told), START, all.chains.clock.now());
    assert_eq!(all.received().len(), before, "nothing more");
    all.service.stop().await;
}
