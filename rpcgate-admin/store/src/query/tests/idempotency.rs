use super::*;
use crate::{ANSWER_KEPT, KeyedRequest, Run, RunOutcome, Swept};

fn keyed(key: &str, request: &str) -> KeyedRequest {
    KeyedRequest { owner: TENANT.0, key: Digest::of(key), request: Digest::of(request) }
}

fn run(key: &str, id: u128) -> Run {
    Run { owner: TENANT.0, key: Digest::of(key), id }
}

async fn begin(store: &Store, key: &str, request: &str, id: u128, at: Time) -> RunOutcome {
    store.begin_run(&keyed(key, request), id, at).await.unwrap()
}

#[tokio::test]
async fn a_request_is_answered_once_and_then_gets_the_same_answer_for_24_hours() {
    let (_dir, store) = empty().await;
    assert_eq!(begin(&store, "k", "a", 1, now()).await, RunOutcome::Begun);
    assert_eq!(begin(&store, "k", "a", 2, now()).await, RunOutcome::Running);
    assert_eq!(begin(&store, "k", "b", 3, now()).await, RunOutcome::Different);
    assert_eq!(begin(&store, "l", "b", 4, now()).await, RunOutcome::Begun, "another key");
    store.keep_answer(&run("k", 1), 201, Some(vec![7])).await.unwrap();
    let kept = RunOutcome::Answered { run: 1, status: 201, sealed: vec![7] };
    let last = Time::from_micros(now().plus(ANSWER_KEPT).micros() - 1);
    assert_eq!(begin(&store, "k", "a", 5, last).await, kept);
    assert_eq!(begin(&store, "k", "b", 6, last).await, RunOutcome::Different);
    assert_eq!(begin(&store, "k", "b", 7, now().plus(ANSWER_KEPT)).await, RunOutcome::Begun);
}

#[tokio::test]
async fn keys_of_owners_are_apart() {
    let (_dir, store) = empty().await;
    assert_eq!(begin(&store, "k", "a", 1, now()).await, RunOutcome::Begun);
    let other = KeyedRequest { owner: OTHER.0, ..keyed("k", "b") };
    assert_eq!(store.begin_run(&other, 2, now()).await.unwrap(), RunOutcome::Begun);
}

// Shows (Management).
#[tokio::test]
async fn a_refused_request_can_be_sent_again_and_a_failed_one_if_it_had_no_effect() {
    let (_dir, store) = empty().await;
    for (key, id, failed) in [("refused", 1, false), ("failed", 2, true)] {
        begin(&store, key, "a", id, now()).await;
        store.forget_run(&run(key, id), failed).await.unwrap();
        assert_eq!(begin(&store, key, "a", id + 10, now()).await, RunOutcome::Begun, "{key}");
    }
    begin(&store, "half", "a", 3, now()).await;
    store.in_run(run("half", 3)).note(&entry("done")).await.unwrap();
    store.forget_run(&run("half", 3), true).await.unwrap();
    assert_eq!(begin(&store, "half", "a", 4, now()).await, RunOutcome::Lost, "it had an effect");
    assert_eq!(begin(&store, "half", "b", 5, now()).await, RunOutcome::Different);
}

#[tokio::test]
async fn a_write_that_fails_leaves_no_trace_of_its_run() {
    let (_dir, store) = empty().await;
    begin(&store, "k", "a", 1, now()).await;
    store.in_run(run("k", 1)).suspend(TenantId(99), now()).await.unwrap_err();
    store.forget_run(&run("k", 1), true).await.unwrap();
    assert_eq!(begin(&store, "k", "a", 2, now()).await, RunOutcome::Begun);
}

#[tokio::test]
async fn a_run_whose_host_died_gives_way_and_cannot_answer_any_more() {
    let (_dir, store) = empty().await;
    begin(&store, "k", "a", 1, now()).await;
    assert_eq!(begin(&store, "k", "a", 2, later(119)).await, RunOutcome::Running);
    assert_eq!(begin(&store, "k", "a", 3, later(120)).await, RunOutcome::Begun);
    store.keep_answer(&run("k", 1), 201, Some(vec![1])).await.unwrap();
    assert_eq!(begin(&store, "k", "a", 4, later(121)).await, RunOutcome::Running);
    store.keep_answer(&run("k", 3), 200, None).await.unwrap();
    assert_eq!(begin(&store, "k", "a", 5, later(122)).await, RunOutcome::Lost, "too large to be kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_equal_requests_at_once_is_carried_out() {
    let (_dir, store) = empty().await;
    let outcomes = at_once(20, |id| {
        let store = store.clone();
        async move { store.begin_run(&keyed("k", "a"), id, now()).await.unwrap() }
    })
    .await;
    let begun = outcomes.iter().filter(|outcome| **outcome == RunOutcome::Begun).count();
    let running = outcomes.iter().filter(|outcome| **outcome == RunOutcome::Running).count();
    assert_eq!((begun, running), (1, 19));
}

// Shows (Management).
#[tokio::test]
async fn an_owner_has_at_most_5000_keys_which_are_swept_when_they_are_old() {
    let (_dir, store) = empty().await;
    begin(&store, "first", "a", 1, now()).await;
    let columns = "owner, key, request, run, started_at, expires_at, carried_out, status, answer";
    let sql = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4998) \
         INSERT INTO idempotency ({columns}) SELECT owner, randomblob(32), request, randomblob(16), started_at, expires_at, \
         carried_out, status, answer FROM n, idempotency"
    );
    fill(&store, &sql).await;
    assert_eq!(begin(&store, "last", "a", 2, now()).await, RunOutcome::Begun);
    let full = store.begin_run(&keyed("more", "a"), 3, now()).await.unwrap_err();
    assert_eq!(full.to_string(), "at most 5000 idempotency keys can be used in 24 hours");
    assert_eq!(begin(&store, "first", "a", 4, now()).await, RunOutcome::Running, "known ones are answered");
    let end = now().plus(ANSWER_KEPT);
    assert_eq!(begin(&store, "more", "a", 5, end).await, RunOutcome::Begun, "old ones do not count");
    assert_eq!(store.sweep(end).await.unwrap(), Swept { answers: 5_000, ..Swept::default() });
    assert_eq!(rows(&store, "idempotency").await, 1);
}
