//! Values that have a name in the database and on the wire.

/// Writes a type as its `name`, and reads it back by searching `ALL`. The text says what kind of name is unknown then.
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
