//! `[billing]`: invoices.

use super::fields::{Fields, Table};
use super::problem::Problem;
use super::secret::Secret;
use super::units::{DAY, SECOND};
use super::url::Url;
use rpcgate_core::plan::Tier;
use std::time::Duration;

/// `[billing]`. The currency is always the US dollar, because prices are in US dollars.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct BillingSettings {
    /// The seller's name on invoices.
    pub seller: String,
    /// The lines of the seller's address.
    pub seller_address: Vec<String>,
    /// The seller's tax number.
    pub seller_tax_id: Option<String>,
    /// The name of the tax.
    pub tax_name: String,
    /// The tax rate in basis points, hundredths of a percent. 0: invoices have no tax.
    pub tax_basis_points: u32,
    /// The time between the end of a month and its closing, for late usage from gateways that were away.
    pub close_after: Duration,
    /// The time from an invoice's date to its due date.
    pub pay_within: Duration,
    /// The time before the due date at which members are reminded of an unpaid invoice. 0: not before.
    pub remind_before: Duration,
    /// The times after the due date at which reminders are sent.
    pub reminders: Vec<Duration>,
    /// The time from the first announcing mail to the suspension of a tenant with an overdue invoice. 0: never.
    pub suspend_after: Duration,
    /// The monthly fees of the plans.
    pub fees: MonthlyFees,
    /// Payments through Stripe.
    pub stripe: StripeSettings,
}

const MOST_REMINDERS: usize = 10;
/// The maximum number of address lines, and of characters per line or name.
const MOST_LINES: usize = 10;
const MOST_CHARACTERS: usize = 200;

impl Default for BillingSettings {
    fn default() -> Self {
        BillingSettings {
            seller: "rpcgate".into(),
            seller_address: Vec::new(),
            seller_tax_id: None,
            tax_name: "Tax".into(),
            tax_basis_points: 0,
            close_after: 21_600 * SECOND,
            pay_within: 14 * DAY,
            remind_before: 3 * DAY,
            reminders: vec![DAY, 7 * DAY],
            suspend_after: Duration::ZERO,
            fees: MonthlyFees::default(),
            stripe: StripeSettings::default(),
        }
    }
}

impl Table for BillingSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("seller", &mut self.seller);
        f.value("seller_address", &mut self.seller_address);
        f.value("seller_tax_id", &mut self.seller_tax_id);
        f.value("tax_name", &mut self.tax_name);
        f.number("tax_basis_points", &mut self.tax_basis_points, 0..=10_000);
        f.duration("close_after", &mut self.close_after, Duration::ZERO..=20 * DAY);
        f.duration("pay_within", &mut self.pay_within, Duration::ZERO..=365 * DAY);
        f.duration("remind_before", &mut self.remind_before, Duration::ZERO..=365 * DAY);
        f.value("reminders", &mut self.reminders);
        f.duration("suspend_after", &mut self.suspend_after, Duration::ZERO..=365 * DAY);
        f.table("fees", &mut self.fees);
        f.table("stripe", &mut self.stripe);
        let ends_line = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        let is_line = |text: &String| text.chars().count() <= MOST_CHARACTERS && !text.contains(ends_line);
        let why = || format!("must be one line of at most {MOST_CHARACTERS} characters");
        for (key, texts) in [
            ("seller", std::slice::from_ref(&self.seller)),
            ("seller_tax_id", self.seller_tax_id.as_slice()),
            ("tax_name", std::slice::from_ref(&self.tax_name)),
        ] {
            if !texts.iter().all(is_line) {
                f.wrong(&[key], |key| Problem::Invalid { key, why: why() });
            }
        }
        if self.seller_address.len() > MOST_LINES || !self.seller_address.iter().all(is_line) {
            let why = format!("must have at most {MOST_LINES} lines of at most {MOST_CHARACTERS} characters");
            f.wrong(&["seller_address"], |key| Problem::Invalid { key, why });
        }
        let ascends = self.reminders.is_sorted_by(|before, next| before < next);
        if self.reminders.len() > MOST_REMINDERS || !ascends {
            let why = format!("must have at most {MOST_REMINDERS} entries, each longer than the one before");
            f.wrong(&["reminders"], |key| Problem::Invalid { key, why });
        }
        if self.reminders.iter().any(|after| *after > 365 * DAY) {
            f.wrong(&["reminders"], |key| Problem::Invalid {
                key,
                why: "has an entry longer than 365d".into(),
            });
        }
    }
}

/// `[billing.fees]`: the fee of each plan for a calendar month, in cents.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct MonthlyFees {
    /// The fee of the free plan.
    pub free: u64,
    /// The fee of the standard plan.
    pub standard: u64,
    /// The fee of the premium plan.
    pub premium: u64,
    /// The fee of the enterprise plan.
    pub enterprise: u64,
}

impl MonthlyFees {
    /// The largest fee, in cents.
    pub const MOST: u64 = 100_000_000;

    /// Returns the fee of a plan, in cents.
    pub const fn of(&self, tier: Tier) -> u64 {
        match tier {
            Tier::Free => self.free,
            Tier::Standard => self.standard,
            Tier::Premium => self.premium,
            Tier::Enterprise => self.enterprise,
        }
    }

    pub(super) const fn of_mut(&mut self, tier: Tier) -> &mut u64 {
        match tier {
            Tier::Free => &mut self.free,
            Tier::Standard => &mut self.standard,
            Tier::Premium => &mut self.premium,
            Tier::Enterprise => &mut self.enterprise,
        }
    }
}

impl Table for MonthlyFees {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.number("free", &mut self.free, 0..=Self::MOST);
        f.number("standard", &mut self.standard, 0..=Self::MOST);
        f.number("premium", &mut self.premium, 0..=Self::MOST);
        f.number("enterprise", &mut self.enterprise, 0..=Self::MOST);
    }
}

/// `[billing.stripe]`: Stripe Checkout. Without the secrets there is no payment provider.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StripeSettings {
    /// The secret key of the account, `sk_…`.
    pub secret_key: Option<Secret>,
    /// The secret with which Stripe signs its events, `whsec_…`.
    pub webhook_secret: Option<Secret>,
    /// The API URL; Stripe's own if absent.
    pub api_url: Option<Url>,
}

impl Table for StripeSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.secret("secret_key", &mut self.secret_key, 8);
        f.secret("webhook_secret", &mut self.webhook_secret, 8);
        f.url("api_url", &mut self.api_url, &["http", "https"]);
        if self.secret_key.is_some() != self.webhook_secret.is_some() {
            let why = "needs billing.stripe.secret_key and billing.stripe.webhook_secret".into();
            f.wrong(&["secret_key", "webhook_secret"], |key| Problem::Invalid { key, why });
        }
    }
}
