//! The values that filters compare: texts, and other JSON scalars as written.

use serde_json::{Number, Value};
use std::borrow::Cow;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Scalar {
    is_text: bool,
    text: Box<str>,
}

/// A value of an event, compared with those of filters.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ScalarRef<'v> {
    is_text: bool,
    text: Cow<'v, str>,
}

impl Scalar {
    pub(super) fn as_ref(&self) -> ScalarRef<'_> {
        ScalarRef { is_text: self.is_text, text: Cow::Borrowed(&self.text) }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        self.is_text.then_some(&*self.text)
    }

    pub(super) fn with_text(text: String) -> Self {
        Scalar { is_text: true, text: text.into_boxed_str() }
    }

    /// Converts a scalar; `None` for arrays and objects.
    pub(super) fn of(value: &Value) -> Option<Self> {
        ScalarRef::of(value)
            .map(|value| Scalar { is_text: value.is_text, text: value.text.into_owned().into_boxed_str() })
    }
}

impl<'v> ScalarRef<'v> {
    pub(super) fn text(text: &'v str) -> Self {
        ScalarRef { is_text: true, text: Cow::Borrowed(text) }
    }

    pub(super) fn number(number: &Number) -> Self {
        ScalarRef { is_text: false, text: Cow::Owned(number.to_string()) }
    }

    /// Converts a scalar; `None` for arrays and objects.
    pub(super) fn of(value: &'v Value) -> Option<Self> {
        Some(match value {
            Value::String(text) => ScalarRef::text(text),
            Value::Number(number) => ScalarRef { is_text: false, text: Cow::Owned(number.to_string()) },
            Value::Bool(true) => ScalarRef { is_text: false, text: Cow::Borrowed("true") },
            Value::Bool(false) => ScalarRef { is_text: false, text: Cow::Borrowed("false") },
            Value::Null => ScalarRef { is_text: false, text: Cow::Borrowed("null") },
            Value::Array(_) | Value::Object(_) => return None,
        })
    }
}
