//! The cases of the Autobahn test suite (sections 1 to 7, 9 and 10 of its fuzzing client), written out: the client's
//! frames and the expected answers. The gateway does not echo messages like the suite's server, but answers that they
//! are no calls.
//!
//! Where the suite has a strict and a lenient outcome ("non-strict"), both pass: an endpoint that finds an error may
//! drop answers to earlier messages.

mod control;
mod data;
mod run;
mod size;
mod utf8;

pub(crate) use run::Suite;
