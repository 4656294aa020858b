//! The texts of mails about invoices. They contain no user input.

use super::{Address, Mail, MailObject};
use crate::shape::moment::Moment;
use rpcgate_core::clock::Time;
use rpcgate_store::Invoice;

/// Formats cents as US dollars.
pub(crate) fn dollars(cents: u64) -> String {
    format!("{}.{:02} USD", cents / 100, cents % 100)
}

/// Formats the UTC day of a time, as in `2026-12-31`.
pub(crate) fn day(at: Time) -> String {
    Moment(at).to_string().chars().take(10).collect()
}

impl Mail {
    /// Makes the mail about a new invoice.
    pub fn invoice_issued(to: Address, invoice: &Invoice, dash_url: &str) -> Self {
        let number = invoice.number;
        let due = day(invoice.due_at);
        let amount = dollars(invoice.due_cents());
        let link = MailObject::Invoice(number).url(dash_url);
        let from = day(invoice.period.start);
        let until = day(invoice.period.end);
        let text = format!(
            "Invoice {number} for your organisation at rpcgate is ready. It covers the time from {from} until {until} \
             (UTC).\n\n\
             Amount: {amount}\n\
             Due: {due}\n\n\
             You can find it in the dashboard:\n\n\
             {link}\n"
        );
        Mail::new(to, format!("Invoice {number}"), text)
    }

    /// Makes the mail about an invoice that is due soon.
    pub fn payment_due_soon(to: Address, invoice: &Invoice, dash_url: &str) -> Self {
        let number = invoice.number;
        let due = day(invoice.due_at);
        let amount = dollars(invoice.due_cents());
        let link = MailObject::Invoice(number).url(dash_url);
        let text = format!(
            "Invoice {number} for your organisation at rpcgate is due on {due} and is not paid yet.\n\n\
             Amount: {amount}\n\n\
             You can find it in the dashboard:\n\n\
             {link}\n\n\
             If you have paid it in the meantime, you can ignore this mail.\n"
        );
        Mail::new(to, format!("Invoice {number} is due soon"), text)
    }

    /// Makes the mail about an overdue invoice. The service ends at `suspension`.
    pub fn payment_reminder(
        to: Address,
        invoice: &Invoice,
        suspension: Option<Time>,
        dash_url: &str,
    ) -> Self {
        let number = invoice.number;
        let due = day(invoice.due_at);
        let amount = dollars(invoice.due_cents());
        let link = MailObject::Invoice(number).url(dash_url);
        let consequence = suspension.map_or_else(String::new, |at| {
            format!(
                "Without a payment, calls with the keys of your organisation are refused from {} on.\n\n",
                day(at)
            )
        });
        let text = format!(
            "Invoice {number} for your organisation at rpcgate was due on {due} and is not paid.\n\n\
             Amount: {amount}\n\n\
             {consequence}\
             You can find it in the dashboard:\n\n\
             {link}\n\n\
             If you have paid it in the meantime, you can ignore this mail.\n"
        );
        Mail::new(to, format!("Invoice {number} is not paid"), text)
    }

    /// Makes the mail about the suspension of a tenant that has not paid.
    pub fn suspended(to: Address, invoice: &Invoice, dash_url: &str) -> Self {
        let number = invoice.number;
        let due = day(invoice.due_at);
        let amount = dollars(invoice.due_cents());
        let link = MailObject::Invoice(number).url(dash_url);
        let text = format!(
            "Invoice {number} for your organisation at rpcgate was due on {due} and is not paid. Calls with the keys \
             of your organisation are refused. The keys are not deleted.\n\n\
             Amount: {amount}\n\n\
             Calls are served again as soon as the payment has arrived. You can find the invoice in the dashboard:\n\n\
             {link}\n"
        );
        Mail::new(to, "Your organisation is suspended", text)
    }

    /// Makes the mail that confirms a payment.
    pub fn payment_received(to: Address, invoice: &Invoice, dash_url: &str) -> Self {
        let number = invoice.number;
        let link = MailObject::Invoice(invoice.number).url(dash_url);
        let text = format!(
            "Invoice {number} for your organisation at rpcgate is paid. Thank you.\n\n\
             You can find it in the dashboard:\n\n\
             {link}\n"
        );
        Mail::new(to, format!("Invoice {number} is paid"), text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::address;
    use rpcgate_core::caller::TenantId;
    use rpcgate_store::{InvoiceAmounts, InvoiceNumber, InvoiceSeller, InvoiceStatus};

    // Shows (Mails and notifications): Each mail about an invoice links to it.
    #[test]
    fn each_mail_about_an_invoice_links_to_it() {
        let now = Time::from_secs(1_800_000_000);
        let invoice = Invoice {
            number: InvoiceNumber { year: 2026, serial: 7 },
            tenant: TenantId(1),
            period: now..now,
            issued_at: now,
            due_at: now,
            status: InvoiceStatus::Open,
            customer: "Bank".into(),
            customer_address: Vec::new(),
            customer_tax_id: None,
            seller: InvoiceSeller::default(),
            amounts: InvoiceAmounts::default(),
            credited: 0,
            settled_at: None,
            note: None,
            reminders: 0,
            suspended_at: None,
            suspends_at: None,
        };
        let to = || address("ada@example.com").unwrap();
        let dash_url = "https://dash.example.com/app/";
        for mail in [
            Mail::invoice_issued(to(), &invoice, dash_url),
            Mail::payment_due_soon(to(), &invoice, dash_url),
            Mail::payment_reminder(to(), &invoice, None, dash_url),
            Mail::suspended(to(), &invoice, dash_url),
            Mail::payment_received(to(), &invoice, dash_url),
        ] {
            let link = "\nhttps://dash.example.com/app/invoices/2026-000007\n";
            assert!(mail.text.contains(link), "{}", mail.text);
        }
    }
}
