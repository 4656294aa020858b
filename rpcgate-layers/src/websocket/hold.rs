//! What a server holds of a stream that shares its connection with others.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A value that lives as long as a stream: the stream drops it once it has ended, and an unopened one with its request.
///
/// A server puts it among the extensions of a handshake over HTTP/2, where the end of a stream is not the end of a connection:
/// so it learns when the stream no longer needs the connection.
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
    /// A hold on this value.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        StreamHold { _held: Arc::new(held) }
    }
}

impl fmt::Debug for StreamHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamHold")
    }
}
