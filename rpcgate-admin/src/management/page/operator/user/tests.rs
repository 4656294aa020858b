//! Tests of users as operators see them.

use super::super::desk::Desk;
use crate::management::api::accounts::tests::EMAIL;
use crate::management::api::factors::tests::account_with_app;
use crate::management::page::hostile::{HOSTILE, assert_shown};
use crate::store::UserId;
use http::StatusCode;

#[tokio::test]
async fn users_are_for_operators_alone_and_found_by_address_and_tenant() {
    let desk = Desk::named("Acme").await;
    let path = format!("/operator/users/{}", desk.owner.user.id);
    desk.assert_operators("/operator/users").await;
    desk.assert_operators(&path).await;
    for act in ["unlock", "reset", "factors", "remove-factors", "disable", "enable"] {
        desk.assert_guarded(&format!("{path}/{act}")).await;
        let unknown = desk.post(&format!("/operator/users/{}/{act}", UserId(7)), &[("reason", "x")]).await;
        assert_eq!(unknown.status, StatusCode::NOT_FOUND, "{act}");
    }
    assert_eq!(desk.get(&format!("/operator/users/{}", UserId(7))).await.status, StatusCode::NOT_FOUND);
    let (email, link) = (&desk.owner.user.email, format!("operator/users/{}\"", desk.owner.user.id));
    let has = async |query: &str| desk.get(&format!("/operator/users?{query}")).await.text.contains(&link);
    assert!(has("").await && has(&format!("email={email}")).await && !has("email=nobody@example.com").await);
    assert!(has(&format!("tenant={}", desk.tenant)).await);
    assert!(!has(&format!("tenant={}", desk.site.tenant().await)).await);
    desk.get("/operator/users?tenant=x").await.assert_wrong("tenant", "Not shown: ");
    assert_eq!(desk.get("/operator/users?after=x").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn no_name_of_a_user_is_markup() {
    for hostile in HOSTILE {
        let desk = Desk::named(hostile).await;
        desk.site.app.store.rename_user(desk.owner.user.id, hostile).await.unwrap();
        let path = format!("/operator/users/{}", desk.owner.user.id);
        assert_shown(&desk.get("/operator/users").await, hostile);
        assert_shown(&desk.get(&path).await, hostile);
        for act in ["reset", "disable"] {
            assert_shown(&desk.get(&format!("{path}/{act}")).await, hostile);
        }
        assert_shown(&desk.post(&format!("{path}/factors"), &[("reason", hostile)]).await, hostile);
    }
}

#[tokio::test]
async fn a_user_is_disabled_and_enabled_and_an_operator_not_by_itself() {
    let desk = Desk::named("Acme").await;
    let path = format!("/operator/users/{}", desk.owner.user.id);
    let asked = desk.get(&format!("{path}/disable")).await.text;
    assert!(
        asked.contains("Disable Somebody?") && asked.contains("keys of the tenant keep working"),
        "{asked}"
    );
    let is_disabled = async || desk.site.app.store.is_disabled(desk.owner.user.id).await.unwrap();
    assert!(!is_disabled().await, "asking changes nothing");
    let done = desk.post(&format!("{path}/disable"), &[]).await;
    assert!(done.leads_to().1.ends_with("?done=user-disabled"), "{}", done.text);
    assert!(is_disabled().await);
    let reset = desk.post(&format!("{path}/reset"), &[]).await;
    assert_eq!(reset.status, StatusCode::CONFLICT);
    assert!(reset.text.contains("The user is disabled."), "{}", reset.text);
    let done = desk.post(&format!("{path}/enable"), &[]).await;
    assert!(done.leads_to().1.ends_with("?done=user-enabled"), "{}", done.text);
    let done = desk.post(&format!("{path}/reset"), &[]).await;
    assert!(done.leads_to().1.ends_with("?done=user-reset"), "{}", done.text);
    let unlocked = desk.post(&format!("{path}/unlock"), &[]).await;
    assert!(unlocked.leads_to().1.ends_with("?done=user-unlocked"), "{}", unlocked.text);
    let own = format!("/operator/users/{}", desk.operator.user.id);
    assert!(!desk.get(&own).await.text.contains("Disable…"));
    let refused = desk.post(&format!("{own}/disable"), &[]).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text);
}

#[tokio::test]
async fn second_factors_are_removed_with_a_reason() {
    let desk = Desk::named("Acme").await;
    let none = format!("/operator/users/{}/remove-factors", desk.owner.user.id);
    let refused = desk.post(&none, &[("reason", "Lost telephone")]).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text);
    account_with_app(&desk.site).await;
    let user = desk.site.app.store.user_by_email(EMAIL).await.unwrap().unwrap();
    let path = format!("/operator/users/{}", user.id);
    assert!(desk.get(&path).await.text.contains("Remove the second factors…"));
    desk.post(&format!("{path}/factors"), &[("reason", " ")]).await.assert_wrong("reason", "Not done: ");
    let asked = desk.post(&format!("{path}/factors"), &[("reason", "Lost telephone")]).await.text;
    assert!(asked.contains("Lost telephone") && asked.contains("all sessions end"), "{asked}");
    assert!(desk.get(&path).await.text.contains("Remove the second factors…"), "asking changes nothing");
    let done = desk.post(&format!("{path}/remove-factors"), &[("reason", "Lost telephone")]).await;
    assert!(done.leads_to().1.ends_with("?done=factors-removed"), "{}", done.text);
    assert!(!desk.get(&path).await.text.contains("Remove the second factors…"));
}
