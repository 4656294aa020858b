use super::*;
use crate::query::testing::sample_webhooks::SampleDelivery;
use crate::{
    Followed, MatchedEvent, MatchedSubscription, SubscriptionId, UnfinishedBlock, WatchLease, WatchOutcome,
    WebhookId,
};
use rpcgate_core::event::{BlockRef, ChainEvent, EventType, HealthPhase, IndexedSubscription};

const LEASE: WatchLease<'_> = WatchLease { chain: "eth", watcher: 7, lease: Duration::from_secs(15) };
const SOON: WebhookId = WebhookId(0x51);
const LATER: WebhookId = WebhookId(0x52);
const KEPT: u64 = 4;
const PAUSE: Duration = Duration::from_secs(86_400);

/// A store with two endpoints, and a watcher that holds the lease of a chain.
async fn watched() -> (TestDatabase, Store) {
    let (dir, store) = empty().await;
    store.add_sample_webhook(SOON, PROJECT, now()).await;
    store.add_sample_webhook(LATER, PROJECT, now()).await;
    let claimed = store.claim_chains(7, &["eth"], 9, LEASE.lease, now()).await.unwrap();
    assert_eq!(claimed, ["eth"]);
    (dir, store)
}

fn block(height: u64, hash: &str) -> BlockRef {
    BlockRef::new(height, hash, format!("before {hash}"), 1).with_position("a place")
}

/// Returns events of a block that one endpoint gets at once, and the other after two more blocks.
fn events(block: &BlockRef, count: usize) -> Vec<MatchedEvent> {
    let matched = |webhook: WebhookId, confirmations| MatchedSubscription {
        subscription: SubscriptionId(webhook.0 + 16),
        webhook,
        project: PROJECT,
        confirmations,
        is_delivered: true,
    };
    let event = |number: usize| {
        let event = ChainEvent::new(EventType::ContractEvent).with("number", number);
        let body = event.body("eth", block);
        MatchedEvent { event, body, matched: vec![matched(SOON, 0), matched(LATER, 2)] }
    };
    (0..count).map(event).collect()
}

async fn append(store: &Store, block: &BlockRef, count: usize) {
    let events = events(block, count);
    let done = store.append_block(&LEASE, block, &events, KEPT, now()).await.unwrap();
    assert_eq!(done, WatchOutcome::Done);
}

fn of(deliveries: &[SampleDelivery], webhook: WebhookId) -> BTreeMap<(String, bool, String), usize> {
    let mut counts = BTreeMap::new();
    for one in deliveries.iter().filter(|one| one.webhook == webhook) {
        *counts.entry((one.block_hash.clone(), one.removed, one.status.clone())).or_default() += 1;
    }
    counts
}

fn counted(rows: &[(&str, bool, &str, usize)]) -> BTreeMap<(String, bool, String), usize> {
    let row = |(hash, removed, status, count): &(&str, bool, &str, usize)| {
        (((*hash).to_owned(), *removed, (*status).to_owned()), *count)
    };
    rows.iter().map(row).collect()
}

async fn heights(store: &Store) -> Vec<u64> {
    store.followed("eth").await.unwrap().blocks.iter().map(|block| block.height).collect()
}

// Shows (Webhooks): The events of a block and their deliveries are stored together; a crash between any two steps
// neither repeats nor loses any.
#[tokio::test]
async fn a_block_is_stored_with_its_deliveries_and_waiting_ones_become_due() {
    let (_dir, store) = watched().await;
    for (height, hash) in [(1, "a"), (2, "b"), (3, "c")] {
        append(&store, &block(height, hash), 2).await;
    }
    let all = store.sample_deliveries().await;
    let soon = [("a", false, "pending", 2), ("b", false, "pending", 2), ("c", false, "pending", 2)];
    assert_eq!(of(&all, SOON), counted(&soon));
    let later = [("a", false, "pending", 2), ("b", false, "held", 2), ("c", false, "held", 2)];
    assert_eq!(of(&all, LATER), counted(&later));
    let body = "{\"chain\":\"eth\",\"event_type\":\"contract_event\",\"data\":{\"chain\":\"eth\",";
    assert!(all.iter().all(|one| one.body.starts_with(body)));
    assert_eq!(store.sample_log(PROJECT).await, 6);
    append(&store, &block(3, "c"), 2).await;
    assert_eq!(store.sample_deliveries().await, all, "once is enough");
    let other = store.append_block(&LEASE, &block(3, "x"), &[], KEPT, now()).await;
    assert!(matches!(other, Err(StoreError::WrongState(_))), "{other:?}");
    for height in 4..8 {
        append(&store, &block(height * 10, &height.to_string()), 0).await;
    }
    assert_eq!(heights(&store).await, [40, 50, 60, 70]);
    let followed = store.followed("eth").await.unwrap();
    assert_eq!((followed.blocks[0].clone(), followed.unfinished), (block(40, "4"), None));
    assert_eq!(of(&store.sample_deliveries().await, LATER).len(), 3, "a gap releases as well");
}

// Shows (Webhooks).
#[tokio::test]
async fn an_unfollowed_chain_goes_to_a_willing_watcher_with_less_than_its_share() {
    let (_dir, store) = empty().await;
    let all = ["a", "b", "c", "d"];
    let lease = LEASE.lease;
    let claim = async |watcher, at: Time| store.claim_chains(watcher, &all, 9, lease, at).await.unwrap();
    let surplus = async || store.surplus_chain(7, &all, now()).await.unwrap();
    store.note_watcher(7, &all, lease, now()).await.unwrap();
    assert_eq!((claim(7, now()).await, surplus().await), (all.to_vec(), None));
    store.note_watcher(8, &["a", "b"], lease, now()).await.unwrap();
    assert_eq!(surplus().await, Some("a"));
    store.release_chains(7, &["a", "d"], now()).await.unwrap();
    assert_eq!(claim(7, now()).await, ["b", "c", "d"], "the other one would not follow the last");
    assert_eq!((claim(8, now()).await, surplus().await), (vec!["a"], None));
    store.release_chains(8, &["a"], now()).await.unwrap();
    assert_eq!(claim(7, now()).await, ["b", "c", "d"]);
    store.forget_watcher(8).await.unwrap();
    assert_eq!(claim(7, now()).await, all);
    store.note_watcher(8, &["a"], lease, now()).await.unwrap();
    store.release_chains(7, &["a"], now()).await.unwrap();
    let gone = now().plus(lease);
    store.note_watcher(7, &all, lease, gone).await.unwrap();
    assert_eq!(claim(7, gone).await, all, "it has died");
}

// Shows (Webhooks).
#[tokio::test]
async fn a_takeback_goes_to_receivers_of_the_event_and_waiting_deliveries_are_removed() {
    let (_dir, store) = watched().await;
    for (height, hash) in [(1, "a"), (2, "b"), (3, "c")] {
        append(&store, &block(height, hash), 2).await;
    }
    for hash in ["c", "b", "a"] {
        let height = u64::from(hash.as_bytes()[0] - b'a') + 1;
        let done = store.take_back(&LEASE, &block(height, hash), later(1)).await.unwrap();
        assert_eq!(done, WatchOutcome::Done);
    }
    let all = store.sample_deliveries().await;
    let told = |hash| [(hash, false, "pending", 2), (hash, true, "pending", 2)];
    assert_eq!(of(&all, SOON), counted(&[told("a"), told("b"), told("c")].concat()));
    assert_eq!(of(&all, LATER), counted(&told("a")));
    assert!(all.iter().all(|one| one.removed == one.body.contains(",\"removed\":true}}}")));
    assert_eq!(store.sample_log(PROJECT).await, 12, "the log has them too");
    let followed = store.followed("eth").await.unwrap();
    assert_eq!(followed, Followed { replaced_until: Some(3), ..Followed::default() });
    store.take_back(&LEASE, &block(1, "a"), later(1)).await.map(drop).unwrap();
    append(&store, &block(1, "a"), 2).await;
    append(&store, &block(2, "x"), 0).await;
    assert_eq!(store.followed("eth").await.unwrap().replaced_until, Some(3));
    // It was taken back twice now, and is reported twice.
    store.take_back(&LEASE, &block(2, "x"), later(2)).await.map(drop).unwrap();
    store.take_back(&LEASE, &block(1, "a"), later(2)).await.map(drop).unwrap();
    let twice = [("a", false, "pending", 4), ("a", true, "pending", 4)];
    let all = of(&store.sample_deliveries().await, SOON);
    assert!(counted(&twice).iter().all(|(row, count)| all.get(row) == Some(count)), "{all:?}");
    append(&store, &block(4, "y"), 0).await;
    assert_eq!(store.followed("eth").await.unwrap().replaced_until, None);
}

// Shows (Webhooks).
#[tokio::test]
async fn a_crash_between_any_two_transactions_neither_repeats_nor_loses() {
    let (_dir, store) = watched().await;
    append(&store, &block(1, "a"), 0).await;
    let whole = block(2, "b");
    let events = events(&whole, 5);
    for stop in 0..5 {
        let part = store.append_in_parts(&LEASE, &whole, (&events, 3), KEPT, later(stop as u64), stop);
        part.await.map(drop).unwrap();
        let unfinished = store.followed("eth").await.unwrap().unfinished;
        let expected = (stop > 0 && stop < 4).then(|| UnfinishedBlock::Appending(whole.clone()));
        assert_eq!(unfinished, expected, "{stop}");
    }
    assert_eq!(heights(&store).await, [1, 2]);
    let all = store.sample_deliveries().await;
    assert_eq!(of(&all, SOON), counted(&[("b", false, "pending", 5)]));
    assert_eq!(of(&all, LATER), counted(&[("b", false, "held", 5)]));
    // Two held deliveries, two log entries or two deliveries at once.
    for stop in 0..6 {
        let part = store.take_back_in_parts(&LEASE, &whole, 2, later(9), stop);
        part.await.map(drop).unwrap();
        let unfinished = store.followed("eth").await.unwrap().unfinished;
        let expected = (1..=4).contains(&stop).then(|| UnfinishedBlock::Leaving(whole.clone()));
        assert_eq!(unfinished, expected, "{stop}");
    }
    assert_eq!(store.sample_log(PROJECT).await, 10);
    let all = store.sample_deliveries().await;
    assert_eq!(of(&all, SOON), counted(&[("b", false, "pending", 5), ("b", true, "pending", 5)]));
    assert_eq!(of(&all, LATER), counted(&[]));
    assert_eq!(heights(&store).await, [1]);
}

// Shows (Webhooks).
#[tokio::test]
async fn an_unfinished_lost_block_is_taken_back_up_to_the_delivered_part() {
    let (_dir, store) = watched().await;
    let half = block(2, "b");
    let events = events(&half, 3);
    let part = store.append_in_parts(&LEASE, &half, (&events, 2), KEPT, now(), 2);
    part.await.map(drop).unwrap();
    store.take_back(&LEASE, &half, later(1)).await.map(drop).unwrap();
    let all = store.sample_deliveries().await;
    assert_eq!(of(&all, SOON), counted(&[("b", false, "pending", 2), ("b", true, "pending", 2)]));
}

// Shows (Webhooks).
#[tokio::test]
async fn disabled_endpoints_suspended_tenants_and_full_queues_get_no_deliveries() {
    let (_dir, store) = watched().await;
    store.switch_webhook(LATER, false).await;
    append(&store, &block(1, "a"), 1).await;
    assert_eq!(of(&store.sample_deliveries().await, LATER).len(), 0);
    store.switch_webhook(LATER, true).await;
    store.switch_webhook(SOON, false).await;
    store.take_back(&LEASE, &block(1, "a"), now()).await.map(drop).unwrap();
    let all = store.sample_deliveries().await;
    assert_eq!(of(&all, SOON), counted(&[("a", false, "pending", 1)]));
    store.switch_webhook(SOON, true).await;
    let second = block(1, "b");
    let mut full = events(&second, 1);
    full[0].matched[0].is_delivered = false;
    store.append_block(&LEASE, &second, &full, KEPT, now()).await.map(drop).unwrap();
    let withheld = counted(&[("a", false, "pending", 1), ("b", false, "withheld", 1)]);
    assert_eq!(of(&store.sample_deliveries().await, SOON), withheld);
    assert_eq!(store.withheld_webhooks(PAUSE, 9).await.unwrap(), [SOON]);
    store.take_back(&LEASE, &second, now()).await.map(drop).unwrap();
    let taken_back = [("a", false, "pending", 1), ("b", false, "withheld", 1), ("b", true, "withheld", 1)];
    assert_eq!(of(&store.sample_deliveries().await, SOON), counted(&taken_back), "a replay sends both");
    let logged = store.sample_log(PROJECT).await;
    store.suspend(TENANT, now()).await.unwrap();
    append(&store, &block(1, "c"), 1).await;
    assert_eq!(store.sample_log(PROJECT).await, logged);
}

// Shows (Webhooks): One watcher follows a chain; another continues when its lease expires.
#[tokio::test]
async fn a_watcher_writes_only_with_the_lease() {
    let (_dir, store) = watched().await;
    append(&store, &block(1, "a"), 1).await;
    assert_eq!(store.claim_chains(8, &["eth"], 9, LEASE.lease, later(14)).await.unwrap(), [""; 0]);
    assert_eq!(
        store.claim_chains(7, &["eth", "btc", "ltc"], 1, LEASE.lease, later(14)).await.unwrap(),
        ["eth", "btc"]
    );
    assert_eq!(store.claim_chains(8, &["eth", "btc"], 1, LEASE.lease, later(28)).await.unwrap(), [""; 0]);
    assert_eq!(store.claim_chains(8, &["eth", "btc"], 1, LEASE.lease, later(29)).await.unwrap(), ["eth"]);
    let second = block(2, "b");
    let lost = [
        store.append_block(&LEASE, &second, &events(&second, 1), KEPT, later(30)).await.unwrap(),
        store.take_back(&LEASE, &block(1, "a"), later(30)).await.unwrap(),
        store.forget_followed(&LEASE, later(30)).await.unwrap(),
        store.report_phase(&LEASE, HealthPhase::Degraded, &second, &[], later(30)).await.unwrap(),
    ];
    assert_eq!(lost, [WatchOutcome::LeaseLost; 4]);
    assert_eq!((heights(&store).await, store.reported_phase("eth").await.unwrap()), (vec![1], None));
    let mine = WatchLease { watcher: 8, ..LEASE };
    store.release_chains(7, &["eth"], later(31)).await.unwrap();
    assert_eq!(store.append_block(&mine, &second, &[], KEPT, later(90)).await.unwrap(), WatchOutcome::Done);
    store.release_chains(8, &["eth"], later(91)).await.unwrap();
    assert_eq!(store.claim_chains(7, &["eth"], 1, LEASE.lease, later(91)).await.unwrap(), ["eth"]);
}

// Shows (Webhooks).
#[tokio::test]
async fn a_chain_is_forgotten_with_what_waited() {
    let (_dir, store) = watched().await;
    append(&store, &block(1, "a"), 2).await;
    assert_eq!(store.followed_chains().await.unwrap(), ["eth"]);
    store.forget_followed(&LEASE, now()).await.map(drop).unwrap();
    assert_eq!(store.followed("eth").await.unwrap(), Followed::default());
    let all = store.sample_deliveries().await;
    assert_eq!((of(&all, SOON).len(), of(&all, LATER).len()), (1, 0));
    assert!(store.followed_chains().await.unwrap().is_empty());
}

// Shows (Webhooks).
#[tokio::test]
async fn the_reported_phase_is_stored_with_its_deliveries() {
    let (_dir, store) = watched().await;
    let last = block(9, "i");
    append(&store, &last, 0).await;
    let mut events = events(&last, 1);
    events[0].event.kind = EventType::Health;
    events[0].matched.truncate(1);
    assert_eq!(store.reported_phase("eth").await.unwrap(), None);
    let told = store.report_phase(&LEASE, HealthPhase::Degraded, &last, &events, now()).await.unwrap();
    assert_eq!(
        (told, store.reported_phase("eth").await.unwrap()),
        (WatchOutcome::Done, Some(HealthPhase::Degraded))
    );
    store.take_back(&LEASE, &last, later(1)).await.map(drop).unwrap();
    let all = store.sample_deliveries().await;
    assert_eq!(of(&all, SOON), counted(&[("i", false, "pending", 1)]), "health is not taken back");
}

#[tokio::test]
async fn watchers_load_the_subscriptions_of_active_endpoints_page_by_page() {
    let (_dir, store) = watched().await;
    let filter = serde_json::from_str(r#"{"address": "0xA1", "value": 5}"#).unwrap();
    let mut all = Vec::new();
    for id in 1..=5_u128 {
        let webhook = if id == 3 { LATER } else { SOON };
        let one = IndexedSubscription::new(id, "eth", EventType::TokenTransfer)
            .of_webhook(webhook.0, PROJECT.0)
            .with_confirmations(id as u32);
        let one = if id % 2 == 0 { one } else { one.with_filter(serde_json::Map::clone(&filter)) };
        store.add_sample_subscription(&one, now()).await;
        all.push(one);
    }
    let page = |after: Option<u128>| store.indexed_subscriptions(None, after.map(SubscriptionId), 2);
    assert_eq!(page(None).await.unwrap(), all[..2]);
    assert_eq!(page(Some(2)).await.unwrap(), all[2..4]);
    assert_eq!(page(Some(4)).await.unwrap(), all[4..]);
    store.switch_webhook(LATER, false).await;
    assert_eq!(page(Some(2)).await.unwrap(), [all[3].clone(), all[4].clone()]);
    assert_eq!(store.indexed_subscriptions(Some(PROJECT), None, 9).await.unwrap().len(), 4);
    assert!(store.indexed_subscriptions(Some(ProjectId(99)), None, 9).await.unwrap().is_empty());
    assert_eq!(store.projects_with_webhooks(TENANT).await.unwrap(), [PROJECT]);
    assert!(store.projects_with_webhooks(OTHER).await.unwrap().is_empty());
    store.suspend(TENANT, now()).await.unwrap();
    assert!(page(None).await.unwrap().is_empty());
}

#[tokio::test]
async fn deliveries_that_wait_are_counted_by_endpoint() {
    let (_dir, store) = watched().await;
    append(&store, &block(1, "a"), 3).await;
    let waiting = store.waiting_deliveries(&[SOON, LATER, WebhookId(1)]).await.unwrap();
    assert_eq!(waiting.into_iter().collect::<BTreeMap<_, _>>(), BTreeMap::from([(SOON, 3), (LATER, 3)]));
}
