//! The faults of a node: settings and a decision, which the owner of the socket carries out.

use super::seed::Stream;
use std::time::Duration;

/// Settings for latency and faults.
#[derive(Debug, Clone)]
pub struct Dial {
    /// The share of requests that fail, 0 to 1. Half of the failures are HTTP errors, half are cut connections.
    pub error_rate: f64,
    /// The share of requests that are never answered, 0 to 1.
    pub hang_rate: f64,
    /// The shortest time before an answer.
    pub latency: Duration,
    /// The maximum additional time, uniformly distributed.
    pub jitter: Duration,
    stream: Stream,
}

/// The fate of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    /// The request is answered after the delay.
    Answer {
        /// The time before the answer.
        delay: Duration,
    },
    /// The request is answered after the delay, with this HTTP status and a body that is not JSON.
    Status {
        /// The time before the answer.
        delay: Duration,
        /// 500, 502 or 503.
        status: u16,
    },
    /// The connection is cut after the delay, with no answer.
    Cut {
        /// The time before the cut.
        delay: Duration,
    },
    /// The request is never answered; the connection stays open.
    Hang,
}

impl Dial {
    /// Creates the settings of a healthy node that answers at once.
    pub fn new(seed: u64) -> Self {
        Dial {
            error_rate: 0.0,
            hang_rate: 0.0,
            latency: Duration::ZERO,
            jitter: Duration::ZERO,
            stream: Stream::new(seed),
        }
    }

    /// Decides about the next request. The same seed and settings give the same sequence of decisions.
    #[expect(
        clippy::should_implement_trait,
        reason = "an endless row of decisions is no iterator over a thing"
    )]
    pub fn next(&mut self) -> Disturbance {
        let fate = self.stream.unit();
        let kind = self.stream.unit();
        let spread = self.stream.unit();
        let delay = self.latency + self.jitter.mul_f64(spread);
        if fate < self.hang_rate {
            Disturbance::Hang
        } else if fate < self.hang_rate + self.error_rate {
            match kind {
                k if k < 0.5 => Disturbance::Cut { delay },
                k if k < 0.7 => Disturbance::Status { delay, status: 500 },
                k if k < 0.85 => Disturbance::Status { delay, status: 502 },
                _ => Disturbance::Status { delay, status: 503 },
            }
        } else {
            Disturbance::Answer { delay }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_dial_never_disturbs() {
        let mut dial = Dial::new(1);
        assert!((0..1_000).all(|_| dial.next() == Disturbance::Answer { delay: Duration::ZERO }));
    }

    #[test]
    fn faults_occur_at_their_rates_and_every_fault_occurs() {
        let mut dial = Dial { error_rate: 0.3, hang_rate: 0.1, ..Dial::new(5) };
        let row: Vec<_> = (0..10_000).map(|_| dial.next()).collect();
        let share = |f: fn(&Disturbance) -> bool| row.iter().filter(|d| f(d)).count() as f64 / 10_000.0;
        assert!((share(|d| matches!(d, Disturbance::Hang)) - 0.1).abs() < 0.02);
        assert!((share(|d| matches!(d, Disturbance::Cut { .. })) - 0.15).abs() < 0.02);
        for status in [500, 502, 503] {
            assert!(row.iter().any(|d| matches!(d, Disturbance::Status { status: s, .. } if *s == status)));
        }
    }

    #[test]
    fn delays_stay_between_latency_and_its_jitter() {
        let latency = Duration::from_millis(20);
        let jitter = Duration::from_millis(30);
        let mut dial = Dial { latency, jitter, ..Dial::new(5) };
        for _ in 0..1_000 {
            let Disturbance::Answer { delay } = dial.next() else { panic!("no fault was set") };
            assert!(delay >= latency && delay <= latency + jitter);
        }
    }

    #[test]
    fn a_seed_repeats_its_sequence_of_decisions() {
        let row = |seed| {
            let mut dial = Dial { error_rate: 0.5, ..Dial::new(seed) };
            (0..50).map(|_| dial.next()).collect::<Vec<_>>()
        };
        assert_eq!(row(1), row(1));
        assert_ne!(row(1), row(2));
    }
}
