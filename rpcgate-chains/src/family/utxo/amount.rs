//! Amounts of coins: nodes write them as decimal numbers of coins, events have them in the smallest unit.

const DECIMALS: i64 = 8;

/// Converts a JSON number of coins to units of 10^-8 exactly; `None` if negative, too precise or not an amount.
pub(super) fn smallest_units(number: &str) -> Option<u64> {
    let (digits, exponent) = match number.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i16>().ok()?),
        None => (number, 0),
    };
    let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if integer.is_empty() || !is_digits(integer) || !is_digits(fraction) {
        return None;
    }
    let mut value = 0u64;
    for digit in integer.bytes().chain(fraction.bytes()) {
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    if value == 0 {
        return Some(0);
    }
    let shift = DECIMALS + i64::from(exponent) - i64::try_from(fraction.len()).ok()?;
    let factor = 10u64.checked_pow(u32::try_from(shift.unsigned_abs()).ok()?)?;
    if shift >= 0 {
        return value.checked_mul(factor);
    }
    value.is_multiple_of(factor).then(|| value / factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Shows (Events of chains).
    #[test]
    fn amounts_are_exact() {
        for (text, units) in [
            ("0.00000000", 0),
            ("0", 0),
            ("0.00000001", 1),
            ("1e-8", 1),
            ("1E-08", 1),
            ("3.125", 312_500_000),
            ("3.12500000000", 312_500_000),
            ("10000.00000000", 1_000_000_000_000),
            ("20999999.99999999", 2_099_999_999_999_999),
            ("150000000000.00000000", 15_000_000_000_000_000_000),
            ("1.5e3", 150_000_000_000),
        ] {
            assert_eq!(smallest_units(text), Some(units), "{text}");
        }
        for wrong in [
            "-1",
            "+1",
            "0.000000001",
            "1e-9",
            "",
            ".5",
            "1.2.3",
            "null",
            "\"1\"",
            "1e",
            "1e99",
            "1e-30000",
            "184467440737.09551616",
            "99999999999999999999",
            "0x1",
        ] {
            assert_eq!(smallest_units(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn an_amount_is_read_as_a_daemon_writes_it(units: u64) {
            let text = format!("{}.{:08}", units / 100_000_000, units % 100_000_000);
            prop_assert_eq!(smallest_units(&text), Some(units));
        }

        #[test]
        fn no_text_is_too_strange(text in "[-+0-9.eE]{0,30}") {
            let _ = smallest_units(&text);
        }
    }
}
