//! In the making.

#[cfg(feature = "simulate")]
pub mod simulate;
