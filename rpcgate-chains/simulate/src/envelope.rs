//! A reader of JSON-RPC requests that is as lenient as real nodes and keeps each id as written.

use super::json::Json;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) enum Body {
    Single(Request),
    Batch(Vec<Request>),
    Unreadable,
}

/// One JSON-RPC request, or a value that is not a request.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) object: bool,
    /// The id as written; `None` if absent.
    pub(crate) id: Option<String>,
    /// `method`, of any JSON type; null if absent.
    pub(crate) method: Value,
    /// `params`, of any JSON type; null if absent.
    pub(crate) params: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Json>,
}

impl Fault {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Fault { code, message: message.into(), data: None }
    }

    pub(crate) fn json(self) -> Json {
        let mut error = super::json::object! { "code": self.code, "message": self.message };
        if let Some(data) = self.data {
            error.put("data", data);
        }
        error
    }
}

impl Body {
    pub(crate) fn read(body: &[u8]) -> Self {
        let Ok(whole) = serde_json::from_slice::<&RawValue>(body) else {
            return Body::Unreadable;
        };
        if !whole.get().starts_with('[') {
            return Body::Single(Request::read(whole));
        }
        match serde_json::from_str::<Vec<&RawValue>>(whole.get()) {
            Ok(items) => Body::Batch(items.into_iter().map(Request::read).collect()),
            Err(_) => Body::Unreadable,
        }
    }
}

impl Request {
    fn read(raw: &RawValue) -> Self {
        let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(raw.get()) else {
            return Request::default();
        };
        let value = |name: &str| {
            let member = members.get(name)?;
            serde_json::from_str(member.get()).ok()
        };
        Request {
            object: true,
            id: members.get("id").map(|id| id.get().to_owned()),
            method: value("method").unwrap_or_default(),
            params: value("params").unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_their_bytes() {
        for id in ["0", "\"\"", "null", "9223372036854775807", "1e3", "-0", "{ \"a\":\t1 }", "\"\\u0041\""] {
            let text = format!("{{\"id\":{id},\"method\":\"m\"}}");
            let Body::Single(request) = Body::read(text.as_bytes()) else { panic!("{text}") };
            assert_eq!(request.id.as_deref(), Some(id));
        }
    }

    #[test]
    fn an_absent_id_is_not_a_null_id() {
        let Body::Single(request) = Body::read(b"{\"method\":\"m\"}") else { panic!() };
        assert_eq!(request.id, None);
    }

    #[test]
    fn a_value_that_is_not_a_request_is_not_mistaken_for_invalid_json() {
        assert!(matches!(Body::read(b"{nope"), Body::Unreadable));
        assert!(matches!(Body::read(b""), Body::Unreadable));
        assert!(matches!(Body::read(b"\xff"), Body::Unreadable));
        assert!(matches!(Body::read(b"1"), Body::Single(Request { object: false, .. })));
        assert!(matches!(Body::read(b" [1, {}]"), Body::Batch(items) if items.len() == 2 && items[1].object));
    }
}
