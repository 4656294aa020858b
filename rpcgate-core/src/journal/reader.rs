//! Reads frames.

use super::code::Code;
use super::frame::{
    CACHED, CALLS, Event, EventLine, FRAME_HEAD, FrameError, MAX_PAYLOAD, Party, STATUS, TABLE,
    TRANSPORT_SHIFT, USUAL_STATUS, WINDOWED,
};
use super::names::{Known, Reference};
use super::varint::Cursor;
use crate::backend::usage_sink::{OwnedLine, OwnedRecord, shown_method};
use crate::caller::{KeyId, ProjectId, RequestId, TenantId};
use crate::clock::Time;
use crate::plan::Price;
use std::time::Duration;

/// A reader of the frames of one segment or block, from the first on. Its memory is bounded for any content.
#[derive(Debug, Default)]
pub struct Reader {
    parties: Vec<Party>,
    passing: Option<Party>,
    chains: Known,
    methods: Known,
    lines: Vec<EventLine>,
}

impl Reader {
    /// Creates a reader before the first frame.
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses the frame at the start of `bytes`. Returns its length in bytes and its event; `None` if incomplete.
    ///
    /// Its lines, and its unnumbered names and caller, stay readable until the next call.
    ///
    /// # Errors
    ///
    /// Returns [`FrameError`] if the bytes cannot be the next frame. The reader stays unchanged, so other bytes may be tried.
    pub fn frame(&mut self, bytes: &[u8]) -> Result<Option<(usize, Event)>, FrameError> {
        let before = self.counts();
        self.keep(before);
        let Some((length, rest)) = bytes.split_first_chunk() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        // An empty payload has the checksum zero, so without this check a run of zeros would be frames.
        if length == 0 || length > MAX_PAYLOAD {
            return Err(FrameError::Length);
        }
        let Some((checksum, rest)) = rest.split_first_chunk() else {
            return Ok(None);
        };
        let Some(payload) = rest.get(..length) else {
            return Ok(None);
        };
        if crc32fast::hash(payload) != u32::from_le_bytes(*checksum) {
            return Err(FrameError::Checksum);
        }
        let event = self.payload(&mut Cursor(payload)).inspect_err(|_| self.keep(before))?;
        Ok(Some((FRAME_HEAD + length, event)))
    }

    /// Returns the lines of the last frame.
    pub fn lines(&self) -> &[EventLine] {
        &self.lines
    }

    /// Returns the caller at `index`.
    pub fn party(&self, index: u32) -> Option<&Party> {
        match index as usize {
            TABLE => self.passing.as_ref(),
            index => self.parties.get(index),
        }
    }

    /// Returns the path name of the chain at `index`.
    pub fn chain(&self, index: u32) -> Option<&str> {
        self.chains.get(index).and_then(|name| std::str::from_utf8(name).ok())
    }

    /// Returns the metered name of the method at `index`. It is valid UTF-8 if the client sent valid UTF-8.
    pub fn method(&self, index: u32) -> Option<&[u8]> {
        self.methods.get(index)
    }

    /// Returns the record of the last frame, with its names. `None` if `event` is from another reader.
    pub fn record(&self, event: &Event) -> Option<OwnedRecord> {
        let party = self.party(event.party)?;
        let line = |line: &EventLine| {
            Some(OwnedLine {
                method: shown_method(self.method(line.method)?).into_owned(),
                cu: line.cu,
                status: line.status,
                outcome: line.outcome,
                cached: line.cached,
                calls: line.calls,
                bytes_in: line.bytes_in,
                bytes_out: line.bytes_out,
            })
        };
        Some(OwnedRecord {
            phase: event.phase,
            request: event.request,
            key: party.key,
            project: party.project,
            tenant: party.tenant,
            chain: self.chain(event.chain)?.to_owned(),
            transport: event.transport,
            tier: party.tier,
            price: party.price,
            arrival: event.arrival,
            latency: event.latency,
            windowed: event.windowed,
            lines: self.lines.iter().map(line).collect::<Option<_>>()?,
        })
    }

    fn counts(&self) -> [usize; 3] {
        [self.parties.len(), self.chains.len(), self.methods.len()]
    }

    /// Drops all numbered names and callers beyond these counts.
    fn keep(&mut self, [parties, chains, methods]: [usize; 3]) {
        self.lines.clear();
        self.passing = None;
        self.parties.truncate(parties);
        self.chains.keep(chains);
        self.methods.keep(methods);
    }

    fn payload(&mut self, cursor: &mut Cursor<'_>) -> Result<Event, FrameError> {
        let bits = cursor.byte()?;
        let event = Event {
            phase: word(bits & 3)?,
            transport: word((bits & !WINDOWED) >> TRANSPORT_SHIFT)?,
            request: RequestId(cursor.id()?),
            party: self.read_party(cursor)?,
            chain: self.read_chain(cursor)?,
            arrival: Time::from_micros(cursor.number()?),
            latency: Duration::from_micros(cursor.number()?),
            windowed: if bits & WINDOWED == 0 { 1 } else { cursor.number()? },
        };
        while !cursor.is_empty() {
            let line = self.read_line(cursor)?;
            self.lines.push(line);
        }
        Ok(event)
    }

    fn read_party(&mut self, cursor: &mut Cursor<'_>) -> Result<u32, FrameError> {
        let reference = Reference::read(cursor, self.parties.len())?;
        if let Reference::Known(index) = reference {
            return Ok(index);
        }
        let party = Party {
            key: KeyId(cursor.id()?),
            project: ProjectId(cursor.id()?),
            tenant: TenantId(cursor.id()?),
            tier: word(cursor.byte()?)?,
            price: Price(cursor.number()?),
        };
        if let Reference::Passing = reference {
            self.passing = Some(party);
            return Ok(TABLE as u32);
        }
        self.parties.push(party);
        Ok(self.parties.len() as u32 - 1)
    }

    fn read_chain(&mut self, cursor: &mut Cursor<'_>) -> Result<u32, FrameError> {
        let index = self.chains.read(cursor)?;
        self.chain(index).map(|_| index).ok_or(FrameError::Content)
    }

    fn read_line(&mut self, cursor: &mut Cursor<'_>) -> Result<EventLine, FrameError> {
        let bits = cursor.byte()?;
        Ok(EventLine {
            outcome: word(bits & !(CACHED | STATUS | CALLS))?,
            cached: bits & CACHED != 0,
            method: self.methods.read(cursor)?,
            cu: cursor.number()?,
            status: if bits & STATUS == 0 { USUAL_STATUS } else { cursor.number()? },
            calls: if bits & CALLS == 0 { 1 } else { cursor.number()? },
            bytes_in: cursor.number()?,
            bytes_out: cursor.number()?,
        })
    }
}

fn word<T: Code>(code: u8) -> Result<T, FrameError> {
    T::word(code).ok_or(FrameError::Content)
}
