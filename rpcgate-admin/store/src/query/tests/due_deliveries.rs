use super::*;
use crate::query::testing::seeded_deliveries::webhook;
use crate::{
    AfterAttempt, ClaimCapacity, DeliveryId, DueDelivery, EndedAttempt, FailingEndpoint, ReleasedDelivery,
    TenantCapacity, TenantChange, WebhookId,
};
use std::collections::HashMap;

const LEASE: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_secs(86_400);

fn room(each: usize, listed: &[(u128, usize)]) -> ClaimCapacity {
    let listed = listed.iter().map(|(id, room)| (WebhookId(*id), *room)).collect();
    ClaimCapacity { listed, ..ClaimCapacity::for_each(each) }
}

/// A store with endpoints that have these numbers.
async fn with_endpoints(numbers: &[u128]) -> (TestDatabase, Store) {
    let (dir, store) = empty().await;
    store.set_tier(TENANT, Tier::Enterprise, now()).await.unwrap();
    for number in numbers {
        let made = webhook(*number, PROJECT, &format!("https://{number}.example/"), now());
        store.create_webhook(TENANT, &made, now()).await.unwrap();
    }
    (dir, store)
}

async fn due(store: &Store, webhook: u128, ids: std::ops::Range<u128>, at: Time) {
    let all: Vec<_> = ids.map(|id| (WebhookId(webhook), DeliveryId(id))).collect();
    store.seed_deliveries(format!("body of {webhook}").as_bytes(), &all, at).await;
}

async fn claim(store: &Store, most: usize, room: &ClaimCapacity, at: Time) -> Vec<u128> {
    let claimed = store.claim_deliveries(most, room, LEASE, at).await.unwrap();
    claimed.iter().map(|delivery| delivery.id.0).collect()
}

fn ended(delivery: u128, webhook: u128, number: u32, then: AfterAttempt) -> EndedAttempt {
    let is_success = then == AfterAttempt::Delivered;
    EndedAttempt {
        delivery: DeliveryId(delivery),
        webhook: WebhookId(webhook),
        number,
        started_at: now(),
        took: Duration::from_millis(7),
        status: Some(if is_success { 204 } else { 500 }),
        error: (!is_success).then(|| "the receiver answers 500".into()),
        answer: None,
        gone_url: None,
        then,
    }
}

// Shows (Webhooks).
#[tokio::test]
async fn a_delivery_is_claimed_when_it_is_due_and_again_when_the_lease_is_over() {
    let (_dir, store) = with_endpoints(&[1]).await;
    due(&store, 1, 1..4, later(10)).await;
    assert_eq!(claim(&store, 9, &room(9, &[]), later(9)).await, [0; 0], "none is due");
    let claimed = store.claim_deliveries(2, &room(9, &[]), LEASE, later(10)).await.unwrap();
    let DueDelivery { id, webhook, body, replay, attempts, leased_until, created_at, .. } =
        claimed[0].clone();
    assert_eq!((id.0, webhook.url.as_str(), &body[..]), (1, "https://1.example/", &b"body of 1"[..]));
    assert_eq!((replay, attempts, leased_until, created_at), (false, 0, later(40), later(10)));
    assert_eq!(claim(&store, 9, &room(9, &[]), later(10)).await, [3]);
    assert_eq!(claim(&store, 9, &room(9, &[]), later(39)).await, [0; 0], "all are leased");
    assert_eq!(store.stored_delivery(DeliveryId(1)).await.status, "pending");
    assert_eq!(claim(&store, 9, &room(9, &[]), later(40)).await, [1, 2, 3]);
    let released = |secs| ReleasedDelivery { leased_until: later(secs), ..(&claimed[1]).into() };
    store.release_deliveries(&[released(40)]).await.unwrap();
    assert_eq!(claim(&store, 9, &room(9, &[]), later(41)).await, [0; 0], "another one has it by now");
    store.release_deliveries(&[released(70)]).await.unwrap();
    assert_eq!(claim(&store, 9, &room(9, &[]), later(41)).await, [2]);
}

// Shows (Webhooks).
#[tokio::test]
async fn a_returned_delivery_stays_ahead_of_newer_ones() {
    let (_dir, store) = with_endpoints(&[1]).await;
    due(&store, 1, 1..3, later(1)).await;
    due(&store, 1, 3..4, later(2)).await;
    let claimed = store.claim_deliveries(3, &room(9, &[]), LEASE, later(5)).await.unwrap();
    due(&store, 1, 4..9, later(3)).await;
    let released: Vec<_> = claimed.iter().map(ReleasedDelivery::from).collect();
    store.release_deliveries(&released[1..]).await.unwrap();
    assert_eq!(store.stored_delivery(DeliveryId(2)).await.due_at, later(1));
    assert_eq!(store.stored_delivery(DeliveryId(3)).await.due_at, later(2));
    assert_eq!(claim(&store, 3, &room(9, &[]), later(6)).await, [2, 3, 4]);
    store.release_deliveries(&[]).await.unwrap();
}

// Shows (Webhooks).
#[tokio::test]
async fn an_endpoint_stays_within_its_capacity_and_a_disabled_one_gets_nothing() {
    let (_dir, store) = with_endpoints(&[1, 2, 3]).await;
    for webhook in 1..=3 {
        due(&store, webhook, webhook * 10..webhook * 10 + 5, later(webhook as u64)).await;
    }
    store.switch_webhook(WebhookId(3), false).await;
    let mut claimed = claim(&store, 100, &room(2, &[(1, 0)]), later(10)).await;
    claimed.sort_unstable();
    assert_eq!(claimed, [20, 21]);
    assert_eq!(claim(&store, 100, &room(0, &[(1, 3)]), later(10)).await.len(), 3);
}

// Shows (Webhooks).
#[tokio::test]
async fn the_backlog_of_a_disabled_or_full_endpoint_hides_no_other() {
    let (_dir, store) = with_endpoints(&[1, 2, 3]).await;
    due(&store, 1, 1_000..3_000, later(1)).await;
    due(&store, 2, 5_000..5_003, later(2)).await;
    due(&store, 3, 6_000..6_003, later(60)).await;
    let without = room(2, &[(1, 0)]);
    let mut claimed = claim(&store, 10, &without, later(10)).await;
    claimed.sort_unstable();
    assert_eq!(claimed, [5_000, 5_001]);
    store.switch_webhook(WebhookId(1), false).await;
    assert_eq!(claim(&store, 10, &room(2, &[]), later(10)).await, [5_002]);
    assert_eq!(claim(&store, 10, &room(2, &[]), later(60)).await.len(), 4, "two of each that is on");
    store.switch_webhook(WebhookId(1), true).await;
    assert_eq!(claim(&store, 10, &room(100, &[]), later(60)).await.len(), 10);
}

// Shows (Webhooks): A claim of deliveries costs in proportion to the due deliveries, not to those that wait for a later
// time.
#[tokio::test]
async fn work_for_a_later_time_joins_the_queue_when_it_is_due() {
    let (_dir, store) = with_endpoints(&[1, 2]).await;
    due(&store, 1, 1..5, later(1)).await;
    due(&store, 2, 11..13, later(1)).await;
    let in_line = async || rows(&store, "deliveries WHERE ready").await;
    assert_eq!((claim(&store, 9, &room(3, &[]), later(2)).await.len(), in_line().await), (5, 1));
    let ends = [
        ended(1, 1, 1, AfterAttempt::Again(later(60))),
        ended(2, 1, 1, AfterAttempt::Failed),
        ended(11, 2, 1, AfterAttempt::Again(later(50))),
    ];
    store.finish_attempts(&ends, later(3)).await.unwrap();
    assert_eq!(claim(&store, 9, &room(9, &[]), later(4)).await, [4]);
    assert_eq!(claim(&store, 9, &room(9, &[]), later(31)).await, [0; 0]);
    assert_eq!(in_line().await, 0, "all are claimed or wait");
    assert_eq!(store.oldest_due_delivery(later(50)).await.unwrap(), Some(later(32)));
    // The leases of 3, 4 and 12 are over, 11 and 1 are retried.
    assert_eq!(claim(&store, 9, &room(0, &[(2, 9)]), later(60)).await, [12, 11]);
    assert_eq!(in_line().await, 3, "those of the endpoint without room");
    let mut rest = claim(&store, 9, &room(9, &[]), later(60)).await;
    rest.sort_unstable();
    assert_eq!(rest, [1, 3, 4]);
}

// Shows (Webhooks).
#[tokio::test]
async fn work_due_beyond_one_claim_is_claimed_by_the_next_ones() {
    let (_dir, store) = with_endpoints(&[1, 2]).await;
    due(&store, 1, 1_000..6_000, later(1)).await;
    due(&store, 2, 1..4, later(2)).await;
    store.execute("UPDATE deliveries SET ready = false").await;
    let mut claimed = Vec::new();
    for _ in 0..3 {
        claimed.extend(claim(&store, 9, &room(9, &[(1, 0)]), later(3)).await);
    }
    claimed.sort_unstable();
    assert_eq!(claimed, [1, 2, 3]);
}

// Shows (Webhooks).
#[tokio::test]
async fn a_project_stays_within_its_capacity_and_hides_no_other_project() {
    let numbers: Vec<_> = (10..30).collect();
    let (_dir, store) = with_endpoints(&numbers).await;
    let second = ProjectId(77);
    store.create_project(&project(second)).await.unwrap();
    let other = webhook(1, second, "https://other.example/", now());
    store.create_webhook(TENANT, &other, now()).await.unwrap();
    for number in numbers {
        due(&store, number, number * 10..number * 10 + 5, later(1)).await;
    }
    due(&store, 1, 1..4, later(2)).await;
    let of_first = |most| {
        let each_tenant = TenantCapacity { projects: [(PROJECT, most)].into(), ..room(3, &[]).each_tenant };
        ClaimCapacity { each_tenant, ..room(3, &[]) }
    };
    // The first project alone has more due deliveries than a claim looks at.
    let mut claimed = claim(&store, 20, &of_first(5), later(10)).await;
    claimed.sort_unstable();
    assert_eq!((claimed.len(), &claimed[..3]), (8, &[1, 2, 3][..]));
    assert_eq!(claim(&store, 20, &of_first(0), later(10)).await, [0; 0]);
    assert_eq!(claim(&store, 20, &of_first(40), later(10)).await.len(), 20);
}

// Shows (Webhooks).
#[tokio::test]
async fn a_tenant_stays_within_its_capacity_and_hides_no_other_tenant() {
    let (_dir, store) = with_endpoints(&[]).await;
    for number in 10..30 {
        let own = ProjectId(number);
        store.create_project(&project(own)).await.unwrap();
        let made = webhook(number, own, "https://first.example/", now());
        store.create_webhook(TENANT, &made, now()).await.unwrap();
        due(&store, number, number * 10..number * 10 + 5, later(1)).await;
    }
    let foreign = ProjectId(77);
    store.create_project(&Project { tenant: OTHER, ..project(foreign) }).await.unwrap();
    store.create_webhook(OTHER, &webhook(1, foreign, "https://other.example/", now()), now()).await.unwrap();
    due(&store, 1, 1..4, later(2)).await;
    let of_first = |all| {
        let first = TenantCapacity { all, each_project: 2, projects: HashMap::new() };
        ClaimCapacity { tenants: [(TENANT, first)].into(), ..room(3, &[]) }
    };
    // The first tenant alone has more due deliveries than a claim looks at.
    let mut claimed = claim(&store, 20, &of_first(5), later(10)).await;
    claimed.sort_unstable();
    assert_eq!((claimed.len(), &claimed[..3]), (8, &[1, 2, 3][..]));
    assert_eq!(claim(&store, 20, &of_first(0), later(10)).await, [0; 0]);
    let some = store.claim_deliveries(99, &of_first(99), LEASE, later(10)).await.unwrap();
    assert_eq!(some.len(), 40, "two of each project");
    assert!(some.iter().all(|delivery| delivery.tenant == TENANT));
}

// Shows (Webhooks).
#[tokio::test]
async fn a_claim_reads_no_more_body_bytes_than_the_capacity() {
    let (_dir, store) = with_endpoints(&[1, 2]).await;
    for (first, size) in [(1, 60), (11, 50), (21, 40), (31, 500)] {
        let all: Vec<_> =
            [(1, first), (2, first + 1)].map(|(webhook, id)| (WebhookId(webhook), DeliveryId(id))).into();
        store.seed_deliveries(&vec![b'x'; size], &all, later(first as u64)).await;
    }
    let claimed = async |bytes| {
        let within = ClaimCapacity { bytes, ..room(9, &[]) };
        claim(&store, 99, &within, later(100)).await
    };
    assert_eq!(claimed(100).await, [1, 2, 21, 22], "the body of two deliveries counts once");
    assert_eq!(claimed(49).await, [11, 12], "one is always read, or it would wait for ever");
    assert_eq!(claimed(0).await, [31, 32]);
    assert_eq!(claimed(100).await, [0; 0]);
}

// Shows (Webhooks).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_delivery_goes_to_one_of_parallel_dispatchers() {
    let (site, store) = with_endpoints(&[1, 2]).await;
    let second = site.store_within(Duration::from_secs(60)).await.unwrap();
    due(&store, 1, 0..300, later(1)).await;
    due(&store, 2, 300..600, later(1)).await;
    let last = store.clone();
    let claims = at_once(12, move |number| {
        let store = if number % 2 == 0 { store.clone() } else { second.clone() };
        async move {
            let mut got = Vec::new();
            loop {
                let some = claim(&store, 20, &room(15, &[]), later(2)).await;
                if some.is_empty() {
                    return got;
                }
                got.extend(some);
            }
        }
    })
    .await;
    let mut all: Vec<_> = claims.into_iter().flatten().collect();
    // A claim that met only locked rows has stopped before the end.
    loop {
        let some = claim(&last, 20, &room(15, &[]), later(2)).await;
        if some.is_empty() {
            break;
        }
        all.extend(some);
    }
    all.sort_unstable();
    assert_eq!(all, (0..600).collect::<Vec<_>>());
}

// Shows (Webhooks).
#[tokio::test]
async fn ends_of_attempts_are_marked_once_and_together() {
    let (_dir, store) = with_endpoints(&[1]).await;
    due(&store, 1, 1..5, later(1)).await;
    assert_eq!(claim(&store, 9, &room(9, &[]), later(1)).await.len(), 4);
    let ends = [
        ended(1, 1, 1, AfterAttempt::Delivered),
        EndedAttempt { answer: Some(b"no".to_vec()), ..ended(2, 1, 1, AfterAttempt::Again(later(9))) },
        ended(3, 1, 1, AfterAttempt::Failed),
        ended(77, 1, 1, AfterAttempt::Delivered),
    ];
    for _ in 0..2 {
        store.finish_attempts(&ends, later(2)).await.unwrap();
        let delivered = store.stored_delivery(DeliveryId(1)).await;
        assert_eq!(
            (delivered.status.as_str(), delivered.attempts, delivered.last_status),
            ("delivered", 1, Some(204))
        );
        assert_eq!(delivered.ended, [(1, Some(204), None, None)]);
        assert!(delivered.is_finished && delivered.last_error.is_none());
        let again = store.stored_delivery(DeliveryId(2)).await;
        assert_eq!((again.status.as_str(), again.due_at, again.attempts), ("pending", later(9), 1));
        assert_eq!(again.last_error.as_deref(), Some("the receiver answers 500"));
        assert_eq!(again.ended[0].3.as_deref(), Some(&b"no"[..]));
        let failed = store.stored_delivery(DeliveryId(3)).await;
        assert_eq!(
            (failed.status.as_str(), failed.is_finished, failed.last_status),
            ("failed", true, Some(500))
        );
    }
    assert_eq!(claim(&store, 9, &room(9, &[]), later(9)).await, [2]);
    store.finish_attempts(&[ended(2, 1, 1, AfterAttempt::Failed)], later(10)).await.unwrap();
    assert_eq!(store.stored_delivery(DeliveryId(2)).await.status, "pending", "this attempt has ended before");
}

// Shows (Webhooks).
#[tokio::test]
async fn a_late_attempt_end_resets_nothing_and_a_late_acknowledgement_still_counts() {
    let (_dir, store) = with_endpoints(&[1]).await;
    due(&store, 1, 1..4, later(1)).await;
    let again = |secs| AfterAttempt::Again(later(secs));
    for id in 1..4 {
        for number in 1..=3 {
            store.finish_attempts(&[ended(id, 1, number, again(50))], later(2)).await.unwrap();
        }
    }
    // Returns the end of an attempt by a dispatcher that was considered dead.
    let late = |id, number, then| EndedAttempt { started_at: later(0), ..ended(id, 1, number, then) };
    let late = |id, number, then| EndedAttempt { took: Duration::from_secs(9), ..late(id, number, then) };
    let ends = [late(1, 1, again(5)), late(2, 3, AfterAttempt::Failed), late(3, 2, AfterAttempt::Delivered)];
    for _ in 0..2 {
        store.finish_attempts(&ends, later(60)).await.unwrap();
        for (id, status, attempts, kept) in [
            (1, "pending", 3, [500, 500, 500, 500]),
            (2, "pending", 3, [500, 500, 500, 500]),
            (3, "delivered", 4, [500, 500, 500, 204]),
        ] {
            let stored = store.stored_delivery(DeliveryId(id)).await;
            assert_eq!((stored.status.as_str(), stored.attempts), (status, attempts), "{id}");
            let rows: Vec<_> = stored.ended.iter().map(|one| (one.0, one.1.unwrap())).collect();
            assert_eq!(rows, (1..).zip(kept).collect::<Vec<(i16, i16)>>());
        }
        assert_eq!(store.stored_delivery(DeliveryId(1)).await.due_at, later(50));
    }
    // The next attempt has the next number, which the row of the late one has taken.
    store.finish_attempts(&[ended(1, 1, 4, again(99))], later(61)).await.unwrap();
    let stored = store.stored_delivery(DeliveryId(1)).await;
    assert_eq!((stored.attempts, stored.due_at, stored.ended.len()), (5, later(99), 5));
    let other = EndedAttempt { started_at: later(7), ..late(3, 3, AfterAttempt::Failed) };
    store.finish_attempts(&[other], later(62)).await.unwrap();
    let stored = store.stored_delivery(DeliveryId(3)).await;
    assert_eq!((stored.status.as_str(), stored.attempts), ("delivered", 4), "no failure takes it back");
}

#[tokio::test]
async fn an_endpoint_fails_from_its_first_failure_until_a_success() {
    let (_dir, store) = with_endpoints(&[1, 2]).await;
    due(&store, 1, 1..9, later(1)).await;
    let again = AfterAttempt::Again(later(99));
    let turns = store.finish_attempts(&[ended(1, 1, 1, again)], later(2)).await.unwrap();
    assert_eq!(
        turns.failing,
        [FailingEndpoint { webhook: WebhookId(1), since: later(2), has_given_up: false }]
    );
    let turns = store.finish_attempts(&[ended(1, 1, 2, AfterAttempt::Failed)], later(3)).await.unwrap();
    let failing = |since, has_given_up| FailingEndpoint { webhook: WebhookId(1), since, has_given_up };
    assert_eq!(turns.failing, [failing(later(2), true)]);
    assert_eq!(store.any_webhook(WebhookId(1)).await.failing_since, Some(later(2)));
    let both = [ended(2, 1, 1, AfterAttempt::Failed), ended(3, 1, 1, AfterAttempt::Delivered)];
    let turns = store.finish_attempts(&both, later(4)).await.unwrap();
    assert_eq!((turns.failing, turns.recovered), (Vec::new(), vec![WebhookId(1)]), "the last one counts");
    assert_eq!(store.any_webhook(WebhookId(1)).await.failing_since, None);
    let turns = store.finish_attempts(&[ended(4, 1, 1, AfterAttempt::Delivered)], later(5)).await.unwrap();
    assert!(turns.recovered.is_empty());
    assert_eq!(store.any_webhook(WebhookId(2)).await.failing_since, None);
}

// Shows (Webhooks).
#[tokio::test]
async fn users_are_notified_of_an_endpoint_once_a_day_by_one_dispatcher() {
    let (_dir, store) = with_endpoints(&[1]).await;
    let one = WebhookId(1);
    assert_eq!(
        store.notify_of_recovered(one, DAY, later(1)).await.unwrap(),
        None,
        "no answer reported its failure"
    );
    let told = Some((TENANT, "https://1.example/".to_owned()));
    assert_eq!(store.notify_of_failing(one, DAY, later(2)).await.unwrap(), told);
    assert_eq!(store.notify_of_failing(one, DAY, later(86_401)).await.unwrap(), None);
    assert_eq!(store.notify_of_recovered(one, DAY, later(3)).await.unwrap(), told);
    assert_eq!(store.notify_of_recovered(one, DAY, later(4)).await.unwrap(), None);
    assert_eq!(store.notify_of_failing(one, DAY, later(86_402)).await.unwrap(), told);
    assert_eq!(
        store.notify_of_recovered(one, DAY, later(86_402)).await.unwrap(),
        None,
        "within a day of the last time"
    );
    assert_eq!(store.notify_of_recovered(one, DAY, later(86_403)).await.unwrap(), told);
    assert_eq!(store.notify_of_failing(WebhookId(9), DAY, later(2)).await.unwrap(), None);
    store.delete_webhook(TENANT, one, later(86_404)).await.unwrap();
    assert_eq!(
        store.notify_of_failing(one, DAY, later(300_000)).await.unwrap(),
        None,
        "no dispatcher holds it any more"
    );
}

// Shows (Webhooks).
#[tokio::test]
async fn an_endpoint_that_fails_for_long_is_switched_off_and_watchers_learn_of_it() {
    let (_dir, store) = with_endpoints(&[1, 2]).await;
    due(&store, 1, 1..3, later(1)).await;
    store.finish_attempts(&[ended(1, 1, 1, AfterAttempt::Failed)], later(5)).await.unwrap();
    assert_eq!(
        store.disable_webhook(WebhookId(1), later(4), later(9)).await.unwrap(),
        None,
        "not since then"
    );
    assert_eq!(
        store.disable_webhook(WebhookId(2), later(9), later(9)).await.unwrap(),
        None,
        "it does not fail"
    );
    let before = store.newest_change().await.unwrap();
    let done = store.disable_webhook(WebhookId(1), later(5), later(9)).await.unwrap();
    assert_eq!(done, Some((TENANT, "https://1.example/".to_owned())));
    assert_eq!(feed(&store, before).await, [Change::Project(PROJECT)]);
    let off = store.any_webhook(WebhookId(1)).await;
    assert_eq!((off.active, off.disabled_at), (false, Some(later(9))));
    assert_eq!(store.disable_webhook(WebhookId(1), later(5), later(10)).await.unwrap(), None);
    assert_eq!(claim(&store, 9, &room(9, &[]), later(9)).await, [0; 0]);
}

// Shows (Webhooks).
#[tokio::test]
async fn deliveries_wait_for_an_endpoint_that_is_off_for_a_day() {
    let (_dir, store) = with_endpoints(&[1, 2]).await;
    due(&store, 1, 1..4, later(1)).await;
    due(&store, 1, 4..6, later(100)).await;
    due(&store, 2, 6..8, later(1)).await;
    store.switch_webhook(WebhookId(1), false).await;
    let give_up = |most, at| store.give_up_waiting_deliveries(later(50), "too late", most, at);
    assert_eq!(give_up(2, later(200)).await.unwrap(), 2);
    assert_eq!(give_up(2, later(200)).await.unwrap(), 1);
    assert_eq!(give_up(2, later(200)).await.unwrap(), 0);
    let mut found = HashMap::new();
    for id in 1..8 {
        let delivery = store.stored_delivery(DeliveryId(id)).await;
        found.entry((delivery.status, delivery.last_error)).or_insert_with(Vec::new).push(id);
    }
    assert_eq!(found[&("failed".into(), Some("too late".into()))], [1, 2, 3]);
    assert_eq!(found[&("pending".into(), None)], [4, 5, 6, 7]);
    assert_eq!(store.oldest_due_delivery(later(200)).await.unwrap(), Some(later(1)));
    assert_eq!(store.oldest_due_delivery(now()).await.unwrap(), None);
}

// Shows (Webhooks).
#[tokio::test]
async fn old_deliveries_are_found_next_to_any_number_of_disabled_endpoints() {
    let (_dir, store) = with_endpoints(&[]).await;
    for number in 0..600 {
        let own = ProjectId(1_000 + number / 200);
        if number % 200 == 0 {
            store.create_project(&project(own)).await.unwrap();
        }
        store
            .create_webhook(TENANT, &webhook(number, own, "https://x.example/", now()), now())
            .await
            .unwrap();
    }
    store.execute("UPDATE webhooks SET active = false").await;
    for number in [2, 520, 599] {
        due(&store, number, number * 10..number * 10 + 3, later(1)).await;
    }
    let give_up = |most, at| store.give_up_waiting_deliveries(later(50), "too late", most, at);
    assert_eq!(give_up(5, later(200)).await.unwrap(), 5);
    assert_eq!(give_up(5, later(200)).await.unwrap(), 4);
    assert_eq!(give_up(5, later(200)).await.unwrap(), 0);
}

// Shows (Webhooks): While a tenant is suspended its deliveries are not sent; they wait for a day.
#[tokio::test]
async fn while_a_tenant_is_suspended_its_deliveries_wait_for_a_day() {
    let (_dir, store) = with_endpoints(&[1, 2]).await;
    let foreign = ProjectId(77);
    store.create_project(&Project { tenant: OTHER, ..project(foreign) }).await.unwrap();
    store.create_webhook(OTHER, &webhook(3, foreign, "https://3.example/", now()), now()).await.unwrap();
    due(&store, 1, 100..140, later(1)).await;
    due(&store, 2, 200..202, later(100)).await;
    due(&store, 3, 300..302, later(2)).await;
    assert_eq!(claim(&store, 1, &room(9, &[]), later(10)).await.len(), 1);
    store.suspend(TENANT, later(11)).await.unwrap();
    // The longest due deliveries, all that a claim of this size looks at, belong to the suspended one.
    let mut claimed = claim(&store, 4, &room(9, &[]), later(100)).await;
    claimed.sort_unstable();
    assert_eq!(claimed, [300, 301]);
    assert_eq!(claim(&store, 99, &room(99, &[]), later(100)).await, [0; 0]);
    let give_up = |at| store.give_up_waiting_deliveries(later(50), "too late", 999, at);
    assert_eq!(give_up(later(110)).await.unwrap(), 40, "its old ones, and of the other tenant none");
    let change = TenantChange { suspended: Some(false), ..TenantChange::default() };
    store.update_tenant(TENANT, &change, later(120)).await.unwrap();
    assert_eq!(give_up(later(120)).await.unwrap(), 0);
    assert_eq!(claim(&store, 99, &room(99, &[]), later(120)).await, [200, 201], "the rest goes on at once");
}

#[tokio::test]
async fn attempts_in_progress_do_not_prevent_the_expiry_of_waiting_deliveries() {
    let (_dir, store) = with_endpoints(&[1]).await;
    due(&store, 1, 1..4, later(1)).await;
    assert_eq!(claim(&store, 2, &room(9, &[]), later(170)).await, [1, 2]);
    store.switch_webhook(WebhookId(1), false).await;
    let give_up = |most, at| store.give_up_waiting_deliveries(later(50), "too late", most, at);
    assert_eq!(give_up(2, later(180)).await.unwrap(), 1);
    assert_eq!(give_up(2, later(200)).await.unwrap(), 2);
}
