//! Filling of tables from layers of values, where later layers override earlier ones, and collection of mistakes.

use super::fields::{Fields, Listed, Names, Table};
use super::masking::Masking;
use super::nearest::{near_name, nearest};
use super::problem::{ConfigLocation, Problem};
use super::reading::Reading;
use super::tree::{self, Entry, Item, Value};
use super::value::items;
use super::{PREFIX, RESERVED};
use std::collections::BTreeMap;

impl Reading<'_> {
    /// Reads a table that may be spread over `layers`.
    pub(super) fn table<T: Table>(&mut self, layers: Vec<&tree::Table>, slot: &mut T) {
        let mut reader = Reader { layers, known: Vec::new(), reading: self };
        slot.fields(&mut reader);
        reader.finish();
    }
}

struct Reader<'a, 'i> {
    /// Lowest first.
    layers: Vec<&'a tree::Table>,
    known: Vec<&'static str>,
    reading: &'a mut Reading<'i>,
}

impl<'a> Reader<'a, '_> {
    fn entries(&self, key: &str) -> Vec<&'a Entry> {
        self.layers.iter().filter_map(|layer| layer.get(key)).collect()
    }

    /// Returns the tables at `entries`, and reports other values.
    fn tables(reading: &mut Reading<'_>, entries: Vec<&'a Entry>) -> Vec<&'a tree::Table> {
        let mut tables = Vec::new();
        for entry in entries {
            reading.here(&entry.location);
            match &entry.item.value {
                Value::Table(table) => tables.push(table),
                _ => {
                    let _: Option<()> = reading.unfit(&entry.item, "a table");
                }
            }
        }
        tables
    }

    fn finish(self) {
        let Reader { layers, known, reading } = self;
        let reserved = if reading.path.is_empty() { &RESERVED[..] } else { &[] };
        for (key, entry) in layers.iter().flat_map(|layer| layer.iter()) {
            if known.contains(&key.as_str()) {
                continue;
            }
            let before = if reading.path.is_empty() { String::new() } else { format!("{}.", reading.path) };
            // An unknown variable may be a misspelling of a reserved one.
            let others = match (&entry.location, &entry.item.value) {
                (ConfigLocation::Env(_), Value::Text(_)) => reserved,
                _ => &[],
            };
            let near = nearest(key, known.iter().chain(others).copied());
            for (location, rest) in givers(entry) {
                let nearest = near.map(|near| format!("{before}{near}{rest}"));
                let problem = match location {
                    ConfigLocation::Env(_) => Problem::UnknownVariable {
                        nearest: nearest
                            .map(|path| format!("{PREFIX}{}", path.to_uppercase().replace('.', "__"))),
                    },
                    _ => Problem::UnknownKey { key: format!("{before}{key}{rest}"), nearest },
                };
                reading.report(location, problem);
            }
        }
    }
}

/// Returns the variables or flags that set the values under `entry`, each with its path from there; in a file, the key.
fn givers(entry: &Entry) -> Vec<(ConfigLocation, String)> {
    fn walk(entry: &Entry, path: &str, out: &mut Vec<(ConfigLocation, String)>) {
        match &entry.item.value {
            Value::Table(table) => {
                table.iter().for_each(|(key, entry)| walk(entry, &format!("{path}.{key}"), out));
            }
            _ => out.push((entry.location.clone(), path.to_owned())),
        }
    }
    if matches!(entry.location, ConfigLocation::File { .. }) {
        return vec![(entry.location.clone(), String::new())];
    }
    let mut out = Vec::new();
    walk(entry, "", &mut out);
    out
}

impl Fields for Reader<'_, '_> {
    fn leaf<T>(
        &mut self,
        key: &'static str,
        slot: &mut T,
        read: impl FnOnce(&Item, &mut Reading<'_>) -> Option<T>,
        _: impl FnOnce(&T, &Masking<'_>) -> Option<String>,
    ) {
        self.known.push(key);
        if let Some(entry) = self.entries(key).pop() {
            let value = self.reading.under(key, |r| {
                r.here(&entry.item.location);
                read(&entry.item, r)
            });
            if let Some(value) = value {
                *slot = value;
            }
        }
    }

    fn table<T: Table>(&mut self, key: &'static str, slot: &mut T) {
        self.known.push(key);
        let entries = self.entries(key);
        self.reading.under(key, |r| {
            let layers = Self::tables(r, entries);
            r.table(layers, slot);
        });
    }

    fn named<T: Table + Default + PartialEq>(
        &mut self,
        key: &'static str,
        slot: &mut BTreeMap<String, T>,
        names: Names,
    ) {
        self.known.push(key);
        let entries = self.entries(key);
        self.reading.under(key, |r| {
            let mut heads: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
            for (name, entry) in Self::tables(r, entries).into_iter().flatten() {
                heads.entry(name).or_default().push(entry);
            }
            if names == Names::Chains {
                slot.extend(r.chains.iter().map(|chain| ((*chain).to_owned(), T::default())));
            }
            for (name, entries) in heads {
                if let Some(problem) = refuse_name(name, names, r) {
                    for (location, _) in entries.into_iter().flat_map(givers) {
                        r.report(location, problem.clone());
                    }
                    continue;
                }
                r.under(name, |r| {
                    let layers = Self::tables(r, entries);
                    if !layers.is_empty() {
                        r.table(layers, slot.entry(name.to_owned()).or_default());
                    }
                });
            }
        });
    }

    fn list<T: Listed>(&mut self, key: &'static str, slot: &mut Vec<T>) {
        let read = |item: &Item, r: &mut Reading<'_>| {
            items(item, r, "a list", |one, n, r| {
                r.under(&format!("[{n}]"), |r| {
                    r.here(&one.location);
                    let Value::Table(table) = &one.value else {
                        return T::from_text(one, r);
                    };
                    let before = r.errors.len();
                    let mut listed = T::default();
                    r.table(vec![table], &mut listed);
                    // A table with mistakes is omitted, because its missing values would be reported again.
                    (r.errors.len() == before).then_some(listed)
                })
            })
        };
        self.leaf(key, slot, read, |_, _| None);
    }

    fn wrong(&mut self, keys: &[&'static str], problem: impl FnOnce(String) -> Problem) {
        let paths: Vec<_> = keys.iter().map(|key| self.reading.under(key, |r| r.path.clone())).collect();
        let Some(first) = paths.first() else { return };
        let set = paths.iter().find(|path| self.reading.is_set(path)).unwrap_or(first);
        self.reading.wrong_at(set, problem(first.clone()));
    }
}

fn refuse_name(name: &str, names: Names, r: &Reading<'_>) -> Option<Problem> {
    match names {
        Names::Chains if r.chains.contains(&name) => None,
        Names::Chains => Some(Problem::UnknownName {
            key: r.path.clone(),
            kind: "chain",
            name: name.to_owned(),
            nearest: near_name(name, r.chains.iter().copied()),
        }),
        Names::Own => {
            let sound = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
            if (1..=64).contains(&name.len()) && name.bytes().all(sound) {
                return None;
            }
            let expected = "1 to 64 lower-case letters, digits, _ or -";
            Some(Problem::Invalid {
                key: r.path.clone(),
                why: format!("has a name that is not {expected}: {name:?}"),
            })
        }
    }
}
