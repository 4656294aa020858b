use super::*;
use crate::query::explanations::MAX_ASKED;
use crate::{Explanation, ExplanationRequest};
use rpcgate_core::caller::RequestId;

const REQUEST: RequestId = RequestId(77);

fn explanation() -> Explanation {
    Explanation { chain: "eth".into(), tenant: TENANT.to_string(), ..Explanation::default() }
}

#[tokio::test]
async fn a_gateway_finds_what_is_asked_and_its_answer_arrives() {
    let (_dir, store) = empty().await;
    let asked = store.ask_explanation(REQUEST, Some(TENANT), now()).await.unwrap();
    let open = ExplanationRequest { id: asked, request: REQUEST, tenant: Some(TENANT) };
    assert_eq!(store.open_explanation_requests(later(1)).await.unwrap(), [open]);
    assert_eq!(store.explanation(asked).await.unwrap(), None);
    store.answer_explanation_request(asked, TENANT, &explanation()).await.unwrap();
    assert_eq!(store.explanation(asked).await.unwrap(), Some(explanation()));
    assert_eq!(store.open_explanation_requests(later(1)).await.unwrap(), []);
}

#[tokio::test]
async fn an_answer_is_known_for_a_minute_to_its_owner_and_to_operators() {
    let (_dir, store) = empty().await;
    let asked = store.ask_explanation(REQUEST, None, now()).await.unwrap();
    store.answer_explanation_request(asked, TENANT, &explanation()).await.unwrap();
    for (asker, expected) in [(None, true), (Some(TENANT), true), (Some(OTHER), false)] {
        let known = store.known_explanation(REQUEST, asker, later(59)).await.unwrap();
        assert_eq!(known.is_some(), expected, "{asker:?}");
        assert_eq!(store.known_explanation(REQUEST, asker, later(60)).await.unwrap(), None);
        assert_eq!(store.known_explanation(RequestId(78), asker, now()).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_gateway_cannot_answer_to_another_tenant_than_the_owner() {
    let (_dir, store) = empty().await;
    let asked = store.ask_explanation(REQUEST, Some(OTHER), now()).await.unwrap();
    store.answer_explanation_request(asked, TENANT, &explanation()).await.unwrap();
    assert_eq!(store.explanation(asked).await.unwrap(), None);
    store.end_asking(asked).await.unwrap();
    store.answer_explanation_request(asked, TENANT, &explanation()).await.unwrap();
    assert_eq!(store.explanation(asked).await.unwrap(), None);
    for asker in [None, Some(TENANT), Some(OTHER)] {
        assert_eq!(store.known_explanation(REQUEST, asker, later(1)).await.unwrap(), None, "{asker:?}");
    }
}

// Shows (Traces, logs and metrics).
#[tokio::test]
async fn unexplained_requests_count_like_explained_ones() {
    let (_dir, store) = empty().await;
    let mut asked = 0;
    for _ in 0..MAX_ASKED {
        asked = store.ask_explanation(REQUEST, Some(TENANT), now()).await.unwrap();
        store.end_asking(asked).await.unwrap();
        assert_eq!(store.explanation(asked).await.unwrap(), None);
    }
    assert_eq!(
        store.open_explanation_requests(later(1)).await.unwrap(),
        [],
        "gateways search for it no more"
    );
    assert_eq!(store.known_explanation(REQUEST, None, later(1)).await.unwrap(), None);
    let refused = store.ask_explanation(REQUEST, Some(TENANT), later(59)).await;
    assert!(matches!(refused, Err(StoreError::Busy)), "{refused:?}");
    store.answer_explanation_request(asked, TENANT, &explanation()).await.unwrap();
    let late = store.known_explanation(REQUEST, Some(TENANT), later(59)).await.unwrap();
    assert_eq!(late, Some(explanation()), "an answer that came late is given to the next who asks");
    store.ask_explanation(REQUEST, Some(TENANT), later(60)).await.unwrap();
}

// Shows (Traces, logs and metrics).
#[tokio::test]
async fn a_tenant_may_ask_so_often_in_a_minute_and_takes_nothing_from_others() {
    let (_dir, store) = empty().await;
    for _ in 0..MAX_ASKED {
        store.ask_explanation(REQUEST, Some(TENANT), now()).await.unwrap();
    }
    let refused = store.ask_explanation(REQUEST, Some(TENANT), later(59)).await;
    assert!(matches!(refused, Err(StoreError::Busy)), "{refused:?}");
    for other in [Some(OTHER), None] {
        store.ask_explanation(REQUEST, other, later(59)).await.unwrap();
    }
    store.ask_explanation(REQUEST, Some(TENANT), later(60)).await.unwrap();
    assert_eq!(rows(&store, "explanation_requests").await, 3, "the old ones are gone");
}

// Shows (Traces, logs and metrics).
#[tokio::test]
async fn expired_rows_that_are_not_removed_yet_do_not_count_for_their_tenant() {
    let (_dir, store) = empty().await;
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
               INSERT INTO explanation_requests (id, request, tenant_id, asked_at) \
               SELECT randomblob(16), randomblob(16), (SELECT id FROM tenants ORDER BY id LIMIT 1), \
               1790000000123456 FROM n";
    fill(&store, sql).await;
    store.ask_explanation(REQUEST, Some(TENANT), later(60)).await.unwrap();
    assert_eq!(rows(&store, "explanation_requests").await, 901, "one write removes some");
}

// Shows (Traces, logs and metrics).
#[tokio::test]
async fn all_tenants_together_are_bounded_and_keep_no_operator_from_asking() {
    let (_dir, store) = empty().await;
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
               INSERT INTO explanation_requests (id, request, tenant_id, asked_at) \
               SELECT randomblob(16), randomblob(16), randomblob(16), 1790000000123456 FROM n";
    fill(&store, sql).await;
    let refused = store.ask_explanation(REQUEST, Some(TENANT), later(1)).await;
    assert!(matches!(refused, Err(StoreError::Busy)), "{refused:?}");
    for _ in 0..MAX_ASKED {
        store.ask_explanation(REQUEST, None, later(1)).await.unwrap();
    }
    let refused = store.ask_explanation(REQUEST, None, later(1)).await;
    assert!(matches!(refused, Err(StoreError::Busy)), "{refused:?}");
    assert_eq!(store.open_explanation_requests(later(1)).await.unwrap().len() as u64, 1_000 + MAX_ASKED);
    assert_eq!(store.sweep(later(60)).await.unwrap().explanations, 1_000);
    store.ask_explanation(REQUEST, Some(TENANT), later(60)).await.unwrap();
}

#[tokio::test]
async fn a_gateway_that_has_reported_lately_is_known() {
    let (_dir, store) = empty().await;
    assert!(!store.has_gateway(now()).await.unwrap());
    let report = crate::GatewayReport { id: 5, at: later(10), nodes: Vec::new() };
    store.put_report(&report, &[]).await.unwrap();
    assert!(store.has_gateway(later(9)).await.unwrap());
    assert!(!store.has_gateway(later(10)).await.unwrap());
}
