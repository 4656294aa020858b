//! Test support for programs that use a store: databases with the newest schema, and rows that programs write only in
//! passing.

mod database;
mod writes;

pub use crate::query::testing::sample_webhooks::SampleDelivery;
pub use crate::query::testing::seeded_deliveries::{StoredAttempt, StoredDelivery, webhook};
#[cfg(all(test, have_postgres))]
pub(crate) use database::postgres;
pub use database::{FILE, TestDatabase, put_files};
