//! The management API and its pages: permissions, rules, and the JSON and HTML interfaces.
//!
//! [`router`] lists every route with its [`access`]. [`action`] contains the rules; [`api`] is their JSON interface and
//! `page` their HTML interface. SQL is in [`store`](rpcgate_store), and the services that run these routes are in
//! [`services`](crate::services).

pub mod access;
pub mod action;
pub mod api;
pub mod app_state;
pub mod attachment;
pub mod cleanup_failures;
pub(crate) mod document;
pub mod egress;
mod empty_body;
pub mod error;
pub mod extract;
pub mod gateway_urls;
pub(crate) mod idempotency;
pub mod identity;
pub mod mail;
pub mod metrics;
mod middleware;
pub mod openapi;
pub mod outgoing;
pub(crate) mod page;
pub mod payment;
mod query_parameters;
pub mod request_metrics;
pub mod request_traces;
pub mod router;
mod routing;
pub mod shape;
pub(crate) mod strict_json;
pub mod watch_metrics;
pub mod webhook;
pub mod what_if_slots;

/// The maximum number of bytes of a request's body, unless a route says otherwise.
pub(crate) const MAX_BODY: usize = 64 << 10;
