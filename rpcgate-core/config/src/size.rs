//! Sizes in bytes as text: `100B`, `256KiB`, `5MiB`, `2GiB`.

pub(super) const EXPECTED: &str = "a size such as \"256KiB\" or \"5MiB\", or a number of bytes";

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Parses a text. A plain number is in bytes.
pub(super) fn parse(text: &str) -> Option<u64> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &text[..text.len() - unit.len()];
    let (_, size) = UNITS.into_iter().find(|(name, _)| *name == if unit.is_empty() { "B" } else { unit })?;
    digits.parse::<u64>().ok()?.checked_mul(size)
}

/// Returns the shortest text for the same size.
pub(super) fn text(bytes: u64) -> String {
    let unit = UNITS.into_iter().find(|(_, size)| bytes > 0 && bytes.is_multiple_of(*size));
    unit.map_or_else(|| "0B".into(), |(name, size)| format!("{}{name}", bytes / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_read_and_write_the_same() {
        for (given, bytes) in
            [("5MiB", 5 << 20), ("256KiB", 256 << 10), ("1GiB", 1 << 30), ("1025B", 1025), ("0B", 0)]
        {
            assert_eq!(parse(given), Some(bytes), "{given}");
            assert_eq!(text(bytes), given);
        }
        assert_eq!(parse("1024"), Some(1024));
    }

    #[test]
    fn other_texts_are_not_sizes() {
        for bad in ["", "MiB", "5MB", "5 MiB", "-1", "1.5MiB", "99999999999GiB"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
