use super::*;
use crate::{AuditSubject, LimitRequest, LimitRequestId, RequestStatus, TenantChange, Verdict};

fn request(id: u128) -> LimitRequest {
    LimitRequest {
        id: LimitRequestId(id),
        tenant: TENANT,
        user: UserId(1),
        requested_tier: Tier::Enterprise,
        custom_plan: None,
        reason: "Wachstum".into(),
        status: RequestStatus::Pending,
        note: None,
        created_at: later(id as u64),
        reviewed_at: None,
        reviewer: None,
    }
}

async fn review(store: &Store, id: u128, verdict: Verdict) -> Result<LimitRequest, StoreError> {
    let reviewed = store
        .review_limit_request(LimitRequestId(id), verdict, Some("gut"), UserId(7), None, later(99))
        .await;
    reviewed.map(|(request, _)| request)
}

#[tokio::test]
async fn a_tenant_asks_for_one_plan_at_a_time() {
    let (_dir, store) = empty().await;
    store.create_limit_request(&request(1)).await.unwrap();
    let error = store.create_limit_request(&request(2)).await.unwrap_err();
    assert_eq!(error.to_string(), "there is already a pending limit request with this tenant");
    let strange = LimitRequest { tenant: OTHER, ..request(3) };
    store.create_limit_request(&strange).await.unwrap();
    assert_eq!(store.limit_requests(TENANT).await.unwrap(), [request(1)]);
    review(&store, 1, Verdict::Rejected).await.unwrap();
    store.create_limit_request(&request(2)).await.unwrap();
    let own: Vec<_> =
        store.limit_requests(TENANT).await.unwrap().into_iter().map(|request| request.id.0).collect();
    assert_eq!(own, [2, 1], "the newest first");
    let all = async |status, limit| {
        let all = store.all_limit_requests(status, None, limit).await.unwrap();
        all.into_iter().map(|request| request.id.0).collect::<Vec<_>>()
    };
    assert_eq!(all(None, 9).await, [3, 2, 1]);
    assert_eq!(all(None, 1).await, [3]);
    assert_eq!(all(Some(RequestStatus::Pending), 9).await, [3, 2]);
    assert_eq!(all(Some(RequestStatus::Rejected), 9).await, [1]);
    let nowhere = LimitRequest { tenant: TenantId(99), ..request(4) };
    let error = store.create_limit_request(&nowhere).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no such tenant");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_parallel_requests_is_created() {
    let (dir, store) = empty().await;
    let second = dir.store_within(Duration::from_secs(60)).await.unwrap();
    let made = at_once(20, |number| {
        let store = if number % 2 == 0 { store.clone() } else { second.clone() };
        async move { store.create_limit_request(&request(number)).await }
    });
    let (made, refused): (Vec<_>, Vec<_>) = made.await.into_iter().partition(Result::is_ok);
    assert_eq!(made.len(), 1);
    for error in refused {
        assert!(matches!(error, Err(StoreError::Taken { what: "pending limit request", value: "tenant" })));
    }
    assert_eq!(store.limit_requests(TENANT).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_approved_request_moves_the_tenant_to_its_plan() {
    let (_dir, store) = seeded().await;
    store.create_limit_request(&request(1)).await.unwrap();
    let expected = LimitRequest {
        status: RequestStatus::Approved,
        note: Some("gut".into()),
        reviewed_at: Some(later(99)),
        reviewer: Some(UserId(7)),
        ..request(1)
    };
    let with_audit_entry = store.with_audit_entry(entry("limit_request.approved"));
    tells(&store, Change::Tenant(TENANT), async {
        assert_eq!(review(&with_audit_entry, 1, Verdict::Approved).await?, expected);
        Ok(())
    })
    .await;
    assert_eq!(store.limit_requests(TENANT).await.unwrap(), [expected]);
    assert_eq!(found(&store).await.caller.plan, Plan::of(Tier::Enterprise));
    assert_eq!(store.tenant(OTHER).await.unwrap().unwrap().tier, Tier::Standard);
    assert_eq!(store.audit(AuditSubject::Tenant(TENANT), 9).await.unwrap().len(), 1);
    let again = async { review(&with_audit_entry, 1, Verdict::Rejected).await.map(drop) };
    assert_eq!(refused(&store, again).await, "this limit request has been decided already");
    let nothing = async { review(&with_audit_entry, 2, Verdict::Approved).await.map(drop) };
    assert_eq!(refused(&store, nothing).await, "there is no such limit request");
    assert_eq!(store.audit(AuditSubject::Tenant(TENANT), 9).await.unwrap().len(), 1);
}

// Shows (Plans, bills and payments): An old request for another plan does not replace a larger plan.
#[tokio::test]
async fn an_old_request_does_not_replace_a_larger_plan() {
    let (_dir, store) = seeded().await;
    let old = LimitRequest { requested_tier: Tier::Premium, ..request(1) };
    store.create_limit_request(&old).await.unwrap();
    let larger = TenantChange { tier: Some(Tier::Enterprise), ..TenantChange::default() };
    store.update_tenant(TENANT, &larger, now()).await.unwrap();
    let before = store.newest_change().await.unwrap();
    assert_eq!(review(&store, 1, Verdict::Approved).await.unwrap().status, RequestStatus::Approved);
    assert_eq!(store.tenant(TENANT).await.unwrap().unwrap().tier, Tier::Enterprise);
    assert_eq!(store.newest_change().await.unwrap(), before, "gateways need not hear of it");
}

#[tokio::test]
async fn a_rejected_request_changes_no_plan() {
    let (_dir, store) = seeded().await;
    store.create_limit_request(&request(1)).await.unwrap();
    let before = store.newest_change().await.unwrap();
    let decided = review(&store, 1, Verdict::Rejected).await.unwrap();
    assert_eq!((decided.status, decided.reviewer), (RequestStatus::Rejected, Some(UserId(7))));
    assert_eq!(store.newest_change().await.unwrap(), before);
    assert_eq!(found(&store).await.caller.plan, Plan::of(Tier::Standard));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_parallel_decisions_succeeds() {
    let (_dir, store) = empty().await;
    store.create_limit_request(&request(1)).await.unwrap();
    let decided = at_once(10, |number| {
        let store = store.clone();
        let verdict = if number % 2 == 0 { Verdict::Approved } else { Verdict::Rejected };
        async move { review(&store, 1, verdict).await }
    });
    let (decided, late): (Vec<_>, Vec<_>) = decided.await.into_iter().partition(Result::is_ok);
    assert_eq!(decided.len(), 1);
    assert!(late.iter().all(|late| matches!(late, Err(StoreError::Decided(_)))));
    let [Ok(decided)] = &decided[..] else { unreachable!() };
    let approved = store.tenant(TENANT).await.unwrap().unwrap().tier == Tier::Enterprise;
    assert_eq!(approved, decided.status == RequestStatus::Approved);
}

#[test]
fn names_of_states_are_read_back() {
    for status in RequestStatus::ALL {
        assert_eq!(status.name().parse(), Ok(status));
    }
    for verdict in [Verdict::Approved, Verdict::Rejected] {
        assert_eq!(verdict.status().name().parse(), Ok(verdict));
    }
    assert_eq!("pending".parse::<Verdict>().unwrap_err().to_string(), "no such status");
}
