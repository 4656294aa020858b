//! LEB128 numbers, and the cursor that reads them.

use super::frame::FrameError;

/// Appends `number` in 1 to 10 bytes.
pub(super) fn put(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[derive(Debug)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> Result<u8, FrameError> {
        let (first, rest) = self.0.split_first().ok_or(FrameError::Content)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn bytes(&mut self, length: usize) -> Result<&'a [u8], FrameError> {
        let (part, rest) = self.0.split_at_checked(length).ok_or(FrameError::Content)?;
        self.0 = rest;
        Ok(part)
    }

    pub(super) fn id(&mut self) -> Result<u128, FrameError> {
        let (part, rest) = self.0.split_first_chunk().ok_or(FrameError::Content)?;
        self.0 = rest;
        Ok(u128::from_be_bytes(*part))
    }

    /// Reads a number that fits `T`. Refuses a longer encoding than necessary, so that every number has one encoding.
    pub(super) fn number<T: TryFrom<u64>>(&mut self) -> Result<T, FrameError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has space for one bit.
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                return Err(FrameError::Content);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return T::try_from(number).map_err(|_| FrameError::Content);
            }
        }
        Err(FrameError::Content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read<T: TryFrom<u64>>(bytes: &[u8]) -> Result<(T, usize), FrameError> {
        let mut cursor = Cursor(bytes);
        cursor.number().map(|number| (number, bytes.len() - cursor.0.len()))
    }

    proptest! {
        #[test]
        fn numbers_read_as_they_were_written(number: u64, width in 0..64u32) {
            let number = number >> width;
            let mut bytes = Vec::new();
            put(number, &mut bytes);
            prop_assert_eq!(bytes.len(), (64 - number.leading_zeros()).div_ceil(7).max(1) as usize);
            prop_assert_eq!(read::<u64>(&bytes), Ok((number, bytes.len())));
            prop_assert_eq!(read::<u16>(&bytes).is_ok(), u16::try_from(number).is_ok());
            for cut in 0..bytes.len() {
                prop_assert_eq!(read::<u64>(&bytes[..cut]), Err(FrameError::Content));
            }
        }

        #[test]
        fn every_number_has_one_form(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
            if let Ok((number, length)) = read::<u64>(&bytes) {
                let mut again = Vec::new();
                put(number, &mut again);
                prop_assert_eq!(&bytes[..length], &again[..]);
            }
        }
    }

    #[test]
    fn overlong_and_overlarge_numbers_are_refused() {
        let mut largest = vec![0xff; 9];
        largest.push(1);
        assert_eq!(read::<u64>(&largest), Ok((u64::MAX, 10)));
        for bad in [&[0x80, 0][..], &[0xff, 0x80, 0], &[[0xff; 9].as_slice(), &[2]].concat(), &[0x80; 11]] {
            assert_eq!(read::<u64>(bad), Err(FrameError::Content), "{bad:?}");
        }
        assert_eq!(read::<u32>(&[0x80, 0x80, 0x80, 0x80, 0x10]), Err(FrameError::Content));
    }
}
