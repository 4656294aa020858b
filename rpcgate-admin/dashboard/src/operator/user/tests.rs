//! Tests of the pages of users.

use super::super::tests::fixture::OperatorFixture;
use crate::tests::hostile::{HOSTILE, assert_shown};
use crate::tests::{EMAIL, account_with_app};
use http::StatusCode;
use rpcgate_store::UserId;

// Shows (Dashboard).
#[tokio::test]
async fn users_are_for_operators_alone_and_found_by_address_and_tenant() {
    let fixture = OperatorFixture::named("Acme").await;
    let path = format!("/operator/users/{}", fixture.owner.user.id);
    fixture.assert_operators("/operator/users").await;
    fixture.assert_operators(&path).await;
    for act in ["unlock", "reset", "factors", "remove-factors", "disable", "enable"] {
        fixture.assert_guarded(&format!("{path}/{act}")).await;
        let unknown = fixture.post(&format!("/operator/users/{}/{act}", UserId(7)), &[("reason", "x")]).await;
        assert_eq!(unknown.status, StatusCode::NOT_FOUND, "{act}");
    }
    assert_eq!(fixture.get(&format!("/operator/users/{}", UserId(7))).await.status, StatusCode::NOT_FOUND);
    let email = &fixture.owner.user.email;
    let link = format!("operator/users/{}\"", fixture.owner.user.id);
    let has = async |query: &str| fixture.get(&format!("/operator/users?{query}")).await.text.contains(&link);
    assert!(has("").await && has(&format!("email={email}")).await && !has("email=nobody@example.com").await);
    assert!(has(&format!("tenant={}", fixture.tenant)).await);
    assert!(!has(&format!("tenant={}", fixture.site.tenant().await)).await);
    fixture.get("/operator/users?tenant=x").await.assert_wrong("tenant", "Not shown: ");
    assert_eq!(fixture.get("/operator/users?after=x").await.status, StatusCode::BAD_REQUEST);
}

// Shows (Dashboard).
#[tokio::test]
async fn no_name_of_a_user_is_markup() {
    for hostile in HOSTILE {
        let fixture = OperatorFixture::named(hostile).await;
        fixture.site.app.store.rename_user(fixture.owner.user.id, hostile).await.unwrap();
        let path = format!("/operator/users/{}", fixture.owner.user.id);
        assert_shown(&fixture.get("/operator/users").await, hostile);
        assert_shown(&fixture.get(&path).await, hostile);
        for act in ["reset", "disable"] {
            assert_shown(&fixture.get(&format!("{path}/{act}")).await, hostile);
        }
        assert_shown(&fixture.post(&format!("{path}/factors"), &[("reason", hostile)]).await, hostile);
    }
}

// Shows (Dashboard).
#[tokio::test]
async fn a_user_is_disabled_and_enabled_but_operators_cannot_disable_themselves() {
    let fixture = OperatorFixture::named("Acme").await;
    let path = format!("/operator/users/{}", fixture.owner.user.id);
    let page = fixture.get(&format!("{path}/disable")).await.text;
    assert!(page.contains("Disable Somebody?") && page.contains("keys of the tenant keep working"), "{page}");
    let is_disabled = async || fixture.site.app.store.is_disabled(fixture.owner.user.id).await.unwrap();
    assert!(!is_disabled().await, "asking changes nothing");
    let done = fixture.post(&format!("{path}/disable"), &[]).await;
    assert!(done.leads_to().1.ends_with("?done=user-disabled"), "{}", done.text);
    assert!(is_disabled().await);
    let reset = fixture.post(&format!("{path}/reset"), &[]).await;
    assert_eq!(reset.status, StatusCode::CONFLICT);
    assert!(reset.text.contains("The user is disabled."), "{}", reset.text);
    let done = fixture.post(&format!("{path}/enable"), &[]).await;
    assert!(done.leads_to().1.ends_with("?done=user-enabled"), "{}", done.text);
    let done = fixture.post(&format!("{path}/reset"), &[]).await;
    assert!(done.leads_to().1.ends_with("?done=user-reset"), "{}", done.text);
    let unlocked = fixture.post(&format!("{path}/unlock"), &[]).await;
    assert!(unlocked.leads_to().1.ends_with("?done=user-unlocked"), "{}", unlocked.text);
    let own = format!("/operator/users/{}", fixture.operator.user.id);
    assert!(!fixture.get(&own).await.text.contains("Disable…"));
    let refused = fixture.post(&format!("{own}/disable"), &[]).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text);
}

// Shows (Dashboard).
#[tokio::test]
async fn second_factors_are_removed_with_a_reason() {
    let fixture = OperatorFixture::named("Acme").await;
    let none = format!("/operator/users/{}/remove-factors", fixture.owner.user.id);
    let refused = fixture.post(&none, &[("reason", "Lost telephone")]).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text);
    account_with_app(&fixture.site).await;
    let user = fixture.site.app.store.user_by_email(EMAIL).await.unwrap().unwrap();
    let path = format!("/operator/users/{}", user.id);
    assert!(fixture.get(&path).await.text.contains("Remove the second factors…"));
    fixture.post(&format!("{path}/factors"), &[("reason", " ")]).await.assert_wrong("reason", "Not done: ");
    let page = fixture.post(&format!("{path}/factors"), &[("reason", "Lost telephone")]).await.text;
    assert!(page.contains("Lost telephone") && page.contains("all sessions end"), "{page}");
    assert!(fixture.get(&path).await.text.contains("Remove the second factors…"), "asking changes nothing");
    let done = fixture.post(&format!("{path}/remove-factors"), &[("reason", "Lost telephone")]).await;
    assert!(done.leads_to().1.ends_with("?done=factors-removed"), "{}", done.text);
    assert!(!fixture.get(&path).await.text.contains("Remove the second factors…"));
}
