//! The figures of contracts and custom plans as text.

use crate::management::shape::figures::FiguresJson;

/// Lists the figures that are set, one per line.
pub(super) fn lines(figures: &FiguresJson) -> String {
    let Ok(figures) = figures.clone().figures() else { return String::new() };
    figures.given().map(|figure| figure.to_string()).collect::<Vec<_>>().join("\n")
}
