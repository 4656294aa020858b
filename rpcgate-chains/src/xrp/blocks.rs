//! Reads validated ledgers and their events.

use super::Xrp;
use super::address;
use super::shapes::shapes;
use super::transaction::Transaction;
use crate::answer::read;
use crate::following::{at_height, new_block};
use crate::form::is_hex;
use crate::kinds::{KINDS, wants_transactions};
use bytes::Bytes;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::event::{
    BlockEvents, BlockReader, BlockRef, EventFilter, EventShape, EventType, HeadSubscription, NodeCalls,
    ReadError,
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The ledger's times count from 2000-01-01T00:00:00Z.
const RIPPLE_EPOCH: i64 = 946_684_800;
/// The error of a server that does not have a ledger, and its code.
const NOT_FOUND: (&str, i64) = ("lgrNotFound", 21);

const WRONG: &str = "a ledger is not as its API says";
const WRONG_LEDGER: ReadError = ReadError::Unreadable(WRONG);

#[derive(Deserialize)]
struct Answer<'a> {
    error: Option<String>,
    error_code: Option<i64>,
    validated: Option<bool>,
    ledger_index: Option<u64>,
    #[serde(borrow)]
    ledger: Option<Ledger<'a>>,
}

#[derive(Deserialize)]
struct Ledger<'a> {
    ledger_hash: Option<String>,
    parent_hash: Option<String>,
    close_time: Option<i64>,
    #[serde(borrow)]
    transactions: Option<Vec<&'a RawValue>>,
}

impl Ledger<'_> {
    fn reference(&self, index: u64) -> Result<BlockRef, ReadError> {
        let hash = |text: &Option<String>| {
            let hash = text.as_ref().filter(|hash| is_hex(hash, 64)).ok_or(WRONG_LEDGER);
            hash.map(|hash| hash.to_ascii_uppercase())
        };
        let time = self.close_time.and_then(|time| time.checked_add(RIPPLE_EPOCH)).ok_or(WRONG_LEDGER)?;
        Ok(BlockRef::new(index, hash(&self.ledger_hash)?, hash(&self.parent_hash)?, time))
    }
}

async fn ask(node: &dyn NodeCalls, index: &str, more: &str) -> Result<Option<Bytes>, ReadError> {
    match node.call("ledger", format!("[{{\"ledger_index\":{index}{more}}}]")).await {
        Ok(answer) => Ok(Some(answer)),
        Err(ReadError::Refused { code, message }) if code == NOT_FOUND.1 || message.contains(NOT_FOUND.0) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns the ledger of an answer; `None` if it is not validated, such as the open one.
fn validated(answer: &[u8]) -> Result<Option<(BlockRef, Ledger<'_>)>, ReadError> {
    let answer: Answer<'_> = read(answer, WRONG)?;
    if let Some(error) = answer.error {
        if error == NOT_FOUND.0 {
            return Ok(None);
        }
        return Err(ReadError::Refused { code: answer.error_code.unwrap_or(0), message: error });
    }
    if answer.validated != Some(true) {
        return Ok(None);
    }
    let ledger = answer.ledger.ok_or(WRONG_LEDGER)?;
    let block = ledger.reference(answer.ledger_index.ok_or(WRONG_LEDGER)?)?;
    Ok(Some((block, ledger)))
}

fn of_index(answer: &[u8], index: u64) -> Result<Option<(BlockRef, Ledger<'_>)>, ReadError> {
    let Some((block, ledger)) = validated(answer)? else { return Ok(None) };
    Ok(Some((at_height(block, index)?, ledger)))
}

impl Xrp {
    async fn next(
        node: &dyn NodeCalls,
        known: &BlockRef,
        filter: &EventFilter,
    ) -> Result<Option<BlockEvents>, ReadError> {
        let Some(index) = known.height.checked_add(1) else { return Ok(None) };
        let with_transactions = wants_transactions(filter);
        let more = format!(",\"transactions\":true,\"expand\":{with_transactions}");
        let Some(answer) = ask(node, &index.to_string(), &more).await? else { return Ok(None) };
        let Some((block, ledger)) = of_index(&answer, index)? else { return Ok(None) };
        let listed = ledger.transactions.ok_or(WRONG_LEDGER)?;
        let mut events = Vec::new();
        if filter.wants(EventType::NewBlock) {
            events.push(new_block(&block, listed.len()));
        }
        if with_transactions {
            for transaction in Transaction::in_order(&listed)? {
                transaction.push_events(filter, &mut events)?;
            }
        }
        Ok(Some(BlockEvents { block, events }))
    }
}

impl BlockReader for Xrp {
    fn kinds(&self) -> &'static [EventType] {
        KINDS
    }

    fn shapes(&self, kind: EventType) -> Option<&'static [EventShape]> {
        shapes(kind)
    }

    fn head<'a>(&'a self, node: &'a dyn NodeCalls) -> BoxFuture<'a, Result<BlockRef, ReadError>> {
        Box::pin(async move {
            let answer = ask(node, "\"validated\"", "").await?;
            let found = answer.as_deref().map(validated).transpose()?.flatten();
            found.map(|(block, _)| block).ok_or(ReadError::Unreadable("the server has no validated ledger"))
        })
    }

    fn at<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
    ) -> BoxFuture<'a, Result<Option<BlockRef>, ReadError>> {
        Box::pin(async move {
            let Some(answer) = ask(node, &known.height.to_string(), "").await? else { return Ok(None) };
            Ok(of_index(&answer, known.height)?.map(|(block, _)| block))
        })
    }

    fn after<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
        filter: &'a EventFilter,
    ) -> BoxFuture<'a, Result<Option<BlockEvents>, ReadError>> {
        Box::pin(Xrp::next(node, known, filter))
    }

    fn head_subscription(&self) -> Option<HeadSubscription> {
        Some(HeadSubscription { subscribe: r#"{"id":1,"command":"subscribe","streams":["ledger"]}"# })
    }

    fn canonical(&self, key: &str, value: &str) -> Option<String> {
        address::canonical(key, value)
    }
}
