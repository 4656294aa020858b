//! Times on the wire: RFC 3339 in UTC, always to the millisecond, so that all texts have one width and sort like the
//! times.

use crate::error::API_MOMENT;
use rpcgate_core::clock::Time;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};

/// A time between the years 1970 and 9999. It is written in UTC as `YYYY-MM-DDTHH:MM:SS.mmmZ`, truncated to
/// milliseconds, and read with any offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Moment(pub Time);

impl Moment {
    /// Parses RFC 3339 text. Digits beyond the microsecond are dropped.
    pub fn parse(text: &str) -> Option<Self> {
        let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?;
        let micros = u64::try_from(moment.unix_timestamp_nanos() / 1_000).ok();
        let moment = Moment(Time::from_micros(micros.filter(|_| moment.unix_timestamp() >= 0)?));
        moment.text().map(|_| moment)
    }

    /// Formats the time as RFC 3339. Returns `None` for a time that has no date.
    pub fn text(self) -> Option<String> {
        let nanos = i128::from(self.0.micros()) * 1_000;
        let moment = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok()?;
        let moment = moment.to_offset(UtcOffset::UTC);
        let (date, [hour, minute, second]) =
            (moment.date(), [moment.hour(), moment.minute(), moment.second()]);
        let (year, month, day) = date.to_calendar_date();
        let month = u8::from(month);
        let millis = moment.millisecond();
        (year <= 9_999)
            .then(|| format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"))
    }
}

impl From<Time> for Moment {
    fn from(time: Time) -> Self {
        Moment(time)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // RFC 3339 cannot express times after the year 9999.
        f.write_str(self.text().as_deref().unwrap_or("9999-12-31T23:59:59.999Z"))
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Moment;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(API_MOMENT)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Moment, E> {
                Moment::parse(text).ok_or_else(|| E::invalid_value(Unexpected::Other("text"), &self))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns a time as `2026-11-19T14:26:25.000Z`, as the day `19 Nov 2026` and as the time `14:26:25`.
pub fn parts(at: Time) -> (String, String, String) {
    let moment = Moment(Time::from_secs(at.secs())).to_string();
    let part = |from: usize, to: usize| moment.get(from..to).unwrap_or_default();
    let month = part(5, 7).parse::<usize>().ok().and_then(|month| MONTHS.get(month.saturating_sub(1)));
    let day = part(8, 10).trim_start_matches('0');
    let day = format!("{day} {} {}", month.copied().unwrap_or_default(), part(0, 4));
    let clock = part(11, 19).to_owned();
    (moment, day, clock)
}

/// Formats a time as `19 Nov 2026, 14:26 UTC`.
pub fn minute_text(at: Time) -> String {
    let (_, day, clock) = parts(at);
    format!("{day}, {} UTC", clock.get(..5).unwrap_or_default())
}

/// Formats a day in UTC as `19 Nov 2026`.
pub fn day_text(at: Time) -> String {
    parts(at).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strict_json;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Form {
        at: Option<Moment>,
    }

    fn read(at: &str) -> Result<Form, String> {
        strict_json::of_object(format!("{{\"at\":{at}}}").as_bytes()).map_err(|error| error.to_string())
    }

    // Shows (Management): All times are RFC 3339 in UTC.
    #[test]
    fn times_are_accepted_with_any_offset_and_returned_in_utc() {
        for (given, reported) in [
            ("2027-01-31T12:00:00Z", "2027-01-31T12:00:00.000Z"),
            ("2027-01-31T14:00:00.5+02:00", "2027-01-31T12:00:00.500Z"),
            ("2027-01-31T12:00:00.0129999Z", "2027-01-31T12:00:00.012Z"),
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
            ("9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.999Z"),
        ] {
            let form = read(&format!("\"{given}\"")).unwrap();
            assert_eq!(serde_json::to_string(&form).unwrap(), format!("{{\"at\":\"{reported}\"}}"));
        }
        assert_eq!(read("null").unwrap(), Form { at: None });
        let end = serde_json::to_string(&Moment(Time::from_micros(u64::MAX))).unwrap();
        assert_eq!(end, "\"9999-12-31T23:59:59.999Z\"");
    }

    // Shows (Management): Times have one width and sort as texts; CSV files begin with a byte order mark.
    #[test]
    fn texts_of_times_have_one_width_and_sort_like_the_times() {
        let micros = [
            0,
            1,
            999,
            1_000,
            500_000,
            1_798_718_400_543_210,
            1_798_718_400_500_000,
            253_402_300_799_999_999,
        ];
        let mut times = micros.map(Time::from_micros);
        times.sort_unstable();
        let texts = times.map(|time| Moment(time).to_string());
        assert!(texts.iter().all(|text| text.len() == 24), "{texts:?}");
        assert!(texts.is_sorted(), "{texts:?}");
    }

    #[test]
    fn an_invalid_time_is_refused_with_the_reason() {
        for wrong in [
            "\"\"",
            "\"tomorrow\"",
            "\"2027-02-29T00:00:00Z\"",
            "\"2027-01-31\"",
            "\"2027-01-31T12:00:00\"",
            "\"1969-12-31T23:59:59.5Z\"",
            "\"9999-12-31T23:59:59-01:00\"",
            "5",
        ] {
            let reported = "`at` must be an RFC 3339 moment since 1970, such as 2027-01-31T12:00:00Z";
            assert_eq!(read(wrong), Err(reported.to_owned()), "{wrong}");
        }
    }
}
