//! What a process of the management side can be. Each role can run on hosts of its own.

pub mod api;
mod connection;
pub mod janitor;
