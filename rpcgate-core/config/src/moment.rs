//! Times as RFC 3339 text.

use rpcgate_core::clock::Time;

pub(super) const EXPECTED: &str = "a moment such as 2027-01-31T12:00:00Z";

/// Parses an RFC 3339 date-time from 1970 on. Digits beyond the microsecond are dropped.
pub fn parse(text: &str) -> Option<Time> {
    let number = |range: std::ops::Range<usize>| -> Option<u64> {
        let digits = text.get(range)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let mark =
        |at: usize, marks: &[u8]| text.as_bytes().get(at).is_some_and(|b| marks.contains(b)).then_some(());
    mark(4, b"-").and(mark(7, b"-")).and(mark(10, b"Tt ")).and(mark(13, b":")).and(mark(16, b":"))?;
    let year = number(0..4)?;
    let month = number(5..7)?;
    let day = number(8..10)?;
    let hour = number(11..13)?;
    let minute = number(14..16)?;
    let second = number(17..19)?;
    if !(1970..).contains(&year)
        || !(1..=12).contains(&month)
        || !(1..=month_length(year, month)).contains(&day)
    {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let rest = text.get(19..)?;
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count()),
        None => ("0", rest),
    };
    if fraction.is_empty() {
        return None;
    }
    let micros: u64 = format!("{:0<6}", &fraction[..fraction.len().min(6)]).parse().ok()?;
    let local = (days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second).cast_signed();
    let secs = local.checked_sub(offset(zone)?)?;
    u64::try_from(secs).ok()?.checked_mul(1_000_000)?.checked_add(micros).map(Time::from_micros)
}

/// Returns the offset of local time from UTC, in seconds.
fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, rest) = zone.split_at_checked(1)?;
    let (hours, minutes) = rest.split_once(':')?;
    let two = |text: &str| {
        (text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
    };
    let (hours, minutes): (i64, i64) = (two(hours)?, two(minutes)?);
    let ahead = (hours < 24 && minutes < 60).then_some(hours * 3_600 + minutes * 60)?;
    match sign {
        "+" => Some(ahead),
        "-" => Some(-ahead),
        _ => None,
    }
}

/// Formats the time as RFC 3339 text in UTC.
pub fn text(time: Time) -> String {
    let mut day = time.day();
    let secs = time.secs() % 86_400;
    let mut year = 1970;
    while day >= year_length(year) {
        day -= year_length(year);
        year += 1;
    }
    let mut month = 1;
    while day >= month_length(year, month) {
        day -= month_length(year, month);
        month += 1;
    }
    let hour = secs / 3_600;
    let minute = secs / 60 % 60;
    let second = secs % 60;
    let full = format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}", day + 1);
    match time.micros() % 1_000_000 {
        0 => format!("{full}Z"),
        micros => format!("{full}.{micros:06}Z"),
    }
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn year_length(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

const fn month_length(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + is_leap(year) as u64,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days(year: u64, month: u64, day: u64) -> u64 {
    let years: u64 = (1970..year).map(year_length).sum();
    years + (1..month).map(|m| month_length(year, m)).sum::<u64>() + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_and_write_the_same() {
        for (given, secs) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2026-12-31T12:00:00Z", 1_798_718_400),
        ] {
            assert_eq!(parse(given), Some(Time::from_secs(secs)), "{given}");
            assert_eq!(text(Time::from_secs(secs)), given);
        }
        assert_eq!(text(Time::from_micros(1_500_000)), "1970-01-01T00:00:01.500000Z");
    }

    #[test]
    fn offsets_and_fractions_count() {
        assert_eq!(parse("2026-12-31 14:00:00+02:00"), parse("2026-12-31T12:00:00Z"));
        assert_eq!(parse("1970-01-01t00:00:01.0000019z"), Some(Time::from_micros(1_000_001)));
    }

    #[test]
    fn other_texts_are_not_moments() {
        for bad in [
            "",
            "2026-12-31",
            "2026-12-31T12:00:00",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+2",
            "1970-01-01T00:00:00+01:00",
            "+026-01-01T00:00:00Z",
            "2026-01-01T00:00:00+é0",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
