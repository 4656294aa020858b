//! The alerts for a member, each with its links.

use super::super::chart::axis::{day, hour};
use super::super::filters::{day_text, grouped, minute_text};
use super::super::frame::Frame;
use rpcgate_core::clock::Time;
use rpcgate_management::action::billing::month::BillingMonth;
use rpcgate_management::action::overview::attention::Attention;
use rpcgate_management::identity::role::Permission;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Alert {
    /// `bad`, `warn`, or empty.
    pub(super) tone: &'static str,
    pub(super) icon: &'static str,
    /// The text before the name, the name, and the text after it.
    pub(super) before: String,
    pub(super) name: String,
    pub(super) after: String,
    /// The links: a label and an address below the root.
    pub(super) links: Vec<(&'static str, String)>,
}

impl Alert {
    /// Describes `found` at `now` for the reader of `frame`.
    pub(super) fn of(found: &Attention, frame: &Frame, now: Time) -> Self {
        let bad = |before: &str, name: &str, after: String| Alert {
            tone: "bad",
            icon: "bad",
            before: before.to_owned(),
            name: name.to_owned(),
            after,
            links: Vec::new(),
        };
        match found {
            Attention::Suspended { is_overdue } => {
                let bills = is_overdue.then_some(("See your bills", "billing"));
                let support = if frame.may(Permission::ManageTickets) {
                    ("Contact support", "support/new")
                } else {
                    ("See the tickets", "support")
                };
                let links = bills.into_iter().chain([support]);
                let text =
                    "The operator has suspended your organisation: every call is refused with status 402.";
                bad(text, "", String::new())
                    .links(links.map(|(label, path)| (label, path.to_owned())).collect())
            }
            Attention::QuotaReached { project, name } => {
                let text = " has used its Compute Units. Calls that cost some are refused until the oldest hours leave \
                            the 24 hours.";
                bad("", name, text.to_owned()).links(quota_links(&project.to_string(), frame))
            }
            Attention::QuotaNear { project, name, percent, until } => {
                let pace = until.map_or_else(String::new, |until| {
                    format!(" At this pace it is refused from about {}.", moment(until, now))
                });
                let text = format!(" has used {percent:.0} % of its Compute Units.{pace}");
                let near = bad("", name, text).links(quota_links(&project.to_string(), frame));
                Alert { tone: "warn", icon: "warn", ..near }
            }
            Attention::InvoiceOverdue { number, month, cents, due_at } => {
                let text = format!("{}, was due on {}.", invoice(*month, *cents), day_text(*due_at));
                bad(&text, "", String::new()).links(vec![pay(&number.to_string(), frame)])
            }
            Attention::InvoiceOpen { number, month, cents, due_at } => {
                let text = format!("{}, is due on {}.", invoice(*month, *cents), day_text(*due_at));
                let open = bad(&text, "", String::new()).links(vec![pay(&number.to_string(), frame)]);
                Alert { tone: "", icon: "card", ..open }
            }
            Attention::WebhookFails { webhook, url, since, is_disabled } => {
                let since = since.map_or_else(String::new, |since| format!(" since {}", minute_text(since)));
                let after = if *is_disabled {
                    format!(" have failed{since}, and it was switched off.")
                } else {
                    format!(" fail{since}.")
                };
                bad("Deliveries to ", host(url), after)
                    .links(vec![("Inspect them", format!("webhooks/{webhook}"))])
            }
            Attention::TicketAnswered { ticket, subject } => {
                let alert = bad("Support has answered ", subject, ".".to_owned());
                let links = vec![("Read the answer", format!("support/{ticket}"))];
                Alert { tone: "", icon: "chat", links, ..alert }
            }
        }
    }

    fn links(self, links: Vec<(&'static str, String)>) -> Self {
        Alert { links, ..self }
    }
}

fn quota_links(project: &str, frame: &Frame) -> Vec<(&'static str, String)> {
    let mut links = vec![("See what uses them", format!("usage?project_id={project}"))];
    if frame.may(Permission::RequestLimits) {
        links.push(("Ask for more", "plan/request".to_owned()));
    }
    links
}

fn pay(number: &str, frame: &Frame) -> (&'static str, String) {
    let label = if frame.may(Permission::ManageBilling) { "Pay" } else { "See it" };
    (label, format!("invoices/{number}"))
}

/// For example `The invoice for 2026-10, $3,571.18`.
fn invoice(month: Time, cents: u64) -> String {
    let amount = format!("${}.{:02}", grouped((cents / 100).into()), cents % 100);
    format!("The invoice for {}, {amount}", BillingMonth::of(month))
}

/// Formats a time within the next day: `18:00 UTC`, with the date if the day differs.
fn moment(at: Time, now: Time) -> String {
    if at.day() == now.day() { format!("{} UTC", hour(at)) } else { format!("{}, {} UTC", day(at), hour(at)) }
}

fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_on_another_day_includes_the_day() {
        // 2026-11-19T14:26:00Z.
        let now = Time::from_secs(1_795_098_360);
        assert_eq!(moment(Time::from_secs(1_795_111_200), now), "18:00 UTC");
        assert_eq!(moment(Time::from_secs(1_795_140_000), now), "20 Nov, 02:00 UTC");
    }

    #[test]
    fn an_endpoint_is_named_by_its_host() {
        for (url, name) in [
            ("https://hooks.acme.example/a?b", "hooks.acme.example"),
            ("https://hooks.acme.example:8443", "hooks.acme.example:8443"),
            ("nonsense", "nonsense"),
            ("", ""),
        ] {
            assert_eq!(host(url), name);
        }
    }

    #[test]
    fn an_invoice_is_named_by_its_month_and_amount() {
        // 2026-10-01T00:00:00Z.
        assert_eq!(invoice(Time::from_secs(1_790_812_800), 357_118), "The invoice for 2026-10, $3,571.18");
        assert_eq!(invoice(Time::from_secs(1_790_812_800), 5), "The invoice for 2026-10, $0.05");
    }
}
