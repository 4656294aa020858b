//! Line charts: means over time. A line has a gap where nothing was measured.

use super::axis::{BucketLayout, TimeAxis};
use super::number::{coordinate, millis};
use super::plot::{DataTable, Hit, LegendEntry, Plot, Shape};
use super::scale::Scale;

const CLASSES: [&str; 3] = ["s1", "s3", "s2"];

/// A line of times in milliseconds.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct LineSeries {
    pub(crate) name: String,
    /// The mean of each bucket; `None` where nothing was measured.
    pub(crate) values: Vec<Option<f64>>,
    /// The text after the name in the legend.
    pub(crate) summary: String,
}

/// Makes the chart of at most three `lines` over `axis`. `what` names the values at the beginning of a sentence.
pub(crate) fn line(lines: &[LineSeries], axis: &TimeAxis, what: &str) -> Plot {
    let lines = &lines[..lines.len().min(CLASSES.len())];
    let values = || lines.iter().flat_map(|line| line.values.iter().take(axis.len()).flatten().copied());
    let scale = Scale::of(values().fold(0.0, f64::max));
    let width = axis.len().saturating_sub(1).max(1) as f64;
    let mut shapes = Vec::new();
    for (class, line) in CLASSES.into_iter().zip(lines) {
        let runs = runs(&line.values[..line.values.len().min(axis.len())]);
        let drawn = |run: &LineRun| path(&scale, run, axis.len());
        if class == CLASSES[0] {
            let under: String = runs.iter().map(|run| under(&drawn(run), run, axis.len())).collect();
            shapes.push(Shape { class: format!("under {class}"), path: under });
        }
        shapes.push(Shape { class: format!("line {class}"), path: runs.iter().map(drawn).collect() });
    }
    shapes.retain(|shape| !shape.path.is_empty());
    let value = |line: &LineSeries, bucket: usize| line.values.get(bucket).copied().flatten();
    let hit = |bucket: usize| {
        let (x, width) = axis.span(bucket, BucketLayout::Points);
        let words: Vec<_> = lines
            .iter()
            .enumerate()
            .filter_map(|(position, line)| {
                let value = millis(value(line, bucket)?);
                Some(if position == 0 { value } else { format!("{} {value}", line.name) })
            })
            .collect();
        let words = if words.is_empty() { "nothing measured".to_owned() } else { words.join(", ") };
        Hit {
            x: coordinate(x),
            width: coordinate(width),
            title: format!("{}: {words}", axis.name(bucket)),
            is_veil: false,
        }
    };
    let cell = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), millis);
    let row =
        |bucket: usize| (axis.row(bucket), lines.iter().map(|line| cell(value(line, bucket))).collect());
    let entry = |(class, line): (_, &LineSeries)| LegendEntry {
        class,
        name: line.name.clone(),
        value: line.summary.clone(),
    };
    Plot {
        sentence: sentence(lines.first(), axis, what),
        width: coordinate(width),
        grid: scale.grid(width),
        shapes,
        running: None,
        columns: Vec::new(),
        y_labels: scale.labels(),
        x_labels: axis.labels(BucketLayout::Points),
        hits: (0..axis.len()).map(hit).collect(),
        legend: CLASSES.into_iter().zip(lines).map(entry).collect(),
        table: DataTable {
            name: format!("{what} by {}", axis.bucket.name()),
            first: axis.head(),
            heads: lines.iter().map(|line| line.name.clone()).collect(),
            rows: (0..axis.len()).map(row).collect(),
        },
        is_tall: false,
        empty: None,
    }
}

/// Values without a gap between them, and the bucket of the first.
struct LineRun {
    first: usize,
    values: Vec<f64>,
}

fn runs(values: &[Option<f64>]) -> Vec<LineRun> {
    let mut runs: Vec<LineRun> = Vec::new();
    let mut is_open = false;
    for (bucket, value) in values.iter().enumerate() {
        match (value, runs.last_mut().filter(|_| is_open)) {
            (Some(value), Some(run)) => run.values.push(*value),
            (Some(value), None) => runs.push(LineRun { first: bucket, values: vec![*value] }),
            (None, _) => {}
        }
        is_open = value.is_some();
    }
    runs
}

/// Returns the first and the last position of a run. A single value gets some width, so that it is visible.
fn ends(run: &LineRun, buckets: usize) -> (f64, f64) {
    let first = run.first as f64;
    let last = (run.first + run.values.len()).saturating_sub(1) as f64;
    if run.values.len() > 1 {
        return (first, last);
    }
    if buckets == 1 {
        return (0.0, 1.0);
    }
    ((first - 0.25).max(0.0), (last + 0.25).min(buckets as f64 - 1.0))
}

fn path(scale: &Scale, run: &LineRun, buckets: usize) -> String {
    let (first, last) = ends(run, buckets);
    if let [value] = run.values[..] {
        let y = coordinate(scale.y(value));
        return format!("M{} {y}L{} {y}", coordinate(first), coordinate(last));
    }
    let points = run.values.iter().enumerate();
    let points: Vec<_> =
        points.map(|(at, value)| format!("{} {}", run.first + at, coordinate(scale.y(*value)))).collect();
    format!("M{}", points.join("L"))
}

fn under(path: &str, run: &LineRun, buckets: usize) -> String {
    let (first, last) = ends(run, buckets);
    format!("{path}L{} 100L{} 100Z", coordinate(last), coordinate(first))
}

fn sentence(line: Option<&LineSeries>, axis: &TimeAxis, what: &str) -> String {
    let measured = || {
        let values = line.into_iter().flat_map(|line| line.values.iter().take(axis.len()).enumerate());
        values.filter_map(|(bucket, value)| Some((bucket, (*value)?)))
    };
    let lowest = measured().min_by(|(_, one), (_, other)| one.total_cmp(other));
    let highest = measured().max_by(|(_, one), (_, other)| one.total_cmp(other));
    let (Some((low, least)), Some((high, most))) = (lowest, highest) else {
        return format!("{what}: no data.");
    };
    format!(
        "{what} per {}. Lowest {} at {}, highest {} at {}.",
        axis.bucket.name(),
        millis(least),
        axis.name(low),
        millis(most),
        axis.name(high)
    )
}

#[cfg(test)]
mod tests {
    use super::super::axis::tests::hours;
    use super::super::plot::tests::positions;
    use super::*;
    use proptest::prelude::*;

    fn all(values: &[Option<f64>]) -> LineSeries {
        LineSeries { name: "all chains".into(), values: values.to_vec(), summary: "28 ms".into() }
    }

    fn paths(plot: &Plot) -> Vec<(&str, &str)> {
        plot.shapes.iter().map(|shape| (shape.class.as_str(), shape.path.as_str())).collect()
    }

    #[test]
    fn a_line_has_a_gap_where_nothing_was_measured() {
        let plot = line(&[all(&[Some(50.0), Some(100.0), None, Some(25.0)])], &hours(4), "Mean latency");
        assert_eq!(
            paths(&plot),
            [
                ("under s1", "M0 50L1 0L1 100L0 100ZM2.75 75L3 75L3 100L2.75 100Z"),
                ("line s1", "M0 50L1 0M2.75 75L3 75")
            ]
        );
        assert_eq!(plot.hits[2].title, "17:00 UTC: nothing measured");
        assert_eq!(plot.table.rows[2].1, ["–"]);
        assert_eq!(
            plot.sentence,
            "Mean latency per hour. Lowest 25 ms at 18:00 UTC, highest 100 ms at 16:00 UTC."
        );
    }

    #[test]
    fn a_second_line_is_named_and_has_no_area_below() {
        let slow =
            LineSeries { name: "tron".into(), values: vec![Some(88.0), None], summary: "88 ms".into() };
        let plot = line(&[all(&[Some(20.0), Some(30.0)]), slow], &hours(2), "Mean latency");
        assert_eq!(
            plot.shapes.iter().map(|shape| shape.class.as_str()).collect::<Vec<_>>(),
            ["under s1", "line s1", "line s3"]
        );
        assert_eq!(
            (plot.hits[0].title.as_str(), plot.hits[1].title.as_str()),
            ("15:00 UTC: 20 ms, tron 88 ms", "16:00 UTC: 30 ms")
        );
        assert_eq!(plot.legend[1].class, "s3");
    }

    #[test]
    fn a_single_bucket_and_no_data_are_drawn_too() {
        let plot = line(&[all(&[Some(3.0)])], &hours(1), "Mean latency");
        assert_eq!(paths(&plot)[1], ("line s1", "M0 0L1 0"));
        let none = line(&[all(&[None, None])], &hours(2), "Mean latency");
        assert!(none.shapes.is_empty());
        assert_eq!(none.sentence, "Mean latency: no data.");
        assert!(line(&[], &hours(0), "Mean latency").hits.is_empty());
    }

    proptest! {
        // Shows (Dashboard).
        #[test]
        fn every_point_is_in_the_box(values in proptest::collection::vec(proptest::option::of(0.0..1e5f64), 1..30)) {
            let plot = line(&[all(&values)], &hours(values.len()), "Mean latency");
            let width: f64 = plot.width.parse().unwrap();
            for shape in &plot.shapes {
                for position in positions(&shape.path).chunks(2) {
                    prop_assert!((0.0..=width).contains(&position[0]) && (0.0..=100.0).contains(&position[1]), "{}", shape.path);
                }
            }
        }
    }
}
