//! Rows and answers that many tests need.

use super::{NOON, TestSite, Visitor};
use crate::action::actor::Actor;
use crate::action::plans::RequestedPlan;
use crate::action::tickets::NewTicket;
use crate::action::{limit_requests, tickets};
use crate::extract::Client;
use crate::identity::webhook_secret::{SecretUse, WebhookSecret};
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::event::{BlockRef, ChainEvent, EventType};
use rpcgate_core::plan::{Price, Tier};
use rpcgate_core::usage::Amount;
use rpcgate_core::usage::sample::{SampleLine, SampleRecord, SampleShipper, deed, item};
use rpcgate_store::{
    ChainEventId, InvoiceAmounts, InvoiceLine, InvoiceNumber, InvoiceSeller, LimitRequestId, LineKind,
    LoggedEvent, NewInvoice, PeriodClosed, Project, TicketCategory, TicketId, Webhook, WebhookId, fresh_id,
};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

/// The start of December 2026, the month of the clock.
const DECEMBER: u64 = 1_796_083_200;

/// Issues an invoice of ten dollars for the previous month, due in two weeks.
pub async fn issue<R>(site: &TestSite<R>, tenant: TenantId) -> InvoiceNumber {
    let now = site.app.now();
    let period = Time::from_secs(DECEMBER - 30 * 86_400)..Time::from_secs(DECEMBER);
    let line = InvoiceLine {
        month: period.start,
        kind: LineKind::Usage,
        chain: "eth".into(),
        tier: Tier::Standard,
        price: Price(1_000_000_000),
        calls: 400,
        units: 10_000,
        amount: Amount(10_000_000_000_000),
        custom_plan: None,
    };
    let new = NewInvoice {
        tenant,
        period: period.clone(),
        year: 2026,
        issued_at: now,
        due_at: now.plus(Duration::from_secs(14 * 86_400)),
        customer: "Bank & Söhne <b>".into(),
        customer_address: vec!["1 High <b>Street".into()],
        customer_tax_id: Some("GB1".into()),
        seller: InvoiceSeller {
            name: "Acme".into(),
            address: vec!["1 Main Street".into(), "Springfield".into()],
            tax_id: Some("DE1".into()),
        },
        lines: vec![line],
        amounts: InvoiceAmounts {
            subtotal: 1_000,
            tax_name: "VAT".into(),
            tax_basis_points: 1_900,
            tax: 190,
            total: 1_190,
        },
    };
    match site.app.store.close_period(tenant, None, period.end, Some(&new)).await.unwrap() {
        PeriodClosed::Now(Some(number)) => number,
        other => panic!("{other:?}"),
    }
}

/// Records 90 of the 100 requests of a tenant's day, and then 60 refused calls.
pub async fn use_up<R>(site: &TestSite<R>, tenant: TenantId) {
    let later = Time::from_secs(NOON.secs() + 5);
    let refused = SampleLine { cu: 0, status: 429, outcome: Outcome::Refused, calls: 60, ..item("call") };
    let mut sender = SampleShipper::new(tenant.0);
    for deed in [
        SampleRecord { tenant, windowed: 90, ..deed(1, NOON, vec![item("call")]) },
        SampleRecord { tenant, windowed: 0, ..deed(1, later, vec![refused]) },
    ] {
        site.app.usage.ship_with_allowances(&sender.pack(&[deed]), &[(tenant, 100)].into()).await.unwrap();
    }
}

/// Creates a project of the visitor's tenant.
pub async fn project<R>(site: &TestSite<R>, visitor: &Visitor) -> ProjectId {
    let now = site.app.now();
    let id = ProjectId(fresh_id(now));
    let project = Project::new(id, visitor.user.tenant.unwrap(), "Hooks", now);
    site.app.store.create_project(&project).await.unwrap();
    id
}

/// Creates a webhook of a project.
pub async fn webhook<R>(site: &TestSite<R>, tenant: TenantId, project: ProjectId) -> Webhook {
    let now = site.app.now();
    let id = WebhookId(fresh_id(now));
    let secret = WebhookSecret::make().unwrap();
    let webhook = Webhook {
        id,
        project,
        url: "https://hooks.example/one".into(),
        secret: secret.seal(&site.app.sealing, id, SecretUse::Current).unwrap(),
        next_secret: None,
        active: true,
        standard_headers: false,
        failing_since: None,
        disabled_at: None,
        created_at: now,
        updated_at: now,
    };
    site.app.store.create_webhook(tenant, &webhook, now).await.unwrap();
    webhook
}

/// Returns an event about a new block of Ethereum.
pub fn event(number: u64, at: Time) -> LoggedEvent {
    let block = BlockRef::new(number, format!("0xb{number}"), "0xb0", 1_700_000_000);
    LoggedEvent {
        id: ChainEventId(fresh_id(at)),
        chain: "eth".into(),
        kind: EventType::NewBlock,
        block_num: number,
        block_hash: block.hash.clone(),
        removed: false,
        body: ChainEvent::new(EventType::NewBlock).with("transactions", number).body("eth", &block),
        created_at: at,
    }
}

/// Returns the JSON of an error.
pub fn error_body(code: &str, text: &str) -> Value {
    json!({ "error": text, "code": code })
}

/// Returns the JSON of an error about a field.
pub fn error_body_of_field(field: &str, text: &str) -> Value {
    json!({ "error": text, "code": "invalid", "field": field })
}

/// Returns a visitor as an actor, without a proof.
pub fn actor(visitor: &Visitor) -> Actor {
    let client = Client { address: IpAddr::V4(Ipv4Addr::LOCALHOST), agent: String::new() };
    Actor::of_page(Arc::new(visitor.user.clone()), &client)
}

/// Creates a ticket of `visitor`.
pub async fn ticket<R>(site: &TestSite<R>, visitor: &Visitor, subject: &str, text: &str) -> TicketId {
    let new = NewTicket {
        category: TicketCategory::Problem,
        subject: subject.into(),
        text: text.into(),
        requested: None,
    };
    tickets::create(&site.app, &actor(visitor), new).await.unwrap().id
}

/// Requests the premium plan for the tenant of `visitor`.
pub async fn limit_request<R>(site: &TestSite<R>, visitor: &Visitor, reason: &str) -> LimitRequestId {
    let plan = RequestedPlan::Tier(Tier::Premium);
    limit_requests::create(&site.app, &actor(visitor), &plan, reason).await.unwrap().id
}
