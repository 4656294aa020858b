//! Conversion of messages from JSON and back, by a schema.

use super::file::{FieldKind, MessageField};
use super::protobuf::{Message, Value as Wire, fields, unpacked};
use super::schema::{JsonForm, Schema};
use crate::json::Json;
use crate::utc;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rpcgate_core::clock::Time;
use serde_json::{Map, Value};

/// The maximum nesting of messages in a request; otherwise a client could overflow the stack.
const DEPTH: usize = 50;
/// The last second of a `google.protobuf.Timestamp`, in year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

impl Schema {
    /// Encodes JSON as the message `name`. Skips members that the message does not have.
    pub(crate) fn encode(&self, name: &str, value: &Json) -> Vec<u8> {
        self.message(name, value).done()
    }

    /// Decodes the message `name`; `None` if the bytes are invalid. Skips unknown fields.
    pub(crate) fn decode(&self, name: &str, bytes: &[u8]) -> Option<Value> {
        self.value_of(name, bytes, DEPTH)
    }

    fn message(&self, name: &str, value: &Json) -> Message {
        let text = if let Json::Text(text) = value { text.as_ref() } else { "" };
        match name {
            "google.protobuf.Timestamp" => {
                let (seconds, nanos) = utc::read(text).unwrap_or_default();
                return Message::default().number(1, seconds.cast_unsigned()).number(2, nanos.into());
            }
            "google.protobuf.Duration" => {
                let seconds = text.strip_suffix('s').and_then(|seconds| seconds.parse().ok());
                return Message::default().number(1, seconds.unwrap_or(0));
            }
            "google.protobuf.Any" => {
                let Some(Json::Text(url)) = value.get("@type") else {
                    return Message::default();
                };
                let inner = self.message(url.rsplit('/').next().unwrap_or_default(), value);
                return Message::default().bytes(1, url.as_bytes()).bytes(2, inner);
            }
            _ => {}
        }
        let fields = self.fields(name).unwrap_or_default().iter();
        fields.fold(Message::default(), |message, field| {
            if self.form == JsonForm::Hex
                && let Some(Json::Text(encoded)) = value.get(&format!("{}_hex", field.name))
            {
                return message.item(field.number, hex::decode(encoded.as_ref()).unwrap_or_default());
            }
            match value.get(&field.name) {
                None | Some(Json::Null) => message,
                Some(Json::Array(items)) if field.is_list => self.list(message, field, items),
                Some(value) => self.field(message, field, value),
            }
        })
    }

    fn list(&self, message: Message, field: &MessageField, items: &[Json]) -> Message {
        match &field.kind {
            FieldKind::Message(name) => {
                message.items(field.number, items.iter().map(|item| self.message(name, item)))
            }
            FieldKind::Text | FieldKind::Bytes => {
                message.items(field.number, items.iter().map(|item| self.bytes(field, item)))
            }
            _ => message.packed(field.number, items.iter().map(|item| self.number(field, item))),
        }
    }

    fn field(&self, message: Message, field: &MessageField, value: &Json) -> Message {
        match &field.kind {
            FieldKind::Message(name) => message.item(field.number, self.message(name, value)),
            FieldKind::Text | FieldKind::Bytes => message.bytes(field.number, self.bytes(field, value)),
            FieldKind::Double => message.fixed(field.number, self.number(field, value)),
            _ => message.number(field.number, self.number(field, value)),
        }
    }

    fn bytes(&self, field: &MessageField, value: &Json) -> Vec<u8> {
        let Json::Text(text) = value else {
            return Vec::new();
        };
        match self.form {
            JsonForm::Canonical { decimals } if decimals.contains(&field.name.as_str()) => {
                // Leading zeros are not part of the number.
                let digits = text.replace('.', "");
                let digits = digits.trim_start_matches('0');
                if digits.is_empty() { "0".into() } else { digits.into() }
            }
            _ if field.kind == FieldKind::Text => text.as_bytes().to_vec(),
            JsonForm::Canonical { .. } => STANDARD.decode(text.as_ref()).unwrap_or_default(),
            JsonForm::Hex => hex::decode(text.as_ref()).unwrap_or_default(),
        }
    }

    /// Returns the encoded number of a field: signed ones as two's complement, fractions as their bits.
    fn number(&self, field: &MessageField, value: &Json) -> u64 {
        let digits = match value {
            Json::Bool(value) => return u64::from(*value),
            Json::Text(text) => text.as_ref(),
            Json::Number(digits) => digits,
            _ => return 0,
        };
        match &field.kind {
            FieldKind::Double => digits.parse::<f64>().unwrap_or_default().to_bits(),
            FieldKind::Enumeration(name) => {
                let known = self.values(name).iter().find(|(known, _)| known == digits);
                known.map_or(0, |(_, number)| *number)
            }
            FieldKind::Uint64 | FieldKind::Uint32 => digits.parse().unwrap_or(0),
            _ => digits.parse::<i64>().unwrap_or(0).cast_unsigned(),
        }
    }

    fn value_of(&self, name: &str, bytes: &[u8], depth: usize) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        let read = fields(bytes)?;
        let find =
            |wanted: u64| read.iter().rev().find(|(number, _)| *number == wanted).map(|(_, value)| *value);
        let number = |wanted: u64| find(wanted).map_or(Some(0), Wire::number);
        match name {
            "google.protobuf.Timestamp" => {
                let (seconds, nanos) = (number(1)?, number(2)?);
                // Moments before 1970 only mark an absent time.
                let micros =
                    (seconds <= LAST_SECOND).then(|| seconds * 1_000_000 + nanos % 1_000_000_000 / 1_000);
                return Some(micros.map_or(Value::Null, |micros| {
                    utc::nanos(Time::from_micros(micros), nanos % 1_000).into()
                }));
            }
            "google.protobuf.Duration" => return Some(format!("{}s", number(1)?.cast_signed()).into()),
            "google.protobuf.Any" => {
                let url = find(1).map_or(Some(String::new()), Wire::text)?;
                let inner = find(2).map_or(Some(&[][..]), Wire::bytes)?;
                let name = url.rsplit('/').next().unwrap_or_default();
                let mut out = match self.fields(name) {
                    Some(_) => self.value_of(name, inner, depth)?,
                    None => serde_json::json!({ "value": self.shown(inner) }),
                };
                if let Value::Object(members) = &mut out {
                    members.insert("@type".into(), url.into());
                }
                return Some(out);
            }
            _ => {}
        }
        let known = self.fields(name)?;
        let mut out = Map::new();
        for (number, value) in read {
            let Some(field) = known.iter().find(|field| field.number == number) else {
                continue;
            };
            let is_packed = field.is_list
                && matches!(value, Wire::Bytes(_))
                && !matches!(field.kind, FieldKind::Text | FieldKind::Bytes | FieldKind::Message(_));
            let values = if is_packed {
                unpacked(value.bytes()?)?.into_iter().map(Wire::Number).collect()
            } else {
                vec![value]
            };
            let values = values.into_iter().map(|value| self.value(field, value, depth));
            let values = values.collect::<Option<Vec<_>>>()?;
            if field.is_list {
                let list = out.entry(&field.name).or_insert_with(|| Value::Array(Vec::new()));
                list.as_array_mut()?.extend(values);
            } else if let Some(value) = values.into_iter().next() {
                out.insert(field.name.clone(), value);
            }
        }
        Some(Value::Object(out))
    }

    fn value(&self, field: &MessageField, value: Wire<'_>, depth: usize) -> Option<Value> {
        let large = |plain: Value| match self.form {
            JsonForm::Canonical { .. } => plain.to_string().into(),
            JsonForm::Hex => plain,
        };
        Some(match &field.kind {
            FieldKind::Message(name) => self.value_of(name, value.bytes()?, depth)?,
            FieldKind::Text => value.text()?.into(),
            FieldKind::Bytes => self.shown(value.bytes()?).into(),
            FieldKind::Bool => (value.number()? != 0).into(),
            FieldKind::Double => f64::from_bits(value.number()?).into(),
            FieldKind::Uint32 => value.number()?.into(),
            FieldKind::Int32 => value.number()?.cast_signed().into(),
            FieldKind::Uint64 => large(value.number()?.into()),
            FieldKind::Int64 => large(value.number()?.cast_signed().into()),
            FieldKind::Enumeration(name) => {
                let wanted = value.number()?;
                let known = self.values(name).iter().find(|(_, number)| *number == wanted);
                known.map_or_else(|| wanted.into(), |(name, _)| name.clone().into())
            }
        })
    }

    fn shown(&self, bytes: &[u8]) -> String {
        match self.form {
            JsonForm::Canonical { .. } => STANDARD.encode(bytes),
            JsonForm::Hex => hex::encode(bytes),
        }
    }
}

#[cfg(test)]
mod tests;
