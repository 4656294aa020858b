//! The subset of the Protocol Buffers encoding that transactions and block headers need.

/// The reason why bytes are not a message, with the text of Google's parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// The message ends within a field.
    Truncated,
    /// A field number of zero.
    Tag,
    /// A wire type that does not exist.
    Kind,
    /// A number of more than ten bytes.
    Number,
}

impl Broken {
    pub(super) fn message(self) -> &'static str {
        match self {
            Broken::Truncated => {
                "While parsing a protocol message, the input ended unexpectedly in the middle of a field.  This could \
                 mean either that the input has been truncated or that an embedded message misreported its own length."
            }
            Broken::Tag => "Protocol message contained an invalid tag (zero).",
            Broken::Kind => "Protocol message tag had invalid wire type.",
            Broken::Number => "CodedInputStream encountered a malformed varint.",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field<'a> {
    /// A number; signed ones as two's complement.
    Number(u64),
    /// Bytes, text or a message.
    Bytes(&'a [u8]),
    /// A number of fixed width, which no message here has.
    Fixed,
}

impl<'a> Field<'a> {
    /// Returns the number; 0 for anything else, as for an absent field.
    pub(super) fn number(self) -> i64 {
        if let Field::Number(number) = self { number.cast_signed() } else { 0 }
    }

    /// Returns the bytes; empty for anything else.
    pub(super) fn bytes(self) -> &'a [u8] {
        if let Field::Bytes(bytes) = self { bytes } else { &[] }
    }
}

/// Returns all fields of a message in order.
pub(super) fn fields(mut bytes: &[u8]) -> Result<Vec<(u64, Field<'_>)>, Broken> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        if tag >> 3 == 0 {
            return Err(Broken::Tag);
        }
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)?),
            1 => take(&mut bytes, 8).map(|_| Field::Fixed)?,
            2 => {
                let length = varint(&mut bytes)?;
                Field::Bytes(take(&mut bytes, usize::try_from(length).map_err(|_| Broken::Truncated)?)?)
            }
            5 => take(&mut bytes, 4).map(|_| Field::Fixed)?,
            _ => return Err(Broken::Kind),
        };
        out.push((tag >> 3, field));
    }
    Ok(out)
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], Broken> {
    let (taken, rest) = bytes.split_at_checked(length).ok_or(Broken::Truncated)?;
    *bytes = rest;
    Ok(taken)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Broken> {
    let mut number = 0u64;
    for place in 0..10 {
        let (first, rest) = bytes.split_first().ok_or(Broken::Truncated)?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << (7 * place);
        if first & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Broken::Number)
}

/// A message that is being encoded. Fields are added by number; default values are omitted.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn number(mut self, field: u64, value: i64) -> Self {
        if value != 0 {
            self.varint(field << 3);
            self.varint(value.cast_unsigned());
        }
        self
    }

    pub(super) fn bytes(self, field: u64, value: &[u8]) -> Self {
        if value.is_empty() { self } else { self.item(field, value) }
    }

    /// Adds bytes or a message, even if empty.
    pub(super) fn item(mut self, field: u64, value: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub(super) fn done(self) -> Vec<u8> {
        self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_are_read_back() {
        let message =
            Message::default().number(1, -1).number(2, 0).bytes(3, b"abc").bytes(4, b"").item(5, b"");
        let bytes = message.done();
        let read = fields(&bytes).expect("a message");
        let expected = [(1, Field::Number(u64::MAX)), (3, Field::Bytes(b"abc")), (5, Field::Bytes(b""))];
        assert_eq!(read, expected);
        assert_eq!(read[0].1.number(), -1);
    }

    #[test]
    fn bytes_that_are_not_a_message_are_refused_with_the_reason() {
        assert_eq!(fields(&[0x0a, 5, 1]), Err(Broken::Truncated));
        assert_eq!(fields(&[0x00]), Err(Broken::Tag));
        assert_eq!(fields(&[0x0f]), Err(Broken::Kind));
        assert_eq!(fields(&[0xff; 12]), Err(Broken::Number));
        assert_eq!(
            fields(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
            Err(Broken::Truncated)
        );
    }
}
