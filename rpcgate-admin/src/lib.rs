//! The management side.

pub mod cli;
pub mod command;
