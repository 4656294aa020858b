//! Writing of a configuration as TOML with masked secrets, for people.

use super::fields::{Fields, Listed, Names, Table};
use super::masking::Masking;
use super::problem::Problem;
use super::reading::Reading;
use super::toml_text::key;
use super::tree::Item;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Writer {
    path: String,
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
        write: impl FnOnce(&T, &Masking<'_>) -> Option<String>,
    ) {
        if let Some(value) = write(slot, &Masking::Plain) {
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
                // All chains exist anyway. Those without settings are omitted to keep the text short.
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
