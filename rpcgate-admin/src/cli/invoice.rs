//! The commands for invoices.

use super::options::{CommandOptions, Confirmation, ListLength};
use clap::{Args, Subcommand, ValueEnum};
use rpcgate_management::action::billing::month::BillingMonth;

/// The commands for invoices.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum InvoiceCommand {
    /// List invoices, the newest first
    List(InvoiceListArgs),
    /// Show an invoice with its lines and credit notes
    Show(InvoiceArgs),
    /// Mark an invoice as paid. A tenant that was suspended because of it is served again
    Pay(InvoiceSettleArgs),
    /// Cancel an invoice. A tenant that was suspended because of it is served again
    Void(InvoiceSettleArgs),
    /// Issue a credit note, which reduces what is owed for an invoice
    Credit(InvoiceCreditArgs),
}

impl InvoiceCommand {
    /// Returns the shared options.
    pub fn options(&self) -> &CommandOptions {
        match self {
            InvoiceCommand::List(args) => &args.options,
            InvoiceCommand::Show(args) => &args.options,
            InvoiceCommand::Pay(args) | InvoiceCommand::Void(args) => &args.one.options,
            InvoiceCommand::Credit(args) => &args.one.options,
        }
    }
}

/// The state of an invoice, as an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum InvoiceStateArg {
    /// Not paid, and not due yet
    Open,
    /// Paid, or nothing of it is owed any more
    Paid,
    /// Not paid, although it is due
    Overdue,
    /// Cancelled
    Void,
}

/// The arguments of `invoice list`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct InvoiceListArgs {
    /// The tenant whose invoices to list: its identifier or name
    #[arg(long, value_name = "TENANT")]
    pub tenant: Option<String>,
    /// The state of the invoices to list
    #[arg(long, value_name = "STATUS")]
    pub status: Option<InvoiceStateArg>,
    /// The month that the invoices close, as in 2026-12
    #[arg(long, value_name = "MONTH")]
    pub month: Option<BillingMonth>,
    /// The length of the list.
    #[command(flatten)]
    pub length: ListLength,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// An invoice.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct InvoiceArgs {
    /// The number of the invoice, as in 2026-000123
    pub number: String,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// The arguments of `invoice pay` and `invoice void`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct InvoiceSettleArgs {
    /// The invoice.
    #[command(flatten)]
    pub one: InvoiceArgs,
    /// A note for the tenant
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// The confirmation option.
    #[command(flatten)]
    pub confirmation: Confirmation,
}

/// The arguments of `invoice credit`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct InvoiceCreditArgs {
    /// The invoice.
    #[command(flatten)]
    pub one: InvoiceArgs,
    /// The amount with tax, in cents
    #[arg(long, value_name = "NUMBER")]
    pub cents: u64,
    /// The reason, which the tenant reads
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// The confirmation option.
    #[command(flatten)]
    pub confirmation: Confirmation,
}
