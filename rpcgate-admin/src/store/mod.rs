//! The database. Only here is SQL spoken.
