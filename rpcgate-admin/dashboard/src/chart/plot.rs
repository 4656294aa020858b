//! A chart over time: the common parts and the template of stacked areas, stacked bars and lines.
//!
//! Shapes are in an inner SVG that is stretched to the width of the page. Texts are outside of it, at positions in
//! percent, so that they are not distorted. Colours are classes, because the pages' policy allows no style attributes.

use super::axis::XLabel;
use super::scale::YLabel;
use askama::Template;

#[derive(Clone, PartialEq, Eq, Debug, Template)]
#[template(path = "chart/plot.html")]
pub(crate) struct Plot {
    /// A sentence about the shape, the lowest and the highest value.
    pub(super) sentence: String,
    /// The width of the inner SVG's coordinates.
    pub(super) width: String,
    /// The path of the lines above 0.
    pub(super) grid: String,
    pub(super) shapes: Vec<Shape>,
    /// The path over the bucket that has not ended.
    pub(super) running: Option<String>,
    pub(super) columns: Vec<BarPart>,
    pub(super) y_labels: Vec<YLabel>,
    pub(super) x_labels: Vec<XLabel>,
    /// The hover area of each bucket.
    pub(super) hits: Vec<Hit>,
    pub(super) legend: Vec<LegendEntry>,
    pub(super) table: DataTable,
    pub(super) is_tall: bool,
    /// A sentence instead of the shapes, if there is no data.
    pub(super) empty: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    /// The kind and the colour.
    pub(super) class: String,
    pub(super) path: String,
}

/// A part of a column, in percent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BarPart {
    pub(super) class: &'static str,
    pub(super) x: String,
    pub(super) width: String,
    pub(super) y: String,
    pub(super) height: String,
}

/// The hover area over the full height of a bucket, with its content as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Hit {
    pub(super) x: String,
    pub(super) width: String,
    pub(super) title: String,
    /// True if it dims a column that has not ended.
    pub(super) is_veil: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LegendEntry {
    pub(super) class: &'static str,
    pub(super) name: String,
    pub(super) value: String,
}

/// The table with the numbers of a chart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct DataTable {
    pub(super) name: String,
    pub(super) first: &'static str,
    pub(super) heads: Vec<String>,
    /// The rows: their headings and their numbers.
    pub(super) rows: Vec<(String, Vec<String>)>,
}

impl Plot {
    /// Adds a sentence that is shown if there is nothing to draw.
    #[must_use]
    pub(crate) fn or_empty(self, sentence: &str) -> Self {
        let is_empty = self.shapes.is_empty() && self.columns.is_empty();
        Plot { empty: is_empty.then(|| sentence.to_owned()), ..self }
    }

    /// Makes the chart somewhat higher.
    #[must_use]
    pub(crate) fn tall(self) -> Self {
        Plot { is_tall: true, ..self }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::area::area;
    use super::super::axis::tests::hours;
    use super::super::stack::Stack;
    use super::super::stack::tests::series;
    use super::*;

    /// Returns the coordinates in a path, in pairs. All its commands take a position or a height.
    pub(crate) fn positions(path: &str) -> Vec<f64> {
        let numbers = path.split(|letter: char| letter.is_ascii_alphabetic() || letter == ' ');
        numbers.filter(|number| !number.is_empty()).map(|number| number.parse().unwrap()).collect()
    }

    // Shows (Dashboard): Every chart over time has a sentence for users who cannot see it, and the same numbers as a
    // table.
    #[test]
    fn the_page_has_the_shapes_the_description_and_the_same_numbers_as_a_table() {
        let stack = Stack::of(vec![series("<eth>", &[1_000, 2_945]), series("btc", &[5, 6])], 2);
        let html = area(&stack, &hours(2), "Requests", "requests", Some("chain")).render().unwrap();
        assert!(html.contains("role=\"img\" aria-label=\"Requests per hour, stacked by chain."), "{html}");
        assert!(html.contains("viewBox=\"0 0 1 100\" preserveAspectRatio=\"none\""), "{html}");
        assert!(
            html.contains("<title>16:00 UTC: 2,951 requests (&#60;eth&#62; 2,945, btc 6)</title>"),
            "{html}"
        );
        assert!(html.contains("<summary>Show as a table</summary>"), "{html}");
        assert!(
            html.contains("<th scope=\"row\">16:00</th><td class=\"num\">2,945</td><td class=\"num\">6</td>"),
            "{html}"
        );
        assert!(html.contains("&#60;eth&#62; <b>3,945</b>"), "{html}");
        assert!(!html.contains("style=") && !html.contains("<eth>"), "{html}");
    }

    // Shows (Dashboard).
    #[test]
    fn a_chart_without_data_keeps_its_frame_and_explains_the_reason() {
        let plot = area(&Stack::of(Vec::new(), 2), &hours(2), "Requests", "requests", Some("chain"));
        let html = plot.or_empty("No calls yet.").render().unwrap();
        assert!(html.contains("class=\"grid\"") && html.contains(">No calls yet.</text>"), "{html}");
        assert!(!html.contains("class=\"legend\"") && !html.contains("<details"), "{html}");
        let drawn = Stack::of(vec![series("eth", &[1, 2])], 2);
        let html =
            area(&drawn, &hours(2), "Requests", "requests", None).or_empty("No calls yet.").render().unwrap();
        assert!(!html.contains("No calls yet."));
    }
}
