//! Tests of the list of tenants, of a tenant, its quotas and its state.

use super::super::tests::fixture::OperatorFixture;
use crate::testing::NOON;
use crate::tests::hostile::{HOSTILE, assert_shown};
use http::StatusCode;
use rpcgate_config::Plans;
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::plan::Tier;
use rpcgate_store::{Tenant, fresh_id};

// Shows (Dashboard): Pages of operators do not exist for members, lead visitors to the log-in, and refuse forms without
// their token.
#[tokio::test]
async fn pages_of_tenants_are_for_operators_alone() {
    let fixture = OperatorFixture::named("Acme").await;
    let path = format!("/operator/tenants/{}", fixture.tenant);
    fixture.assert_operators("/operator/tenants").await;
    fixture.assert_operators(&path).await;
    for act in ["suspend", "reactivate", "delete"] {
        fixture.assert_operators(&format!("{path}/{act}")).await;
        fixture.assert_guarded(&format!("{path}/{act}")).await;
        let unknown = fixture.get(&format!("/operator/tenants/{}/{act}", TenantId(7))).await;
        assert_eq!(unknown.status, StatusCode::NOT_FOUND, "{act}");
    }
    fixture.assert_guarded(&format!("{path}/plan")).await;
    fixture.assert_guarded(&format!("{path}/projects/{}/quota", fixture.project)).await;
    for unknown in ["/operator/tenants/x".to_owned(), format!("/operator/tenants/{}", TenantId(7))] {
        assert_eq!(fixture.get(&unknown).await.status, StatusCode::NOT_FOUND, "{unknown}");
    }
    assert_eq!(fixture.site.app.store.tenant(fixture.tenant).await.unwrap().unwrap().name, "Acme");
}

// Shows (Dashboard): No stored text is markup on a page of operators (promise 41).
#[tokio::test]
async fn no_name_is_markup() {
    for hostile in HOSTILE {
        let fixture = OperatorFixture::named(hostile).await;
        fixture.request(hostile).await;
        let path = format!("/operator/tenants/{}", fixture.tenant);
        assert_shown(&fixture.get("/operator/tenants").await, hostile);
        assert_shown(&fixture.get(&path).await, hostile);
        for act in ["suspend", "reactivate", "delete"] {
            assert_shown(&fixture.get(&format!("{path}/{act}")).await, hostile);
        }
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("name", hostile).finish();
        assert_shown(&fixture.get(&format!("/operator/tenants?{query}")).await, hostile);
    }
}

// Shows (Management).
// Shows (Dashboard): Operators filter tenants, move, suspend, reactivate and delete them, and set quotas; ending
// something in use requires its name.
#[tokio::test]
async fn tenants_are_filtered_and_listed_in_parts() {
    let fixture = OperatorFixture::named("Acme").await;
    let mut last = String::new();
    for number in 0..50 {
        let tenant = Tenant {
            suspended: number == 3,
            ..Tenant::new(
                TenantId(fresh_id(fixture.site.app.now())),
                format!("Bank {number}."),
                Tier::Premium,
                NOON,
            )
        };
        fixture.site.app.store.create_tenant(&tenant).await.unwrap();
        last = tenant.id.to_string();
        fixture.site.clock.advance(std::time::Duration::from_millis(1));
    }
    let first = fixture.get("/operator/tenants").await.text;
    assert!(first.contains("Acme") && first.contains("Bank 48.") && !first.contains("Bank 49."), "{first}");
    let next = first.split("operator/tenants?after=").nth(1).unwrap().split('"').next().unwrap();
    let second = fixture.get(&format!("/operator/tenants?after={next}")).await.text;
    assert!(
        second.contains("Bank 49.") && second.contains(&last) && !second.contains("Bank 48."),
        "{second}"
    );
    let has = async |query: &str, shown: &str, hidden: &str| {
        let page = fixture.get(&format!("/operator/tenants?{query}")).await;
        assert_eq!(page.status, StatusCode::OK, "{query}: {}", page.text);
        assert!(page.text.contains(shown) && !page.text.contains(hidden), "{query}: {}", page.text);
    };
    has("plan=premium", "Bank 0.", ">Acme<").await;
    has("plan=free", ">Acme<", "Bank 0.").await;
    has("state=suspended", "Bank 3.", "Bank 4.").await;
    has("state=active&plan=premium", "Bank 4.", "Bank 3.").await;
    has("name=Acme", ">Acme<", "Bank 0.").await;
    has("name=Nobody", "No tenant matches", ">Acme<").await;
    has("name=CM", ">Acme<", "Bank 0.").await;
    has("name=bank+3.&state=suspended", "Bank 3.", "Bank 30.").await;
    has("name=bank&plan=free", "No tenant matches", "Bank 0.").await;
    has(&format!("name={}", fixture.owner.user.email.to_uppercase()), ">Acme<", "Bank 0.").await;
    has(&format!("name={last}"), "Bank 49.", "Bank 48.").await;
    has("name=%25", "No tenant matches", "Bank 0.").await;
    let first = fixture.get("/operator/tenants?name=BANK").await.text;
    assert!(first.contains("Bank 49.") && !first.contains("rel=\"prev\""), "fifty of fifty: {first}");
    let long = format!("/operator/tenants?name={}", "a".repeat(255));
    fixture.get(&long).await.assert_wrong("name", "Not shown: ");
    for (wrong, field) in [("plan=gold", "plan"), ("state=odd", "state")] {
        fixture.get(&format!("/operator/tenants?{wrong}")).await.assert_wrong(field, "Not shown: ");
    }
    assert_eq!(fixture.get("/operator/tenants?after=x").await.status, StatusCode::BAD_REQUEST);
}

// Shows (Dashboard).
#[tokio::test]
async fn a_tenant_is_moved_to_another_plan() {
    let fixture = OperatorFixture::named("Acme").await;
    let path = format!("/operator/tenants/{}", fixture.tenant);
    let moved = fixture.post(&format!("{path}/plan"), &[("plan", "premium")]).await;
    assert_eq!(moved.status, StatusCode::SEE_OTHER, "{}", moved.text);
    assert!(moved.leads_to().1.ends_with(&format!("operator/tenants/{}?done=tenant-moved", fixture.tenant)));
    assert_eq!(fixture.site.app.store.tenant(fixture.tenant).await.unwrap().unwrap().tier, Tier::Premium);
    let page = fixture.get(&format!("{path}?done=tenant-moved")).await.text;
    assert!(page.contains("The tenant is on the plan.") && page.contains("tenant.changed"), "{page}");
    fixture.post(&format!("{path}/plan"), &[("plan", "<b>")]).await.assert_wrong("plan", "Not saved: ");
    let unknown = fixture.post(&format!("/operator/tenants/{}/plan", TenantId(7)), &[("plan", "free")]).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

// Shows (Dashboard).
#[tokio::test]
async fn a_quota_is_set_and_removed() {
    let fixture = OperatorFixture::named("Acme").await;
    fixture.calls(2, 30).await;
    let path = format!("/operator/tenants/{}", fixture.tenant);
    let quota = format!("{path}/projects/{}/quota", fixture.project);
    let set = [("cu_per_day", "300,000"), ("cu_per_month", ""), ("rps_limit", "5"), ("do", "save")];
    let saved = fixture.post(&quota, &set).await;
    assert!(saved.leads_to().1.ends_with("?done=quota-saved"), "{}", saved.text);
    let stored = fixture
        .site
        .app
        .store
        .quota(fixture.tenant, fixture.project, &Plans::default(), NOON)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((stored.cu_per_day, stored.cu_per_month, stored.rps_limit), (300_000, None, Some(5)));
    let page = fixture.get(&path).await.text;
    assert!(page.contains("value=\"300000\"") && page.contains("value=\"default\""), "{page}");
    let wrong = fixture.post(&quota, &[("cu_per_day", "many"), ("do", "save")]).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert!(
        wrong.text.contains("<a href=\"#cu_per_day\">Acme, CU per day: Enter a number, such as 1,000.</a>"),
        "{}",
        wrong.text
    );
    assert!(wrong.text.contains("id=\"cu_per_day\" aria-invalid=\"true\""), "{}", wrong.text);
    assert!(wrong.text.contains("value=\"many\""), "what was typed is kept: {}", wrong.text);
    let removed = fixture.post(&quota, &[("do", "default")]).await;
    assert!(removed.leads_to().1.ends_with("?done=quota-removed"), "{}", removed.text);
    let stored = fixture
        .site
        .app
        .store
        .quota(fixture.tenant, fixture.project, &Plans::default(), NOON)
        .await
        .unwrap()
        .unwrap();
    assert!(!stored.has_row);
    let other = fixture.site.tenant().await;
    for (tenant, project) in [(fixture.tenant, ProjectId(7)), (other, fixture.project)] {
        let path = format!("/operator/tenants/{tenant}/projects/{project}/quota");
        assert_eq!(fixture.post(&path, &set).await.status, StatusCode::NOT_FOUND, "{path}");
    }
}

// Shows (Dashboard).
#[tokio::test]
async fn a_tenant_in_use_is_suspended_only_under_its_name_and_reactivated() {
    let fixture = OperatorFixture::named("Acme").await;
    let path = format!("/operator/tenants/{}", fixture.tenant);
    let quiet = fixture.get(&format!("{path}/suspend")).await.text;
    assert!(!quiet.contains("name=\"confirm\"") && !quiet.contains("is in use"), "{quiet}");
    fixture.calls(1_204, 1).await;
    let question = fixture.get(&format!("{path}/suspend")).await.text;
    assert!(
        question.contains("1,204 requests in the last 24 hours, with 0 keys on 1 project."),
        "{question}"
    );
    assert!(question.contains("name=\"confirm\""), "{question}");
    let is_suspended =
        async || fixture.site.app.store.tenant(fixture.tenant).await.unwrap().unwrap().suspended;
    for wrong in ["", "acme"] {
        let refused = fixture.post(&format!("{path}/suspend"), &[("confirm", wrong)]).await;
        refused.assert_wrong("confirm", "Not done: ");
        assert!(!is_suspended().await);
    }
    let done = fixture.post(&format!("{path}/suspend"), &[("confirm", "Acme")]).await;
    assert!(done.leads_to().1.ends_with("?done=tenant-suspended"), "{}", done.text);
    assert!(is_suspended().await);
    let page = fixture.get(&path).await.text;
    assert!(page.contains("Reactivate…") && !page.contains("Suspend…"), "{page}");
    let done = fixture.post(&format!("{path}/reactivate"), &[]).await;
    assert!(done.leads_to().1.ends_with("?done=tenant-reactivated"), "{}", done.text);
    assert!(!is_suspended().await);
}

#[tokio::test]
async fn a_tenant_is_suspended_while_its_use_cannot_be_read() {
    let fixture = OperatorFixture::named("Acme").await;
    let path = format!("/operator/tenants/{}/suspend", fixture.tenant);
    fixture.site.app.usage.close().await;
    let page = fixture.get(&path).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    assert!(
        page.text.contains("The usage of this tenant cannot be read at the moment.")
            && page.text.contains("name=\"confirm\""),
        "{}",
        page.text
    );
    fixture.post(&path, &[]).await.assert_wrong("confirm", "Not done: ");
    let done = fixture.post(&path, &[("confirm", "Acme")]).await;
    assert!(done.leads_to().1.ends_with("?done=tenant-suspended"), "{}", done.text);
    assert!(fixture.site.app.store.tenant(fixture.tenant).await.unwrap().unwrap().suspended);
}

// Shows (Dashboard).
#[tokio::test]
async fn a_tenant_is_deleted_only_under_its_name_and_not_while_it_owes_something() {
    let fixture = OperatorFixture::named("Acme").await;
    let path = format!("/operator/tenants/{}/delete", fixture.tenant);
    let page = fixture.get(&path).await.text;
    assert!(page.contains("1 member, 1 project and 0 keys that can be used are deleted"), "{page}");
    fixture.post(&path, &[("confirm", "Acne")]).await.assert_wrong("confirm", "Not done: ");
    crate::testing::fixtures::issue(&fixture.site, fixture.tenant).await;
    assert!(fixture.get(&path).await.text.contains("It owes something."));
    let refused = fixture.post(&path, &[("confirm", "Acme")]).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text);
    let other = OperatorFixture::named("Other").await;
    let path = format!("/operator/tenants/{}/delete", other.tenant);
    let done = other.post(&path, &[("confirm", "Other")]).await;
    assert!(done.leads_to().1.ends_with("operator/tenants?done=tenant-deleted"), "{}", done.text);
    assert!(other.site.app.store.tenant(other.tenant).await.unwrap().is_none());
    assert_eq!(other.get(&path).await.status, StatusCode::NOT_FOUND);
}
