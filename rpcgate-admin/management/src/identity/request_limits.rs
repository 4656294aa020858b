//! Rate limits on requests to the management side.

use super::address::AddressLimit;
use super::limit::MinuteLimit;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Clock;
use rpcgate_store::UserId;
use std::sync::Arc;

/// The limit of one user in any 60 seconds.
const PER_USER: u32 = 600;
/// The limit of test events and replays of one tenant in any 60 seconds.
const DELIVERIES_PER_TENANT: u32 = 30;
/// The limit of unauthenticated requests of one client address in any 60 seconds.
const PER_ADDRESS: u32 = 60;

/// The rate limits on requests to the management side.
#[derive(Debug)]
pub struct RequestLimits {
    /// Log-ins, registrations and other requests of a client address that cost a password hash or send a mail.
    pub attempts: AddressLimit,
    /// All other unauthenticated requests of a client address.
    pub anonymous: AddressLimit,
    /// Requests of a user.
    pub users: MinuteLimit<UserId>,
    /// Test events and replays of a tenant, which cost its receivers and the database more than other requests.
    pub deliveries: MinuteLimit<TenantId>,
}

impl RequestLimits {
    /// Admits `auth_per_minute` attempts per address (`admin.auth_per_minute`). The other limits are 60 per address and
    /// 600 per user, and never lower than `auth_per_minute`.
    pub fn new(auth_per_minute: u32, clock: &Arc<dyn Clock>) -> Self {
        RequestLimits {
            attempts: AddressLimit::new(auth_per_minute, clock.clone()),
            anonymous: AddressLimit::new(auth_per_minute.max(PER_ADDRESS), clock.clone()),
            users: MinuteLimit::new(auth_per_minute.max(PER_USER), clock.clone()),
            deliveries: MinuteLimit::new(DELIVERIES_PER_TENANT, clock.clone()),
        }
    }
}
