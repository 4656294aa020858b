//! The faults of a node's streams: settings and a decision, which the owner of the socket carries out.

use crate::seed::Stream;
use std::time::Duration;

/// The fault of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamDisturbance {
    /// The TCP connection is cut, without a close frame.
    Cut,
    /// Nothing more is read or written; the connection stays open.
    Stall,
    /// The node ends its side of the TCP connection without a close frame. It still reads, and answers nothing.
    HalfClose,
    /// The node writes bytes that are not a frame: reserved bits are set.
    Garbage,
    /// The node writes a close frame whose code may not be sent (1005), and ends its side.
    BadClose,
    /// The node correctly closes the stream with this code. A code that may not be sent is not checked.
    Close(u16),
    /// Every message is written in pieces of this many bytes, with a pause after each.
    Slow {
        /// Bytes written at once; 0 counts as 1.
        bytes: usize,
        /// The pause.
        pause: Duration,
    },
    /// The node repeats the pushes of the client's subscriptions as fast as the connection takes them.
    Flood,
}

/// The behaviour of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamFate {
    /// The fault; `None` for a healthy stream.
    pub disturbance: Option<StreamDisturbance>,
    /// The number of messages that the node writes before the fault.
    pub after: u64,
    /// The maximum payload of a frame in bytes: longer messages are fragmented. `None` for whole messages.
    pub fragment: Option<usize>,
}

/// Settings for the faults of streams.
#[derive(Debug, Clone)]
pub struct StreamDial {
    /// The share of streams with a fault, 0 to 1.
    pub rate: f64,
    /// The faults, all equally likely. If empty, no stream has a fault.
    pub disturbances: Vec<StreamDisturbance>,
    /// The minimum and the maximum number of messages that the node writes before a fault, uniformly distributed.
    pub after: (u64, u64),
    /// The maximum payload of a frame in bytes; `None` for whole messages.
    pub fragment: Option<usize>,
    stream: Stream,
}

impl StreamDial {
    /// Creates the settings of healthy streams with whole messages.
    pub fn new(seed: u64) -> Self {
        StreamDial {
            rate: 0.0,
            disturbances: Vec::new(),
            after: (0, 0),
            fragment: None,
            stream: Stream::new(seed),
        }
    }

    /// Gives every stream this fault after `after` messages.
    pub fn always(disturbance: StreamDisturbance, after: u64) -> Self {
        StreamDial { rate: 1.0, disturbances: vec![disturbance], after: (after, after), ..StreamDial::new(0) }
    }

    /// Decides about the next stream. The same seed and settings give the same sequence of decisions.
    #[expect(
        clippy::should_implement_trait,
        reason = "an endless row of decisions is no iterator over a thing"
    )]
    pub fn next(&mut self) -> StreamFate {
        let fate = self.stream.unit();
        let kind = self.stream.unit();
        let spread = self.stream.unit();
        let chosen = (kind * self.disturbances.len() as f64) as usize;
        let disturbance = self.disturbances.get(chosen).copied().filter(|_| fate < self.rate);
        let (least, most) = self.after;
        let span = most.saturating_sub(least);
        // The conversion ends at the largest number, so the sum is bounded again.
        let after = least.saturating_add((spread * (span as f64 + 1.0)) as u64).min(most.max(least));
        StreamFate { disturbance, after, fragment: self.fragment }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [StreamDisturbance; 3] =
        [StreamDisturbance::Cut, StreamDisturbance::Stall, StreamDisturbance::Garbage];

    #[test]
    fn a_new_dial_disturbs_no_stream() {
        let mut dial = StreamDial::new(1);
        assert!((0..1_000).all(|_| dial.next() == StreamFate::default()));
        let mut dial = StreamDial { rate: 1.0, ..StreamDial::new(1) };
        assert_eq!(dial.next().disturbance, None, "there is no fault to choose");
    }

    #[test]
    fn the_rate_holds_and_every_fault_and_number_occurs() {
        let mut dial =
            StreamDial { rate: 0.5, disturbances: ALL.into(), after: (2, 4), ..StreamDial::new(5) };
        let row: Vec<_> = (0..10_000).map(|_| dial.next()).collect();
        let share = row.iter().filter(|fate| fate.disturbance.is_some()).count() as f64 / 10_000.0;
        assert!((share - 0.5).abs() < 0.02, "{share}");
        assert!(ALL.iter().all(|one| row.iter().any(|fate| fate.disturbance == Some(*one))));
        assert!((2..=4).all(|after| row.iter().any(|fate| fate.after == after)));
        assert!(row.iter().all(|fate| (2..=4).contains(&fate.after)));
    }

    #[test]
    fn a_seed_repeats_its_sequence_and_a_fault_can_be_set_for_every_stream() {
        let row = |seed| {
            let mut dial = StreamDial { rate: 0.5, disturbances: ALL.into(), ..StreamDial::new(seed) };
            (0..50).map(|_| dial.next()).collect::<Vec<_>>()
        };
        assert_eq!(row(1), row(1));
        assert_ne!(row(1), row(2));
        let mut dial = StreamDial::always(StreamDisturbance::Flood, 7);
        let fate = StreamFate { disturbance: Some(StreamDisturbance::Flood), after: 7, fragment: None };
        assert!((0..100).all(|_| dial.next() == fate));
    }
}
