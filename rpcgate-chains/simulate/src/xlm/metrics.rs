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

/// The metrics by name: a domain, a type and a name. A request can select by domain or name.
const METRICS: [(&str, Kind); 44] = [
    ("app.post-on-background-thread.delay", Kind::Timer("calls", 12, 40)),
    ("app.post-on-main-thread.delay", Kind::Timer("calls", 300, 250)),
    ("bucket.batch.addtime", Kind::Timer("calls", 1, 9_000)),
    ("bucket.batch.objectsadded", Kind::Meter("object", 900)),
    ("bucket.memory.shared", Kind::Level(90)),
    ("bucketlist.size.bytes", Kind::Level(14_000_000_000)),
    ("crypto.verify.hit", Kind::Meter("signature", 1_500)),
    ("crypto.verify.miss", Kind::Meter("signature", 500)),
    ("crypto.verify.total", Kind::Meter("signature", 2_000)),
    ("herder.pending-txs.age0", Kind::Level(210)),
    ("herder.pending-txs.age1", Kind::Level(40)),
    ("herder.pending-txs.banned", Kind::Level(18)),
    ("history.publish.failure", Kind::Meter("event", 0)),
    ("ledger.age.current-seconds", Kind::Level(3)),
    ("ledger.apply.failure", Kind::Count(60)),
    ("ledger.apply.success", Kind::Count(250)),
    ("ledger.apply-soroban.success", Kind::Count(20)),
    ("ledger.catchup.duration", Kind::Timer("calls", 0, 0)),
    ("ledger.invariant.failure", Kind::Count(0)),
    ("ledger.ledger.close", Kind::Timer("calls", 1, 220_000)),
    ("ledger.operation.apply", Kind::Timer("calls", 800, 140)),
    ("ledger.operation.count", Kind::Histogram(800)),
    ("ledger.transaction.apply", Kind::Timer("calls", 310, 420)),
    ("ledger.transaction.count", Kind::Histogram(310)),
    ("ledger.transaction.internal-error", Kind::Count(0)),
    ("overlay.byte.read", Kind::Meter("byte", 3_100_000)),
    ("overlay.byte.write", Kind::Meter("byte", 2_400_000)),
    ("overlay.connection.authenticated", Kind::Level(24)),
    ("overlay.connection.latency", Kind::Timer("calls", 24, 70_000)),
    ("overlay.connection.pending", Kind::Level(1)),
    ("overlay.error.read", Kind::Meter("message", 0)),
    ("overlay.flood.broadcast", Kind::Meter("message", 900)),
    ("overlay.inbound.live", Kind::Level(16)),
    ("overlay.message.read", Kind::Meter("message", 5_200)),
    ("overlay.message.write", Kind::Meter("message", 4_700)),
    ("process.file.handles", Kind::Level(160)),
    ("scp.envelope.emit", Kind::Meter("envelope", 6)),
    ("scp.envelope.receive", Kind::Meter("envelope", 420)),
    ("scp.envelope.sign", Kind::Meter("envelope", 6)),
    ("scp.memory.cumulative-statements", Kind::Level(5_100)),
    ("scp.sync.lost", Kind::Meter("sync", 0)),
    ("scp.timing.externalized", Kind::Timer("calls", 1, 95_000)),
    ("scp.timing.nominated", Kind::Timer("calls", 1, 1_050_000)),
    ("scp.value.valid", Kind::Meter("value", 40)),
];

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
        let extended = |mut one: Json, other: Json| {
            if let (Json::Object(members), Json::Object(more)) = (&mut one, other) {
                members.extend(more);
            }
            one
        };
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
                let count = object! { "type": "meter", "count": self.ledgers * each };
                extended(count, self.rates(name, each, event))
            }
            Kind::Timer(event, each, micros) => {
                let count = object! { "type": "timer", "count": self.ledgers * each };
                let mut timer = extended(count, self.rates(name, each, event));
                timer.put("duration_unit", "ms");
                extended(timer, self.samples(name, micros as f64 / 1_000.0, self.ledgers * each))
            }
            Kind::Histogram(middle) => {
                let count = object! { "type": "histogram", "count": self.ledgers };
                extended(count, self.samples(name, middle as f64, self.ledgers))
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
        for (name, kind) in METRICS.iter().filter(|(name, _)| chosen(name)) {
            out.put(name, self.metric(name, *kind));
        }
        out
    }
}
