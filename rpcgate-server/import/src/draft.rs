//! The new configuration under construction: tables in writing order, each value with its source line.

use super::GatewayChecks;
use super::document::Node;
use super::note::{NoteKind, Notes};
use super::position::Position;
use super::value::{self, Given, VariableForm};
use rpcgate_core::chain::ChainName;
use std::collections::{BTreeMap, BTreeSet};

/// A value of the new file. A secret is never one: it is a variable or a digest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum TomlValue {
    Text(String),
    Number(u64),
    Texts(Vec<String>),
    /// `{ env = "NAME" }`.
    Env(String),
    /// A table on one line.
    Pairs(Vec<(String, TomlValue)>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Holds {
    HttpUrl,
    WsUrl,
    GrpcUrl,
    RedisUrl,
    ApiKey,
    Word,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Assignment {
    pub(super) at: Position,
    pub(super) path: String,
    pub(super) key: String,
    pub(super) value: TomlValue,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Section {
    /// The header without brackets.
    pub(super) header: String,
    /// It is one of a list of tables.
    pub(super) repeated: bool,
    pub(super) at: Position,
    pub(super) path: String,
    /// A line above it.
    pub(super) comment: Option<String>,
    pub(super) assignments: Vec<Assignment>,
}

impl Section {
    pub(super) fn get(&self, key: &str) -> Option<&TomlValue> {
        self.assignments.iter().find(|one| one.key == key).map(|one| &one.value)
    }

    pub(super) fn set(&mut self, key: &str, value: TomlValue, from: &Node) {
        self.assignments.retain(|one| one.key != key);
        self.assignments.push(Assignment {
            at: from.at,
            path: from.path.clone(),
            key: key.to_owned(),
            value,
        });
    }
}

#[derive(Debug)]
pub(super) struct Draft {
    pub(super) checks: GatewayChecks,
    pub(super) form: VariableForm,
    pub(super) notes: Notes,
    pub(super) sections: Vec<Section>,
    pub(super) variables: BTreeMap<String, Holds>,
    names: BTreeSet<(&'static str, String)>,
}

impl Draft {
    pub(super) fn new(form: VariableForm, checks: GatewayChecks) -> Self {
        let notes = Notes::default();
        let sections = Vec::new();
        Draft { checks, form, notes, sections, variables: BTreeMap::new(), names: BTreeSet::new() }
    }

    /// Returns the table with this header and adds it if it is missing.
    pub(super) fn section(&mut self, header: &str, from: &Node) -> &mut Section {
        let found = self.sections.iter().position(|section| section.header == header && !section.repeated);
        let at = found.unwrap_or_else(|| {
            self.sections.push(Section {
                header: header.to_owned(),
                repeated: false,
                at: from.at,
                path: from.path.clone(),
                comment: None,
                assignments: Vec::new(),
            });
            self.sections.len() - 1
        });
        &mut self.sections[at]
    }

    pub(super) fn repeated(&mut self, header: String, from: &Node, comment: String) -> &mut Section {
        self.sections.push(Section {
            header,
            repeated: true,
            at: from.at,
            path: from.path.clone(),
            comment: Some(comment),
            assignments: Vec::new(),
        });
        let last = self.sections.len() - 1;
        &mut self.sections[last]
    }

    pub(super) fn get(&self, header: &str, key: &str) -> Option<&TomlValue> {
        self.sections.iter().find(|section| section.header == header && !section.repeated)?.get(key)
    }

    /// Sets a key. If it already has another value, that stays and a note is added.
    pub(super) fn set(&mut self, header: &str, key: &str, value: TomlValue, from: &Node) {
        match self.get(header, key) {
            Some(known) if *known == value => {}
            Some(_) => {
                let text =
                    format!("{header}.{key} has a value from another line already; rpcgate has one for all");
                self.notes.left_out(from, text);
            }
            None => self.section(header, from).set(key, value, from),
        }
    }

    pub(super) fn set_larger(&mut self, header: &str, key: &str, number: u64, from: &Node) {
        if !matches!(self.get(header, key), Some(TomlValue::Number(known)) if *known >= number) {
            self.section(header, from).set(key, TomlValue::Number(number), from);
        }
    }

    /// Returns the text of a setting that is no secret. A text with variables is left out, with a note.
    pub(super) fn plain(&mut self, node: Option<&Node>, ours: &str) -> Option<String> {
        let node = node?;
        match self.form.read(node.text()?) {
            Given::Text(text) => Some(text),
            Given::Variable(_) | Given::Mixed => {
                let text = format!("its value comes from the environment: write {ours} into the file");
                self.notes.left_out(node, text);
                None
            }
        }
    }

    /// Returns a name for people. A name from the environment is not known.
    pub(super) fn label(&self, node: Option<&Node>) -> Option<String> {
        match self.form.read(node?.text()?) {
            Given::Text(text) => Some(text),
            Given::Variable(_) | Given::Mixed => None,
        }
    }

    pub(super) fn number(&mut self, node: Option<&Node>, ours: &str) -> Option<u64> {
        let text = self.plain(node, ours)?;
        self.readable(value::number(&text), node, "a whole number")
    }

    pub(super) fn flag(&mut self, node: Option<&Node>, ours: &str) -> Option<bool> {
        let text = self.plain(node, ours)?;
        self.readable(value::flag(&text), node, "true or false")
    }

    /// Returns milliseconds; a plain number is counted in units of `unit` milliseconds.
    pub(super) fn millis(&mut self, node: Option<&Node>, ours: &str, unit: u64) -> Option<u64> {
        let text = self.plain(node, ours)?;
        let read = value::number(&text).and_then(|n| n.checked_mul(unit)).or_else(|| value::millis(&text));
        self.readable(read, node, "a duration")
    }

    pub(super) fn bytes(&mut self, node: Option<&Node>, ours: &str) -> Option<u64> {
        let text = self.plain(node, ours)?;
        self.readable(value::bytes(&text), node, "a size")
    }

    fn readable<T>(&mut self, read: Option<T>, node: Option<&Node>, wanted: &str) -> Option<T> {
        if let (None, Some(node)) = (&read, node) {
            self.notes.left_out(node, format!("it cannot be read as {wanted}"));
        }
        read
    }

    pub(super) fn variable(&mut self, name: String, holds: Holds) -> TomlValue {
        // A word may be anything, so a second use of the variable decides.
        let known = self.variables.entry(name.clone()).or_insert(holds);
        if *known == Holds::Word {
            *known = holds;
        }
        self.names.insert(("variable", name.clone()));
        TomlValue::Env(name)
    }

    /// Returns a reference to a new variable, whose name begins with `stem`, and notes with `text` that it must be set.
    pub(super) fn new_variable(&mut self, stem: &str, holds: Holds, from: &Node, text: &str) -> TomlValue {
        let stem: String = stem
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
            .take(60)
            .collect();
        let name = self.fresh("variable", &stem, '_');
        // The value is not copied, so nothing in the new file depends on it.
        if from.peek().is_some() {
            from.settle();
        }
        self.notes.add(NoteKind::ToSet, from.at, &from.path, format!("set {name} to {text}"));
        self.variables.insert(name.clone(), holds);
        TomlValue::Env(name)
    }

    /// Returns an unused name of this kind: `stem`, or `stem` with a number.
    pub(super) fn fresh(&mut self, kind: &'static str, stem: &str, between: char) -> String {
        let mut name = stem.to_owned();
        let mut n = 1;
        while !self.names.insert((kind, name.clone())) {
            n += 1;
            name = format!("{stem}{between}{n}");
        }
        name
    }

    /// Returns the value of a secret word: a password, or the value of a header.
    pub(super) fn secret(&mut self, node: &Node, stem: &str, what: &str) -> Option<TomlValue> {
        let text = node.text()?.to_owned();
        Some(match self.form.read(&text) {
            Given::Variable(name) => self.variable(name, Holds::Word),
            Given::Text(_) => {
                let text = format!("{what} of this line, which is not copied");
                self.new_variable(stem, Holds::Word, node, &text)
            }
            Given::Mixed => {
                let text = format!("{what} of this line, with its variables replaced");
                self.new_variable(stem, Holds::Word, node, &text)
            }
        })
    }
}

pub(super) fn duration(millis: u64) -> TomlValue {
    TomlValue::Text(if millis.is_multiple_of(1_000) {
        format!("{}s", millis / 1_000)
    } else {
        format!("{millis}ms")
    })
}

pub(super) fn chain_header(chain: ChainName) -> String {
    format!("chains.{}", chain.as_str())
}

/// Returns a name for a table: lower case letters, digits and dashes.
pub(super) fn table_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars().take(60) {
        if c.is_ascii_alphanumeric() {
            name.push(c.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    let name = name.trim_end_matches('-');
    if name.is_empty() { "imported".to_owned() } else { name.to_owned() }
}
