//! The part of the Protocol Buffers encoding (protobuf.dev, "Encoding") that nodes need.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A number of any width.
    Number(u64),
    /// Bytes, a text or a message.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub(crate) fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            Value::Number(_) => None,
        }
    }

    pub(crate) fn text(self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    pub(crate) fn number(self) -> Option<u64> {
        match self {
            Value::Number(number) => Some(number),
            Value::Bytes(_) => None,
        }
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        // The tenth byte has only one bit.
        if shift == 63 && *first > 1 {
            return None;
        }
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], count: u64) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(count).ok()?)?;
    *bytes = rest;
    Some(taken)
}

/// Returns the fields of a message in order; `None` if the bytes are not a message.
pub(crate) fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Value<'_>)>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let little = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut bytes)?),
            1 => Value::Number(little(take(&mut bytes, 8)?)),
            2 => {
                let count = varint(&mut bytes)?;
                Value::Bytes(take(&mut bytes, count)?)
            }
            5 => Value::Number(little(take(&mut bytes, 4)?)),
            _ => return None,
        };
        if tag >> 3 == 0 {
            return None;
        }
        out.push((tag >> 3, value));
    }
    Some(out)
}

/// A message that is being encoded.
#[derive(Debug, Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Adds a number, unless it is 0.
    pub(crate) fn number(mut self, field: u64, value: u64) -> Self {
        if value != 0 {
            self.varint(field << 3);
            self.varint(value);
        }
        self
    }

    /// Adds bytes or a text, unless empty.
    pub(crate) fn bytes(self, field: u64, bytes: impl AsRef<[u8]>) -> Self {
        if bytes.as_ref().is_empty() { self } else { self.item(field, bytes) }
    }

    /// Adds a message or a list item, even if empty.
    pub(crate) fn item(mut self, field: u64, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn items<T: AsRef<[u8]>>(self, field: u64, items: impl IntoIterator<Item = T>) -> Self {
        items.into_iter().fold(self, |message, item| message.item(field, item))
    }

    pub(crate) fn done(self) -> Vec<u8> {
        self.0
    }
}

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_are_read_back() {
        let inner = Message::default().number(1, u64::MAX);
        let bytes = Message::default().number(1, 150).number(2, 0).bytes(3, "x").item(4, inner).done();
        assert_eq!(hex::encode(&bytes[..3]), "089601");
        let read = fields(&bytes).unwrap();
        assert_eq!(read[0], (1, Value::Number(150)));
        assert_eq!(read[1].1.text().unwrap(), "x");
        assert_eq!(fields(read[2].1.bytes().unwrap()).unwrap(), [(1, Value::Number(u64::MAX))]);
    }

    #[test]
    fn broken_bytes_are_not_a_message() {
        for broken in ["08", "0aff", "0b", "00", "08ffffffffffffffffff02", "0a05616263", "09010203"] {
            assert_eq!(fields(&hex::decode(broken).unwrap()), None, "{broken}");
        }
    }
}
