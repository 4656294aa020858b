//! Stellar.

use crate::node::{ScriptedNode, SimulatedNode, refused};
use crate::reading::{Reader, all, at_height, only};
use rpcgate_core::event::{ChainEvent, EventType, ReadError};

// Shows (Events of chains): Stellar: the newest ledger is a new block.
#[test]
fn a_simulated_node_reports_its_newest_ledger() {
    let reader = Reader::of("xlm");
    let node = SimulatedNode::of("xlm");
    let head = reader.head(&node).unwrap();
    assert_eq!(reader.after(&node, &head, &all()), Ok(None));
    node.wait(60_000);
    let next = reader.after(&node, &head, &all()).unwrap().unwrap();
    assert!(next.block.height > head.height + 1, "the ledgers between are gone");
    assert_eq!(next.events, [ChainEvent::new(EventType::NewBlock)]);
    assert_eq!((next.block.parent.as_str(), next.block.hash.len()), ("", 64));
    assert_eq!(reader.at(&node, &next.block).unwrap(), Some(next.block.clone()));
    assert_eq!(reader.at(&node, &head).unwrap(), Some(head), "a closed ledger is final");
    assert_eq!(reader.at(&node, &at_height(next.block.height + 1)), Ok(None));
    let silent = only(&[EventType::TokenTransfer]);
    assert!(reader.after(&node, &at_height(1), &silent).unwrap().unwrap().events.is_empty());
}

#[test]
fn a_status_that_violates_its_api_is_an_error() {
    let reader = Reader::of("xlm");
    for wrong in [
        "",
        "{}",
        r#"{"info":{"ledger":{"num":-1,"hash":"00","closeTime":1}}}"#,
        r#"{"info":{"ledger":{"num":7,"hash":"xy","closeTime":1}}}"#,
    ] {
        let node = ScriptedNode::of_texts(|_, _| Ok(wrong.to_owned()));
        let unreadable = ReadError::Unreadable("the status of the node is not as its API says");
        assert_eq!(reader.head(&node), Err(unreadable), "{wrong}");
    }
    let away = ScriptedNode::new(|path, _| {
        assert_eq!(path, "/info");
        Err(refused(503, "Service Unavailable"))
    });
    assert_eq!(reader.head(&away), Err(refused(503, "Service Unavailable")));
}
