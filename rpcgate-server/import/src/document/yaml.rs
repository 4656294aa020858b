//! Reads YAML, JSON included, as a tree.

use super::super::error::ImportError;
use super::super::position::Position;
use super::{Content, Extent, Field, Node};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle};
use std::collections::BTreeMap;

/// The key that merges the given tables into its own.
const MERGE: &str = "<<";

/// Parses the only document in `text`.
///
/// # Errors
/// [`ImportError::Syntax`] with the place of the mistake.
pub(crate) fn parse(text: &str) -> Result<Node, ImportError> {
    let mut parser = Parser::new_from_str(text.trim_start_matches('\u{feff}'));
    let mut builder = Builder::default();
    while let Some(event) = parser.next_event() {
        let (event, span) =
            event.map_err(|error| ImportError::syntax(position(*error.marker()), error.info().to_owned()))?;
        builder.take(event, position(span.start))?;
    }
    let mut root =
        builder.root.unwrap_or_else(|| Node::new(Position { line: 1, column: 1 }, Content::Nothing));
    root.name("");
    Ok(root)
}

fn position(marker: Marker) -> Position {
    Position { line: marker.line().max(1), column: marker.col() + 1 }
}

/// A list or table whose end has not come yet.
#[derive(Debug)]
enum Open {
    List(Vec<Node>),
    Table { fields: Vec<Field>, key: Option<(Position, String)> },
}

#[derive(Debug, Default)]
struct Builder {
    open: Vec<(Position, usize, Open)>,
    /// Finished values by the number of their anchor.
    anchors: BTreeMap<usize, Node>,
    extent: Extent,
    root: Option<Node>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, at: Position) -> Result<(), ImportError> {
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(ImportError::syntax(at, "a second document begins: import each on its own".into()))
            }
            Event::Scalar(text, style, anchor, _) => {
                let empty =
                    style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let content = if empty { Content::Nothing } else { Content::Text(text.into_owned()) };
                self.finish(Node::new(at, content), anchor)
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err(ImportError::syntax(
                        at,
                        "an alias stands for a value that contains it".into(),
                    ));
                };
                let (values, levels) = node.extent();
                self.extent.add(values, self.open.len() + levels, at)?;
                let node = node.clone();
                self.attach(node)
            }
            Event::SequenceStart(anchor, _) => self.open(at, anchor, Open::List(Vec::new())),
            Event::MappingStart(anchor, _) => {
                self.open(at, anchor, Open::Table { fields: Vec::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some((at, anchor, open)) = self.open.pop() else {
                    return Err(ImportError::syntax(at, "a list or table ends that has not begun".into()));
                };
                let content = match open {
                    Open::List(items) => Content::List(items),
                    Open::Table { fields, .. } => Content::Table(merged(fields)),
                };
                self.finish(Node::new(at, content), anchor)
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, at: Position, anchor: usize, open: Open) -> Result<(), ImportError> {
        self.open.push((at, anchor, open));
        self.extent.add(0, self.open.len(), at)
    }

    fn finish(&mut self, node: Node, anchor: usize) -> Result<(), ImportError> {
        self.extent.add(1, 0, node.at)?;
        if anchor > 0 {
            let (values, levels) = node.extent();
            self.extent.add(values, levels, node.at)?;
            self.anchors.insert(anchor, node.clone());
        }
        self.attach(node)
    }

    fn attach(&mut self, node: Node) -> Result<(), ImportError> {
        let at = node.at;
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some((_, _, Open::List(items))) => items.push(node),
            Some((_, _, Open::Table { fields, key })) => match key.take() {
                Some((at, key)) => fields.push(Field { at, key, value: node }),
                None => {
                    let Content::Text(name) = node.content else {
                        return Err(ImportError::syntax(at, "the key of a table must be a text".into()));
                    };
                    if name != MERGE && fields.iter().any(|field| field.key == name) {
                        return Err(ImportError::syntax(at, format!("the key {name:?} is given twice")));
                    }
                    *key = Some((at, name));
                }
            },
        }
        Ok(())
    }
}

/// Returns `fields` with the merged tables; a key of the table itself takes precedence.
fn merged(fields: Vec<Field>) -> Vec<Field> {
    let (merges, mut own): (Vec<_>, Vec<_>) = fields.into_iter().partition(|field| field.key == MERGE);
    for merge in merges {
        let tables = match merge.value.content {
            Content::List(items) => items,
            _ => vec![merge.value],
        };
        for table in tables {
            let Content::Table(fields) = table.content else { continue };
            for field in fields {
                if own.iter().all(|known| known.key != field.key) {
                    own.push(field);
                }
            }
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use super::super::{MAX_DEPTH, MAX_VALUES};
    use super::*;

    fn error(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn values_have_their_positions_and_paths() {
        let root = parse("# é\na:\n  - b: 1\n    é: \"x\"\n").unwrap();
        let item = &root.list("a")[0];
        let value = item.get("é").unwrap();
        assert_eq!((value.at, value.path.as_str()), (Position { line: 4, column: 8 }, "a[0].é"));
        assert_eq!(value.text(), Some("x"));
        assert!(root.is_used() && !item.get("b").unwrap().is_used());
    }

    #[test]
    fn null_is_nothing_unless_it_is_quoted() {
        let root = parse("a: ~\nb:\nc: null\nd: \"null\"\n").unwrap();
        assert!(["a", "b", "c"].iter().all(|key| root.get(key).unwrap().is_nothing()));
        assert_eq!(root.get("d").unwrap().peek(), Some("null"));
    }

    #[test]
    fn aliases_and_merged_tables_are_resolved() {
        let root = parse("x: &x { a: 1, b: 2 }\ny:\n  <<: *x\n  b: 3\nz: [*x]\n").unwrap();
        let y = root.get("y").unwrap();
        assert_eq!((y.get("a").unwrap().peek(), y.get("b").unwrap().peek()), (Some("1"), Some("3")));
        assert_eq!(root.list("z")[0].get("a").unwrap().path, "z[0].a");
    }

    #[test]
    fn mistakes_have_their_line_and_column() {
        assert!(error("a: 1\nb: [1, 2\nc: 3\n").contains(':'), "{}", error("a: [1\nb"));
        assert_eq!(error("a: 1\na: 2\n"), "2:1: the key \"a\" is given twice");
        assert_eq!(error("? [a]\n: b\n"), "1:3: the key of a table must be a text");
        assert_eq!(error("a: &a [*a]\n"), "1:8: an alias stands for a value that contains it");
        assert_eq!(error("a: 1\n---\nb: 2\n"), "2:1: a second document begins: import each on its own");
    }

    // Shows (Import and transfer).
    #[test]
    fn size_and_depth_are_bounded() {
        let long = format!("[{}]", "1,".repeat(MAX_VALUES));
        assert!(error(&long).ends_with("more than 20000 values"));
        let deep = format!("{}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
        assert!(error(&deep).ends_with("deeper than 64 levels"));
        let mut bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n".to_owned();
        for n in 1..20 {
            let all = vec![format!("*a{}", n - 1); 9].join(", ");
            bomb.push_str(&format!("a{n}: &a{n} [{all}]\n"));
        }
        assert!(error(&bomb).ends_with("more than 20000 values"));
    }
}
