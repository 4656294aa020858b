//! The beginnings of messages' bodies: the operation, and what the standard messages of jettons (TEP-74) say.
//!
//! Only the root of a bag of cells is read. What these messages say stands there; what they forward may be below it.

use super::address::written;

/// `internal_transfer`: one wallet of a jetton, or its minter, to another wallet.
const INTERNAL_TRANSFER: u64 = 0x178d_4519;
/// `transfer_notification`: a wallet of a jetton to its owner.
const TRANSFER_NOTIFICATION: u64 = 0x7362_d09c;
/// What a message begins with that was returned because it failed.
const BOUNCED: u64 = 0xffff_ffff;

/// What a body says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Body {
    /// A wallet receives an amount of its jetton.
    JettonReceived { amount: u128, from: Option<String> },
    /// An owner is told that its wallet has received an amount.
    JettonNotified { amount: u128 },
    /// A returned message.
    Bounced,
    /// Anything else, and its first 32 bits if it has as many.
    Other(Option<u32>),
}

impl Body {
    /// Reads a body, as the bytes of a bag of cells. One that cannot be read is of no known kind.
    pub(super) fn read(bag: &[u8]) -> Self {
        let Some(mut bits) = Bits::root(bag) else { return Body::Other(None) };
        let Some(operation) = bits.number(32) else { return Body::Other(None) };
        let known = match operation {
            INTERNAL_TRANSFER => bits.transfer().map(|(amount, from)| Body::JettonReceived { amount, from }),
            TRANSFER_NOTIFICATION => bits.transfer().map(|(amount, _)| Body::JettonNotified { amount }),
            BOUNCED => Some(Body::Bounced),
            _ => None,
        };
        known.unwrap_or(Body::Other(u32::try_from(operation).ok()))
    }
}

/// The bits of a cell that are not read yet.
struct Bits<'a> {
    data: &'a [u8],
    at: usize,
    end: usize,
}

/// Takes bytes from the front of `rest`.
fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

/// Takes a number of up to 8 bytes.
fn take_number(rest: &mut &[u8], width: usize) -> Option<usize> {
    let bytes = take(rest, width)?;
    usize::try_from(bytes.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))).ok()
}

impl<'a> Bits<'a> {
    /// The first root of a bag of cells.
    fn root(bag: &'a [u8]) -> Option<Self> {
        let mut rest = bag;
        if take(&mut rest, 4)? != [0xb5, 0xee, 0x9c, 0x72] {
            return None;
        }
        let flags = take_number(&mut rest, 1)?;
        let (has_index, width) = (flags & 0x80 != 0, flags & 7);
        let offset = take_number(&mut rest, 1)?;
        if !(1..=4).contains(&width) || !(1..=8).contains(&offset) {
            return None;
        }
        let (cells, roots) = (take_number(&mut rest, width)?, take_number(&mut rest, width)?);
        take(&mut rest, width.checked_add(offset)?)?;
        let root = take_number(&mut rest, width)?;
        if root >= cells {
            return None;
        }
        take(&mut rest, roots.checked_sub(1)?.checked_mul(width)?)?;
        if has_index {
            take(&mut rest, cells.checked_mul(offset)?)?;
        }
        let mut index = 0;
        loop {
            let (first, second) = (take_number(&mut rest, 1)?, take_number(&mut rest, 1)?);
            let (refs, has_hashes) = (first & 7, first & 0x10 != 0);
            if refs > 4 || has_hashes {
                return None;
            }
            let data = take(&mut rest, second.div_ceil(2))?;
            take(&mut rest, refs * width)?;
            if index == root {
                // An odd number of half bytes: the last one bit and the zeros behind it are no data.
                let padding = match second % 2 {
                    0 => 0,
                    _ => data.last().filter(|last| **last != 0)?.trailing_zeros() as usize + 1,
                };
                return Some(Bits { data, at: 0, end: 8 * data.len() - padding });
            }
            index += 1;
        }
    }

    fn bit(&mut self) -> Option<bool> {
        let byte = self.data.get(self.at / 8).filter(|_| self.at < self.end)?;
        let bit = byte >> (7 - self.at % 8) & 1 == 1;
        self.at += 1;
        Some(bit)
    }

    /// A number of up to 64 bits.
    fn number(&mut self, width: u32) -> Option<u64> {
        (0..width).try_fold(0, |sum, _| Some(sum << 1 | u64::from(self.bit()?)))
    }

    /// An amount of up to 15 bytes, behind their number in four bits.
    fn amount(&mut self) -> Option<u128> {
        let length = self.number(4)?;
        (0..length).try_fold(0, |sum, _| Some(sum << 8 | u128::from(self.number(8)?)))
    }

    /// An address of an account; `Some(None)` if there is none.
    fn address(&mut self) -> Option<Option<String>> {
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

    /// The amount and the sender of a message about a transfer of jettons, behind its operation.
    fn transfer(&mut self) -> Option<(u128, Option<String>)> {
        self.number(64)?;
        Some((self.amount()?, self.address()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    fn bag(cells: &[u8], count: u8) -> Vec<u8> {
        let size = u8::try_from(cells.len()).unwrap();
        [&[0xb5, 0xee, 0x9c, 0x72, 0x01, 0x01, count, 1, 0, size, 0], cells].concat()
    }

    #[test]
    fn operations_are_read_from_the_root_of_a_bag() {
        let body = |data: &[u8]| {
            let cell = [&[0, u8::try_from(2 * data.len()).unwrap()], data].concat();
            Body::read(&bag(&cell, 1))
        };
        assert_eq!(body(&[0xff, 0xff, 0xff, 0xff, 1]), Body::Bounced);
        assert_eq!(body(&[0, 0, 0, 0, b'a']), Body::Other(Some(0)));
        assert_eq!(body(&[0, 0, 0]), Body::Other(None));
        assert_eq!(body(&[]), Body::Other(None));
        // An operation of jettons with nothing behind it is one of no known kind.
        assert_eq!(body(&[0x17, 0x8d, 0x45, 0x19]), Body::Other(Some(0x178d_4519)));
        let amount = [&0x178d_4519u32.to_be_bytes()[..], &[0; 8], &[0x10, 0x70]].concat();
        // Four bits of a length, eight of the amount, no address, and the padding.
        let cell = [&[0, 27], &amount[..12], &[0x10, 0x72]].concat();
        assert_eq!(Body::read(&bag(&cell, 1)), Body::JettonReceived { amount: 7, from: None });
    }

    #[test]
    fn a_bag_with_a_checksum_and_cells_below_its_root_is_read() {
        // A comment that spans two cells, as a node writes it.
        let bag = STANDARD.decode("te6cckEBAgEAEwABEgAAAABoZWxsbwEACndvcmxklZaYTQ==").unwrap();
        assert_eq!(Body::read(&bag), Body::Other(Some(0)));
        for length in 0..bag.len() {
            let _ = Body::read(&bag[..length]);
        }
    }
}
