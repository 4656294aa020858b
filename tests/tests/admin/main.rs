//! The whole service from outside: accounts, projects and keys over the management API, calls over gateways, and usage
//! that tells of them. Modules are named like the paths of the API; `tests/contract.md` says which test shows which
//! sentence.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what goes wrong fails it")]

mod accounts;
mod keys;
mod members;
mod notifications;
mod operator;
mod pages;
mod projects;
mod safeguard;
mod sessions;
mod usage;
mod watch;
