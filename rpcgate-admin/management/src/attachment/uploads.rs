//! The limit on concurrent uploads. Each file is held in memory until it is stored.

use parking_lot::Mutex;
use rpcgate_core::caller::TenantId;
use std::collections::HashSet;
use std::sync::Arc;

const AT_ONCE: usize = 8;

/// The running uploads: at most one per tenant and eight in total. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Uploads(Arc<Mutex<HashSet<TenantId>>>);

impl Uploads {
    /// Starts an upload of a tenant, unless the tenant has a running upload or the total is reached.
    pub fn begin(&self, tenant: TenantId) -> Option<UploadPermit> {
        let mut running = self.0.lock();
        (running.len() < AT_ONCE && running.insert(tenant))
            .then(|| UploadPermit { uploads: self.clone(), tenant })
    }
}

/// A running upload. It ends on drop.
#[derive(Debug)]
pub struct UploadPermit {
    uploads: Uploads,
    tenant: TenantId,
}

impl Drop for UploadPermit {
    fn drop(&mut self) {
        self.uploads.0.lock().remove(&self.tenant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_uploads_one_file_at_a_time_and_all_tenants_a_few() {
        let uploads = Uploads::default();
        let mut running: Vec<_> = (0..8).map(|id| uploads.begin(TenantId(id)).unwrap()).collect();
        assert!(uploads.begin(TenantId(9)).is_none(), "too many run");
        running.pop();
        assert!(uploads.begin(TenantId(3)).is_none(), "its own upload runs");
        let next = uploads.begin(TenantId(9));
        assert!(next.is_some());
        drop((running, next));
        assert!(uploads.begin(TenantId(3)).is_some());
    }
}
