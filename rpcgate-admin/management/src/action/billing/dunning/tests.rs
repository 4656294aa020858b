//! Tests of mails about invoices and of suspensions.

use super::*;
use crate::action::actor::Actor;
use crate::action::{notification_preferences, notifications, operator};
use crate::extract::Client;
use crate::testing::fixtures::issue;
use crate::testing::{NOON, Site, Visitor};
use rpcgate_core::caller::TenantId;
use rpcgate_store::{AuditSubject, InvoiceNumber, NewCreditNote, Role, TenantChange, UserId};
use std::sync::Arc;

const DAY: Duration = Duration::from_secs(86_400);

async fn notified(site: &Site, visitor: &Visitor) -> Vec<String> {
    let actor = Actor::of_page(Arc::new(visitor.user.clone()), &client());
    let all = notifications::list(&site.app, &actor).await.unwrap();
    all.into_iter().rev().map(|one| one.text).collect()
}

fn client() -> Client {
    Client { address: "192.0.2.1".parse().unwrap(), agent: String::new() }
}

async fn subjects(site: &Site) -> Vec<String> {
    site.handed_over_mails().await.into_iter().map(|(_, subject)| subject).collect()
}

async fn is_suspended(site: &Site, tenant: TenantId) -> bool {
    site.app.store.tenant(tenant).await.unwrap().unwrap().suspended
}

async fn suspended_site() -> (Site, TenantId, InvoiceNumber) {
    let site = Site::of("[billing]\nsuspend_after = \"10d\"\nreminders = [\"1d\", \"7d\"]\n").await;
    let tenant = site.member(Role::Owner).await.user.tenant.unwrap();
    let number = issue(&site, tenant).await;
    for days in [15, 25] {
        assert!(!is_suspended(&site, tenant).await);
        site.clock.set(NOON.plus(days * DAY));
        remind(&site.app).await.unwrap();
    }
    assert!(is_suspended(&site, tenant).await);
    (site, tenant, number)
}

// Shows (Plans, bills and payments): Unpaid tenants are reminded, suspended if that is configured, and served again
// after a payment.
#[tokio::test]
async fn owners_and_billing_members_are_notified_and_reminded_once_each_time() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let payer = site.visitor(Some(tenant), Role::Billing).await;
    site.visitor(Some(tenant), Role::Admin).await;
    site.member(Role::Owner).await;
    issue(&site, tenant).await;
    let second = site.app.reload(site.app.settings.config.clone()).unwrap();
    let pass = async || {
        let (one, other) = tokio::join!(remind(&site.app), remind(&second));
        let one = one.unwrap();
        let other = other.unwrap();
        (one.announced + other.announced, one.reminded + other.reminded, one.suspended + other.suspended)
    };
    assert_eq!(pass().await, (1, 0, 0));
    assert_eq!(pass().await, (0, 0, 0));
    let mut sent = site.handed_over_mails().await;
    sent.sort_unstable();
    let mut expected = [owner.user.email, payer.user.email].map(|to| (to, "Invoice 2026-000001".to_owned()));
    expected.sort_unstable();
    assert_eq!(sent, expected);
    for (days, reminded) in [(10, 0), (11, 1), (14, 0), (15, 1), (16, 0), (21, 1), (22, 0), (400, 0)] {
        site.clock.set(NOON.plus(days * DAY));
        assert_eq!(pass().await, (0, reminded, 0), "after {days} days");
    }
    assert!(!is_suspended(&site, tenant).await, "that is off by default");
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn members_who_read_bills_are_notified_of_each_step_and_mailed_as_they_want() {
    let site = Site::of("[billing]\nsuspend_after = \"10d\"\nreminders = [\"1d\"]\n").await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let admin = site.visitor(Some(tenant), Role::Admin).await;
    let developer = site.visitor(Some(tenant), Role::Developer).await;
    let as_admin = Actor::of_page(Arc::new(admin.user.clone()), &client());
    for kind in [NotificationKind::Invoice, NotificationKind::Suspension] {
        notification_preferences::update(&site.app, &as_admin, kind, None, Some(false)).await.unwrap();
    }
    let number = issue(&site, tenant).await;
    for days in [0, 11, 15, 25] {
        site.clock.set(NOON.plus(days * DAY));
        remind(&site.app).await.unwrap();
        // A mail that waits for a day is given up.
        site.send_mails().await;
    }
    let as_operator = Actor::of_page(Arc::new(site.operator().await.user), &client());
    site.clock.advance(DAY);
    operator::invoices::settle(&site.app, &as_operator, number, InvoiceStatus::Paid, None).await.unwrap();
    let suspended = "Your organisation is suspended: calls with its keys are refused";
    let active = "Your organisation is active again: calls with its keys are served";
    let mut seen = notified(&site, &owner).await;
    // Rows of the same time have no order.
    seen[4..].sort_unstable();
    assert_eq!(
        seen,
        [
            "Invoice 2026-000001 of 11.90 USD is ready, and due on 2027-01-14",
            "Invoice 2026-000001 of 11.90 USD is due on 2027-01-14",
            "Invoice 2026-000001 of 11.90 USD was due on 2027-01-14 and is not paid",
            suspended,
            "Invoice 2026-000001 is paid",
            active,
        ]
    );
    assert_eq!(notified(&site, &admin).await.len(), 6);
    assert_eq!(notified(&site, &developer).await, [suspended, active], "bills are not for the role");
    let mails = site.handed_over_mails().await;
    assert!(mails.iter().all(|(to, _)| *to == owner.user.email), "{mails:?}");
    assert_eq!(mails.len(), 6);
    for (_, subject) in mails {
        let known = ["Invoice 2026-000001", "Your organisation is suspended", active];
        assert!(known.iter().any(|known| subject.starts_with(known)), "{subject}");
    }
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn members_are_notified_once_of_what_an_operator_decides_about_their_tenant() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let as_operator = Actor::of_page(Arc::new(site.operator().await.user), &client());
    for suspended in [true, true, false, false] {
        let change = TenantChange { suspended: Some(suspended), ..TenantChange::default() };
        let done = operator::tenants::update(&site.app, &as_operator, tenant, change).await;
        assert_eq!(done.unwrap().suspended, suspended);
        site.clock.advance(Duration::from_secs(1));
    }
    let messages = notified(&site, &owner).await;
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[0].contains("is suspended") && messages[1].contains("is active again"), "{messages:?}");
    assert_eq!(subjects(&site).await, messages);
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn an_invoice_due_at_once_has_no_early_reminder_and_a_missed_one_is_not_repeated() {
    let site = Site::of("[billing]\nremind_before = \"14d\"\nreminders = []\n").await;
    let tenant = site.member(Role::Owner).await.user.tenant.unwrap();
    issue(&site, tenant).await;
    assert_eq!(remind(&site.app).await.unwrap(), DunningPass { announced: 1, reminded: 0, suspended: 0 });
    let site = Site::of("[billing]\nreminders = []\n").await;
    let tenant = site.member(Role::Owner).await.user.tenant.unwrap();
    issue(&site, tenant).await;
    site.clock.set(NOON.plus(14 * DAY));
    assert_eq!(remind(&site.app).await.unwrap(), DunningPass { announced: 1, reminded: 0, suspended: 0 });
    assert_eq!(remind(&site.app).await.unwrap(), DunningPass::default());
}

#[tokio::test]
async fn reminders_that_were_missed_are_one_mail() {
    let site = Site::new().await;
    let tenant = site.member(Role::Owner).await.user.tenant.unwrap();
    issue(&site, tenant).await;
    site.clock.set(NOON.plus(40 * DAY));
    let pass = remind(&site.app).await.unwrap();
    assert_eq!(pass, DunningPass { announced: 1, reminded: 1, suspended: 0 });
    assert_eq!(remind(&site.app).await.unwrap(), DunningPass::default());
}

#[tokio::test]
async fn a_paid_or_cancelled_invoice_sends_no_reminder() {
    let site = Site::of("[billing]\nsuspend_after = \"1d\"\n").await;
    for status in [InvoiceStatus::Paid, InvoiceStatus::Void] {
        let tenant = site.member(Role::Owner).await.user.tenant.unwrap();
        let number = issue(&site, tenant).await;
        site.app.store.settle_invoice(number, status, None, NOON).await.unwrap();
    }
    site.clock.set(NOON.plus(40 * DAY));
    assert_eq!(remind(&site.app).await.unwrap(), DunningPass::default());
    assert_eq!(subjects(&site).await, Vec::<String>::new());
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_tenant_that_does_not_pay_is_suspended_once_and_gateways_are_notified() {
    let site = Site::of("[billing]\nsuspend_after = \"10d\"\nreminders = []\n").await;
    let store = &site.app.store;
    let tenant = site.member(Role::Owner).await.user.tenant.unwrap();
    let number = issue(&site, tenant).await;
    site.clock.set(NOON.plus(14 * DAY));
    assert_eq!(remind(&site.app).await.unwrap().reminded, 1, "it is announced when the invoice is due");
    site.send_mails().await;
    site.clock.set(Time::from_micros(NOON.plus(24 * DAY).micros() - 1));
    assert_eq!(remind(&site.app).await.unwrap(), DunningPass::default());
    site.clock.set(NOON.plus(24 * DAY));
    let before = store.newest_change().await.unwrap();
    assert_eq!(remind(&site.app).await.unwrap().suspended, 1);
    assert!(store.newest_change().await.unwrap() > before);
    assert!(is_suspended(&site, tenant).await);
    let mut sent = subjects(&site).await;
    // Mails of the same time have no order: the invoice and its reminder, both made by one pass.
    sent[..2].sort_unstable();
    let expected =
        ["Invoice 2026-000001", "Invoice 2026-000001 is not paid", "Your organisation is suspended"];
    assert_eq!(sent, expected);
    let audit = store.audit(AuditSubject::Tenant(tenant), 9).await.unwrap();
    assert_eq!((audit[0].action.as_str(), audit[0].user), ("tenant.suspended", None));
    // A tenant that an operator reactivates is not suspended again.
    let active = TenantChange { suspended: Some(false), ..TenantChange::default() };
    store.update_tenant(tenant, &active, site.app.now()).await.unwrap();
    site.clock.set(NOON.plus(60 * DAY));
    assert_eq!(remind(&site.app).await.unwrap().suspended, 0);
    assert!(!is_suspended(&site, tenant).await);
    store.settle_invoice(number, InvoiceStatus::Paid, None, site.app.now()).await.unwrap();
    assert!(!is_suspended(&site, tenant).await);
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_payment_ends_the_suspension_and_so_does_a_cancellation_or_a_credit() {
    for way in ["paid", "void", "credited"] {
        let (site, tenant, number) = suspended_site().await;
        let store = &site.app.store;
        let now = site.app.now();
        let before = store.newest_change().await.unwrap();
        match way {
            "credited" => {
                let reason = "x".to_owned();
                let user = Some(UserId(1));
                let all = NewCreditNote {
                    invoice: number,
                    year: 2027,
                    cents: 1_190,
                    reason,
                    user,
                    seen_credited: None,
                };
                store.issue_credit_note(&all, now).await.unwrap();
            }
            status => drop(store.settle_invoice(number, status.parse().unwrap(), None, now).await.unwrap()),
        }
        assert!(!is_suspended(&site, tenant).await, "{way}");
        assert!(store.newest_change().await.unwrap() > before, "gateways hear of it");
        let audit = store.audit(AuditSubject::Tenant(tenant), 9).await.unwrap();
        assert!(audit.iter().any(|entry| entry.action == "tenant.reactivated"), "{way}");
    }
}

#[tokio::test]
async fn a_suspension_by_an_operator_is_not_ended_by_a_payment() {
    let (site, tenant, number) = suspended_site().await;
    let suspended = TenantChange { suspended: Some(true), ..TenantChange::default() };
    site.app.store.update_tenant(tenant, &suspended, site.app.now()).await.unwrap();
    site.app.store.settle_invoice(number, InvoiceStatus::Paid, None, site.app.now()).await.unwrap();
    assert!(is_suspended(&site, tenant).await, "the operator decided after the janitor");

    let other = site.tenant().await;
    let number = issue(&site, other).await;
    site.app.store.update_tenant(other, &suspended, site.app.now()).await.unwrap();
    for _ in 0..2 {
        site.clock.advance(60 * DAY);
        assert_eq!(remind(&site.app).await.unwrap().suspended, 0);
    }
    site.app.store.settle_invoice(number, InvoiceStatus::Paid, None, site.app.now()).await.unwrap();
    assert!(is_suspended(&site, other).await, "the operator decided before the janitor");
}

// Shows (Plans, bills and payments): A tenant is suspended only after a mail that named the day, even if suspensions
// are enabled later.
#[tokio::test]
async fn a_tenant_is_suspended_only_after_a_mail_that_named_the_day() {
    let site = Site::of("[billing]\nreminders = [\"1d\", \"7d\"]\n").await;
    let tenant = site.member(Role::Owner).await.user.tenant.unwrap();
    let number = issue(&site, tenant).await;
    for days in [0, 11, 15, 21, 40] {
        site.clock.set(NOON.plus(days * DAY));
        remind(&site.app).await.unwrap();
        site.send_mails().await;
    }
    let texts = || {
        let folder = &site.app.settings.config.admin.mail.outbox;
        let mut names: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names.iter().map(|name| std::fs::read_to_string(name).unwrap()).collect::<Vec<_>>()
    };
    let warns = |text: &String| text.contains("calls with the keys of your organisation are refused from");
    let sent = texts().len();
    assert!(!texts().iter().any(warns), "it is off");
    // Switched on long after the due date and the last reminder: the first pass warns.
    let with = |after: Duration| {
        let mut config = site.app.settings.config.clone();
        config.billing.suspend_after = after;
        site.app.reload(config).unwrap()
    };
    let on = with(21 * DAY);
    let pass = DunningPass { announced: 0, reminded: 1, suspended: 0 };
    assert_eq!(remind(&on).await.unwrap(), pass);
    assert_eq!(remind(&on).await.unwrap(), DunningPass::default(), "it warns once");
    site.send_mails().await;
    let named = on.store.any_invoice(number).await.unwrap().unwrap().invoice.suspends_at;
    assert_eq!((texts().len(), named), (sent + 1, Some(NOON.plus(61 * DAY))));
    assert!(warns(texts().last().unwrap()) && texts().last().unwrap().contains(&day(NOON.plus(61 * DAY))));
    // A shorter time applies to later announcements, not to this one.
    site.clock.set(NOON.plus(60 * DAY));
    assert_eq!(remind(&with(DAY)).await.unwrap().suspended, 0);
    // Switched off, and on again much later: it warns again.
    remind(&with(Duration::ZERO)).await.unwrap();
    site.clock.set(NOON.plus(200 * DAY));
    assert_eq!(remind(&on).await.unwrap(), pass);
    assert!(!is_suspended(&site, tenant).await);
    site.clock.set(NOON.plus(221 * DAY));
    assert_eq!(remind(&on).await.unwrap().suspended, 1);
}
