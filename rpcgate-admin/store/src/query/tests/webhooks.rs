//! Tests of webhooks, the log of events, deliveries, and their limits.

use super::*;
use crate::{
    ChainEventFilter, ChainEventId, DELIVERIES_KEPT, DeliveryId, DeliveryStatus, LoggedEvent, MAX_REPLAYED,
    MAX_WAITING, SealedSecrets, SubscriptionId, SweptEvents, Webhook, WebhookChange, WebhookId,
    WebhookSubscription,
};
use rpcgate_core::event::EventType;

pub(super) const WEBHOOK: WebhookId = WebhookId(6);
const DAY: Duration = Duration::from_secs(86_400);

pub(super) fn webhook(id: WebhookId) -> Webhook {
    Webhook {
        id,
        project: PROJECT,
        url: "https://hooks.example/".into(),
        secret: vec![1, 2, 3],
        next_secret: None,
        active: true,
        standard_headers: false,
        failing_since: None,
        disabled_at: None,
        created_at: now(),
        updated_at: now(),
    }
}

fn subscription(id: u128) -> WebhookSubscription {
    WebhookSubscription {
        id: SubscriptionId(id),
        webhook: WEBHOOK,
        chain: "eth".into(),
        kind: EventType::TokenTransfer,
        filter: serde_json::json!({"token": "0xä", "number": 5}).as_object().cloned(),
        confirmations: 12,
        created_at: now(),
    }
}

fn event(id: u128, at: Time) -> LoggedEvent {
    LoggedEvent {
        id: ChainEventId(id),
        chain: "eth".into(),
        kind: EventType::NewBlock,
        block_num: 7,
        block_hash: "0xb7".into(),
        removed: false,
        body: b"{\"data\":{}}".to_vec(),
        created_at: at,
    }
}

/// A store with an endpoint.
async fn listening() -> (TestDatabase, Store, Webhook) {
    let (site, store) = empty().await;
    let webhook = webhook(WEBHOOK);
    store.create_webhook(TENANT, &webhook, now()).await.unwrap();
    (site, store, webhook)
}

/// Returns SQL for a table `n` of the numbers from 1 to `many`.
fn counted(many: u64) -> String {
    format!("WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {many})")
}

/// Adds deliveries of the only event to the only endpoint, made at the times 1, 2, ….
async fn add_deliveries(store: &Store, many: u64, status: DeliveryStatus) {
    let columns = "id, webhook_id, event_id, status, replay, attempts, due_at, created_at";
    let select = format!(
        "SELECT randomblob(16), webhooks.id, chain_events.id, '{status}', false, 0, 0, chain_events.created_at - 100000 + n \
         FROM n, webhooks, chain_events"
    );
    fill(store, &format!("{} INSERT INTO deliveries ({columns}) {select}", counted(many))).await;
}

// Shows (Webhooks).
#[tokio::test]
async fn an_endpoint_and_its_subscriptions_are_those_of_one_tenant() {
    let (_site, store, one) = listening().await;
    assert_eq!(store.webhook(TENANT, WEBHOOK).await.unwrap(), Some(one.clone()));
    assert_eq!(store.webhooks(TENANT, PROJECT).await.unwrap(), std::slice::from_ref(&one));
    let made = subscription(8);
    tells(&store, Change::Project(PROJECT), store.create_subscription(TENANT, &made, now())).await;
    assert_eq!(store.subscription(TENANT, made.id).await.unwrap(), Some(made.clone()));
    assert_eq!(store.subscriptions(TENANT, WEBHOOK, None, 9).await.unwrap(), std::slice::from_ref(&made));

    assert_eq!(store.webhook(OTHER, WEBHOOK).await.unwrap(), None);
    assert!(store.webhooks(OTHER, PROJECT).await.unwrap().is_empty());
    assert_eq!(store.subscription(OTHER, made.id).await.unwrap(), None);
    assert!(store.subscriptions(OTHER, WEBHOOK, None, 9).await.unwrap().is_empty());
    let none = "there is no such webhook";
    let change = WebhookChange { active: Some(false), ..WebhookChange::default() };
    let changed = async { store.update_webhook(OTHER, WEBHOOK, &change, now()).await.map(drop) };
    assert_eq!(refused(&store, changed).await, none);
    assert_eq!(refused(&store, store.delete_webhook(OTHER, WEBHOOK, now())).await, none);
    assert_eq!(refused(&store, store.create_subscription(OTHER, &subscription(9), now())).await, none);
    let foreign = webhook(WebhookId(9));
    let created = store.create_webhook(OTHER, &foreign, now());
    assert_eq!(refused(&store, created).await, "there is no such project");
    let removed = store.delete_subscription(OTHER, made.id, now());
    assert_eq!(refused(&store, removed).await, "there is no such subscription");
    tells(&store, Change::Project(PROJECT), store.delete_subscription(TENANT, made.id, now())).await;
    tells(&store, Change::Project(PROJECT), store.delete_webhook(TENANT, WEBHOOK, now())).await;
}

// Shows (Webhooks): Lists of subscriptions are paged in the database.
#[tokio::test]
async fn pages_of_subscriptions_join_also_among_those_of_one_moment() {
    let (_site, store, _) = listening().await;
    store.set_tier(TENANT, Tier::Enterprise, now()).await.unwrap();
    let mut made = Vec::new();
    for (id, secs) in [(5, 1), (9, 2), (7, 2), (8, 2), (2, 3)] {
        let one = WebhookSubscription { created_at: later(secs), ..subscription(id) };
        store.create_subscription(TENANT, &one, now()).await.unwrap();
        made.push(one);
    }
    made.sort_by_key(|one| (one.created_at, one.id));
    for limit in 1..7 {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let some = store.subscriptions(TENANT, WEBHOOK, after, limit).await.unwrap();
            assert!(some.len() as u64 <= limit);
            let Some(last) = some.last() else { break };
            after = Some((last.created_at, last.id));
            all.extend(some);
        }
        assert_eq!(all, made, "{limit}");
    }
}

// Shows (Webhooks).
#[tokio::test]
async fn secrets_are_replaced_only_as_they_were_read() {
    let (_site, store, read) = listening().await;
    let secrets = SealedSecrets { secret: vec![4], next: Some((vec![5], later(9))) };
    let replaced = store.replace_secrets(TENANT, &read, &secrets, later(1)).await.unwrap();
    let expected = Webhook {
        secret: vec![4],
        next_secret: Some((vec![5], later(9))),
        updated_at: later(1),
        ..read.clone()
    };
    assert_eq!(replaced, expected);
    let late = async { store.replace_secrets(TENANT, &read, &secrets, now()).await.map(drop) };
    assert_eq!(refused(&store, late).await, "the secret was replaced in the meantime: try again");
    assert_eq!(store.webhook(TENANT, WEBHOOK).await.unwrap(), Some(expected));
}

// Shows (Webhooks).
#[tokio::test]
async fn an_endpoint_with_a_new_url_no_longer_counts_as_failing() {
    let (_site, store, _) = listening().await;
    store.mark_disabled(WEBHOOK, now()).await.unwrap();
    let change = async |url: &str| {
        let change = WebhookChange { url: Some(url.into()), ..WebhookChange::default() };
        let changed = store.update_webhook(TENANT, WEBHOOK, &change, now()).await.unwrap();
        (changed.failing_since.is_some(), changed.disabled_at.is_some(), changed.active)
    };
    assert_eq!(change("https://hooks.example/").await, (true, true, false), "it is the same one");
    assert_eq!(change("https://hooks.example/b").await, (false, true, false), "it is still switched off");
}

// Shows (Webhooks).
#[tokio::test]
async fn more_than_ten_thousand_deliveries_are_not_replayed_at_once() {
    let (_site, store, webhook) = listening().await;
    let made = event(10, now());
    store.log_event(&webhook, (DeliveryId(11), DeliveryStatus::Failed), &made).await.unwrap();
    add_deliveries(&store, MAX_REPLAYED - 1, DeliveryStatus::Delivered).await;
    let replay = async || store.replay(TENANT, WEBHOOK, now()..later(1), later(5)).await;
    assert_eq!(replay().await.unwrap(), MAX_REPLAYED);
    store.make_all_replays(later(9)).await;
    assert_eq!(rows(&store, "deliveries WHERE replay AND status = 'pending'").await, MAX_REPLAYED as i64);
    assert_eq!(replay().await.unwrap(), MAX_REPLAYED);
    assert_eq!(MAX_WAITING, 2 * MAX_REPLAYED);
    let text = "at most 20000 deliveries of a webhook may wait: try again when they have been made";
    assert_eq!(replay().await.unwrap_err().to_string(), text);
    let test = store.create_test_delivery(TENANT, WEBHOOK, (DeliveryId(12), &event(13, now())), now()).await;
    assert_eq!(test.unwrap_err().to_string(), text);
    assert_eq!(rows(&store, "chain_events").await, 1, "nothing of the test is stored");
    store.make_all_replays(later(9)).await;
    add_deliveries(&store, 1, DeliveryStatus::Delivered).await;
    let text = "more than 10000 deliveries are in this time: name a shorter one";
    assert!(matches!(replay().await, Err(StoreError::TooWide(why)) if why == text));
    assert_eq!(rows(&store, "deliveries WHERE replay").await, 2 * MAX_REPLAYED as i64);
}

// Shows (Webhooks).
#[tokio::test]
async fn a_replay_looks_for_its_events_before_it_takes_the_lock_of_writes() {
    let (_site, store, webhook) = listening().await;
    let status = DeliveryStatus::Delivered;
    store.log_event(&webhook, (DeliveryId(30), status), &event(40, now())).await.unwrap();
    let statements: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let observed = statements.clone();
    store.database.observe_writes(move |sql| observed.lock().unwrap().push(sql.into()));
    assert_eq!(store.replay(TENANT, WEBHOOK, now()..later(1), later(5)).await.unwrap(), 1);
    store.make_all_replays(later(5)).await;
    let statements = statements.lock().unwrap();
    assert!(statements.iter().any(|sql| sql.starts_with("INSERT INTO \"deliveries\"")), "{statements:?}");
    assert!(statements.iter().all(|sql| !sql.contains("project_events")), "{statements:?}");
}

// Shows (Webhooks).
#[tokio::test]
async fn old_events_are_removed_with_their_deliveries_and_new_ones_stay() {
    let (_site, store, webhook) = listening().await;
    let status = DeliveryStatus::Failed;
    store.log_event(&webhook, (DeliveryId(30), status), &event(40, now())).await.unwrap();
    store.failed_attempt(DeliveryId(30), (Some(500), "x", b"y"), now()).await.unwrap();
    // More of one event than one step removes.
    add_deliveries(&store, 1_200, DeliveryStatus::Pending).await;
    store.log_event(&webhook, (DeliveryId(31), status), &event(41, later(1))).await.unwrap();
    assert_eq!(store.sweep_events(DAY, now()).await.unwrap(), SweptEvents::default());
    let swept = store.sweep_events(DAY, now().plus(DAY)).await.unwrap();
    assert_eq!(swept, SweptEvents { events: 1, deliveries: 1_201, webhooks: 0 });
    assert_eq!(store.delivery(TENANT, DeliveryId(30)).await.unwrap(), None);
    assert!(store.delivery(TENANT, DeliveryId(31)).await.unwrap().is_some());
    for (table, left) in
        [("chain_events", 1), ("project_events", 1), ("deliveries", 1), ("delivery_attempts", 0)]
    {
        assert_eq!(rows(&store, table).await, left, "{table}");
    }
    assert_eq!(store.sweep_events(DAY, now().plus(DAY)).await.unwrap(), SweptEvents::default());
}

// Shows (Webhooks).
#[tokio::test]
async fn the_newest_deliveries_of_an_endpoint_are_kept_and_those_that_wait() {
    let (_site, store, webhook) = listening().await;
    let made = event(40, now());
    store.log_event(&webhook, (DeliveryId(30), DeliveryStatus::Failed), &made).await.unwrap();
    add_deliveries(&store, 700, DeliveryStatus::Pending).await;
    add_deliveries(&store, DELIVERIES_KEPT, DeliveryStatus::Delivered).await;
    let swept = store.sweep_events(DAY, now()).await.unwrap();
    // Those made at the same time as the oldest kept one are kept too.
    assert_eq!(swept, SweptEvents { events: 0, deliveries: 350, webhooks: 0 });
    assert_eq!(rows(&store, "deliveries").await, DELIVERIES_KEPT as i64 + 351);
    assert_eq!(rows(&store, "deliveries WHERE status = 'pending'").await, 700);
    assert!(store.delivery(TENANT, DeliveryId(30)).await.unwrap().is_some(), "the newest one");
    assert_eq!(store.sweep_events(DAY, now()).await.unwrap(), SweptEvents::default());
}

// Shows (Webhooks).
#[tokio::test]
async fn data_of_a_deleted_endpoint_is_removed_in_steps() {
    let (_site, store, webhook) = listening().await;
    store.log_event(&webhook, (DeliveryId(30), DeliveryStatus::Failed), &event(40, now())).await.unwrap();
    add_deliveries(&store, 1_499, DeliveryStatus::Pending).await;
    let columns = "id, webhook_id, chain, event_type, confirmations, created_at";
    let select = "SELECT randomblob(16), id, 'eth', 'health', 0, 1 FROM n, webhooks";
    fill(&store, &format!("{} INSERT INTO subscriptions ({columns}) {select}", counted(1_000))).await;
    store.delete_webhook(TENANT, WEBHOOK, now()).await.unwrap();
    assert_eq!(store.webhook(TENANT, WEBHOOK).await.unwrap(), None);
    assert_eq!(store.delivery(TENANT, DeliveryId(30)).await.unwrap(), None);
    assert_eq!(rows(&store, "webhooks WHERE active").await, 0, "nothing is sent to it until it is removed");
    let swept = store.sweep_events(DAY, now()).await.unwrap();
    assert_eq!(swept, SweptEvents { events: 0, deliveries: 1_500, webhooks: 1 });
    for table in ["webhooks", "subscriptions", "deliveries"] {
        assert_eq!(rows(&store, table).await, 0, "{table}");
    }
    assert_eq!(rows(&store, "project_events").await, 1, "the log is the project's");
}

// Shows (Webhooks).
#[tokio::test]
async fn a_page_of_the_log_looks_at_a_bounded_number_of_entries() {
    let (_site, store, webhook) = listening().await;
    let events =
        "INSERT INTO chain_events (id, chain, event_type, block_num, block_hash, removed, body, created_at)";
    let select = "SELECT randomblob(16), 'eth', 'new_block', n, 'b', false, randomblob(32), n FROM n";
    fill(&store, &format!("{} {events} {select}", counted(30_000))).await;
    let log = "INSERT INTO project_events (project_id, event_id, created_at) \
               SELECT projects.id, chain_events.id, chain_events.created_at FROM chain_events, projects";
    fill(&store, log).await;
    let oldest = LoggedEvent { chain: "btc".into(), ..event(40, Time::from_micros(0)) };
    store.log_event(&webhook, (DeliveryId(30), DeliveryStatus::Failed), &oldest).await.unwrap();
    let filter = ChainEventFilter { chain: Some("btc".into()), ..ChainEventFilter::default() };
    let page = async |before| store.project_events(TENANT, PROJECT, &filter, before, 10).await.unwrap();
    let first = page(None).await;
    assert!(first.events.is_empty() && first.next.is_some(), "{first:?}");
    let second = page(first.next).await;
    assert_eq!((second.events, second.next), (vec![oldest], None));
    let others = ChainEventFilter { chain: Some("eth".into()), ..ChainEventFilter::default() };
    let mut before = None;
    let mut seen = BTreeSet::new();
    loop {
        let page = store.project_events(TENANT, PROJECT, &others, before, 1_000).await.unwrap();
        assert!(page.events.iter().all(|event| seen.insert(event.block_num)), "none is in two pages");
        match page.next {
            Some(next) => before = Some(next),
            None => break,
        }
    }
    assert_eq!(seen.len(), 30_000);
}

// Shows (Webhooks).
#[tokio::test]
async fn a_page_of_the_log_has_a_bounded_size() {
    let (_site, store, webhook) = listening().await;
    for number in 0..150 {
        let large = LoggedEvent { body: vec![b' '; 64 << 10], ..event(1_000 + number, later(number as u64)) };
        let delivery = (DeliveryId(2_000 + number), DeliveryStatus::Failed);
        store.log_event(&webhook, delivery, &large).await.unwrap();
    }
    let all = ChainEventFilter::default();
    let first = store.project_events(TENANT, PROJECT, &all, None, 1_000).await.unwrap();
    assert_eq!(first.events.len(), 100, "a hundred are read at once, which is enough");
    let second = store.project_events(TENANT, PROJECT, &all, first.next, 1_000).await.unwrap();
    assert_eq!((second.events.len(), second.next), (50, None));
}

// Shows (Webhooks): A replay is answered at once and made in steps of 500, each delivery once, by any number of
// programs.
#[tokio::test]
async fn a_replay_is_made_in_steps_of_500_and_sends_what_was_withheld() {
    let (_site, store, webhook) = listening().await;
    let before =
        store.project_events(TENANT, PROJECT, &ChainEventFilter::default(), None, 1_000).await.unwrap();
    let begin = later(0);
    for number in 0..1_201 {
        let status = match number % 3 {
            0 => DeliveryStatus::Withheld,
            1 => DeliveryStatus::Failed,
            _ => DeliveryStatus::Delivered,
        };
        let delivery = (DeliveryId(5_000 + number), status);
        store.log_event(&webhook, delivery, &event(5_000 + number, begin)).await.unwrap();
    }
    let log = async || {
        let all = ChainEventFilter::default();
        store.project_events(TENANT, PROJECT, &all, None, 2_000).await.unwrap().withheld.len()
    };
    assert_eq!((before.withheld.len(), log().await), (0, 401), "the log marks them");
    let range = begin..begin.plus(Duration::from_secs(1));
    let now = begin.plus(Duration::from_secs(5));
    assert_eq!(store.replay(TENANT, webhook.id, range.clone(), now).await.unwrap(), 1_201);
    let made = async || {
        let all = store.deliveries(TENANT, webhook.id, Some(DeliveryStatus::Pending), None, 1_000);
        all.await.unwrap().iter().filter(|one| one.replay).count()
    };
    assert_eq!(made().await, 0, "none is made before the answer");
    let full = store.replay(TENANT, webhook.id, range.clone(), now);
    assert_eq!(full.await.unwrap(), 1_201, "what is not made yet counts, and there is room for both");
    for (steps, number) in [(1, 500), (1, 1_000)] {
        for _ in 0..steps {
            assert!(store.make_replays(now).await.unwrap());
        }
        assert_eq!(made().await, number);
    }
    store.make_all_replays(now).await;
    assert_eq!(rows(&store, "deliveries WHERE replay").await, 2 * 1_201);
    let events = "(SELECT DISTINCT event_id FROM deliveries WHERE replay) AS events";
    assert_eq!(rows(&store, events).await, 1_201);
    assert_eq!(rows(&store, "webhook_replays").await, 0);
    assert_eq!(log().await, 0, "nothing is withheld any more");
    assert_eq!(
        store.replay(TENANT, webhook.id, range, now).await.unwrap(),
        1_201,
        "later replays send them again"
    );
}

// Shows (Webhooks).
#[tokio::test]
async fn two_programs_make_each_delivery_of_a_replay_once() {
    let (_site, store, webhook) = listening().await;
    for number in 0..700 {
        let delivery = (DeliveryId(5_000 + number), DeliveryStatus::Failed);
        store.log_event(&webhook, delivery, &event(5_000 + number, later(0))).await.unwrap();
    }
    let now = later(5);
    assert_eq!(store.replay(TENANT, webhook.id, later(0)..later(1), now).await.unwrap(), 700);
    let all = async || while store.make_replays(now).await.unwrap() {};
    futures_util::future::join_all((0..4).map(|_| all())).await;
    assert_eq!(rows(&store, "deliveries WHERE replay").await, 700);
}

// Shows (Webhooks).
#[tokio::test]
async fn replays_that_are_not_made_yet_count_as_waiting_deliveries() {
    let (_site, store, webhook) = listening().await;
    for number in 0..3 {
        let delivery = (DeliveryId(5_000 + number), DeliveryStatus::Failed);
        store.log_event(&webhook, delivery, &event(5_000 + number, later(0))).await.unwrap();
    }
    let now = later(5);
    let ask = async || store.replay(TENANT, webhook.id, later(0)..later(1), now).await;
    assert_eq!(ask().await.unwrap(), 3);
    fill(&store, &format!("UPDATE webhook_replays SET remaining = {}", MAX_WAITING - 2)).await;
    assert!(matches!(ask().await, Err(StoreError::Full(_))));
    fill(&store, &format!("UPDATE webhook_replays SET remaining = {}", MAX_WAITING - 3)).await;
    assert_eq!(ask().await.unwrap(), 3);
}
