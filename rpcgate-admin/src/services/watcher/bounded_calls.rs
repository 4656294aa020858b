//! Limits on the calls and bytes that reading one block may use.

use bytes::Bytes;
use http::Method;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::event::{NodeCalls, ReadError};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum number of calls for one block. Readers of UTXO chains whose nodes return transactions one by one need
/// the most, 12,000.
const CALLS: usize = 20_000;

/// The maximum number of bytes of all answers for one block. The chains' largest blocks need a tenth of that.
const BYTES: usize = 512 << 20;

/// The calls to a node for one block. The limits stop a node that always returns another page from keeping a reader
/// busy or filling the memory.
#[derive(Debug)]
pub(super) struct BoundedCalls<'n> {
    node: &'n dyn NodeCalls,
    calls: AtomicUsize,
    bytes: AtomicUsize,
}

impl<'n> BoundedCalls<'n> {
    pub(super) fn new(node: &'n dyn NodeCalls) -> Self {
        BoundedCalls { node, calls: AtomicUsize::new(CALLS), bytes: AtomicUsize::new(BYTES) }
    }

    async fn bounded(&self, call: BoxFuture<'_, Result<Bytes, ReadError>>) -> Result<Bytes, ReadError> {
        take(&self.calls, 1).ok_or(ReadError::Unreadable("a block takes too many calls"))?;
        let answer = call.await?;
        take(&self.bytes, answer.len())
            .ok_or(ReadError::Unreadable("the answers for a block are too large"))?;
        Ok(answer)
    }
}

/// Takes `count` of the rest, or returns `None` if less is left.
fn take(left: &AtomicUsize, count: usize) -> Option<usize> {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(count)).ok()
}

impl NodeCalls for BoundedCalls<'_> {
    fn call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(self.bounded(self.node.call(method, params)))
    }

    fn request<'a>(
        &'a self,
        verb: Method,
        path: String,
        body: String,
    ) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(self.bounded(self.node.request(verb, path, body)))
    }

    fn stream_call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(self.bounded(self.node.stream_call(method, params)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node with answers of this size.
    #[derive(Debug)]
    struct LargeNode(Bytes);

    impl NodeCalls for LargeNode {
        fn call<'a>(&'a self, _: &'a str, _: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
            Box::pin(async { Ok(self.0.clone()) })
        }

        fn request<'a>(&'a self, _: Method, _: String, _: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
            self.call("", String::new())
        }

        fn stream_call<'a>(&'a self, _: &'a str, _: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
            self.call("", String::new())
        }
    }

    // Shows (Webhooks): The data that a block takes from a node is bounded, and deep nesting by senders stops nothing.
    #[tokio::test]
    async fn a_block_takes_no_more_than_its_share_of_calls_and_bytes() {
        let large = LargeNode(vec![0; 64 << 20].into());
        let bounded = BoundedCalls::new(&large);
        for number in 0..8 {
            let answer = match number % 3 {
                0 => bounded.call("", String::new()).await,
                1 => bounded.request(Method::GET, String::new(), String::new()).await,
                _ => bounded.stream_call("", String::new()).await,
            };
            assert!(answer.is_ok(), "{number}");
        }
        let too_large = Err(ReadError::Unreadable("the answers for a block are too large"));
        assert_eq!(bounded.call("", String::new()).await, too_large);
        let small = LargeNode(Bytes::new());
        let bounded = BoundedCalls::new(&small);
        for _ in 0..CALLS {
            assert!(bounded.call("", String::new()).await.is_ok());
        }
        let too_many = Err(ReadError::Unreadable("a block takes too many calls"));
        assert_eq!(bounded.call("", String::new()).await, too_many);
        assert!(
            BoundedCalls::new(&small).call("", String::new()).await.is_ok(),
            "the next block has its own"
        );
    }
}
