//! Helpers for readers of several chains.

use rpcgate_core::event::{BlockRef, ChainEvent, EventType, ReadError};

pub(crate) fn new_block(block: &BlockRef, transactions: usize) -> ChainEvent {
    ChainEvent::new(EventType::NewBlock)
        .with("parent_hash", block.parent.as_str())
        .with("transactions", transactions)
}

/// Returns the block if it is at the requested height: a node must not answer with another one.
pub(crate) fn at_height(block: BlockRef, height: u64) -> Result<BlockRef, ReadError> {
    if block.height == height {
        Ok(block)
    } else {
        Err(ReadError::Unreadable("the node's block is at another height"))
    }
}

/// Returns `None` only above the newest block, for nodes that refuse those heights and pruned ones alike.
pub(crate) async fn unless_above(
    found: Result<BlockRef, ReadError>,
    height: u64,
    newest: impl Future<Output = Result<u64, ReadError>>,
) -> Result<Option<BlockRef>, ReadError> {
    match found {
        Err(refusal @ ReadError::Refused { .. }) => {
            if newest.await? < height {
                Ok(None)
            } else {
                Err(refusal)
            }
        }
        found => found.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::ready;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn block() -> BlockRef {
        BlockRef::new(7, "h", "p", 0)
    }

    #[test]
    fn a_block_at_another_height_is_rejected() {
        assert_eq!(at_height(block(), 7), Ok(block()));
        assert!(at_height(block(), 8).is_err());
    }

    #[test]
    fn a_refused_height_is_missing_only_above_the_newest_block() {
        let refusal = || ReadError::Refused { code: 5, message: "no".into() };
        let found = |found, newest| {
            let mut future = pin!(unless_above(found, 7, ready(newest)));
            match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(found) => found,
                Poll::Pending => panic!("nothing waits here"),
            }
        };
        assert_eq!(found(Ok(block()), Ok(6)), Ok(Some(block())));
        assert_eq!(found(Err(refusal()), Ok(6)), Ok(None));
        assert_eq!(found(Err(refusal()), Ok(7)), Err(refusal()));
        let away = || ReadError::Unreachable("away".into());
        assert_eq!(found(Err(refusal()), Err(away())), Err(away()));
        assert_eq!(found(Err(away()), Ok(6)), Err(away()));
    }
}
