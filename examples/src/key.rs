//! A key, for examples that do not deal with directories; `whole_gateway.rs` shows how to create one.

use crate::BoxError;
use rpcgate_core::backend::directory::MemoryDirectory;
use rpcgate_core::caller::{Caller, KeyId, ProjectId, TenantId};
use rpcgate_core::plan::{Plan, Tier};
use rpcgate_core::secret::{KeyForge, KeyHash};
use std::sync::Arc;

/// Creates a key of a tenant on the standard plan, and a directory with it.
///
/// # Errors
/// If the machine provides no random numbers.
pub fn fresh() -> Result<(String, Arc<MemoryDirectory>), BoxError> {
    let key = KeyForge::new(b"only for this example").make()?;
    let caller = Caller::new(KeyId(1), ProjectId(1), TenantId(1), Plan::of(Tier::Standard));
    let directory = MemoryDirectory::new([(KeyHash::of(&key), Arc::new(caller))]);
    Ok((key, Arc::new(directory)))
}
