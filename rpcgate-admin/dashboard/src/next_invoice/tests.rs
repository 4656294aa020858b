//! Tests of the preliminary invoice.

use crate::testing::Site;
use crate::tests::{cookie, get};
use http::StatusCode;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Price;
use rpcgate_core::usage::sample::{SampleLine, SampleRecord, SampleShipper, deed, item};
use rpcgate_management::action::billing::closing::close_months;
use rpcgate_store::Role;
use std::time::Duration;

const SELLER: &str = "[billing]\nseller = \"Nodes & Sons\"\nseller_address = [\"1 Main Street\"]\ntax_name = \"VAT\"\n\
                      tax_basis_points = 1900\n";
/// The begin of January 2027, the month after that of the clock.
const JANUARY: u64 = 1_798_761_600;

/// Records calls with `cu` Compute Units, at a dollar for each unit.
async fn call(site: &Site, shipper: &mut SampleShipper, tenant: TenantId, at: Time, cu: u32) {
    let price = Price(1_000_000_000_000);
    let lines = vec![SampleLine { cu, ..item("a") }];
    let call = SampleRecord { tenant, chain: "eth", price, ..deed(110, at, lines) };
    site.app.usage.ship(&shipper.pack(&[call])).await.unwrap();
}

fn lines(html: &str) -> &str {
    html.split_once("<tbody>").unwrap().1.split_once("</tbody>").unwrap().0
}

// Shows (Plans, bills and payments): The invoice of the current month can be read in advance in the same layout, marked
// as preliminary and without a number, with late usage.
#[tokio::test]
async fn the_next_invoice_matches_the_later_invoice_and_is_marked_as_preliminary() {
    let site = Site::of(SELLER).await;
    let owner = site.member(Role::Billing).await;
    let tenant = owner.user.tenant.unwrap();
    let own = cookie(&site, &owner);
    close_months(&site.app).await.unwrap();
    let none = get(&site, "/billing/next", &own).await;
    assert_eq!(none.status, StatusCode::OK, "{}", none.text);
    assert!(none.text.contains("there will be no invoice for this month"), "{}", none.text);
    assert!(lines(&none.text).contains("No calls have been charged"), "{}", none.text);

    call(&site, &mut SampleShipper::new(1), tenant, site.app.now(), 7).await;
    let bill = get(&site, "/billing", &own).await;
    assert!(bill.text.contains("href=\"billing/next\"") && bill.text.contains("$8.33"), "{}", bill.text);
    let next = get(&site, "/billing/next", &own).await;
    for text in [
        "Preliminary: this is not an invoice.",
        "<dt>Number</dt><dd>None, preliminary</dd>",
        "<dt>As of</dt><dd>31 Dec 2026, 12:00 UTC</dd>",
        "<dt>Period</dt><dd>2026-12, UTC</dd>",
        "Nodes &#38; Sons",
        "1 Main Street",
        "Compute Units on eth, plan standard",
        "<th scope=\"row\" colspan=\"2\">VAT 19 %</th><td class=\"p2\"></td><td class=\"num\">1.33</td>",
        "Total so far in USD",
        "8.33",
    ] {
        assert!(next.text.contains(text), "{text}: {}", next.text);
    }
    assert!(!next.text.contains("there will be no invoice"), "{}", next.text);

    site.clock.set(Time::from_secs(JANUARY + 86_400));
    assert_eq!(close_months(&site.app).await.unwrap().invoices, 1);
    let own = cookie(&site, &site.visitor(Some(tenant), Role::Billing).await);
    let issued = get(&site, "/invoices/2027-000001", &own).await;
    assert_eq!(issued.status, StatusCode::OK, "{}", issued.text);
    assert_eq!(lines(&issued.text), lines(&next.text));
    assert!(issued.text.contains("8.33") && !issued.text.contains("Preliminary"), "{}", issued.text);
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn late_usage_is_on_the_next_invoice_but_usage_of_an_open_month_is_not() {
    let site = Site::new().await;
    let tenant = site.member(Role::Billing).await.user.tenant.unwrap();
    close_months(&site.app).await.unwrap();
    let mut shipper = SampleShipper::new(1);
    let december = site.app.now();
    call(&site, &mut shipper, tenant, december, 7).await;

    // December has ended, and is closed six hours later.
    site.clock.set(Time::from_secs(JANUARY + 3_600));
    let own = cookie(&site, &site.visitor(Some(tenant), Role::Billing).await);
    let next = get(&site, "/billing/next", &own).await;
    assert!(lines(&next.text).contains("No calls have been charged"), "{}", next.text);

    site.clock.set(Time::from_secs(JANUARY + 86_400));
    close_months(&site.app).await.unwrap();
    call(&site, &mut shipper, tenant, december, 4).await;
    let own = cookie(&site, &site.visitor(Some(tenant), Role::Billing).await);
    let next = get(&site, "/billing/next", &own).await;
    let late = lines(&next.text);
    assert!(
        late.contains("Compute Units on eth, plan standard, 2026-12</th><td class=\"num\">4</td>"),
        "{late}"
    );
    assert_eq!(late.matches("<tr>").count(), 1, "{late}");
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn the_next_invoice_requires_the_right_to_read_bills_and_usage() {
    let site = Site::new().await;
    let viewer = cookie(&site, &site.member(Role::Viewer).await);
    assert_eq!(get(&site, "/billing/next", &viewer).await.status, StatusCode::FORBIDDEN);
    let own = cookie(&site, &site.member(Role::Billing).await);
    assert_eq!(get(&site, "/billing/next", &own).await.status, StatusCode::OK);
    site.clock.advance(Duration::from_secs(1));
    site.app.usage.close().await;
    assert_eq!(get(&site, "/billing/next", &own).await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(!get(&site, "/billing", &own).await.text.contains("billing/next"), "there is nothing to read");
}
