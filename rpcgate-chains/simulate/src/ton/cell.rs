//! Cells of up to 1,023 bits and four references, and the bags of cells that serialize them.

use ring::digest::{SHA256, digest};
use std::collections::HashMap;
use std::sync::Arc;

/// The maximum number of bits in a cell.
const BITS: usize = 1_023;
/// The deepest tree that is read.
const DEPTH: u16 = 512;

/// An ordinary cell.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    data: Vec<u8>,
    bits: usize,
    refs: Vec<Arc<Cell>>,
    /// The hash of its content and of all cells below it.
    pub(super) hash: [u8; 32],
    depth: u16,
}

/// Cells are compared by hash. A comparison of all cells below could take time proportional to the number of paths.
impl PartialEq for Cell {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl Eq for Cell {}

impl Cell {
    fn new(mut data: Vec<u8>, bits: usize, refs: Vec<Arc<Cell>>) -> Self {
        data.truncate(bits.div_ceil(8));
        let depth = refs.iter().map(|cell| cell.depth + 1).max().unwrap_or(0);
        let mut cell = Cell { data, bits, refs, hash: [0; 32], depth };
        let mut whole = cell.body();
        for below in &cell.refs {
            whole.extend_from_slice(&below.depth.to_be_bytes());
        }
        for below in &cell.refs {
            whole.extend_from_slice(&below.hash);
        }
        cell.hash.copy_from_slice(digest(&SHA256, &whole).as_ref());
        cell
    }

    /// Returns two descriptor bytes and the data, padded with a one and zeros if it does not fill its last byte.
    fn body(&self) -> Vec<u8> {
        let mut out = vec![self.refs.len() as u8, (self.bits / 8 + self.bits.div_ceil(8)) as u8];
        out.extend_from_slice(&self.data);
        if let (Some(last), open @ 1..) = (out.last_mut(), self.bits % 8) {
            *last |= 0x80 >> open;
        }
        out
    }

    /// Returns a reader at the start of the cell.
    pub(super) fn slice(&self) -> Slice<'_> {
        Slice { cell: self, bit: 0, next: 0 }
    }

    /// Returns a bag with this cell as its root, with a checksum.
    pub(super) fn bag(&self) -> Vec<u8> {
        let mut order: Vec<&Cell> = Vec::new();
        let mut seen = HashMap::new();
        walk(self, &mut order, &mut seen);
        order.reverse();
        let total = order.len();
        let place: HashMap<[u8; 32], usize> =
            order.iter().enumerate().map(|(place, cell)| (cell.hash, place)).collect();
        let width = if total < 256 { 1 } else { 2 };
        let number = |value: usize, width: usize| value.to_be_bytes()[8 - width..].to_vec();
        let mut cells = Vec::new();
        for cell in &order {
            cells.extend(cell.body());
            for below in &cell.refs {
                cells.extend(number(place.get(&below.hash).copied().unwrap_or(0), width));
            }
        }
        let offset = if cells.len() < 256 {
            1
        } else if cells.len() < 65_536 {
            2
        } else {
            3
        };
        let mut out = vec![0xb5, 0xee, 0x9c, 0x72, 0x40 | width as u8, offset as u8];
        for value in [total, 1, 0] {
            out.extend(number(value, width));
        }
        out.extend(number(cells.len(), offset));
        out.extend(number(0, width));
        out.extend(cells);
        let check = crc32c(&out);
        out.extend_from_slice(&check.to_le_bytes());
        out
    }

    /// Reads the root of a bag. An error is the reason why the bag is invalid.
    pub(super) fn of_bag(bytes: &[u8]) -> Result<Arc<Cell>, &'static str> {
        let mut reader = Reader { bytes, at: 0 };
        if reader.number(4)? != 0xb5ee_9c72 {
            return Err("invalid magic");
        }
        let flags = reader.number(1)?;
        let has_index = flags & 0x80 != 0;
        let has_check = flags & 0x40 != 0;
        let width = flags & 7;
        let offset = reader.number(1)?;
        if !(1..=4).contains(&width) || !(1..=8).contains(&offset) {
            return Err("invalid header");
        }
        if has_check {
            let (body, check) = bytes.split_at_checked(bytes.len().wrapping_sub(4)).ok_or("too short")?;
            if crc32c(body).to_le_bytes() != check {
                return Err("crc32c mismatch");
            }
            reader.bytes = body;
        }
        let total = reader.number(width)?;
        let roots = reader.number(width)?;
        let _ = reader.number(width)?;
        reader.number(offset)?;
        if roots == 0 || total < roots {
            return Err("no roots");
        }
        let root = reader.number(width)?;
        reader.skip((roots - 1) * width)?;
        if has_index {
            reader.skip(total * offset)?;
        }
        let mut raw = Vec::new();
        for index in 0..total {
            let first = reader.number(1)?;
            let second = reader.number(1)?;
            let refs = first & 7;
            let length = second.div_ceil(2);
            if first & !7 != 0 || refs > 4 {
                return Err("exotic cells are not read");
            }
            let data = reader.take(length)?.to_vec();
            let bits = if second % 2 == 0 {
                8 * length
            } else {
                let last = data.last().filter(|last| **last != 0).ok_or("no end of data")?;
                8 * length - 1 - last.trailing_zeros() as usize
            };
            let mut below = Vec::new();
            for _ in 0..refs {
                let place = reader.number(width)?;
                // Cells precede the cells that they refer to, so that there are no cycles.
                if place <= index || place >= total {
                    return Err("invalid reference");
                }
                below.push(place);
            }
            raw.push((data, bits, below));
        }
        let mut cells: Vec<Option<Arc<Cell>>> = vec![None; total];
        for (index, (mut data, bits, below)) in raw.into_iter().enumerate().rev() {
            if let (Some(last), open @ 1..) = (data.get_mut(bits / 8), bits % 8) {
                *last &= 0xffu8 << (8 - open);
            }
            let refs: Vec<_> = below.iter().filter_map(|place| cells[*place].clone()).collect();
            let cell = Cell::new(data, bits, refs);
            if cell.depth > DEPTH {
                return Err("too deep");
            }
            cells[index] = Some(Arc::new(cell));
        }
        cells.get(root).cloned().flatten().ok_or("invalid root")
    }
}

/// Orders the cells so that each comes after those that it refers to.
fn walk<'a>(cell: &'a Cell, order: &mut Vec<&'a Cell>, seen: &mut HashMap<[u8; 32], ()>) {
    if seen.insert(cell.hash, ()).is_some() {
        return;
    }
    for below in cell.refs.iter().rev() {
        walk(below, order, seen);
    }
    order.push(cell);
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], &'static str> {
        let end = self.at.checked_add(length).ok_or("too short")?;
        let taken = self.bytes.get(self.at..end).ok_or("too short")?;
        self.at = end;
        Ok(taken)
    }

    fn skip(&mut self, length: usize) -> Result<(), &'static str> {
        self.take(length).map(|_| ())
    }

    fn number(&mut self, width: usize) -> Result<usize, &'static str> {
        Ok(self.take(width)?.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }
}

/// Returns the CRC-32 with the Castagnoli polynomial.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| sum >> 1 ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

/// A cell that is being built. Content that does not fit is dropped.
#[derive(Debug, Default)]
pub(super) struct Builder {
    data: Vec<u8>,
    bits: usize,
    refs: Vec<Arc<Cell>>,
}

impl Builder {
    pub(super) fn bit(mut self, bit: bool) -> Self {
        if self.bits < BITS {
            if self.bits.is_multiple_of(8) {
                self.data.push(0);
            }
            if let (true, Some(last)) = (bit, self.data.last_mut()) {
                *last |= 0x80 >> (self.bits % 8);
            }
            self.bits += 1;
        }
        self
    }

    /// Adds the low `width` bits of a number.
    pub(super) fn number(self, value: u64, width: u32) -> Self {
        (0..width).rev().fold(self, |to, place| to.bit(place < 64 && value >> place & 1 == 1))
    }

    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        bytes.iter().fold(self, |to, byte| to.number(u64::from(*byte), 8))
    }

    /// Adds an amount: its length in bytes in `width` bits, then those bytes.
    pub(super) fn amount(self, value: u64, width: u32) -> Self {
        let length = (64 - value.leading_zeros()).div_ceil(8);
        self.number(u64::from(length), width).number(value, 8 * length)
    }

    pub(super) fn coins(self, value: u64) -> Self {
        self.amount(value, 4)
    }

    pub(super) fn reference(mut self, cell: Arc<Cell>) -> Self {
        if self.refs.len() < 4 {
            self.refs.push(cell);
        }
        self
    }

    /// Adds the unread rest of a slice.
    pub(super) fn rest(mut self, mut slice: Slice<'_>) -> Self {
        while let Some(bit) = slice.bit() {
            self = self.bit(bit);
        }
        while let Some(cell) = slice.reference() {
            self = self.reference(cell.clone());
        }
        self
    }

    /// Returns the number of bits that still fit.
    pub(super) fn room(&self) -> usize {
        BITS - self.bits
    }

    pub(super) fn done(self) -> Arc<Cell> {
        Arc::new(Cell::new(self.data, self.bits, self.refs))
    }
}

/// A cell that is being read. Reads beyond its end return `None`.
#[derive(Debug, Clone)]
pub(super) struct Slice<'a> {
    cell: &'a Cell,
    bit: usize,
    next: usize,
}

impl<'a> Slice<'a> {
    pub(super) fn bit(&mut self) -> Option<bool> {
        if self.bit >= self.cell.bits {
            return None;
        }
        let byte = self.cell.data.get(self.bit / 8)?;
        let bit = byte >> (7 - self.bit % 8) & 1 == 1;
        self.bit += 1;
        Some(bit)
    }

    /// Reads a number of up to 64 bits.
    pub(super) fn number(&mut self, width: u32) -> Option<u64> {
        (0..width).try_fold(0, |sum, _| Some(sum << 1 | u64::from(self.bit()?)))
    }

    pub(super) fn bytes(&mut self, length: usize) -> Option<Vec<u8>> {
        (0..length).map(|_| self.number(8).map(|byte| byte as u8)).collect()
    }

    /// Reads coins; an amount beyond 64 bits is more than exist.
    pub(super) fn coins(&mut self) -> Option<u64> {
        let length = self.number(4)? as u32;
        if length > 8 {
            self.bytes(length as usize)?;
            return Some(u64::MAX);
        }
        self.number(8 * length)
    }

    pub(super) fn reference(&mut self) -> Option<&'a Arc<Cell>> {
        let cell = self.cell.refs.get(self.next)?;
        self.next += 1;
        Some(cell)
    }

    /// Returns the number of unread bits.
    pub(super) fn left(&self) -> usize {
        self.cell.bits - self.bit
    }
}

/// Encodes a dictionary with keys of `width` bits in ascending order; `None` for an empty one.
pub(super) fn dictionary(entries: &[(u64, Arc<Cell>)], width: u32) -> Option<Arc<Cell>> {
    let ((first, value), (last, _)) = (entries.first()?, entries.last()?);
    let mask = |width: u32| (1u64 << width) - 1;
    let common = width - (64 - ((first ^ last) & mask(width)).leading_zeros()).min(width);
    let label = first >> (width - common) & mask(common);
    let builder = write_label(label, common, width);
    if entries.len() == 1 {
        return Some(builder.reference(value.clone()).done());
    }
    let left = width - common - 1;
    let split = entries.partition_point(|(key, _)| key >> left & 1 == 0);
    let (zeros, ones) = entries.split_at(split);
    Some(builder.reference(dictionary(zeros, left)?).reference(dictionary(ones, left)?).done())
}

/// Writes a label of `length` bits, of at most `most`, in the shortest of the three encodings.
fn write_label(label: u64, length: u32, most: u32) -> Builder {
    let size = 32 - most.leading_zeros();
    let ones = (1u64 << length) - 1;
    let is_same = label == 0 || label == ones;
    let short = 2 + 2 * length;
    let long = 2 + size + length;
    let same = 3 + size;
    if is_same && length > 0 && same < short.min(long) {
        Builder::default().number(0b11, 2).bit(label != 0).number(u64::from(length), size)
    } else if short <= long {
        Builder::default().bit(false).number(ones << 1, length + 1).number(label, length)
    } else {
        Builder::default().number(0b10, 2).number(u64::from(length), size).number(label, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_an_empty_cell_is_the_known_one() {
        let hash = hex::encode(Builder::default().done().hash);
        assert_eq!(hash, "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7");
    }

    #[test]
    fn a_bag_reads_back_and_a_broken_one_does_not() {
        let leaf = Builder::default().number(5, 3).done();
        let middle = Builder::default().bytes(&[7; 40]).reference(leaf.clone()).done();
        let root = Builder::default().coins(1_000_000_007).reference(middle).reference(leaf).done();
        let bag = root.bag();
        assert_eq!(Cell::of_bag(&bag).as_ref(), Ok(&root));
        let mut slice = root.slice();
        assert_eq!(slice.coins(), Some(1_000_000_007));
        assert_eq!((slice.left(), slice.bit()), (0, None));
        let mut broken = bag.clone();
        broken[20] ^= 1;
        assert_eq!(Cell::of_bag(&broken), Err("crc32c mismatch"));
        for length in 0..bag.len() {
            assert!(Cell::of_bag(&bag[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn many_references_to_one_cell_cost_little() {
        let mut cell = Builder::default().bit(true).done();
        for _ in 0..200 {
            cell = (0..4).fold(Builder::default(), |to, _| to.reference(cell.clone())).done();
        }
        assert_eq!(Cell::of_bag(&cell.bag()).as_ref(), Ok(&cell));
    }
}
