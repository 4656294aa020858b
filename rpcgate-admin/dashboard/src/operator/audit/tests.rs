//! Tests of the audit log of all tenants.

use super::super::tests::fixture::OperatorFixture;
use crate::tests::hostile::{HOSTILE, assert_shown};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use rpcgate_store::Audit;

// Shows (Dashboard).
#[tokio::test]
async fn entries_are_filtered_and_come_as_a_file() {
    let fixture = OperatorFixture::named("Acme").await;
    fixture.assert_operators("/operator/audit").await;
    fixture.assert_operators("/operator/audit.csv").await;
    fixture.post(&format!("/operator/tenants/{}/plan", fixture.tenant), &[("plan", "premium")]).await;
    let has = async |query: &str| {
        let page = fixture.get(&format!("/operator/audit?{query}")).await;
        assert_eq!(page.status, StatusCode::OK, "{query}: {}", page.text);
        page.text.contains("<code>tenant.changed</code>")
    };
    let tenant = fixture.tenant;
    let operator = fixture.operator.user.id;
    for found in [
        String::new(),
        "action=tenant".into(),
        format!("tenant={tenant}"),
        format!("user={operator}"),
        format!("subject={tenant}"),
        "from=2026-12-31&to=2026-12-31".into(),
    ] {
        assert!(has(&found).await, "{found}");
    }
    for other in
        ["action=key".into(), format!("user={}", fixture.owner.user.id), "from=2027-01-02".to_owned()]
    {
        assert!(!has(&other).await, "{other}");
    }
    for field in ["tenant", "user", "from", "to"] {
        let page = fixture.get(&format!("/operator/audit?{field}=x")).await;
        page.assert_wrong(field, "Not shown: ");
    }
    assert_eq!(fixture.get("/operator/audit?before=x").await.status, StatusCode::BAD_REQUEST);
    let file = fixture.get(&format!("/operator/audit.csv?tenant={tenant}&action=tenant")).await;
    assert!(file.header(CONTENT_TYPE).starts_with("text/csv"), "{file:?}");
    assert!(file.text.contains("tenant.changed") && !file.text.contains("session.opened"), "{}", file.text);
    assert_eq!(fixture.get("/operator/audit.csv?user=x").await.status, StatusCode::BAD_REQUEST);
}

// Shows (Dashboard).
#[tokio::test]
async fn no_entry_is_markup() {
    for hostile in HOSTILE {
        let fixture = OperatorFixture::named(hostile).await;
        let entry = Audit {
            tenant: Some(fixture.tenant),
            user: None,
            action: hostile.into(),
            subject: hostile.into(),
            address: hostile.into(),
            at: fixture.site.app.now(),
            detail: hostile.into(),
        };
        fixture.site.app.store.note(&entry).await.unwrap();
        assert_shown(&fixture.get("/operator/audit").await, hostile);
        assert_shown(&fixture.get(&format!("/operator/tenants/{}", fixture.tenant)).await, hostile);
    }
}

#[tokio::test]
async fn many_entries_are_listed_in_parts() {
    let fixture = OperatorFixture::named("Acme").await;
    for number in 0..60 {
        let entry = Audit {
            tenant: None,
            user: None,
            action: "sample.made".into(),
            subject: format!("number-{number}."),
            address: String::new(),
            at: fixture.site.app.now(),
            detail: String::new(),
        };
        fixture.site.app.store.note(&entry).await.unwrap();
    }
    let first = fixture.get("/operator/audit?action=sample").await.text;
    assert!(
        first.contains("number-59.") && first.contains("number-10.") && !first.contains("number-9."),
        "{first}"
    );
    let next = first.split("before=").nth(1).unwrap().split('"').next().unwrap();
    let second = fixture.get(&format!("/operator/audit?action=sample&before={next}")).await.text;
    assert!(second.contains("number-9.") && !second.contains("number-10."), "{second}");
}
