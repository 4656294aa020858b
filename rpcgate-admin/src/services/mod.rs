//! The services of the management side. Each can run on hosts of its own.

pub mod api;
mod biller;
mod connection;
pub mod janitor;
mod mail_sender;
mod request_body;
