//! Blocks of several thousand events. One database row per event would cost more than the call did.
//!
//! A block holds the events of one UTC hour in the journal's format (frames without a header), delta-encoded. The block
//! that is being filled is *open*: the next shipment replaces it by a longer one with the same id, to save rows.

pub use super::delta::BadBlock;
use super::delta::{self, Delta};
use super::interned::Words;
use crate::backend::usage_sink::OwnedRecord;
use crate::caller::{KeyId, ProjectId, RequestId, TenantId};
use crate::clock::Time;
use crate::journal::{Event, MAX_PAYLOAD, Reader, Writer};

/// The maximum number of events in a block.
pub const MOST_EVENTS: u32 = 4_096;

/// The number of frame bytes at which a block is full.
pub const FULL_BYTES: usize = 1 << 20;

/// The number of events from which a block is not shipped again if that repeats more than [`REPEAT`] times the new
/// events. At one call per second, a block would otherwise be written thousands of times.
const WORTH_LEAVING: u32 = 256;
const REPEAT: u32 = 16;

/// The number of hours that are filled at a time. Calls may end in the hour after their arrival, and streams later.
const MOST_OPEN: usize = 8;

/// The maximum size of a block: [`FULL_BYTES`] and the last write, which takes several frames if names that were
/// numbers in the journal had to be written out.
const MOST_BYTES: usize = FULL_BYTES + 8 * MAX_PAYLOAD;

/// The buffer size of a frame that is kept for the next one.
const MAX_STORED: usize = 64 << 10;

/// Many events in one database row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The id, a UUID.
    pub id: u128,
    /// The arrival of the earliest event.
    pub from: Time,
    /// The arrival of the latest event, in the same UTC hour.
    pub to: Time,
    /// The number of events.
    pub count: u32,
    /// The keys of the events, each once.
    pub keys: Vec<BlockKey>,
    /// The events.
    pub bytes: Vec<u8>,
}

/// A key with events in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockKey {
    /// The project's tenant.
    pub tenant: TenantId,
    /// The key's project.
    pub project: ProjectId,
    /// The key.
    pub key: KeyId,
    /// The arrival of the key's earliest event in the block.
    pub from: Time,
    /// The arrival of the key's latest event in the block.
    pub to: Time,
}

impl Block {
    /// Visits the events of a block in recording order.
    ///
    /// # Errors
    /// Returns [`BadBlock`] if the bytes are not a block.
    pub fn read(bytes: &[u8], mut each: impl FnMut(&Reader, &Event)) -> Result<(), BadBlock> {
        let mut reader = Reader::new();
        delta::read(bytes, MOST_BYTES, |frame| {
            let (_, event) = reader.frame(frame).map_err(BadBlock::Torn)?.ok_or(BadBlock::Damaged)?;
            each(&reader, &event);
            Ok(())
        })
    }

    /// Returns the `filter` events of a block, in recording order.
    ///
    /// # Errors
    /// Returns [`BadBlock`] if the bytes are not a block.
    pub fn events(
        bytes: &[u8],
        mut filter: impl FnMut(&Reader, &Event) -> bool,
    ) -> Result<Vec<OwnedRecord>, BadBlock> {
        let mut events = Vec::new();
        Self::read(bytes, |reader, event| {
            if filter(reader, event) {
                events.extend(reader.record(event));
            }
        })?;
        Ok(events)
    }
}

/// A collector of events in blocks.
///
/// After a failed shipment, its content may differ from the database: continue with new `Blocks` then.
#[derive(Debug, Default)]
pub struct Blocks {
    /// The most recently used one is last.
    open: Vec<Open>,
    done: Vec<Block>,
    frames: Vec<u8>,
}

impl Blocks {
    /// Creates an empty collector.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the event that `reader` read last. If `event` is from another reader, adds nothing and returns `false`.
    pub fn add(&mut self, reader: &Reader, event: &Event) -> bool {
        let Some(party) = reader.party(event.party) else { return false };
        let hour = event.arrival.hour();
        if self.open.last().is_none_or(|open| open.hour != hour) {
            self.turn_to(hour, event.arrival);
        }
        let Some(open) = self.open.last_mut() else { return false };
        self.frames.clear();
        if !open.writer.copy(reader, event, &mut self.frames) {
            return false;
        }
        open.bytes.push(&self.frames);
        self.frames.shrink_to(MAX_STORED);
        open.count += 1;
        open.fresh += 1;
        let arrival = event.arrival;
        open.times = open.times.widened(arrival);
        let key = open.keys.number_at(event.party, &(party.tenant, party.project, party.key), |key| *key);
        match open.key_times.get_mut(key as usize) {
            Some(times) => *times = times.widened(arrival),
            None => open.key_times.push(Times::at(arrival)),
        }
        if open.count >= MOST_EVENTS || open.bytes.frames() >= FULL_BYTES {
            self.finish(self.open.len() - 1);
        }
        true
    }

    /// Reports whether there are no new events.
    pub fn is_empty(&self) -> bool {
        self.done.is_empty() && self.open.iter().all(|open| open.fresh == 0)
    }

    /// Returns the blocks with new events since the last call.
    pub fn take(&mut self) -> Vec<Block> {
        let mut taken = std::mem::take(&mut self.done);
        self.open.retain_mut(|open| {
            let fresh = std::mem::take(&mut open.fresh);
            if fresh > 0 {
                let bytes = open.bytes.block();
                taken.push(open.block(bytes));
            }
            open.count < WORTH_LEAVING || open.count <= fresh.saturating_mul(REPEAT)
        });
        taken
    }

    /// Makes the block of `hour` the most recently used one.
    fn turn_to(&mut self, hour: u64, first: Time) {
        if let Some(at) = self.open.iter().position(|open| open.hour == hour) {
            self.open[at..].rotate_left(1);
            return;
        }
        if self.open.len() >= MOST_OPEN {
            self.finish(0);
        }
        self.open.push(Open::new(first));
    }

    fn finish(&mut self, at: usize) {
        let mut open = self.open.remove(at);
        if open.fresh > 0 {
            let bytes = std::mem::replace(&mut open.bytes, Delta::new()).into_block();
            self.done.push(open.block(bytes));
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Times {
    from: Time,
    to: Time,
}

impl Times {
    const fn at(time: Time) -> Self {
        Times { from: time, to: time }
    }

    fn widened(self, time: Time) -> Self {
        Times { from: self.from.min(time), to: self.to.max(time) }
    }
}

#[derive(Debug)]
struct Open {
    id: u128,
    hour: u64,
    writer: Writer,
    bytes: Delta,
    times: Times,
    count: u32,
    /// The number of events that were in no shipment yet.
    fresh: u32,
    keys: Words<(TenantId, ProjectId, KeyId)>,
    key_times: Vec<Times>,
}

impl Open {
    fn new(first: Time) -> Self {
        Open {
            id: RequestId::new(first).0,
            hour: first.hour(),
            writer: Writer::new(),
            bytes: Delta::new(),
            times: Times::at(first),
            count: 0,
            fresh: 0,
            keys: Words::default(),
            key_times: Vec::new(),
        }
    }

    fn block(&self, bytes: Vec<u8>) -> Block {
        let keys = self.keys.iter().zip(&self.key_times);
        let mut keys: Vec<BlockKey> = keys
            .map(|(&(tenant, project, key), &Times { from, to })| BlockKey { tenant, project, key, from, to })
            .collect();
        keys.sort_unstable_by_key(|key| (key.tenant, key.project, key.key));
        let Times { from, to } = self.times;
        Block { id: self.id, from, to, count: self.count, keys, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::FrameError;
    use crate::usage::HourlyFold;
    use crate::usage::sample::{SampleRecord, deed, frames, item, take_in};
    use std::collections::HashMap;

    const HOUR: u64 = 3_600;
    const NOW: Time = Time::from_secs(500_000 * HOUR + 1_800);

    fn add(blocks: &mut Blocks, deeds: &[SampleRecord]) {
        take_in(&frames(deeds), &mut HourlyFold::new(), blocks);
    }

    fn calls(range: std::ops::Range<u64>) -> Vec<SampleRecord> {
        range.map(|n| deed(110, Time::from_micros(NOW.micros() + n), vec![item("toy_read")])).collect()
    }

    fn requests(block: &Block) -> Vec<RequestId> {
        let events = Block::events(&block.bytes, |_, _| true).unwrap();
        assert_eq!(events.len(), block.count as usize);
        events.iter().map(|event| event.request).collect()
    }

    #[test]
    fn a_block_contains_the_added_records() {
        let mut one = deed(110, NOW, vec![item("toy_read"), item("toy_scan")]);
        one.items[1].status = 429;
        let other = deed(211, Time::from_micros(NOW.micros() - 5), vec![item(b"a\0\xff")]);
        let mut blocks = Blocks::new();
        add(&mut blocks, &[one.clone(), other.clone(), one.clone()]);
        let taken = blocks.take();
        assert_eq!(taken.len(), 1);
        let block = &taken[0];
        assert_eq!((block.from, block.to, block.count), (other.arrival, one.arrival, 3));
        let keys: Vec<_> = block.keys.iter().map(|key| (key.tenant.0, key.project.0, key.key.0)).collect();
        assert_eq!(keys, [(1, 11, 110), (2, 21, 211)]);
        let events = Block::events(&block.bytes, |_, event| event.request == one.request).unwrap();
        assert_eq!(events.len(), 2);
        assert_eq!((events[0].key, events[0].tenant, events[0].chain.as_str()), (one.key, one.tenant, "toy"));
        assert_eq!((events[0].arrival, events[0].latency, events[0].windowed), (one.arrival, one.latency, 1));
        assert_eq!(events[0].lines[1].status, 429);
        let events = Block::events(&block.bytes, |_, event| event.request == other.request).unwrap();
        assert_eq!(events[0].lines[0].method, "a\u{fffd}\u{fffd}");
    }

    #[test]
    fn an_open_block_comes_again_longer_under_the_same_id() {
        let mut blocks = Blocks::new();
        let deeds = calls(0..5);
        add(&mut blocks, &deeds[..2]);
        let first = blocks.take();
        assert!(blocks.is_empty());
        assert_eq!(blocks.take(), []);
        add(&mut blocks, &deeds[2..]);
        assert!(!blocks.is_empty());
        let second = blocks.take();
        assert_eq!((first.len(), second.len()), (1, 1));
        assert_eq!(first[0].id, second[0].id);
        assert_eq!(requests(&second[0]), deeds.iter().map(|deed| deed.request).collect::<Vec<_>>());
    }

    #[test]
    fn a_full_block_is_followed_by_another() {
        let mut blocks = Blocks::new();
        let deeds = calls(0..2 * u64::from(MOST_EVENTS) + 1);
        add(&mut blocks, &deeds);
        let taken = blocks.take();
        assert_eq!(taken.iter().map(|block| block.count).collect::<Vec<_>>(), [MOST_EVENTS, MOST_EVENTS, 1]);
        let all: Vec<_> = taken.iter().flat_map(requests).collect();
        assert_eq!(all, deeds.iter().map(|deed| deed.request).collect::<Vec<_>>());
    }

    #[test]
    fn a_block_with_a_megabyte_is_full() {
        let mut blocks = Blocks::new();
        // Repeated names are written once, so these all differ.
        let deeds: Vec<_> = (0..1_500)
            .map(|n| deed(110, NOW, vec![item(format!("{n:01024}")), item(format!("{n:01000}"))]))
            .collect();
        add(&mut blocks, &deeds);
        let taken = blocks.take();
        assert!(taken.len() > 1, "{}", taken.len());
        assert_eq!(taken.iter().map(|block| block.count).sum::<u32>(), 1_500);
        assert_eq!(taken.iter().flat_map(requests).count(), 1_500);
    }

    #[test]
    fn a_block_stays_in_its_hour_and_late_events_share_one() {
        let mut blocks = Blocks::new();
        let at = |hour: u64, n: u64| Time::from_secs(hour * HOUR + n);
        let border =
            [deed(110, Time::from_micros(at(7, 0).micros() - 1), vec![]), deed(110, at(7, 0), vec![])];
        add(&mut blocks, &border);
        let taken = blocks.take();
        assert_eq!(taken.iter().map(|block| block.from.hour()).collect::<Vec<_>>(), [6, 7]);
        let mixed: Vec<_> = (1..100).map(|n| deed(110, at(6 + n % 2, n), vec![])).collect();
        add(&mut blocks, &mixed);
        let again = blocks.take();
        let mut ids: Vec<_> = again.iter().map(|block| (block.from.hour(), block.id)).collect();
        ids.sort_unstable();
        assert_eq!(ids, [(6, taken[0].id), (7, taken[1].id)]);
        for block in &again {
            assert_eq!(block.from.hour(), block.to.hour());
        }
    }

    #[test]
    fn no_event_is_lost_when_more_hours_are_open_than_it_remembers() {
        let mut blocks = Blocks::new();
        let deeds: Vec<_> =
            (0..200).map(|n| deed(110, Time::from_secs((n % 20) * HOUR + n), vec![])).collect();
        add(&mut blocks, &deeds);
        assert!(blocks.open.len() <= MOST_OPEN);
        let mut seen: Vec<_> = blocks.take().iter().flat_map(requests).collect();
        seen.sort_unstable();
        let mut all: Vec<_> = deeds.iter().map(|deed| deed.request).collect();
        all.sort_unstable();
        assert_eq!(seen, all);
    }

    #[test]
    fn a_block_that_would_gain_little_is_not_written_again() {
        let mut blocks = Blocks::new();
        let deeds = calls(0..2_000);
        let mut stored = HashMap::new();
        let mut written = 0;
        for one in deeds.chunks(1) {
            add(&mut blocks, one);
            for block in blocks.take() {
                written += block.bytes.len();
                stored.insert(block.id, block);
            }
        }
        let kept: usize = stored.values().map(|block| block.bytes.len()).sum();
        assert!(stored.len() <= 2_000 / WORTH_LEAVING as usize + 1, "{} blocks", stored.len());
        assert!(written < kept * WORTH_LEAVING as usize, "{written} written, {kept} kept");
        assert_eq!(stored.values().map(|block| block.count).sum::<u32>(), 2_000);

        let mut busy = Blocks::new();
        add(&mut busy, &deeds[..1_000]);
        let first = busy.take()[0].id;
        add(&mut busy, &deeds[1_000..]);
        assert_eq!(busy.take()[0].id, first, "much that is new goes on with the same block");
    }

    #[test]
    fn bytes_that_are_not_a_block_are_refused() {
        let mut blocks = Blocks::new();
        add(&mut blocks, &calls(0..50));
        let block = blocks.take().remove(0);
        let read = |bytes: &[u8]| Block::read(bytes, |_, _| {});
        assert_eq!(read(&block.bytes), Ok(()));
        assert_eq!(read(&[]), Err(BadBlock::Format));
        assert_eq!(read(&[9, 1, 2]), Err(BadBlock::Format));
        for cut in 1..block.bytes.len() {
            assert_eq!(read(&block.bytes[..cut]), Err(BadBlock::Damaged), "cut at {cut}");
        }
        for at in 1..block.bytes.len() {
            let mut flipped = block.bytes.clone();
            flipped[at] ^= 1;
            assert_eq!(read(&flipped), Err(BadBlock::Damaged), "byte {at}");
        }
        let of = |frames: &[u8]| {
            let mut delta = Delta::new();
            delta.push(frames);
            delta.into_block()
        };
        assert_eq!(read(&of(&frames(&calls(0..3)))), Ok(()));
        let second = &frames(&calls(0..2))[frames(&calls(0..1)).len()..];
        assert_eq!(read(&of(second)), Err(BadBlock::Torn(FrameError::Content)), "it refers to the first");
        let zeros = [&(MAX_PAYLOAD as u32).to_le_bytes(), &[0; 4][..], &vec![0; MAX_PAYLOAD]].concat();
        assert!(read(&of(&zeros.repeat(2 * MOST_BYTES / MAX_PAYLOAD))).is_err());
    }
}
