//! How often somebody may ask the management side for something.

use super::address::AddressLimit;
use super::limit::MinuteLimit;
use crate::store::UserId;
use rpcgate_core::clock::Clock;
use std::sync::Arc;

/// Requests of one user that are served in any 60 seconds.
const OF_USER: u32 = 600;
/// Requests of one client address that are served in any 60 seconds although nobody is logged in.
const OF_ADDRESS: u32 = 60;

/// How often somebody may ask the management side for something.
#[derive(Debug)]
pub struct RequestLimits {
    /// Log-ins, registrations and the like of a client address: what costs a password's hash, or sends a mail.
    pub attempts: AddressLimit,
    /// Whatever else a client address asks for without being logged in.
    pub anonymous: AddressLimit,
    /// Requests of a user.
    pub users: MinuteLimit<UserId>,
}

impl RequestLimits {
    /// So many attempts of an address in a minute (`admin.auth_per_minute`). The other limits are 60 for an address and
    /// 600 for a user, and never less than that one.
    pub fn new(auth_per_minute: u32, clock: &Arc<dyn Clock>) -> Self {
        RequestLimits {
            attempts: AddressLimit::new(auth_per_minute, clock.clone()),
            anonymous: AddressLimit::new(auth_per_minute.max(OF_ADDRESS), clock.clone()),
            users: MinuteLimit::new(auth_per_minute.max(OF_USER), clock.clone()),
        }
    }
}
