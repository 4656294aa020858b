//! Writes frames.

use super::code::Code;
use super::frame::{
    CACHED, CALLS, Event, FRAME_HEAD, MAX_NAME, MAX_PAYLOAD, Party, STATUS, TRANSPORT_SHIFT, USUAL_STATUS,
    WINDOWED,
};
use super::names::Numbers;
use super::reader::Reader;
use super::varint;
use crate::backend::usage_sink::{Line, Phase, Record};
use crate::caller::RequestId;
use crate::clock::Time;
use crate::transport::Transport;
use std::time::Duration;

/// An upper bound for the length of a line: a byte of bits, a reference and a length, a name, and five numbers.
const MAX_LINE: usize = MAX_NAME + 48;

/// A writer of the frames of one segment or block, from the first on.
///
/// Frames refer to earlier frames, so the writer must be replaced after a frame failed to reach its destination.
#[derive(Debug, Default)]
pub struct Writer {
    pub(super) parties: Numbers<Party>,
    pub(super) chains: Numbers<Vec<u8>>,
    pub(super) methods: Numbers<Vec<u8>>,
}

#[derive(Clone, Copy)]
struct Set<'a> {
    phase: Phase,
    request: RequestId,
    party: Party,
    chain: &'a [u8],
    transport: Transport,
    arrival: Time,
    latency: Duration,
    windowed: u32,
}

impl Writer {
    /// Creates a writer before the first frame.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the frame of `record` to `out`. If caller, chain and methods were written before, only `out` allocates.
    ///
    /// Latency is stored in whole microseconds, names up to [`MAX_NAME`] bytes. A record that is too long for one frame
    /// continues in further frames with the remaining lines, which repeat the rest but count in no window.
    pub fn frame(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let set = Set {
            phase: record.phase,
            request: record.request,
            party: Party::from(record),
            chain: record.chain.as_str().as_bytes(),
            transport: record.transport,
            arrival: record.arrival,
            latency: record.latency,
            windowed: record.windowed,
        };
        self.write(set, record.lines.iter().copied(), out);
    }

    /// Appends the frame of `event`, the last one of `reader`. For another reader's event, only returns `false`.
    #[must_use]
    pub fn copy(&mut self, reader: &Reader, event: &Event, out: &mut Vec<u8>) -> bool {
        let (Some(party), Some(chain)) = (reader.party(event.party), reader.chain(event.chain)) else {
            return false;
        };
        let set = Set {
            phase: event.phase,
            request: event.request,
            party: *party,
            chain: chain.as_bytes(),
            transport: event.transport,
            arrival: event.arrival,
            latency: event.latency,
            windowed: event.windowed,
        };
        let lines = reader.lines().iter().map(|line| Line {
            method: reader.method(line.method).unwrap_or_default(),
            cu: line.cu,
            status: line.status,
            outcome: line.outcome,
            cached: line.cached,
            calls: line.calls,
            bytes_in: line.bytes_in,
            bytes_out: line.bytes_out,
        });
        self.write(set, lines, out);
        true
    }

    fn write<'a>(&mut self, mut set: Set<'_>, lines: impl Iterator<Item = Line<'a>>, out: &mut Vec<u8>) {
        let mut start = self.begin(&set, out);
        for line in lines {
            if out.len() - start > FRAME_HEAD + MAX_PAYLOAD - MAX_LINE {
                end(start, out);
                set.windowed = 0;
                start = self.begin(&set, out);
            }
            self.line(&line, out);
        }
        end(start, out);
    }

    fn begin(&mut self, set: &Set<'_>, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.extend_from_slice(&[0; FRAME_HEAD]);
        let windowed = if set.windowed == 1 { 0 } else { WINDOWED };
        out.push(set.phase.code() | set.transport.code() << TRANSPORT_SHIFT | windowed);
        out.extend_from_slice(&set.request.0.to_be_bytes());
        self.party(&set.party, out);
        self.chains.put_name(set.chain, out);
        varint::put(set.arrival.micros(), out);
        varint::put(u64::try_from(set.latency.as_micros()).unwrap_or(u64::MAX), out);
        if windowed != 0 {
            varint::put(set.windowed.into(), out);
        }
        start
    }

    fn party(&mut self, party: &Party, out: &mut Vec<u8>) {
        if self.parties.put(party, 0, out) {
            for id in [party.key.0, party.project.0, party.tenant.0] {
                out.extend_from_slice(&id.to_be_bytes());
            }
            out.push(party.tier.code());
            varint::put(party.price.0, out);
        }
    }

    fn line(&mut self, line: &Line<'_>, out: &mut Vec<u8>) {
        let bit = |bit: u8, is_set: bool| if is_set { bit } else { 0 };
        let status = line.status != USUAL_STATUS;
        let calls = line.calls != 1;
        out.push(line.outcome.code() | bit(CACHED, line.cached) | bit(STATUS, status) | bit(CALLS, calls));
        self.methods.put_name(line.method, out);
        varint::put(line.cu.into(), out);
        if status {
            varint::put(line.status.into(), out);
        }
        if calls {
            varint::put(line.calls.into(), out);
        }
        varint::put(line.bytes_in.into(), out);
        varint::put(line.bytes_out.into(), out);
    }
}

/// Writes length and checksum of the frame that began at `start`.
fn end(start: usize, out: &mut [u8]) {
    let (head, payload) = out[start..].split_at_mut(FRAME_HEAD);
    head[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    head[4..].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
}
