use super::*;
use crate::entity::project_events;
use crate::query::testing::seeded_deliveries::webhook;
use crate::{
    AccountNotice, AuditSubject, ClaimCapacity, ContractId, CustomPlan, DeliveryId, Figures, InvoiceAmounts,
    InvoiceSeller, InvoiceStatus, LimitRequest, LimitRequestId, NewInvoice, NotificationId, NotificationKind,
    PeriodClosed, RequestStatus, SubscriptionId, SupportTicket, Swept, TenantChange, TenantContract,
    TenantFilter, TicketCategory, TicketId, TicketStatus, WebhookSubscription,
};
use rpcgate_core::caller::CustomPlanId;
use rpcgate_core::event::EventType;
use sea_orm::ActiveValue::Set;
use sea_orm::{DatabaseTransaction, EntityTrait};
use uuid::Uuid;

/// The tables with rows of a tenant, except those of users, which are removed at once.
const TABLES: [&str; 9] = [
    "keys",
    "quotas",
    "projects",
    "tickets",
    "limit_requests",
    "notices",
    "contracts",
    "tier_changes",
    "billing_accounts",
];

/// A tenant on a plan of an operator's own, with one of everything.
async fn furnished() -> (TestDatabase, Store) {
    let (dir, store) = seeded().await;
    let plan = CustomPlan {
        id: CustomPlanId(7),
        name: "own".into(),
        base: Tier::Standard,
        is_visible: true,
        figures: Figures::default(),
        created_at: now(),
    };
    store.create_custom_plan(&plan).await.unwrap();
    let moved = TenantChange { custom_plan: Some(plan.id), ..TenantChange::default() };
    store.update_tenant(TENANT, &moved, now()).await.unwrap();
    store.create_user(&user(1, "ada@example.com")).await.unwrap();
    store.put_quota(PROJECT, &ProjectQuota::default(), now()).await.unwrap();
    let quota = QuotaChange { cu_per_day: Some(5), ..QuotaChange::default() };
    let contract = TenantContract {
        id: ContractId(1),
        tenant: TENANT,
        figures: PlanChange { quota, ..PlanChange::default() }.into(),
        from: now(),
        until: None,
        note: String::new(),
        created_at: now(),
    };
    store.create_contract(&contract, now()).await.unwrap();
    let request = LimitRequest {
        id: LimitRequestId(1),
        tenant: TENANT,
        user: UserId(1),
        requested_tier: Tier::Premium,
        custom_plan: None,
        reason: "x".into(),
        status: RequestStatus::Pending,
        note: None,
        created_at: now(),
        reviewed_at: None,
        reviewer: None,
    };
    store.create_limit_request(&request).await.unwrap();
    let notice = AccountNotice {
        id: NotificationId(1),
        tenant: TENANT,
        user: None,
        kind: NotificationKind::Invoice,
        text: "x".into(),
        at: now(),
    };
    store.put_notice(&notice).await.unwrap();
    for id in 1..=5 {
        let ticket = SupportTicket {
            id: TicketId(id),
            tenant: TENANT,
            user: UserId(1),
            category: TicketCategory::Problem,
            status: TicketStatus::Open,
            subject: "x".into(),
            text: "x".into(),
            limit_request: None,
            satisfaction: None,
            created_at: now(),
            updated_at: now(),
            closed_at: None,
        };
        store.create_ticket(ticket, None, 9).await.unwrap();
    }
    (dir, store)
}

/// Closes a period of [`TENANT`], with an invoice of `total` cents unless that is zero.
async fn close(store: &Store, total: u64) -> Option<crate::InvoiceNumber> {
    let amounts =
        InvoiceAmounts { subtotal: total, tax_name: String::new(), tax_basis_points: 0, tax: 0, total };
    let invoice = NewInvoice {
        tenant: TENANT,
        period: now()..later(9),
        year: 2026,
        issued_at: now(),
        due_at: later(100),
        customer: "Bank".into(),
        customer_address: Vec::new(),
        customer_tax_id: None,
        seller: InvoiceSeller::default(),
        lines: Vec::new(),
        amounts,
    };
    let invoice = (total > 0).then_some(&invoice);
    match store.close_period(TENANT, None, later(9), invoice).await.unwrap() {
        PeriodClosed::Now(number) => number,
        PeriodClosed::Before => panic!("it was closed before"),
    }
}

async fn left(store: &Store) -> Vec<&'static str> {
    let mut left = Vec::new();
    for table in TABLES {
        if rows(store, table).await > 0 {
            left.push(table);
        }
    }
    left
}

// Shows (Management).
#[tokio::test]
async fn a_deleted_tenant_is_found_no_more_and_the_sweep_removes_its_rows() {
    let (_dir, store) = furnished().await;
    close(&store, 0).await;
    assert_eq!(left(&store).await, TABLES);
    let audited = store.with_audit_entry(entry("tenant.deleted"));
    tells(&store, Change::Tenant(TENANT), audited.delete_tenant(TENANT, later(1))).await;

    assert_eq!(store.tenant(TENANT).await.unwrap(), None);
    assert_eq!(store.tenants(TenantFilter::default(), None, 9).await.unwrap(), [tenant(OTHER)]);
    assert_eq!(store.tenants_named("Örtliche Bank", 9).await.unwrap(), [tenant(OTHER)]);
    assert_eq!(store.caller(hash(), &Plans::default(), later(2)).await.unwrap(), None);
    assert_eq!(store.user_by_email("ada@example.com").await.unwrap(), None);
    let missing = "there is no such tenant";
    let renamed = TenantChange { name: Some("x".into()), ..TenantChange::default() };
    for change in [&renamed, &TenantChange { tier: Some(Tier::Free), ..TenantChange::default() }] {
        let write = async { store.update_tenant(TENANT, change, later(2)).await.map(drop) };
        assert_eq!(refused(&store, write).await, missing);
    }
    assert_eq!(refused(&store, store.delete_tenant(TENANT, later(2))).await, missing);
    assert_eq!(refused(&store, store.create_project(&project(ProjectId(9)))).await, missing);
    let contract = TenantContract { id: ContractId(2), ..store.contracts(TENANT).await.unwrap().remove(0) };
    assert_eq!(refused(&store, store.create_contract(&contract, later(2))).await, missing);
    let unclosed = store.unclosed_tenants(later(90_000), None, 9).await.unwrap();
    assert!(unclosed.iter().all(|one| one.tenant.id == OTHER), "it is not billed: {unclosed:?}");
    store.delete_custom_plan(CustomPlanId(7), later(2)).await.unwrap();

    let swept = store.sweep(later(2)).await.unwrap();
    assert_eq!(swept, Swept { tenants: 1, ..swept });
    assert_eq!(left(&store).await, [""; 0]);
    assert_eq!(rows(&store, "tenants").await, 1);
    let audit = store.audit(AuditSubject::Tenant(TENANT), 99).await.unwrap();
    assert_eq!(audit[0].action, "tenant.deleted", "entries stay");
    assert_eq!(store.sweep(later(3)).await.unwrap().tenants, 0);
    store.create_user(&User { tenant: Some(OTHER), ..user(2, "ada@example.com") }).await.unwrap();
}

// Shows (Management).
#[tokio::test]
async fn a_tenant_with_an_open_invoice_is_not_deleted_and_paid_ones_stay_with_its_row() {
    let (_dir, store) = furnished().await;
    let number = close(&store, 500).await.unwrap();
    let open = "an invoice of this tenant is open: let it be paid, or cancel it, first";
    assert_eq!(refused(&store, store.delete_tenant(TENANT, later(1))).await, open);
    assert!(
        store.caller(hash(), &Plans::default(), later(2)).await.unwrap().is_some(),
        "nothing has changed"
    );
    assert!(store.user_by_email("ada@example.com").await.unwrap().is_some());
    store.settle_invoice(number, InvoiceStatus::Paid, None, later(3)).await.unwrap();
    store.delete_tenant(TENANT, later(4)).await.unwrap();
    assert_eq!(store.sweep(later(5)).await.unwrap().tenants, 1);
    assert_eq!(left(&store).await, ["billing_accounts"]);
    assert_eq!(store.tenant(TENANT).await.unwrap(), None);
    let kept = store.any_invoice(number).await.unwrap().unwrap();
    assert_eq!((kept.invoice.tenant, kept.invoice.customer.as_str()), (TENANT, "Bank"));
    assert_eq!(store.sweep(later(6)).await.unwrap().tenants, 0, "the sweep is done with it");
}

#[tokio::test]
async fn nothing_is_sent_for_a_deleted_tenant_and_the_sweep_removes_its_webhooks_in_steps() {
    let (_dir, store) = empty().await;
    let endpoint = webhook(1, PROJECT, "https://1.example/", now());
    store.create_webhook(TENANT, &endpoint, now()).await.unwrap();
    let subscription = WebhookSubscription {
        id: SubscriptionId(1),
        webhook: endpoint.id,
        chain: "eth".into(),
        kind: EventType::NewBlock,
        filter: None,
        confirmations: 0,
        created_at: now(),
    };
    store.create_subscription(TENANT, &subscription, now()).await.unwrap();
    let many: Vec<_> = (0..600).map(|id| (endpoint.id, DeliveryId(id))).collect();
    let event = store.seed_deliveries(b"{}", &many, now()).await;
    let project = Uuid::from_u128(PROJECT.0);
    let event = Uuid::from_u128(event.0);
    let logged =
        project_events::ActiveModel { project_id: Set(project), event_id: Set(event), created_at: Set(0) };
    let log = async |transaction: &DatabaseTransaction| {
        project_events::Entity::insert(logged).exec_without_returning(transaction).await?;
        Ok::<_, StoreError>(())
    };
    store.transact(log).await.unwrap();

    store.delete_tenant(TENANT, later(1)).await.unwrap();
    let room = ClaimCapacity::for_each(9);
    let claimed = store.claim_deliveries(9, &room, Duration::from_secs(30), later(2)).await.unwrap();
    assert_eq!(claimed, []);
    assert_eq!(store.sweep(later(3)).await.unwrap().tenants, 1);
    for table in ["deliveries", "subscriptions", "webhooks", "project_events", "projects"] {
        assert_eq!(rows(&store, table).await, 0, "{table}");
    }
    assert_eq!(rows(&store, "chain_events").await, 1, "other projects may have it as well");
}
