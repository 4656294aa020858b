//! The series of a stacked chart: at most five by name, the largest first, and all others as one.

use super::axis::TimeAxis;
use super::number::grouped;
use super::plot::{DataTable, LegendEntry};

/// The maximum number of series with a name.
const NAMED: usize = 5;
/// The number of other series that are listed by name before the rest is counted.
const LISTED: usize = 2;
const CLASSES: [&str; NAMED] = ["s1", "s2", "s3", "s4", "s5"];
const OTHERS: &str = "s7";

/// The values of one series, one for each bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) values: Vec<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Band {
    pub(super) class: &'static str,
    pub(super) name: String,
    pub(super) values: Vec<u64>,
    pub(super) sum: u64,
}

/// Stacked series, the largest at the bottom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stack {
    pub(super) bands: Vec<Band>,
    pub(super) totals: Vec<u64>,
}

impl Stack {
    /// Stacks `series` over `buckets` buckets. Series with only zeros are left out, and missing values at the end count
    /// as 0.
    pub(crate) fn of(series: Vec<Series>, buckets: usize) -> Self {
        let sum = |values: &[u64]| values.iter().fold(0u64, |sum, value| sum.saturating_add(*value));
        let mut all: Vec<_> = series
            .into_iter()
            .map(|Series { name, mut values }| {
                values.resize(buckets, 0);
                (sum(&values), name, values)
            })
            .filter(|(sum, ..)| *sum > 0)
            .collect();
        all.sort_by(|(one, one_name, _), (other, other_name, _)| {
            other.cmp(one).then(one_name.cmp(other_name))
        });
        let others = if all.len() > NAMED { all.split_off(NAMED) } else { Vec::new() };
        let mut bands: Vec<_> = CLASSES
            .into_iter()
            .zip(all)
            .map(|(class, (sum, name, values))| Band { class, name, values, sum })
            .collect();
        if !others.is_empty() {
            let names: Vec<_> = others.iter().map(|(_, name, _)| name.as_str()).collect();
            let name =
                if names.len() > LISTED { format!("{} others", names.len()) } else { names.join(", ") };
            let mut values = vec![0; buckets];
            for (_, _, other) in &others {
                add(&mut values, other);
            }
            bands.push(Band { class: OTHERS, name, sum: sum(&values), values });
        }
        let mut totals = vec![0; buckets];
        for band in &bands {
            add(&mut totals, &band.values);
        }
        Stack { bands, totals }
    }

    pub(super) fn max(&self) -> u64 {
        self.totals.iter().copied().max().unwrap_or_default()
    }

    /// Describes a bucket: `2,945 requests (eth 1,226, polygon 744, other 975)`.
    pub(super) fn words(&self, bucket: usize, unit: &str) -> String {
        let total = self.totals.get(bucket).copied().unwrap_or_default();
        let unit = if total == 1 { unit.strip_suffix('s').unwrap_or(unit) } else { unit };
        let of_all = format!("{} {unit}", grouped(total));
        if self.bands.len() < 2 || total == 0 {
            return of_all;
        }
        let value = |band: &Band| band.values.get(bucket).copied().unwrap_or_default();
        let parts = self.bands.iter().filter(|band| value(band) > 0);
        let parts: Vec<_> = parts.map(|band| format!("{} {}", band.name, grouped(value(band)))).collect();
        format!("{of_all} ({})", parts.join(", "))
    }

    /// Returns the legend with sums, in the order of the stack.
    pub(super) fn legend(&self) -> Vec<LegendEntry> {
        let entry = |band: &Band| LegendEntry {
            class: band.class,
            name: band.name.clone(),
            value: grouped(band.sum),
        };
        self.bands.iter().map(entry).collect()
    }

    /// Returns the numbers as a table, with the sum of each bucket if there are several series.
    pub(super) fn table(&self, axis: &TimeAxis, name: String) -> DataTable {
        let has_sums = self.bands.len() > 1;
        let mut heads: Vec<_> = self.bands.iter().map(|band| band.name.clone()).collect();
        if has_sums {
            heads.push("All".into());
        }
        let rows = (0..axis.len()).map(|bucket| {
            let mut cells: Vec<_> = self.bands.iter().map(|band| grouped(band.values[bucket])).collect();
            if has_sums {
                cells.push(grouped(self.totals[bucket]));
            }
            (axis.row(bucket), cells)
        });
        DataTable { name, first: axis.head(), heads, rows: rows.collect() }
    }

    /// Describes the lowest and the highest completed bucket, for readers who cannot see the chart.
    pub(super) fn sentence(&self, axis: &TimeAxis, what: &str, by: Option<&str>) -> String {
        let stacked = by.map_or_else(String::new, |by| format!(", stacked by {by}"));
        let ended = if axis.is_running && axis.len() > 1 { axis.len() - 1 } else { axis.len() };
        let ended = || self.totals.iter().enumerate().take(ended);
        let lowest = ended().min_by_key(|(_, total)| **total);
        let highest = ended().rev().max_by_key(|(_, total)| **total);
        let (Some((low, least)), Some((high, most))) = (lowest, highest) else {
            return format!("{what}: no data.");
        };
        format!(
            "{what} per {}{stacked}. Lowest {} at {}, highest {} at {}.",
            axis.bucket.name(),
            grouped(*least),
            axis.name(low),
            grouped(*most),
            axis.name(high)
        )
    }
}

fn add(sums: &mut [u64], values: &[u64]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum = sum.saturating_add(*value);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::axis::tests::hours;
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn series(name: &str, values: &[u64]) -> Series {
        Series { name: name.into(), values: values.to_vec() }
    }

    pub(crate) fn any_series(buckets: usize) -> impl Strategy<Value = Vec<Series>> {
        let values = proptest::collection::vec(0u64..1_000_000_000, buckets);
        let one = ("[a-z]{1,6}", values).prop_map(|(name, values)| Series { name, values });
        proptest::collection::vec(one, 0..12)
    }

    fn names(stack: &Stack) -> Vec<(&str, &str, u64)> {
        stack.bands.iter().map(|band| (band.class, band.name.as_str(), band.sum)).collect()
    }

    #[test]
    fn the_largest_is_at_the_bottom_and_the_sixth_is_among_the_others() {
        let all = [("a", 1), ("b", 9), ("c", 5), ("d", 5), ("e", 2), ("f", 3), ("g", 1), ("empty", 0)];
        let all = all.map(|(name, value)| series(name, &[value, value]));
        let stack = Stack::of(all.to_vec(), 2);
        assert_eq!(
            names(&stack),
            [
                ("s1", "b", 18),
                ("s2", "c", 10),
                ("s3", "d", 10),
                ("s4", "f", 6),
                ("s5", "e", 4),
                ("s7", "a, g", 4)
            ]
        );
        assert_eq!((stack.totals.as_slice(), stack.max()), (&[26, 26][..], 26));
        let many: Vec<_> = (1..=9).map(|number| series(&number.to_string(), &[number])).collect();
        assert_eq!(names(&Stack::of(many, 1)).last(), Some(&("s7", "4 others", 10)));
    }

    #[test]
    fn a_bucket_is_described_in_text() {
        let stack = Stack::of(vec![series("eth", &[1, 1_226, 0]), series("btc", &[0, 744, 0])], 3);
        assert_eq!(stack.words(1, "requests"), "1,970 requests (eth 1,226, btc 744)");
        assert_eq!(stack.words(0, "requests"), "1 request (eth 1)");
        assert_eq!(stack.words(2, "requests"), "0 requests");
        assert_eq!(Stack::of(vec![series("eth", &[7])], 1).words(0, "CU"), "7 CU");
    }

    #[test]
    fn the_sentence_leaves_the_running_bucket_out() {
        let stack = Stack::of(vec![series("eth", &[5, 1_500, 2])], 3);
        let axis = hours(3);
        assert_eq!(
            stack.sentence(&axis, "Requests", Some("chain")),
            "Requests per hour, stacked by chain. Lowest 5 at 15:00 UTC, highest 1,500 at 16:00 UTC."
        );
        let ended = TimeAxis { is_running: false, ..axis };
        assert!(
            stack.sentence(&ended, "Requests", None).starts_with("Requests per hour. Lowest 2 at 17:00 UTC,")
        );
        let none = TimeAxis { starts: Vec::new(), ..hours(0) };
        assert_eq!(Stack::of(Vec::new(), 0).sentence(&none, "Requests", None), "Requests: no data.");
    }

    #[test]
    fn a_series_that_ends_early_is_0_from_there_on() {
        let stack = Stack::of(vec![series("eth", &[5])], 3);
        assert_eq!(stack.totals, [5, 0, 0]);
    }

    proptest! {
        // Shows (Dashboard).
        #[test]
        fn the_parts_add_up_to_the_series(all in any_series(7)) {
            let stack = Stack::of(all.clone(), 7);
            for bucket in 0..7 {
                let given: u64 = all.iter().map(|series| series.values[bucket]).sum();
                let shown: u64 = stack.bands.iter().map(|band| band.values[bucket]).sum();
                prop_assert_eq!((given, given), (shown, stack.totals[bucket]));
            }
            prop_assert!(stack.bands.len() <= 6);
            let of_bands: u64 = stack.bands.iter().map(|band| band.sum).sum();
            prop_assert_eq!(of_bands, stack.totals.iter().sum::<u64>());
            let named = stack.bands.iter().filter(|band| band.class != OTHERS);
            prop_assert!(named.clone().zip(named.skip(1)).all(|(one, next)| one.sum >= next.sum));
            // The table has the same numbers.
            let table = stack.table(&hours(7), String::new());
            for ((_, cells), total) in table.rows.iter().zip(&stack.totals) {
                let shown = cells.last().map_or(Ok(0), |cell| cell.replace(',', "").parse::<u64>());
                prop_assert_eq!(shown, Ok(*total));
            }
        }
    }
}
