//! The metrics of a certificate that may be replaced while the program runs.

use super::page::MetricsWriter;
use crate::acme::OrderCounts;
use crate::tls::{Certificate, CertificateCounts};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The number of replacements and orders of a certificate, and the expiry of the one in use.
#[derive(Debug)]
pub struct CertificateMetrics(pub Arc<Certificate>);

impl Collector for CertificateMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = MetricsWriter::new(encoder);
        let CertificateCounts { done, refused } = &self.0.counts;
        let renewals = [("done", done), ("refused", refused)];
        page.counters(
            "certificate_renewals",
            "Replacements of the certificate in use, by outcome.",
            renewals.map(|(result, count)| ([("result", result)], count.load(Relaxed))),
        )?;
        let loaded = self.0.loaded();
        if let Some(valid) = &loaded.valid {
            let help = "The expiry time of the certificate in use, since 1970.";
            page.gauge("certificate_expiry", help, Some(&Unit::Seconds), valid.end.secs())?;
        }
        if !loaded.is_ordered() {
            return Ok(());
        }
        let OrderCounts { done, failed, failures } = &*self.0.orders;
        let orders = [("done", done), ("failed", failed)];
        page.counters(
            "certificate_orders",
            "Orders of certificates, by outcome.",
            orders.map(|(result, count)| ([("result", result)], count.load(Relaxed))),
        )?;
        let help = "Orders of certificates that have failed in a row.";
        page.gauge("certificate_order_failures", help, None, failures.load(Relaxed))
    }
}
