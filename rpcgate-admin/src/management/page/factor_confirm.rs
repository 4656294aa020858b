//! The question before something about factors is done, which asks for one of them.

use super::filters;
use super::frame::Frame;
use super::given_factor::FactorChoice;
use super::problems::Problems;
use askama::Template;

/// The page that asks for a factor before something about factors is done.
#[derive(Template)]
#[template(path = "factor_confirm.html")]
pub(super) struct FactorConfirmPage {
    pub(super) frame: Frame,
    pub(super) problems: Problems,
    pub(super) choice: FactorChoice,
    pub(super) question: String,
    pub(super) consequences: Vec<&'static str>,
    /// The name of the act, on its button.
    pub(super) act: &'static str,
    /// Whether it destroys something.
    pub(super) is_dangerous: bool,
}
