//! The rules of the management: accounts, keys, plans, bills, mails and webhooks.
//!
//! [`action`] contains the rules. Three interfaces call them: the API and the command line in `rpcgate-admin`, and the
//! pages in `rpcgate-dashboard`. What they share is here too: the [`shape`] of JSON answers, [`access`], errors,
//! [`middleware`] and printed documents. SQL is in [`rpcgate_store`].

pub mod access;
pub mod action;
pub mod app_state;
pub mod attachment;
pub mod cleanup_failures;
pub mod document;
pub mod egress;
pub mod error;
pub mod extract;
pub mod gateway_urls;
pub mod identity;
pub mod mail;
pub mod middleware;
pub mod outgoing;
pub mod payment;
pub mod request_metrics;
pub mod request_traces;
pub mod routing;
pub mod shape;
pub mod strict_json;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod watch_metrics;
pub mod webhook;
pub mod what_if_slots;

/// The maximum number of bytes of a request's body, unless a route says otherwise.
pub const MAX_BODY: usize = 64 << 10;
