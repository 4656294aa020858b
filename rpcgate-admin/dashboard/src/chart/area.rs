//! Stacked area charts: counts over time, the largest series at the bottom.

use super::axis::{BucketLayout, TimeAxis};
use super::number::coordinate;
use super::plot::{Hit, Plot, Shape};
use super::scale::Scale;
use super::stack::Stack;

/// Makes the chart of `stack` over `axis`. `what` names the values at the beginning of a sentence, `unit` follows a
/// number, and `by` names the kind of series.
pub(crate) fn area(stack: &Stack, axis: &TimeAxis, what: &str, unit: &str, by: Option<&str>) -> Plot {
    let scale = Scale::of_counts(stack.max());
    // A single bucket is as wide as the chart.
    let width = axis.len().saturating_sub(1).max(1) as f64;
    let mut below = vec![0; axis.len()];
    let shapes = stack.bands.iter().map(|band| {
        let above: Vec<u64> = below
            .iter()
            .zip(&band.values)
            .map(|(below, value)| u64::saturating_add(*below, *value))
            .collect();
        let shape = Shape { class: format!("area {}", band.class), path: closed(&scale, &above, &below) };
        below = above;
        shape
    });
    let shapes: Vec<_> = shapes.collect();
    let running = (axis.is_running && axis.len() > 0).then(|| {
        let from = coordinate((axis.len() as f64 - 2.0).max(0.0));
        let to = coordinate(width);
        format!("M{from} 0H{to}V100H{from}Z")
    });
    let hit = |bucket: usize| {
        let (x, width) = axis.span(bucket, BucketLayout::Points);
        let title = format!("{}: {}", axis.name(bucket), stack.words(bucket, unit));
        Hit { x: coordinate(x), width: coordinate(width), title, is_veil: false }
    };
    let named =
        by.map_or_else(|| axis.bucket.name().to_owned(), |by| format!("{} and {by}", axis.bucket.name()));
    Plot {
        sentence: stack.sentence(axis, what, by),
        width: coordinate(width),
        grid: scale.grid(width),
        running: running.filter(|_| !shapes.is_empty()),
        shapes,
        columns: Vec::new(),
        y_labels: scale.labels(),
        x_labels: axis.labels(BucketLayout::Points),
        hits: (0..axis.len()).map(hit).collect(),
        legend: stack.legend(),
        table: stack.table(axis, format!("{what} by {named}")),
        is_tall: false,
        empty: None,
    }
}

/// Returns the path around the area between `below` and `above`: along the upper edge and back along the lower one.
fn closed(scale: &Scale, above: &[u64], below: &[u64]) -> String {
    let point = |at: usize, value: u64| format!("{at} {}", coordinate(scale.y(value as f64)));
    let (mut upper, mut lower): (Vec<_>, Vec<_>) = above
        .iter()
        .zip(below)
        .enumerate()
        .map(|(at, (above, below))| (point(at, *above), point(at, *below)))
        .unzip();
    if let ([above], [below]) = (above, below) {
        upper.push(point(1, *above));
        lower.push(point(1, *below));
    }
    lower.reverse();
    format!("M{}L{}Z", upper.join("L"), lower.join("L"))
}

#[cfg(test)]
mod tests {
    use super::super::axis::tests::hours;
    use super::super::plot::tests::positions;
    use super::super::stack::tests::{any_series, series};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_area_is_stacked_on_the_one_below() {
        let stack = Stack::of(vec![series("eth", &[1_500, 3_000]), series("btc", &[1_500, 0])], 2);
        let plot = area(&stack, &hours(2), "Requests", "requests", Some("chain"));
        let paths: Vec<_> =
            plot.shapes.iter().map(|shape| (shape.class.as_str(), shape.path.as_str())).collect();
        assert_eq!(paths, [("area s1", "M0 50L1 0L1 100L0 100Z"), ("area s2", "M0 0L1 0L1 0L0 50Z")]);
        assert_eq!(plot.running.as_deref(), Some("M0 0H1V100H0Z"));
        assert_eq!(plot.table.name, "Requests by hour and chain");
        assert_eq!(plot.y_labels.len(), 4);
    }

    #[test]
    fn a_single_bucket_fills_the_width() {
        let plot = area(&Stack::of(vec![series("eth", &[3])], 1), &hours(1), "Requests", "requests", None);
        assert_eq!((plot.width.as_str(), plot.shapes[0].path.as_str()), ("1", "M0 0L1 0L1 100L0 100Z"));
        assert_eq!((plot.hits[0].x.as_str(), plot.hits[0].width.as_str()), ("0", "100"));
        assert_eq!(plot.table.name, "Requests by hour");
    }

    #[test]
    fn without_data_there_is_a_frame() {
        for count in [0, 5] {
            let plot = area(&Stack::of(Vec::new(), count), &hours(count), "Requests", "requests", None);
            assert!(plot.shapes.is_empty() && plot.running.is_none() && plot.legend.is_empty());
            assert_eq!((plot.y_labels.len(), plot.hits.len()), (4, count));
        }
    }

    proptest! {
        // Shows (Dashboard): Charts stay in their box, their parts add up, and axes have three to five steps of 1, 2,
        // 2.5 or 5.
        #[test]
        fn every_point_is_in_the_box(all in any_series(9)) {
            let plot = area(&Stack::of(all, 9), &hours(9), "Requests", "requests", None);
            for shape in &plot.shapes {
                let positions = positions(&shape.path);
                prop_assert_eq!(positions.len(), 36);
                for position in positions.chunks(2) {
                    prop_assert!((0.0..=8.0).contains(&position[0]) && (0.0..=100.0).contains(&position[1]));
                }
            }
        }
    }
}
