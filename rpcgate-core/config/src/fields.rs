//! The keys of tables, listed once for reading, printing and listing.

use super::masking::Masking;
use super::problem::Problem;
use super::reading::Reading;
use super::secret::Secret;
use super::tree::Item;
use super::url::Url;
use super::value::{Number, Value, Word, integer, number, span, word};
use super::{duration, size};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A table of the configuration, initialised with its defaults.
pub(super) trait Table {
    /// Visits every key: plain values first, then tables, in the order that TOML requires.
    fn fields<F: Fields>(&mut self, f: &mut F);
}

/// A table in a list that can be abbreviated as a text.
pub(super) trait Listed: Table + Default {
    /// Returns the table that the text `item` abbreviates.
    fn from_text(item: &Item, r: &mut Reading<'_>) -> Option<Self>;
}

/// The allowed names of the tables under a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Names {
    /// The known chains. All of them exist from the start.
    Chains,
    /// Names from the operator: lower-case letters, digits, `_` and `-`.
    Own,
}

pub(super) trait Fields {
    /// Visits a key with a value. `write` returns its TOML form; `None` omits it.
    fn leaf<T>(
        &mut self,
        key: &'static str,
        slot: &mut T,
        read: impl FnOnce(&Item, &mut Reading<'_>) -> Option<T>,
        write: impl FnOnce(&T, &Masking<'_>) -> Option<String>,
    );

    fn table<T: Table>(&mut self, key: &'static str, slot: &mut T);

    fn named<T: Table + Default + PartialEq>(
        &mut self,
        key: &'static str,
        slot: &mut BTreeMap<String, T>,
        names: Names,
    );

    fn list<T: Listed>(&mut self, key: &'static str, slot: &mut Vec<T>);

    /// Reports a broken rule about several values, which only the reader checks. It is located at the first given one
    /// of `keys`, or else at the table, with the path of the first key.
    fn wrong(&mut self, keys: &[&'static str], problem: impl FnOnce(String) -> Problem);

    /// Visits a value of a type with its own written form.
    fn value<T: Value>(&mut self, key: &'static str, slot: &mut T) {
        self.leaf(key, slot, T::read, T::write);
    }

    fn number<N: Number>(&mut self, key: &'static str, slot: &mut N, range: RangeInclusive<N>) {
        self.leaf(key, slot, |item, r| number(item, r, range), |n, _| Some(n.to_string()));
    }

    fn size(&mut self, key: &'static str, slot: &mut u64, range: RangeInclusive<u64>) {
        let read = |item: &Item, r: &mut Reading<'_>| {
            let bytes = match item.text() {
                Some(text) => size::parse(text).or_else(|| r.unreadable(item, size::EXPECTED))?,
                None => integer(item, r, size::EXPECTED)?,
            };
            span(item, r, bytes, &range, |bytes| size::text(*bytes))
        };
        self.leaf(key, slot, read, |bytes, _| Some(format!("{:?}", size::text(*bytes))));
    }

    /// Visits a duration. A plain number is in seconds.
    fn duration(&mut self, key: &'static str, slot: &mut Duration, range: RangeInclusive<Duration>) {
        let read = |item: &Item, r: &mut Reading<'_>| {
            let time = duration::read(item, r)?;
            span(item, r, time, &range, |time| duration::text(*time))
        };
        self.leaf(key, slot, read, |time, _| Some(format!("{:?}", duration::text(*time))));
    }

    fn word<W: Word>(&mut self, key: &'static str, slot: &mut W) {
        self.leaf(key, slot, word, |w, _| Some(format!("{:?}", w.text())));
    }

    /// Visits a secret of at least `least` bytes.
    fn secret(&mut self, key: &'static str, slot: &mut Option<Secret>, least: usize) {
        let read = |item: &Item, r: &mut Reading<'_>| Secret::read(item, r, least);
        self.leaf(key, slot, read, Option::write);
    }

    /// Visits at most `most` secrets of at least `least` bytes each.
    fn secrets(&mut self, key: &'static str, slot: &mut Vec<Secret>, least: usize, most: usize) {
        let read = |item: &Item, r: &mut Reading<'_>| {
            let secrets = Vec::<Secret>::read(item, r)?;
            if secrets.len() > most {
                return r.invalid(item, format!("must be at most {most} secrets, found {}", secrets.len()));
            }
            match secrets.iter().find(|secret| secret.expose().len() < least) {
                Some(short) => {
                    let found = short.expose().len();
                    r.invalid(item, format!("must have at least {least} bytes each, found {found}"))
                }
                None => Some(secrets),
            }
        };
        self.leaf(key, slot, read, |secrets, masking| {
            (!secrets.is_empty()).then(|| secrets.write(masking)).flatten()
        });
    }

    fn url(&mut self, key: &'static str, slot: &mut Option<Url>, schemes: &'static [&'static str]) {
        let read = |item: &Item, r: &mut Reading<'_>| match item.value {
            super::tree::Value::Text(ref text) if text.is_empty() => Some(None),
            _ => Url::read(item, r, schemes).map(Some),
        };
        self.leaf(key, slot, read, |url, masking| url.as_ref().map(|url| url.quoted(masking)));
    }
}

#[derive(Debug, Default)]
pub(super) struct Lister {
    path: String,
    pub(super) keys: Vec<String>,
}

impl Lister {
    fn at(&mut self, key: &str, visit: impl FnOnce(&mut Self)) {
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        visit(self);
        self.path.truncate(before);
    }
}

impl Fields for Lister {
    fn leaf<T>(
        &mut self,
        key: &'static str,
        _: &mut T,
        _: impl FnOnce(&Item, &mut Reading<'_>) -> Option<T>,
        _: impl FnOnce(&T, &Masking<'_>) -> Option<String>,
    ) {
        self.at(key, |l| l.keys.push(l.path.clone()));
    }

    fn table<T: Table>(&mut self, key: &'static str, slot: &mut T) {
        self.at(key, |l| slot.fields(l));
    }

    fn named<T: Table + Default + PartialEq>(
        &mut self,
        key: &'static str,
        _: &mut BTreeMap<String, T>,
        _: Names,
    ) {
        self.at(key, |l| l.at("*", |l| T::default().fields(l)));
    }

    fn list<T: Listed>(&mut self, key: &'static str, _: &mut Vec<T>) {
        self.at(key, |l| l.at("*", |l| T::default().fields(l)));
    }

    fn wrong(&mut self, _: &[&'static str], _: impl FnOnce(String) -> Problem) {}
}
