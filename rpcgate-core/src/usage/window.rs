//! The hours of a usage query.

use crate::clock::Time;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use time::{OffsetDateTime, UtcOffset};

const HOUR: u64 = 3_600;
const DAY: u64 = 24;

/// The longest window with explicit ends, in days.
pub const MOST_DAYS: u64 = 92;

/// The reason why a window is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WindowError {
    /// No period has this name.
    #[error("period must be one of 24h, 7d, 30d, today, month")]
    Period,
    /// The end is not after the begin.
    #[error("to must be later than from")]
    Backwards,
    /// The end is too far after the begin.
    #[error("from and to must be at most {MOST_DAYS} days apart")]
    TooLong,
}

/// A window that `GET /usage` accepts by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Period {
    /// The current hour and the 23 before, like the quota of Compute Units.
    #[default]
    Day,
    /// The current hour and the 167 before.
    Week,
    /// The current hour and the 719 before.
    ThirtyDays,
    /// Since the last UTC midnight.
    Today,
    /// Since the start of the UTC month.
    Month,
}

impl Period {
    /// All periods.
    pub const ALL: [Period; 5] =
        [Period::Day, Period::Week, Period::ThirtyDays, Period::Today, Period::Month];

    /// Returns its name in requests and answers.
    pub const fn name(self) -> &'static str {
        match self {
            Period::Day => "24h",
            Period::Week => "7d",
            Period::ThirtyDays => "30d",
            Period::Today => "today",
            Period::Month => "month",
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Period {
    type Err = WindowError;

    fn from_str(s: &str) -> Result<Self, WindowError> {
        Period::ALL.into_iter().find(|period| period.name() == s).ok_or(WindowError::Period)
    }
}

/// A range of whole UTC hours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageWindow {
    period: Option<Period>,
    hours: Range<u64>,
}

impl UsageWindow {
    /// Returns the window of `period` at `now`. It ends with the hour of `now`.
    pub fn of(period: Period, now: Time) -> Self {
        let hour = now.hour();
        let first = match period {
            Period::Day => hour.saturating_sub(DAY - 1),
            Period::Week => hour.saturating_sub(7 * DAY - 1),
            Period::ThirtyDays => hour.saturating_sub(30 * DAY - 1),
            Period::Today => now.day() * DAY,
            Period::Month => month(now) * DAY,
        };
        UsageWindow { period: Some(period), hours: first..hour.saturating_add(1) }
    }

    /// Returns the hours from `from` up to, but not including, `to`, rounded outwards to whole hours.
    ///
    /// # Errors
    /// Returns [`WindowError::Backwards`], or [`WindowError::TooLong`] if `to` is more than 92 days after `from`.
    pub fn between(from: Time, to: Time) -> Result<Self, WindowError> {
        if to <= from {
            return Err(WindowError::Backwards);
        }
        if to.since(from).as_micros() > u128::from(MOST_DAYS * DAY * HOUR) * 1_000_000 {
            return Err(WindowError::TooLong);
        }
        let last = Time::from_micros(to.micros() - 1).hour();
        Ok(UsageWindow { period: None, hours: from.hour()..last.saturating_add(1) })
    }

    /// Returns the name of the window, if it has one.
    pub const fn period(&self) -> Option<Period> {
        self.period
    }

    /// Returns the hour numbers, counted from the epoch.
    pub fn hours(&self) -> Range<u64> {
        self.hours.clone()
    }

    /// Returns the first moment.
    pub const fn from(&self) -> Time {
        Time::from_secs(self.hours.start.saturating_mul(HOUR))
    }

    /// Returns the first moment after the window.
    pub const fn to(&self) -> Time {
        Time::from_secs(self.hours.end.saturating_mul(HOUR))
    }
}

/// Returns the number of the UTC day on which the month of `now` began.
fn month(now: Time) -> u64 {
    let secs = i64::try_from(now.secs()).unwrap_or(i64::MAX);
    // A time beyond the calendar is its own month.
    let Ok(date) = OffsetDateTime::from_unix_timestamp(secs) else { return now.day() };
    now.day().saturating_sub(u64::from(date.to_offset(UtcOffset::UTC).day()).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// 2028-03-01T00:00:00Z, the day after a leap day.
    const MARCH: u64 = 1_835_481_600;

    fn ends(window: &UsageWindow) -> (u64, u64) {
        (window.from().secs(), window.to().secs())
    }

    // Shows (Usage).
    #[test]
    fn each_period_ends_with_the_hour_of_now() {
        let now = Time::from_micros((MARCH + 5 * HOUR) * 1_000_000 + 1);
        let end = MARCH + 6 * HOUR;
        let at = |period| ends(&UsageWindow::of(period, now));
        assert_eq!(at(Period::Day), (end - 24 * HOUR, end));
        assert_eq!(at(Period::Week), (end - 168 * HOUR, end));
        assert_eq!(at(Period::ThirtyDays), (end - 720 * HOUR, end));
        assert_eq!(at(Period::Today), (MARCH, end));
        assert_eq!(at(Period::Month), (MARCH, end));
    }

    #[test]
    fn a_month_begins_on_its_first_day_also_at_its_borders() {
        let month = |secs| ends(&UsageWindow::of(Period::Month, Time::from_secs(secs)));
        let february = MARCH - 29 * DAY * HOUR;
        assert_eq!(month(MARCH), (MARCH, MARCH + HOUR));
        assert_eq!(month(MARCH - 1), (february, MARCH));
        assert_eq!(month(february), (february, february + HOUR));
        assert_eq!(month(february - 1), (february - 31 * DAY * HOUR, february));
    }

    #[test]
    fn near_the_epoch_and_at_the_end_of_time_nothing_overflows() {
        for period in Period::ALL {
            assert_eq!(ends(&UsageWindow::of(period, Time::from_secs(59))), (0, HOUR));
            let end = UsageWindow::of(period, Time::from_micros(u64::MAX));
            assert!(end.hours().end > end.hours().start);
        }
    }

    // Shows (Usage).
    #[test]
    fn a_window_widens_to_whole_hours() {
        let at =
            |from, to| UsageWindow::between(Time::from_secs(from), Time::from_secs(to)).map(|w| ends(&w));
        assert_eq!(
            at(MARCH, MARCH + HOUR),
            Ok((MARCH, MARCH + HOUR)),
            "the hour it ends before is not in it"
        );
        assert_eq!(at(MARCH + 1, MARCH + HOUR + 1), Ok((MARCH, MARCH + 2 * HOUR)));
        assert_eq!(at(MARCH + 1, MARCH + 2), Ok((MARCH, MARCH + HOUR)));
        assert_eq!(at(MARCH, MARCH), Err(WindowError::Backwards));
        assert_eq!(at(MARCH + 1, MARCH), Err(WindowError::Backwards));
    }

    #[test]
    fn a_window_has_at_most_92_days_before_it_widens() {
        let from = Time::from_secs(MARCH + 1);
        let most = from.plus(Duration::from_secs(92 * DAY * HOUR));
        let window = UsageWindow::between(from, most).unwrap();
        assert_eq!(window.hours().count() as u64, 92 * DAY + 1);
        let more = most.plus(Duration::from_micros(1));
        assert_eq!(UsageWindow::between(from, more), Err(WindowError::TooLong));
    }

    #[test]
    fn periods_are_read_by_name() {
        for period in Period::ALL {
            assert_eq!(period.name().parse(), Ok(period));
        }
        assert_eq!("24H".parse::<Period>(), Err(WindowError::Period));
    }
}
