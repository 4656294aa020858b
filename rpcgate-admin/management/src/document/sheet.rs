//! The text printed on an invoice, both on an issued one and on the preliminary one of the current month.

use crate::action::billing::NextInvoice;
use crate::action::billing::month::BillingMonth;
use crate::shape::moment::Moment;
use crate::shape::moment::minute_text;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::Amount;
use rpcgate_store::{InvoiceAmounts, InvoiceLine, InvoiceSeller, LineKind, WholeInvoice};

/// The content of a printed invoice. All texts are ready to be shown.
#[derive(Debug)]
pub struct InvoiceSheet {
    /// A warning printed above everything else.
    pub warning: Option<&'static str>,
    /// The seller.
    pub seller: InvoiceSeller,
    /// The customer's name.
    pub customer: String,
    /// The lines of the customer's address.
    pub customer_address: Vec<String>,
    /// The customer's tax number.
    pub customer_tax_id: Option<String>,
    /// The number, the dates and the state.
    pub facts: Vec<SheetFact>,
    /// What is charged.
    pub lines: Vec<SheetLine>,
    /// The subtotal, the tax and the total.
    pub sums: Vec<SheetSum>,
    /// A text below the sums.
    pub note: Option<String>,
}

/// A fact in the head of a sheet.
#[derive(Debug)]
pub struct SheetFact {
    /// Its name.
    pub name: &'static str,
    /// Its text.
    pub text: String,
}

impl SheetFact {
    /// Makes a fact.
    pub fn new(name: &'static str, text: impl Into<String>) -> Self {
        SheetFact { name, text: text.into() }
    }
}

/// A charge.
#[derive(Debug)]
pub struct SheetLine {
    /// What is charged.
    pub item: String,
    /// The quantity, with its unit.
    pub quantity: String,
    /// The price of a unit.
    pub price: String,
    /// The amount.
    pub amount: String,
}

/// A sum below the charges.
#[derive(Debug)]
pub struct SheetSum {
    /// Its name.
    pub name: String,
    /// The amount.
    pub amount: String,
}

impl InvoiceSheet {
    /// Returns the sheet of an issued invoice.
    pub fn of(whole: &WholeInvoice, facts: Vec<SheetFact>) -> Self {
        let invoice = &whole.invoice;
        let period = BillingMonth::of(whole.invoice.period.start);
        InvoiceSheet {
            warning: None,
            seller: invoice.seller.clone(),
            customer: invoice.customer.clone(),
            customer_address: invoice.customer_address.clone(),
            customer_tax_id: invoice.customer_tax_id.clone(),
            facts,
            lines: rows(&whole.lines, period),
            sums: sums(whole),
            note: invoice.note.clone(),
        }
    }
}

/// Formats an exact amount in US dollars, with at least two and at most twelve decimals.
fn dollars(amount: Amount) -> String {
    let text = amount.to_string();
    let whole = text.find('.').unwrap_or(text.len());
    let used = text.trim_end_matches('0').len().max(whole + 3).min(text.len());
    text[..used].to_owned()
}

fn cents(cents: u64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// Formats the UTC day of a time, as in `2026-12-31`.
pub fn iso_day(at: Time) -> String {
    Moment(at).to_string().chars().take(10).collect()
}

/// Returns the charges of an invoice. The months of charges are shown if they are not all in `period`.
pub fn rows(lines: &[InvoiceLine], period: BillingMonth) -> Vec<SheetLine> {
    lines.iter().map(|line| row(line, period)).collect()
}

fn row(line: &InvoiceLine, period: BillingMonth) -> SheetLine {
    let month = BillingMonth::of(line.month);
    let late = if month == period { String::new() } else { format!(", {month}") };
    let plan = line.custom_plan.as_deref().unwrap_or(line.tier.name());
    let (item, quantity) = match line.kind {
        LineKind::Plan => (format!("Plan {plan}{late}"), format!("{} s of {}", line.units, month.seconds())),
        LineKind::Usage if line.chain.is_empty() => {
            (format!("Compute Units, plan {plan}{late}"), line.units.to_string())
        }
        LineKind::Usage => {
            (format!("Compute Units on {}, plan {plan}{late}", line.chain), line.units.to_string())
        }
    };
    SheetLine { item, quantity, price: dollars(Amount(line.price.0.into())), amount: dollars(line.amount) }
}

/// Returns the tax, and the total under the name `total`.
pub fn sums_to(total: &str, amounts: &InvoiceAmounts) -> Vec<SheetSum> {
    let sum = |name: &str, amount: String| SheetSum { name: name.to_owned(), amount };
    let mut sums = Vec::new();
    if amounts.tax_basis_points > 0 {
        let percent = amounts.tax_basis_points / 100;
        let rest = amounts.tax_basis_points % 100;
        let rate = if rest == 0 { percent.to_string() } else { format!("{percent}.{rest:02}") };
        sums.push(sum("Subtotal", cents(amounts.subtotal)));
        sums.push(sum(&format!("{} {rate} %", amounts.tax_name), cents(amounts.tax)));
    }
    sums.push(sum(total, cents(amounts.total)));
    sums
}

fn sums(whole: &WholeInvoice) -> Vec<SheetSum> {
    let invoice = &whole.invoice;
    let amounts = &whole.invoice.amounts;
    let mut sums = sums_to("Total in USD", amounts);
    sums.extend(whole.credit_notes.iter().map(|note| SheetSum {
        name: format!("Credit note {} of {}", note.number, iso_day(note.issued_at)),
        amount: format!("-{}", cents(note.cents)),
    }));
    if invoice.due_cents() != amounts.total {
        let name = "To be paid in USD".to_owned();
        sums.push(SheetSum { name, amount: cents(invoice.due_cents()) });
    }
    sums
}

const WARNING: &str = "Preliminary: this is not an invoice. It shows what the invoice of this month would say if the month ended \
                       now. Nothing is to be paid on it.";

/// The note on a preliminary invoice with nothing to pay.
const UNBILLED: &str = "Nothing is owed so far. If it stays so, there will be no invoice for this month.";

/// Returns the sheet of the current month's bill, which is not an invoice yet.
pub fn next_sheet(next: NextInvoice) -> InvoiceSheet {
    let facts = vec![
        SheetFact::new("Number", "None, preliminary"),
        SheetFact::new("As of", minute_text(next.until)),
        SheetFact::new("Period", format!("{}, UTC", next.month)),
        SheetFact::new("Due", "Nothing yet"),
    ];
    InvoiceSheet {
        warning: Some(WARNING),
        note: (!next.is_issued()).then(|| UNBILLED.to_owned()),
        lines: rows(&next.lines, next.month),
        sums: sums_to("Total so far in USD", &next.amounts),
        seller: next.seller,
        customer: next.customer,
        customer_address: next.customer_address,
        customer_tax_id: next.customer_tax_id,
        facts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_two_decimals_or_as_many_as_they_need() {
        for (amount, text) in [
            (0, "0.00"),
            (1, "0.000000000001"),
            (1_000_000_000, "0.001"),
            (1_500_000_000_000, "1.50"),
            (10_000_000_000_000, "10.00"),
            (123_456_000_000_000, "123.456"),
        ] {
            assert_eq!(dollars(Amount(amount)), text);
        }
        assert_eq!((cents(0), cents(1_205)), ("0.00".into(), "12.05".into()));
    }
}
