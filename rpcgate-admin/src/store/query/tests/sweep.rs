use super::*;
use crate::store::Swept;

/// Old audit entries: enough for several steps.
const OLD: u64 = 3_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_sweep_at_once_remove_everything_once() {
    let (site, store) = empty().await;
    let other = site.store_within(Duration::from_secs(60)).await.unwrap();
    let noted = entry("old");
    store
        .transact(async |transaction| {
            for _ in 0..OLD {
                super::super::audit::append(transaction, &noted).await?;
            }
            Ok(())
        })
        .await
        .unwrap();
    let late = later(400 * 86_400);
    let sweep = |store: Store| tokio::spawn(async move { store.sweep(late).await.unwrap().audit });
    let (one, two) = (sweep(store.clone()), sweep(other));
    assert_eq!(one.await.unwrap() + two.await.unwrap(), OLD);
    assert_eq!(store.sweep(late).await.unwrap(), Swept::default(), "nothing is left");
}
