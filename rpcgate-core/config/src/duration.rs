//! Durations as text: `250ms`, `30s`, `5m`, `1h`, `90d`.

use super::reading::Reading;
use super::tree::{Item, Value};
use std::time::Duration;

pub(super) const EXPECTED: &str = "a duration such as \"250ms\", \"30s\", \"5m\", \"1h\" or \"90d\"";

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Parses a text. A plain number is in seconds.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &text[..text.len() - unit.len()];
    let (_, millis) =
        UNITS.into_iter().find(|(name, _)| *name == if unit.is_empty() { "s" } else { unit })?;
    digits.parse::<u64>().ok()?.checked_mul(millis).map(Duration::from_millis)
}

/// Returns the shortest text for the same duration, rounded down to a millisecond.
pub(super) fn text(time: Duration) -> String {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let unit = UNITS.into_iter().find(|(_, size)| millis > 0 && millis.is_multiple_of(*size));
    unit.map_or_else(|| "0s".into(), |(name, size)| format!("{}{name}", millis / size))
}

pub(super) fn read(item: &Item, r: &mut Reading<'_>) -> Option<Duration> {
    let time = match &item.value {
        Value::Integer(Some(secs)) => u64::try_from(*secs).ok().map(Duration::from_secs),
        _ => item.text().and_then(parse),
    };
    time.or_else(|| r.unreadable(item, EXPECTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_read_and_write_the_same() {
        for (given, millis) in
            [("250ms", 250), ("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000), ("0s", 0)]
        {
            assert_eq!(parse(given), Some(Duration::from_millis(millis)), "{given}");
            assert_eq!(text(Duration::from_millis(millis)), given);
        }
        assert_eq!(text(Duration::from_secs(90)), "90s");
        assert_eq!(parse("15"), Some(Duration::from_secs(15)));
    }

    #[test]
    fn other_texts_are_not_durations() {
        for bad in [
            "",
            "s",
            "-1s",
            "1.5s",
            "1 s",
            "1S",
            "1h30m",
            "99999999999999999999d",
            "18446744073709551615d",
            "é",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
