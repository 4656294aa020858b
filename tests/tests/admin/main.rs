//! The whole service from outside: accounts, projects and keys over the management API, calls over gateways, and their
//! usage. Modules have the names of the API's paths; `tests/contract.md` lists the promises and their tests.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what goes wrong fails it")]

mod accounts;
mod admin_command;
mod balancer;
mod billing;
mod command_line;
mod contracts;
mod custom_plans;
mod explain;
mod factors;
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "factors/mod.rs"]
mod factors_on_postgres;
mod keys;
mod mails;
mod members;
mod notifications;
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "command_line.rs"]
mod on_postgres;
mod operator;
mod pages;
mod plans;
mod projects;
mod safeguard;
mod sessions;
mod tickets;
mod traces;
mod usage;
mod watch;
