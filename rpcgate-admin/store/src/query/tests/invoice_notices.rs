use super::*;
use crate::{
    AccountNotice, InvoiceAmounts, InvoiceEvent, InvoiceNumber, InvoiceSeller, InvoiceStatus, MailStored,
    MailedNotice, NewInvoice, NotificationId, NotificationKind, OutgoingMail, PeriodClosed,
};

async fn issued(store: &Store) -> InvoiceNumber {
    let amounts = InvoiceAmounts {
        subtotal: 1_000,
        tax_name: String::new(),
        tax_basis_points: 0,
        tax: 0,
        total: 1_000,
    };
    let new = NewInvoice {
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
    match store.close_period(TENANT, None, later(9), Some(&new)).await.unwrap() {
        PeriodClosed::Now(Some(number)) => number,
        other => panic!("{other:?}"),
    }
}

fn notice(id: u128) -> AccountNotice {
    AccountNotice {
        id: NotificationId(id),
        tenant: TENANT,
        user: None,
        kind: NotificationKind::Invoice,
        text: "Rechnung".into(),
        at: later(id as u64),
    }
}

fn mail(id: u128) -> OutgoingMail {
    OutgoingMail {
        id,
        recipient: Digest::of(&id.to_string()),
        content: vec![1],
        created_at: now(),
        expires_at: later(86_400),
    }
}

async fn counts(store: &Store) -> (usize, i64, i64) {
    let untold = store.unannounced_invoices(9).await.unwrap().len();
    (untold, rows(store, "notices").await, rows(store, "outgoing_mails").await)
}

// Shows (Plans, bills and payments): A mail about an invoice is claimed and written in one transaction, so that a kill
// in between loses none.
#[tokio::test]
async fn news_of_an_invoice_are_claimed_with_their_mails_or_not_at_all() {
    let (_dir, store) = empty().await;
    let number = issued(&store).await;
    let news = InvoiceEvent::Issued;
    // The last mail cannot be stored, after the claim, the notice and the first mail were.
    let first = notice(1);
    let mails = [mail(1), mail(1)];
    let broken = MailedNotice { notice: &first, mails: &mails };
    assert!(store.notify_of_invoice(number, news, Some(broken)).await.is_err());
    assert_eq!(counts(&store).await, (1, 0, 0), "as if nothing had been tried");
    let mails = [mail(1), mail(2)];
    let whole = MailedNotice { notice: &first, mails: &mails };
    let rooms = store.notify_of_invoice(number, news, Some(whole)).await.unwrap();
    assert_eq!(rooms, Some(vec![MailStored::Found, MailStored::Found]));
    assert_eq!(counts(&store).await, (0, 1, 2));
    let second = notice(2);
    let mails = [mail(3)];
    let again = MailedNotice { notice: &second, mails: &mails };
    assert_eq!(store.notify_of_invoice(number, news, Some(again)).await.unwrap(), None);
    assert_eq!(counts(&store).await, (0, 1, 2), "another program was faster");
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_reminder_is_claimed_once_and_only_of_an_open_invoice() {
    let (_dir, store) = empty().await;
    let number = issued(&store).await;
    let remind = async |sent, now, told| {
        store
            .notify_of_invoice(number, InvoiceEvent::Reminder { sent, now, suspends_at: None }, told)
            .await
            .unwrap()
    };
    let first = notice(1);
    let mails = [mail(1)];
    let told = MailedNotice { notice: &first, mails: &mails };
    assert_eq!(remind(0, 2, Some(told)).await, Some(vec![MailStored::Found]));
    assert_eq!(remind(0, 2, Some(told)).await, None);
    assert_eq!(remind(2, 3, None).await, Some(Vec::new()));
    store.settle_invoice(number, InvoiceStatus::Paid, None, later(5)).await.unwrap();
    assert_eq!(remind(3, 4, Some(told)).await, None);
    assert_eq!(rows(&store, "outgoing_mails").await, 1);
}
