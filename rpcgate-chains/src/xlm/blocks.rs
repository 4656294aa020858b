//! Reads what a core node says of ledgers: the number, hash and time of the newest one. It has no older ledgers and no
//! transactions to read, so ledgers that close between two looks are not told.

use super::Xlm;
use crate::answer::read;
use crate::form::lower_hex;
use http::Method as Verb;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::event::{
    BlockEvents, BlockReader, BlockRef, ChainEvent, EventType, NodeCalls, ReadError, Wanted,
};
use serde::Deserialize;

const WRONG: &str = "the status of the node is not as its API says";

#[derive(Deserialize)]
struct Status {
    info: Info,
}

#[derive(Deserialize)]
struct Info {
    ledger: Ledger,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ledger {
    num: u64,
    hash: String,
    close_time: i64,
}

async fn newest(node: &dyn NodeCalls) -> Result<BlockRef, ReadError> {
    let answer = node.request(Verb::GET, "/info".to_owned(), String::new()).await?;
    let Status { info: Info { ledger } } = read(&answer, WRONG)?;
    let hash = lower_hex(&ledger.hash, 64).ok_or(ReadError::Unreadable(WRONG))?;
    Ok(BlockRef::new(ledger.num, hash, "", ledger.close_time))
}

impl BlockReader for Xlm {
    fn kinds(&self) -> &'static [EventType] {
        &[EventType::NewBlock]
    }

    fn head<'a>(&'a self, node: &'a dyn NodeCalls) -> BoxFuture<'a, Result<BlockRef, ReadError>> {
        Box::pin(newest(node))
    }

    /// A closed ledger is final.
    fn at<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
    ) -> BoxFuture<'a, Result<Option<BlockRef>, ReadError>> {
        Box::pin(async move {
            let newest = newest(node).await?;
            Ok(match known.height.cmp(&newest.height) {
                std::cmp::Ordering::Less => Some(known.clone()),
                std::cmp::Ordering::Equal => Some(newest),
                std::cmp::Ordering::Greater => None,
            })
        })
    }

    fn after<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
        wanted: &'a Wanted,
    ) -> BoxFuture<'a, Result<Option<BlockEvents>, ReadError>> {
        Box::pin(async move {
            let block = newest(node).await?;
            if block.height <= known.height {
                return Ok(None);
            }
            let is_wanted = wanted.wants(EventType::NewBlock);
            let events = is_wanted.then(|| ChainEvent::new(EventType::NewBlock)).into_iter().collect();
            Ok(Some(BlockEvents { block, events }))
        })
    }

    fn canonical(&self, key: &str, value: &str) -> Option<String> {
        match key {
            "block_hash" => lower_hex(value, 64),
            _ => Some(value.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::simulated::{SimulatedCalls, WrittenCalls, at_height, ready, refused};
    use proptest::prelude::*;
    use rpcgate_core::adapter::Adapter;

    #[test]
    fn a_simulated_node_tells_of_its_newest_ledger() {
        let node = SimulatedCalls::new("xlm");
        let reader = Xlm.block_reader().unwrap();
        let wanted = Wanted::new(EventType::ALL);
        let head = ready(reader.head(&node)).unwrap();
        assert_eq!(ready(reader.after(&node, &head, &wanted)), Ok(None));
        node.wait(60);
        let next = ready(reader.after(&node, &head, &wanted)).unwrap().unwrap();
        assert!(next.block.height > head.height + 1, "the ledgers between are gone");
        assert_eq!(next.events, [ChainEvent::new(EventType::NewBlock)]);
        assert_eq!((next.block.parent.as_str(), next.block.hash.len()), ("", 64));
        assert_eq!(ready(reader.at(&node, &next.block)).unwrap(), Some(next.block.clone()));
        assert_eq!(ready(reader.at(&node, &head)).unwrap(), Some(head), "a closed ledger is final");
        assert_eq!(ready(reader.at(&node, &at_height(next.block.height + 1))), Ok(None));
        let silent = Wanted::new([EventType::TokenTransfer]);
        assert!(ready(reader.after(&node, &at_height(1), &silent)).unwrap().unwrap().events.is_empty());
    }

    #[test]
    fn a_status_that_is_not_as_its_api_says_is_an_error() {
        let reader = Xlm.block_reader().unwrap();
        for wrong in [
            "",
            "{}",
            r#"{"info":{"ledger":{"num":-1,"hash":"00","closeTime":1}}}"#,
            r#"{"info":{"ledger":{"num":7,"hash":"xy","closeTime":1}}}"#,
        ] {
            let node = WrittenCalls(|_: &str, _: &str| Ok(wrong.to_owned()));
            assert_eq!(ready(reader.head(&node)), Err(ReadError::Unreadable(WRONG)), "{wrong}");
        }
        let away = WrittenCalls(|path: &str, _: &str| {
            assert_eq!(path, "/info");
            Err(refused(503, "Service Unavailable"))
        });
        assert_eq!(ready(reader.head(&away)), Err(refused(503, "Service Unavailable")));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(answer in ".{0,200}") {
            let node = WrittenCalls(move |_: &str, _: &str| Ok(answer.clone()));
            prop_assert!(ready(Xlm.block_reader().unwrap().head(&node)).is_err());
        }
    }
}
