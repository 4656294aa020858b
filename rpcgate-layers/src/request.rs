//! Layers that see a request before its body is read. The request is first a [`Received`](message::Received), then a
//! [`Routed`](message::Routed), then an [`Authenticated`](message::Authenticated). The response is any
//! [`AdmissionResponse`](admission::AdmissionResponse); over HTTP it is a
//! [`PendingResponse`](message::PendingResponse).

pub mod admission;
pub mod admit;
pub mod authenticate;
pub mod message;
pub mod policy;
pub mod route;
pub mod safeguard;
pub mod scope;
pub mod suspend;
