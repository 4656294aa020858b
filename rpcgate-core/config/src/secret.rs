//! Values that no log, error or printout may show.

use super::masking::{MASK, Masking, is_mask};
use super::reading::Reading;
use super::toml_text::quote;
use super::tree::{Item, Value as RawValue};
use super::value::Value;
use std::fmt;
use subtle::ConstantTimeEq;

/// The maximum number of former secrets: a second rotation may begin before the first is over.
pub(super) const MOST_FORMER: usize = 3;

/// A secret text, inline or as `{ file = "path" }` (without line ends at its end) or `{ env = "NAME" }`. `Display` and
/// `Debug` write `***`.
#[derive(Clone)]
pub struct Secret(Box<str>);

impl Secret {
    /// Creates a secret with this text.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Secret(text.into())
    }

    /// Returns the text.
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub(super) fn read(item: &Item, r: &mut Reading<'_>, least: usize) -> Option<Option<Self>> {
        if matches!(&item.value, RawValue::Text(text) if text.is_empty()) {
            return Some(None);
        }
        let (text, _) = text(item, r)?;
        if text.len() < least {
            return r.invalid(item, format!("must have at least {least} bytes, found {}", text.len()));
        }
        Some(Some(Secret(text.into())))
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Value for Secret {
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        text(item, r).map(|(text, _)| Secret::new(text))
    }

    fn write(&self, masking: &Masking<'_>) -> Option<String> {
        Some(quote(&masking.of(&self.0)))
    }
}

/// Returns the secret in a file or standard input, without a byte order mark (Windows) and the line end of editors.
///
/// ```
/// assert_eq!(rpcgate_config::secret_of("\u{feff}hunter2\r\n"), "hunter2");
/// ```
pub fn secret_of(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text).trim_end_matches(['\r', '\n'])
}

/// Returns the text of a secret, and whether it was stored outside of the configuration.
pub(super) fn text(item: &Item, r: &mut Reading<'_>) -> Option<(String, bool)> {
    let inline = item.text();
    if inline.is_some_and(is_mask) {
        return r.invalid(item, "is masked: *** stands for a secret that was left out");
    }
    if let Some(text) = inline {
        return Some((text.to_owned(), false));
    }
    if let RawValue::Table(table) = &item.value
        && table.len() == 1
        && let Some((key, entry)) = table.iter().next()
        && let Some(name) = entry.item.text()
    {
        let found = match key.as_str() {
            "file" => {
                (r.secret_file)(name).map_err(|why| format!("cannot be read from file {name:?}: {why}"))
            }
            "env" => {
                r.variable(name).ok_or_else(|| format!("wants environment variable {name}, which is not set"))
            }
            _ => return kinds(item, r),
        };
        return match found {
            Ok(text) => Some((secret_of(&text).to_owned(), true)),
            Err(why) => r.invalid(&entry.item, why),
        };
    }
    kinds(item, r)
}

fn kinds<T>(item: &Item, r: &mut Reading<'_>) -> Option<T> {
    r.unfit(item, "a text, { file = \"…\" } or { env = \"…\" }")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Keys): Only the visible part of a secret is ever shown.
    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn secrets_compare_by_their_text() {
        assert_eq!(Secret::new("a"), Secret::new("a"));
        assert_ne!(Secret::new("a"), Secret::new("b"));
        assert_ne!(Secret::new("a"), Secret::new("aa"));
    }
}
