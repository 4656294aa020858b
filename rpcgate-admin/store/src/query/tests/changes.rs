use super::*;

const HOUR: u64 = 3_600;

/// Records a change at each of these seconds.
async fn changed(seconds: &[u64]) -> (TestDatabase, Store) {
    let (dir, store) = empty().await;
    for second in seconds {
        store.switch_chain("toy", true, later(*second)).await.unwrap();
    }
    (dir, store)
}

/// Returns the number of changes that a sweep at this second removes, and the numbers of the others.
async fn swept(store: &Store, second: u64) -> (u64, Vec<u64>) {
    let removed = store.sweep(later(second)).await.unwrap().changes;
    (removed, store.since(0).await.unwrap().into_iter().map(|change| change.number).collect())
}

#[tokio::test]
async fn a_change_is_kept_for_an_hour_and_the_newest_one_forever() {
    let (_dir, store) = changed(&[0, 1, 2]).await;
    assert_eq!(swept(&store, HOUR - 1).await, (0, vec![1, 2, 3]));
    assert_eq!(swept(&store, HOUR).await, (1, vec![2, 3]));
    assert_eq!((store.oldest_change().await.unwrap(), store.newest_change().await.unwrap()), (2, 3));
    assert_eq!(swept(&store, 99 * HOUR).await, (1, vec![3]));
    assert_eq!((store.oldest_change().await.unwrap(), store.newest_change().await.unwrap()), (3, 3));
    assert_eq!(swept(&store, 99 * HOUR).await, (0, vec![3]));
    tells(&store, Change::Tenant(TENANT), store.suspend(TENANT, now())).await;
    assert_eq!(store.newest_change().await.unwrap(), 4, "no number is used twice");
}

// Shows (Reliability).
#[tokio::test]
async fn many_changes_are_read_a_thousand_at_a_time() {
    let (_dir, store) = changed(&[0]).await;
    let sql = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) \
               INSERT INTO changes SELECT i, 'chain', 'toy', 0 FROM n";
    fill(&store, sql).await;
    let mut reported = Vec::new();
    loop {
        let some = store.since(reported.last().copied().unwrap_or_default()).await.unwrap();
        reported.extend(some.iter().map(|change| change.number));
        if some.len() < 1_000 {
            break;
        }
        assert_eq!(some.len(), 1_000);
    }
    assert_eq!(reported, (1..=2_500).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_clock_that_steps_back_leaves_no_gap() {
    // The second one was written by a clock that was ahead.
    let (_dir, store) = changed(&[0, 5 * HOUR, 1, 6 * HOUR]).await;
    assert_eq!(swept(&store, 3 * HOUR).await, (1, vec![2, 3, 4]));
    assert_eq!(swept(&store, 6 * HOUR).await, (2, vec![4]));
}

#[tokio::test]
async fn without_changes_there_is_nothing_to_remove() {
    let (_dir, store) = empty().await;
    assert_eq!(swept(&store, HOUR).await, (0, vec![]));
    assert_eq!(store.oldest_change().await.unwrap(), 0);
}
