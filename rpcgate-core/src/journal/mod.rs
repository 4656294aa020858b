//! The byte form of records.
