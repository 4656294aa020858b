//! Numbers as charts write them: grouped in text, short on axes, and with two decimals as coordinates.

/// A count with its digits in groups of three: `245,372`.
pub(in crate::management::page) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A part of a whole in percent, as people read it: `30.9 %`, `0.41 %`, `100 %`. Of nothing, it is 0.
pub(in crate::management::page) fn share(part: u64, whole: u64) -> String {
    let percent = if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 };
    let text = if percent == 0.0 {
        "0".to_owned()
    } else if percent < 1.0 {
        format!("{percent:.2}")
    } else {
        let text = format!("{percent:.1}");
        text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
    };
    format!("{text} %")
}

/// A time in milliseconds: whole ones from 10 on, one decimal below.
pub(in crate::management::page) fn millis(value: f64) -> String {
    if value >= 10.0 || value == 0.0 { format!("{value:.0} ms") } else { format!("{value:.1} ms") }
}

/// A number of bytes in units of 1,000: `1.5 MB`.
pub(in crate::management::page) fn bytes(count: u64) -> String {
    let (unit, name) = match count {
        0..1_000 => return format!("{count} B"),
        1_000..1_000_000 => (1e3, "kB"),
        1_000_000..1_000_000_000 => (1e6, "MB"),
        1_000_000_000..1_000_000_000_000 => (1e9, "GB"),
        _ => (1e12, "TB"),
    };
    format!("{:.1} {name}", count as f64 / unit)
}

/// A number on an axis: `2.5`, `12k`, `1.2M`.
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

/// A coordinate with at most two decimals and no needless zeros.
pub(super) fn coordinate(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts_are_grouped_from_the_right() {
        for (count, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (245_372, "245,372"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(grouped(count), text);
        }
    }

    #[test]
    fn shares_have_as_many_decimals_as_help() {
        for (part, whole, text) in [
            (0, 0, "0 %"),
            (0, 5, "0 %"),
            (171, 41_248, "0.41 %"),
            (12_745, 41_248, "30.9 %"),
            (1, 2, "50 %"),
            (7, 7, "100 %"),
        ] {
            assert_eq!(share(part, whole), text);
        }
    }

    #[test]
    fn times_and_bytes_have_a_unit() {
        assert_eq!((millis(0.0), millis(0.84), millis(28.4)), ("0 ms".into(), "0.8 ms".into(), "28 ms".into()));
        for (count, text) in [(999, "999 B"), (1_500, "1.5 kB"), (28_000_000, "28.0 MB"), (3_200_000_000, "3.2 GB")] {
            assert_eq!(bytes(count), text);
        }
        assert_eq!(bytes(u64::MAX), "18446744.1 TB");
    }

    #[test]
    fn axes_have_short_numbers() {
        for (value, text) in
            [(0.0, "0"), (2.5, "2.5"), (250.0, "250"), (1_000.0, "1k"), (12_500.0, "12.5k"), (2.5e6, "2.5M"), (1e9, "1G"), (5e13, "50T")]
        {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn coordinates_have_two_decimals_at_most() {
        for (value, text) in [(0.0, "0"), (-0.001, "0"), (33.333, "33.33"), (62.5, "62.5"), (100.0, "100")] {
            assert_eq!(coordinate(value), text);
        }
    }

    proptest! {
        #[test]
        fn a_grouped_count_reads_as_the_count(count: u64) {
            prop_assert_eq!(grouped(count).replace(',', "").parse(), Ok(count));
        }
    }
}
