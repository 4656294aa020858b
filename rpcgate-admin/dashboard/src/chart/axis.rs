//! The horizontal axis of a chart: hours or UTC days, with a label every few of them.

use super::number::coordinate;
use rpcgate_core::clock::Time;
use time::{OffsetDateTime, UtcOffset};

const HOUR: u64 = 3_600;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BucketKind {
    Hour,
    Day,
}

impl BucketKind {
    /// Returns the name in sentences and as the heading of a column.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            BucketKind::Hour => "hour",
            BucketKind::Day => "day",
        }
    }

    /// Returns the name at the beginning of a column.
    const fn head(self) -> &'static str {
        match self {
            BucketKind::Hour => "Hour, UTC",
            BucketKind::Day => "Day, UTC",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BucketLayout {
    /// One point a bucket, the first at the left end and the last at the right end.
    Points,
    /// One column a bucket.
    Columns,
}

/// The buckets of a chart, in their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TimeAxis {
    pub(crate) starts: Vec<Time>,
    pub(crate) bucket: BucketKind,
    /// True if the last bucket has not ended yet.
    pub(crate) is_running: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct XLabel {
    /// The distance of its middle from the left, in percent of the width.
    pub(crate) x: String,
    pub(crate) text: String,
    /// True if it is hidden on narrow charts.
    pub(crate) is_alternate: bool,
}

impl TimeAxis {
    pub(super) const fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns the heading of the column of times in a table.
    pub(super) const fn head(&self) -> &'static str {
        self.bucket.head()
    }

    /// Returns the name of a bucket in a sentence: `13:00 UTC`, `19 Nov`.
    pub(crate) fn name(&self, number: usize) -> String {
        let Some(start) = self.starts.get(number) else { return String::new() };
        match self.bucket {
            BucketKind::Hour => format!("{} UTC", hour(*start)),
            BucketKind::Day => day(*start),
        }
    }

    /// Returns the name of a bucket as the heading of a row, below the unit. Hours of several days include the day.
    pub(super) fn row(&self, number: usize) -> String {
        let Some(start) = self.starts.get(number) else { return String::new() };
        match self.bucket {
            BucketKind::Hour if self.len() > 24 => format!("{}, {}", day(*start), hour(*start)),
            BucketKind::Hour => hour(*start),
            BucketKind::Day => day(*start),
        }
    }

    /// Returns the position of a bucket's middle, in percent of the width.
    fn middle(&self, number: usize, layout: BucketLayout) -> f64 {
        let count = self.len() as f64;
        match layout {
            BucketLayout::Points if self.len() > 1 => number as f64 / (count - 1.0) * 100.0,
            BucketLayout::Points => 50.0,
            BucketLayout::Columns => (number as f64 + 0.5) / count * 100.0,
        }
    }

    /// Returns a bucket's left end and its width, in percent. All buckets together fill the width.
    pub(super) fn span(&self, number: usize, layout: BucketLayout) -> (f64, f64) {
        let count = self.len() as f64;
        if layout == BucketLayout::Columns || self.len() == 1 {
            return (number as f64 / count * 100.0, 100.0 / count);
        }
        let step = 100.0 / (count - 1.0);
        let from = ((number as f64 - 0.5) * step).max(0.0);
        let to = ((number as f64 + 0.5) * step).min(100.0);
        (from, to - from)
    }

    /// Returns the labels: every 4 hours or 5 days, or less often for many buckets.
    pub(super) fn labels(&self, layout: BucketLayout) -> Vec<XLabel> {
        let (length, every) = match (self.bucket, self.len()) {
            (BucketKind::Hour, ..=8) => (HOUR, 1),
            (BucketKind::Hour, ..=26) => (HOUR, 4),
            (BucketKind::Hour, _) => (HOUR, 12),
            (BucketKind::Day, ..=10) => (24 * HOUR, 1),
            (BucketKind::Day, ..=40) => (24 * HOUR, 5),
            (BucketKind::Day, _) => (24 * HOUR, 15),
        };
        let is_labelled = |start: Time| (start.secs() / length).is_multiple_of(every);
        let labelled = self.starts.iter().enumerate().filter(|(_, start)| is_labelled(**start));
        let label = |(place, (number, start)): (usize, (usize, &Time))| XLabel {
            x: coordinate(self.middle(number, layout)),
            text: if self.bucket == BucketKind::Hour { hour(*start) } else { day(*start) },
            is_alternate: place % 2 == 1,
        };
        labelled.enumerate().map(label).collect()
    }
}

fn utc(time: Time) -> Option<OffsetDateTime> {
    let moment = OffsetDateTime::from_unix_timestamp(i64::try_from(time.secs()).ok()?).ok()?;
    Some(moment.to_offset(UtcOffset::UTC))
}

/// Formats the UTC time of day: `13:00`.
pub(crate) fn hour(time: Time) -> String {
    utc(time).map_or_else(String::new, |moment| format!("{:02}:{:02}", moment.hour(), moment.minute()))
}

/// Formats the UTC day without its year: `19 Nov`.
pub(crate) fn day(time: Time) -> String {
    utc(time).map_or_else(String::new, |moment| {
        let month = moment.month().to_string();
        format!("{} {}", moment.day(), month.get(..3).unwrap_or(&month))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-18T15:00:00Z.
    const START: u64 = 1_795_014_000;

    /// Makes an axis of `count` hours, the last one still running.
    pub(crate) fn hours(count: usize) -> TimeAxis {
        let starts = (0..count as u64).map(|number| Time::from_secs(START + number * HOUR)).collect();
        TimeAxis { starts, bucket: BucketKind::Hour, is_running: true }
    }

    pub(crate) fn days(count: usize) -> TimeAxis {
        let first = START / (24 * HOUR);
        let starts = (first..first + count as u64).map(|day| Time::from_secs(day * 24 * HOUR)).collect();
        TimeAxis { starts, bucket: BucketKind::Day, is_running: false }
    }

    fn texts(labels: &[XLabel]) -> Vec<&str> {
        labels.iter().map(|label| label.text.as_str()).collect()
    }

    #[test]
    fn hours_have_a_label_every_four() {
        let labels = hours(24).labels(BucketLayout::Points);
        assert_eq!(texts(&labels), ["16:00", "20:00", "00:00", "04:00", "08:00", "12:00"]);
        assert_eq!((labels[0].x.as_str(), labels[1].x.as_str()), ("4.35", "21.74"));
        let alternate: Vec<_> = labels.iter().map(|label| label.is_alternate).collect();
        assert_eq!(alternate, [false, true, false, true, false, true]);
        assert_eq!(hours(24).labels(BucketLayout::Columns)[0].x, "6.25");
        assert_eq!(texts(&hours(48).labels(BucketLayout::Columns)), ["00:00", "12:00", "00:00", "12:00"]);
    }

    #[test]
    fn days_have_a_label_every_few() {
        let few = days(3).labels(BucketLayout::Columns);
        assert_eq!(texts(&few), ["18 Nov", "19 Nov", "20 Nov"]);
        for (count, least, most) in [(10, 10, 10), (31, 6, 7), (93, 6, 7)] {
            let labels = days(count).labels(BucketLayout::Columns).len();
            assert!((least..=most).contains(&labels), "{labels} of {count}");
        }
    }

    #[test]
    fn a_single_bucket_is_in_the_middle() {
        let one = days(1);
        assert_eq!(one.labels(BucketLayout::Points)[0].x, "50");
        assert_eq!(one.span(0, BucketLayout::Points), (0.0, 100.0));
        let none = TimeAxis { starts: Vec::new(), ..one };
        assert!(none.labels(BucketLayout::Points).is_empty());
        assert_eq!(none.name(0), "");
    }

    #[test]
    fn names_contain_the_unit() {
        assert_eq!((hours(24).name(0), hours(24).row(0)), ("15:00 UTC".into(), "15:00".into()));
        assert_eq!(hours(30).row(0), "18 Nov, 15:00");
        assert_eq!((days(2).name(1), days(2).row(1)), ("19 Nov".into(), "19 Nov".into()));
        assert_eq!(hour(Time::from_micros(u64::MAX)), "");
    }

    proptest! {
        #[test]
        fn buckets_lie_side_by_side_and_fill_the_width(count in 1usize..200, columns: bool) {
            let layout = if columns { BucketLayout::Columns } else { BucketLayout::Points };
            let axis = hours(count);
            let mut end = 0.0;
            for number in 0..count {
                let (from, width) = axis.span(number, layout);
                prop_assert!((from - end).abs() < 1e-6 && width > 0.0);
                end = from + width;
            }
            prop_assert!((end - 100.0).abs() < 1e-6);
            for label in axis.labels(layout) {
                prop_assert!((0.0..=100.0).contains(&label.x.parse::<f64>().unwrap()));
            }
        }
    }
}
