//! One layer of configuration as a tree of values with their locations.

use super::problem::{ConfigError, ConfigLocation, Problem};
use std::collections::BTreeMap;
use std::sync::Arc;
use toml::de::{DeTable, DeValue};

#[derive(Debug)]
pub(super) struct Item {
    pub(super) location: ConfigLocation,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) location: ConfigLocation,
    pub(super) item: Item,
}

pub(super) type Table = BTreeMap<String, Entry>;

#[derive(Debug)]
pub(super) enum Value {
    /// A value from a variable or a flag. The key decides how it is parsed.
    Text(String),
    String(String),
    /// `None` for a number of more than 128 bits.
    Integer(Option<i128>),
    Float(f64),
    Boolean(bool),
    Moment(String),
    List(Vec<Item>),
    Table(Table),
}

impl Item {
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) | Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the type of the value, for error messages about values that may be or contain a secret.
    pub(super) const fn kind(&self) -> &'static str {
        match &self.value {
            Value::Text(_) | Value::String(_) => "a text",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::Boolean(_) => "true or false",
            Value::Moment(_) => "a moment",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// Returns the value for an error message. Not for secrets.
    pub(super) fn found(&self) -> String {
        match &self.value {
            Value::Text(text) | Value::String(text) => format!("{text:?}"),
            Value::Integer(Some(number)) => number.to_string(),
            Value::Integer(None) => "a number of more than 128 bits".into(),
            Value::Float(number) => number.to_string(),
            Value::Boolean(yes) => yes.to_string(),
            Value::Moment(text) => text.clone(),
            Value::List(_) | Value::Table(_) => self.kind().into(),
        }
    }
}

struct Lines<'a> {
    file: Arc<str>,
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(file: &str, text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Lines { file: file.into(), text, starts }
    }

    fn location(&self, offset: usize) -> ConfigLocation {
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or_default();
        let column = self.text.get(start..offset).map_or(0, |before| before.chars().count());
        let short = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        ConfigLocation::File { file: self.file.clone(), line: short(line), column: short(column + 1) }
    }
}

/// Returns the location of a key's value. A key below a value that is not a table has that value's location.
pub(super) fn location(root: &Table, key: &str) -> Option<ConfigLocation> {
    let (first, rest) = key.split_once('.').unwrap_or((key, ""));
    let entry = root.get(first)?;
    match &entry.item.value {
        Value::Table(table) if !rest.is_empty() => location(table, rest),
        _ => Some(entry.item.location.clone()),
    }
}

/// Parses a TOML text. Returns an empty tree after a syntax error, and the rest after a duplicate key.
pub(super) fn parse(file: &str, text: &str, errors: &mut Vec<ConfigError>) -> Table {
    let lines = Lines::new(file, text);
    let (root, problems) = DeTable::parse_recoverable(text);
    let mut is_complete = true;
    for problem in problems {
        let span = problem.span().unwrap_or_default();
        let location = lines.location(span.start);
        let problem = if problem.message() == "duplicate key" {
            Problem::Duplicate { key: text.get(span).unwrap_or_default().to_owned() }
        } else {
            is_complete = false;
            Problem::Syntax(problem.message().to_owned())
        };
        errors.push(ConfigError { location, problem });
    }
    if is_complete { table(&root.into_inner(), &lines) } else { Table::new() }
}

fn table(from: &DeTable<'_>, lines: &Lines<'_>) -> Table {
    from.iter()
        .map(|(key, value)| {
            let location = lines.location(key.span().start);
            // The span of a table is that of its header or first key. The span of its own key is more exact.
            let at = if value.get_ref().is_table() { key.span().start } else { value.span().start };
            (key.get_ref().to_string(), Entry { location, item: item(value.get_ref(), at, lines) })
        })
        .collect()
}

fn item(from: &DeValue<'_>, at: usize, lines: &Lines<'_>) -> Item {
    let value = match from {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => {
            Value::Integer(i128::from_str_radix(number.as_str(), number.radix()).ok())
        }
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(yes) => Value::Boolean(*yes),
        DeValue::Datetime(moment) => Value::Moment(moment.to_string()),
        DeValue::Array(items) => {
            Value::List(items.iter().map(|one| item(one.get_ref(), one.span().start, lines)).collect())
        }
        DeValue::Table(inner) => Value::Table(table(inner, lines)),
    };
    Item { location: lines.location(at), value }
}

/// Sets a text at `path`. `Err` if there is another value at `path` or above it, unless it may be `replaced`.
pub(super) fn insert(
    root: &mut Table,
    path: &[&str],
    text: &str,
    location: &ConfigLocation,
    replaced: bool,
) -> Result<(), ()> {
    let Some((key, rest)) = path.split_first() else {
        return Err(());
    };
    let entry =
        |value| Entry { location: location.clone(), item: Item { location: location.clone(), value } };
    if rest.is_empty() {
        if root.contains_key(*key) && !replaced {
            return Err(());
        }
        root.insert((*key).to_owned(), entry(Value::Text(text.to_owned())));
        return Ok(());
    }
    let next = root.entry((*key).to_owned()).or_insert_with(|| entry(Value::Table(Table::new())));
    match &mut next.item.value {
        Value::Table(table) => insert(table, rest, text, location, replaced),
        other if replaced => {
            let mut table = Table::new();
            let done = insert(&mut table, rest, text, location, replaced);
            *other = Value::Table(table);
            done
        }
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let mut errors = Vec::new();
        parse("f.toml", text, &mut errors);
        let mut texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        texts.sort();
        texts
    }

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let mut none = Vec::new();
        let root = parse("f", "# é\na = { \"é\" = 1, b = \"x\" }\n", &mut none);
        let Value::Table(inner) = &root["a"].item.value else { panic!("a table") };
        let ConfigLocation::File { line, column, .. } = inner["b"].location else { panic!("a file") };
        assert_eq!((line, column), (2, 16));
    }

    #[test]
    fn every_syntax_error_is_reported_and_a_duplicate_is_named() {
        assert_eq!(errors("a = 1\na = 2\n"), ["f.toml:2: a is given twice"]);
        assert_eq!(
            errors("a =\nb = 07:99\n[c\n"),
            [
                "f.toml:1: not valid TOML: string values must be quoted, expected literal string",
                "f.toml:2: not valid TOML: invalid time, expected minute between 00 and 59",
                "f.toml:3: not valid TOML: unclosed table, expected `]`"
            ]
        );
    }

    #[test]
    fn a_text_is_set_once() {
        let location = ConfigLocation::Env("X".into());
        let mut root = Table::new();
        assert_eq!(insert(&mut root, &["a", "b"], "1", &location, false), Ok(()));
        assert_eq!(insert(&mut root, &["a", "b"], "2", &location, false), Err(()));
        assert_eq!(insert(&mut root, &["a", "b", "c"], "2", &location, false), Err(()));
        assert_eq!(insert(&mut root, &["a", "b"], "2", &location, true), Ok(()));
    }
}
