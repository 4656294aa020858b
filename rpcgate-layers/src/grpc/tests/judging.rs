//! The effect of answers on the rank of a node.

use super::*;

/// Creates a node that begins answers and, if `breaks` is set, aborts them soon afterwards. Otherwise it sends nothing
/// more.
async fn beginning(breaks: bool) -> Node {
    Node::serve(move |_| async move {
        let (pieces, body) = fed(1);
        tokio::spawn(async move {
            if breaks {
                tokio::time::sleep(Duration::from_millis(5)).await;
            } else {
                pieces.closed().await;
            }
        });
        head(body)
    })
    .await
}

// Shows (Nodes and cache): A node that only begins its answers over gRPC, or lacks a method outside every table, loses
// those calls (promise 74).
#[tokio::test]
async fn a_node_whose_answers_break_off_gets_no_more_calls() {
    let broken = beginning(true).await;
    let well = Node::saying(b"answer").await;
    let gateway = Gateway::new(&[&broken.url, &well.url]);
    let mut good = 0;
    for _ in 0..20 {
        good += usize::from(gateway.unary("Toy_Read").await.status() == "0");
    }
    assert_eq!(good, 20, "another node answers instead");
    assert!((1..=2).contains(&broken.calls()), "{}", broken.calls());
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_node_that_begins_answers_and_sends_no_message_gets_no_more_calls() {
    let silent = beginning(false).await;
    let well = Node::saying(b"answer").await;
    let gateway = Gateway::new(&[&silent.url, &well.url]);
    for _ in 0..10 {
        let before = silent.calls() + well.calls();
        let asked = silent.calls();
        let passing = async {
            until(|| silent.calls() + well.calls() > before).await;
            if silent.calls() > asked {
                gateway.fixture.clock.advance(Duration::from_secs(2));
            }
        };
        let metadata = [("apikey", KEY), ("grpc-timeout", "100m")];
        tokio::join!(gateway.ask(READ, &metadata, Full::from(message(b"ask"))), passing);
    }
    assert!((1..=3).contains(&silent.calls()), "{}", silent.calls());
    assert_eq!(silent.calls() + well.calls(), 10);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn the_chains_timeout_bounds_the_wait_for_the_first_message() {
    let quick = |fixture: Fixture| {
        let changes =
            ChainOverrides { timeout: Some(Duration::from_millis(500)), ..ChainOverrides::default() };
        Fixture { chain: Arc::new(Chain::new(toy(Vec::new()), changes, true, Arc::default())), ..fixture }
    };
    let silent = beginning(false).await;
    let gateway = Gateway::with(&[&silent.url], |_| (), &quick);
    let answer = gateway.unary("Toy_Read").await;
    assert_eq!((answer.status(), answer.body.len()), ("14", 0));
    let line = gateway.records()[0].lines[0].clone();
    assert_eq!((line.outcome, line.cu), (Outcome::Failed, 0));

    // A node may wait for messages of the client, which has sent none, and be silent between its own.
    let slow = Node::serve(|request: Request<Incoming>| async move {
        let (pieces, body) = fed(1);
        tokio::spawn(async move {
            let _ = request.into_body().collect().await;
            let _ = pieces.send(data(b"one")).await;
            tokio::time::sleep(Duration::from_millis(700)).await;
            let _ = pieces.send(trailers("0")).await;
        });
        head(body)
    })
    .await;
    let gateway = Gateway::with(&[&slow.url], |_| (), &quick);
    let (pieces, body) = fed(1);
    let sending = async {
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        drop(pieces);
    };
    let (answer, ()) = tokio::join!(gateway.ask(READ, &[("apikey", KEY)], body), sending);
    assert_eq!((answer.status(), &answer.body), ("0", &message(b"one")));
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_node_that_lacks_an_unlisted_method_is_skipped_only_for_it() {
    let lacking = Node::serve(|request: Request<Incoming>| async move {
        if request.uri().path().ends_with("Rare") { status_alone("12") } else { unary(b"answer") }
    })
    .await;
    let well = Node::saying(b"answer").await;
    let gateway = Gateway::new(&[&lacking.url, &well.url]);
    for _ in 0..8 {
        assert_eq!(gateway.unary("Rare").await.status(), "0");
    }
    assert!(lacking.calls() <= 2, "{}", lacking.calls());

    // Neither node knows this method, so neither is blamed.
    let gateway = Gateway::new(&[&lacking.url, &lacking.url]);
    let before = lacking.calls();
    for _ in 0..30 {
        assert_eq!(gateway.unary("Rare").await.status(), "12");
    }
    let asked = lacking.calls() - before;
    assert!((31..=50).contains(&asked), "half of the retries are left for others: {asked}");
    assert!(gateway.records().iter().all(|record| record.lines[0].cu == 0));
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_node_that_answers_everything_with_errors_loses_its_calls() {
    let bad = Node::serve(|_| async { status_alone("2") }).await;
    let well = Node::saying(b"answer").await;
    let gateway = Gateway::new(&[&bad.url, &well.url]);
    let mut lost = Vec::new();
    for call in 0..80 {
        if gateway.unary("Toy_Read").await.status() != "0" {
            lost.push(call);
        }
    }
    assert!(lost.len() <= 1, "only the first, when no node has served a call: {lost:?}");
    assert!((1..=3).contains(&bad.calls()), "{}", bad.calls());

    // The node is tried again, and no call is lost by it.
    for trial in 1..=8 {
        gateway.fixture.clock.advance(Duration::from_secs(40));
        let before = bad.calls();
        for _ in 0..5 {
            assert_eq!(gateway.unary("Toy_Read").await.status(), "0", "{trial}");
        }
        assert!(bad.calls() <= before + 1, "{trial}");
    }
    assert!(bad.calls() >= 5, "{}", bad.calls());
}

#[tokio::test]
async fn an_error_of_a_node_that_served_nothing_goes_to_the_one_of_several_that_did() {
    let erring = async || Node::serve(|_| async { status_alone("2") }).await;
    let one = erring().await;
    let two = erring().await;
    let well = Node::saying(b"answer").await;
    let gateway = Gateway::new(&[&one.url, &two.url, &well.url]);
    while well.calls() == 0 {
        gateway.unary("Toy_Read").await;
    }
    for call in 0..40 {
        assert_eq!(gateway.unary("Toy_Read").await.status(), "0", "{call}");
    }
}

#[tokio::test]
async fn too_large_messages_do_not_count_against_the_nodes() {
    let bad = Node::serve(|_| async { status_alone("14") }).await;
    let well = Node::serve(|request: Request<Incoming>| async move {
        let _ = request.into_body().collect().await;
        unary(b"answer")
    })
    .await;
    let gateway = Gateway::new(&[&bad.url, &well.url]);
    for _ in 0..4 {
        assert_eq!(gateway.unary("Toy_Read").await.status(), "0");
    }
    let before = (bad.calls(), well.calls());
    for ends in [true, false] {
        for _ in 0..6 {
            let (pieces, body) = fed(1);
            let sending = async {
                let _ = pieces.send(Frame::data(Bytes::from_static(&[0, 255, 255, 255, 255, 1]))).await;
                if ends { drop(pieces) } else { pieces.closed().await }
            };
            let (answer, ()) = tokio::join!(gateway.ask(READ, &[("apikey", KEY)], body), sending);
            assert_eq!(answer.status(), "8", "RESOURCE_EXHAUSTED");
        }
    }
    for _ in 0..4 {
        assert_eq!(gateway.unary("Toy_Read").await.status(), "0");
    }
    assert_eq!(bad.calls(), before.0, "the healthy node is still the better one");
    assert!(well.calls() >= before.1 + 4);
}
