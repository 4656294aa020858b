//! Keys in the management database.

#![expect(clippy::unwrap_used, reason = "a key of the tests that cannot be made fails its test")]

use crate::client::TestClient;
use rpcgate_core::caller::{KeyId, ProjectId, RequestId, TenantId};
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_core::plan::Tier;
use rpcgate_core::secret::{KeyForge, KeyHash, shown};
use rpcgate_store::{Key, Project, Store, Tenant};
use std::net::SocketAddr;

/// The secret of the keys: `gateway.key_secret` of the gateways that accept them.
pub const SECRET: &str = "what all of them know";

/// Returns the text of a genuine key that is not in a database.
///
/// # Panics
/// When the operating system returns no random numbers.
pub fn forged() -> String {
    KeyForge::new(SECRET.as_bytes()).make().unwrap()
}

/// A key and its owner.
#[derive(Debug)]
pub struct TestKey {
    /// The tenant.
    pub tenant: TenantId,
    /// The project.
    pub project: ProjectId,
    /// The identifier.
    pub key: KeyId,
    /// The text.
    pub text: String,
}

impl TestKey {
    /// Creates a key of a new tenant on this plan.
    ///
    /// # Panics
    /// When it cannot be made.
    pub async fn new(store: &Store, tier: Tier) -> Self {
        let now = SystemClock::new().now();
        let number = RequestId::new(now).0;
        let tenant = TenantId(number);
        let project = ProjectId(number);
        let key = KeyId(number);
        let made = Tenant::new(tenant, "t", tier, now);
        store.create_tenant(&made).await.unwrap();
        let made = Project::new(project, tenant, "p", now);
        store.create_project(&made).await.unwrap();
        let text = forged();
        let made = Key::new(key, project, shown(&text), KeyHash::of(&text), now);
        store.create_key(&made, now).await.unwrap();
        TestKey { tenant, project, key, text }
    }

    /// Returns a client that calls a gateway with the key.
    pub fn client(&self, gateway: SocketAddr) -> TestClient {
        TestClient::new(gateway, Some(&self.text))
    }
}
