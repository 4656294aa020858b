//! The data that identifies or creates the demo's account.

use super::dir::Dir;
use super::state::DemoState;
use rpcgate_config::Config;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;

/// The address of the account's user. Nothing is ever sent there: the domain is reserved (RFC 2606).
pub(super) const EMAIL: &str = "demo@example.com";

#[derive(Debug)]
pub(super) struct Enrolment<'a> {
    pub(super) config: &'a Config,
    pub(super) dir: &'a Dir,
    pub(super) state: &'a mut DemoState,
    /// The new plan; `None` leaves it unchanged.
    pub(super) plan: Option<Tier>,
    pub(super) now: Time,
}

/// Returns the address that is used if another demo has `email`.
pub(super) fn own_address(email: &str, tenant: TenantId) -> String {
    email.replace('@', &format!("+{tenant}@"))
}
