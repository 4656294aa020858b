//! The numbers of charts: grouped in text, short on axes, and with two decimals as coordinates.

use crate::filters;

/// Formats a count with its digits in groups of three: `245,372`.
pub(crate) fn grouped(count: u64) -> String {
    filters::grouped(count.into())
}

/// Formats a part of a whole in percent: `30.9 %`, `0.41 %`, `100 %`. The result is 0 if `whole` is 0, and a nonzero
/// part is never rounded to 0.
pub(crate) fn share(part: u64, whole: u64) -> String {
    let percent = if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 };
    let text = if percent == 0.0 {
        "0".to_owned()
    } else if percent < 0.005 {
        "under 0.01".to_owned()
    } else if percent < 1.0 {
        format!("{percent:.2}")
    } else {
        let text = format!("{percent:.1}");
        text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
    };
    format!("{text} %")
}

/// Formats a time in milliseconds: with one decimal below 10, without decimals from 10 on.
pub(crate) fn millis(value: f64) -> String {
    if value >= 10.0 || value == 0.0 { format!("{value:.0} ms") } else { format!("{value:.1} ms") }
}

/// Formats a number on an axis: `2.5`, `12k`, `1.2M`.
pub(super) fn short(value: f64) -> String {
    let (unit, name) = match value {
        ..1e3 => (1.0, ""),
        ..1e6 => (1e3, "k"),
        ..1e9 => (1e6, "M"),
        ..1e12 => (1e9, "G"),
        _ => (1e12, "T"),
    };
    format!("{}{name}", coordinate(value / unit))
}

/// Formats a coordinate with at most two decimals and no trailing zeros.
pub(super) fn coordinate(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_shares_have_more_decimals() {
        for (part, whole, text) in [
            (0, 0, "0 %"),
            (0, 5, "0 %"),
            (1, 1_000_000, "under 0.01 %"),
            (171, 41_248, "0.41 %"),
            (12_745, 41_248, "30.9 %"),
            (1, 2, "50 %"),
            (7, 7, "100 %"),
        ] {
            assert_eq!(share(part, whole), text);
        }
    }

    #[test]
    fn times_have_a_unit_and_counts_groups() {
        let texts = [0.0, 0.84, 9.96, 28.4].map(millis);
        assert_eq!(texts, ["0 ms", "0.8 ms", "10.0 ms", "28 ms"]);
        assert_eq!(grouped(1_245_372), "1,245,372");
    }

    #[test]
    fn axes_have_short_numbers() {
        for (value, text) in [
            (0.0, "0"),
            (2.5, "2.5"),
            (250.0, "250"),
            (1_000.0, "1k"),
            (12_500.0, "12.5k"),
            (2.5e6, "2.5M"),
            (1e9, "1G"),
            (5e13, "50T"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn coordinates_have_two_decimals_at_most() {
        for (value, text) in [(0.0, "0"), (-0.001, "0"), (33.333, "33.33"), (62.5, "62.5"), (100.0, "100")] {
            assert_eq!(coordinate(value), text);
        }
    }
}
