//! Tests of the requests for another plan.

use super::super::desk::Desk;
use crate::management::page::hostile::{HOSTILE, assert_shown};
use crate::store::LimitRequestId;
use http::StatusCode;
use rpcgate_core::plan::Tier;

#[tokio::test]
async fn requests_are_for_operators_alone_and_their_texts_are_no_markup() {
    for hostile in HOSTILE {
        let desk = Desk::named(hostile).await;
        let path = format!("/operator/limit-requests/{}", desk.request(hostile).await);
        assert_shown(&desk.get("/operator/limit-requests").await, hostile);
        assert_shown(&desk.get(&path).await, hostile);
        let refused = desk.post(&path, &[("status", hostile), ("note", hostile)]).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        assert!(!refused.text.contains("alert(1)</script>"), "{}", refused.text);
        desk.post(&path, &[("status", "rejected"), ("note", hostile)]).await;
        assert_shown(&desk.get(&path).await, hostile);
    }
    let desk = Desk::named("Acme").await;
    let path = format!("/operator/limit-requests/{}", desk.request("More").await);
    desk.assert_operators("/operator/limit-requests").await;
    desk.assert_operators(&path).await;
    desk.assert_guarded(&path).await;
    let unknown = format!("/operator/limit-requests/{}", LimitRequestId(7));
    assert_eq!(desk.get(&unknown).await.status, StatusCode::NOT_FOUND);
    assert_eq!(desk.post(&unknown, &[("status", "approved")]).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_request_is_approved_once_and_rejected_with_a_reason() {
    let desk = Desk::named("Acme").await;
    assert!(desk.get("/operator/limit-requests").await.text.contains("Nothing waits"));
    let path = format!("/operator/limit-requests/{}", desk.request("We grow").await);
    let page = desk.get(&path).await.text;
    assert!(page.contains("free to premium") && page.contains("We grow"), "{page}");
    assert!(page.contains("<dt>Requests a minute, each key</dt>"), "the figures that differ: {page}");
    desk.post(&path, &[("status", "rejected"), ("note", " ")]).await.assert_wrong("note", "Not decided: ");
    let none = desk.post(&path, &[("note", "kept")]).await;
    assert_eq!(none.status, StatusCode::BAD_REQUEST);
    assert!(
        none.text.contains("Approve or reject the request.") && none.text.contains("kept"),
        "{}",
        none.text
    );
    let done = desk.post(&path, &[("status", "rejected"), ("note", "Too early")]).await;
    assert_eq!(done.leads_to().1, "../../operator/limit-requests?done=request-rejected", "{}", done.text);
    let page = desk.get(&path).await.text;
    assert!(page.contains("Too early") && !page.contains("name=\"status\""), "{page}");
    let second = format!("/operator/limit-requests/{}", desk.request("Again").await);
    let done = desk.post(&second, &[("status", "approved")]).await;
    assert!(done.leads_to().1.ends_with("?done=request-approved"), "{}", done.text);
    assert_eq!(desk.site.app.store.tenant(desk.tenant).await.unwrap().unwrap().tier, Tier::Premium);
    let again = desk.post(&second, &[("status", "approved")]).await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.text);
    let all = desk.get("/operator/limit-requests?status=all").await.text;
    assert!(all.contains("Approved") && all.contains("Rejected"), "{all}");
    let rejected = desk.get("/operator/limit-requests?status=rejected").await.text;
    let rows = rejected.split("<tbody>").nth(1).unwrap();
    assert_eq!(rows.matches("<tr>").count(), 1, "{rejected}");
    assert_eq!(desk.get("/operator/limit-requests?after=x").await.status, StatusCode::BAD_REQUEST);
}
