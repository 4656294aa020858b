//! The management side.

#[cfg(feature = "api")]
pub mod access;
#[cfg(feature = "api")]
pub mod action;
#[cfg(feature = "api")]
pub mod api;
#[cfg(feature = "api")]
pub mod app_state;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub mod command;
#[cfg(feature = "api")]
pub mod error;
#[cfg(feature = "api")]
pub mod extract;
#[cfg(feature = "api")]
pub mod identity;
#[cfg(feature = "api")]
pub mod mail;
#[cfg(feature = "api")]
pub mod metrics;
#[cfg(feature = "api")]
mod middleware;
#[cfg(feature = "api")]
pub mod openapi;
#[cfg(feature = "api")]
mod page;
#[cfg(feature = "process")]
pub mod process;
#[cfg(feature = "api")]
pub mod router;
#[cfg(feature = "api")]
pub mod services;
#[cfg(feature = "store")]
pub mod store;
#[cfg(feature = "api")]
mod strict_json;
#[cfg(feature = "store")]
pub mod usage;
