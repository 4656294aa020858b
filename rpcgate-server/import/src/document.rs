//! A source file as a tree of values, each with its position and with a mark once a reader has used it.

pub(super) mod toml;
pub(super) mod yaml;

use super::error::ImportError;
use super::position::Position;
use std::cell::Cell;

/// The maximum number of values of a file, including those that aliases repeat.
const MAX_VALUES: usize = 20_000;
const MAX_DEPTH: usize = 64;
/// The maximum number of characters of a path that are shown.
const MAX_PATH: usize = 200;

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: Position,
    /// The path in the tree, such as `projects[0].id`.
    pub(super) path: String,
    content: Content,
    used: Cell<bool>,
    settled: Cell<bool>,
}

/// The kinds of values. Numbers and booleans are texts, which their reader interprets.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Nothing,
    Text(String),
    List(Vec<Node>),
    Table(Vec<Field>),
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) at: Position,
    pub(super) key: String,
    pub(super) value: Node,
}

impl Node {
    fn new(at: Position, content: Content) -> Self {
        Node { at, path: String::new(), content, used: Cell::new(false), settled: Cell::new(false) }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.fields().iter().find(|field| field.key == key).map(|field| &field.value)
    }

    pub(super) fn at_keys(&self, keys: &[&str]) -> Option<&Node> {
        keys.iter().try_fold(self, |node, key| node.get(key))
    }

    pub(super) fn fields(&self) -> &[Field] {
        if let Content::Table(fields) = &self.content { fields } else { &[] }
    }

    pub(super) fn items(&self) -> &[Node] {
        if let Content::List(items) = &self.content { items } else { &[] }
    }

    pub(super) fn list(&self, key: &str) -> &[Node] {
        self.get(key).map_or(&[], Node::items)
    }

    /// Returns the items of the list at `key`, or the single table there.
    pub(super) fn list_or_table(&self, key: &str) -> &[Node] {
        match self.get(key) {
            Some(node) if node.is_table() => std::slice::from_ref(node),
            Some(node) => node.items(),
            None => &[],
        }
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.content, Content::List(_))
    }

    pub(super) fn is_table(&self) -> bool {
        matches!(self.content, Content::Table(_))
    }

    pub(super) fn is_nothing(&self) -> bool {
        matches!(self.content, Content::Nothing)
    }

    /// Returns the text without marking it as used.
    pub(super) fn peek(&self) -> Option<&str> {
        if let Content::Text(text) = &self.content { Some(text) } else { None }
    }

    /// Returns the text and marks it as used.
    pub(super) fn text(&self) -> Option<&str> {
        let text = self.peek()?;
        self.used.set(true);
        Some(text)
    }

    /// Returns the texts of a list, or the one text, and marks them as used.
    pub(super) fn texts(&self) -> Vec<&str> {
        match &self.content {
            Content::List(items) => items.iter().filter_map(Node::text).collect(),
            _ => self.text().into_iter().collect(),
        }
    }

    /// Marks this value and everything below it as used.
    pub(super) fn use_all(&self) {
        self.used.set(true);
        self.items().iter().for_each(Node::use_all);
        self.fields().iter().for_each(|field| field.value.use_all());
    }

    /// Marks this value and everything below it as settled: it has a note, or no effect in the source either.
    pub(super) fn settle(&self) {
        self.use_all();
        self.settled.set(true);
    }

    /// Reports whether this value, or one that contains it and from which the caller came, was settled.
    pub(super) fn is_settled(&self) -> bool {
        self.settled.get()
    }

    pub(super) fn settle_keys(&self, keys: &[&str]) {
        keys.iter().filter_map(|key| self.get(key)).for_each(Node::settle);
    }

    /// Marks the values at these keys as used. Other keys stay unmarked, so that they are noted.
    pub(super) fn use_keys(&self, keys: &[&str]) {
        keys.iter().filter_map(|key| self.get(key)).for_each(Node::use_all);
    }

    /// Reports whether this value, or any below it, is used.
    pub(super) fn is_used(&self) -> bool {
        self.used.get()
            || self.items().iter().any(Node::is_used)
            || self.fields().iter().any(|field| field.value.is_used())
    }

    pub(super) fn is_marked(&self) -> bool {
        self.used.get()
    }

    /// Returns the values in this list or table, in their order.
    pub(super) fn children(&self) -> impl Iterator<Item = &Node> {
        self.items().iter().chain(self.fields().iter().map(|field| &field.value))
    }

    /// Returns the value at these indices among the [`children`](Node::children) of its parents.
    pub(super) fn descendant_mut(&mut self, path: &[usize]) -> Option<&mut Node> {
        let Some((first, rest)) = path.split_first() else { return Some(self) };
        let below = match &mut self.content {
            Content::List(items) => items.get_mut(*first),
            Content::Table(fields) => fields.get_mut(*first).map(|field| &mut field.value),
            Content::Nothing | Content::Text(_) => None,
        };
        below?.descendant_mut(rest)
    }

    pub(super) fn set_text(&mut self, text: String) {
        self.content = Content::Text(text);
    }

    /// Removes all marks from this value and everything below it.
    pub(super) fn forget_uses(&self) {
        self.used.set(false);
        self.settled.set(false);
        self.children().for_each(Node::forget_uses);
    }

    /// Returns the number of values: this one and all below it.
    pub(super) fn count(&self) -> usize {
        self.children().map(Node::count).sum::<usize>() + 1
    }

    /// Assigns paths to this value and all below it.
    fn name(&mut self, path: &str) {
        path.clone_into(&mut self.path);
        match &mut self.content {
            Content::List(items) => {
                for (n, item) in items.iter_mut().enumerate() {
                    item.name(&shortened(&format!("{path}[{n}]")));
                }
            }
            Content::Table(fields) => {
                for field in fields {
                    let dot = if path.is_empty() { "" } else { "." };
                    let below = shortened(&format!("{path}{dot}{}", field.key));
                    field.value.name(&below);
                }
            }
            Content::Nothing | Content::Text(_) => {}
        }
    }

    fn extent(&self) -> (usize, usize) {
        let below = self.items().iter().chain(self.fields().iter().map(|field| &field.value));
        let (values, levels) = below.fold((0, 0), |(values, levels), node| {
            let (more, deep) = node.extent();
            (values + more, levels.max(deep))
        });
        (values + 1, levels + 1)
    }
}

/// Returns a path that may be printed: visible characters, and not too many.
fn shortened(path: &str) -> String {
    let shown: String = path.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let count = shown.chars().count();
    if count <= MAX_PATH {
        return shown;
    }
    format!("…{}", shown.chars().skip(count - MAX_PATH).collect::<String>())
}

/// The limits of a file's size in memory.
#[derive(Debug, Default)]
struct Extent {
    values: usize,
}

impl Extent {
    fn add(&mut self, values: usize, depth: usize, at: Position) -> Result<(), ImportError> {
        self.values += values;
        if self.values > MAX_VALUES {
            return Err(ImportError::syntax(at, format!("the file has more than {MAX_VALUES} values")));
        }
        if depth > MAX_DEPTH {
            return Err(ImportError::syntax(at, format!("values are nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(())
    }
}
