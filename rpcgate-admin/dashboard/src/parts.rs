//! The data of template macros that need more than a text.

use super::filters::grouped;

/// A bar that shows the used part of a limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LimitMeter {
    pub(crate) label: String,
    pub(crate) used: u64,
    pub(crate) limit: Option<u64>,
    /// A second line: what happens next.
    pub(crate) hint: Option<String>,
}

impl LimitMeter {
    pub(crate) fn new(label: impl Into<String>, used: u64, limit: Option<u64>) -> Self {
        LimitMeter { label: label.into(), used, limit, hint: None }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns tenths of a percent, at most 1,000.
    fn permille(&self) -> u64 {
        let used = u128::from(self.used) * 1_000;
        match self.limit {
            // A new tenant without keys has a limit of zero requests, and has made none.
            _ if self.used == 0 => 0,
            None => 0,
            Some(0) => 1_000,
            Some(limit) => (used / u128::from(limit)).min(1_000) as u64,
        }
    }

    /// Returns whole percent, at most 100.
    pub(crate) fn percent(&self) -> u64 {
        self.permille() / 10
    }

    /// Returns the width of the bar, as in `86.2%`.
    pub(crate) fn width(&self) -> String {
        format!("{}.{}%", self.permille() / 10, self.permille() % 10)
    }

    /// Returns the class of the bar: `warn` from 80 %, `bad` at the limit.
    pub(crate) fn tone(&self) -> &'static str {
        match self.permille() {
            0..800 => "",
            800..1_000 => "warn",
            _ => "bad",
        }
    }

    pub(crate) fn used_text(&self) -> String {
        grouped(self.used.into())
    }

    pub(crate) fn limit_text(&self) -> Option<String> {
        self.limit.map(|limit| grouped(limit.into()))
    }
}

/// The links at the foot of a list: addresses below the root.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PageLinks {
    /// For example `1 to 20 of 50`; empty for lists with a cursor.
    pub(crate) summary: String,
    pub(crate) newer: Option<String>,
    pub(crate) older: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TableHead {
    pub(crate) label: &'static str,
    /// `num` for numbers; `p1` to `p3` for columns that are hidden on narrow panels.
    pub(crate) class: &'static str,
    /// True if only screen readers get the label.
    pub(crate) is_hidden: bool,
    /// The address, below the root, of the list in this order.
    pub(crate) sort: Option<String>,
    /// The order if the list is sorted by this column: `ascending` or `descending`.
    pub(crate) sorted: Option<&'static str>,
}

impl TableHead {
    pub(crate) fn new(label: &'static str) -> Self {
        TableHead { label, class: "", is_hidden: false, sort: None, sorted: None }
    }

    pub(crate) fn num(label: &'static str) -> Self {
        TableHead { class: "num", ..TableHead::new(label) }
    }

    pub(crate) fn hidden(label: &'static str) -> Self {
        TableHead { is_hidden: true, ..TableHead::new(label) }
    }

    #[must_use]
    pub(crate) fn class(mut self, class: &'static str) -> Self {
        self.class = class;
        self
    }

    /// Adds a link that sorts by this column.
    #[must_use]
    pub(crate) fn sort(mut self, path: impl Into<String>, sorted: Option<&'static str>) -> Self {
        self.sort = Some(path.into());
        self.sorted = sorted;
        self
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    pub(crate) value: String,
    pub(crate) label: String,
}

impl Choice {
    pub(crate) fn new(value: impl Into<String>, label: impl Into<String>) -> Self {
        Choice { value: value.into(), label: label.into() }
    }

    pub(crate) fn is_value(&self, chosen: &str) -> bool {
        self.value == chosen
    }

    pub(crate) fn is_among(&self, chosen: &[String]) -> bool {
        chosen.contains(&self.value)
    }
}

/// Code in several languages. The reader sees one at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CodeSnippet {
    /// The `name` of the radio buttons: unique on the page.
    pub(crate) name: &'static str,
    pub(crate) variants: Vec<CodeVariant>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CodeVariant {
    /// The displayed name of the language or library: `viem`.
    pub(crate) language: &'static str,
    pub(crate) code: String,
}

impl CodeSnippet {
    /// Returns the index of the variant that is shown first: the reader's last choice, or the first.
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
