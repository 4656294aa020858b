//! Stations that see a request before its body is read: what travels is [`Stamped`](travel::Stamped), then
//! [`Routed`](travel::Routed), then [`Known`](travel::Known), and what comes back is a
//! [`Departure`](travel::Departure).

pub mod authenticate;
pub mod judge;
pub mod route;
pub mod safeguard;
pub mod scope;
pub mod suspend;
pub mod travel;
