//! What is wrong with a form, below its fields and together at its head.

use crate::management::error::ActionError;

/// What is wrong with a form. The default is nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Problems(Vec<FormProblem>);

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FormProblem {
    /// The field's name, which is also the `id` of its element. None if it is about no field of the form.
    pub(crate) field: Option<&'static str>,
    /// A sentence.
    pub(crate) text: String,
}

/// The fields of a form: their names, as actions name them in errors, and their labels.
pub(crate) type Labels = &'static [(&'static str, &'static str)];

impl Problems {
    /// The problem of a form with the fields `labels`, which an action has refused.
    pub(crate) fn of(error: &ActionError, labels: Labels) -> Self {
        let wrong = error.wrong_field();
        let field = labels.iter().find(|(name, _)| wrong == Some(*name));
        let mut text = error.to_string();
        for (name, label) in labels {
            text = text.replace(&format!("`{name}`"), label);
        }
        Problems(vec![FormProblem { field: field.map(|(name, _)| *name), text: sentence(&text) }])
    }

    /// A problem that the page itself has found.
    pub(crate) fn at_field(field: &'static str, text: impl Into<String>) -> Self {
        Problems(vec![FormProblem { field: Some(field), text: text.into() }])
    }

    /// Whether something is wrong.
    pub(crate) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[FormProblem] {
        &self.0
    }

    /// What is wrong with a field.
    pub(crate) fn at(&self, field: &str) -> Option<&str> {
        let mut of_field = self.0.iter().filter(|problem| problem.field == Some(field));
        of_field.next().map(|problem| problem.text.as_str())
    }

    /// The beginning of the page's title: what was not done, if something is wrong.
    pub(crate) fn title<'t>(&self, not_done: &'t str) -> &'t str {
        if self.any() { not_done } else { "" }
    }
}

/// A text as a sentence, without the backticks that mark field names for programmers.
pub(super) fn sentence(text: &str) -> String {
    let text = text.replace('`', "");
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    let end = if text.ends_with(['.', '?', '…']) { "" } else { "." };
    format!("{}{}{end}", first.unwrap_or_default(), letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: Labels = &[("url", "Address"), ("name", "Name")];

    #[test]
    fn the_error_of_an_action_stands_at_its_field() {
        for (error, field, text) in [
            (
                ActionError::Invalid("`url` must be an https URL".into()),
                Some("url"),
                "Address must be an https URL.",
            ),
            (ActionError::field("name", "give it a name"), Some("name"), "Give it a name."),
            (ActionError::Invalid("`other` is wrong".into()), None, "Other is wrong."),
            (ActionError::Conflict("it is over"), None, "It is over."),
        ] {
            let problems = Problems::of(&error, LABELS);
            assert_eq!(problems.all(), [FormProblem { field, text: text.to_owned() }]);
            assert_eq!(field.and_then(|field| problems.at(field)), field.map(|_| text));
        }
    }

    #[test]
    fn a_title_says_what_was_not_done() {
        assert_eq!(Problems::default().title("Not saved: "), "");
        let problems = Problems::at_field("url", "No.");
        assert_eq!(problems.title("Not saved: "), "Not saved: ");
        assert_eq!((problems.at("url"), problems.at("other")), (Some("No."), None));
    }
}
