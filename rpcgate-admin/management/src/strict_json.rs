//! Deserialises JSON objects and query strings into structs, with errors that name the member.

use crate::error::ActionError;
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::{Error, Value};
use std::borrow::Cow;
use std::fmt;

/// Parses a body that is a JSON object.
///
/// # Errors
/// The error for the user, with the name of the member. It does not repeat values, because they may be secrets.
pub fn of_object<T: DeserializeOwned>(body: &[u8]) -> Result<T, ActionError> {
    let object = serde_json::from_slice::<Object>(body).map_err(|error| {
        ActionError::invalid(match error.classify() {
            serde_json::error::Category::Data => "the body must be a JSON object",
            _ => "the body is not JSON",
        })
    })?;
    // PostgreSQL cannot store NUL in a text, and no honest client sends it.
    if let Some((name, _)) = object.0.iter().find(|(_, value)| holds_nul(value)) {
        return Err(nul(name));
    }
    read(object.0.into_iter())
}

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(holds_nul),
        Value::Object(members) => members.values().any(holds_nul),
        _ => false,
    }
}

/// Returns the error of a member with a NUL character.
pub fn nul(name: &str) -> ActionError {
    let name: String = name.chars().filter(|character| *character != '\0').collect();
    ActionError::named(name, "must not contain a NUL character")
}

/// Parses the query of a URI. Parameters that `T` does not name are ignored.
///
/// # Errors
/// Those of [`of_object`].
pub fn of_query<T: DeserializeOwned>(query: &str) -> Result<T, ActionError> {
    let parameters = || form_urlencoded::parse(query.as_bytes());
    if let Some((name, _)) = parameters().find(|(_, text)| text.contains('\0')) {
        return Err(nul(&name));
    }
    read(parameters().map(|(name, text)| (name.into_owned(), Text(text))))
}

fn read<'q, T: DeserializeOwned, V: Deserializer<'q, Error = Error>>(
    members: impl Iterator<Item = (String, V)>,
) -> Result<T, ActionError> {
    T::deserialize(MapAccessDeserializer::new(Members { remaining: members, member: None }))
}

/// Deserialises a member that is an object. Serde alone would also accept an array of its fields' values.
pub(crate) fn object<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let members = serde_json::Map::deserialize(deserializer)?;
    serde_json::from_value(Value::Object(members)).map_err(D::Error::custom)
}

/// Like [`object`], for a member that may be null.
pub(crate) fn optional_object<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let Some(members) = Option::<serde_json::Map<String, Value>>::deserialize(deserializer)? else {
        return Ok(None);
    };
    serde_json::from_value(Value::Object(members)).map(Some).map_err(D::Error::custom)
}

/// Like [`object`], for a member that is a list of objects.
pub(crate) fn objects<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let list = Vec::<serde_json::Map<String, Value>>::deserialize(deserializer)?;
    let one = |members| serde_json::from_value(Value::Object(members)).map_err(D::Error::custom);
    list.into_iter().map(one).collect()
}

/// Members in their order, including duplicates, which the struct reports as errors.
struct Object(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// The members that are deserialised into a struct, and the one whose value is next.
struct Members<I, V> {
    remaining: I,
    member: Option<(String, V)>,
}

impl<'q, I, V> MapAccess<'q> for Members<I, V>
where
    I: Iterator<Item = (String, V)>,
    V: Deserializer<'q, Error = Error>,
{
    type Error = ActionError;

    fn next_key_seed<K: DeserializeSeed<'q>>(&mut self, seed: K) -> Result<Option<K::Value>, ActionError> {
        self.member = self.remaining.next();
        let Some((name, _)) = &self.member else { return Ok(None) };
        seed.deserialize(name.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'q>>(&mut self, seed: S) -> Result<S::Value, ActionError> {
        let (name, value) =
            self.member.take().ok_or_else(|| ActionError::custom("a value was read twice"))?;
        seed.deserialize(value).map_err(|error| of_member(name, &error.to_string()))
    }
}

impl serde::de::Error for ActionError {
    fn custom<T: fmt::Display>(why: T) -> Self {
        let why = why.to_string();
        ActionError::invalid(match expected(&why) {
            Some(kind) => format!("the body must be {kind}"),
            None => why,
        })
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        ActionError::field(field.to_owned(), reworded(&Error::unknown_field(field, known).to_string()))
    }

    fn missing_field(field: &'static str) -> Self {
        ActionError::named(field, "is missing")
    }

    fn duplicate_field(field: &'static str) -> Self {
        ActionError::named(field, "is given twice")
    }
}

/// The text of a parameter, which may represent a number.
struct Text<'q>(Cow<'q, str>);

macro_rules! parsed {
    ($($read:ident $visit:ident $expected:literal,)*) => {$(
        fn $read<V: Visitor<'q>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.0.parse() {
                Ok(value) => visitor.$visit(value),
                Err(_) => Err(Error::custom(concat!("invalid value: text, expected ", $expected))),
            }
        }
    )*};
}

impl<'q> Deserializer<'q> for Text<'q> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'q>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(&self.0)
    }

    fn deserialize_option<V: Visitor<'q>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'q>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'q>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self.0.as_ref().into_deserializer())
    }

    parsed! {
        deserialize_bool visit_bool "a boolean",
        deserialize_i32 visit_i32 "i32",
        deserialize_i64 visit_i64 "i64",
        deserialize_u8 visit_u8 "u8",
        deserialize_u16 visit_u16 "u16",
        deserialize_u32 visit_u32 "u32",
        deserialize_u64 visit_u64 "u64",
        deserialize_f64 visit_f64 "f64",
    }

    forward_to_deserialize_any! {
        <W: Visitor<'q>>
        i8 i16 i128 u128 f32 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

/// Turns Serde's message about the value of a member into an error without the value.
fn of_member(name: String, message: &str) -> ActionError {
    match expected(message) {
        Some(kind) => ActionError::named(name, format!("must be {kind}")),
        None => ActionError::inside(name, reworded(message)),
    }
}

/// Returns the kind of value that Serde expected, if its message is about that.
fn expected(message: &str) -> Option<Cow<'_, str>> {
    let is_about_a_kind = message.starts_with("invalid ") || message.starts_with("unknown variant ");
    message.rsplit_once(", expected ").filter(|_| is_about_a_kind).map(|(_, expected)| kind(expected))
}

/// Returns Serde's message about the members of an object in our words.
fn reworded(message: &str) -> String {
    if let Some(field) = message.strip_prefix("missing field ") {
        return format!("{field} is missing");
    }
    if let Some(field) = message.strip_prefix("duplicate field ") {
        return format!("{field} is given twice");
    }
    if !message.starts_with("unknown field ") {
        return message.to_owned();
    }
    match message.split_once("`, expected ") {
        Some((field, known)) => format!("{field}`: expected {known}"),
        None => format!("{}: expected none", message.trim_end_matches(", there are no fields")),
    }
}

/// Returns a readable name for Serde's name of a kind of value.
fn kind(expected: &str) -> Cow<'_, str> {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize" => {
            let signed = expected.starts_with('i');
            let bits = expected[1..].parse().unwrap_or(64_u32);
            let max = (1_u128 << (bits - u32::from(signed))) - 1;
            let min = if signed { format!("-{}", max + 1) } else { "0".into() };
            format!("a whole number from {min} to {max}").into()
        }
        "f32" | "f64" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a sequence" => "an array".into(),
        "a map" => "an object".into(),
        _ if expected.starts_with("struct ") => "an object".into(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Form {
        email: String,
        #[serde(default)]
        age: Option<u32>,
        #[serde(default)]
        tags: Vec<String>,
        #[serde(default)]
        colour: Option<Colour>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Colour {
        Red,
        Green,
        Blue,
    }

    fn form(body: &str) -> Result<Form, String> {
        of_object(body.as_bytes()).map_err(|error| error.to_string())
    }

    // Shows (Management): A NUL character is refused with 400 on both databases.
    #[test]
    fn a_nul_character_is_refused_in_every_field() {
        for body in [r#"{"email":"a\u0000@b"}"#, r#"{"email":"a@b","tags":["x","\u0000"]}"#] {
            assert!(form(body).unwrap_err().ends_with("` must not contain a NUL character"), "{body}");
        }
        assert_eq!(
            of_query::<Form>("email=a%00b").unwrap_err().to_string(),
            "`email` must not contain a NUL character"
        );
    }

    #[test]
    fn a_body_that_fits_is_read() {
        let read = form(r#"{"email":"a@b","age":7,"tags":["x"],"colour":"red"}"#).unwrap();
        let tags = vec!["x".to_owned()];
        assert_eq!(read, Form { email: "a@b".into(), age: Some(7), tags, colour: Some(Colour::Red) });
        assert_eq!(form(r#"{"email":"a@b","age":null}"#).unwrap().age, None);
    }

    #[test]
    fn the_error_for_an_invalid_body_names_the_member_and_the_reason() {
        for (body, text) in [
            ("", "the body is not JSON"),
            ("{\"email\":", "the body is not JSON"),
            ("{\"email\":\"a\"} x", "the body is not JSON"),
            ("[1]", "the body must be a JSON object"),
            ("null", "the body must be a JSON object"),
            ("{}", "`email` is missing"),
            ("{\"email\":\"a\",\"email\":\"b\"}", "`email` is given twice"),
            ("{\"email\":null}", "`email` must be a string"),
            ("{\"email\":12345}", "`email` must be a string"),
            (
                "{\"email\":\"a\",\"role\":1}",
                "unknown field `role`: expected one of `email`, `age`, `tags`, `colour`",
            ),
            ("{\"email\":\"a\",\"age\":-1}", "`age` must be a whole number from 0 to 4294967295"),
            ("{\"email\":\"a\",\"age\":1.5}", "`age` must be a whole number from 0 to 4294967295"),
            (
                "{\"email\":\"a\",\"age\":\", expected x\"}",
                "`age` must be a whole number from 0 to 4294967295",
            ),
            ("{\"email\":\"a\",\"tags\":{}}", "`tags` must be an array"),
            ("{\"email\":\"a\",\"tags\":[1]}", "`tags` must be a string"),
            ("{\"email\":\"a\",\"colour\":\"pink\"}", "`colour` must be one of `red`, `green`, `blue`"),
        ] {
            assert_eq!(form(body), Err(text.to_owned()), "{body}");
        }
    }

    #[derive(Debug, PartialEq, Default, Deserialize)]
    struct Query {
        period: Option<String>,
        limit: Option<u32>,
        #[serde(default)]
        all: bool,
    }

    #[test]
    fn a_query_returns_texts_and_numbers_and_ignores_more() {
        let read = of_query::<Query>("period=24%68&limit=5&utm=x&utm=y&all=true");
        assert_eq!(read.unwrap(), Query { period: Some("24h".into()), limit: Some(5), all: true });
        assert_eq!(of_query::<Query>("").unwrap(), Query::default());
        let wrong = |query| of_query::<Query>(query).unwrap_err().to_string();
        assert_eq!(wrong("limit=many"), "`limit` must be a whole number from 0 to 4294967295");
        assert_eq!(wrong("limit=1&limit=2"), "`limit` is given twice");
        assert_eq!(wrong("all=perhaps"), "`all` must be true or false");
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Outer {
        #[serde(deserialize_with = "object")]
        inner: Query,
    }

    #[test]
    fn a_member_that_is_an_object_is_not_written_as_an_array() {
        let read = |body: &str| of_object::<Outer>(body.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(read(r#"{"inner":{"limit":5}}"#).unwrap().inner.limit, Some(5));
        assert_eq!(read(r#"{"inner":["24h",5,true]}"#).unwrap_err(), "`inner` must be an object");
        assert_eq!(
            read(r#"{"inner":{"limit":-1}}"#).unwrap_err(),
            "`inner` must be a whole number from 0 to 4294967295"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reading_panic(text in "\\PC*") {
            let _ = form(&text);
            let _ = of_query::<Query>(&text);
        }

        #[test]
        fn errors_do_not_repeat_values(secret in "[0-9]{12}") {
            let sentence = form(&format!("{{\"email\":{secret}}}")).unwrap_err();
            prop_assert!(!sentence.contains(&secret));
        }
    }
}
