//! Resolving names.

use rpcgate_core::backend::BoxFuture;
use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Names that are resolved at once. The operating system resolves a name in a thread of its own, which cannot be
/// stopped.
const AT_ONCE: usize = 64;

/// Resolves names.
pub trait Resolver: Send + Sync + Debug {
    /// The addresses of `name`.
    ///
    /// # Errors
    /// Why it has none, or why that is not known.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The operating system's resolver.
#[derive(Clone, Debug)]
pub struct SystemResolver(Arc<Semaphore>);

impl Default for SystemResolver {
    fn default() -> Self {
        SystemResolver(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let running = self.0.clone().acquire_owned().await.map_err(io::Error::other)?;
            let name = name.to_owned();
            let found = tokio::task::spawn_blocking(move || {
                let found = (name.as_str(), 0).to_socket_addrs();
                // It counts until its thread is free, even if nobody waits for it any more.
                drop(running);
                Ok(found?.map(|found| found.ip()).collect())
            });
            found.await.map_err(io::Error::other)?
        })
    }
}
