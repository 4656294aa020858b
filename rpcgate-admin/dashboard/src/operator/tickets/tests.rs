//! Tests of the list of tickets.

use super::super::tests::fixture::OperatorFixture;
use crate::tests::hostile::{HOSTILE, assert_shown};
use http::StatusCode;

// Shows (Dashboard): Work that waits for operators is listed with the oldest first.
#[tokio::test]
async fn waiting_tickets_are_listed_with_the_oldest_first() {
    let fixture = OperatorFixture::named("Acme").await;
    fixture.assert_operators("/operator/tickets").await;
    assert!(fixture.get("/operator/tickets").await.text.contains("Nothing is waiting"));
    let first = fixture.ticket("First one", "a").await;
    fixture.ticket("Second one", "b").await;
    let order = |text: &str| text.find("First one").unwrap() < text.find("Second one").unwrap();
    assert!(order(&fixture.get("/operator/tickets").await.text), "the oldest first");
    assert!(!order(&fixture.get("/operator/tickets?status=all").await.text), "the newest first");
    let answer = [("text", "Here"), ("status", "answered")];
    fixture.post(&format!("/operator/tickets/{first}/comments"), &answer).await;
    let waiting = fixture.get("/operator/tickets").await.text;
    assert!(!waiting.contains("First one") && waiting.contains("Second one"), "{waiting}");
    assert!(fixture.get("/operator/tickets?status=answered").await.text.contains("First one"));
    let of_tenant = format!("/operator/tickets?status=all&category=problem&tenant={}", fixture.tenant);
    assert!(fixture.get(&of_tenant).await.text.contains("First one"));
    assert!(
        fixture.get("/operator/tickets?status=all&category=billing").await.text.contains("No ticket matches")
    );
    for (wrong, field) in [("tenant=x", "tenant"), ("category=odd", "category")] {
        fixture.get(&format!("/operator/tickets?{wrong}")).await.assert_wrong(field, "Not shown: ");
    }
    assert_eq!(fixture.get("/operator/tickets?after=x").await.status, StatusCode::BAD_REQUEST);
}

// Shows (Dashboard).
#[tokio::test]
async fn no_subject_is_markup() {
    for hostile in HOSTILE {
        let fixture = OperatorFixture::named(hostile).await;
        fixture.ticket(hostile, hostile).await;
        assert_shown(&fixture.get("/operator/tickets").await, hostile);
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("tenant", hostile).finish();
        let refused = fixture.get(&format!("/operator/tickets?{query}")).await;
        assert!(!refused.text.contains("alert(1)</script>"), "{}", refused.text);
    }
}
