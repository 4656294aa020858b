//! Months of the UTC calendar.

use crate::clock::Time;
use std::fmt;
use std::str::FromStr;

const DAY: u64 = 86_400;

/// A month of the UTC calendar, from January 1970 on.
///
/// ```
/// use rpcgate_core::clock::Time;
/// use rpcgate_core::month::CalendarMonth;
///
/// // 2028-02-29T23:59:59Z
/// let last = Time::from_secs(1_835_481_599);
/// let february = CalendarMonth::of(last);
/// assert_eq!(february.to_string(), "2028-02");
/// assert_eq!(february.end().secs(), 1_835_481_600);
/// assert_eq!(CalendarMonth::of(february.end()), february.next());
/// assert_eq!("2028-02".parse(), Ok(february));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CalendarMonth(u16);

impl CalendarMonth {
    /// Returns the month with this number, counted from January 1970 (0).
    pub const fn from_number(number: u16) -> Self {
        CalendarMonth(number)
    }

    /// Returns the month of this moment. Later moments than the last representable month belong to that month.
    pub const fn of(now: Time) -> Self {
        /// The days of 400 years, after which the calendar repeats.
        const CENTURIES: u64 = 146_097;
        // Years start on the first of March of the year 0, so that a leap day is the last day of its year.
        let day = now.day().saturating_add(719_468);
        let centuries = day / CENTURIES;
        let day = day % CENTURIES;
        let year = (day - day / 1_460 + day / 36_524 - day / (CENTURIES - 1)) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let since_march = (5 * day + 2) / 153;
        let months = (centuries * 400 + year) * 12 + since_march + 2 - 1_970 * 12;
        CalendarMonth(if months > u16::MAX as u64 { u16::MAX } else { months as u16 })
    }

    /// Returns the number, counted from January 1970 (0).
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Returns the next month; the last representable month is followed by itself.
    #[must_use]
    pub const fn next(self) -> Self {
        CalendarMonth(self.0.saturating_add(1))
    }

    /// Returns the first moment.
    pub const fn begin(self) -> Time {
        Time::from_secs(self.first_day() * DAY)
    }

    /// Returns the first moment after the month.
    pub const fn end(self) -> Time {
        Time::from_secs((self.first_day() + self.days()) * DAY)
    }

    const fn year(self) -> u64 {
        1_970 + self.0 as u64 / 12
    }

    /// Returns the month of the year; January is 0.
    const fn index(self) -> u64 {
        self.0 as u64 % 12
    }

    const fn is_in_leap_year(self) -> bool {
        let year = self.year();
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    }

    const fn days(self) -> u64 {
        match self.index() {
            1 if self.is_in_leap_year() => 29,
            1 => 28,
            3 | 5 | 8 | 10 => 30,
            _ => 31,
        }
    }

    /// Returns the number of the first day, counted from 1970-01-01.
    const fn first_day(self) -> u64 {
        const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        /// The leap days before 1970.
        const FORMER: u64 = 1_969 / 4 - 1_969 / 100 + 1_969 / 400;
        let past = self.year() - 1;
        let leap_days = past / 4 - past / 100 + past / 400 - FORMER;
        let own = if self.index() > 1 && self.is_in_leap_year() { 1 } else { 0 };
        (self.year() - 1_970) * 365 + leap_days + BEFORE[self.index() as usize] + own
    }
}

impl fmt::Display for CalendarMonth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year(), self.index() + 1)
    }
}

/// The error for a text that is not a month such as `2026-11`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoCalendarMonth;

impl fmt::Display for NoCalendarMonth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no month such as 2026-11")
    }
}

impl std::error::Error for NoCalendarMonth {}

impl FromStr for CalendarMonth {
    type Err = NoCalendarMonth;

    fn from_str(text: &str) -> Result<Self, NoCalendarMonth> {
        let (year, month) = text.split_once('-').ok_or(NoCalendarMonth)?;
        let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if year.len() != 4 || month.len() != 2 || !is_digits(year) || !is_digits(month) {
            return Err(NoCalendarMonth);
        }
        let year: u16 = year.parse().map_err(|_| NoCalendarMonth)?;
        let month: u16 = month.parse().map_err(|_| NoCalendarMonth)?;
        match (year.checked_sub(1_970), month) {
            (Some(years), 1..=12) => {
                years.checked_mul(12).and_then(|months| months.checked_add(month - 1)).map(CalendarMonth)
            }
            _ => None,
        }
        .ok_or(NoCalendarMonth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn months_follow_each_other_without_a_gap() {
        let mut month = CalendarMonth::default();
        assert_eq!(month.begin(), Time::from_secs(0));
        while month < CalendarMonth(1_200 * 4) {
            let begin = month.begin();
            let end = month.end();
            let last = Time::from_micros(end.micros() - 1);
            assert_eq!((CalendarMonth::of(begin), CalendarMonth::of(last)), (month, month), "{month}");
            assert_eq!((CalendarMonth::of(end), month.next().begin()), (month.next(), end), "{month}");
            month = month.next();
        }
    }

    #[test]
    fn known_months_are_where_they_belong() {
        for (text, begin, days) in [
            ("1970-01", 0, 31),
            ("2000-02", 949_363_200, 29),
            ("2026-11", 1_793_491_200, 30),
            ("2028-02", 1_832_976_000, 29),
            ("2100-02", 4_105_123_200, 28),
        ] {
            let month: CalendarMonth = text.parse().unwrap();
            assert_eq!((month.to_string().as_str(), month.begin().secs()), (text, begin));
            assert_eq!(month.end().since(month.begin()), Duration::from_secs(days * DAY), "{text}");
        }
    }

    #[test]
    fn the_end_of_time_is_in_the_last_month_and_other_texts_are_no_months() {
        assert_eq!(CalendarMonth::of(Time::from_micros(u64::MAX)).number(), u16::MAX);
        assert_eq!(CalendarMonth(u16::MAX).next(), CalendarMonth(u16::MAX));
        for text in
            ["", "2026", "2026-13", "2026-00", "1969-12", "2026-1", "+202-01", "2026-11-01", "9999-+1"]
        {
            assert_eq!(text.parse::<CalendarMonth>(), Err(NoCalendarMonth), "{text}");
        }
    }
}
