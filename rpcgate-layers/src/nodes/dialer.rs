//! Connections to a node over another channel than TCP.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};

/// Both directions of a connection to a node.
pub trait NodeIo: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> NodeIo for T {}

/// The future that resolves to the connection of a [`Dialer`].
pub type DialFuture<'d> = Pin<Box<dyn Future<Output = io::Result<Box<dyn NodeIo>>> + Send + 'd>>;

/// A replacement for TCP connections to a node: through a proxy or a Unix socket, or to an in-memory node in a test
/// with virtual time.
///
/// The connect timeout, the idle connections and TLS (if the node's address asks for it) stay the same.
///
/// ```
/// use bytes::Bytes;
/// use rpcgate_core::{adapter::Adapter, clock::SystemClock, memory::MemoryPermit, toy::Toy};
/// use rpcgate_layers::nodes::{DialFuture, Dialer, NodeConfig, NodeIo, Pool, PoolLimits};
/// use rpcgate_layers::transport::h1::NodeRequest;
/// use std::sync::Arc;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// /// Answers the first request of every connection.
/// #[derive(Debug)]
/// struct InMemory;
///
/// impl Dialer for InMemory {
///     fn dial(&self, host: &str, port: u16) -> DialFuture<'_> {
///         assert_eq!((host, port), ("nowhere", 80));
///         let (near, mut far) = tokio::io::duplex(4096);
///         tokio::spawn(async move {
///             let _ = far.read(&mut [0; 4096]).await;
///             far.write_all(b"HTTP/1.1 203 OK\r\ncontent-length: 0\r\n\r\n").await
///         });
///         Box::pin(async move { Ok(Box::new(near) as Box<dyn NodeIo>) })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rpcgate_layers::nodes::BadUrl> {
/// let node = NodeConfig::new("http://nowhere".parse()?).with_dialer(Arc::new(InMemory));
/// let pool = Pool::new(Toy.facts(), vec![node], PoolLimits::default(), Arc::new(SystemClock::new()));
/// let call = NodeRequest::json_rpc(Bytes::from_static(b"{}"));
/// let answer = pool.ask(&call, &mut MemoryPermit::default()).await;
/// assert_eq!(answer.map(|answer| answer.status.as_u16()).ok(), Some(203));
/// # Ok(())
/// # }
/// ```
pub trait Dialer: fmt::Debug + Send + Sync {
    /// Opens a connection to `host` and `port` of the node's address.
    fn dial(&self, host: &str, port: u16) -> DialFuture<'_>;
}
