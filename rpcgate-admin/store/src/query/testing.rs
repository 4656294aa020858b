//! Rows for tests, which need the private parts of the queries.

pub(crate) mod sample_webhooks;
pub(crate) mod seeded_deliveries;
