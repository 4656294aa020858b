//! Times as text.

use rpcgate_core::clock::Time;

/// Returns the year, month and day of a time (Hinnant's civil calendar from a count of days).
fn date(time: Time) -> (u64, u64, u64) {
    let days = time.day() + 719_468;
    let era = days / 146_097;
    let day = days % 146_097;
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// Writes RFC 3339 with seconds: `2026-01-01T00:00:00Z`.
pub(crate) fn seconds(time: Time) -> String {
    format!("{}Z", bare(time))
}

/// Writes RFC 3339 with `nanos` nanoseconds (below a thousand) added, without trailing zeros in the fraction.
pub(crate) fn nanos(time: Time, nanos: u64) -> String {
    let fraction = format!("{:09}", time.micros() % 1_000_000 * 1_000 + nanos % 1_000);
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { seconds(time) } else { format!("{}.{fraction}Z", bare(time)) }
}

/// Reads RFC 3339 with the zone `Z`: seconds since the Unix epoch, which may be negative, and nanoseconds.
pub(crate) fn read(text: &str) -> Option<(i64, u32)> {
    let (whole, fraction) = text.strip_suffix('Z')?.split_once('.').unwrap_or((text.strip_suffix('Z')?, ""));
    let (day, clock) = whole.split_once('T')?;
    let numbers = |text: &str, sign: char| -> Option<[i64; 3]> {
        let parts: Option<Vec<i64>> = text.split(sign).map(|part| part.parse().ok()).collect();
        parts?.try_into().ok()
    };
    let ([year, month, day], [hour, minute, second]) = (numbers(day, '-')?, numbers(clock, ':')?);
    // Hinnant's count of days from a civil date, whose years begin in March.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let nanos = if fraction.is_empty() { 0 } else { format!("{fraction:0<9}").parse().ok()? };
    Some((days * 86_400 + hour * 3_600 + minute * 60 + second, nanos))
}

fn bare(time: Time) -> String {
    let ((year, month, day), second) = (date(time), time.secs() % 86_400);
    let hour = second / 3_600;
    let minute = second / 60 % 60;
    let second = second % 60;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_in_rfc_3339() {
        assert_eq!(seconds(Time::from_secs(0)), "1970-01-01T00:00:00Z");
        assert_eq!(seconds(Time::from_secs(951_827_696)), "2000-02-29T12:34:56Z");
        assert_eq!(seconds(Time::from_secs(1_772_323_199)), "2026-02-28T23:59:59Z");
        assert_eq!(seconds(Time::from_secs(1_772_323_200)), "2026-03-01T00:00:00Z");
        assert_eq!(nanos(Time::from_millis(1_767_225_600_120), 7), "2026-01-01T00:00:00.120000007Z");
        assert_eq!(nanos(Time::from_millis(1_767_225_600_120), 0), "2026-01-01T00:00:00.12Z");
        assert_eq!(nanos(Time::from_secs(1_767_225_600), 0), "2026-01-01T00:00:00Z");
    }

    #[test]
    fn written_times_are_read_back() {
        for (secs, micros) in [(0, 0), (951_782_400, 0), (1_709_164_800, 120), (1_800_000_000, 999_999)] {
            let time = Time::from_micros(secs * 1_000_000 + micros);
            let expected = Some((secs.cast_signed(), micros as u32 * 1_000 + 7));
            assert_eq!(read(&nanos(time, 7)), expected);
        }
        assert_eq!(read("0001-01-01T00:00:00Z"), Some((-62_135_596_800, 0)));
        for wrong in
            ["", "Z", "2026-01-01", "2026-01-01T00:00:00", "2026-01T00:00:00Z", "2026-01-01T00:00:00.xZ"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
