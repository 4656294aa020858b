//! Heat strips: a cell for each bucket, in four steps and one for no data. A number is shown next to the strip, so
//! that the information never depends on colour alone.

use super::number::coordinate;
use askama::Template;

/// The share of a bucket's width that its cell fills.
const FILLED: f64 = 0.86;

#[derive(Clone, PartialEq, Eq, Debug, Template)]
#[template(path = "chart/heat.html")]
pub(crate) struct Heat {
    /// The description of the strip as a sentence.
    pub(super) sentence: String,
    pub(super) cells: Vec<HeatCell>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct HeatCell {
    pub(super) class: &'static str,
    pub(super) x: String,
    pub(super) width: String,
    pub(super) title: String,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum HeatStep {
    None,
    Well,
    Little,
    Much,
    Most,
}

impl HeatStep {
    /// Returns the step of `bad` among `all`: well under 0.3 %, little to 1 %, much to 5 %.
    pub(crate) fn of(bad: u64, all: u64) -> Self {
        if all == 0 {
            return HeatStep::None;
        }
        match bad as f64 / all as f64 {
            ..0.003 => HeatStep::Well,
            ..0.01 => HeatStep::Little,
            ..0.05 => HeatStep::Much,
            _ => HeatStep::Most,
        }
    }

    const fn class(self) -> &'static str {
        match self {
            HeatStep::None => "hn",
            HeatStep::Well => "h0",
            HeatStep::Little => "h1",
            HeatStep::Much => "h2",
            HeatStep::Most => "h3",
        }
    }
}

impl Heat {
    /// Makes the strip of these cells, each with its text.
    pub(crate) fn of(sentence: String, cells: Vec<(HeatStep, String)>) -> Self {
        let width = 100.0 / cells.len().max(1) as f64;
        let cell = |(number, (step, title)): (usize, (HeatStep, String))| HeatCell {
            class: step.class(),
            x: coordinate(number as f64 * width),
            width: coordinate(width * FILLED),
            title,
        };
        Heat { sentence, cells: cells.into_iter().enumerate().map(cell).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_steps_match_the_legend() {
        for (bad, all, step) in [
            (0, 0, HeatStep::None),
            (0, 5, HeatStep::Well),
            (2, 1_000, HeatStep::Well),
            (3, 1_000, HeatStep::Little),
            (9, 1_000, HeatStep::Little),
            (10, 1_000, HeatStep::Much),
            (49, 1_000, HeatStep::Much),
            (50, 1_000, HeatStep::Most),
            (7, 7, HeatStep::Most),
        ] {
            assert_eq!(HeatStep::of(bad, all), step, "{bad} of {all}");
        }
    }

    #[test]
    fn each_bucket_has_a_cell_with_a_description() {
        let heat = Heat::of(
            "1 error in 2 hours".into(),
            vec![(HeatStep::None, "15:00 <".into()), (HeatStep::Most, "16:00".into())],
        );
        let html = heat.render().unwrap();
        assert!(html.contains("aria-label=\"1 error in 2 hours\""), "{html}");
        assert!(
            html.contains(
                "<rect class=\"hn\" x=\"0%\" width=\"43%\" height=\"100%\"><title>15:00 &#60;</title>"
            ),
            "{html}"
        );
        assert!(html.contains("<rect class=\"h3\" x=\"50%\" width=\"43%\""), "{html}");
        assert!(Heat::of(String::new(), Vec::new()).cells.is_empty());
    }

    proptest! {
        // Shows (Dashboard).
        #[test]
        fn every_cell_is_in_the_box(count in 1usize..200) {
            let heat = Heat::of(String::new(), vec![(HeatStep::Well, String::new()); count]);
            for cell in &heat.cells {
                let (x, width): (f64, f64) = (cell.x.parse().unwrap(), cell.width.parse().unwrap());
                prop_assert!(x >= 0.0 && width > 0.0 && x + width <= 100.0);
            }
        }
    }
}
