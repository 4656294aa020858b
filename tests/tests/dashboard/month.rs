//! The data of a tenant after two months: usage, an endpoint that fails, tickets, requests, colleagues, an overdue
//! invoice.

use crate::site::{Dashboard, Owner};
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use rpcgate_core::clock::{Clock, Time};
use rpcgate_core::journal::{GatewayId, SegmentId};
use rpcgate_core::tally::Transport;
use rpcgate_core::usage::fold::HourlySums;
use rpcgate_core::usage::{Metrics, Rollup, Stream};
use rpcgate_store::{Mark, ShipError, Shipment, StoreError};
use rpcgate_tests::TIMEOUT;
use rpcgate_tests::admin::{ApiUser, PASSWORD};
use rpcgate_tests::client::TestClient;
use rpcgate_tests::until_within;
use serde_json::json;
use std::time::Duration;

const HOUR: u64 = 3_600;
const DAYS: u64 = 65;
const ROWS: usize = 2_000;
/// Chains with their methods, the most called first.
const CALLED: [(&str, [&str; 3]); 3] = [
    ("eth", ["eth_call", "eth_getBalance", "eth_getLogs"]),
    ("btc", ["getblock", "getrawtransaction", "getblockchaininfo"]),
    ("polygon", ["eth_call", "eth_blockNumber", "eth_getTransactionReceipt"]),
];

#[derive(Clone, Debug)]
pub(crate) struct Words {
    pub(crate) name: String,
    pub(crate) tenant: String,
    pub(crate) project: String,
    pub(crate) keys: Vec<String>,
    pub(crate) subjects: Vec<String>,
    pub(crate) text: String,
    pub(crate) answer: String,
    pub(crate) file: String,
    pub(crate) reason: String,
    pub(crate) token: String,
}

impl Words {
    /// Returns what a customer might write.
    pub(crate) fn usual() -> Self {
        let all = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Words {
            name: "Ada Lovelace".into(),
            tenant: "Acme Wallets".into(),
            project: "Checkout".into(),
            keys: all(&["checkout-worker", "treasury", "staging"]),
            subjects: all(&["eth_getLogs is refused with 429", "Question about the invoice of last month"]),
            text: "Since this morning, calls of eth_getLogs are answered with 429.\n\nOthers work.".into(),
            answer: "Your project has reached its quota of 24 hours. It is free again at 18:00 UTC.".into(),
            file: "answer.log".into(),
            reason: "We open our wallet to the public next month, and expect two million requests a day."
                .into(),
            token: "deploy script".into(),
        }
    }

    /// Returns very long words that fit the fields.
    pub(crate) fn endless() -> Self {
        let word = "Taumatawhakatangihangakoauau".repeat(7);
        Words {
            name: word.clone(),
            tenant: word.clone(),
            project: word.clone(),
            keys: vec![word.clone()],
            subjects: vec![word.clone(), word.clone()],
            text: word.clone(),
            answer: word.clone(),
            file: format!("{word}.log"),
            reason: word.clone(),
            token: word,
        }
    }
}

struct Lots(u64);

impl Lots {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Returns a number of calls: more by day than by night, and more in each week than in the previous one.
fn calls(hour: u64, rank: u64, lots: &mut Lots) -> u64 {
    let by_day = [2, 1, 1, 1, 2, 3, 5, 8, 10, 11, 12, 12, 11, 12, 13, 13, 12, 10, 9, 8, 6, 5, 4, 3];
    let busy: u64 = by_day[usize::try_from(hour % 24).unwrap()];
    busy * (20 + lots.below(12)) / (rank + 1)
}

/// Ships usage from `from` on, as a gateway does.
async fn ship(dashboard: &Dashboard, caller: (TenantId, ProjectId, KeyId), from: Time) {
    let mut lots = Lots(7);
    let mut rollups = Vec::new();
    let first = from.secs() / HOUR;
    for hour in first..first + DAYS * 24 {
        for (chain_rank, (chain, methods)) in (0_u64..).zip(CALLED) {
            for (rank, method) in (0_u64..).zip(methods) {
                let requests = calls(hour, chain_rank * 2 + rank, &mut lots);
                let refused = if lots.below(20) == 0 { requests / 4 } else { 0 };
                for (status, requests) in [(200, requests - refused), (429, refused)] {
                    if requests == 0 {
                        continue;
                    }
                    let served = if status == 200 { requests } else { 0 };
                    rollups.push(Rollup {
                        hour,
                        tenant: caller.0,
                        project: caller.1,
                        key: caller.2,
                        chain: chain.to_owned(),
                        method: method.to_owned(),
                        transport: Transport::Http,
                        status,
                        stream: Stream::Call,
                        metrics: Metrics {
                            requests,
                            billed_requests: served,
                            billable_units: served * (10 + rank * 8),
                            errors: requests - served,
                            rejected: requests - served,
                            cache_hits: served / 3,
                            request_bytes: requests * 120,
                            response_bytes: requests * 900,
                            latency_us: served * (9_000 + lots.below(40_000)),
                            latency_count: served,
                            ..Metrics::default()
                        },
                        window_requests: served,
                    });
                }
            }
        }
    }
    for (segment, part) in (1..).zip(rollups.chunks(ROWS)) {
        let newest = Time::from_secs(part.last().unwrap().hour * HOUR + 60);
        let shipment = Shipment {
            gateway: GatewayId(1),
            marks: vec![Mark { segment: SegmentId(segment), from: 0, to: 1 }],
            folded: HourlySums { rollups: part.to_vec(), newest, ..HourlySums::default() },
            blocks: Vec::new(),
        };
        // Retries as a gateway does: on a busy machine a shipment may miss its deadline.
        loop {
            match dashboard.service.app().usage.ship(&shipment).await {
                Ok(()) | Err(ShipError::Moved) => break,
                Err(ShipError::Store(StoreError::Unavailable(_))) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Creates two months of a tenant, with the texts in `words`, and returns its owner and an operator. An invoice is
/// overdue, and the last ticket waits.
pub(crate) async fn two_months(dashboard: &Dashboard, words: &Words) -> (Owner, ApiUser) {
    let mut owner = dashboard.owner().await;
    let mut operator = dashboard.service.operator().await;
    let user = &owner.user;
    let tenant = user.tenant().await;
    user.put("/auth/me", &json!({ "name": words.name })).await;
    user.put(&format!("/tenants/{tenant}"), &json!({ "name": words.tenant })).await;
    user.put(&format!("/projects/{}", owner.project), &json!({ "name": words.project })).await;
    for key in &words.keys {
        user.key_with(&owner.project, &json!({ "description": key })).await;
    }
    user.made(
        "/auth/tokens",
        &json!({ "name": words.token, "scopes": ["read"], "current_password": PASSWORD }),
    )
    .await;
    let invitation = json!({ "email": "grace@example.com", "role": "developer" });
    user.made(&format!("/tenants/{tenant}/invitations"), &invitation).await;

    let ids = (tenant.parse().unwrap(), owner.project.parse().unwrap(), owner.key.parse().unwrap());
    ship(dashboard, ids, dashboard.clock.now()).await;
    // A receiver that fails from the second delivery on.
    let (webhook, _) = user.webhook(&owner.project, &dashboard.receiver.url("/hook")).await;
    user.subscribe(&webhook, &json!({ "chain": "eth", "event_type": "new_block" })).await;
    for (status, count) in [(204, 1), (500, 2)] {
        dashboard.receiver.answer(status);
        let sent = user.ask("POST", &format!("/webhooks/{webhook}/test"), None).await;
        assert_eq!(sent.status, 201, "{sent:?}");
        let has_come = async || dashboard.receiver.count() >= count;
        until_within(TIMEOUT, "a test event arrives", has_come).await;
    }

    // The month of the first calls is billed in the next one, and its invoice is overdue a month later.
    for days in [33, DAYS - 35] {
        dashboard.clock.jump(Duration::from_secs(days * 24 * HOUR));
        dashboard.service.bill().await;
    }
    owner.user.log_in_again().await;
    operator.log_in_again().await;
    let user = &owner.user;
    for subject in &words.subjects {
        let form = json!({ "category": "problem", "subject": subject, "text": words.text });
        let ticket = user.made("/support/tickets", &form).await;
        let id = ticket["id"].as_str().unwrap();
        attach(dashboard, user, id, &words.file).await;
        if Some(subject) != words.subjects.last() {
            let answer = json!({ "text": words.answer });
            operator.made(&format!("/operator/tickets/{id}/comments"), &answer).await;
        }
    }
    let request = json!({ "requested_plan": "standard", "reason": words.reason });
    user.made("/limit-requests", &request).await;
    (owner, operator)
}

async fn attach(dashboard: &Dashboard, user: &ApiUser, ticket: &str, name: &str) {
    let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let path = format!("/api/v1/support/tickets/{ticket}/attachments?filename={encoded}");
    let bearer = user.bearer();
    let client = TestClient::new(dashboard.service.addr(), None);
    let made = client.send("POST", &path, &[("authorization", &bearer)], b"429 Too Many Requests\n").await;
    assert_eq!(made.status, 201, "{made:?}");
}
