//! The output of commands: columns and fields for users, or JSON for programs.

use serde::Serialize;
use std::io::{self, Write};

/// An object that a command prints, in the form of the API's answer.
pub(super) trait Printable: Serialize {
    /// The headings and widths of the columns of a list. The last one has no width, because its texts may be long.
    const COLUMNS: &'static [(&'static str, usize)];

    /// Returns the cells of the object's line in a list, one per column.
    fn cells(&self) -> Vec<String>;

    /// Returns all fields as names and values. A value of several lines is indented below its name.
    fn fields(&self) -> Vec<(&'static str, String)>;
}

pub(super) struct Printer<'p> {
    out: &'p mut dyn Write,
    json: bool,
    has_heading: bool,
}

impl<'p> Printer<'p> {
    pub(super) fn new(out: &'p mut dyn Write, json: bool) -> Self {
        Printer { out, json, has_heading: false }
    }

    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints one entry of a list. The headings precede the first.
    pub(super) fn entry<T: Printable>(&mut self, entry: &T) -> io::Result<()> {
        if self.json {
            return self.json(entry);
        }
        if !self.has_heading {
            self.has_heading = true;
            let headings: Vec<_> = T::COLUMNS.iter().map(|(heading, _)| (*heading).to_owned()).collect();
            self.line::<T>(&headings)?;
        }
        self.line::<T>(&entry.cells())
    }

    fn line<T: Printable>(&mut self, cells: &[String]) -> io::Result<()> {
        let mut line = String::new();
        for (cell, (_, width)) in cells.iter().zip(T::COLUMNS) {
            let cell = printable(cell);
            let blanks = width.saturating_sub(cell.chars().count());
            line.push_str(&cell);
            line.push_str(&" ".repeat(blanks + 2));
        }
        writeln!(self.out, "{}", line.trim_end())
    }

    pub(super) fn object<T: Printable>(&mut self, one: &T) -> io::Result<()> {
        if self.json {
            return self.json(one);
        }
        for (name, value) in one.fields() {
            let mut lines = value.lines();
            match (lines.next(), lines.next()) {
                (Some(line), None) => writeln!(self.out, "{name}: {}", printable(line))?,
                (None, _) => writeln!(self.out, "{name}: -")?,
                (Some(_), Some(_)) => {
                    writeln!(self.out, "{name}:")?;
                    for line in value.lines() {
                        writeln!(self.out, "  {}", printable(line))?;
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    pub(super) fn json(&mut self, object: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, object)?;
        writeln!(self.out)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns text from tenants without characters that control a terminal or change the direction of writing.
pub(super) fn printable(text: &str) -> String {
    let is_unsafe = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if is_unsafe(c) { '\u{fffd}' } else { c }).collect()
}

pub(super) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

pub(super) fn dollars(cents: u64) -> String {
    format!("{}.{:02} USD", cents / 100, cents % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Row(&'static str, &'static str);

    impl Printable for Row {
        const COLUMNS: &'static [(&'static str, usize)] = &[("ID", 4), ("NAME", 0)];

        fn cells(&self) -> Vec<String> {
            vec![self.0.into(), self.1.into()]
        }

        fn fields(&self) -> Vec<(&'static str, String)> {
            vec![("id", self.0.into()), ("name", self.1.into())]
        }
    }

    fn printed(json: bool, print: impl FnOnce(&mut Printer<'_>)) -> String {
        let mut out = Vec::new();
        print(&mut Printer::new(&mut out, json));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_list_has_its_headings_once_and_its_columns_below_each_other() {
        let rows = [Row("a", "Bank"), Row("b2", "Größe")];
        let list = |printer: &mut Printer<'_>| rows.iter().for_each(|row| printer.entry(row).unwrap());
        assert_eq!(printed(false, list), "ID    NAME\na     Bank\nb2    Größe\n");
        assert_eq!(printed(true, list), "[\"a\",\"Bank\"]\n[\"b2\",\"Größe\"]\n");
    }

    #[test]
    fn one_thing_is_printed_field_by_field() {
        let shown = |row: &Row| printed(false, |printer| printer.object(row).unwrap());
        assert_eq!(shown(&Row("a", "Bank")), "id: a\nname: Bank\n");
        assert_eq!(shown(&Row("", "one\ntwo")), "id: -\nname:\n  one\n  two\n");
    }

    #[test]
    fn text_of_tenants_cannot_control_the_terminal() {
        let hostile = Row("a", "\u{1b}[2J\u{202e}x\ty\u{61c}");
        let list = printed(false, |printer| printer.entry(&hostile).unwrap());
        assert!(list.ends_with("a     \u{fffd}[2J\u{fffd}x\u{fffd}y\u{fffd}\n"), "{list:?}");
        let whole = printed(false, |printer| printer.object(&hostile).unwrap());
        assert!(!whole.contains('\u{1b}') && !whole.contains('\u{202e}'), "{whole:?}");
        assert!(printed(true, |printer| printer.entry(&hostile).unwrap()).contains("\\u001b[2J"));
    }

    #[test]
    fn amounts_are_shown_in_dollars() {
        assert_eq!((dollars(5), dollars(1_190)), ("0.05 USD".into(), "11.90 USD".into()));
        assert_eq!((or_dash(Some(3)), or_dash(None::<u8>)), ("3".into(), "-".into()));
    }
}
