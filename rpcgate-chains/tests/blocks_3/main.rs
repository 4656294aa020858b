//! Readers of the blocks of Aptos, TON, Solana and Cardano, on simulated nodes and on answers written by hand.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "all of this is a test: what goes wrong fails it"
)]
#![expect(clippy::needless_pass_by_value, reason = "callers write their JSON in place")]

mod aptos;
mod calls;
mod cardano;
mod garbage;
mod solana;
mod ton;
