//! Values that have a name in the database and on the wire.

/// Implements `Display` by `name` and `FromStr` by searching `ALL`. The literal names the kind of value in errors.
macro_rules! named_values {
    ($type:ty, $what:literal) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = crate::UnknownName;

            fn from_str(text: &str) -> Result<Self, crate::UnknownName> {
                let found = Self::ALL.into_iter().find(|value| value.name() == text);
                found.ok_or(crate::UnknownName($what))
            }
        }
    };
}

pub(super) use named_values;
