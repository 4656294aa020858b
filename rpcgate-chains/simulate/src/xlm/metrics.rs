//! The metrics of a node. All of them follow from the number of ledgers that it has closed.

use crate::json::{Json, object};
use crate::seed::Seed;

/// The kind of a metric, with the parameters of its values.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A value around an average.
    Level(u64),
    /// A counter, with its growth per ledger.
    Count(u64),
    /// Events of a type, with their number per ledger.
    Meter(&'static str, u64),
    /// Events of a type, with their number per ledger and the microseconds of each.
    Timer(&'static str, u64, u64),
    /// Samples around an average, one per ledger.
    Histogram(u64),
}

/// Returns the metrics by name: a domain, a type and a name. A request can select by domain or name.
fn all() -> impl Iterator<Item = (&'static str, Kind)> {
    include_str!("metrics.txt").lines().filter_map(|line| {
        let mut words = line.split(' ');
        let name = words.next()?;
        let kind = words.next()?;
        let event = if matches!(kind, "meter" | "timer") { words.next()? } else { "" };
        let mut number = || words.next()?.parse().ok();
        let kind = match kind {
            "level" => Kind::Level(number()?),
            "count" => Kind::Count(number()?),
            "meter" => Kind::Meter(event, number()?),
            "timer" => Kind::Timer(event, number()?, number()?),
            _ => Kind::Histogram(number()?),
        };
        Some((name, kind))
    })
}

/// The number of ledgers that the node has closed, the seconds since its start, and a number for the current random values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    pub(crate) seed: Seed,
    pub(crate) ledgers: u64,
    pub(crate) seconds: u64,
    /// Seconds since the last ledger.
    pub(crate) age: u64,
    pub(crate) height: u64,
    pub(crate) peers: (u64, u64),
}

impl Life {
    /// Returns a value up to a tenth above or below an average, different at each ledger.
    fn near(self, name: &str, middle: u64) -> u64 {
        middle - middle / 10 + self.seed.below(name, self.height, middle / 5 + 1)
    }

    fn rates(self, name: &str, each: u64, event: &'static str) -> Json {
        let mean = (self.ledgers * each) as f64 / self.seconds.max(1) as f64;
        let near = |window: &str| {
            let share = 0.95 + self.seed.below(window, self.height ^ name.len() as u64, 100) as f64 / 1_000.0;
            Json::float(mean * share)
        };
        object! {
            "event_type": event, "rate_unit": "s", "mean_rate": Json::float(mean), "1_min_rate": near("1"),
            "5_min_rate": near("5"), "15_min_rate": near("15"),
        }
    }

    /// Samples around an average; milliseconds for timers.
    fn samples(self, name: &str, middle: f64, count: u64) -> Json {
        let middle = if count == 0 { 0.0 } else { middle };
        let around = |share: f64| Json::float(middle * share);
        let moved = 0.9 + self.seed.below(name, self.height, 100) as f64 / 500.0;
        object! {
            "min": around(0.3), "max": around(4.2), "mean": around(1.05), "stddev": around(0.4),
            "sum": Json::float(middle * 1.05 * count as f64), "median": around(moved), "75%": around(1.3),
            "95%": around(1.9), "98%": around(2.6), "99%": around(3.1), "99.9%": around(4.1),
        }
    }

    fn metric(self, name: &str, kind: Kind) -> Json {
        match kind {
            Kind::Level(middle) => {
                let count = match name {
                    "ledger.age.current-seconds" => self.age,
                    "overlay.connection.authenticated" => self.peers.0,
                    "overlay.connection.pending" => self.peers.1,
                    _ => self.near(name, middle),
                };
                object! { "type": "counter", "count": count }
            }
            Kind::Count(each) => object! { "type": "counter", "count": self.ledgers * each },
            Kind::Meter(event, each) => {
                let mut meter = object! { "type": "meter", "count": self.ledgers * each };
                meter.extend(self.rates(name, each, event));
                meter
            }
            Kind::Timer(event, each, micros) => {
                let mut timer = object! { "type": "timer", "count": self.ledgers * each };
                timer.extend(self.rates(name, each, event));
                timer.put("duration_unit", "ms");
                timer.extend(self.samples(name, micros as f64 / 1_000.0, self.ledgers * each));
                timer
            }
            Kind::Histogram(middle) => {
                let mut histogram = object! { "type": "histogram", "count": self.ledgers };
                histogram.extend(self.samples(name, middle as f64, self.ledgers));
                histogram
            }
        }
    }

    /// Returns all metrics, or those whose name or domain is in `wanted`.
    pub(crate) fn metrics(self, wanted: Option<&str>) -> Json {
        let chosen = |name: &str| {
            let domain = name.split('.').next().unwrap_or_default();
            wanted.is_none_or(|wanted| wanted.split(',').any(|one| one == name || one == domain))
        };
        let mut out = object! {};
        for (name, kind) in all().filter(|(name, _)| chosen(name)) {
            out.put(name, self.metric(name, kind));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_file_is_a_metric() {
        assert_eq!(all().count(), include_str!("metrics.txt").lines().count());
    }
}
