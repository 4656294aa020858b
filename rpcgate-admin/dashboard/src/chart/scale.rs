//! The vertical axis of a chart. It begins at 0 and has three to five steps of 1, 2, 2.5 or 5 times a power of ten.

use super::number::{coordinate, short};

const MAX_STEPS: f64 = 5.0;
const MIN_STEPS: f64 = 3.0;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Scale {
    pub(super) step: f64,
    pub(super) steps: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct YLabel {
    /// Its distance from the top, in percent of the height.
    pub(crate) y: String,
    pub(crate) text: String,
}

impl Scale {
    /// Makes the axis for values up to `max`.
    pub(super) fn of(max: f64) -> Self {
        Scale::stepping(max, |_| true)
    }

    /// Makes the axis for counts up to `max`, with lines at whole numbers.
    pub(super) fn of_counts(max: u64) -> Self {
        Scale::stepping(max as f64, |step| step >= 1.0 && step.fract() == 0.0)
    }

    fn stepping(max: f64, is_fit: impl Fn(f64) -> bool) -> Self {
        // An empty chart has lines too.
        let max = if max.is_finite() && max > 0.0 { max } else { MIN_STEPS };
        let exponent = (max / MAX_STEPS).log10().floor() as i32;
        // The next powers are needed if none of the first candidates fits.
        let candidates = (exponent..=exponent + 3).flat_map(|exponent| {
            [1.0, 2.0, 2.5, 5.0].map(|digit| {
                if exponent < 0 { digit / 10f64.powi(-exponent) } else { digit * 10f64.powi(exponent) }
            })
        });
        let step = candidates.into_iter().find(|step| is_fit(*step) && max <= step * MAX_STEPS);
        let step = step.unwrap_or(max / MIN_STEPS).max(f64::MIN_POSITIVE);
        Scale { step, steps: (max / step).ceil().clamp(MIN_STEPS, MAX_STEPS) as u32 }
    }

    pub(super) fn top(self) -> f64 {
        self.step * f64::from(self.steps)
    }

    /// Returns the distance of a value from the top, in percent of the height.
    pub(super) fn y(self, value: f64) -> f64 {
        (100.0 - value / self.top() * 100.0).clamp(0.0, 100.0)
    }

    /// Returns the labels, from the bottom to the top.
    pub(super) fn labels(self) -> Vec<YLabel> {
        let label = |number: u32| {
            let value = self.step * f64::from(number);
            YLabel { y: coordinate(self.y(value)), text: short(value) }
        };
        (0..=self.steps).map(label).collect()
    }

    /// Returns the path of the lines above 0, in a box of this width.
    pub(super) fn grid(self, width: f64) -> String {
        let width = coordinate(width);
        let line = |number: u32| {
            let y = coordinate(self.y(self.step * f64::from(number)));
            format!("M0 {y}H{width}")
        };
        (1..=self.steps).rev().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(scale: Scale) -> Vec<String> {
        scale.labels().into_iter().map(|label| label.text).collect()
    }

    #[test]
    fn the_steps_are_1_2_2_and_a_half_or_5_times_a_power_of_ten() {
        for (max, texts) in [
            (2_945, &["0", "1k", "2k", "3k"][..]),
            (20_800, &["0", "5k", "10k", "15k", "20k", "25k"]),
            (88, &["0", "20", "40", "60", "80", "100"]),
            (110, &["0", "25", "50", "75", "100", "125"]),
            (5, &["0", "1", "2", "3", "4", "5"]),
            (12, &["0", "5", "10", "15"]),
            (1, &["0", "1", "2", "3"]),
            (0, &["0", "1", "2", "3"]),
        ] {
            assert_eq!(labels(Scale::of_counts(max)), texts, "{max}");
        }
        assert_eq!(labels(Scale::of(0.9)), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(labels(Scale::of(f64::NAN)), ["0", "1", "2", "3"]);
    }

    #[test]
    fn the_lines_are_drawn_from_the_top() {
        assert_eq!(Scale::of_counts(2_945).grid(23.0), "M0 0H23M0 33.33H23M0 66.67H23");
    }

    proptest! {
        // Shows (Dashboard).
        #[test]
        fn every_count_is_below_the_top_of_its_axis(max: u64) {
            let scale = Scale::of_counts(max);
            prop_assert!((3..=5).contains(&scale.steps));
            prop_assert!(scale.top() >= max as f64);
            prop_assert!((0.0..=100.0).contains(&scale.y(max as f64)));
            // At least two fifths of the height are used, except by counts too small for whole steps.
            prop_assert!(max < 3 || scale.y(max as f64) <= 60.0, "{:?}", scale);
            prop_assert_eq!(scale.step.fract(), 0.0);
        }

        #[test]
        fn every_value_is_below_the_top_of_its_axis(max in 1e-6..1e15f64) {
            let scale = Scale::of(max);
            prop_assert!((3..=5).contains(&scale.steps));
            prop_assert!(scale.top() >= max * 0.999_999);
        }
    }
}
