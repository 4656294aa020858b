//! Bags of cells, to the extent that messages and transactions need.

use super::address::written;

/// The cells of a bag in order: a cell refers only to later ones.
pub(super) struct Bag<'a> {
    cells: &'a [u8],
    count: usize,
    root: usize,
    /// The bytes of a reference.
    width: usize,
}

/// A cell: its bits, and the numbers of the cells that it refers to.
pub(super) struct Cell<'a> {
    pub(super) bits: Bits<'a>,
    refs: &'a [u8],
    width: usize,
}

pub(super) struct Bits<'a> {
    data: &'a [u8],
    at: usize,
    end: usize,
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

fn take_number(rest: &mut &[u8], width: usize) -> Option<usize> {
    let bytes = take(rest, width)?;
    usize::try_from(bytes.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))).ok()
}

impl<'a> Bag<'a> {
    pub(super) fn read(bag: &'a [u8]) -> Option<Self> {
        let mut rest = bag;
        if take(&mut rest, 4)? != [0xb5, 0xee, 0x9c, 0x72] {
            return None;
        }
        let flags = take_number(&mut rest, 1)?;
        let has_index = flags & 0x80 != 0;
        let width = flags & 7;
        let offset = take_number(&mut rest, 1)?;
        if !(1..=4).contains(&width) || !(1..=8).contains(&offset) {
            return None;
        }
        let count = take_number(&mut rest, width)?;
        let roots = take_number(&mut rest, width)?;
        take(&mut rest, width.checked_add(offset)?)?;
        let root = take_number(&mut rest, width)?;
        take(&mut rest, roots.checked_sub(1)?.checked_mul(width)?)?;
        if has_index {
            take(&mut rest, count.checked_mul(offset)?)?;
        }
        Some(Bag { cells: rest, count, root, width })
    }

    pub(super) fn root(&self) -> Option<Cell<'a>> {
        self.cell(self.root)
    }

    pub(super) fn last_of(&self, cell: &Cell<'a>) -> Option<Cell<'a>> {
        let mut last = cell.refs.get(cell.refs.len().checked_sub(cell.width)?..)?;
        self.cell(take_number(&mut last, cell.width)?)
    }

    fn cell(&self, index: usize) -> Option<Cell<'a>> {
        if index >= self.count {
            return None;
        }
        let mut rest = self.cells;
        // Every cell takes at least two bytes, so the input length bounds this, even with a false head.
        for _ in 0..index {
            self.next(&mut rest)?;
        }
        self.next(&mut rest)
    }

    fn next(&self, rest: &mut &'a [u8]) -> Option<Cell<'a>> {
        let first = take_number(rest, 1)?;
        let second = take_number(rest, 1)?;
        let refs = first & 7;
        let has_hashes = first & 0x10 != 0;
        if refs > 4 || has_hashes {
            return None;
        }
        let data = take(rest, second.div_ceil(2))?;
        let refs = take(rest, refs * self.width)?;
        // An odd number of half bytes: the last one bit and the zeros behind it are no data.
        let padding = match second % 2 {
            0 => 0,
            _ => data.last().filter(|last| **last != 0)?.trailing_zeros() as usize + 1,
        };
        Some(Cell { bits: Bits { data, at: 0, end: 8 * data.len() - padding }, refs, width: self.width })
    }
}

impl Bits<'_> {
    pub(super) fn bit(&mut self) -> Option<bool> {
        let byte = self.data.get(self.at / 8).filter(|_| self.at < self.end)?;
        let bit = byte >> (7 - self.at % 8) & 1 == 1;
        self.at += 1;
        Some(bit)
    }

    pub(super) fn number(&mut self, width: u32) -> Option<u64> {
        (0..width).try_fold(0, |sum, _| Some(sum << 1 | u64::from(self.bit()?)))
    }

    /// Reads an amount of up to 15 bytes, after their number in four bits.
    pub(super) fn amount(&mut self) -> Option<u128> {
        let length = self.number(4)?;
        (0..length).try_fold(0, |sum, _| Some(sum << 8 | u128::from(self.number(8)?)))
    }

    /// Reads the address of an account; `Some(None)` for an empty one.
    pub(super) fn address(&mut self) -> Option<Option<String>> {
        match self.number(2)? {
            0 => Some(None),
            2 if !self.bit()? => {
                let workchain = (self.number(8)? as u8).cast_signed();
                let account: Option<Vec<u8>> = (0..32).map(|_| Some(self.number(8)? as u8)).collect();
                Some(Some(written(workchain, &account?)))
            }
            _ => None,
        }
    }
}
