//! The limits on requests to the management side.

use super::address::AddressLimit;
use super::limit::MinuteLimit;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Clock;
use rpcgate_store::UserId;
use std::sync::Arc;

/// Requests of one user in any 60 seconds.
const PER_USER: u32 = 600;
/// Test events and replays of one tenant in any 60 seconds.
const DELIVERIES_PER_TENANT: u32 = 30;
/// Requests of one client address without a log-in in any 60 seconds.
const PER_ADDRESS: u32 = 60;

/// The limits on requests to the management side.
#[derive(Debug)]
pub struct RequestLimits {
    /// Log-ins, registrations and the like of a client address: requests that cost a password hash or send a mail.
    pub attempts: AddressLimit,
    /// All other requests of a client address without a log-in.
    pub anonymous: AddressLimit,
    /// Requests of a user.
    pub users: MinuteLimit<UserId>,
    /// Test events and replays of a tenant, which cost its receivers and the database more than a request.
    pub deliveries: MinuteLimit<TenantId>,
}

impl RequestLimits {
    /// Limits with `auth_per_minute` attempts of an address (`admin.auth_per_minute`). The other limits are 60 for an
    /// address and 600 for a user, and never below that one.
    pub fn new(auth_per_minute: u32, clock: &Arc<dyn Clock>) -> Self {
        RequestLimits {
            attempts: AddressLimit::new(auth_per_minute, clock.clone()),
            anonymous: AddressLimit::new(auth_per_minute.max(PER_ADDRESS), clock.clone()),
            users: MinuteLimit::new(auth_per_minute.max(PER_USER), clock.clone()),
            deliveries: MinuteLimit::new(DELIVERIES_PER_TENANT, clock.clone()),
        }
    }
}
