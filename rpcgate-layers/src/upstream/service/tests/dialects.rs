//! Chains with their own answer format.

use super::*;

fn of(facts: &'static Facts, node: &ScriptedNode) -> Site {
    let pool = PoolFixture::new(&[node]);
    Site::of(variant(facts), pool)
}

static XRP: Facts = TOY.with_dialect(Dialect::Xrp).with_batch(false);
static TON: Facts = TOY.with_dialect(Dialect::Ton).with_batch(false);
static OGMIOS: Facts = TOY.with_dialect(Dialect::Ogmios);

#[tokio::test]
async fn a_cacheable_xrp_call_has_neither_version_nor_id_and_its_answer_is_a_result_alone() {
    let said = r#"{"result":{"status":"success"}}"#;
    let node = ScriptedNode::always(answer(said)).await;
    let site = of(&XRP, &node);
    let (status, body) = site.send(r#"{"jsonrpc":"2.0","id":7,"method":"toy_read","params":[{}]}"#).await;
    assert_eq!((status, body.as_str()), (200, said));
    assert_eq!(bodies(&node), [r#"{"method":"toy_read","params":[{}]}"#]);
    let (_, body) = site.send(r#"{"method":"other","params":[{"api_version":2}]}"#).await;
    assert_eq!(body, said);
    assert_eq!(bodies(&node)[1], r#"{"id":0,"method":"other","params":[{"api_version":2}]}"#);
}

#[tokio::test]
async fn a_closed_method_is_refused_in_the_form_of_an_xrp_server() {
    let mut out = Vec::new();
    Refusal::Closed.write_alone(Dialect::Xrp, Some(b"7"), &mut out);
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with(r#"{"result":{"error":"noPermission","error_code":6,"#), "{text}");
}

#[tokio::test]
async fn an_answer_of_toncenter_keeps_its_form_under_the_clients_id() {
    let node = ScriptedNode::always(answer(r#"{"ok":true,"result":{"a":1},"jsonrpc":"2.0","id":"0"}"#)).await;
    let site = of(&TON, &node);
    let response = site.send(r#"{"jsonrpc":"2.0","id":7,"method":"other"}"#).await;
    assert_eq!(response, (200, r#"{"ok":true,"result":{"a":1},"jsonrpc":"2.0","id":7}"#.to_owned()));
    let response = site.send(r#"{"jsonrpc":"2.0","id":"7","method":"other"}"#).await;
    assert_eq!(response.1, r#"{"ok":true,"result":{"a":1},"jsonrpc":"2.0","id":"7"}"#);
}

#[tokio::test]
async fn an_error_of_toncenter_keeps_its_status_its_text_and_its_code() {
    let said = r#"{"ok":false,"error":"Incorrect address","code":416,"jsonrpc":"2.0","id":"1"}"#;
    let node = ScriptedNode::always(status(416, &said.replace("\"id\":\"1\"", "\"id\":\"0\""))).await;
    let site = of(&TON, &node);
    assert_eq!(site.send(r#"{"jsonrpc":"2.0","id":"1","method":"other"}"#).await, (416, said.to_owned()));
    let response = site.send(r#"{"jsonrpc":"2.0","id":1,"method":"other"}"#).await;
    let own = r#"{"ok":false,"error":"Incorrect address","code":416,"jsonrpc":"2.0","id":1}"#;
    assert_eq!(response, (416, own.to_owned()));
    assert!(site.lines().iter().all(|line| line.2 == Outcome::NodeError));
}

#[tokio::test]
async fn an_answer_of_ogmios_names_the_method_again() {
    let node =
        ScriptedNode::always(answer(r#"{"jsonrpc":"2.0","method":"toy_read","result":5,"id":0}"#)).await;
    let site = of(&OGMIOS, &node);
    let (_, body) = site.send(r#"{"jsonrpc":"2.0","id":{"requestId":"a"},"method":"toy_read"}"#).await;
    assert_eq!(body, r#"{"jsonrpc":"2.0","method":"toy_read","result":5,"id":{"requestId":"a"}}"#);
    let node =
        ScriptedNode::always(answer(r#"{"jsonrpc":"2.0","method":"x","error":{"code":3000},"id":0}"#)).await;
    let site = of(&OGMIOS, &node);
    let (status, body) = site.send(r#"{"jsonrpc":"2.0","id":{"a":1},"method":"other"}"#).await;
    assert_eq!(
        (status, body.as_str()),
        (200, r#"{"jsonrpc":"2.0","method":"x","error":{"code":3000},"id":{"a":1}}"#)
    );
}
