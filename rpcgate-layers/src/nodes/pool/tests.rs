use super::*;
use crate::nodes::error::NodeRequestError;
use crate::nodes::retry::RetryPolicy;
use crate::nodes::{NodeConfig, NodeUrl};
use crate::testing::scripted_node::{
    PoolFixture, Refusing, ScriptedNode, Wire, answer, broken, call, ending_after, failing,
};
use crate::transport::h1::{AnswerBody, NodeRequest};
use bytes::Bytes;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::memory::{MemoryBudget, MemoryPermit};
use rpcgate_core::toy::Toy;

#[tokio::test]
async fn a_read_survives_a_connection_that_dies_under_it() {
    let node = failing(1, async |_| {}).await;
    let fixture = PoolFixture::new(&[&node]);
    fixture.read().await.unwrap();
    assert_eq!(fixture.read().await.unwrap(), "{}");
    assert_eq!((node.conns(), node.seen().len()), (2, 3));
}

#[tokio::test]
async fn a_broadcast_that_was_written_is_never_written_again() {
    for good in [0, 1] {
        let one = failing(good, async |_| {}).await;
        let two = failing(good, async |_| {}).await;
        let fixture = PoolFixture::new(&[&one, &two]);
        for _ in 0..2 * good {
            fixture.read().await.unwrap();
        }
        for sent in 1..=2 {
            assert_eq!(fixture.broadcast().await, Err(broken()));
            let seen = [one.seen(), two.seen()].concat();
            assert_eq!(seen.iter().filter(|seen| seen.ends_with("send")).count(), sent, "{good}");
        }
    }
}

#[tokio::test]
async fn a_refused_connection_is_a_fault_before_anything_was_sent() {
    let refusing = Refusing::new();
    let fixture = PoolFixture::with(&[refusing.url()], PoolLimits::default());
    for call in [fixture.read().await, fixture.broadcast().await] {
        assert_eq!(call, Err(Fault::unsent(Cause::Connect).into()));
    }
}

#[tokio::test]
async fn reads_and_broadcasts_go_to_another_node_when_one_refuses_connections() {
    let node = ScriptedNode::always(answer("{}")).await;
    let refusing = Refusing::new();
    let fixture = PoolFixture::with(&[refusing.url(), node.url()], PoolLimits::default());
    for _ in 0..10 {
        fixture.read().await.unwrap();
        fixture.broadcast().await.unwrap();
    }
    assert_eq!(node.seen().len(), 20);
    let aside: Vec<_> = fixture.pool.nodes().map(|node| node.health.left()).collect();
    assert_eq!(aside, [Duration::from_secs(1), Duration::ZERO]);
}

#[tokio::test]
async fn a_backed_off_node_returns_when_its_time_is_over_and_it_can_be_reached() {
    let refusing = Refusing::new();
    let fixture = PoolFixture::with(&[refusing.url()], PoolLimits::default());
    let aside =
        |fixture: &PoolFixture| fixture.pool.nodes().map(|node| node.health.left().as_secs()).sum::<u64>();
    assert_eq!(fixture.read().await, Err(Fault::unsent(Cause::Connect).into()));
    assert_eq!(aside(&fixture), 1);
    fixture.clock.advance(Duration::from_secs(1));
    assert_eq!(fixture.read().await, Err(Fault::unsent(Cause::Connect).into()));
    assert_eq!(aside(&fixture), 2);
    let _node = ScriptedNode::serve_on(refusing.listen(), async |_, mut wire: Wire| {
        wire.request().await;
        wire.write(answer("{}")).await;
    });
    // It is the only node, so it is tried although its backoff is not over.
    assert_eq!(fixture.read().await.unwrap(), "{}");
    assert_eq!(aside(&fixture), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_at_once_each_get_their_own_answer() {
    let echo = |_, mut wire: Wire| async move {
        while let Some(request) = wire.request().await {
            wire.write(answer(request.split_once("\r\n\r\n").unwrap().1)).await;
        }
    };
    let one = ScriptedNode::serve(echo).await;
    let two = ScriptedNode::serve(echo).await;
    let three = ScriptedNode::serve(echo).await;
    let fixture = PoolFixture::new(&[&one, &two, &three]);
    let calls = (0..32).map(|task| {
        let pool = fixture.pool.clone();
        tokio::spawn(async move {
            for n in 0..50 {
                let body = Bytes::from(format!("{task} {n}"));
                let answer = pool
                    .ask(&NodeRequest::json_rpc(body.clone()), &mut MemoryPermit::default())
                    .await
                    .unwrap();
                assert!(
                    matches!(answer.body, AnswerBody::Complete(ref answer) if *answer == body),
                    "{body:?}"
                );
            }
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    assert_eq!(one.seen().len() + two.seen().len() + three.seen().len(), 32 * 50);
    assert_eq!(fixture.pool.in_flight() + fixture.pool.nodes().map(|node| node.in_flight).sum::<usize>(), 0);
}

#[tokio::test]
async fn a_reset_in_the_middle_of_an_answer_is_a_fault_and_a_read_moves_on() {
    let reset = failing(0, async |mut wire| {
        wire.write("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{").await;
        wire.reset();
    })
    .await;
    assert_eq!(PoolFixture::new(&[&reset]).broadcast().await, Err(broken()));
    let good = ScriptedNode::always(answer("{}")).await;
    let fixture = PoolFixture::new(&[&reset, &good]);
    for _ in 0..4 {
        assert_eq!(fixture.read().await.unwrap(), "{}");
    }
    assert_eq!(good.seen().len(), 4);
}

#[tokio::test]
async fn a_read_is_sent_at_most_twice_on_new_connections() {
    let one = failing(0, async |_| {}).await;
    let two = failing(0, async |_| {}).await;
    let fixture = PoolFixture::new(&[&one]);
    assert_eq!(fixture.read().await, Err(broken()));
    assert_eq!(one.seen().len(), 2);
    let fixture = PoolFixture::new(&[&one, &two]);
    assert_eq!(fixture.read().await, Err(broken()));
    assert_eq!((one.seen().len(), two.seen().len()), (3, 1));
}

#[tokio::test]
async fn a_call_without_an_answer_ends_with_its_time_and_is_not_sent_again() {
    let node = failing(0, async |_wire| std::future::pending().await).await;
    let fixture = PoolFixture::with(&[node.url()], ending_after(400));
    assert_eq!(fixture.read().await, Err(Fault::sent(Cause::Timeout).into()));
    assert_eq!(node.seen().len(), 1);
    assert_eq!(fixture.pool.nodes().map(|node| node.in_flight).sum::<usize>() + fixture.pool.in_flight(), 0);
}

#[tokio::test]
async fn an_answer_that_drips_ends_with_the_time_of_the_call() {
    let node = failing(0, async |mut wire| {
        wire.write("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").await;
        loop {
            wire.write(" ").await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let fixture = PoolFixture::with(&[node.url()], ending_after(400));
    assert_eq!(fixture.read().await, Err(Fault::sent(Cause::Timeout).into()));
}

#[tokio::test]
async fn no_more_calls_are_in_flight_than_may_be() {
    let node = failing(0, async |_wire| std::future::pending().await).await;
    let fixture = PoolFixture::with(&[node.url()], PoolLimits { in_flight: 2, ..PoolLimits::default() });
    let calls = async { tokio::join!(fixture.read(), fixture.read()) };
    let third = async {
        fixture.until(|_| node.seen().len() == 2).await;
        fixture.read().await
    };
    tokio::select! {
        _ = calls => panic!("no node answers"),
        third = third => assert_eq!(third, Err(NodeRequestError::Busy)),
    }
    assert_eq!(fixture.pool.in_flight(), 0);
}

#[tokio::test]
async fn an_answer_without_memory_for_it_is_abandoned() {
    let node = ScriptedNode::always(answer(&"x".repeat(100))).await;
    let fixture = PoolFixture::new(&[&node]);
    let memory = MemoryBudget::new(100);
    assert!(fixture.pool.ask(&call("a"), &mut MemoryPermit::of(memory.clone())).await.is_ok());
    let mut held = MemoryPermit::of(memory.clone());
    held.take(1).unwrap();
    assert_eq!(fixture.pool.ask(&call("a"), &mut held).await.err(), Some(NodeRequestError::Busy));
    assert_eq!(node.seen().len(), 2);
}

#[test]
fn a_pool_takes_the_lag_of_its_chain() {
    let lag = |max_lag| {
        let limits = PoolLimits { max_lag, ..PoolLimits::default() };
        PoolFixture::with(&["http://127.0.0.1:1".to_owned()], limits).pool.max_lag()
    };
    assert_eq!((lag(None), lag(Some(50))), (Toy.facts().max_lag, 50));
}

// Shows (Nodes and cache): Retries are bounded for any answers of nodes (promise 63).
#[tokio::test]
async fn retries_end_with_their_reserve() {
    let node = failing(0, async |_| {}).await;
    let fixture = PoolFixture::new(&[&node]);
    for _ in 0..100 {
        assert_eq!(fixture.read().await, Err(broken()));
    }
    assert_eq!(node.seen().len(), 100 + 30 + 10, "thirty in reserve, and one for ten calls");
}

#[tokio::test]
async fn a_node_to_avoid_gets_no_call() {
    let one = ScriptedNode::always(answer("1")).await;
    let two = ScriptedNode::always(answer("2")).await;
    let fixture = PoolFixture::new(&[&one, &two]);
    let first = fixture.pool.ask(&call("a"), &mut MemoryPermit::default()).await.unwrap().node;
    let ask = NodeRequest { avoid: Some(first), ..call("a") };
    assert_ne!(fixture.pool.ask(&ask.clone(), &mut MemoryPermit::default()).await.unwrap().node, first);
    let no_node = Err(Fault::unsent(Cause::NoNode).into());
    assert_eq!(
        PoolFixture::new(&[&one]).complete(NodeRequest { avoid: Some(NodeIndex(0)), ..ask }).await,
        no_node
    );
    assert_eq!(PoolFixture::new(&[]).read().await, no_node);
}

#[test]
fn the_debug_form_of_a_pool_has_no_password() {
    let fixture = PoolFixture::with(&["http://u:hunter2@h:1/?key=sesame".into()], PoolLimits::default());
    let shown = format!("{:?}", fixture.pool);
    assert!(shown.contains("h:1") && !shown.contains("hunter2") && !shown.contains("sesame"), "{shown}");
}

#[test]
fn a_call_may_run_on_any_thread() {
    fn send<T: Send>(_: T) {}
    let fixture = PoolFixture::new(&[]);
    let pool = fixture.pool.clone();
    send(async move { pool.ask(&call("a"), &mut MemoryPermit::default()).await });
}

/// A node that takes requests and never answers.
async fn silent() -> ScriptedNode {
    failing(0, async |_wire| std::future::pending().await).await
}

#[tokio::test]
async fn a_try_that_takes_too_long_leaves_time_for_another_node() {
    let silent = silent().await;
    let good = ScriptedNode::always(answer("{}")).await;
    let retry = RetryPolicy { per_try: Some(Duration::from_millis(400)), ..RetryPolicy::default() };
    let limits = PoolLimits { retry, ..PoolLimits::default() };
    let fixture = PoolFixture::with(&[silent.url(), good.url()], limits);
    for _ in 0..4 {
        assert_eq!(fixture.read().await.unwrap(), "{}");
    }
    assert!(!silent.seen().is_empty());
    let only = PoolFixture::with(&[silent.url()], limits);
    let timed_out = Err(Fault::sent(Cause::Timeout).into());
    assert_eq!(only.broadcast().await, timed_out);
    let before = silent.seen().len();
    assert_eq!(only.read().await, timed_out);
    assert_eq!(silent.seen().len(), before + 1, "a node that is silent is not asked again");
}

#[tokio::test]
async fn a_read_has_as_many_tries_as_the_policy_allows() {
    for attempts in 1..=4 {
        let node = failing(0, async |_| {}).await;
        let retry = RetryPolicy { attempts, ..RetryPolicy::default() };
        let fixture = PoolFixture::with(&[node.url()], PoolLimits { retry, ..PoolLimits::default() });
        assert_eq!(fixture.read().await, Err(broken()));
        assert_eq!(node.seen().len(), attempts as usize);
    }
}

#[tokio::test]
async fn a_node_without_an_http_address_is_listed_but_not_called() {
    let node = ScriptedNode::always(answer("{}")).await;
    let ws = |url: &str| NodeConfig::new(crate::nodes::url::NodeUrl::parse(url, Transport::Ws).unwrap());
    let http = NodeConfig::new(node.url().parse().unwrap());
    let fixture = PoolFixture::of(vec![ws("ws://127.0.0.1:1"), http], PoolLimits::default());
    for _ in 0..4 {
        let answer = fixture.pool.ask(&call("a"), &mut MemoryPermit::default()).await.unwrap();
        assert_eq!(answer.node, NodeIndex(1));
    }
    let shown: Vec<_> = fixture.pool.nodes().map(|node| (node.name.to_string(), node.idle)).collect();
    assert_eq!(shown, [("ws://127.0.0.1:1".to_owned(), 0), (node.url(), 1)]);
    let only = PoolFixture::of(vec![ws("ws://127.0.0.1:1")], PoolLimits::default());
    assert_eq!(only.read().await, Err(Fault::unsent(Cause::NoNode).into()));
}

#[tokio::test]
async fn nodes_without_http_are_never_called_over_it_and_do_not_limit_its_batches() {
    let node = ScriptedNode::always(answer("{}")).await;
    let by = |text, transport| NodeConfig::new(NodeUrl::parse(text, transport).unwrap());
    let mut by_ws = by("ws://127.0.0.1:1", Transport::Ws);
    by_ws.max_batch = Some(1);
    let by_grpc = by("grpc://127.0.0.1:1", Transport::Grpc);
    let mut by_http = by(&node.url(), Transport::Http);
    by_http.max_batch = Some(7);
    let fixture = PoolFixture::of(vec![by_ws.clone(), by_http, by_grpc], PoolLimits::default());
    for _ in 0..12 {
        fixture.read().await.unwrap();
    }
    assert_eq!((node.seen().len(), fixture.pool.max_batch()), (12, 7));
    let has = |pool: &Pool| [Transport::Http, Transport::Ws, Transport::Grpc].map(|by| pool.has(by));
    assert_eq!(has(&fixture.pool), [true; 3]);
    let alone = PoolFixture::of(vec![by_ws], PoolLimits::default());
    assert_eq!(has(&alone.pool), [false, true, false]);
    assert_eq!(alone.pool.transports(), [Transport::Ws].into_iter().collect());
    assert_eq!(alone.read().await, Err(Fault::unsent(Cause::NoNode).into()));
}

/// A node that answers each request after this time.
async fn late(millis: u64) -> ScriptedNode {
    ScriptedNode::serve(move |_, mut wire| async move {
        while wire.request().await.is_some() {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            wire.write(answer("{}")).await;
        }
    })
    .await
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_read_that_a_node_does_not_answer_is_sent_to_another_one() {
    let limits = || {
        let retry = RetryPolicy::default().with_next_node_after(Some(Duration::from_millis(50)));
        PoolLimits::default().with_retry(retry)
    };
    let silent = silent().await;
    let slow = late(200).await;
    let mut fallback = NodeConfig::new(slow.url().parse().unwrap());
    fallback.priority = 1;
    let fixture = PoolFixture::of(vec![NodeConfig::new(silent.url().parse().unwrap()), fallback], limits());
    assert_eq!(fixture.read().await.unwrap(), "{}");
    assert_eq!((silent.seen().len(), slow.seen().len()), (1, 1));
    // A broadcast that was sent may go to no other node, and a single node has no alternative.
    let fixture = PoolFixture::with(&[slow.url(), slow.url()], limits());
    assert_eq!(fixture.broadcast().await.unwrap(), "{}");
    let fixture = PoolFixture::with(&[slow.url()], limits());
    assert_eq!(fixture.read().await.unwrap(), "{}");
    assert_eq!(slow.seen().len(), 3);
}

// Shows (Nodes and cache): The first try continues while a second one runs, over HTTP and gRPC, and all second tries
// share one budget (promise 91).
#[tokio::test]
async fn a_read_with_a_time_per_try_is_slow_but_succeeds_if_all_nodes_are_slow() {
    let nodes = [late(120).await, late(120).await];
    let retry = RetryPolicy::default().with_next_node_after(Some(Duration::from_millis(20)));
    let urls = nodes.each_ref().map(ScriptedNode::url);
    let fixture = PoolFixture::with(&urls, PoolLimits::default().with_retry(retry));
    for _ in 0..3 {
        assert_eq!(fixture.read().await.unwrap(), "{}");
    }
    let none = retry.with_budget(crate::nodes::RetryBudget::default().with_min_per_sec(0));
    let fixture = PoolFixture::with(&urls, PoolLimits::default().with_retry(none));
    let before = nodes[0].seen().len() + nodes[1].seen().len();
    assert_eq!(fixture.read().await.unwrap(), "{}", "without a retry, the first try has its time");
    assert_eq!(nodes[0].seen().len() + nodes[1].seen().len(), before + 1);
}

/// Asks until the silent node has one more request, and gives up after two seconds of the pool's clock.
async fn lose_a_call(fixture: &PoolFixture, silent: &ScriptedNode) {
    let before = silent.seen().len();
    loop {
        let read = fixture.read();
        tokio::pin!(read);
        tokio::select! {
            answered = &mut read => assert_eq!(answered.unwrap(), "{}"),
            () = fixture.until(|_| silent.seen().len() > before) => {
                fixture.clock.advance(Duration::from_secs(2));
                return;
            }
        }
    }
}

// Shows (Nodes and cache): A silent node loses its calls per transport, before they end and after a client has left,
// and gets trials (promise 74).
#[tokio::test]
async fn a_client_that_leaves_a_silent_node_is_sent_to_another_one_afterwards() {
    let silent = silent().await;
    let good = ScriptedNode::always(answer("{}")).await;
    let fixture = PoolFixture::new(&[&silent, &good]);
    lose_a_call(&fixture, &silent).await;
    for _ in 0..20 {
        assert_eq!(fixture.read().await.unwrap(), "{}");
    }
    assert_eq!(silent.seen().len(), 1, "one loss is enough");
    // From time to time it gets a read that another node answers.
    fixture.clock.advance(Duration::from_secs(2));
    for _ in 0..4 {
        assert_eq!(fixture.read().await.unwrap(), "{}");
    }
    assert_eq!(silent.seen().len(), 2, "a trial");
}

// Shows (Nodes and cache).
#[tokio::test]
async fn calls_that_wait_at_a_silent_node_keep_others_away_from_it_before_they_end() {
    let silent = silent().await;
    let good = ScriptedNode::always(answer("{}")).await;
    let fixture = PoolFixture::new(&[&silent, &good]);
    let waiting = async {
        while silent.seen().is_empty() {
            let _ = fixture.read().await;
        }
    };
    tokio::pin!(waiting);
    tokio::select! {
        () = &mut waiting => panic!("a silent node has answered"),
        () = fixture.until(|_| silent.seen().len() == 1) => {}
    }
    fixture.clock.advance(Duration::from_secs(1));
    for _ in 0..20 {
        assert_eq!(fixture.read().await.unwrap(), "{}");
    }
    assert_eq!(silent.seen().len(), 1);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_client_that_leaves_soon_does_not_drive_a_node_out() {
    let silent = silent().await;
    let good = ScriptedNode::always(answer("{}")).await;
    let fixture = PoolFixture::new(&[&silent, &good]);
    for _ in 0..20 {
        let before = silent.seen().len() + good.seen().len();
        tokio::select! {
            _ = fixture.read() => {}
            () = fixture.until(|_| silent.seen().len() + good.seen().len() > before) => {}
        }
    }
    assert!(silent.seen().len() > 5, "{}", silent.seen().len());
}
