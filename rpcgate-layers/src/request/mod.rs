//! Layers that see a request before its body is read: what travels is [`Received`](message::Received), then
//! [`Routed`](message::Routed), then [`Authenticated`](message::Authenticated), and what comes back is a
//! [`PendingResponse`](message::PendingResponse).

pub mod authenticate;
pub mod message;
pub mod policy;
pub mod route;
pub mod safeguard;
pub mod scope;
pub mod suspend;
