//! Webhook deliveries: one [`attempt`], its [signature], the time of the next one ([`schedule`]), and the limits on
//! concurrent attempts per endpoint ([`load`]), tenant and project ([`attempt_slots`]).
//!
//! The body of a delivery is stored with its event, and each attempt sends these bytes. The head of the answer decides
//! the outcome: any 2xx acknowledges the delivery. The database decides which deliveries are due
//! ([`claim_deliveries`](rpcgate_store::Store::claim_deliveries)), and the dispatcher service makes them.

pub mod attempt;
pub mod attempt_slots;
mod breaker;
mod delivery_counts;
pub mod held_bodies;
pub mod load;
mod request;
pub mod schedule;
pub mod signature;
#[cfg(test)]
pub(crate) mod tests;

pub use delivery_counts::DeliveryCounts;
pub use request::AGENT;
