//! The dashboard in a real browser: the actions of customers and operators from their first visit on, with scripts and
//! without, on a phone and on a wide screen, light and dark; and the checks of every page. Nodes, gateways, mails and
//! receivers of webhooks are real, on sockets of the loopback interface.
//!
//! Without a browser these tests report that they are skipped, and fail if services are required.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what goes wrong fails it")]

mod accessibility;
mod customer;
mod front;
mod hostile;
mod month;
mod operator;
mod screenshots;
mod scriptless;
mod site;
mod visited;
mod weight;
