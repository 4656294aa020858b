//! The management side.

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub mod command;
#[cfg(feature = "api")]
pub mod identity;
#[cfg(feature = "api")]
pub mod mail;
#[cfg(feature = "store")]
pub mod store;
#[cfg(feature = "store")]
pub mod usage;
