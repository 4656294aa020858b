//! The question for a second factor before a change of the user's factors.

use super::factor_fields::FactorChoice;
use super::filters;
use super::frame::Frame;
use super::problems::Problems;
use askama::Template;

#[derive(Template)]
#[template(path = "factor_confirm.html")]
pub(super) struct FactorConfirmPage {
    pub(super) frame: Frame,
    pub(super) problems: Problems,
    pub(super) choice: FactorChoice,
    pub(super) question: String,
    pub(super) consequences: Vec<&'static str>,
    pub(super) act: &'static str,
    /// True if the action destroys something.
    pub(super) is_dangerous: bool,
}
