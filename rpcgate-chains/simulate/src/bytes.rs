//! A reader of transactions in binary: little-endian numbers, and the variable lengths of BCS.

#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    /// Returns the bytes that were not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    /// Reads a flag: a byte that is 0 or 1.
    pub(crate) fn flag(&mut self) -> Option<bool> {
        let byte = self.byte()?;
        (byte < 2).then_some(byte == 1)
    }

    /// Reads a length or a variant index (ULEB128): at most 32 bits, in its shortest form.
    pub(crate) fn length(&mut self) -> Option<usize> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let is_short = byte != 0 || shift == 0;
                return u32::try_from(value).ok().filter(|_| is_short).map(|value| value as usize);
            }
        }
        None
    }

    /// Reads items after their number.
    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..self.length()?).map(|_| item(self)).collect()
    }

    /// Reads bytes after their length.
    pub(crate) fn sized(&mut self) -> Option<Vec<u8>> {
        let length = self.length()?;
        self.take(length).map(<[u8]>::to_vec)
    }

    /// Reads a text after its length.
    pub(crate) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.sized()?).ok()
    }
}

/// Writes a length or a variant index.
pub(crate) fn put_length(mut length: usize, out: &mut Vec<u8>) {
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// An encoding in progress.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// Appends bytes without their length.
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u64(self, value: u64) -> Self {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn length(mut self, value: usize) -> Self {
        put_length(value, &mut self.0);
        self
    }

    pub(crate) fn sized(self, bytes: &[u8]) -> Self {
        self.length(bytes.len()).raw(bytes)
    }

    pub(crate) fn done(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_are_read_back() {
        let bytes = Writer::default().sized(&[7; 200]).u64(9).length(300).done();
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.sized(), Some(vec![7; 200]));
        assert_eq!((reader.u64(), reader.length(), reader.rest()), (Some(9), Some(300), &[][..]));
        assert_eq!(reader.byte(), None);
    }

    #[test]
    fn long_forms_of_a_length_are_refused() {
        assert_eq!(Reader::new(&[0x80, 0x00]).length(), None);
        assert_eq!(Reader::new(&[0xff; 6]).length(), None);
        assert_eq!(Reader::new(&[5, 1]).sized(), None);
    }

    #[test]
    fn a_flag_is_0_or_1() {
        assert_eq!([0, 1, 2].map(|byte| Reader::new(&[byte]).flag()), [Some(false), Some(true), None]);
    }
}
