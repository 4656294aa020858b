//! The management side.

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub mod command;
#[cfg(all(fuzzing, feature = "api"))]
pub mod fuzzing;
#[cfg(feature = "api")]
pub mod management;
#[cfg(feature = "process")]
pub mod process;
#[cfg(feature = "api")]
pub mod services;
#[cfg(feature = "store")]
pub mod store;
