//! The beginnings of message bodies: the operation, and the content of standard jetton messages (TEP-74).
//!
//! Only the root of a bag of cells is read. It has the content of these messages; forwarded content may be below it.

use super::cells::{Bag, Bits};

/// `internal_transfer`: from a jetton wallet, or its minter, to another wallet.
const INTERNAL_TRANSFER: u64 = 0x178d_4519;
/// `transfer_notification`: from a jetton wallet to its owner.
const TRANSFER_NOTIFICATION: u64 = 0x7362_d09c;
/// The prefix of a message that was returned because it failed.
const BOUNCED: u64 = 0xffff_ffff;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Body {
    /// A wallet receives an amount of its jetton.
    JettonReceived { amount: u128, from: Option<String> },
    /// An owner is notified that its wallet has received an amount.
    JettonNotified { amount: u128 },
    /// A returned message.
    Bounced,
    /// Anything else, with its first 32 bits if it has them.
    Other(Option<u32>),
}

impl Body {
    /// Parses a body, the bytes of a bag of cells. An unreadable one is `Other(None)`.
    pub(super) fn read(bag: &[u8]) -> Self {
        let root = Bag::read(bag).and_then(|bag| bag.root());
        let Some(mut bits) = root.map(|root| root.bits) else { return Body::Other(None) };
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

impl Bits<'_> {
    /// Reads the amount and the sender of a jetton transfer message, after its operation.
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
        // A jetton operation without content is unknown.
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
