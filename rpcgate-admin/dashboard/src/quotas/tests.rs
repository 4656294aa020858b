//! Tests of the limits of a project as a browser sees them.

use crate::projects::tests::ProjectFixture;
use http::StatusCode;
use rpcgate_core::caller::ProjectQuota;
use rpcgate_core::safeguard::CoolDown;
use std::time::Duration;

#[tokio::test]
async fn quota_and_windows_are_shown_with_their_usage() {
    let fixture = ProjectFixture::new().await;
    let path = format!("/projects/{}/limits", fixture.project);
    let page = fixture.get(&path).await;
    for part in [
        "<b>0</b> of 100,000",
        "It comes from your contract or your plan",
        "no separate limit",
        "Keys that are slowed down",
    ] {
        assert_eq!(page.text.contains(part), part != "Keys that are slowed down", "{part}: {}", page.text);
    }
    let quota =
        ProjectQuota { cu_per_day: 250, cu_per_month: Some(5_000), rps_limit: Some(9), has_row: true };
    fixture.site.app.store.put_quota(fixture.project, &quota, fixture.site.app.now()).await.unwrap();
    fixture.call(2, 5).await;
    let page = fixture.get(&path).await;
    for part in ["of 250", "of 5,000", "We have set it for this project", "<dd>9</dd>"] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
}

#[tokio::test]
async fn lists_are_a_method_on_each_line_and_are_refused_at_their_field() {
    let fixture = ProjectFixture::new().await;
    let path = format!("/projects/{}/limits", fixture.project);
    let saved = fixture
        .post(&path, &[("allowed_methods", "eth_call\r\n eth_getLogs,eth_call\n"), ("blocked_methods", "")])
        .await;
    assert_eq!(saved.status, StatusCode::SEE_OTHER, "{}", saved.text);
    let project = fixture.site.app.store.project(fixture.tenant(), fixture.project).await.unwrap().unwrap();
    assert_eq!(project.allowed_methods, ["eth_call", "eth_getLogs"]);
    assert!(project.blocked_methods.is_empty() && project.name == "Checkout");
    let page = fixture.get(&path).await;
    assert!(page.text.contains("eth_call\neth_getLogs</textarea>"), "{}", page.text);
    let wrong = fixture.post(&path, &[("allowed_methods", "a"), ("blocked_methods", "debug_*")]).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    for part in [
        "<title>Not saved: ",
        "<a href=\"#blocked_methods\">",
        "debug_*</textarea>",
        "The blocked methods must name",
    ] {
        assert!(wrong.text.contains(part), "{part}: {}", wrong.text);
    }
    let many: Vec<_> = (0..201).map(|number| format!("m{number}")).collect();
    let wrong = fixture.post(&path, &[("allowed_methods", &many.join("\n"))]).await;
    assert!(wrong.text.contains("The allowed methods must have at most 200 methods."), "{}", wrong.text);
}

#[tokio::test]
async fn keys_that_are_slowed_down_are_named() {
    let fixture = ProjectFixture::new().await;
    let now = fixture.site.app.now();
    let cooled = CoolDown {
        key: fixture.key,
        project: fixture.project,
        tenant: fixture.tenant(),
        percent: 50,
        end: now.plus(Duration::from_secs(600)),
    };
    let report = rpcgate_store::GatewayReport { id: 1, at: now, nodes: Vec::new() };
    fixture.site.app.store.put_report(&report, &[cooled]).await.unwrap();
    let page = fixture.get(&format!("/projects/{}/limits", fixture.project)).await;
    assert!(page.text.contains("Keys that are slowed down"), "{}", page.text);
    assert!(page.text.contains(&fixture.key.to_string()), "{}", page.text);
    fixture.site.clock.advance(Duration::from_secs(601));
    let page = fixture.get(&format!("/projects/{}/limits", fixture.project)).await;
    assert!(!page.text.contains("Keys that are slowed down"), "{}", page.text);
}

// Shows (Dashboard).
#[tokio::test]
async fn lists_of_methods_are_saved_while_usage_cannot_be_read() {
    let fixture = ProjectFixture::new().await;
    let path = format!("/projects/{}/limits", fixture.project);
    let quota = ProjectQuota { cu_per_day: 250, cu_per_month: None, rps_limit: None, has_row: true };
    fixture.site.app.store.put_quota(fixture.project, &quota, fixture.site.app.now()).await.unwrap();
    fixture.site.app.usage.close().await;
    let page = fixture.get(&path).await;
    for part in [
        "Usage cannot be read at the moment, so the used part of the quota is not shown.",
        "<dt>Compute Units in 24 hours</dt><dd>250</dd>",
        "<dt>Compute Units a month</dt><dd>no limit</dd>",
        "Requests a minute",
    ] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    let saved = fixture.post(&path, &[("allowed_methods", "eth_call"), ("blocked_methods", "")]).await;
    assert_eq!(saved.status, StatusCode::SEE_OTHER, "{}", saved.text);
    let wrong = fixture.post(&path, &[("blocked_methods", "debug_*")]).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST, "{}", wrong.text);
}
