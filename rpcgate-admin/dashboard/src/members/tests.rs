//! Tests of the team, of the audit log and of the notifications.

use super::*;
use crate::testing::Site;
use crate::testing::fixtures::use_up;
use crate::tests::hostile::{
    HOSTILE, assert_for, assert_protected, assert_shown, cookies, everybody, forged,
};
use crate::tests::{cookie, get, post};
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use std::time::Duration;

const MEMBERS: [&str; 5] = ["owner", "admin", "billing", "developer", "viewer"];

#[tokio::test]
async fn a_member_is_invited_changed_and_removed_by_its_name() {
    let site = Site::of("[admin]\nauth_per_minute = 1000\n[plans.free]\nmembers = 20\n").await;
    let all = everybody(&site).await;
    let visitors = cookies(&all);
    let of = |name: &str| visitors.iter().find(|(own, _)| *own == name).unwrap().1;
    let id_of = |name: &str| all.iter().find(|(own, ..)| *own == name).unwrap().2.user.id;
    let owner = of("owner");
    assert_for(&site, "/team", &visitors, &MEMBERS).await;

    let invited =
        post(&site, "/team/invitations", owner, &[("email", "new@example.com"), ("role", "viewer")]).await;
    assert_eq!(
        invited.leads_to(),
        (StatusCode::SEE_OTHER, "../team?done=member-invited"),
        "{}",
        invited.text
    );
    let team = get(&site, "/team", owner).await;
    let (_, rest) = team.text.split_once("team/invitations/").unwrap();
    let (_, rest) = rest.split_once("team/invitations/").unwrap_or(("", rest));
    let withdraw = format!("/team/invitations/{}", rest.split('"').next().unwrap());
    let hidden = get(&site, "/team", of("developer")).await;
    for secret in ["new@example.com", "Invite a member", "Require it for everyone", "Save the name"] {
        assert!(!hidden.text.contains(secret), "a developer does not see: {secret}");
    }
    let outsider = cookie(&site, &site.member(Role::Owner).await);
    assert_eq!(post(&site, &withdraw, &outsider, &[]).await.status, StatusCode::NOT_FOUND);
    assert_eq!(
        post(&site, &withdraw, owner, &[]).await.leads_to().1,
        "../../../team?done=invitation-withdrawn"
    );

    let role = format!("/team/members/{}/role", id_of("viewer"));
    assert_eq!(
        post(&site, &role, owner, &[("role", "billing")]).await.leads_to().1,
        "../../../team?done=role-changed"
    );
    assert_eq!(post(&site, &role, &outsider, &[("role", "owner")]).await.status, StatusCode::NOT_FOUND);
    let last = format!("/team/members/{}/role", id_of("owner"));
    let refused = post(&site, &last, owner, &[("role", "viewer")]).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert!(refused.text.contains("This is the last owner"), "{}", refused.text);
    let above = post(&site, &last, of("admin"), &[("role", "viewer")]).await;
    assert_eq!(above.status, StatusCode::FORBIDDEN, "an admin changes no owner");

    let remove = format!("/team/members/{}/remove", id_of("developer"));
    let page = get(&site, &remove, owner).await;
    let email = &all.iter().find(|(own, ..)| *own == "developer").unwrap().2.user.email;
    assert!(page.text.contains(&format!("Type <b>{email}</b> to confirm")), "{}", page.text);
    post(&site, &remove, owner, &[("confirm", "somebody")]).await.assert_wrong("confirm", "Not done: ");
    let by_viewer = post(&site, &remove, of("billing"), &[("confirm", email)]).await;
    assert_eq!(by_viewer.status, StatusCode::FORBIDDEN, "{}", by_viewer.text);
    assert_eq!(get(&site, &remove, &outsider).await.status, StatusCode::NOT_FOUND);
    let removed = post(&site, &remove, owner, &[("confirm", email)]).await;
    assert_eq!(removed.leads_to().1, "../../../team?done=member-removed");
    assert_eq!(
        get(&site, "/team", of("developer")).await.leads_to().0,
        StatusCode::SEE_OTHER,
        "the session is over"
    );
}

// Shows (Dashboard).
#[tokio::test]
async fn forms_of_the_team_are_protected_and_show_their_errors() {
    let site = Site::of("[admin]\nauth_per_minute = 1000\n").await;
    let all = everybody(&site).await;
    let visitors = cookies(&all);
    let of = |name: &str| visitors.iter().find(|(own, _)| *own == name).unwrap().1;
    let viewer = all.iter().find(|(own, ..)| *own == "viewer").unwrap().2.user.id;
    assert_protected(&site, "/team/invitations", of("admin"), of("developer")).await;
    assert_protected(&site, &format!("/team/members/{viewer}/role"), of("admin"), of("developer")).await;
    assert_protected(&site, "/team/name", of("admin"), of("developer")).await;
    assert_protected(&site, "/team/second-factor", of("owner"), of("admin")).await;
    let invite = async |email: &str, role: &str| {
        post(&site, "/team/invitations", of("admin"), &[("email", email), ("role", role)]).await
    };
    let wrong = invite("no address", "viewer").await;
    wrong.assert_wrong("email", "Not saved: ");
    assert!(wrong.text.contains("value=\"no address\""), "{}", wrong.text);
    invite("a@example.com", "emperor").await.assert_wrong("role", "Not saved: ");
    assert_eq!(
        invite("a@example.com", "owner").await.status,
        StatusCode::FORBIDDEN,
        "an admin makes no owner"
    );
    post(&site, "/team/name", of("admin"), &[("tenant_name", " ")])
        .await
        .assert_wrong("tenant_name", "Not saved: ");

    let without = post(&site, "/team/second-factor", of("owner"), &[("required", "yes")]).await;
    assert_eq!(without.status, StatusCode::CONFLICT);
    assert!(without.text.contains("Add a second factor to your own account first."), "{}", without.text);
    let optional = post(&site, "/team/second-factor", of("owner"), &[("required", "no")]).await;
    assert_eq!(optional.leads_to().1, "../team?done=factor-optional");
}

// Shows (Dashboard).
#[tokio::test]
async fn names_are_shown_and_none_is_run() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let own = cookie(&site, &owner);
    for name in HOSTILE {
        site.app.store.rename_user(owner.user.id, name).await.unwrap();
        let saved = post(&site, "/team/name", &own, &[("tenant_name", name)]).await;
        assert_eq!(saved.leads_to().1, "../team?done=tenant-renamed", "{}", saved.text);
        site.clock.advance(Duration::from_millis(1));
        assert_shown(&get(&site, "/team", &own).await, name);
        // The entry has the name of the tenant as a detail, and the user as its author.
        assert_shown(&get(&site, "/audit", &own).await, name);
    }
}

#[tokio::test]
async fn the_audit_is_filtered_paged_and_saved() {
    let site = Site::new().await;
    let all = everybody(&site).await;
    let visitors = cookies(&all);
    let of = |name: &str| visitors.iter().find(|(own, _)| *own == name).unwrap().1;
    assert_for(&site, "/audit", &visitors, &MEMBERS).await;
    for number in 0..60 {
        let name = format!("=Name {number}.");
        assert_eq!(
            post(&site, "/team/name", of("owner"), &[("tenant_name", &name)]).await.status,
            StatusCode::SEE_OTHER
        );
        site.clock.advance(Duration::from_millis(1));
    }
    let first = get(&site, "/audit?action=tenant", of("admin")).await;
    assert!(first.text.contains("=Name 58.") && !first.text.contains("=Name 9."), "{}", first.text);
    assert!(!first.text.contains("session.opened"), "the filter holds: {}", first.text);
    let (_, rest) = first.text.split_once("href=\"audit?action=tenant&#38;before=").unwrap();
    let next = format!("/audit?action=tenant&before={}", rest.split('"').next().unwrap());
    let second = get(&site, &next, of("admin")).await;
    assert!(second.text.contains("=Name 0.") && !second.text.contains("=Name 58."), "{}", second.text);

    let own = get(&site, "/audit", of("developer")).await;
    assert!(own.text.contains("session.opened") && !own.text.contains("tenant.renamed"), "{}", own.text);
    let file = get(&site, "/audit.csv?action=tenant", of("admin")).await;
    assert!(file.header(CONTENT_TYPE).starts_with("text/csv"));
    assert_eq!(file.header(CONTENT_DISPOSITION), "attachment; filename=\"audit.csv\"");
    assert!(file.text.starts_with('\u{feff}'), "spreadsheets see by it that this is UTF-8");
    assert_eq!(file.text.lines().count(), 61);
    assert!(file.text.contains(",'=Name 0."), "no spreadsheet runs it: {}", file.text);
    assert!(!get(&site, "/audit.csv", of("developer")).await.text.contains("tenant.renamed"));

    let of_day = get(&site, "/audit?from=2026-12-31&to=2026-12-31&action=tenant", of("admin")).await;
    assert!(of_day.text.contains("=Name 58."), "the last day is included");
    assert!(get(&site, "/audit?to=2026-12-30", of("admin")).await.text.contains("No entries"));
    get(&site, "/audit?from=yesterday", of("admin")).await.assert_wrong("from", "Not shown: ");
    get(&site, "/audit?user=me", of("admin")).await.assert_wrong("user", "Not shown: ");
    assert_eq!(get(&site, "/audit?before=x", of("admin")).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn notifications_are_read_one_by_one_or_all_at_once_by_each_user() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let own = cookie(&site, &owner);
    let viewer = site.visitor(Some(tenant), Role::Viewer).await;
    let viewer = cookie(&site, &viewer);
    assert!(get(&site, "/notifications", &own).await.text.contains("Nothing to read"));
    use_up(&site, tenant).await;
    let list = get(&site, "/notifications", &own).await;
    assert!(list.text.contains("60 calls were refused with 429 within a minute"), "{}", list.text);
    assert!(list.text.contains("Notifications, 2 unread"), "the bell counts: {}", list.text);
    let (_, rest) = list.text.split_once("notifications/read\"").unwrap();
    let (_, rest) = rest.split_once("action=\"notifications/").unwrap();
    let path = format!("/notifications/{}", rest.split('"').next().unwrap());
    let outsider = cookie(&site, &site.member(Role::Owner).await);
    assert_eq!(post(&site, &path, &outsider, &[]).await.status, StatusCode::NOT_FOUND);
    for forgery in [path.as_str(), "/notifications/read"] {
        assert_eq!(forged(&site, forgery, &own, &[]).await.status, StatusCode::FORBIDDEN);
    }
    let read = post(&site, &path, &own, &[]).await;
    assert_eq!(read.leads_to(), (StatusCode::SEE_OTHER, "../../notifications?done=notification-read"));
    let unread = get(&site, "/notifications?show=unread", &own).await;
    assert_eq!(unread.text.matches("Mark as read").count(), 1, "{}", unread.text);
    let read = post(&site, "/notifications/read", &own, &[]).await;
    assert_eq!(read.leads_to(), (StatusCode::SEE_OTHER, "../notifications?done=all-read"));
    assert!(get(&site, "/notifications?show=unread", &own).await.text.contains("Nothing to read"));
    let theirs = get(&site, "/notifications", &viewer).await;
    assert_eq!(theirs.text.matches("Mark as read").count(), 2, "others have marks of their own");
    assert!(get(&site, "/notifications?page=9", &own).await.text.contains("Nothing to read"));
    assert_eq!(get(&site, "/notifications?page=x", &own).await.status, StatusCode::BAD_REQUEST);
    let operator = cookie(&site, &site.operator().await);
    assert_eq!(get(&site, "/notifications", &operator).await.status, StatusCode::NOT_FOUND);
}
