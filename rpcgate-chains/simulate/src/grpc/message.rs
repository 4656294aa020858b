//! Conversion of messages from JSON and back, by a schema.

use super::schema::{JsonForm, Schema};
use crate::json::Json;
use crate::utc;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost_reflect::prost::Message;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage, Value as Field,
};
use rpcgate_core::clock::Time;
use serde_json::{Map, Value};

/// The last second of a `google.protobuf.Timestamp`, in year 9999.
const LAST_SECOND: i64 = 253_402_300_799;

impl Schema {
    /// Encodes JSON as the message `name`. Skips members that the message does not have.
    pub(crate) fn encode(&self, name: &str, value: &Json) -> Vec<u8> {
        self.message(name).map(|kind| self.message_of(&kind, value).encode_to_vec()).unwrap_or_default()
    }

    /// Decodes the message `name`; `None` if the bytes are invalid. Skips unknown fields.
    pub(crate) fn decode(&self, name: &str, bytes: &[u8]) -> Option<Value> {
        self.shown(&DynamicMessage::decode(self.message(name)?, bytes).ok()?)
    }

    fn message_of(&self, kind: &MessageDescriptor, value: &Json) -> DynamicMessage {
        let text = if let Json::Text(text) = value { text.as_ref() } else { "" };
        let mut out = DynamicMessage::new(kind.clone());
        match kind.full_name() {
            "google.protobuf.Timestamp" => {
                let (seconds, nanos) = utc::read(text).unwrap_or_default();
                out.set_field_by_number(1, Field::I64(seconds));
                out.set_field_by_number(2, Field::I32(nanos.cast_signed()));
            }
            "google.protobuf.Duration" => {
                let seconds = text.strip_suffix('s').and_then(|seconds| seconds.parse().ok());
                out.set_field_by_number(1, Field::I64(seconds.unwrap_or(0)));
            }
            "google.protobuf.Any" => {
                if let Some(Json::Text(url)) = value.get("@type") {
                    let inner = self.encode(url.rsplit('/').next().unwrap_or_default(), value);
                    out.set_field_by_number(1, Field::String(url.clone().into_owned()));
                    out.set_field_by_number(2, Field::Bytes(inner.into()));
                }
            }
            _ => {
                for field in kind.fields() {
                    if let Some(item) = self.field(&field, value) {
                        // A member of another type is skipped.
                        let _ = out.try_set_field(&field, item);
                    }
                }
            }
        }
        out
    }

    /// Returns the value of a field in a message's JSON.
    fn field(&self, field: &FieldDescriptor, message: &Json) -> Option<Field> {
        let kind = field.kind();
        if let (JsonForm::Hex, Kind::Message(inner)) = (self.form, &kind)
            && let Some(Json::Text(encoded)) = message.get(&format!("{}_hex", field.name()))
        {
            let bytes = hex::decode(encoded.as_ref()).unwrap_or_default();
            return DynamicMessage::decode(inner.clone(), bytes.as_slice()).ok().map(Field::Message);
        }
        Some(match message.get(field.name())? {
            Json::Null => return None,
            Json::Array(items) => Field::List(items.iter().map(|item| self.item(field, item)).collect()),
            value => self.item(field, value),
        })
    }

    /// Returns one value; a number that cannot be read is 0.
    fn item(&self, field: &FieldDescriptor, value: &Json) -> Field {
        let text = match value {
            Json::Bool(value) => return Field::Bool(*value),
            Json::Text(text) => text.as_ref(),
            Json::Number(digits) => digits,
            _ => "",
        };
        match field.kind() {
            Kind::Message(kind) => Field::Message(self.message_of(&kind, value)),
            Kind::String => Field::String(self.digits(field, text).unwrap_or_else(|| text.to_owned())),
            Kind::Bytes => Field::Bytes(match (self.digits(field, text), self.form) {
                (Some(digits), _) => digits.into(),
                (None, JsonForm::Canonical { .. }) => STANDARD.decode(text).unwrap_or_default().into(),
                (None, JsonForm::Hex) => hex::decode(text).unwrap_or_default().into(),
            }),
            Kind::Enum(kind) => {
                Field::EnumNumber(kind.get_value_by_name(text).map_or(0, |value| value.number()))
            }
            Kind::Double => Field::F64(text.parse().unwrap_or_default()),
            Kind::Uint32 => Field::U32(text.parse().unwrap_or_default()),
            Kind::Uint64 => Field::U64(text.parse().unwrap_or_default()),
            Kind::Int32 => Field::I32(text.parse().unwrap_or_default()),
            _ => Field::I64(text.parse().unwrap_or_default()),
        }
    }

    /// Returns the digits of a decimal number without its point and its leading zeros; `None` for other fields.
    fn digits(&self, field: &FieldDescriptor, text: &str) -> Option<String> {
        let JsonForm::Canonical { decimals } = self.form else { return None };
        let digits = decimals.contains(&field.name()).then(|| text.replace('.', ""))?;
        let digits = digits.trim_start_matches('0');
        Some(if digits.is_empty() { "0" } else { digits }.to_owned())
    }

    /// Returns a message as JSON; `None` if it contains bytes that are not the message that they claim to be.
    fn shown(&self, message: &DynamicMessage) -> Option<Value> {
        let part = |number| message.get_field_by_number(number);
        let number = |number| part(number).and_then(|field| field.as_i64());
        match message.descriptor().full_name() {
            "google.protobuf.Timestamp" => {
                let nanos = part(2).and_then(|field| field.as_i32()).unwrap_or(0).cast_unsigned();
                // Moments before 1970 only mark an absent time.
                let seconds = number(1).filter(|seconds| (0..=LAST_SECOND).contains(seconds));
                return Some(seconds.map_or(Value::Null, |seconds| {
                    let micros =
                        seconds.cast_unsigned() * 1_000_000 + u64::from(nanos % 1_000_000_000 / 1_000);
                    utc::nanos(Time::from_micros(micros), u64::from(nanos % 1_000)).into()
                }));
            }
            "google.protobuf.Duration" => return Some(format!("{}s", number(1).unwrap_or(0)).into()),
            "google.protobuf.Any" => {
                let url = part(1).and_then(|field| field.as_str().map(str::to_owned)).unwrap_or_default();
                let inner = part(2).and_then(|field| field.as_bytes().cloned()).unwrap_or_default();
                let name = url.rsplit('/').next().unwrap_or_default();
                let mut out = match self.message(name) {
                    Some(_) => self.decode(name, &inner)?,
                    None => serde_json::json!({ "value": self.text_of(&inner) }),
                };
                if let Value::Object(members) = &mut out {
                    members.insert("@type".into(), url.into());
                }
                return Some(out);
            }
            _ => {}
        }
        let mut out = Map::new();
        for (field, value) in message.fields() {
            out.insert(field.name().to_owned(), self.shown_field(&field, value)?);
        }
        Some(Value::Object(out))
    }

    fn shown_field(&self, field: &FieldDescriptor, value: &Field) -> Option<Value> {
        let large = |plain: Value| match self.form {
            JsonForm::Canonical { .. } => plain.to_string().into(),
            JsonForm::Hex => plain,
        };
        Some(match value {
            Field::List(items) => {
                Value::Array(items.iter().map(|item| self.shown_field(field, item)).collect::<Option<_>>()?)
            }
            Field::Message(message) => self.shown(message)?,
            Field::String(text) => text.as_str().into(),
            Field::Bytes(bytes) => self.text_of(bytes).into(),
            Field::Bool(value) => (*value).into(),
            Field::F64(value) => (*value).into(),
            Field::U32(value) => (*value).into(),
            Field::I32(value) => (*value).into(),
            Field::U64(value) => large((*value).into()),
            Field::I64(value) => large((*value).into()),
            Field::EnumNumber(number) => {
                let known = field.kind().as_enum().and_then(|kind| kind.get_value(*number));
                known.map_or_else(|| (*number).into(), |known| known.name().into())
            }
            Field::F32(_) | Field::Map(_) => return None,
        })
    }

    fn text_of(&self, bytes: &[u8]) -> String {
        match self.form {
            JsonForm::Canonical { .. } => STANDARD.encode(bytes),
            JsonForm::Hex => hex::encode(bytes),
        }
    }
}

#[cfg(test)]
mod tests;
