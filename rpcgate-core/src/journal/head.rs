//! The header of a segment: its id, its gateway, and its opening time.

use super::ids::{GatewayId, SegmentId};
use crate::clock::Time;
use std::fmt;

/// The length of a [`SegmentHeader`], in bytes.
pub const HEAD: usize = 64;

const MAGIC: [u8; 8] = *b"rpcgate\x1a";
const VERSION: u32 = 1;

// The offsets of the fields. The bytes between `opened` and the checksum are zero and reserved.
const AT_VERSION: usize = 8;
const AT_SEGMENT: usize = 12;
const AT_GATEWAY: usize = 28;
const AT_OPENED: usize = 44;
const AT_CHECKSUM: usize = HEAD - 4;

/// The header at the start of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// The segment.
    pub segment: SegmentId,
    /// The gateway that wrote it.
    pub gateway: GatewayId,
    /// The opening time.
    pub opened: Time,
}

/// The error for bytes that are not a [`SegmentHeader`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadHead {
    /// Fewer than [`HEAD`] bytes.
    Short,
    /// Bytes without the magic number.
    Foreign,
    /// The checksum does not match: the bytes changed after they were written.
    Checksum,
    /// A format version that this release cannot read.
    Version(u32),
}

impl fmt::Display for BadHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadHead::Short => f.write_str("shorter than the head of a journal segment"),
            BadHead::Foreign => f.write_str("not a journal segment"),
            BadHead::Checksum => {
                f.write_str("the head of the journal segment is damaged: its checksum is wrong")
            }
            BadHead::Version(version) => {
                write!(f, "the journal segment is of version {version}; this program reads version {VERSION}")
            }
        }
    }
}

impl std::error::Error for BadHead {}

impl SegmentHeader {
    /// Encodes the header.
    pub fn to_bytes(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &MAGIC);
        put(AT_VERSION, &VERSION.to_le_bytes());
        put(AT_SEGMENT, &self.segment.0.to_be_bytes());
        put(AT_GATEWAY, &self.gateway.0.to_be_bytes());
        put(AT_OPENED, &self.opened.micros().to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..AT_CHECKSUM]);
        bytes[AT_CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Parses the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// Returns [`BadHead`] if the bytes are not a header.
    pub fn read(bytes: &[u8]) -> Result<SegmentHeader, BadHead> {
        let bytes: &[u8; HEAD] = bytes.first_chunk().ok_or(BadHead::Short)?;
        if !bytes.starts_with(&MAGIC) {
            return Err(BadHead::Foreign);
        }
        if crc32fast::hash(&bytes[..AT_CHECKSUM]) != u32::from_le_bytes(part(bytes, AT_CHECKSUM)) {
            return Err(BadHead::Checksum);
        }
        let version = u32::from_le_bytes(part(bytes, AT_VERSION));
        if version != VERSION {
            return Err(BadHead::Version(version));
        }
        Ok(SegmentHeader {
            segment: SegmentId(u128::from_be_bytes(part(bytes, AT_SEGMENT))),
            gateway: GatewayId(u128::from_be_bytes(part(bytes, AT_GATEWAY))),
            opened: Time::from_micros(u64::from_le_bytes(part(bytes, AT_OPENED))),
        })
    }
}

fn part<const N: usize>(bytes: &[u8; HEAD], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> SegmentHeader {
        SegmentHeader {
            segment: SegmentId(0x018b_cfe5_6800_7cc5_8294_4642_0f4e_856e),
            gateway: GatewayId(u128::MAX),
            opened: Time::from_micros(1_700_000_000_123_456),
        }
    }

    #[test]
    fn a_header_is_read_as_it_was_written_with_anything_after_it() {
        let mut bytes = head().to_bytes().to_vec();
        assert_eq!(SegmentHeader::read(&bytes), Ok(head()));
        bytes.extend_from_slice(b"frames");
        assert_eq!(SegmentHeader::read(&bytes), Ok(head()));
    }

    #[test]
    fn no_changed_byte_and_no_missing_byte_of_a_head_passes() {
        let bytes = head().to_bytes();
        for at in 0..HEAD {
            for change in [1, 0x80, 0xff] {
                let mut changed = bytes;
                changed[at] ^= change;
                assert!(SegmentHeader::read(&changed).is_err(), "byte {at}");
            }
            assert_eq!(SegmentHeader::read(&bytes[..at]), Err(BadHead::Short));
        }
        assert_eq!(SegmentHeader::read(&[0; HEAD]), Err(BadHead::Foreign));
    }

    #[test]
    fn a_later_version_is_named() {
        let mut bytes = head().to_bytes();
        bytes[AT_VERSION] = 2;
        let checksum = crc32fast::hash(&bytes[..AT_CHECKSUM]);
        bytes[AT_CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(SegmentHeader::read(&bytes), Err(BadHead::Version(2)));
    }
}
