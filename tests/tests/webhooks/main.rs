//! Webhooks as a whole: accounts, endpoints and subscriptions over the management API, blocks of simulated and of
//! scripted nodes behind sockets, and a receiver that verifies what it gets. Processes are killed between sending and
//! marking, and databases are restored from a backup.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what goes wrong fails it")]

mod backup;
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same test, on the other database")]
#[path = "backup.rs"]
mod backup_on_postgres;
mod chains;
mod fork;
mod kill;
mod whole;
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "whole.rs"]
mod whole_on_postgres;

pub(crate) use chains::Chains;
use ring::hmac;
pub(crate) use rpcgate_core::clock::{Clock, ManualClock, SystemClock, Time};
pub(crate) use rpcgate_tests::admin::{ApiUser, TestService};
pub(crate) use rpcgate_tests::gateway::{START, Setup};
pub(crate) use rpcgate_tests::process::{Process, Site, manage};
pub(crate) use rpcgate_tests::receiver::{ReceivedDelivery, WebhookReceiver};
pub(crate) use rpcgate_tests::{TIMEOUT, until, until_within};
pub(crate) use serde_json::{Value, json};
pub(crate) use std::collections::{BTreeMap, BTreeSet};
pub(crate) use std::sync::Arc;
pub(crate) use std::time::Duration;

/// Runs the management side of this test binary: see [`Site`].
#[test]
fn manage_where_a_site_asks_for_it() {
    manage();
}

/// Allows receivers on this machine, more endpoints and subscriptions than a plan has, and an easy challenge.
pub(crate) fn lenient(setup: Setup) -> Setup {
    setup
        .set("webhooks", "allow_private_targets = true")
        .set("webhooks", "catch_up_per_second = 1000")
        .set("plans.free", "webhooks_per_project = 10")
        .set("plans.free", "subscriptions_per_webhook = 100")
        .set("admin", "auth_per_minute = 1000")
        .set("admin.challenge", "difficulty = 1000")
}

/// Returns the documented value of `X-Signature` of a body.
pub(crate) fn signed(secret: &str, body: &[u8]) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), body);
    let digits: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={digits}")
}

/// Creates an endpoint with these subscriptions, which take effect together. Returns its id and its secret.
pub(crate) async fn endpoint(
    owner: &ApiUser,
    project: &str,
    url: &str,
    subscriptions: &[Value],
) -> (String, String) {
    let (id, secret) = owner.webhook(project, url).await;
    let path = format!("/webhooks/{id}");
    owner.put(&path, &json!({ "active": false })).await;
    for subscription in subscriptions {
        owner.subscribe(&id, subscription).await;
    }
    owner.put(&path, &json!({ "active": true })).await;
    (id, secret)
}

pub(crate) async fn deliveries(owner: &ApiUser, endpoint: &str, status: &str) -> Vec<Value> {
    owner.all(&format!("/webhooks/{endpoint}/deliveries?status={status}&limit=1000")).await
}

pub(crate) async fn all_delivered(owner: &ApiUser, endpoints: &[&str]) {
    let is_quiet = async || {
        for endpoint in endpoints {
            let path = format!("/webhooks/{endpoint}/deliveries?status=pending&limit=1");
            if owner.shown(&path).await != json!([]) {
                return false;
            }
        }
        true
    };
    until_within(3 * TIMEOUT, "everything is delivered", is_quiet).await;
}

pub(crate) fn height_of(event: &Value) -> u64 {
    event["data"]["block_num"].as_u64().unwrap()
}
