//! Stacked bar charts: counts over time, a column for each hour or day.

use super::axis::{BucketLayout, TimeAxis};
use super::number::coordinate;
use super::plot::{BarPart, Hit, Plot};
use super::scale::Scale;
use super::stack::Stack;

/// The share of a bucket's width that its column fills.
const FILLED: f64 = 0.72;

/// Makes the chart of `stack` over `axis`. `what` names the values at the beginning of a sentence, `unit` follows a
/// number, and `by` names the kind of series.
pub(crate) fn bars(stack: &Stack, axis: &TimeAxis, what: &str, unit: &str, by: Option<&str>) -> Plot {
    let scale = Scale::of_counts(stack.max());
    let mut below = vec![0u64; axis.len()];
    let mut columns = Vec::new();
    for band in &stack.bands {
        for (bucket, value) in band.values.iter().enumerate().filter(|(_, value)| **value > 0) {
            let (x, width) = axis.span(bucket, BucketLayout::Columns);
            let above = below[bucket].saturating_add(*value);
            let top = scale.y(above as f64);
            let bottom = scale.y(below[bucket] as f64);
            below[bucket] = above;
            columns.push(BarPart {
                class: band.class,
                x: coordinate(x + width * (1.0 - FILLED) / 2.0),
                width: coordinate(width * FILLED),
                y: coordinate(top),
                height: coordinate(bottom - top),
            });
        }
    }
    let hit = |bucket: usize| {
        let (x, width) = axis.span(bucket, BucketLayout::Columns);
        let title = format!("{}: {}", axis.name(bucket), stack.words(bucket, unit));
        let is_veil = axis.is_running && bucket + 1 == axis.len();
        Hit { x: coordinate(x), width: coordinate(width), title, is_veil }
    };
    let named =
        by.map_or_else(|| axis.bucket.name().to_owned(), |by| format!("{} and {by}", axis.bucket.name()));
    Plot {
        sentence: stack.sentence(axis, what, by),
        width: "100".into(),
        grid: scale.grid(100.0),
        shapes: Vec::new(),
        running: None,
        columns,
        y_labels: scale.labels(),
        x_labels: axis.labels(BucketLayout::Columns),
        hits: (0..axis.len()).map(hit).collect(),
        legend: stack.legend(),
        table: stack.table(axis, format!("{what} by {named}")),
        is_tall: false,
        empty: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::axis::tests::{days, hours};
    use super::super::stack::tests::{any_series, series};
    use super::*;
    use proptest::prelude::*;

    fn number(text: &str) -> f64 {
        text.parse().unwrap()
    }

    #[test]
    fn each_bar_starts_at_the_top_of_the_one_below() {
        let stack = Stack::of(vec![series("eth", &[10, 20]), series("btc", &[5, 0])], 2);
        let plot = bars(&stack, &hours(2), "Compute Units", "CU", Some("chain"));
        let placed: Vec<_> =
            plot.columns.iter().map(|bar| [bar.class, &bar.x, &bar.width, &bar.y, &bar.height]).collect();
        assert_eq!(
            placed,
            [["s1", "7", "36", "50", "50"], ["s1", "57", "36", "0", "100"], ["s2", "7", "36", "25", "25"]]
        );
        assert_eq!(plot.hits.iter().map(|hit| hit.is_veil).collect::<Vec<_>>(), [false, true]);
        assert_eq!(plot.hits[0].title, "15:00 UTC: 15 CU (eth 10, btc 5)");
    }

    #[test]
    fn days_that_have_ended_have_no_veil() {
        let plot = bars(&Stack::of(vec![series("eth", &[1])], 1), &days(1), "Requests", "requests", None);
        assert!(!plot.hits[0].is_veil);
        assert_eq!(plot.columns.len(), 1);
        assert!(bars(&Stack::of(Vec::new(), 3), &days(3), "Requests", "requests", None).columns.is_empty());
    }

    proptest! {
        // Shows (Dashboard).
        #[test]
        fn every_column_is_in_the_box_and_as_high_as_its_sum(all in any_series(5)) {
            let stack = Stack::of(all, 5);
            let plot = bars(&stack, &hours(5), "Compute Units", "CU", None);
            let mut heights = [0.0; 5];
            for bar in &plot.columns {
                let x = number(&bar.x);
                let width = number(&bar.width);
                let y = number(&bar.y);
                let height = number(&bar.height);
                prop_assert!(x >= 0.0 && x + width <= 100.0 && y >= 0.0 && y + height <= 100.02);
                heights[(x / 20.0) as usize] += height;
            }
            let scale = Scale::of_counts(stack.max());
            for (height, total) in heights.into_iter().zip(&stack.totals) {
                // Each of at most six parts is rounded to two decimals.
                prop_assert!((height - *total as f64 / scale.top() * 100.0).abs() < 0.1);
            }
        }
    }
}
