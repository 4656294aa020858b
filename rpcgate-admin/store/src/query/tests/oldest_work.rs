//! Tests of the work that waits for operators, and of the names in it.

use super::*;
use crate::{LimitRequest, LimitRequestId, RequestStatus, Verdict};

fn request(id: u128, tenant: TenantId) -> LimitRequest {
    LimitRequest {
        id: LimitRequestId(id),
        tenant,
        user: UserId(1),
        requested_tier: Tier::Enterprise,
        custom_plan: None,
        reason: "Wachstum".into(),
        status: RequestStatus::Pending,
        note: None,
        created_at: later(100 - id as u64),
        reviewed_at: None,
        reviewer: None,
    }
}

// Shows (Dashboard).
#[tokio::test]
async fn the_oldest_waiting_work_is_first_and_decided_work_is_not_listed() {
    let (_site, store) = empty().await;
    store.create_limit_request(&request(1, TENANT)).await.unwrap();
    store.create_limit_request(&request(2, OTHER)).await.unwrap();
    let waiting = async |after, limit| -> Vec<u128> {
        let found = store.oldest_limit_requests(after, limit).await.unwrap();
        found.into_iter().map(|request| request.id.0).collect()
    };
    assert_eq!((waiting(None, 9).await, waiting(None, 1).await), (vec![2, 1], vec![2]));
    assert_eq!(waiting(Some((later(98), LimitRequestId(2))), 9).await, [1]);
    assert!(waiting(Some((later(99), LimitRequestId(1))), 9).await.is_empty());
    let decided = (LimitRequestId(2), Verdict::Rejected);
    store.review_limit_request(decided.0, decided.1, None, UserId(7), None, later(200)).await.unwrap();
    assert_eq!(waiting(None, 9).await, [1]);
    assert!(store.oldest_tickets(None, 9).await.unwrap().is_empty());
    assert!(store.oldest_overdue(None, 9, later(9)).await.unwrap().is_empty());
}

#[tokio::test]
async fn names_are_those_of_what_exists() {
    let (_site, store) = empty().await;
    let names = store.tenant_names(&[TENANT, TenantId(99)]).await.unwrap();
    assert_eq!(names, [(TENANT, "Örtliche Bank".to_owned())].into());
    let ada = User { name: String::new(), ..user(70, "ada@example.com") };
    let bob = User { name: "Bob".into(), ..user(71, "bob@example.com") };
    store.create_user(&ada).await.unwrap();
    store.create_user(&bob).await.unwrap();
    let names = store.user_names(&[ada.id, bob.id, UserId(99)]).await.unwrap();
    assert_eq!(names, [(ada.id, "ada@example.com".to_owned()), (bob.id, "Bob".to_owned())].into());
    assert!(
        store.tenant_names(&[]).await.unwrap().is_empty() && store.user_names(&[]).await.unwrap().is_empty()
    );
}
