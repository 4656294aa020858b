//! Usage notifications of a tenant: shares of its daily requests, and spikes of refusals.

use std::fmt;
use std::str::FromStr;

/// The number of calls refused with 429 in a UTC minute that makes a spike.
pub const SPIKE: u64 = 50;

/// The minimum minutes between notifications of spikes.
pub const SPIKE_PAUSE: u64 = 60;

pub(crate) const RATE_LIMITED: u16 = 429;

/// The reason of a notification.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Notice {
    /// 80 % of the requests that the plan allows all keys of the tenant in a UTC day are used.
    DailyRequests80,
    /// 95 % of them are used.
    DailyRequests95,
    /// All of them are used.
    DailyRequests100,
    /// [`SPIKE`] calls were refused with 429 in a UTC minute.
    RateLimitedSpike,
}

impl Notice {
    /// All reasons.
    pub const ALL: [Notice; 4] = [
        Notice::DailyRequests80,
        Notice::DailyRequests95,
        Notice::DailyRequests100,
        Notice::RateLimitedSpike,
    ];

    /// Returns its name in the API and in the database.
    pub const fn name(self) -> &'static str {
        match self {
            Notice::DailyRequests80 => "usage.daily_requests_80",
            Notice::DailyRequests95 => "usage.daily_requests_95",
            Notice::DailyRequests100 => "usage.daily_requests_100",
            Notice::RateLimitedSpike => "usage.rate_limited_spike",
        }
    }

    /// Returns the share of the day's requests, in percent.
    pub const fn percent(self) -> Option<u64> {
        match self {
            Notice::DailyRequests80 => Some(80),
            Notice::DailyRequests95 => Some(95),
            Notice::DailyRequests100 => Some(100),
            Notice::RateLimitedSpike => None,
        }
    }

    /// Returns the notifications that are due after `requests` of the `allowed` ones of a day, if any are allowed.
    pub fn reached(requests: u64, allowed: u64) -> impl Iterator<Item = Notice> {
        let is_reached = move |percent: u64| {
            allowed > 0 && u128::from(requests) * 100 >= u128::from(allowed) * u128::from(percent)
        };
        Notice::ALL.into_iter().filter(move |notice| notice.percent().is_some_and(is_reached))
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a text that does not name a [`Notice`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownNotice;

impl fmt::Display for UnknownNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the name of a notification")
    }
}

impl std::error::Error for UnknownNotice {}

impl FromStr for Notice {
    type Err = UnknownNotice;

    fn from_str(text: &str) -> Result<Self, UnknownNotice> {
        Notice::ALL.into_iter().find(|notice| notice.name() == text).ok_or(UnknownNotice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_reached_by_the_request_that_makes_it_full() {
        use Notice::{DailyRequests80, DailyRequests95, DailyRequests100};
        let reached = |requests, allowed| Notice::reached(requests, allowed).collect::<Vec<_>>();
        assert_eq!(reached(79, 100), []);
        assert_eq!(reached(80, 100), [DailyRequests80]);
        assert_eq!(reached(94, 100), [DailyRequests80]);
        assert_eq!(reached(95, 100), [DailyRequests80, DailyRequests95]);
        assert_eq!(reached(100, 100), [DailyRequests80, DailyRequests95, DailyRequests100]);
        // Four fifths of 7 are 5.6.
        assert_eq!((reached(5, 7), reached(6, 7)), (vec![], vec![DailyRequests80]));
        assert_eq!(reached(u64::MAX, u64::MAX).len(), 3);
        assert_eq!(reached(0, 0), []);
    }

    #[test]
    fn notices_are_read_by_name() {
        for notice in Notice::ALL {
            assert_eq!(notice.to_string().parse(), Ok(notice));
        }
        assert_eq!("usage".parse::<Notice>(), Err(UnknownNotice));
    }
}
