//! Sparks: a trend in a tile or a table, without an axis. The number is shown next to it.

use super::number::coordinate;
use askama::Template;

/// The height of the coordinates, and the highest position of the line, which leaves space for its own width.
const HEIGHT: f64 = 20.0;
const TOP: f64 = 2.0;

#[derive(Clone, PartialEq, Eq, Debug, Template)]
#[template(path = "chart/spark.html")]
pub(crate) struct Spark {
    pub(super) width: usize,
    pub(super) path: String,
    pub(super) under: String,
    pub(super) is_bad: bool,
}

impl Spark {
    /// Draws the trend of `values`, from 0 at the bottom. Values that are not numbers count as 0.
    pub(crate) fn of(values: &[f64]) -> Self {
        let values: Vec<_> =
            values.iter().map(|value| if value.is_finite() { value.max(0.0) } else { 0.0 }).collect();
        // A single value, or none, gives a level line.
        let values = match values[..] {
            [] => vec![0.0, 0.0],
            [only] => vec![only, only],
            _ => values,
        };
        let max = values.iter().copied().fold(0.0, f64::max);
        let y = |value: f64| if max > 0.0 { HEIGHT - value / max * (HEIGHT - TOP) } else { HEIGHT };
        let points = values.iter().enumerate();
        let points: Vec<_> = points.map(|(at, value)| format!("{at} {}", coordinate(y(*value)))).collect();
        let width = values.len() - 1;
        let path = format!("M{}", points.join("L"));
        Spark { width, under: format!("{path}L{width} {HEIGHT}L0 {HEIGHT}Z"), path, is_bad: false }
    }

    pub(crate) fn of_counts(counts: &[u64]) -> Self {
        Spark::of(&counts.iter().map(|count| *count as f64).collect::<Vec<_>>())
    }

    #[must_use]
    pub(crate) fn bad(self) -> Self {
        Spark { is_bad: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plot::tests::positions;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_highest_value_is_near_the_top_and_0_at_the_bottom() {
        let spark = Spark::of_counts(&[0, 5, 10]);
        assert_eq!((spark.width, spark.path.as_str()), (2, "M0 20L1 11L2 2"));
        assert_eq!(spark.under, "M0 20L1 11L2 2L2 20L0 20Z");
        let html = spark.bad().render().unwrap();
        assert!(html.starts_with("<svg class=\"spark sb\" viewBox=\"0 0 2 20\""), "{html}");
    }

    #[test]
    fn a_single_value_and_none_are_level() {
        assert_eq!(Spark::of_counts(&[7]).path, "M0 2L1 2");
        assert_eq!(Spark::of_counts(&[]).path, "M0 20L1 20");
        assert_eq!(Spark::of(&[f64::NAN, f64::INFINITY, -1.0]).path, "M0 20L1 20L2 20");
    }

    proptest! {
        // Shows (Dashboard).
        #[test]
        fn every_point_is_in_the_box(values in proptest::collection::vec(any::<u64>(), 0..50)) {
            let spark = Spark::of_counts(&values);
            for position in positions(&spark.path).chunks(2) {
                prop_assert!((0.0..=spark.width as f64).contains(&position[0]) && (2.0..=20.0).contains(&position[1]));
            }
        }
    }
}
