//! The confirmation page before a dangerous action. It names the consequences; only its button performs the action.

use super::filters;
use super::form::FieldList;
use super::frame::Frame;
use super::problems::Problems;
use super::versions::{FormVersion, VERSION};
use askama::Template;

/// A question with a button for the action and a link back.
#[derive(Template, Clone, Debug)]
#[template(path = "confirm.html")]
pub(crate) struct ConfirmQuestion {
    frame: Frame,
    problems: Problems,
    /// For example `Revoke checkout-worker?`
    question: String,
    /// The breadcrumbs: labels, and addresses below the root.
    crumbs: Vec<(String, String)>,
    warning: Option<String>,
    consequences: Vec<String>,
    act: String,
    /// The address that the form is sent to, below the root.
    target: String,
    /// The label of the link back.
    keep: String,
    /// The target of the link back, below the root.
    back: String,
    typed: Option<String>,
    hidden: Vec<(String, String)>,
}

impl ConfirmQuestion {
    /// Asks `question` on the page of `frame`. The button `act` sends a form to the page's own address; the link back
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

    /// Adds a breadcrumb: its label, and its address below the root.
    #[must_use]
    pub(crate) fn crumb(mut self, label: impl Into<String>, path: impl Into<String>) -> Self {
        self.crumbs.push((label.into(), path.into()));
        self
    }

    #[must_use]
    pub(crate) fn warning(mut self, warning: impl Into<String>) -> Self {
        self.warning = Some(warning.into());
        self
    }

    #[must_use]
    pub(crate) fn consequence(mut self, consequence: impl Into<String>) -> Self {
        self.consequences.push(consequence.into());
        self
    }

    /// Replaces "Keep it" as the label of the link back.
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

    /// Requires the user to type this name. Used only if the object that is destroyed is in use.
    #[must_use]
    pub(crate) fn typed(mut self, name: impl Into<String>) -> Self {
        self.typed = Some(name.into());
        self
    }

    #[must_use]
    pub(crate) fn hidden(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.hidden.push((name.into(), value.into()));
        self
    }

    /// Adds the version of the object. If the object changes, the question is asked again.
    #[must_use]
    pub(crate) fn version(self, version: &FormVersion) -> Self {
        if version.is_known() { self.hidden(VERSION, version.to_string()) } else { self }
    }

    /// Asks again because of `problems` with the form that had these fields; `version` is the current one.
    #[must_use]
    pub(crate) fn again(self, version: FormVersion, fields: &FieldList, problems: Problems) -> Self {
        self.version(&version.again(&problems, fields)).problems(problems)
    }

    #[must_use]
    pub(crate) fn problems(mut self, problems: Problems) -> Self {
        self.problems = problems;
        self
    }
}
