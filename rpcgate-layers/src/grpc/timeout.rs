//! The header `grpc-timeout`: the client's time limit for its call (gRPC, "PROTOCOL-HTTP2", Timeout).

use crate::transport::h2::TIMEOUT;
use http::{HeaderMap, HeaderValue};
use std::time::Duration;

/// Returns the client's time limit; `None` if it sets none.
///
/// # Errors
/// Returns [`BadTimeout`] if the header is present twice or is not one to eight digits and a unit.
pub(super) fn read(metadata: &HeaderMap) -> Result<Option<Duration>, BadTimeout> {
    let mut values = metadata.get_all(TIMEOUT).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => parse(value.as_bytes()).map(Some).ok_or(BadTimeout),
        (Some(_), Some(_)) => Err(BadTimeout),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BadTimeout;

fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if !(1..=8).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(number * 3_600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

/// Returns the header for this time, rounded down to the finest unit that fits into eight digits.
pub(super) fn write(left: Duration) -> HeaderValue {
    const MAX_VALUE: u128 = 99_999_999;
    let nanos = left.as_nanos();
    let units = [(1, 'n'), (1_000, 'u'), (1_000_000, 'm'), (1_000_000_000, 'S'), (60_000_000_000, 'M')];
    let (size, unit) =
        units.into_iter().find(|(size, _)| nanos / size <= MAX_VALUE).unwrap_or((3_600_000_000_000, 'H'));
    let text = format!("{}{unit}", (nanos / size).min(MAX_VALUE));
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("0n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_digits_and_a_unit() {
        for (text, nanos) in [
            ("1H", 3_600_000_000_000),
            ("2M", 120_000_000_000),
            ("99999999S", 99_999_999_000_000_000),
            ("5m", 5_000_000),
            ("0u", 0),
            ("00000007n", 7),
        ] {
            assert_eq!(parse(text.as_bytes()).map(|time| time.as_nanos()), Some(nanos), "{text}");
        }
        for text in ["", "S", "1", "1s", "1 S", "-1S", "+1S", "1.5S", "123456789S", "1SS", "١S"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_remaining_time_is_written_as_finely_as_it_fits() {
        for (left, text) in [
            (Duration::ZERO, "0n"),
            (Duration::from_nanos(99_999_999), "99999999n"),
            (Duration::from_millis(100), "100000u"),
            (Duration::from_secs(29), "29000000u"),
            (Duration::from_secs(3_600), "3600000m"),
            (Duration::from_secs(86_400 * 365), "31536000S"),
            (Duration::from_secs(u64::MAX), "99999999H"),
        ] {
            let written = write(left);
            assert_eq!(written, text);
            let read = parse(written.as_bytes()).unwrap();
            assert!(
                read <= left && (left - read < Duration::from_secs(3_600) || text.ends_with('H')),
                "{text}"
            );
        }
    }

    #[test]
    fn a_duplicate_header_is_not_a_time() {
        let mut metadata = HeaderMap::new();
        assert_eq!(read(&metadata), Ok(None));
        metadata.append(TIMEOUT, HeaderValue::from_static("1S"));
        assert_eq!(read(&metadata), Ok(Some(Duration::from_secs(1))));
        metadata.append(TIMEOUT, HeaderValue::from_static("2S"));
        assert_eq!(read(&metadata), Err(BadTimeout));
    }
}
