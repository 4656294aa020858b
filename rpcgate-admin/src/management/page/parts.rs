//! The parts of pages that macros draw and that need more than a text.

use super::filters::grouped;

/// A bar that shows how much of a limit is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LimitMeter {
    pub(crate) label: String,
    pub(crate) used: u64,
    pub(crate) limit: Option<u64>,
    /// A second line: what happens next.
    pub(crate) hint: Option<String>,
}

impl LimitMeter {
    /// A bar for `used` of `limit`.
    pub(crate) fn new(label: impl Into<String>, used: u64, limit: Option<u64>) -> Self {
        LimitMeter { label: label.into(), used, limit, hint: None }
    }

    /// The same with a second line.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Tenths of a percent, at most 1,000.
    fn permille(&self) -> u64 {
        let used = u128::from(self.used) * 1_000;
        match self.limit {
            // A new tenant without keys may make no requests yet, and has made none.
            _ if self.used == 0 => 0,
            None => 0,
            Some(0) => 1_000,
            Some(limit) => (used / u128::from(limit)).min(1_000) as u64,
        }
    }

    /// Whole percent, at most 100.
    pub(crate) fn percent(&self) -> u64 {
        self.permille() / 10
    }

    /// The width of the bar, as in `86.2%`.
    pub(crate) fn width(&self) -> String {
        format!("{}.{}%", self.permille() / 10, self.permille() % 10)
    }

    /// The class of the bar: `warn` from 80 %, `bad` at the limit.
    pub(crate) fn tone(&self) -> &'static str {
        match self.permille() {
            0..800 => "",
            800..1_000 => "warn",
            _ => "bad",
        }
    }

    /// The used part, with its digits in groups.
    pub(crate) fn used_text(&self) -> String {
        grouped(self.used.into())
    }

    /// The limit, with its digits in groups.
    pub(crate) fn limit_text(&self) -> Option<String> {
        self.limit.map(|limit| grouped(limit.into()))
    }
}

/// The links at the foot of a list: addresses below the root.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PageLinks {
    /// `1 to 20 of 50`; lists with a cursor say nothing.
    pub(crate) summary: String,
    pub(crate) newer: Option<String>,
    pub(crate) older: Option<String>,
}

/// A column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TableHead {
    pub(crate) label: &'static str,
    /// `num` for numbers, `p1` to `p3` for columns that go when the panel is narrow.
    pub(crate) class: &'static str,
    /// Whether the label is for screen readers alone.
    pub(crate) is_hidden: bool,
    /// The address, below the root, of the list in this order.
    pub(crate) sort: Option<String>,
    /// The order of the list if it is by this column: `ascending` or `descending`.
    pub(crate) sorted: Option<&'static str>,
}

impl TableHead {
    /// A column with a label.
    pub(crate) fn new(label: &'static str) -> Self {
        TableHead { label, class: "", is_hidden: false, sort: None, sorted: None }
    }

    /// A column of numbers.
    pub(crate) fn num(label: &'static str) -> Self {
        TableHead { class: "num", ..TableHead::new(label) }
    }

    /// A column whose label is for screen readers alone.
    pub(crate) fn hidden(label: &'static str) -> Self {
        TableHead { is_hidden: true, ..TableHead::new(label) }
    }

    /// The same with these classes.
    #[must_use]
    pub(crate) fn class(mut self, class: &'static str) -> Self {
        self.class = class;
        self
    }

    /// The same with a link that sorts by it.
    #[must_use]
    pub(crate) fn sort(mut self, path: impl Into<String>, sorted: Option<&'static str>) -> Self {
        self.sort = Some(path.into());
        self.sorted = sorted;
        self
    }
}

/// An entry of a `select`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    pub(crate) value: String,
    pub(crate) label: String,
}

impl Choice {
    /// An entry.
    pub(crate) fn new(value: impl Into<String>, label: impl Into<String>) -> Self {
        Choice { value: value.into(), label: label.into() }
    }

    /// Whether it is the chosen one.
    pub(crate) fn is_value(&self, chosen: &str) -> bool {
        self.value == chosen
    }

    /// Whether it is among the chosen ones.
    pub(crate) fn is_among(&self, chosen: &[String]) -> bool {
        chosen.contains(&self.value)
    }
}

/// Code in several languages, of which the reader sees one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CodeSnippet {
    /// The `name` of the choice: unique on the page.
    pub(crate) name: &'static str,
    pub(crate) variants: Vec<CodeVariant>,
}

/// Code in one language.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CodeVariant {
    /// The name of the language or library, as it is shown: `viem`.
    pub(crate) language: &'static str,
    pub(crate) code: String,
}

impl CodeSnippet {
    /// The variant that is shown first: the language that the reader has chosen last, or the first.
    pub(crate) fn shown(&self, language: &Option<String>) -> usize {
        let chosen = |variant: &CodeVariant| language.as_deref() == Some(variant.language);
        self.variants.iter().position(chosen).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_warns_from_80_percent_and_ends_at_the_limit() {
        for (used, limit, percent, width, tone) in [
            (0, Some(100), 0, "0.0%", ""),
            (79_999, Some(100_000), 79, "79.9%", ""),
            (80_000, Some(100_000), 80, "80.0%", "warn"),
            (86_200, Some(100_000), 86, "86.2%", "warn"),
            (100_012, Some(100_000), 100, "100.0%", "bad"),
            (0, Some(0), 0, "0.0%", ""),
            (1, Some(0), 100, "100.0%", "bad"),
            (u64::MAX, Some(u64::MAX), 100, "100.0%", "bad"),
            (5_228_140, None, 0, "0.0%", ""),
        ] {
            let meter = LimitMeter::new("Requests", used, limit);
            assert_eq!((meter.percent(), meter.width().as_str(), meter.tone()), (percent, width, tone));
        }
        assert_eq!(LimitMeter::new("", 1_000, Some(2_000_000)).limit_text().unwrap(), "2,000,000");
    }

    #[test]
    fn the_language_of_the_reader_is_shown_first() {
        let variant = |language| CodeVariant { language, code: String::new() };
        let snippet = CodeSnippet { name: "lang", variants: vec![variant("curl"), variant("viem")] };
        assert_eq!(snippet.shown(&Some("viem".into())), 1);
        assert_eq!((snippet.shown(&None), snippet.shown(&Some("cobol".into()))), (0, 0));
    }
}
