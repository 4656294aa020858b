//! Times as text.

use rpcgate_core::clock::Time;

/// The year, month and day of a time (Hinnant's civil calendar from a count of days).
fn date(time: Time) -> (u64, u64, u64) {
    let days = time.day() + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// RFC 3339 with seconds: `2026-01-01T00:00:00Z`.
pub(crate) fn seconds(time: Time) -> String {
    format!("{}Z", bare(time))
}

/// RFC 3339 with `nanos` nanoseconds (below a thousand) added, without trailing zeros in the fraction.
pub(crate) fn nanos(time: Time, nanos: u64) -> String {
    let fraction = format!("{:09}", time.micros() % 1_000_000 * 1_000 + nanos % 1_000);
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { seconds(time) } else { format!("{}.{fraction}Z", bare(time)) }
}

fn bare(time: Time) -> String {
    let ((year, month, day), second) = (date(time), time.secs() % 86_400);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
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
}
