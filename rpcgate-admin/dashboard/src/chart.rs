//! Charts, one file for each kind. This code computes the geometry; the templates only write it.
//!
//! | kind | for |
//! |---|---|
//! | [`area`] | requests over time, stacked |
//! | [`bars`] | Compute Units over time, stacked |
//! | [`line`] | means over time |
//! | [`rank`] | the largest of many |
//! | [`heat`] | errors, lag, failures by the hour |
//! | [`spark`] | a trend in a tile |
//!
//! The first three are drawn as one [`plot`], which also has its numbers in a table.

pub(super) mod area;
pub(super) mod axis;
pub(super) mod bars;
pub(super) mod heat;
pub(super) mod line;
pub(super) mod number;
pub(super) mod plot;
pub(super) mod rank;
mod scale;
pub(super) mod spark;
pub(super) mod stack;
