//! The management side.

#[cfg(feature = "api")]
pub mod access;
#[cfg(feature = "api")]
pub mod action;
#[cfg(feature = "api")]
pub mod api;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub mod command;
#[cfg(feature = "api")]
pub mod error;
#[cfg(feature = "api")]
pub mod extract;
#[cfg(feature = "api")]
pub mod house;
#[cfg(feature = "api")]
pub mod identity;
#[cfg(feature = "api")]
pub mod mail;
#[cfg(feature = "api")]
mod members;
#[cfg(feature = "api")]
pub mod metrics;
#[cfg(feature = "api")]
pub mod openapi;
#[cfg(feature = "api")]
mod outer;
#[cfg(feature = "api")]
mod page;
#[cfg(feature = "api")]
pub mod role;
#[cfg(feature = "api")]
pub mod router;
#[cfg(feature = "store")]
pub mod store;
#[cfg(feature = "store")]
pub mod usage;
