//! A value that a server ties to a stream on a shared connection.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A value with the lifetime of a stream. It is dropped when the stream ends, or with the request if no stream is
/// opened.
///
/// A server puts it into the extensions of an HTTP/2 handshake, where the end of a stream is not the end of the
/// connection. So the server learns when the stream no longer needs the connection.
///
/// ```
/// use rpcgate_layers::websocket::StreamHold;
/// use std::sync::Arc;
///
/// let open = Arc::new(());
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(StreamHold::new(open.clone()));
/// assert_eq!(Arc::strong_count(&open), 2);
/// drop(request);
/// assert_eq!(Arc::strong_count(&open), 1);
/// ```
#[derive(Clone)]
pub struct StreamHold {
    _held: Arc<dyn Any + Send + Sync>,
}

impl StreamHold {
    /// Creates a hold on this value.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        StreamHold { _held: Arc::new(held) }
    }
}

impl fmt::Debug for StreamHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamHold")
    }
}
