//! The subset of Binary Canonical Serialization (BCS) that transactions need.

#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(crate) fn address(&mut self) -> Option<[u8; 32]> {
        self.take(32)?.try_into().ok()
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

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }
}

/// Writes a length or a variant index.
fn length(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
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
        length(&mut self.0, value);
        self
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Self {
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
        let bytes = Writer::default().bytes(&[7; 200]).u64(9).length(300).done();
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.bytes(), Some(&[7; 200][..]));
        assert_eq!((reader.u64(), reader.length(), reader.rest()), (Some(9), Some(300), &[][..]));
        assert_eq!(reader.byte(), None);
    }

    #[test]
    fn long_forms_of_a_length_are_refused() {
        assert_eq!(Reader::new(&[0x80, 0x00]).length(), None);
        assert_eq!(Reader::new(&[0xff; 6]).length(), None);
        assert_eq!(Reader::new(&[5, 1]).bytes(), None);
    }
}
