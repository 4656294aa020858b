//! Blocks: some thousand single events in one piece, since a database row for each would cost more than the call did.
//!
//! A block holds events that came in one UTC hour, as the journal writes them (frames without a head), compressed. The
//! block that is being filled is *open*: the next shipment has it again under the same id, longer, and it takes the
//! place of the shorter one. So a quiet gateway does not leave a row for each call.

use super::event::StoredEvent;
use flate2::read::DeflateDecoder;
use flate2::{Compress, Compression, FlushCompress, Status};
use foldhash::fast::RandomState;
use rpcgate_core::caller::{KeyId, ProjectId, RequestId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::journal::{Event, MAX_PAYLOAD, Reader, Torn, Writer};
use std::collections::HashMap;
use std::io::Read;

/// The most events of a block.
pub const MOST_EVENTS: u32 = 4_096;

/// A block with so many bytes of frames takes no more.
pub const FULL_BYTES: usize = 1 << 20;

/// A block that has so many events is left as it is, once shipping it again would repeat more than [`REPEAT`] times
/// what is new: with a call a second, a block of thousands would be written thousands of times.
const WORTH_LEAVING: u32 = 256;
const REPEAT: u32 = 16;

/// How many hours are filled at a time. There is more than one when the clock of arrival runs apart from the order of
/// records: calls that come in one hour end in the next, and streams in a much later one.
const MOST_OPEN: usize = 8;

/// What the first byte of a block says: frames follow as they are, or deflated.
const PLAIN: u8 = 0;
const DEFLATED: u8 = 1;

/// The most bytes that come out of a block: [`FULL_BYTES`] and what was written last, which is one frame unless its
/// names, numbers where it was read, had to be written out and took several.
const MOST_BYTES: usize = FULL_BYTES + 8 * MAX_PAYLOAD;

/// Events in one piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its identifier, a UUID.
    pub id: u128,
    /// When its earliest event came.
    pub from: Time,
    /// When its latest event came: in the same UTC hour.
    pub to: Time,
    /// How many events it holds.
    pub count: u32,
    /// Whose they are, no two the same.
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
    /// When the earliest of its events in the block came.
    pub from: Time,
    /// When the latest of them came.
    pub to: Time,
}

/// Bytes that are no block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadBlock {
    /// Another version of this program wrote it.
    #[error("it has a form that is not known")]
    Format,
    /// It cannot be decompressed, or is larger than a block can be.
    #[error("it is damaged")]
    Damaged,
    /// A frame of it cannot be read.
    #[error("{0}")]
    Torn(Torn),
}

impl Block {
    /// Goes through the events of a block in the order in which they were recorded.
    ///
    /// # Errors
    /// [`BadBlock`].
    pub fn read(bytes: &[u8], mut each: impl FnMut(&Reader, &Event)) -> Result<(), BadBlock> {
        let mut inflated = Vec::new();
        let mut rest = match bytes.split_first() {
            Some((&PLAIN, frames)) => frames,
            Some((&DEFLATED, deflated)) => {
                let most = MOST_BYTES as u64 + 1;
                let read = DeflateDecoder::new(deflated).take(most).read_to_end(&mut inflated);
                if read.is_err() || inflated.len() > MOST_BYTES {
                    return Err(BadBlock::Damaged);
                }
                inflated.as_slice()
            }
            _ => return Err(BadBlock::Format),
        };
        let mut reader = Reader::new();
        while !rest.is_empty() {
            let (length, event) = reader.frame(rest).map_err(BadBlock::Torn)?.ok_or(BadBlock::Damaged)?;
            each(&reader, &event);
            rest = rest.get(length..).unwrap_or_default();
        }
        Ok(())
    }

    /// The events of a block that are `wanted`, in the order in which they were recorded.
    ///
    /// # Errors
    /// [`BadBlock`].
    pub fn events(
        bytes: &[u8],
        mut wanted: impl FnMut(&Reader, &Event) -> bool,
    ) -> Result<Vec<StoredEvent>, BadBlock> {
        let mut events = Vec::new();
        Self::read(bytes, |reader, event| {
            if wanted(reader, event) {
                events.extend(StoredEvent::read(reader, event));
            }
        })?;
        Ok(events)
    }
}

/// Puts events into blocks.
///
/// It remembers what it has put into the blocks that are open. When a shipment of it is given up, that is no longer
/// what the database holds: go on with new `Blocks` then.
#[derive(Debug, Default)]
pub struct Blocks {
    /// The one used last at the end.
    open: Vec<Open>,
    done: Vec<Block>,
    press: Press,
}

impl Blocks {
    /// No blocks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what `reader` has read last. `false`, and nothing is added: `event` is not from it.
    pub fn add(&mut self, reader: &Reader, event: &Event) -> bool {
        let Some(party) = reader.party(event.party) else { return false };
        let hour = event.arrival.hour();
        if self.open.last().is_none_or(|open| open.hour != hour) {
            self.turn_to(hour, event.arrival);
        }
        let Some(open) = self.open.last_mut() else { return false };
        if !open.writer.copy(reader, event, &mut open.frames) {
            return false;
        }
        open.count += 1;
        open.fresh += 1;
        open.from = open.from.min(event.arrival);
        open.to = open.to.max(event.arrival);
        let (from, to) = open
            .keys
            .entry((party.tenant, party.project, party.key))
            .or_insert((event.arrival, event.arrival));
        *from = (*from).min(event.arrival);
        *to = (*to).max(event.arrival);
        if open.count >= MOST_EVENTS || open.frames.len() >= FULL_BYTES {
            self.finish(self.open.len() - 1);
        }
        true
    }

    /// Whether there is nothing new to be taken.
    pub fn is_empty(&self) -> bool {
        self.done.is_empty() && self.open.iter().all(|open| open.fresh == 0)
    }

    /// The blocks that hold anything new since they were taken last.
    pub fn take(&mut self) -> Vec<Block> {
        let mut taken = std::mem::take(&mut self.done);
        let press = &mut self.press;
        self.open.retain_mut(|open| {
            let fresh = std::mem::take(&mut open.fresh);
            if fresh > 0 {
                taken.push(open.block(press));
            }
            open.count < WORTH_LEAVING || open.count <= fresh.saturating_mul(REPEAT)
        });
        taken
    }

    /// Makes the block of `hour` the one used last.
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
        let open = self.open.remove(at);
        if open.fresh > 0 {
            self.done.push(open.block(&mut self.press));
        }
    }
}

/// A block that is being filled.
#[derive(Debug)]
struct Open {
    id: u128,
    hour: u64,
    writer: Writer,
    frames: Vec<u8>,
    from: Time,
    to: Time,
    count: u32,
    /// How many of the events were in no shipment yet.
    fresh: u32,
    keys: HashMap<(TenantId, ProjectId, KeyId), (Time, Time), RandomState>,
}

impl Open {
    fn new(first: Time) -> Self {
        Open {
            id: RequestId::new(first).0,
            hour: first.hour(),
            writer: Writer::new(),
            frames: Vec::new(),
            from: first,
            to: first,
            count: 0,
            fresh: 0,
            keys: HashMap::default(),
        }
    }

    fn block(&self, press: &mut Press) -> Block {
        let mut keys: Vec<BlockKey> = self
            .keys
            .iter()
            .map(|(&(tenant, project, key), &(from, to))| BlockKey { tenant, project, key, from, to })
            .collect();
        keys.sort_unstable_by_key(|key| (key.tenant, key.project, key.key));
        Block {
            id: self.id,
            from: self.from,
            to: self.to,
            count: self.count,
            keys,
            bytes: press.block(&self.frames),
        }
    }
}

/// Compresses. What it works with is larger than most blocks, so it is kept.
#[derive(Debug)]
struct Press {
    compress: Compress,
}

impl Default for Press {
    fn default() -> Self {
        Press { compress: Compress::new(Compression::fast(), false) }
    }
}

impl Press {
    fn block(&mut self, frames: &[u8]) -> Vec<u8> {
        self.compress.reset();
        let mut bytes = Vec::with_capacity(frames.len() / 2 + 64);
        bytes.push(DEFLATED);
        loop {
            let rest = frames.get(self.compress.total_in() as usize..).unwrap_or_default();
            match self.compress.compress_vec(rest, &mut bytes, FlushCompress::Finish) {
                Ok(Status::StreamEnd) => return bytes,
                Ok(Status::Ok | Status::BufError) => bytes.reserve(bytes.capacity().max(1_024)),
                Err(_) => return [&[PLAIN], frames].concat(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Fold;
    use crate::usage::sample::{Deed, deed, frames, item, take_in};

    const HOUR: u64 = 3_600;
    const NOW: Time = Time::from_secs(500_000 * HOUR + 1_800);

    fn add(blocks: &mut Blocks, deeds: &[Deed]) {
        take_in(&frames(deeds), &mut Fold::new(), blocks);
    }

    fn calls(range: std::ops::Range<u64>) -> Vec<Deed> {
        range.map(|n| deed(110, Time::from_micros(NOW.micros() + n), vec![item("toy_read")])).collect()
    }

    fn requests(block: &Block) -> Vec<RequestId> {
        let events = Block::events(&block.bytes, |_, _| true).unwrap();
        assert_eq!(events.len(), block.count as usize);
        events.iter().map(|event| event.request).collect()
    }

    #[test]
    fn a_block_holds_what_was_put_in() {
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
        // Names that stay the same are written once, so these are all different.
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
    fn what_would_repeat_much_for_little_is_left_as_it_is() {
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
    fn bytes_that_are_no_block_are_refused() {
        let mut blocks = Blocks::new();
        add(&mut blocks, &calls(0..50));
        let block = blocks.take().remove(0);
        let read = |bytes: &[u8]| Block::read(bytes, |_, _| {});
        assert_eq!(read(&block.bytes), Ok(()));
        assert_eq!(read(&[]), Err(BadBlock::Format));
        assert_eq!(read(&[9, 1, 2]), Err(BadBlock::Format));
        assert_eq!(read(&[PLAIN]), Ok(()));
        for cut in 1..block.bytes.len() {
            assert!(read(&block.bytes[..cut]).is_err(), "cut at {cut}");
        }
        let plain = [&[PLAIN], &frames(&calls(0..3))[..]].concat();
        assert_eq!(read(&plain), Ok(()));
        assert_eq!(read(&plain[..plain.len() - 1]), Err(BadBlock::Damaged));
        let mut flipped = plain;
        flipped[20] ^= 1;
        assert_eq!(read(&flipped), Err(BadBlock::Torn(Torn::Checksum)));
        let mut bomb = Press::default().block(&vec![0; 4 * MOST_BYTES]);
        assert_eq!(read(&bomb), Err(BadBlock::Damaged));
        bomb.truncate(10);
        assert_eq!(read(&bomb), Err(BadBlock::Damaged));
    }
}
