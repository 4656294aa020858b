//! The service for operators and their customers: the API, the services that run in the background, and the commands.
//!
//! The rules are in [`rpcgate_management`], the pages in [`rpcgate_dashboard`], and SQL in [`rpcgate_store`]. The
//! [`router`] lists every route of the API with its access, and adds the pages.

pub mod api;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub mod command;
mod empty_body;
mod idempotency;
pub mod metrics;
pub mod openapi;
mod query_parameters;
pub mod route_guard;
pub mod router;
mod routing;
pub mod services;
#[cfg(test)]
mod testing;
