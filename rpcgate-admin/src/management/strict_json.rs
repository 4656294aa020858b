//! Deserialises JSON objects and query strings into structs, with errors that name the member.

use serde::de::value::MapAccessDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::{Error, Value};
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

pub(crate) const MAX_BODY: usize = 64 << 10;

/// Parses a body that is a JSON object.
///
/// # Errors
/// The error for the user, with the name of the member. It does not repeat values, because they may be secrets.
pub(crate) fn of_object<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    let object = serde_json::from_slice::<Object>(body).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => "the body must be a JSON object".to_owned(),
        _ => "the body is not JSON".to_owned(),
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

fn nul(name: &str) -> String {
    format!("`{}` must not hold a NUL character", name.replace('\0', ""))
}

/// Parses the query of a URI. Parameters that `T` does not name are ignored.
///
/// # Errors
/// Those of [`of_object`].
pub(crate) fn of_query<T: DeserializeOwned>(query: &str) -> Result<T, String> {
    let parameters = || form_urlencoded::parse(query.as_bytes());
    if let Some((name, _)) = parameters().find(|(_, text)| text.contains('\0')) {
        return Err(nul(&name));
    }
    read(parameters().map(|(name, text)| (name.into_owned(), Text(text))))
}

fn read<'q, T: DeserializeOwned, V: Deserializer<'q, Error = Error>>(
    members: impl Iterator<Item = (String, V)>,
) -> Result<T, String> {
    let at = RefCell::default();
    let members = Members { remaining: members, value: None, at: &at };
    T::deserialize(MapAccessDeserializer::new(members))
        .map_err(|error| sentence(&at.borrow(), &error.to_string()))
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

/// The members that are deserialised into a struct. `at` names the one whose value is being read.
struct Members<'a, I, V> {
    remaining: I,
    value: Option<V>,
    at: &'a RefCell<String>,
}

impl<'q, I, V> MapAccess<'q> for Members<'_, I, V>
where
    I: Iterator<Item = (String, V)>,
    V: Deserializer<'q, Error = Error>,
{
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'q>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.at.borrow_mut().clear();
        let Some((name, value)) = self.remaining.next() else { return Ok(None) };
        self.value = Some(value);
        let key = seed.deserialize(name.as_str().into_deserializer())?;
        *self.at.borrow_mut() = name;
        Ok(Some(key))
    }

    fn next_value_seed<S: DeserializeSeed<'q>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let value = self.value.take().ok_or_else(|| Error::custom("a value was read twice"))?;
        seed.deserialize(value)
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

/// Turns Serde's message about the member `at` into a sentence without the value.
fn sentence(at: &str, error: &str) -> String {
    let expected = || error.rsplit_once(", expected ").map(|(_, expected)| expected);
    let subject = if at.is_empty() { "the body".to_owned() } else { format!("`{at}`") };
    let text = if let Some(field) = error.strip_prefix("missing field ") {
        format!("{field} is missing")
    } else if let Some(field) = error.strip_prefix("duplicate field ") {
        format!("{field} is given twice")
    } else if error.starts_with("unknown field ") {
        let field = error.split('`').nth(1).unwrap_or_default();
        match error.split_once("`, expected ").map(|(_, known)| known) {
            Some(known) => format!("unknown field `{field}`: expected {known}"),
            None => format!("unknown field `{field}`: expected none"),
        }
    } else if let Some(expected) =
        expected().filter(|_| error.starts_with("invalid ") || error.starts_with("unknown variant "))
    {
        return format!("{subject} must be {}", kind(expected));
    } else {
        error.to_owned()
    };
    // Serde reports a duplicate at the member itself.
    let is_about_itself = at.is_empty() || text.starts_with(&format!("`{at}` is "));
    if is_about_itself { text } else { format!("{subject}: {text}") }
}

/// Returns a readable name for Serde's name of a kind of value.
fn kind(expected: &str) -> Cow<'_, str> {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize" => {
            let (signed, bits) = (expected.starts_with('i'), expected[1..].parse().unwrap_or(64_u32));
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
        of_object(body.as_bytes())
    }

    // Shows (Management): A NUL character is refused with 400 on both databases.
    #[test]
    fn a_nul_character_is_refused_in_every_field() {
        for body in [r#"{"email":"a\u0000@b"}"#, r#"{"email":"a@b","tags":["x","\u0000"]}"#] {
            assert!(form(body).unwrap_err().ends_with("` must not hold a NUL character"), "{body}");
        }
        assert_eq!(of_query::<Form>("email=a%00b").unwrap_err(), "`email` must not hold a NUL character");
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
        assert_eq!(read, Ok(Query { period: Some("24h".into()), limit: Some(5), all: true }));
        assert_eq!(of_query::<Query>(""), Ok(Query::default()));
        let wrong = |query| of_query::<Query>(query).unwrap_err();
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
        let read = |body: &str| of_object::<Outer>(body.as_bytes());
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
