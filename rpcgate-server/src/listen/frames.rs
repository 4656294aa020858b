//! The frames of an HTTP/2 client, counted where they cost work and carry nothing.
//!
//! Hyper answers each PING and SETTINGS and holds at most one answer, so a flood of them takes no memory but a whole
//! processor. Frames without an answer (WINDOW_UPDATE, acknowledgements, resets, unknown types) cost less, but a flood
//! of them still takes most of a processor. So each such frame costs units of a budget that refills over time. gRPC
//! clients send a PING for every few answers to measure the connection, and some clients send a WINDOW_UPDATE or two
//! for each piece of an answer, so bytes written to the client and requests also refill the budget.

use tokio::time::Instant;

/// The first bytes of an HTTP/2 client (RFC 9113, section 3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The cost of a frame that is answered: the budget allows a thousand at once, fifty a second, and one per KiB written.
const ANSWERED: u64 = 40;
/// The cost of a frame that is not answered.
const UNANSWERED: u64 = 1;

/// The maximum budget, and its refill per second.
const STOCK: u64 = 1_000 * ANSWERED;
const PER_SECOND: u64 = 50 * ANSWERED;

/// The refill per KiB written to the client.
const PER_KIBIBYTE: u64 = ANSWERED;
/// The refill per request: its reset, and a window update.
const PER_REQUEST: u64 = 2 * UNANSWERED;

/// The length of a frame's head in bytes (RFC 9113, section 4.1).
const HEAD: usize = 9;

/// The types of frames (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Fine,
    Flood,
}

#[derive(Debug)]
pub(super) struct Frames {
    /// Bytes until the next frame: of the preface, or of a frame's content.
    skipped: usize,
    head: [u8; HEAD],
    filled: usize,
    left: u64,
    written: u64,
    since: Option<Instant>,
}

impl Frames {
    pub(super) fn new() -> Self {
        let skipped = PREFACE.len();
        Frames { skipped, head: [0; HEAD], filled: 0, left: STOCK, written: 0, since: None }
    }

    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written += bytes as u64;
    }

    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Verdict {
        let mut verdict = Verdict::Fine;
        while !bytes.is_empty() {
            let skipped = self.skipped.min(bytes.len());
            (self.skipped, bytes) = (self.skipped - skipped, &bytes[skipped..]);
            let taken = (HEAD - self.filled).min(bytes.len());
            self.head[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            (self.filled, bytes) = (self.filled + taken, &bytes[taken..]);
            if self.filled < HEAD {
                break;
            }
            self.filled = 0;
            let [high, middle, low, kind, flags, ..] = self.head;
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            self.skipped = length;
            let cost = match kind {
                SETTINGS | PING if flags & ACK == 0 => ANSWERED,
                PRIORITY => ANSWERED,
                DATA if length == 0 && flags & END_STREAM == 0 => ANSWERED,
                HEADERS => {
                    self.left = (self.left + PER_REQUEST).min(STOCK);
                    0
                }
                // Hyper bounds the others, or they end the connection.
                DATA | PUSH_PROMISE | GOAWAY | CONTINUATION => 0,
                _ => UNANSWERED,
            };
            if !self.pay(cost) {
                verdict = Verdict::Flood;
            }
        }
        verdict
    }

    /// Takes `cost` units from the budget. The clock is read only when the budget is used up.
    fn pay(&mut self, cost: u64) -> bool {
        if self.left < cost {
            self.refill();
        }
        match self.left.checked_sub(cost) {
            Some(left) => self.left = left,
            None => return false,
        }
        true
    }

    fn refill(&mut self) {
        let now = Instant::now();
        // The first time it is unknown how long the budget has lasted.
        let seconds = self.since.map_or(1, |since| (now - since).as_secs());
        self.left += (seconds * PER_SECOND).min(STOCK) + self.written * PER_KIBIBYTE / 1_024;
        self.written = 0;
        if seconds > 0 {
            self.since = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn frame(kind: u8, flags: u8, content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 0], content].concat()
    }

    fn begun() -> Frames {
        let mut frames = Frames::new();
        assert_eq!(frames.read(PREFACE), Verdict::Fine);
        frames
    }

    fn pings(frames: &mut Frames, most: usize) -> usize {
        let ping = frame(PING, 0, &[7; 8]);
        (0..most).take_while(|_| frames.read(&ping) == Verdict::Fine).count()
    }

    // Shows (Hostile and odd traffic).
    #[tokio::test(start_paused = true)]
    async fn pings_are_bounded_at_once_and_over_time() {
        let mut frames = begun();
        assert_eq!(pings(&mut frames, 100_000), 1_050);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(pings(&mut frames, 100_000), 500);
        tokio::time::advance(Duration::from_secs(100_000)).await;
        assert_eq!(pings(&mut frames, 100_000), 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_sent_much_may_ping_much() {
        let mut frames = begun();
        for _ in 0..100 {
            frames.wrote(1 << 20);
            assert_eq!(pings(&mut frames, 1_000), 1_000);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn frames_are_found_in_pieces_of_any_size() {
        let stream = [
            PREFACE.to_vec(),
            frame(SETTINGS, 0, &[]),
            // Content that looks like pings.
            frame(DATA, 0, &frame(PING, 0, &[7; 8]).repeat(2_000)),
            frame(SETTINGS, ACK, &[]),
            frame(PING, ACK, &[7; 8]).repeat(2_000),
            frame(8, 0, &[0, 0, 1, 0]).repeat(2_000),
            frame(DATA, END_STREAM, &[]).repeat(2_000),
        ]
        .concat();
        for size in [1, 7, 9, 10, 4_096] {
            let mut frames = Frames::new();
            let fine = stream.chunks(size).all(|piece| frames.read(piece) == Verdict::Fine);
            assert!(fine && frames.left == STOCK - ANSWERED - 4_001, "{size}: {}", frames.left);
        }
    }

    // Shows (Hostile and odd traffic): Frames of HTTP/2 that get no answer are bounded too.
    #[tokio::test(start_paused = true)]
    async fn frames_that_are_not_answered_are_bounded_at_once_and_over_time() {
        for one in [
            frame(8, 0, &[0, 0, 0, 1]),
            frame(PING, ACK, &[7; 8]),
            frame(SETTINGS, ACK, &[]),
            frame(3, 0, &[0, 0, 0, 8]),
            frame(0xfa, 0, b"grease"),
            frame(16, 0, &[0; 5]),
        ] {
            let mut frames = begun();
            let mut sent =
                || (0..1_000_000).take_while(|_| frames.read(&one) == Verdict::Fine).count() as u64;
            assert_eq!(sent(), STOCK + PER_SECOND);
            tokio::time::advance(Duration::from_secs(3)).await;
            assert_eq!(sent(), 3 * PER_SECOND);
        }
    }

    // Shows (Hostile and odd traffic).
    #[tokio::test(start_paused = true)]
    async fn a_client_may_update_its_windows_for_each_small_piece_and_each_request() {
        let update = frame(8, 0, &[0, 0, 0, 100]);
        let mut frames = begun();
        for n in 0..200_000 {
            frames.wrote(9 + 50);
            assert_eq!(frames.read(&update.repeat(2)), Verdict::Fine, "piece {n}");
        }
        let mut frames = begun();
        let request = [frame(HEADERS, END_STREAM, b"head"), update, frame(3, 0, &[0, 0, 0, 8])].concat();
        for n in 0..200_000 {
            assert_eq!(frames.read(&request), Verdict::Fine, "request {n}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_frame_that_only_costs_work_counts() {
        for one in [frame(SETTINGS, 0, &[0; 6]), frame(PRIORITY, 0, &[0; 5]), frame(DATA, 0, &[])] {
            let mut frames = begun();
            assert_eq!(frames.read(&one.repeat(2_000)), Verdict::Flood);
        }
    }
}
