use super::*;
use http::HeaderName;
use rpcgate_core::caller::RequestId;
use rpcgate_tests::load::TestSeed;
use serde_json::json;

/// Returns a chain of 100 seconds, each with a block and some with a reorganisation. The first 1,000 blocks are older.
fn chain(has_liar: bool) -> KnownChain {
    let mut blocks = ForkingChain::new(0);
    let mut dice = TestSeed(1).dice(0);
    (1..=100).for_each(|second| blocks.grow(&mut dice, Duration::from_secs(second)));
    KnownChain { name: "eth", blocks: Arc::new(Mutex::new(blocks)), has_liar }
}

const NOW: Duration = Duration::from_secs(100);
const HEIGHT: u64 = 1_100;

fn asked(calls: &[(&str, &'static str, Value)], least: Option<u64>) -> AskedCalls {
    let calls = calls.iter().map(|(id, method, params)| ((*id).to_owned(), (*method, params.clone())));
    AskedCalls { calls: calls.collect(), least, minute: 1, at: NOW }
}

/// Returns the findings in the answer to these calls after this time.
fn found_after(
    chain: &KnownChain,
    asked: &AskedCalls,
    (status, body, units): (u16, &Value, u64),
    head: Option<u64>,
    took: Duration,
) -> Vec<String> {
    let head = head.map(|head| ("x-rpcgate-head", head.to_string()));
    let id = RequestId(7).to_string();
    let pairs = [("x-request-id", id), ("x-compute-units", units.to_string())].into_iter().chain(head);
    let headers: HeaderMap =
        pairs.map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect();
    let body = body.to_string();
    let got = GotAnswer { status, headers: &headers, body: body.as_bytes(), at: NOW + took };
    let mut report = SimulationReport::default();
    chain.check("key", asked, &got, &mut report);
    report.broken
}

fn found(asked: &AskedCalls, body: &Value, units: u64) -> Vec<String> {
    found_after(&chain(false), asked, (200, body, units), None, Duration::ZERO)
}

fn result(id: &str, result: impl Into<Value>) -> Value {
    let result: Value = result.into();
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn hex(number: u64) -> String {
    format!("{number:#x}")
}

fn own(height: u64) -> Value {
    result("a", format!("eth:[\"x\"]@{height}"))
}

fn balance(least: Option<u64>) -> AskedCalls {
    asked(&[("a", "eth_getBalance", json!(["x"]))], least)
}

// Shows (Reliability).
#[test]
fn an_answer_with_another_call_identifier_or_chain_is_found() {
    assert_eq!(found(&balance(None), &own(HEIGHT), 5), [""; 0]);
    let other_id = result("b", own(HEIGHT)["result"].clone());
    for wrong in
        [other_id, result("a", "eth:[\"y\"]@1100"), result("a", "bsc:[\"x\"]@1100"), json!([own(HEIGHT)])]
    {
        assert!(!found(&balance(None), &wrong, 5).is_empty(), "{wrong}");
    }
    let count = asked(&[("a", "eth_getTransactionCount", json!(["x"]))], None);
    let error = |message: &str| json!({ "id": "a", "error": { "code": -32000, "message": message } });
    assert_eq!(found(&count, &error("x"), 5), [""; 0]);
    assert_eq!(found(&count, &error("y"), 5).len(), 1);
    assert_eq!(found(&balance(None), &error("x"), 5).len(), 1, "no node has said so");
}

// Shows (Reliability).
#[test]
fn an_answer_of_a_batch_that_is_missing_or_twice_is_found() {
    let two = asked(&[("a", "eth_blockNumber", json!([])), ("b", "eth_blockNumber", json!([]))], None);
    let a = result("a", hex(HEIGHT));
    let b = result("b", hex(HEIGHT));
    assert_eq!(found(&two, &json!([b, a]), 2), [""; 0]);
    assert_eq!(found(&two, &json!([a]), 1).len(), 1);
    assert_eq!(found(&two, &json!([a, a, b]), 2).len(), 1);
    assert_eq!(found(&two, &json!([a, a]), 1).len(), 2);
}

// Shows (Reliability).
#[test]
fn units_that_the_answers_do_not_cost_are_found() {
    for (units, broken) in [(5, 0), (4, 1), (0, 1), (10, 1)] {
        assert_eq!(found(&balance(None), &own(HEIGHT), units).len(), broken, "{units}");
    }
    let error = |code: i64, text: &str| json!({ "id": "a", "error": { "code": code, "message": text } });
    let failed = error(FAILED, "backend request failed");
    for (body, units, broken) in [
        (&error(OVER_QUOTA, "compute unit quota exceeded"), 0, 0),
        (&error(OVER_QUOTA, "compute unit quota exceeded"), 5, 1),
        (&failed, 0, 0),
        (&failed, 5, 0),
        (&failed, 10, 1),
    ] {
        assert_eq!(found(&balance(None), body, units).len(), broken, "{body} {units}");
    }
}

// Shows (Reliability).
#[test]
fn an_answer_of_long_ago_or_of_a_height_that_there_is_not_is_found() {
    let number = asked(&[("a", "eth_blockNumber", json!([]))], None);
    let oldest = HEIGHT - STALE.as_secs() - 1;
    for (height, broken) in [(HEIGHT, 0), (oldest + 1, 0), (oldest - 1, 1), (HEIGHT + 1, 1)] {
        assert_eq!(found(&number, &result("a", hex(height)), 1).len(), broken, "{height}");
        assert_eq!(found(&balance(None), &own(height), 5).len(), broken, "{height}");
    }
    let lied = |height: u64| {
        let answer = result("a", hex(height));
        found_after(&chain(true), &number, (200, &answer, 1), None, Duration::ZERO).len()
    };
    assert_eq!([HEIGHT + LIE, HEIGHT, HEIGHT + LIE + 1, oldest - 1 + LIE].map(lied), [0, 0, 1, 1]);
}

// Shows (Reliability).
#[test]
fn a_block_taken_back_long_ago_is_found_with_any_replacement() {
    let chain = chain(false);
    let blocks = chain.blocks.lock().unwrap();
    let hash_at = |height, second| blocks.hash(height, Duration::from_secs(second));
    let mut replaced = (1_001..HEIGHT).filter_map(|height| {
        let first = hash_at(height, height - 1_000)?;
        let last = hash_at(height, 100)?;
        let until = (0..=100).rev().find(|second| hash_at(height, *second) == Some(first))?;
        (first != last && until < 100 - STALE.as_secs() - 1).then_some((height, first, last))
    });
    let (height, first, last) = replaced.next().expect("one was taken back early");
    drop(replaced);
    drop(blocks);
    let block = asked(&[("a", "eth_getBlockByNumber", json!([hex(height), false]))], None);
    let answer = |number: u64, hash: u64| {
        result("a", json!({ "number": hex(number), "hash": format!("{hash:#066x}") }))
    };
    assert_eq!(found(&block, &answer(height, last), 10), [""; 0]);
    for wrong in
        [answer(height, first), answer(height + 1, last), answer(height, 1 << 40), result("a", "0x1")]
    {
        assert_eq!(found(&block, &wrong, 10).len(), 1, "{wrong}");
    }
}

// Shows (Reliability).
#[test]
fn a_block_that_is_missing_though_there_is_one_since_long_is_found() {
    let missing = |height: u64, least| {
        let block = asked(&[("a", "eth_getBlockByNumber", json!([hex(height), false]))], least);
        found(&block, &result("a", Value::Null), 10).len()
    };
    assert_eq!([HEIGHT + 1, HEIGHT, HEIGHT - 60].map(|height| missing(height, None)), [0, 0, 1]);
    assert_eq!([HEIGHT, HEIGHT - 1].map(|least| missing(HEIGHT, Some(least))), [1, 0]);
}

// Shows (Reliability).
#[test]
fn an_answer_or_a_head_that_the_clients_height_excludes_is_found() {
    let least = HEIGHT - 5;
    for (height, broken) in [(least, 0), (least - 1, 1)] {
        assert_eq!(found(&balance(Some(least)), &own(height), 5).len(), broken);
        let number = asked(&[("a", "eth_blockNumber", json!([]))], Some(least));
        assert_eq!(found(&number, &result("a", hex(height)), 1).len(), broken);
    }
    for (head, seen, broken) in
        [(least, Some(least), 0), (least - 1, Some(least), 1), (HEIGHT + 1, Some(least), 1), (least, None, 1)]
    {
        let answer = own(HEIGHT);
        let got = (200, &answer, 5);
        let found = found_after(&chain(false), &balance(seen), got, Some(head), Duration::ZERO);
        assert_eq!(found.len(), broken, "{head}");
    }
}

// Shows (Reliability).
#[test]
fn a_refusal_for_a_height_is_found_if_none_was_named() {
    let message = "no node has reached the block that you have seen, retry later";
    let refused = json!({ "id": "a", "error": { "code": FAILED, "message": message } });
    let found = |least, status| {
        found_after(&chain(false), &balance(least), (status, &refused, 0), None, Duration::ZERO).len()
    };
    assert_eq!((found(Some(HEIGHT), 503), found(None, 503), found(None, 200)), (0, 1, 1));
}

// Shows (Reliability).
#[test]
fn an_answer_after_its_deadline_is_found() {
    let late = |took| found_after(&chain(false), &balance(None), (200, &own(HEIGHT), 5), None, took).len();
    assert_eq!((late(LONGEST), late(LONGEST + Duration::from_millis(1))), (0, 1));
}
