use super::*;
use crate::AuditSubject;

async fn actions(store: &Store, whose: AuditSubject, limit: u64) -> Vec<String> {
    store.audit(whose, limit).await.unwrap().into_iter().map(|entry| entry.action).collect()
}

#[tokio::test]
async fn an_audit_entry_exists_exactly_if_its_write_does() {
    let (_dir, store) = empty().await;
    let noted = Audit { subject: KEY.to_string(), detail: "ü\n\"".into(), ..entry("key.created") };
    let with_audit_entry = store.with_audit_entry(noted.clone());
    with_audit_entry.create_key(&key(KEY, hash()), now()).await.unwrap();
    assert_eq!(store.audit(AuditSubject::Tenant(TENANT), 9).await.unwrap(), std::slice::from_ref(&noted));
    with_audit_entry.create_key(&key(KEY, hash()), now()).await.unwrap_err();
    with_audit_entry.suspend(TenantId(99), now()).await.unwrap_err();
    store.suspend(TENANT, now()).await.unwrap();
    assert_eq!(store.audit(AuditSubject::Tenant(TENANT), 9).await.unwrap(), [noted]);
}

#[tokio::test]
async fn entries_of_a_tenant_or_of_a_user_are_listed_newest_first() {
    let (_dir, store) = empty().await;
    for (number, (tenant, user)) in
        [(Some(TENANT), Some(1)), (Some(OTHER), Some(1)), (Some(TENANT), None), (None, Some(1))]
            .into_iter()
            .enumerate()
    {
        let at = later(number as u64);
        let noted = Audit { tenant, user: user.map(UserId), at, ..entry(&number.to_string()) };
        store.note(&noted).await.unwrap();
    }
    assert_eq!(actions(&store, AuditSubject::Tenant(TENANT), 9).await, ["2", "0"]);
    assert_eq!(actions(&store, AuditSubject::Tenant(OTHER), 9).await, ["1"]);
    assert_eq!(actions(&store, AuditSubject::User(UserId(1)), 9).await, ["3", "1", "0"]);
    assert_eq!(actions(&store, AuditSubject::User(UserId(1)), 2).await, ["3", "1"]);
    assert!(actions(&store, AuditSubject::User(UserId(2)), 9).await.is_empty());
}

#[tokio::test]
async fn at_most_a_thousand_entries_are_listed_and_old_ones_are_swept() {
    let (_dir, store) = empty().await;
    let noted = entry("old");
    store
        .transact(async |transaction| {
            for _ in 0..1_200 {
                super::super::audit::append(transaction, &noted).await?;
            }
            Ok(())
        })
        .await
        .unwrap();
    store.note(&Audit { at: later(1), ..entry("new") }).await.unwrap();
    assert_eq!(actions(&store, AuditSubject::Tenant(TENANT), u64::MAX).await.len(), 1_000);
    let days = 400 * 86_400;
    assert_eq!(store.sweep(later(days - 1)).await.unwrap().audit, 0);
    assert_eq!(store.sweep(later(days)).await.unwrap().audit, 1_200, "in several steps");
    assert_eq!(actions(&store, AuditSubject::Tenant(TENANT), 9).await, ["new"]);
}

#[tokio::test]
async fn entries_of_one_moment_keep_their_order() {
    let (_dir, store) = empty().await;
    let written: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    for action in &written {
        store.note(&entry(action)).await.unwrap();
    }
    let reported = actions(&store, AuditSubject::Tenant(TENANT), 1_000).await;
    assert!(reported.iter().rev().eq(&written), "{reported:?}");
    store.note(&Audit { at: Time::from_micros(now().micros() - 1), ..entry("earlier") }).await.unwrap();
    assert_eq!(actions(&store, AuditSubject::Tenant(TENANT), 1_000).await.last().unwrap(), "earlier");
}

#[tokio::test]
async fn a_simulated_attempt_leaves_no_entry() {
    let (_dir, store) = empty().await;
    store.note(&entry("first")).await.unwrap();
    store.simulate_note(&entry("simulated")).await.unwrap();
    store.note(&entry("second")).await.unwrap();
    assert_eq!(actions(&store, AuditSubject::Tenant(TENANT), 9).await, ["second", "first"]);
}

// Shows (Management): The audit of a tenant is bounded (promise 70).
#[tokio::test]
async fn the_newest_audit_entries_of_a_tenant_are_kept_even_if_one_user_makes_many() {
    let (_dir, store) = empty().await;
    for tenant in [TENANT, OTHER] {
        store.note(&Audit { tenant: Some(tenant), ..entry("first") }).await.unwrap();
    }
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200100) \
               INSERT INTO audit (tenant_id, user_id, action, subject, address, at, detail) \
               SELECT tenant_id, user_id, 'many', subject, address, at + i, detail FROM n, audit \
               WHERE number = (SELECT MIN(number) FROM audit)";
    fill(&store, sql).await;
    let last = Audit { at: later(7), ..entry("last") };
    store.note(&last).await.unwrap();
    let kept = rows(&store, "audit").await;
    assert!((199_000..=200_001).contains(&kept), "{kept}");
    assert_eq!(actions(&store, AuditSubject::Tenant(TENANT), 2).await, ["last", "many"]);
    assert_eq!(rows(&store, "audit WHERE action = 'first'").await, 1, "the other tenant's");
}
