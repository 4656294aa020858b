//! Tests of deliveries as a browser sees them.

use super::length;
use crate::projects::tests::{ProjectFixture, expect_sound};
use crate::testing::NOON;
use crate::tests::get;
use http::StatusCode;
use rpcgate_core::event::EventType;
use rpcgate_store::{ChainEventId, DeliveryId, DeliveryStatus, LoggedEvent, fresh_id};
use std::time::Duration;

impl ProjectFixture {
    /// Stores a delivery for a new block of `chain`, made `millis` milliseconds after noon.
    async fn deliver(&self, chain: &str, status: DeliveryStatus, millis: u64) -> DeliveryId {
        let at = NOON.plus(Duration::from_millis(millis));
        let event = LoggedEvent {
            id: ChainEventId(fresh_id(at)),
            chain: chain.into(),
            kind: EventType::NewBlock,
            block_num: millis,
            block_hash: "0xb7".into(),
            removed: false,
            body: b"{\"data\":{}}".to_vec(),
            created_at: at,
        };
        let id = DeliveryId(fresh_id(at));
        self.site.app.store.log_event(&self.webhook, (id, status), &event).await.unwrap();
        id
    }
}

#[tokio::test]
async fn an_endpoint_shows_its_health_and_its_deliveries() {
    let fixture = ProjectFixture::new().await;
    fixture.deliver("btc", DeliveryStatus::Delivered, 5).await;
    fixture.deliver("btc", DeliveryStatus::Pending, 6).await;
    let path = format!("/webhooks/{}", fixture.webhook.id);
    let page = fixture.get(&path).await;
    for part in [
        "<dt>Delivered</dt><dd class=\"big\">1</dd><dd><small>50 % of 2</small>",
        "<dt>Waiting</dt><dd class=\"big\">1</dd>",
        "<dt>Parked as failed</dt><dd class=\"big\">1</dd>",
        "<dd class=\"big\">250 ms</dd>",
        "Failed attempts by hour: 2",
        "31 Dec 2026, 12:00 UTC: 2 of 2 attempts failed",
        "<span class=\"badge bad\">Parked</span>",
        "<span class=\"badge info\">Pending</span>",
        "503 Service Unavailable",
        "id=\"health\" data-live",
        "def is_genuine(",
        "token_transfer</th>",
    ] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    assert_eq!(page.text.matches("<rect class=\"h").count(), 24, "{}", page.text);
}

// Shows (Dashboard): Deliveries are filtered and paged; one shows its request and answer, and is sent again.
#[tokio::test]
async fn deliveries_are_filtered_by_state_event_and_chain() {
    let fixture = ProjectFixture::new().await;
    let arrived = fixture.deliver("btc", DeliveryStatus::Delivered, 5).await.to_string();
    let parked = fixture.delivery.to_string();
    let path = format!("/webhooks/{}", fixture.webhook.id);
    for (query, has_arrived, has_parked) in [
        ("", true, true),
        ("?status=delivered", true, false),
        ("?status=failed", false, true),
        ("?event_type=token_transfer", false, true),
        ("?chain=bitcoin", true, false),
        ("?status=failed&event_type=token_transfer&chain=eth", false, true),
        ("?status=nosuch&event_type=nosuch", true, true),
    ] {
        let page = fixture.get(&format!("{path}{query}")).await;
        let has = |id: &str| page.text.contains(&format!("deliveries/{id}\""));
        assert_eq!((has(&arrived), has(&parked)), (has_arrived, has_parked), "{query}: {}", page.text);
    }
    let none = fixture.get(&format!("{path}?status=held")).await;
    assert!(
        none.text.contains("No delivery matches") && none.text.contains("Show all deliveries"),
        "{}",
        none.text
    );
    let filtered = fixture.get(&format!("{path}?event_type=health")).await;
    let link = format!("webhooks/{}?status=failed&#38;event_type=health\"", fixture.webhook.id);
    assert!(filtered.text.contains(&link), "{}", filtered.text);
}

// Shows (Dashboard).
#[tokio::test]
async fn a_long_list_is_continued_where_it_ended() {
    let fixture = ProjectFixture::new().await;
    for millis in 1..=120 {
        fixture.deliver("btc", DeliveryStatus::Delivered, millis).await;
    }
    let mut path = format!("/webhooks/{}?status=delivered", fixture.webhook.id);
    let mut seen = Vec::new();
    for part in 0..3 {
        let page = fixture.get(&path).await;
        expect_sound(&page, &path);
        let links = page.text.split("href=\"../deliveries/").skip(1);
        seen.extend(links.map(|rest| rest.split('"').next().unwrap().to_owned()));
        assert_eq!(page.text.contains("rel=\"prev\""), part > 0);
        let Some((before, _)) = page.text.split_once("rel=\"next\"") else {
            assert_eq!(part, 2);
            break;
        };
        let next = before.rsplit("href=\"").next().unwrap().split('"').next().unwrap();
        path = next.replace("../", "/").replace("&#38;", "&");
    }
    let number = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!((number, seen.len()), (120, 120));
    let wrong =
        get(&fixture.site, &format!("/webhooks/{}?cursor=x", fixture.webhook.id), &fixture.cookie).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
}

// Shows (Dashboard).
#[tokio::test]
async fn a_delivery_shows_what_was_sent_and_what_was_answered() {
    let fixture = ProjectFixture::of("no healthy instance").await;
    let page = fixture.get(&format!("/deliveries/{}", fixture.delivery)).await;
    for part in [
        "<span class=\"badge bad\">Parked</span>",
        "It is sent again only at your request.",
        "Attempt 1 <span>503 Service Unavailable</span>",
        "took 250 ms",
        "<li class=\"wait\">waited 2.7 s</li>",
        "Attempt 2 <span>503 Service Unavailable</span>",
        "<code>no healthy instance</code>",
        "26,452,218",
        "x-delivery-attempt: 2",
        "content-type: application/json",
        "{&#34;data&#34;:&#34;no healthy instance&#34;}",
        "id=\"attempts\" data-live",
        "Send again",
    ] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    assert!(!page.text.to_lowercase().contains("x-signature:"), "{}", page.text);
}

// Shows (Dashboard).
#[tokio::test]
async fn a_delivery_that_has_ended_is_sent_again() {
    let fixture = ProjectFixture::new().await;
    let path = format!("/deliveries/{}", fixture.delivery);
    let again = fixture.post(&format!("{path}/retry"), &[]).await;
    let target = format!("../../deliveries/{}?done=delivery-due-again", fixture.delivery);
    assert_eq!(again.leads_to(), (StatusCode::SEE_OTHER, target.as_str()));
    let page = fixture.get(&path).await;
    assert!(
        page.text.contains("Retry at <time datetime=\"2026-12-31T12:00:00.000Z\">12:00:00</time>"),
        "{}",
        page.text
    );
    assert!(!page.text.contains("Send again"), "{}", page.text);
    let twice = fixture.post(&format!("{path}/retry"), &[]).await;
    assert_eq!(twice.status, StatusCode::CONFLICT);
    assert!(twice.text.contains("The delivery has not ended yet."), "{}", twice.text);
}

#[test]
fn lengths_are_short() {
    for (millis, text) in
        [(0, "0 ms"), (999, "999 ms"), (1_000, "1.0 s"), (10_050, "10.0 s"), (300_000, "5 min")]
    {
        assert_eq!(length(Duration::from_millis(millis)), text);
    }
}
