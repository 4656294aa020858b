//! `rpcgate-admin invoice`: invoices and credit notes.

use super::command_error::CommandError;
use super::console::Console;
use super::find;
use super::printer::{Printable, dollars, or_dash};
use crate::cli::invoice::{
    InvoiceCommand, InvoiceCreditArgs, InvoiceListArgs, InvoiceSettleArgs, InvoiceStateArg,
};
use rpcgate_core::plan::Tier;
use rpcgate_management::action::invoices::InvoiceState;
use rpcgate_management::action::operator::invoices;
use rpcgate_management::shape::invoices::{
    CreditNoteJson, InvoiceJson, InvoiceLineJson, InvoiceSummaryJson, LineKindJson,
};
use rpcgate_management::shape::list::MAX;
use rpcgate_store::{InvoiceFilter, InvoiceNumber, InvoiceStatus};

impl Printable for InvoiceSummaryJson {
    const COLUMNS: &'static [(&'static str, usize)] =
        &[("NUMBER", 11), ("TENANT", 36), ("MONTH", 7), ("STATUS", 7), ("TOTAL", 14), ("OWED", 0)];

    fn cells(&self) -> Vec<String> {
        let number = self.number.clone();
        let tenant = self.tenant_id.clone();
        let total = dollars(self.total_cents);
        let owed = dollars(self.due_cents);
        vec![number, tenant, month(self), status(self.status).to_owned(), total, owed]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("number", self.number.clone()),
            ("tenant", self.tenant_id.clone()),
            ("month", month(self)),
            ("status", status(self.status).to_owned()),
            ("issued at", self.issued_at.to_string()),
            ("due at", self.due_at.to_string()),
            ("settled at", or_dash(self.settled_at)),
            ("total", dollars(self.total_cents)),
            ("credited", dollars(self.credited_cents)),
            ("owed", dollars(self.due_cents)),
        ]
    }
}

/// Returns the month in which the invoice's period starts.
fn month(invoice: &InvoiceSummaryJson) -> String {
    invoice.period.from.to_string().chars().take("2026-12".len()).collect()
}

const fn status(state: InvoiceState) -> &'static str {
    match state {
        InvoiceState::Open => "open",
        InvoiceState::Paid => "paid",
        InvoiceState::Overdue => "overdue",
        InvoiceState::Void => "void",
    }
}

impl Printable for InvoiceJson {
    const COLUMNS: &'static [(&'static str, usize)] = InvoiceSummaryJson::COLUMNS;

    fn cells(&self) -> Vec<String> {
        self.summary.cells()
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let lines: Vec<_> = self.lines.iter().map(line).collect();
        let taxes = self.taxes.iter().map(|tax| format!("{} {}", tax.name, dollars(tax.cents)));
        let notes = self.credit_notes.iter();
        let notes =
            notes.map(|note| format!("{} {} {}", note.number, dollars(note.total_cents), note.reason));
        let mut fields = self.summary.fields();
        fields.extend([
            ("customer", self.customer.clone()),
            ("note", self.note.clone().unwrap_or_default()),
            ("lines", lines.join("\n")),
            ("subtotal", dollars(self.subtotal_cents)),
            ("taxes", taxes.collect::<Vec<_>>().join("\n")),
            ("credit notes", notes.collect::<Vec<_>>().join("\n")),
        ]);
        fields
    }
}

fn line(line: &InvoiceLineJson) -> String {
    let plan = line.custom_plan.clone().unwrap_or_else(|| Tier::from(line.tier).to_string());
    let what = match line.kind {
        LineKindJson::Plan => format!("plan {plan}"),
        LineKindJson::Usage => {
            let chain = line.chain.as_deref().filter(|chain| !chain.is_empty()).unwrap_or("usage");
            format!("{chain}, plan {plan}, {} CU", line.compute_units.unwrap_or_default())
        }
    };
    format!("{what}: {} USD", line.amount)
}

impl Printable for CreditNoteJson {
    const COLUMNS: &'static [(&'static str, usize)] =
        &[("NUMBER", 12), ("INVOICE", 11), ("TOTAL", 14), ("REASON", 0)];

    fn cells(&self) -> Vec<String> {
        let total = dollars(self.total_cents);
        vec![self.number.clone(), self.invoice.clone(), total, self.reason.clone()]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("number", self.number.clone()),
            ("invoice", self.invoice.clone()),
            ("issued at", self.issued_at.to_string()),
            ("reason", self.reason.clone()),
            ("net", dollars(self.net_cents)),
            ("tax", dollars(self.tax_cents)),
            ("total", dollars(self.total_cents)),
        ]
    }
}

impl From<InvoiceStateArg> for InvoiceState {
    fn from(state: InvoiceStateArg) -> Self {
        match state {
            InvoiceStateArg::Open => InvoiceState::Open,
            InvoiceStateArg::Paid => InvoiceState::Paid,
            InvoiceStateArg::Overdue => InvoiceState::Overdue,
            InvoiceStateArg::Void => InvoiceState::Void,
        }
    }
}

pub(super) async fn execute(console: &mut Console<'_>, command: &InvoiceCommand) -> Result<(), CommandError> {
    match command {
        InvoiceCommand::List(args) => list(console, args).await,
        InvoiceCommand::Show(args) => {
            let invoice = invoices::get(&console.app, number(&args.number)?).await?;
            Ok(console.printer.object(&InvoiceJson::of(invoice, console.app.now()))?)
        }
        InvoiceCommand::Pay(args) => settle(console, args, InvoiceStatus::Paid).await,
        InvoiceCommand::Void(args) => settle(console, args, InvoiceStatus::Void).await,
        InvoiceCommand::Credit(args) => credit(console, args).await,
    }
}

fn number(text: &str) -> Result<InvoiceNumber, CommandError> {
    let wrong =
        |_| CommandError::usage("the number of an invoice is a year and six digits, as in 2026-000123");
    text.parse().map_err(wrong)
}

async fn list(console: &mut Console<'_>, args: &InvoiceListArgs) -> Result<(), CommandError> {
    let now = console.app.now();
    let tenant = find::tenant_id(&console.app, args.tenant.as_ref()).await?;
    let period = args.month.map(|month| (month.start(), month.end()));
    let state = args.status.map(InvoiceState::from);
    let filter = InvoiceFilter { tenant, period, ..InvoiceState::filter_of(state, now) };
    let mut left = args.length.limit.unwrap_or(u64::MAX);
    let mut before = None;
    while left > 0 {
        let page = invoices::list(&console.app, filter, before, left.min(MAX)).await?;
        let Some(last) = page.last() else { break };
        (left, before) = (left - page.len() as u64, Some(last.number));
        for invoice in &page {
            console.printer.entry(&InvoiceSummaryJson::of(invoice, now))?;
        }
    }
    Ok(())
}

async fn settle(
    console: &mut Console<'_>,
    args: &InvoiceSettleArgs,
    status: InvoiceStatus,
) -> Result<(), CommandError> {
    let number = number(&args.one.number)?;
    let owed = dollars(invoices::get(&console.app, number).await?.invoice.due_cents());
    let question = match status {
        InvoiceStatus::Void => format!("Cancel invoice {number} with {owed} still owed?"),
        InvoiceStatus::Open | InvoiceStatus::Paid => format!("Mark invoice {number} as paid ({owed})?"),
    };
    console.confirm(args.confirmation, &question)?;
    let actor = console.actor();
    let note = args.note.as_deref();
    let invoice = invoices::settle(&console.app, &actor, number, status, note).await?;
    Ok(console.printer.object(&InvoiceJson::of(invoice, console.app.now()))?)
}

async fn credit(console: &mut Console<'_>, args: &InvoiceCreditArgs) -> Result<(), CommandError> {
    let number = number(&args.one.number)?;
    let question = format!("Issue a credit note of {} for invoice {number}?", dollars(args.cents));
    console.confirm(args.confirmation, &question)?;
    let actor = console.actor();
    let (_, note) = invoices::credit(&console.app, &actor, number, args.cents, &args.reason, None).await?;
    Ok(console.printer.object(&CreditNoteJson::from(note))?)
}

#[cfg(test)]
mod tests {
    use crate::command::console::tests::run;
    use crate::testing::Site;
    use crate::testing::fixtures::issue;
    use rpcgate_store::AuditSubject;
    use serde_json::json;

    #[tokio::test]
    async fn invoices_are_listed_by_tenant_state_and_month() {
        let site = Site::new().await;
        let one = site.tenant().await;
        let other = site.tenant().await;
        let first = issue(&site, one).await;
        let second = issue(&site, other).await;
        assert_eq!(run(&site, None, &format!("invoice void {second} --yes")).await.code, 0);
        let numbers = async |line: &str| {
            let listed = run(&site, None, &format!("invoice list --json {line}")).await.json();
            listed.iter().map(|invoice| invoice["number"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let first = first.to_string();
        let second = second.to_string();
        assert_eq!(numbers("").await, [second.clone(), first.clone()]);
        assert_eq!(numbers("--limit 1").await, std::slice::from_ref(&second));
        assert_eq!(numbers(&format!("--tenant {one}")).await, std::slice::from_ref(&first));
        assert_eq!(numbers("--status void").await, std::slice::from_ref(&second));
        assert_eq!(numbers("--status overdue").await, [""; 0]);
        assert_eq!(numbers("--month 2026-11").await, [second, first.clone()]);
        assert_eq!(numbers("--month 2026-11 --status open").await, std::slice::from_ref(&first));
        assert_eq!(numbers("--month 2026-12").await, [""; 0]);
        let table = run(&site, None, "invoice list --status open").await.out;
        let expected = format!("{first}  {one}  2026-11  open     11.90 USD       11.90 USD\n");
        assert!(table.ends_with(&expected), "{table}");
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn invoices_are_paid_cancelled_and_credited_once_by_the_rules_of_the_api() {
        let site = Site::new().await;
        let tenant = site.tenant().await;
        let first = issue(&site, tenant).await;
        let second = issue(&site, site.tenant().await).await;
        let line = format!("invoice credit {first} --cents 190 --reason discount --yes --json");
        let note = &run(&site, None, &line).await.json()[0];
        assert_eq!((&note["total_cents"], &note["reason"]), (&json!(190), &json!("discount")));
        let refused =
            run(&site, None, &format!("invoice credit {first} --cents 2000 --reason x --yes")).await;
        assert_eq!((refused.code, refused.out.as_str()), (4, ""), "{refused:?}");
        let refused = run(&site, None, &format!("invoice credit {first} --cents 0 --reason x --yes")).await;
        assert_eq!((refused.code, refused.messages.as_str()), (2, "`cents` must be at least 1\n"));
        let declined = run(&site, Some("n\n"), &format!("invoice pay {first}")).await;
        assert_eq!(declined.code, 1);
        assert!(
            declined.messages.starts_with("Mark invoice 2026-000001 as paid (10.00 USD)?"),
            "{declined:?}"
        );
        let paid = run(&site, Some("y\n"), &format!("invoice pay {first} --note transfer --json")).await;
        assert_eq!(
            (&paid.json()[0]["status"], &paid.json()[0]["note"]),
            (&json!("paid"), &json!("transfer"))
        );
        let refused = run(&site, None, &format!("invoice void {first} --yes")).await;
        assert_eq!(refused.code, 4, "{refused:?}");
        let void = run(&site, None, &format!("invoice void {second} --yes")).await;
        assert!(void.out.contains("status: void\n") && void.out.contains("owed: 0.00 USD\n"), "{void:?}");
        let shown = run(&site, None, &format!("invoice show {first}")).await.out;
        for text in [
            "credit notes: C2026-000001 1.90 USD discount\n",
            "lines: eth, plan standard, 10000 CU: 10.0",
            "status: paid\n",
        ] {
            assert!(shown.contains(text), "{shown}");
        }
        let audit = site.app.store.audit(AuditSubject::Tenant(tenant), 9).await.unwrap();
        for action in ["invoice.paid", "invoice.credited"] {
            let entry = audit.iter().find(|entry| entry.action == action).unwrap();
            assert!(entry.user.is_none() && entry.address.starts_with("command line ("), "{entry:?}");
        }
        assert_eq!(run(&site, None, "invoice show 1").await.code, 2);
    }
}
