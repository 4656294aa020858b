use super::*;

const NODES: [&str; 2] = ["http://a", "http://b"];

// Shows (Nodes and cache): The last usable node is drained only with force, also if two operators drain the last two at
// once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_two_operators_who_drain_the_last_two_nodes_at_once_is_refused() {
    let (site, store) = empty().await;
    if store.database.server().is_some() {
        // The database's operators may have chosen that a transaction reads the state at its start.
        let chosen = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = %L', \
                      current_database(), 'repeatable read'); END $$";
        store.execute(chosen).await;
    }
    let second = site.store_within(Duration::from_secs(60)).await.unwrap();
    for round in 0..20 {
        let programs = [store.clone(), second.clone()];
        let drained = at_once(2, move |number| {
            let number = number as usize;
            let program = programs[number].clone();
            // Each has looked while the other node was usable.
            let remaining = [BTreeSet::from([NODES[1 - number].to_owned()])];
            async move { program.drain_node("toy", NODES[number], &remaining, now()).await }
        })
        .await;
        let done = drained.iter().filter(|drained| drained.is_ok()).count();
        let refused = drained.iter().filter(|drained| matches!(drained, Err(StoreError::WrongState(_))));
        assert_eq!((done, refused.count()), (1, 1), "{round}: {drained:?}");
        let left = store.drained_nodes().await.unwrap();
        assert_eq!(left.len(), 1, "{round}: {left:?}");
        for (chain, node) in left {
            store.resume_node(&chain, &node, now()).await.unwrap();
        }
    }
}
