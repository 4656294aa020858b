//! The services of the management side. Each can run on its own hosts.

pub mod api;
mod app_task;
mod biller;
mod connection;
mod delivering;
pub mod dispatcher;
mod drained_body;
pub mod janitor;
mod mail_sender;
mod replayer;
pub mod watcher;
