//! The cases of the Autobahn test suite (sections 1 to 7, 9 and 10 of its fuzzing client), written out: what a client sends,
//! and what has to come back. Instead of the echo, which is the suite's, the gateway answers that the message is no call.
//!
//! Where the suite knows a strict and a lenient outcome ("non-strict"), both pass: an endpoint that finds an error may drop
//! answers to what came before it.

mod control;
mod data;
mod run;
mod size;
mod utf8;

pub(crate) use run::Suite;
