//! The XRP Ledger's canonical binary format: objects of fields, and their JSON.

use super::fields::{Field, Kind, result_of, type_name};
use crate::json::{Json, object};
use ring::digest::{SHA256, SHA512, digest};
use std::borrow::Cow;

/// The 20 bytes behind a classic address.
pub(crate) type Account = [u8; 20];
/// A 256-bit hash.
pub(crate) type Hash = [u8; 32];

/// The deepest nesting of objects; rippled's limit.
const DEPTH: usize = 10;
/// Set in an XRP amount that is not negative.
const POSITIVE: u64 = 1 << 62;

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    /// A hash, an amount, a blob, an account, paths: the bytes as written, without their length.
    Bytes(Vec<u8>),
    Object(Fields),
    Array(Vec<(Field, Fields)>),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<(Field, Value)>);

/// The error for bytes that are not an object, with the server's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

const SHORT: Malformed = Malformed("SerialIter: underflow");

/// Returns the first half of SHA-512.
pub(crate) fn half(parts: &[&[u8]]) -> Hash {
    let mut out = [0; 32];
    out.copy_from_slice(&digest(&SHA512, &parts.concat()).as_ref()[..32]);
    out
}

/// Returns the account of a public key.
pub(crate) fn account_of(key: &[u8]) -> Account {
    use ripemd::{Digest, Ripemd160};
    Ripemd160::digest(digest(&SHA256, key).as_ref()).into()
}

fn checksum(body: &[u8]) -> [u8; 4] {
    let twice = digest(&SHA256, digest(&SHA256, body).as_ref());
    let mut out = [0; 4];
    out.copy_from_slice(&twice.as_ref()[..4]);
    out
}

/// Returns bytes in the ledger's base58 after a prefix that gives their kind.
pub(crate) fn base58(prefix: u8, bytes: &[u8]) -> String {
    let mut body = vec![prefix];
    body.extend_from_slice(bytes);
    let sum = checksum(&body);
    body.extend_from_slice(&sum);
    bs58::encode(body).with_alphabet(bs58::Alphabet::RIPPLE).into_string()
}

/// Returns the classic address of an account.
pub(crate) fn address(account: &[u8]) -> String {
    base58(0, account)
}

/// Returns the account of a classic address.
pub(crate) fn parse_address(text: &str) -> Option<Account> {
    if text.len() > 40 {
        return None;
    }
    let body = bs58::decode(text).with_alphabet(bs58::Alphabet::RIPPLE).into_vec().ok()?;
    let (body, sum) = body.split_at_checked(body.len().checked_sub(4)?)?;
    let [0, account @ ..] = body else { return None };
    (checksum(body) == *sum).then(|| account.try_into().ok())?
}

/// Writes bytes in upper-case hex.
pub(crate) fn upper(bytes: &[u8]) -> String {
    hex::encode_upper(bytes)
}

pub(crate) fn drops(amount: u64) -> Value {
    Value::Bytes((amount | POSITIVE).to_be_bytes().to_vec())
}

impl Fields {
    /// Returns the object with one more field, in its sorted position.
    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        if let Some(field) = Field::named(name) {
            let place = self.0.partition_point(|(other, _)| *other < field);
            self.0.insert(place, (field, value));
        }
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(field, _)| field.name == name).map(|(_, value)| value)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        match self.get(name)? {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn account(&self, name: &str) -> Option<Account> {
        self.bytes(name)?.try_into().ok()
    }

    /// Returns an amount of XRP; `None` for another currency or a negative amount.
    pub(crate) fn drops(&self, name: &str) -> Option<u64> {
        let raw = u64::from_be_bytes(self.bytes(name)?.try_into().ok()?);
        (raw & POSITIVE != 0 && raw >> 63 == 0).then_some(raw & !POSITIVE)
    }

    /// Decodes a whole object.
    pub(crate) fn decode(mut bytes: &[u8]) -> Result<Fields, Malformed> {
        let fields = read_object(&mut bytes, 0)?;
        if bytes.is_empty() { Ok(fields) } else { Err(Malformed("Unexpected object terminator")) }
    }

    /// Returns the object in the canonical encoding.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out, true);
        out
    }

    /// Returns the signed bytes.
    pub(crate) fn unsigned(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out, false);
        out
    }

    fn write(&self, out: &mut Vec<u8>, signed: bool) {
        for (field, value) in &self.0 {
            if !signed && field.is_signature() {
                continue;
            }
            write_head(*field, out);
            match value {
                Value::Number(number) => {
                    let bytes = number.to_be_bytes();
                    let width = width(field.kind).unwrap_or(8);
                    out.extend_from_slice(&bytes[8 - width..]);
                }
                Value::Bytes(bytes) => {
                    if matches!(field.kind, Kind::Blob | Kind::Account | Kind::Hashes) {
                        write_length(bytes.len(), out);
                    }
                    out.extend_from_slice(bytes);
                }
                Value::Object(inner) => {
                    inner.write(out, true);
                    out.push(0xe1);
                }
                Value::Array(items) => {
                    for (field, inner) in items {
                        write_head(*field, out);
                        inner.write(out, true);
                        out.push(0xe1);
                    }
                    out.push(0xf1);
                }
            }
        }
    }

    /// Members sorted by name, as servers write them.
    pub(crate) fn json(&self) -> Json {
        let mut members: Vec<(Cow<'static, str>, Json)> = self
            .0
            .iter()
            .map(|(field, value)| (Cow::Borrowed(field.name), value_json(*field, value)))
            .collect();
        members.sort_by(|a, b| a.0.cmp(&b.0));
        Json::Object(members)
    }
}

fn width(kind: Kind) -> Option<usize> {
    Some(match kind {
        Kind::Small => 1,
        Kind::Short => 2,
        Kind::Int => 4,
        Kind::Long => 8,
        _ => return None,
    })
}

fn write_head(field: Field, out: &mut Vec<u8>) {
    let kind = field.kind as u8;
    let code = field.code;
    match (kind < 16, code < 16) {
        (true, true) => out.push(kind << 4 | code),
        (true, false) => out.extend([kind << 4, code]),
        (false, true) => out.extend([code, kind]),
        (false, false) => out.extend([0, kind, code]),
    }
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    match length {
        0..=192 => out.push(length as u8),
        193..=12_480 => {
            let rest = length - 193;
            out.extend([193 + (rest >> 8) as u8, rest as u8]);
        }
        _ => {
            let rest = length - 12_481;
            out.extend([241 + (rest >> 16) as u8, (rest >> 8) as u8, rest as u8]);
        }
    }
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], Malformed> {
    let (head, rest) = bytes.split_at_checked(count).ok_or(SHORT)?;
    *bytes = rest;
    Ok(head)
}

fn byte(bytes: &mut &[u8]) -> Result<u8, Malformed> {
    take(bytes, 1).map(|one| one[0])
}

fn read_head(bytes: &mut &[u8]) -> Result<(u8, u8), Malformed> {
    let first = byte(bytes)?;
    let mut kind = first >> 4;
    let mut code = first & 15;
    if kind == 0 {
        kind = byte(bytes)?;
        if kind < 16 {
            return Err(Malformed("gFID: uncommon type out of range"));
        }
    }
    if code == 0 {
        code = byte(bytes)?;
        if code < 16 {
            return Err(Malformed("gFID: uncommon name out of range"));
        }
    }
    Ok((kind, code))
}

fn read_length(bytes: &mut &[u8]) -> Result<usize, Malformed> {
    let first = usize::from(byte(bytes)?);
    Ok(match first {
        0..=192 => first,
        193..=240 => 193 + ((first - 193) << 8) + usize::from(byte(bytes)?),
        241..=254 => {
            let rest = take(bytes, 2)?;
            12_481 + ((first - 241) << 16) + (usize::from(rest[0]) << 8) + usize::from(rest[1])
        }
        _ => return Err(Malformed("Invalid VL length")),
    })
}

/// Reads fields up to the end of the object, or of the bytes at the outermost level.
fn read_object(bytes: &mut &[u8], depth: usize) -> Result<Fields, Malformed> {
    if depth > DEPTH {
        return Err(Malformed("Maximum nesting depth of STVar exceeded"));
    }
    let mut fields: Vec<(Field, Value)> = Vec::new();
    loop {
        if bytes.is_empty() && depth == 0 {
            break;
        }
        let (kind, code) = read_head(bytes)?;
        if (kind, code) == (14, 1) && depth > 0 {
            break;
        }
        let field = Field::of(kind, code).ok_or(Malformed("Unknown field"))?;
        let value = read_value(field, bytes, depth)?;
        fields.push((field, value));
    }
    let count = fields.len();
    fields.sort_by_key(|(field, _)| *field);
    fields.dedup_by_key(|(field, _)| *field);
    if fields.len() < count {
        return Err(Malformed("Duplicate field detected"));
    }
    Ok(Fields(fields))
}

fn read_value(field: Field, bytes: &mut &[u8], depth: usize) -> Result<Value, Malformed> {
    if let Some(width) = width(field.kind) {
        let number = take(bytes, width)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        return Ok(Value::Number(number));
    }
    let length = match field.kind {
        Kind::Hash128 => 16,
        Kind::Hash160 => 20,
        Kind::Hash256 => 32,
        Kind::Amount if bytes.first().is_some_and(|first| first & 0x80 != 0) => 48,
        Kind::Amount => 8,
        Kind::Blob => read_length(bytes)?,
        Kind::Account => match read_length(bytes)? {
            20 => 20,
            _ => return Err(Malformed("Invalid STAccount size")),
        },
        Kind::Hashes => match read_length(bytes)? {
            length if length.is_multiple_of(32) => length,
            _ => return Err(Malformed("Bad serialization for STVector256")),
        },
        Kind::Paths => paths_length(bytes)?,
        Kind::Array => {
            let mut items = Vec::new();
            loop {
                let (kind, code) = read_head(bytes)?;
                if (kind, code) == (15, 1) {
                    return Ok(Value::Array(items));
                }
                let inner = Field::of(kind, code)
                    .filter(|inner| inner.kind == Kind::Object)
                    .ok_or(Malformed("Non-object in array"))?;
                items.push((inner, read_object(bytes, depth + 1)?));
            }
        }
        _ => return Ok(Value::Object(read_object(bytes, depth + 1)?)),
    };
    Ok(Value::Bytes(take(bytes, length)?.to_vec()))
}

/// Returns the length of a set of paths, including its end.
fn paths_length(bytes: &[u8]) -> Result<usize, Malformed> {
    let mut at = 0;
    loop {
        match bytes.get(at).ok_or(SHORT)? {
            0 => return Ok(at + 1),
            0xff => at += 1,
            step if step & !0x31 != 0 => return Err(Malformed("bad path element")),
            step => at += 1 + 20 * step.count_ones() as usize,
        }
    }
}

fn value_json(field: Field, value: &Value) -> Json {
    match value {
        Value::Number(code) if field.name == "TransactionType" => {
            type_name(*code).map_or_else(|| Json::from(*code), Json::from)
        }
        Value::Number(97) if field.name == "LedgerEntryType" => "AccountRoot".into(),
        Value::Number(code) if field.name == "TransactionResult" => result_of(*code).name.into(),
        Value::Number(number) if field.kind == Kind::Long => format!("{number:X}").into(),
        Value::Number(number) => (*number).into(),
        Value::Bytes(bytes) => match field.kind {
            Kind::Amount => amount_json(bytes),
            Kind::Account => address(bytes).into(),
            Kind::Hashes => bytes.chunks(32).map(upper).collect::<Vec<_>>().into(),
            Kind::Paths => paths_json(bytes),
            _ => upper(bytes).into(),
        },
        Value::Object(inner) => inner.json(),
        Value::Array(items) => {
            let wrapped = |(field, inner): &(Field, Fields)| {
                Json::Object(vec![(Cow::Borrowed(field.name), inner.json())])
            };
            Json::Array(items.iter().map(wrapped).collect())
        }
    }
}

fn currency(bytes: &[u8]) -> String {
    let zeros = [&bytes[..12], &bytes[15..]].concat();
    let code = &bytes[12..15];
    if zeros.iter().any(|byte| *byte != 0) {
        return upper(bytes);
    }
    match std::str::from_utf8(code) {
        Ok("\0\0\0") => "XRP".into(),
        Ok(text) => text.into(),
        Err(_) => upper(bytes),
    }
}

fn amount_json(bytes: &[u8]) -> Json {
    let mut head = [0; 8];
    head.copy_from_slice(&bytes[..8]);
    let raw = u64::from_be_bytes(head);
    if bytes.len() == 8 {
        let sign = if raw & POSITIVE == 0 && raw != 0 { "-" } else { "" };
        return format!("{sign}{}", raw & !POSITIVE).into();
    }
    object! {
        "currency": currency(&bytes[8..28]), "issuer": address(&bytes[28..48]), "value": decimal(raw),
    }
}

/// Returns a 54-bit mantissa with its exponent, as the ledger's servers show it.
fn decimal(raw: u64) -> String {
    let mantissa = raw & ((1 << 54) - 1);
    let exponent = (raw >> 54 & 0xff) as i64 - 97;
    if mantissa == 0 {
        return "0".into();
    }
    let sign = if raw & POSITIVE == 0 { "-" } else { "" };
    if exponent != 0 && !(-25..=-5).contains(&exponent) {
        return format!("{sign}{mantissa}e{exponent}");
    }
    let places = exponent.unsigned_abs() as usize;
    let digits = format!("{mantissa:0>width$}", width = places + 1);
    let (whole, part) = digits.split_at(digits.len() - places);
    let part = part.trim_end_matches('0');
    if part.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") }
}

fn paths_json(bytes: &[u8]) -> Json {
    let mut paths = Vec::new();
    let mut path = Vec::new();
    let mut at = 0;
    while let Some(step) = bytes.get(at).copied() {
        at += 1;
        if step == 0 || step == 0xff {
            paths.push(Json::Array(std::mem::take(&mut path)));
            continue;
        }
        let mut json = object! {};
        for (bit, name) in [(0x01, "account"), (0x10, "currency"), (0x20, "issuer")] {
            if step & bit == 0 {
                continue;
            }
            let Some(part) = bytes.get(at..at + 20) else { break };
            at += 20;
            json.put(name, if bit == 0x10 { currency(part) } else { address(part) });
        }
        json.put("type", u32::from(step));
        path.push(json);
    }
    Json::Array(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_back_and_a_wrong_character_is_detected() {
        let genesis = "rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh";
        let account = parse_address(genesis).expect("an account");
        assert_eq!(hex::encode(account), "b5f762798a53d543a014caf8b297cff8f2f937e8");
        assert_eq!(address(&account), genesis);
        let key =
            hex::decode("0330e7fc9d56bb25d6893ba3f317ae5bcf33b3291bd63db32654a313222f7fd020").expect("hex");
        assert_eq!(account_of(&key), account);
        for wrong in ["rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTi", "r", "", "0", "snoPBrXtMeMyMHUVTgbuqAfg1SUTb"] {
            assert_eq!(parse_address(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn lengths_of_blobs_are_written_and_read_in_one_to_three_bytes() {
        for length in [0, 1, 192, 193, 12_480, 12_481, 100_000] {
            let mut out = Vec::new();
            write_length(length, &mut out);
            assert_eq!(read_length(&mut out.as_slice()), Ok(length));
        }
    }

    #[test]
    fn broken_bytes_are_refused() {
        for wrong in ["12", "1200", "1200002200", "e1", "f9ea", "7300ff", "e2", "0000", "81130000", "2210"] {
            assert!(Fields::decode(&hex::decode(wrong).expect("hex")).is_err(), "{wrong}");
        }
        assert_eq!(Fields::decode(&hex::decode("240000000124000000").expect("hex")), Err(SHORT));
        assert_eq!(
            Fields::decode(&hex::decode("24000000012400000001").expect("hex")),
            Err(Malformed("Duplicate field detected"))
        );
        let nested = "ea".repeat(40);
        assert!(Fields::decode(&hex::decode(nested).expect("hex")).is_err());
    }

    #[test]
    fn amounts_are_shown_with_all_their_digits() {
        let show = |hex: &str| decimal(u64::from_str_radix(hex, 16).expect("hex"));
        assert_eq!(show("D4C470DE4DF82000"), "12.5");
        assert_eq!(show("D2C4625103A72000"), "0.0000001234");
        assert_eq!(show("8000000000000000"), "0");
        assert_eq!(show("94C470DE4DF82000"), "-12.5");
    }
}
