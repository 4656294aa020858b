//! Certificates by ACME, from a real authority that really checks the names: `pebble`, on this host.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what goes wrong fails it")]

mod gateways;
mod orders;

use rpcgate_config::{AcmeSettings, Url};
use rpcgate_core::clock::{Clock, ManualClock, SystemClock};
use rpcgate_tests::services::pebble::Pebble;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Returns a clock that the test moves. It starts 60 s after the real clock, which the authority uses, so that
/// certificates signed now are valid.
fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(SystemClock::new().now().plus(Duration::from_secs(60))))
}

/// Returns the settings for orders from this authority, for these names, in this folder.
fn settings(pebble: &Pebble, dir: &Path, domains: &[&str]) -> AcmeSettings {
    let mut settings = AcmeSettings::default();
    settings.domains = domains.iter().map(|name| (*name).to_owned()).collect();
    settings.contacts = vec!["operator@example.com".into()];
    settings.directory_url = Url::parse(&pebble.directory_url(), &["https"]).ok();
    settings.dir = dir.to_owned();
    settings.ca_file = Some(pebble.ca_file());
    settings
}
