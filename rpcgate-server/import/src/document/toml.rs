//! Reads TOML as a tree.

use super::super::error::ImportError;
use super::super::position::Position;
use super::{Content, Extent, Field, Node};
use toml::de::{DeTable, DeValue};

/// Parses `text`.
///
/// # Errors
/// [`ImportError::Syntax`] with the place of the mistake.
pub(crate) fn parse(text: &str) -> Result<Node, ImportError> {
    let lines = LineStarts::new(text);
    let (root, problems) = DeTable::parse_recoverable(text);
    if let Some(problem) = problems.first() {
        let at = lines.position(problem.span().unwrap_or_default().start);
        return Err(ImportError::syntax(at, problem.message().to_owned()));
    }
    let mut extent = Extent::default();
    let mut root = table(&root.into_inner(), Position { line: 1, column: 1 }, 1, &lines, &mut extent)?;
    root.name("");
    Ok(root)
}

struct LineStarts<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> LineStarts<'t> {
    fn new(text: &'t str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        LineStarts { text, starts }
    }

    fn position(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or_default();
        let column = self.text.get(start..offset).map_or(0, |before| before.chars().count());
        Position { line, column: column + 1 }
    }
}

fn table(
    from: &DeTable<'_>,
    at: Position,
    depth: usize,
    lines: &LineStarts<'_>,
    extent: &mut Extent,
) -> Result<Node, ImportError> {
    extent.add(1, depth, at)?;
    let mut fields = Vec::with_capacity(from.len());
    for (key, value) in from.iter() {
        let at = lines.position(key.span().start);
        // The span of a table is that of its header; the span of its own key is more exact.
        let start = if value.get_ref().is_table() { key.span().start } else { value.span().start };
        let value = node(value.get_ref(), lines.position(start), depth + 1, lines, extent)?;
        fields.push(Field { at, key: key.get_ref().to_string(), value });
    }
    fields.sort_by_key(|field| field.at);
    Ok(Node::new(at, Content::Table(fields)))
}

fn node(
    from: &DeValue<'_>,
    at: Position,
    depth: usize,
    lines: &LineStarts<'_>,
    extent: &mut Extent,
) -> Result<Node, ImportError> {
    extent.add(1, depth, at)?;
    let text = match from {
        DeValue::Table(inner) => return table(inner, at, depth, lines, extent),
        DeValue::Array(items) => {
            let nodes = items.iter().map(|item| {
                node(item.get_ref(), lines.position(item.span().start), depth + 1, lines, extent)
            });
            return Ok(Node::new(at, Content::List(nodes.collect::<Result<_, _>>()?)));
        }
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => {
            let decimal = i128::from_str_radix(number.as_str(), number.radix()).ok();
            decimal.map_or_else(|| number.as_str().to_owned(), |number| number.to_string())
        }
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(yes) => yes.to_string(),
        DeValue::Datetime(moment) => moment.to_string(),
    };
    Ok(Node::new(at, Content::Text(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_positions_and_paths() {
        let root = parse("a = 0x10\n[b.c]\n\"é\" = [true, \"x\"]\n").unwrap();
        assert_eq!(root.get("a").unwrap().peek(), Some("16"));
        let items = root.at_keys(&["b", "c", "é"]).unwrap().items();
        assert_eq!((items[1].at, items[1].path.as_str()), (Position { line: 3, column: 14 }, "b.c.é[1]"));
        assert_eq!(items[0].peek(), Some("true"));
    }

    #[test]
    fn mistakes_have_their_line_and_column() {
        let error = parse("a = 1\nb = \n").unwrap_err().to_string();
        assert!(error.starts_with("2:"), "{error}");
        assert!(parse("a = 1\na = 2\n").unwrap_err().to_string().starts_with("2:1: "));
    }

    #[test]
    fn size_is_bounded() {
        let long = format!("a = [{}]\n", "1,".repeat(crate::document::MAX_VALUES));
        assert!(parse(&long).unwrap_err().to_string().ends_with("more than 20000 values"));
    }
}
