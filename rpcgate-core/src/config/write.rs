//! Writes a configuration as TOML with masked secrets.

use super::fields::{Fields, Listed, Names, Table};
use super::problem::Problem;
use super::reading::Reading;
use super::tree::Item;
use std::collections::BTreeMap;

/// `text` as a TOML string.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// `name` as a TOML key.
pub(super) fn key(name: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !name.is_empty() && name.bytes().all(bare) { name.to_owned() } else { quote(name) }
}

/// Writes tables one after the other.
#[derive(Debug, Default)]
pub(super) struct Writer {
    path: String,
    /// The header to print before the next value.
    header: Option<String>,
    pub(super) text: String,
}

impl Writer {
    fn under(&mut self, name: &str, always: bool, open: &str, close: &str, visit: impl FnOnce(&mut Self)) {
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        self.path.push_str(&key(name));
        self.header = Some(format!("{open}{}{close}\n", self.path));
        if always {
            self.head();
        }
        visit(self);
        self.header = None;
        self.path.truncate(before);
    }

    fn head(&mut self) {
        if let Some(header) = self.header.take() {
            if !self.text.is_empty() {
                self.text.push('\n');
            }
            self.text.push_str(&header);
        }
    }
}

impl Fields for Writer {
    fn leaf<T>(
        &mut self,
        key: &'static str,
        slot: &mut T,
        _: impl FnOnce(&Item, &mut Reading<'_>) -> Option<T>,
        write: impl FnOnce(&T) -> Option<String>,
    ) {
        if let Some(value) = write(slot) {
            self.head();
            self.text.push_str(&format!("{key} = {value}\n"));
        }
    }

    fn table<T: Table>(&mut self, key: &'static str, slot: &mut T) {
        self.under(key, false, "[", "]", |w| slot.fields(w));
    }

    fn named<T: Table + Default + PartialEq>(
        &mut self,
        key: &'static str,
        slot: &mut BTreeMap<String, T>,
        names: Names,
    ) {
        self.under(key, false, "[", "]", |w| {
            for (name, one) in slot {
                // All chains exist anyway; those without settings are left out to keep the text short.
                if names == Names::Own || *one != T::default() {
                    w.under(name, true, "[", "]", |w| one.fields(w));
                }
            }
        });
    }

    fn list<T: Listed>(&mut self, key: &'static str, slot: &mut Vec<T>) {
        for one in slot {
            self.under(key, true, "[[", "]]", |w| one.fields(w));
        }
    }

    fn wrong(&mut self, _: &[&'static str], _: impl FnOnce(String) -> Problem) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_texts_are_quoted_where_toml_requires_it() {
        assert_eq!(key("eth_call"), "eth_call");
        assert_eq!(key("queryNetwork/tip"), "\"queryNetwork/tip\"");
        assert_eq!(key(""), "\"\"");
        assert_eq!(quote("a\"\\\n"), "\"a\\\"\\\\\\u000A\"");
    }
}
