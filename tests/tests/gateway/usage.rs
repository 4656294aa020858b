use crate::*;

// Shows (Usage): Bytes are body bytes; an entry of a batch has the bytes of its slice, and the first entry has the
// rest.
#[tokio::test]
async fn the_bytes_of_a_body_are_divided_among_its_calls_without_a_rest() {
    let (node, gateway, client) = evm().await;
    node.result("m", "\"a longer answer\"");
    let single = client.call("eth", "m", "[1,2]").await;
    let body = r#" [ {"jsonrpc":"2.0","id":1,"method":"m"} , {"jsonrpc":"2.0","id":2,"method":"admin_x"}, 7 ,{"jsonrpc":"2.0","method":"n"}] "#;
    let batch = client.post("eth", body).await;
    let bad = client.post("eth", "{\"id\":").await;
    let sums: Vec<_> = gateway
        .records()
        .iter()
        .map(|record| {
            let sum = |of: fn(&rpcgate_core::backend::usage_sink::OwnedLine) -> u32| {
                record.lines.iter().map(of).sum::<u32>() as usize
            };
            (sum(|line| line.bytes_in), sum(|line| line.bytes_out))
        })
        .collect();
    let length = r#"{"jsonrpc":"2.0","id":1000,"method":"m","params":[1,2]}"#.len();
    assert_eq!(sums, [(length, single.body.len()), (body.len(), batch.body.len()), (6, bad.body.len())]);
    let lines = &gateway.records()[1].lines;
    assert_eq!(
        lines[1].bytes_in as usize,
        r#"{"jsonrpc":"2.0","id":2,"method":"admin_x"}"#.len(),
        "an entry's own slice"
    );
    assert_eq!((lines[2].bytes_in, lines[3].bytes_out), (1, 0));
}

// Shows (Usage): The status of a call is that of the same single call; the transport is `http`.
#[tokio::test]
async fn the_status_of_a_call_is_the_one_it_would_have_alone() {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url())
        .plan("free")
        .set("projects.default", "blocked_methods = [\"no\"]")
        .start()
        .await;
    let client = gateway.client();
    node.answer("errs", ScriptedAnswer::Error(r#"{"code":1,"message":"x"}"#.into()));
    let mut calls = vec![
        ("m", "[]"),
        ("errs", "[]"),
        ("no", "[]"),
        ("debug_x", "[]"),
        ("admin_x", "[]"),
        ("eth_getLogs", "[]"),
        ("eth_getLogs", "[]"),
    ];
    calls.extend([("trace_x", "[]"); 6]);
    client.batch("eth", &calls).await;
    let got: Vec<_> = gateway.lines().iter().map(|line| (line.status, line.outcome)).collect();
    use Outcome::{Answered, NodeError, Refused};
    let mut expected = vec![
        (200, Answered),
        (200, NodeError),
        (403, Refused),
        (403, Refused),
        (200, Refused),
        (200, Answered),
        (429, Refused),
    ];
    expected.extend([(200, Refused); 5]);
    expected.push((429, Refused));
    assert_eq!(got, expected);
}

// Shows (Usage): A batch entry has its set's latency.
#[tokio::test]
async fn a_batch_is_one_record_with_the_latency_of_the_set() {
    let (node, gateway, client) = evm().await;
    node.hold();
    let batch = tokio::spawn(async move { client.batch("eth", &[("a", "[]"), ("b", "[]")]).await });
    node.got(1).await;
    gateway.clock.advance(std::time::Duration::from_millis(250));
    node.release();
    batch.await.unwrap();
    let records = gateway.records();
    assert_eq!((records.len(), records[0].lines.len(), records[0].windowed), (1, 2, 1));
    assert_eq!(records[0].latency.as_millis(), 250);
    assert_eq!(
        (records[0].transport, records[0].chain.as_str()),
        (rpcgate_core::tally::Transport::Http, "eth")
    );
}

// Shows (Usage): The charge equals the answered `x-compute-units`.
#[tokio::test]
async fn usage_equals_the_answers_of_random_clients() {
    let (evm, utxo, gateway) = ten(Setup::new()
        .set("plans.enterprise", "per_minute = 100000")
        .set("projects.default", "cu_per_day = 3000"))
    .await;
    evm.answer("eth_getCode", ScriptedAnswer::Error(r#"{"code":-32000,"message":"x"}"#.into()));
    utxo.answer("gettxout", ScriptedAnswer::Cut);
    let client = gateway.client();
    // A small generator with a fixed seed, so that a failure is reproducible.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let methods = [
        "eth_chainId",
        "eth_call",
        "eth_getCode",
        "eth_getLogs",
        "getblock",
        "gettxout",
        "getblockcount",
        "admin_x",
        "debug_x",
        "stop",
        "eth_sendRawTransaction",
        "m",
    ];
    let mut reported = 0;
    let mut calls = 0;
    for _ in 0..300 {
        let chain = EVM.iter().chain(&UTXO).nth(next(10)).unwrap();
        let params: Vec<_> =
            (0..1 + next(6)).map(|_| (methods[next(12)], if next(2) == 0 { "[]" } else { "[1]" })).collect();
        let reply = match params.as_slice() {
            [(method, params)] => client.call(chain, method, params).await,
            _ => client.batch(chain, &params).await,
        };
        reported += reply.cu();
        calls += params.len();
        gateway.pass(7);
    }
    assert_eq!(gateway.charged(), reported);
    assert_eq!(gateway.lines().len(), calls);
    assert!(
        gateway
            .lines()
            .iter()
            .all(|line| line.cu == 0 || matches!(line.outcome, Outcome::Answered | Outcome::NodeError))
    );
    assert!((3_000..3_100).contains(&reported), "{reported}");
}
