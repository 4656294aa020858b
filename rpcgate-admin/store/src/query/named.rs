//! Values that have a name in the database and on the wire.

/// Implements `Display` by `name` or another function, `FromStr` by searching `ALL`, and the traits of a column. The
/// literal names the kind of value in errors.
macro_rules! named_values {
    ($type:ident, $what:literal) => {
        named_values!($type, $what, name);
    };
    ($type:ident, $what:literal, $name:ident) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.$name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = crate::UnknownName;

            fn from_str(text: &str) -> Result<Self, crate::UnknownName> {
                let found = Self::ALL.into_iter().find(|value| value.$name() == text);
                found.ok_or(crate::UnknownName($what))
            }
        }

        rpcgate_core::sql_name!($type, $what, $type::$name);
    };
}

pub(crate) use named_values;

/// The error for a text that names no value of the type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no such {0}")]
pub struct UnknownName(pub &'static str);
