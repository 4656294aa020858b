//! The byte form of a block: delta-encoded frames.
//!
//! A block is a format byte, the CRC-32 of the rest (four bytes, little-endian), and the frames. A frame is the payload
//! length as a LEB128 number and, for every eight payload bytes, a byte whose bits (lowest first) mark those that
//! differ from the previous payload, followed by them. Missing previous bytes count as zero. A frame's length and
//! checksum are omitted.
//!
//! Consecutive frames are similar in time, caller, chain, method and weight. So this saves about as much as deflate at
//! its fastest level for a sixth of the processor time, and growing a block does not process its content again.

use crate::journal::{FrameError, MAX_PAYLOAD};
use crc32fast::Hasher;

/// The first byte of a block. No other format is known: 0 and 1 were used before the first release.
const FORM: u8 = 2;
const HEAD: usize = 5;
/// The length of a frame's length and checksum.
const FRAME_HEAD: usize = 8;
/// The number of bytes per difference byte.
const GROUP: usize = 8;

/// The error for bytes that are not a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadBlock {
    /// Another version of this program wrote it.
    #[error("it has a form that is not known")]
    Format,
    /// The bytes changed after they were written, or contain more than a block can.
    #[error("it is damaged")]
    Damaged,
    /// A frame in it cannot be parsed.
    #[error("{0}")]
    Torn(FrameError),
}

#[derive(Debug)]
pub(super) struct Delta {
    bytes: Vec<u8>,
    former: Vec<u8>,
    frames: usize,
    sum: Hasher,
    /// The end of the part of `bytes` that `sum` covers.
    summed: usize,
}

impl Delta {
    pub(super) fn new() -> Self {
        let bytes = [[FORM, 0, 0, 0, 0]].concat();
        Delta { bytes, former: Vec::new(), frames: 0, sum: Hasher::new(), summed: HEAD }
    }

    /// Returns the size of the frames before encoding, in bytes.
    pub(super) fn frames(&self) -> usize {
        self.frames
    }

    pub(super) fn push(&mut self, mut frames: &[u8]) {
        self.frames += frames.len();
        while let Some((length, rest)) = frames.split_first_chunk() {
            let end = FRAME_HEAD - length.len() + u32::from_le_bytes(*length) as usize;
            let Some(payload) = rest.get(FRAME_HEAD - length.len()..end) else { break };
            put(payload, &self.former, &mut self.bytes);
            self.former.clear();
            self.former.extend_from_slice(payload);
            frames = rest.get(end..).unwrap_or_default();
        }
    }

    pub(super) fn block(&mut self) -> Vec<u8> {
        self.seal();
        self.bytes.clone()
    }

    pub(super) fn into_block(mut self) -> Vec<u8> {
        self.seal();
        self.bytes.shrink_to_fit();
        self.bytes
    }

    fn seal(&mut self) {
        self.sum.update(self.bytes.get(self.summed..).unwrap_or_default());
        self.summed = self.bytes.len();
        let sum = self.sum.clone().finalize();
        self.bytes[1..HEAD].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Calls `each` with each frame of a block, in a reader's format.
///
/// # Errors
/// Returns [`BadBlock`] if the block is invalid or its payloads exceed `most` bytes in total.
pub(super) fn read(
    bytes: &[u8],
    most: usize,
    mut each: impl FnMut(&[u8]) -> Result<(), BadBlock>,
) -> Result<(), BadBlock> {
    let Some((&FORM, rest)) = bytes.split_first() else { return Err(BadBlock::Format) };
    let (sum, mut rest) = rest.split_first_chunk().ok_or(BadBlock::Damaged)?;
    if crc32fast::hash(rest) != u32::from_le_bytes(*sum) {
        return Err(BadBlock::Damaged);
    }
    let mut frame = vec![0; FRAME_HEAD];
    let mut left = most;
    while !rest.is_empty() {
        let length = take_number(&mut rest).ok_or(BadBlock::Damaged)?;
        if length == 0 || length > MAX_PAYLOAD || length.div_ceil(GROUP) > rest.len() {
            return Err(BadBlock::Damaged);
        }
        left = left.checked_sub(length).ok_or(BadBlock::Damaged)?;
        frame.resize(FRAME_HEAD + length, 0);
        let (head, payload) = frame.split_at_mut(FRAME_HEAD);
        take_payload(&mut rest, payload).ok_or(BadBlock::Damaged)?;
        head[..4].copy_from_slice(&(length as u32).to_le_bytes());
        head[4..].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
        each(&frame)?;
    }
    Ok(())
}

fn put(payload: &[u8], former: &[u8], out: &mut Vec<u8>) {
    let mut length = payload.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);

    let start = out.len();
    out.resize(start + payload.len().div_ceil(GROUP) * (GROUP + 1), 0);
    let mut end = start;
    let mut before = former.chunks(GROUP);
    for chunk in payload.chunks(GROUP) {
        let now = padded(chunk);
        let differs =
            differing(now, before.next().map_or([0; GROUP], padded)) & (0xff >> (GROUP - chunk.len()));
        let Some(group) = out.get_mut(end..=end + GROUP) else { break };
        let mut taken = 1;
        match differs {
            0 => {}
            0xff => {
                group[1..].copy_from_slice(&now);
                taken += GROUP;
            }
            // Writes every byte and overwrites those that do not differ, which is faster than a test of each. After the
            // last of at most seven differing bytes, the position may be one too far, at that of `differs`.
            _ => {
                for (bit, byte) in now.iter().enumerate() {
                    group[taken % GROUP] = *byte;
                    taken += usize::from(differs >> bit & 1);
                }
            }
        }
        group[0] = differs;
        end += taken;
    }
    out.truncate(end);
}

fn padded(bytes: &[u8]) -> [u8; GROUP] {
    bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut all = [0; GROUP];
        all[..bytes.len()].copy_from_slice(bytes);
        all
    })
}

/// Returns one bit per byte, set if the byte differs.
fn differing(now: [u8; GROUP], before: [u8; GROUP]) -> u8 {
    const LOW: u64 = u64::from_le_bytes([0x7f; GROUP]);
    let change = u64::from_le_bytes(now) ^ u64::from_le_bytes(before);
    // Sets the highest bit of each byte that is not zero, and then gathers these bits in the highest byte.
    let high = (((change & LOW) + LOW) | change) & !LOW;
    ((high >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

fn take_number(rest: &mut &[u8]) -> Option<usize> {
    let mut number = 0;
    for shift in [0, 7, 14, 21] {
        let byte = take_byte(rest)?;
        number |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Turns the previous payload into the next one.
fn take_payload(rest: &mut &[u8], payload: &mut [u8]) -> Option<()> {
    for group in payload.chunks_mut(GROUP) {
        let differs = take_byte(rest)?;
        if u32::from(differs) >> group.len() != 0 {
            return None;
        }
        for (bit, byte) in group.iter_mut().enumerate() {
            if differs >> bit & 1 == 1 {
                *byte = take_byte(rest)?;
            }
        }
    }
    Some(())
}

fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (byte, after) = rest.split_first()?;
    *rest = after;
    Some(*byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn frame(payload: &[u8]) -> Vec<u8> {
        let head = [(payload.len() as u32).to_le_bytes(), crc32fast::hash(payload).to_le_bytes()];
        [head.as_flattened(), payload].concat()
    }

    fn read_all(bytes: &[u8], most: usize) -> Result<Vec<Vec<u8>>, BadBlock> {
        let mut frames = Vec::new();
        read(bytes, most, |frame| {
            frames.push(frame.to_vec());
            Ok(())
        })?;
        Ok(frames)
    }

    /// Builds a block of any content, with a valid checksum.
    fn block(content: &[u8]) -> Vec<u8> {
        [&[FORM], &crc32fast::hash(content).to_le_bytes()[..], content].concat()
    }

    proptest! {
        #[test]
        fn frames_are_read_as_they_were_added(
            payloads in vec(vec(prop_oneof![Just(0u8), Just(7), any::<u8>()], 1..40), 0..20),
            cut in any::<prop::sample::Index>(),
        ) {
            let frames: Vec<Vec<u8>> = payloads.iter().map(|payload| frame(payload)).collect();
            let mut delta = Delta::new();
            let cut = cut.index(frames.len() + 1);
            delta.push(&frames[..cut].concat());
            prop_assert_eq!(read_all(&delta.block(), 1_000), Ok(frames[..cut].to_vec()));
            delta.push(&frames[cut..].concat());
            prop_assert_eq!(delta.frames(), frames.concat().len());
            let open = delta.block();
            let closed = delta.into_block();
            prop_assert_eq!(&open, &closed);
            prop_assert_eq!(read_all(&closed, 1_000), Ok(frames));
        }

        #[test]
        fn any_block_is_read_within_its_bounds(content in vec(any::<u8>(), 0..300)) {
            let mut total = 0;
            let answer = read(&block(&content), 500, |frame| {
                total += frame.len() - FRAME_HEAD;
                Ok(())
            });
            prop_assert!(matches!(answer, Ok(()) | Err(BadBlock::Damaged)));
            prop_assert!(total <= 500);
        }
    }

    #[test]
    fn long_payloads_of_all_lengths_are_read_as_they_were_added() {
        let lengths = [1, 127, 128, 129, 16_383, 16_384, MAX_PAYLOAD, 9, MAX_PAYLOAD - 1];
        let frames: Vec<Vec<u8>> =
            lengths.iter().map(|&length| frame(&vec![length as u8 | 1; length])).collect();
        let mut delta = Delta::new();
        delta.push(&frames.concat());
        assert_eq!(read_all(&delta.into_block(), 3 * MAX_PAYLOAD), Ok(frames));
    }

    #[test]
    fn repeated_content_takes_almost_no_space() {
        let frame = frame(&[5; 40]);
        let mut delta = Delta::new();
        (0..1_000).for_each(|_| delta.push(&frame));
        assert_eq!((delta.frames(), delta.block().len()), (48_000, HEAD + 40 + 1_000 * 6));
    }

    #[test]
    fn content_that_no_writer_wrote_is_damage() {
        assert_eq!(read_all(&block(&[]), 9), Ok(vec![]));
        let whole = [9, 1, 7, 0];
        assert_eq!(read_all(&block(&whole), 9), Ok(vec![frame(&[7, 0, 0, 0, 0, 0, 0, 0, 0])]));
        for (why, content) in [
            ("no payload is empty", &[0][..]),
            ("a length does not end", &[0x80, 0x80]),
            ("a length is too long", &[0x80, 0x80, 0x80, 0x80, 1]),
            ("a payload is too long", &[0xff, 0xff, 0x7f, 0, 0, 0]),
            ("there are fewer bytes than a payload needs", &[9, 0]),
            ("a byte that differs is missing", &[9, 1, 7, 1]),
            ("something differs behind the end", &[9, 1, 7, 2, 7]),
            ("they are more than is wanted", &[9, 0, 0, 1, 0]),
        ] {
            assert_eq!(read_all(&block(content), 9), Err(BadBlock::Damaged), "{why}");
        }
        let good = block(&whole);
        for at in 0..good.len() {
            let mut flipped = good.clone();
            flipped[at] ^= 1;
            let expected = if at == 0 { BadBlock::Format } else { BadBlock::Damaged };
            assert_eq!(read_all(&flipped, 9), Err(expected), "byte {at}");
            assert_eq!(read_all(&good[..at], 9), Err(expected), "cut at {at}");
        }
        for former in [0, 1] {
            assert_eq!(read_all(&[former, 1, 2], 9), Err(BadBlock::Format));
        }
    }
}
