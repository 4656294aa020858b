//! Tests of the requests for another plan.

use super::super::fixture::OperatorFixture;
use crate::management::page::hostile::{HOSTILE, assert_shown};
use crate::store::LimitRequestId;
use http::StatusCode;
use rpcgate_core::plan::Tier;

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

#[tokio::test]
async fn a_request_is_approved_once_and_rejected_with_a_reason() {
    let fixture = OperatorFixture::named("Acme").await;
    assert!(fixture.get("/operator/limit-requests").await.text.contains("Nothing waits"));
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
    let again = fixture.post(&second, &[("status", "approved")]).await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.text);
    let all = fixture.get("/operator/limit-requests?status=all").await.text;
    assert!(all.contains("Approved") && all.contains("Rejected"), "{all}");
    let rejected = fixture.get("/operator/limit-requests?status=rejected").await.text;
    let rows = rejected.split("<tbody>").nth(1).unwrap();
    assert_eq!(rows.matches("<tr>").count(), 1, "{rejected}");
    assert_eq!(fixture.get("/operator/limit-requests?after=x").await.status, StatusCode::BAD_REQUEST);
}
