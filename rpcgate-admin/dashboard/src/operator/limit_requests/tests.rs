//! Tests of the requests for another plan.

use super::super::tests::fixture::OperatorFixture;
use crate::testing::NOON;
use crate::tests::hostile::{HOSTILE, assert_shown};
use http::StatusCode;
use rpcgate_core::plan::Tier;
use rpcgate_store::LimitRequestId;

// Shows (Dashboard).
#[tokio::test]
async fn requests_are_for_operators_alone_and_their_texts_are_no_markup() {
    for hostile in HOSTILE {
        let fixture = OperatorFixture::named(hostile).await;
        let path = format!("/operator/limit-requests/{}", fixture.request(hostile).await);
        assert_shown(&fixture.get("/operator/limit-requests").await, hostile);
        assert_shown(&fixture.get(&path).await, hostile);
        let refused = fixture.post(&path, &[("status", hostile), ("note", hostile)]).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        assert!(!refused.text.contains("alert(1)</script>"), "{}", refused.text);
        fixture.post(&path, &[("status", "rejected"), ("note", hostile)]).await;
        assert_shown(&fixture.get(&path).await, hostile);
    }
    let fixture = OperatorFixture::named("Acme").await;
    let path = format!("/operator/limit-requests/{}", fixture.request("More").await);
    fixture.assert_operators("/operator/limit-requests").await;
    fixture.assert_operators(&path).await;
    fixture.assert_guarded(&path).await;
    let unknown = format!("/operator/limit-requests/{}", LimitRequestId(7));
    assert_eq!(fixture.get(&unknown).await.status, StatusCode::NOT_FOUND);
    assert_eq!(fixture.post(&unknown, &[("status", "approved")]).await.status, StatusCode::NOT_FOUND);
}

// Shows (Dashboard): Operators decide requests, answer tickets and leave notes that no tenant sees, settle invoices,
// and unlock, reset and disable users.
#[tokio::test]
async fn a_request_is_approved_once_and_rejected_with_a_reason() {
    let fixture = OperatorFixture::named("Acme").await;
    assert!(fixture.get("/operator/limit-requests").await.text.contains("Nothing is waiting"));
    let path = format!("/operator/limit-requests/{}", fixture.request("We grow").await);
    let page = fixture.get(&path).await.text;
    assert!(page.contains("free to premium") && page.contains("We grow"), "{page}");
    assert!(page.contains("<dt>Requests a minute, each key</dt>"), "the figures that differ: {page}");
    fixture.post(&path, &[("status", "rejected"), ("note", " ")]).await.assert_wrong("note", "Not decided: ");
    let none = fixture.post(&path, &[("note", "kept")]).await;
    assert_eq!(none.status, StatusCode::BAD_REQUEST);
    assert!(
        none.text.contains("Approve or reject the request.") && none.text.contains("kept"),
        "{}",
        none.text
    );
    let done = fixture.post(&path, &[("status", "rejected"), ("note", "Too early")]).await;
    assert_eq!(done.leads_to().1, "../../operator/limit-requests?done=request-rejected", "{}", done.text);
    let page = fixture.get(&path).await.text;
    assert!(page.contains("Too early") && !page.contains("name=\"status\""), "{page}");
    let second = format!("/operator/limit-requests/{}", fixture.request("Again").await);
    let done = fixture.post(&second, &[("status", "approved")]).await;
    assert!(done.leads_to().1.ends_with("?done=request-approved"), "{}", done.text);
    assert_eq!(fixture.site.app.store.tenant(fixture.tenant).await.unwrap().unwrap().tier, Tier::Premium);
    let page = fixture.get(&second).await.text;
    assert!(page.contains("<h1>To premium ") && !page.contains("premium to premium"), "{page}");
    for status in ["approved", "rejected"] {
        let again = fixture.post(&second, &[("status", status)]).await;
        assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.text);
        assert!(again.text.contains("This has been decided already."), "{}", again.text);
    }
    let all = fixture.get("/operator/limit-requests?status=all").await.text;
    assert!(all.contains("Approved") && all.contains("Rejected"), "{all}");
    let rejected = fixture.get("/operator/limit-requests?status=rejected").await.text;
    let rows = rejected.split("<tbody>").nth(1).unwrap();
    assert_eq!(rows.matches("<tr>").count(), 1, "{rejected}");
    assert_eq!(fixture.get("/operator/limit-requests?after=x").await.status, StatusCode::BAD_REQUEST);
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_limit_request_is_shown_with_what_the_plan_would_have_cost() {
    let fixture = OperatorFixture::named("Acme").await;
    fixture.calls(2, 30).await;
    let path = format!("/operator/limit-requests/{}", fixture.request("We grow").await);
    let page = fixture.get(&path).await.text;
    for part in [
        "<h2 id=\"what-if\">What if it had been premium</h2>",
        "Applied to the usage since 2 Dec 2026, including today.",
        "<th scope=\"row\">Monthly fee</th>",
        "<th scope=\"row\">Compute Units</th><td class=\"num\">30</td><td class=\"num\">30</td>",
        "<th scope=\"row\">Charge for Compute Units</th><td class=\"num\">$0.00</td><td class=\"num\">$0.015</td>",
        "Requests refused by windows, at least",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let store = &fixture.site.app.store;
    store.set_tier(fixture.tenant, Tier::Enterprise, NOON).await.unwrap();
    let page = fixture.get(&path).await.text;
    assert!(page.contains("which is at least as large. If you approve, it stays on that plan."), "{page}");
    fixture.post(&path, &[("status", "approved")]).await;
    assert_eq!(store.tenant(fixture.tenant).await.unwrap().unwrap().tier, Tier::Enterprise, "it does");
    let page = fixture.get(&path).await.text;
    assert!(!page.contains("What if it had been"), "it is decided: {page}");
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_request_is_decided_while_usage_cannot_be_read() {
    let fixture = OperatorFixture::named("Acme").await;
    let path = format!("/operator/limit-requests/{}", fixture.request("We grow").await);
    let running = fixture.site.app.what_if_slots.begin(fixture.operator.user.id).unwrap();
    let busy = fixture.get(&path).await.text;
    assert!(busy.contains("Other questions are being answered"), "{busy}");
    drop(running);
    fixture.site.app.usage.close().await;
    let page = fixture.get(&path).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    assert!(page.text.contains("Usage cannot be read at the moment"), "{}", page.text);
    let done = fixture.post(&path, &[("status", "approved")]).await;
    assert!(done.leads_to().1.ends_with("?done=request-approved"), "{}", done.text);
}
