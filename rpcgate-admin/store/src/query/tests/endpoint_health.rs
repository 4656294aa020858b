//! Tests of delivery statistics, of lists of deliveries, and of the endpoints of a tenant.

use super::webhooks::{WEBHOOK, webhook};
use super::*;
use crate::{
    AttemptsOfHour, ChainEventId, DeliveryFilter, DeliveryId, DeliveryStatus, EndpointHealth, LoggedEvent,
    WebhookId,
};
use rpcgate_core::event::EventType;

fn event(id: u128, chain: &str, kind: EventType, at: Time) -> LoggedEvent {
    LoggedEvent {
        id: ChainEventId(id),
        chain: chain.into(),
        kind,
        block_num: 7,
        block_hash: format!("h{id}"),
        removed: false,
        body: b"{\"data\":{}}".to_vec(),
        created_at: at,
    }
}

/// A store with an endpoint and deliveries of two hours.
async fn delivering() -> (TestDatabase, Store) {
    let (site, store) = empty().await;
    let endpoint = webhook(WEBHOOK);
    store.create_webhook(TENANT, &endpoint, now()).await.unwrap();
    for (id, chain, kind, status, secs) in [
        (1, "eth", EventType::NewBlock, DeliveryStatus::Delivered, 1),
        (2, "btc", EventType::NewBlock, DeliveryStatus::Failed, 2),
        (3, "eth", EventType::Health, DeliveryStatus::Failed, 4_000),
        (4, "eth", EventType::NewBlock, DeliveryStatus::Pending, 4_001),
        (5, "eth", EventType::NewBlock, DeliveryStatus::Held, 4_002),
    ] {
        let at = later(secs);
        store.log_event(&endpoint, (DeliveryId(id), status), &event(id, chain, kind, at)).await.unwrap();
    }
    for (id, secs) in [(2, 2), (3, 4_000)] {
        store.failed_attempt(DeliveryId(id), (Some(500), "x", b"y"), later(secs)).await.unwrap();
    }
    (site, store)
}

#[tokio::test]
async fn the_health_of_an_endpoint_counts_deliveries_and_attempts_by_hour() {
    let (_site, store) = delivering().await;
    let of = async |tenant, since| store.endpoint_health(tenant, WEBHOOK, since).await.unwrap();
    let all = of(TENANT, now()).await;
    assert_eq!((all.delivered, all.failed, all.pending, all.held), (1, 2, 1, 1));
    assert!(all.next_due.is_some());
    let hour = |secs: u64| Time::from_secs(later(secs).hour() * 3_600);
    let attempts: Vec<_> =
        all.hours.iter().map(|AttemptsOfHour { hour, made, failed, .. }| (*hour, *made, *failed)).collect();
    assert_eq!(attempts, [(hour(2), 1, 1), (hour(4_000), 1, 1)]);
    let late = of(TENANT, later(3_000)).await;
    assert_eq!((late.delivered, late.failed, late.hours.len()), (0, 1, 1));
    assert_eq!((late.pending, late.held), (1, 1), "what waits is told whenever it was made");
    assert_eq!(of(OTHER, now()).await, EndpointHealth::default());
}

#[tokio::test]
async fn deliveries_are_listed_by_state_type_and_chain() {
    let (_site, store) = delivering().await;
    let ids = async |filter: DeliveryFilter| {
        let some = store.filtered_deliveries(TENANT, WEBHOOK, &filter, None, 9).await.unwrap();
        some.into_iter().map(|one| one.id.0).collect::<Vec<_>>()
    };
    let none = DeliveryFilter::default();
    assert_eq!(ids(none.clone()).await, [5, 4, 3, 2, 1]);
    let failed = Some(DeliveryStatus::Failed);
    assert_eq!(ids(DeliveryFilter { status: failed, ..none.clone() }).await, [3, 2]);
    let health = Some(EventType::Health);
    assert_eq!(ids(DeliveryFilter { kind: health, ..none.clone() }).await, [3]);
    assert_eq!(ids(DeliveryFilter { chain: Some("btc".into()), ..none.clone() }).await, [2]);
    let both = DeliveryFilter { status: failed, kind: Some(EventType::NewBlock), chain: Some("eth".into()) };
    assert_eq!(ids(both).await, [0; 0]);
    let page =
        store.filtered_deliveries(TENANT, WEBHOOK, &none, Some((later(4_000), DeliveryId(3))), 1).await;
    assert_eq!(page.unwrap()[0].id, DeliveryId(2));
    assert!(store.filtered_deliveries(OTHER, WEBHOOK, &none, None, 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_endpoints_of_a_tenant_are_those_of_its_projects() {
    let (_site, store) = delivering().await;
    store.create_webhook(TENANT, &webhook(WebhookId(9)), now()).await.unwrap();
    let ids = async |tenant, limit| {
        let some = store.tenant_webhooks(tenant, limit).await.unwrap();
        some.into_iter().map(|one| one.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(TENANT, 5).await, [WEBHOOK, WebhookId(9)]);
    assert_eq!(ids(TENANT, 1).await, [WEBHOOK]);
    assert!(ids(OTHER, 5).await.is_empty());
    store.delete_webhook(TENANT, WEBHOOK, now()).await.unwrap();
    assert_eq!(ids(TENANT, 5).await, [WebhookId(9)]);
}
