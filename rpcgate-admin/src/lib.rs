//! The management side.

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub mod command;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod management;
pub mod services;
