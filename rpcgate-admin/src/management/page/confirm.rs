//! The page that asks before something dangerous: it names the consequences, and only its button does it.

use super::filters;
use super::form::FieldList;
use super::frame::Frame;
use super::problems::Problems;
use super::versions::{FormVersion, VERSION};
use askama::Template;

/// A question that is answered by the act itself or by a way back.
#[derive(Template, Clone, Debug)]
#[template(path = "confirm.html")]
pub(crate) struct ConfirmQuestion {
    frame: Frame,
    problems: Problems,
    /// `Revoke checkout-worker?`
    question: String,
    /// The way here: labels, and addresses below the root.
    crumbs: Vec<(String, String)>,
    warning: Option<String>,
    consequences: Vec<String>,
    /// The name of the act, on the button.
    act: String,
    /// Where the form goes, below the root.
    target: String,
    /// The words for the way back.
    keep: String,
    /// Where "Keep it" leads, below the root.
    back: String,
    typed: Option<String>,
    hidden: Vec<(String, String)>,
}

impl ConfirmQuestion {
    /// Asks `question` on the page of `frame`. The button `act` sends a form to the page's own address; the way back
    /// leads to `back`, below the root.
    pub(crate) fn new(
        frame: Frame,
        question: impl Into<String>,
        act: impl Into<String>,
        back: impl Into<String>,
    ) -> Self {
        ConfirmQuestion {
            target: frame.here.clone(),
            frame,
            problems: Problems::default(),
            question: question.into(),
            crumbs: Vec::new(),
            warning: None,
            consequences: Vec::new(),
            act: act.into(),
            keep: "Keep it".into(),
            back: back.into(),
            typed: None,
            hidden: Vec::new(),
        }
    }

    /// Adds a step of the way here: its label, and its address below the root.
    #[must_use]
    pub(crate) fn crumb(mut self, label: impl Into<String>, path: impl Into<String>) -> Self {
        self.crumbs.push((label.into(), path.into()));
        self
    }

    /// What speaks against it now, with real numbers.
    #[must_use]
    pub(crate) fn warning(mut self, warning: impl Into<String>) -> Self {
        self.warning = Some(warning.into());
        self
    }

    /// Adds a consequence.
    #[must_use]
    pub(crate) fn consequence(mut self, consequence: impl Into<String>) -> Self {
        self.consequences.push(consequence.into());
        self
    }

    /// The words for the way back, instead of "Keep it".
    #[must_use]
    pub(crate) fn keep(mut self, words: impl Into<String>) -> Self {
        self.keep = words.into();
        self
    }

    /// Sends the form to another address, below the root.
    #[must_use]
    pub(crate) fn target(mut self, path: impl Into<String>) -> Self {
        self.target = path.into();
        self
    }

    /// Wants this name typed: only where what is destroyed is in use.
    #[must_use]
    pub(crate) fn typed(mut self, name: impl Into<String>) -> Self {
        self.typed = Some(name.into());
        self
    }

    /// Adds a hidden field.
    #[must_use]
    pub(crate) fn hidden(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.hidden.push((name.into(), value.into()));
        self
    }

    /// Asks about this version of what it is about: another one is asked about again.
    #[must_use]
    pub(crate) fn version(self, version: &FormVersion) -> Self {
        if version.is_known() { self.hidden(VERSION, version.to_string()) } else { self }
    }

    /// Asks again because of `problems` with the form that had these fields; `version` is the current one.
    #[must_use]
    pub(crate) fn again(self, version: FormVersion, fields: &FieldList, problems: Problems) -> Self {
        self.version(&version.again(&problems, fields)).problems(problems)
    }

    /// Shows what was wrong with the answer.
    #[must_use]
    pub(crate) fn problems(mut self, problems: Problems) -> Self {
        self.problems = problems;
        self
    }
}
