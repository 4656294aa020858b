//! Tests of subscriptions as a browser sees them, and of the notation of filters.

use super::{SubscriptionLine, read_filter};
use crate::projects::tests::{HOSTILE, ProjectFixture, expect_sound};
use crate::testing::NOON;
use http::StatusCode;
use rpcgate_core::event::EventType;
use rpcgate_store::{SubscriptionId, WebhookSubscription, fresh_id};
use serde_json::{Value, json};
use std::time::Duration;

impl ProjectFixture {
    async fn told_of(&self) -> Vec<WebhookSubscription> {
        self.site.app.store.subscriptions(self.tenant(), self.webhook.id, None, 99).await.unwrap()
    }
}

fn read(text: &str) -> Option<Value> {
    read_filter(text).unwrap().map(Value::Object)
}

#[test]
fn a_filter_has_a_member_on_each_line() {
    assert_eq!(read(" \n \r\n"), None);
    let expected =
        json!({"to": "0x71c7", "value": "5", "number": 5, "odd": true, "text": "a = b", "none": ""});
    let text = "to = 0x71c7\r\nvalue=\"5\"\n number = 5\nodd=true\ntext = a = b\nnone =";
    assert_eq!(read(text), Some(expected));
    assert_eq!(read("a = null"), Some(json!({"a": "null"})));
    for wrong in ["to", "to 0x71c7", "a = 1\na = 2"] {
        assert!(read_filter(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_shown_filter_can_be_written_again() {
    let texts = ["0x71c7", "5", "true", "\"quoted\"", " space ", "", "a = b", "null", "é", "1e3"];
    let mut filter = serde_json::Map::new();
    for (number, text) in texts.into_iter().enumerate() {
        filter.insert(format!("m{number}"), json!(text));
    }
    filter.insert("n".into(), json!(7));
    filter.insert("b".into(), json!(false));
    let line = SubscriptionLine::from(WebhookSubscription {
        id: SubscriptionId(1),
        webhook: rpcgate_store::WebhookId(2),
        chain: "eth".into(),
        kind: EventType::NewBlock,
        filter: Some(filter.clone()),
        confirmations: 0,
        created_at: NOON,
    });
    assert_eq!(read(&line.filter.join("\n")), Some(Value::Object(filter)));
}

#[tokio::test]
async fn a_subscription_is_added_shown_and_deleted() {
    let fixture = ProjectFixture::new().await;
    let path = format!("/webhooks/{}/subscriptions", fixture.webhook.id);
    fixture.site.clock.advance(Duration::from_millis(1));
    let fields = [
        ("chain", "eth"),
        ("event_type", "address_activity"),
        ("filter", "address = 0x00000000219ab540356cBB839Cbe05303d7705Fa"),
        ("confirmations", "12"),
    ];
    let made = fixture.post(&path, &fields).await;
    assert_eq!(made.status, StatusCode::SEE_OTHER, "{}", made.text);
    let [_, stored] = &fixture.told_of().await[..] else { panic!("there are two") };
    assert_eq!((stored.kind, stored.confirmations), (EventType::AddressActivity, 12));
    let page = fixture.get(&path).await;
    for part in ["address_activity</th>", "address = 0x00000000219ab540356cBB839Cbe05303d7705Fa", ">12</td>"]
    {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    let delete = format!("{path}/{}/delete", stored.id);
    let question = fixture.get(&delete).await;
    for part in
        ["Delete the subscription to address_activity on eth?", "where address = 0x00000000219ab540356cBB839"]
    {
        assert!(question.text.contains(part), "{part}: {}", question.text);
    }
    let gone = fixture.post(&delete, &[]).await;
    assert_eq!(gone.status, StatusCode::SEE_OTHER);
    assert!(gone.leads_to().1.ends_with("/subscriptions?done=subscription-deleted"), "{:?}", gone.leads_to());
    assert_eq!(fixture.told_of().await.len(), 1);
    assert_eq!(fixture.post(&delete, &[]).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_error_of_a_subscription_is_shown_at_its_field() {
    let fixture = ProjectFixture::new().await;
    let path = format!("/webhooks/{}/subscriptions", fixture.webhook.id);
    for (chain, kind, filter, confirmations, field, text) in [
        ("eth", "", "", "", "event_type", "Choose an event."),
        ("nosuch", "health", "", "", "chain", "The chain is unknown."),
        (
            "eth",
            "new_block",
            "no member",
            "",
            "filter",
            "Write a name, = and a value on each line, such as to = 0x71c7…",
        ),
        (
            "eth",
            "address_activity",
            "address = x",
            "",
            "filter",
            "No event of the type address_activity on eth has this value of address.",
        ),
        (
            "eth",
            "new_block",
            "",
            "1001",
            "confirmations",
            "The number of confirmations must be at most 1000.",
        ),
        ("eth", "new_block", "", "many", "confirmations", "Enter a number, such as 1,000."),
        (
            "eth",
            "health",
            "",
            "1",
            "confirmations",
            "The number of confirmations must be 0 for events of no block.",
        ),
    ] {
        let fields =
            [("chain", chain), ("event_type", kind), ("filter", filter), ("confirmations", confirmations)];
        let wrong = fixture.post(&path, &fields).await;
        assert_eq!(wrong.status, StatusCode::BAD_REQUEST, "{text}");
        let end = if text.contains("has this value of") { " The members that exist: " } else { "</a>" };
        let link = format!("<a href=\"#{field}\">{text}{end}");
        assert!(wrong.text.contains(&link), "{text}: {}", wrong.text);
        assert!(wrong.text.contains(&format!("value=\"{confirmations}\"")), "{}", wrong.text);
        expect_sound(&wrong, &path);
    }
    for text in HOSTILE {
        let filter = format!("{text} = {text}");
        let fields = [("chain", "eth"), ("event_type", "health"), ("filter", filter.as_str())];
        let wrong = fixture.post(&path, &fields).await;
        assert_eq!(wrong.status, StatusCode::BAD_REQUEST, "{text}");
        expect_sound(&wrong, &path);
    }
    assert_eq!(fixture.told_of().await.len(), 1);
}

#[tokio::test]
async fn a_long_list_is_continued() {
    let fixture = ProjectFixture::new().await;
    fixture
        .site
        .app
        .store
        .set_tier(fixture.tenant(), rpcgate_core::plan::Tier::Enterprise, NOON)
        .await
        .unwrap();
    for number in 0..60_u64 {
        let at = NOON.plus(Duration::from_millis(number));
        let one = WebhookSubscription {
            id: SubscriptionId(fresh_id(at)),
            webhook: fixture.webhook.id,
            chain: format!("chain{number}"),
            kind: EventType::Health,
            filter: None,
            confirmations: 0,
            created_at: at,
        };
        fixture.site.app.store.create_subscription(fixture.tenant(), &one, NOON).await.unwrap();
    }
    let path = format!("/webhooks/{}/subscriptions", fixture.webhook.id);
    let first = fixture.get(&path).await;
    assert!(first.text.contains(">chain40<") && !first.text.contains(">chain55<"), "{}", first.text);
    let newer = first.text.split("rel=\"prev\"").next().unwrap().rsplit("href=\"").next().unwrap();
    let second =
        fixture.get(&newer.split('"').next().unwrap().replace("../../", "/").replace("&#38;", "&")).await;
    assert!(second.text.contains(">chain55<") && !second.text.contains(">chain40<"), "{}", second.text);
    assert!(second.text.contains("rel=\"next\"") && !second.text.contains("rel=\"prev\""));
}
