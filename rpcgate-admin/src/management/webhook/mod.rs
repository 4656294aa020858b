//! Making deliveries of webhooks: one [`attempt`], its [signature], when the next one is due ([`schedule`]), how
//! many are made at once to an endpoint ([`load`]), and for a tenant and its projects ([`tenant_places`]).
//!
//! The body of a delivery is stored with its event, and each attempt sends these bytes. What becomes of a delivery is
//! decided by the head of the answer: any 2xx acknowledges it. Which deliveries are due is decided by the database
//! ([`claim_deliveries`](rpcgate_store::Store::claim_deliveries)), and the service that makes them is the dispatcher.

pub mod attempt;
mod breaker;
mod delivery_counts;
pub mod held_bodies;
pub mod load;
mod request;
pub mod schedule;
pub mod signature;
pub mod tenant_places;
#[cfg(test)]
pub(crate) mod tests;

pub use delivery_counts::DeliveryCounts;
pub(crate) use request::AGENT;
