//! Single reads of several clients that are sent in one array.

use super::*;
use crate::nodes::BatchingPolicy;
use futures_util::future::join_all;
use rpcgate_core::caller::RequestId;

/// A timeout that a busy machine does not reach.
fn limits() -> PoolLimits {
    let policy = BatchingPolicy::default().with_timeout(std::time::Duration::from_secs(60));
    PoolLimits::default().with_batching(Some(policy))
}

fn batching(nodes: &[&ScriptedNode]) -> Site {
    let nodes = nodes.iter().map(|node| NodeConfig::new(node.url().parse().unwrap())).collect();
    Site::of(Fixture::new(), PoolFixture::of(nodes, limits()))
}

/// Sends each call as a separate request, all at the same time.
async fn together(site: &Site, bodies: &[&'static str]) -> Vec<(u16, String)> {
    let sent = bodies.iter().enumerate().map(|(number, body)| {
        let mut calls = site.fixture.calls(body.as_bytes());
        calls.tally_mut().request = RequestId(number as u128);
        let mut upstream = site.upstream.clone();
        async move {
            let Ok(calls) = upstream.call(calls).await;
            let pending = join(calls, usize::MAX);
            (pending.status.as_u16(), text(&pending))
        }
    });
    join_all(sent).await
}

// Shows (Nodes and cache).
#[tokio::test]
async fn each_client_gets_its_answer_under_its_own_id_and_is_metered_separately() {
    let node = echo().await;
    let site = batching(&[&node]);
    let answers = together(
        &site,
        &[
            r#"{"jsonrpc":"2.0","id":"a\u0062 1","method":"one","params":[1.50]}"#,
            r#"{"jsonrpc":"2.0","id":7.0,"method":"toy_read","params":[2]}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"toy_fail","params":[3]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"toy_send"}"#,
        ],
    )
    .await;
    assert_eq!(
        answers.iter().map(|(status, body)| (*status, body.as_str())).collect::<Vec<_>>(),
        [
            (200, r#"{"id":"a\u0062 1","result":["one",[1.50]],"jsonrpc":"2.0"}"#),
            (200, r#"{"jsonrpc":"2.0","id":7.0,"result":["toy_read",[2]]}"#),
            (200, r#"{"id":7,"error":{"code":-7,"message":"no","data":[3]},"jsonrpc":"2.0"}"#),
            (200, r#"{"id":1,"result":["toy_send","none"],"jsonrpc":"2.0"}"#),
        ]
    );
    let mut sent = bodies(&node);
    sent.sort();
    assert_eq!(
        sent,
        [
            concat!(
                r#"[{"jsonrpc":"2.0","id":0,"method":"one","params":[1.50]},"#,
                r#"{"jsonrpc":"2.0","id":128,"method":"toy_read","params":[2]},"#,
                r#"{"jsonrpc":"2.0","id":256,"method":"toy_fail","params":[3]}]"#
            ),
            r#"{"jsonrpc":"2.0","id":384,"method":"toy_send"}"#,
        ]
    );
    let lines = site.lines();
    let errors = lines.iter().filter(|line| line.2 == Outcome::NodeError).count();
    assert_eq!((lines.len(), errors), (4, 1));
    assert!(lines.iter().all(|line| line.1 == 200));
}

#[tokio::test]
async fn chains_whose_answers_have_a_status_or_that_take_no_arrays_send_each_call_alone() {
    static ALONE: Facts = TOY.with_batch(false);
    static UTXO: Facts = TOY.with_dialect(Dialect::Utxo);
    for facts in [&ALONE, &UTXO] {
        let node = echo().await;
        let nodes = vec![NodeConfig::new(node.url().parse().unwrap())];
        let clock = Fixture::new().clock;
        let pool = crate::nodes::Pool::new(facts, nodes, limits(), clock.clone());
        let site = Site::of(variant(facts), PoolFixture { pool, clock });
        let calls =
            [r#"{"jsonrpc":"2.0","id":1,"method":"one"}"#, r#"{"jsonrpc":"2.0","id":2,"method":"two"}"#];
        together(&site, &calls).await;
        assert_eq!((node.seen().len(), site.pool.pool.arrays()), (2, None));
    }
}
