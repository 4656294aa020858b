//! The subset of CBOR (RFC 8949) that transactions need.

/// The deepest nesting that is read.
const DEPTH: usize = 64;

/// One value, with the bytes that it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) kind: Kind<'a>,
}

/// The kind of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    Number(u64),
    /// A negative integer: -1 less this number.
    Negative(u64),
    Bytes(Vec<u8>),
    Text,
    Array(Vec<Item<'a>>),
    Map(Vec<(Item<'a>, Item<'a>)>),
    /// A simple value by its number, such as `true`, `false` or `null`.
    Simple(u64),
}

impl<'a> Item<'a> {
    /// Reads all of `bytes` as one value. An error is the reason why they are invalid.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let mut reader = Reader { bytes, at: 0 };
        let item = reader.item(0)?;
        if reader.at < bytes.len() {
            return Err(format!("{} bytes left over at offset {}", bytes.len() - reader.at, reader.at));
        }
        Ok(item)
    }

    pub(super) fn number(&self) -> Option<u64> {
        if let Kind::Number(number) = self.kind { Some(number) } else { None }
    }

    pub(super) fn data(&self) -> Option<&[u8]> {
        if let Kind::Bytes(bytes) = &self.kind { Some(bytes) } else { None }
    }

    /// Returns the items of an array, or of a set.
    pub(super) fn items(&self) -> Option<&[Item<'a>]> {
        if let Kind::Array(items) = &self.kind { Some(items) } else { None }
    }

    /// Returns the value of a key that is a number.
    pub(super) fn under(&self, key: u64) -> Option<&Item<'a>> {
        let Kind::Map(pairs) = &self.kind else {
            return None;
        };
        pairs.iter().find(|(name, _)| name.number() == Some(key)).map(|(_, value)| value)
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn item(&mut self, depth: usize) -> Result<Item<'a>, String> {
        if depth > DEPTH {
            return Err("nested too deep".into());
        }
        let start = self.at;
        let (major, length) = self.head()?;
        let kind = match (major, length) {
            (0, Some(number)) => Kind::Number(number),
            (1, Some(number)) => Kind::Negative(number),
            (2, length) => Kind::Bytes(self.string(2, length)?),
            (3, length) => self.string(3, length).map(|_| Kind::Text)?,
            (4, length) => Kind::Array(self.many(length, |reader| reader.item(depth + 1))?),
            (5, length) => {
                Kind::Map(self.many(length, |reader| Ok((reader.item(depth + 1)?, reader.item(depth + 1)?)))?)
            }
            // A tag adds nothing: the position of the value already gives its meaning.
            (6, Some(_)) => self.item(depth + 1)?.kind,
            (7, Some(number)) => Kind::Simple(number),
            _ => return Err(format!("unexpected break at offset {start}")),
        };
        Ok(Item { bytes: &self.bytes[start..self.at], kind })
    }

    /// Reads the major type of a value and its argument; no argument for an indefinite length.
    fn head(&mut self) -> Result<(u8, Option<u64>), String> {
        let first = self.take(1)?[0];
        let width = match first & 0x1f {
            small @ 0..24 => return Ok((first >> 5, Some(u64::from(small)))),
            wide @ 24..28 => 1usize << (wide - 24),
            31 => return Ok((first >> 5, None)),
            _ => return Err(format!("malformed head at offset {}", self.at - 1)),
        };
        let number = self.take(width)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Ok((first >> 5, Some(number)))
    }

    fn string(&mut self, major: u8, length: Option<u64>) -> Result<Vec<u8>, String> {
        if let Some(length) = length {
            return self.take(usize::try_from(length).unwrap_or(usize::MAX)).map(<[u8]>::to_vec);
        }
        let mut out = Vec::new();
        while !self.at_break() {
            match self.head()? {
                (kind, Some(length)) if kind == major => {
                    out.extend_from_slice(self.take(usize::try_from(length).unwrap_or(usize::MAX))?);
                }
                _ => return Err(format!("malformed string at offset {}", self.at)),
            }
        }
        Ok(out)
    }

    fn many<T>(
        &mut self,
        length: Option<u64>,
        one: impl Fn(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let mut out = Vec::new();
        match length {
            // Each item takes at least one byte; the bound stops a large length from reserving memory.
            Some(length) => {
                for _ in 0..length {
                    out.push(one(self)?);
                }
            }
            None => {
                while !self.at_break() {
                    out.push(one(self)?);
                }
            }
        }
        Ok(out)
    }

    fn at_break(&mut self) -> bool {
        let is_break = self.bytes.get(self.at) == Some(&0xff);
        self.at += usize::from(is_break);
        is_break
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| format!("end of input at offset {}", self.at))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        let bytes = hex::decode(text).expect("hex");
        Item::read(&bytes).map(|item| format!("{:?}", item.kind).chars().take(12).collect())
    }

    #[test]
    fn values_of_all_kinds_are_read() {
        for (text, kind) in [
            ("00", "Number(0)"),
            ("1a000f4240", "Number(10000"),
            ("20", "Negative(0)"),
            ("420102", "Bytes([1, 2]"),
            ("5f41014102ff", "Bytes([1, 2]"),
            ("d9010280", "Array([])"),
            ("9fff", "Array([])"),
            ("a0", "Map([])"),
            ("f6", "Simple(22)"),
        ] {
            assert_eq!(read(text), Ok(kind.to_owned()), "{text}");
        }
        let bytes = hex::decode("a200820102016161").expect("hex");
        let map = Item::read(&bytes).expect("a map");
        assert_eq!(map.under(0).map(|item| item.bytes), Some(&bytes[2..5]));
        assert_eq!(map.under(2), None);
    }

    #[test]
    fn bytes_that_are_not_cbor_are_refused_with_the_position() {
        assert_eq!(read("8201"), Err("end of input at offset 2".into()));
        assert_eq!(read("0000"), Err("1 bytes left over at offset 1".into()));
        assert_eq!(read("1c"), Err("malformed head at offset 0".into()));
        assert_eq!(read("9bffffffffffffffff"), Err("end of input at offset 9".into()));
        assert_eq!(read(&"81".repeat(100)), Err("nested too deep".into()));
        assert!(read("ff").is_err() && read("").is_err());
    }
}
