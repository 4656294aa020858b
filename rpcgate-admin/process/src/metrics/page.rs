//! Writing families of metrics.

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, EncodeMetric, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use std::fmt;

/// Writes a page of metrics.
#[derive(Debug)]
pub struct MetricsWriter<'e>(DescriptorEncoder<'e>);

/// A histogram.
#[derive(Clone, PartialEq, Debug)]
pub struct Histogram {
    /// The sum of all values.
    pub sum: f64,
    /// The number of values.
    pub count: u64,
    /// Upper bound, and the number of values between the previous bound and this one; the last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
}

impl<'e> MetricsWriter<'e> {
    /// Creates a page that is written with `encoder`.
    pub const fn new(encoder: DescriptorEncoder<'e>) -> Self {
        MetricsWriter(encoder)
    }

    /// Writes a counter for each set of labels.
    ///
    /// # Errors
    /// Those of writing.
    pub fn counters<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in rows {
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// Writes a single counter.
    ///
    /// # Errors
    /// Those of writing.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        ConstCounter::new(value).encode(self.0.encode_descriptor(name, help, None, MetricType::Counter)?)
    }

    /// Writes a single counter of seconds.
    ///
    /// # Errors
    /// Those of writing.
    pub fn seconds(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let unit = Unit::Seconds;
        ConstCounter::new(value).encode(self.0.encode_descriptor(
            name,
            help,
            Some(&unit),
            MetricType::Counter,
        )?)
    }

    /// Writes a gauge for each set of labels.
    ///
    /// # Errors
    /// Those of writing.
    pub fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        rows: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (labels, value) in rows {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// Writes a single gauge.
    ///
    /// # Errors
    /// Those of writing.
    pub fn gauge<V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        value: V,
    ) -> fmt::Result {
        ConstGauge::new(value).encode(self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?)
    }

    /// Writes a histogram for each set of labels.
    ///
    /// # Errors
    /// Those of writing.
    pub fn histograms<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        unit: &Unit,
        rows: impl IntoIterator<Item = (L, Histogram)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, Some(unit), MetricType::Histogram)?;
        for (labels, Histogram { sum, count, buckets }) in rows {
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }
}
