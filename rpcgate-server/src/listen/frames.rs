//! The frames that a client of HTTP/2 sends, counted where they cost work and carry nothing.
//!
//! Hyper answers each PING and each SETTINGS, and holds no more than one answer at a time, so a flood of them takes no memory
//! but all of a processor. Clients of gRPC send a PING for every few answers, to measure the connection: so there is one for
//! each kibibyte that the client is sent, beside a stock that fills up again.

use tokio::time::Instant;

/// The first bytes of a client that speaks HTTP/2 (RFC 9113, section 3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frames that only cost work which a client may send at once, and how many more each second.
const STOCK: u64 = 1_000;
const PER_SECOND: u64 = 50;

/// Bytes that are written to a client for one more frame.
const PER_FRAME: u64 = 1_024;

/// Bytes of a frame's head (RFC 9113, section 4.1).
const HEAD: usize = 9;

/// Types of frames (RFC 9113, section 6).
const DATA: u8 = 0;
const PRIORITY: u8 = 2;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;

/// Whether a client sends too much of nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Fine,
    Flood,
}

/// The frames of one connection.
#[derive(Debug)]
pub(super) struct Frames {
    /// Bytes until the next frame: of the preface, or of a frame's content.
    skipped: usize,
    head: [u8; HEAD],
    /// Bytes of the head that have come.
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

    /// Notes bytes that were written to the client.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written += bytes as u64;
    }

    /// Reads what the client has sent.
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
            let is_work = match kind {
                SETTINGS | PING => flags & ACK == 0,
                PRIORITY => true,
                DATA => length == 0 && flags & END_STREAM == 0,
                _ => false,
            };
            if is_work && !self.pay() {
                verdict = Verdict::Flood;
            }
        }
        verdict
    }

    /// Takes one frame from the stock. The clock is read only when the stock is used up.
    fn pay(&mut self) -> bool {
        if self.left == 0 {
            let now = Instant::now();
            let seconds = self.since.map_or(0, |since| (now - since).as_secs());
            let earned = (seconds * PER_SECOND).min(STOCK) + self.written / PER_FRAME;
            if earned == 0 && self.since.is_some() {
                return false;
            }
            // The first time it is not known how long the stock has lasted.
            self.left = if self.since.is_none() { earned + PER_SECOND } else { earned };
            (self.since, self.written) = (Some(now), 0);
        }
        self.left -= 1;
        true
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
    async fn frames_are_found_in_whatever_pieces_they_come() {
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
            assert!(fine && frames.left == STOCK - 1, "{size}: {}", frames.left);
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
