//! A key, for examples that do not deal with directories, and a database of keys for `own_keys.rs`.

use crate::BoxError;
use rpcgate_core::backend::Unavailable;
use rpcgate_core::backend::directory::MemoryDirectory;
use rpcgate_core::caller::Caller;
use rpcgate_core::plan::{Plan, Tier};
use rpcgate_core::secret::{KeyForge, KeyHash};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Creates a key of a tenant on the standard plan, and a directory with it.
///
/// # Errors
/// If the machine provides no random numbers.
pub fn fresh() -> Result<(String, Arc<MemoryDirectory>), BoxError> {
    let key = KeyForge::new(b"only for this example").make()?;
    let caller = Arc::new(Caller::of(1, Plan::of(Tier::Standard)));
    let directory = MemoryDirectory::new([(KeyHash::of(&key), caller)]);
    Ok((key, Arc::new(directory)))
}

/// A key database, which stores only hashes of keys. A real one is reached over a socket.
#[derive(Debug, Default)]
pub struct KeyDatabase {
    rows: HashMap<KeyHash, Arc<Caller>>,
    /// The number of queries.
    pub queries: AtomicU32,
    /// True if every query fails.
    pub is_down: AtomicBool,
}

impl KeyDatabase {
    /// Creates a database with one key, of a customer on the standard plan.
    pub fn of(key: &str) -> Self {
        let customer = Arc::new(Caller::of(1, Plan::of(Tier::Standard)));
        KeyDatabase { rows: HashMap::from([(KeyHash::of(key), customer)]), ..KeyDatabase::default() }
    }

    /// Returns the customer who has the key with this hash.
    ///
    /// # Errors
    /// [`Unavailable`] if the database is down.
    pub async fn find(&self, hash: KeyHash) -> Result<Option<Arc<Caller>>, Unavailable> {
        self.queries.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        if self.is_down.load(Ordering::Relaxed) {
            return Err(Unavailable);
        }
        Ok(self.rows.get(&hash).cloned())
    }
}
