//! A streamed answer, from its first byte on.

use crate::transport::h1::NodeBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use rpcgate_core::fault::Fault;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A body that begins with a prefix that was read already.
pub(super) struct Prefixed {
    prefix: Bytes,
    rest: Box<NodeBody>,
}

impl Prefixed {
    pub(super) fn new(prefix: Bytes, rest: Box<NodeBody>) -> Self {
        Prefixed { prefix, rest }
    }
}

impl Body for Prefixed {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        if !self.prefix.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.prefix)))));
        }
        Pin::new(&mut *self.rest).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.prefix.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, prefix) = (self.rest.size_hint(), self.prefix.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(prefix));
        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(prefix)) {
            hint.set_upper(upper);
        }
        hint
    }
}
