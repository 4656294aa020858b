//! Reading of values from a tree, and writing as TOML.

use super::masking::Masking;
use super::problem::Problem;
use super::reading::Reading;
use super::toml_text::key;
use super::tree::{Item, Value as RawValue};
use rpcgate_core::chain::OverBudget;
use rpcgate_core::plan::{BatchCounts, Tier};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;

pub(super) trait Value: Sized {
    /// Reads the value of `item`; `None` after reporting a mistake.
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self>;

    /// Returns the TOML text of this value, with secrets replaced by `masking`. `None`: nothing to write.
    fn write(&self, masking: &Masking<'_>) -> Option<String>;
}

pub(super) trait Number: Copy + PartialOrd + Display + TryFrom<u64> + Into<u64> {}

impl<N: Copy + PartialOrd + Display + TryFrom<u64> + Into<u64>> Number for N {}

/// A type with a word for each value.
pub(super) trait Word: Copy + PartialEq + 'static {
    const WORDS: &'static [(&'static str, Self)];

    fn text(self) -> &'static str {
        Self::WORDS.iter().find(|(_, value)| *value == self).map_or("", |(word, _)| word)
    }
}

impl Word for Tier {
    const WORDS: &'static [(&'static str, Self)] = &[
        (Tier::Free.name(), Tier::Free),
        (Tier::Standard.name(), Tier::Standard),
        (Tier::Premium.name(), Tier::Premium),
        (Tier::Enterprise.name(), Tier::Enterprise),
    ];
}

impl Word for BatchCounts {
    const WORDS: &'static [(&'static str, Self)] =
        &[("request", BatchCounts::Request), ("items", BatchCounts::Items)];
}

impl Word for OverBudget {
    const WORDS: &'static [(&'static str, Self)] =
        &[("refuse", OverBudget::Refuse), ("allow", OverBudget::Allow)];
}

pub(super) fn word<W: Word>(item: &Item, r: &mut Reading<'_>) -> Option<W> {
    let found = item.text().and_then(|text| W::WORDS.iter().find(|(word, _)| *word == text));
    found.map(|(_, value)| *value).or_else(|| {
        let words: Vec<_> = W::WORDS.iter().map(|(word, _)| format!("{word:?}")).collect();
        r.unreadable(item, &format!("one of {}", words.join(", ")))
    })
}

/// Reads a whole number of at least 0. A number that does not fit counts as the largest one.
pub(super) fn integer(item: &Item, r: &mut Reading<'_>, expected: &str) -> Option<u64> {
    let number = match &item.value {
        RawValue::Integer(number) => Some(number.unwrap_or(i128::MAX)),
        RawValue::Text(text) => text.parse::<i128>().ok(),
        _ => None,
    };
    match number {
        None => r.unreadable(item, expected),
        Some(number) if number < 0 => r.unreadable(item, &format!("{expected}, not below 0")),
        Some(number) => Some(u64::try_from(number).unwrap_or(u64::MAX)),
    }
}

pub(super) fn number<N: Number>(item: &Item, r: &mut Reading<'_>, range: RangeInclusive<N>) -> Option<N> {
    let wide = integer(item, r, "a whole number")?;
    let wide_range = (*range.start()).into()..=(*range.end()).into();
    N::try_from(span(item, r, wide, &wide_range, ToString::to_string)?).ok()
}

pub(super) fn span<T: PartialOrd>(
    item: &Item,
    r: &mut Reading<'_>,
    value: T,
    range: &RangeInclusive<T>,
    text: impl Fn(&T) -> String,
) -> Option<T> {
    if range.contains(&value) {
        return Some(value);
    }
    let low = text(range.start());
    let high = text(range.end());
    let found = item.found();
    r.wrong(item, |key| Problem::OutOfRange { key, low, high, found })
}

/// Reads the texts of a list, or the comma-separated parts of a text.
pub(super) fn items<T>(
    item: &Item,
    r: &mut Reading<'_>,
    expected: &str,
    mut each: impl FnMut(&Item, usize, &mut Reading<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let parts;
    let list = match &item.value {
        RawValue::List(list) => list,
        RawValue::Text(text) => {
            let texts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            parts = texts
                .map(|part| Item { location: item.location.clone(), value: RawValue::Text(part.to_owned()) })
                .collect::<Vec<_>>();
            &parts
        }
        _ => return r.unfit(item, expected),
    };
    // Reads all items, so that every mistake is reported.
    let read: Vec<_> = list.iter().enumerate().map(|(n, one)| each(one, n, r)).collect();
    read.into_iter().collect()
}

impl<T: Value> Value for Option<T> {
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        match &item.value {
            RawValue::Text(text) if text.is_empty() => Some(None),
            _ => T::read(item, r).map(Some),
        }
    }

    fn write(&self, masking: &Masking<'_>) -> Option<String> {
        self.as_ref().and_then(|value| value.write(masking))
    }
}

impl<T: Value> Value for Vec<T> {
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        items(item, r, "a list", |one, _, r| T::read(one, r))
    }

    fn write(&self, masking: &Masking<'_>) -> Option<String> {
        let items: Vec<_> = self.iter().filter_map(|value| value.write(masking)).collect();
        Some(format!("[{}]", items.join(", ")))
    }
}

impl<T: Value> Value for BTreeMap<String, T> {
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        const EXPECTED: &str = "a table of names and values";
        if let RawValue::Table(table) = &item.value {
            let read: Vec<_> = table
                .iter()
                .map(|(name, entry)| Some((name.clone(), r.under(name, |r| T::read(&entry.item, r))?)))
                .collect();
            return read.into_iter().collect();
        }
        if !matches!(item.value, RawValue::Text(_)) {
            return r.unfit(item, EXPECTED);
        }
        let pairs = items(item, r, EXPECTED, |one, _, r| {
            let pair = one.text().and_then(|text| text.split_once('='));
            let Some((name, value)) = pair else {
                return r.unreadable(one, "pairs such as method=15,other=75");
            };
            let value =
                Item { location: one.location.clone(), value: RawValue::Text(value.trim().to_owned()) };
            Some((name.trim().to_owned(), r.under(name.trim(), |r| T::read(&value, r))?))
        })?;
        Some(pairs.into_iter().collect())
    }

    fn write(&self, masking: &Masking<'_>) -> Option<String> {
        let pairs: Vec<_> = self
            .iter()
            .filter_map(|(name, value)| Some(format!("{} = {}", key(name), value.write(masking)?)))
            .collect();
        Some(if pairs.is_empty() { "{}".into() } else { format!("{{ {} }}", pairs.join(", ")) })
    }
}
