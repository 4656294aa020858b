//! Calendar months in UTC, the periods of invoices.

use rpcgate_core::clock::Time;
use std::ops::Range;
use std::str::FromStr;
use time::{Date, OffsetDateTime};

/// The last second of the year 9999, the last supported one.
const LAST_SECOND: u64 = 253_402_300_799;

/// A calendar month in UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BillingMonth {
    first_day: Date,
}

impl BillingMonth {
    /// The month of a time. Times beyond the year 9999 are in its last month.
    ///
    /// ```
    /// use rpcgate_management::action::billing::month::BillingMonth;
    /// use rpcgate_core::clock::Time;
    ///
    /// let december = BillingMonth::of(Time::from_secs(1_798_718_400));
    /// assert_eq!((december.year(), december.to_string().as_str()), (2026, "2026-12"));
    /// assert_eq!(december.end(), december.next().start());
    /// ```
    pub fn of(at: Time) -> Self {
        let secs = i64::try_from(at.secs().min(LAST_SECOND)).unwrap_or_default();
        let day = OffsetDateTime::from_unix_timestamp(secs).unwrap_or(OffsetDateTime::UNIX_EPOCH).date();
        BillingMonth::with(day)
    }

    fn with(day: Date) -> Self {
        BillingMonth { first_day: day.replace_day(1).unwrap_or(day) }
    }

    /// Returns the following month.
    #[must_use]
    pub fn next(self) -> Self {
        BillingMonth::with(self.first_day.saturating_add(time::Duration::days(31)))
    }

    /// Returns the preceding month.
    #[must_use]
    pub fn previous(self) -> Self {
        BillingMonth::with(self.first_day.saturating_sub(time::Duration::days(1)))
    }

    /// Returns the begin of the first day.
    pub fn start(self) -> Time {
        let secs = self.first_day.midnight().assume_utc().unix_timestamp();
        Time::from_secs(u64::try_from(secs).unwrap_or_default())
    }

    /// Returns the begin of the following month.
    pub fn end(self) -> Time {
        self.next().start()
    }

    /// Returns the time from the begin to the end.
    pub fn span(self) -> Range<Time> {
        self.start()..self.end()
    }

    /// Returns the numbers of the hours since 1970.
    pub fn hours(self) -> Range<u64> {
        self.start().hour()..self.end().hour()
    }

    /// Returns the number of seconds.
    pub fn seconds(self) -> u64 {
        self.end().secs().saturating_sub(self.start().secs())
    }

    /// Returns the year.
    pub fn year(self) -> u16 {
        u16::try_from(self.first_day.year()).unwrap_or_default()
    }
}

/// The error for a text that is not a month.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a month: expected a year and a month, as in 2026-12")]
pub struct NotMonth;

impl FromStr for BillingMonth {
    type Err = NotMonth;

    /// Parses the format of `Display`, from 1970 on.
    fn from_str(text: &str) -> Result<Self, NotMonth> {
        let (year, month) = text.split_once('-').ok_or(NotMonth)?;
        let year = year.parse().map_err(|_| NotMonth)?;
        let number = month.parse::<u8>().map_err(|_| NotMonth)?;
        let number = time::Month::try_from(number).map_err(|_| NotMonth)?;
        let day = Date::from_calendar_date(year, number, 1).map_err(|_| NotMonth)?;
        let month = BillingMonth::with(day);
        if year >= 1970 && month.to_string() == text { Ok(month) } else { Err(NotMonth) }
    }
}

impl std::fmt::Display for BillingMonth {
    /// Writes a month as in `2026-12`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04}-{:02}", self.first_day.year(), u8::from(self.first_day.month()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn month(secs: u64) -> BillingMonth {
        BillingMonth::of(Time::from_secs(secs))
    }

    #[test]
    fn months_follow_each_other_without_a_gap() {
        let mut current = month(0);
        assert_eq!((current.start(), current.to_string().as_str()), (Time::from_secs(0), "1970-01"));
        for _ in 0..(12 * 200) {
            let next = current.next();
            assert_eq!((current.end(), next.previous()), (next.start(), current));
            assert_eq!(BillingMonth::of(current.start()), current);
            assert_eq!(BillingMonth::of(Time::from_micros(next.start().micros() - 1)), current);
            assert!(
                (28..=31).contains(&(current.seconds() / 86_400)) && current.seconds().is_multiple_of(86_400)
            );
            assert_eq!(current.hours().end - current.hours().start, current.seconds() / 3_600);
            current = next;
        }
        assert_eq!(current.to_string(), "2170-01");
    }

    #[test]
    fn a_month_is_read_as_it_is_written() {
        let written = BillingMonth::of(Time::from_secs(1_798_718_400));
        assert_eq!("2026-12".parse(), Ok(written));
        for wrong in
            ["", "2026", "2026-1", "2026-13", "2026-00", "1969-12", "26-12", "2026-12-01", "+2026-12", "x-y"]
        {
            assert_eq!(wrong.parse::<BillingMonth>(), Err(NotMonth), "{wrong}");
        }
    }

    #[test]
    fn leap_years_have_a_longer_february() {
        assert_eq!(month(951_782_400).seconds(), 29 * 86_400, "2000-02-29");
        assert_eq!(month(1_771_000_000).seconds(), 28 * 86_400, "2026-02");
        assert_eq!(month(1_835_000_000).to_string(), "2028-02");
        assert_eq!(month(1_835_000_000).seconds(), 29 * 86_400);
    }

    #[test]
    fn times_beyond_the_calendar_are_in_its_last_month() {
        let last = BillingMonth::of(Time::from_micros(u64::MAX));
        assert_eq!((last.to_string().as_str(), last.next()), ("9999-12", last));
    }
}
