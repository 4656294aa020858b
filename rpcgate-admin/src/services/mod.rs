//! The services of the management side. Each can run on hosts of its own.

pub mod api;
mod biller;
mod connection;
mod drained_body;
pub mod janitor;
mod mail_sender;
