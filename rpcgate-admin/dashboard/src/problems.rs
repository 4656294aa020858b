//! The errors of a form, shown at its fields and together at its head.

use rpcgate_management::error::{ActionError, ErrorCode};

/// The error that a form shows when the object changed after the form was rendered.
const CHANGED: &str = "This was changed after you had opened it, and nothing was done. Look at it as it is now, and send the \
                       form again if you still want that.";

/// The errors of a form. The default has none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Problems {
    found: Vec<FormProblem>,
    /// True if the object changed after the form was rendered.
    is_changed: bool,
    /// The values that changed, if the object did.
    changes: Vec<ChangedValue>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ChangedValue {
    pub(crate) label: String,
    pub(crate) now: String,
    pub(crate) sent: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FormProblem {
    /// The field's name, which is also the `id` of its element. `None` if the error is not about a field.
    pub(crate) field: Option<&'static str>,
    pub(crate) text: String,
}

/// The fields of a form: their names in errors of actions, and their names within a sentence, such as `the address`.
pub(crate) type Labels = &'static [(&'static str, &'static str)];

impl Problems {
    /// Converts the error of an action on a form with the fields `labels`.
    pub(crate) fn of(error: &ActionError, labels: Labels) -> Self {
        if error.code() == ErrorCode::PreconditionFailed {
            let found = vec![FormProblem { field: None, text: CHANGED.to_owned() }];
            return Problems { found, is_changed: true, changes: Vec::new() };
        }
        let field = labels.iter().find(|(name, _)| error.wrong_field() == Some(*name));
        let text = match error {
            ActionError::Invalid(wrong) => wrong.labelled(labels),
            error => error.to_string(),
        };
        Problems::one(FormProblem { field: field.map(|(name, _)| *name), text: sentence(&text) })
    }

    fn one(problem: FormProblem) -> Self {
        Problems { found: vec![problem], ..Problems::default() }
    }

    pub(crate) fn at_field(field: &'static str, text: impl Into<String>) -> Self {
        Problems::one(FormProblem { field: Some(field), text: text.into() })
    }

    /// Adds the current values next to the submitted ones if the object changed: the label, the current and the
    /// submitted text of each. Equal values are left out.
    #[must_use]
    pub(crate) fn with_values<L: Into<String>>(
        mut self,
        values: impl IntoIterator<Item = (L, String, String)>,
    ) -> Self {
        if self.is_changed {
            let values = values.into_iter().map(|(label, now, sent)| (label, now, sent.replace('\r', "")));
            let differing = values.filter(|(_, now, sent)| now != sent);
            self.changes =
                differing.map(|(label, now, sent)| ChangedValue { label: label.into(), now, sent }).collect();
        }
        self
    }

    /// Prefixes each error with `subject`, for a page with several forms.
    #[must_use]
    pub(crate) fn about(mut self, subject: &str) -> Self {
        for problem in &mut self.found {
            problem.text = format!("{subject}: {}", problem.text);
        }
        self
    }

    /// Reports whether the object changed after the form was rendered.
    pub(crate) fn is_changed(&self) -> bool {
        self.is_changed
    }

    pub(crate) fn changes(&self) -> &[ChangedValue] {
        &self.changes
    }

    pub(crate) fn any(&self) -> bool {
        !self.found.is_empty()
    }

    pub(crate) fn all(&self) -> &[FormProblem] {
        &self.found
    }

    pub(crate) fn at(&self, field: &str) -> Option<&str> {
        let mut of_field = self.found.iter().filter(|problem| problem.field == Some(field));
        of_field.next().map(|problem| problem.text.as_str())
    }

    /// Returns `not_done`, the beginning of the page's title, if there is an error.
    pub(crate) fn title<'t>(&self, not_done: &'t str) -> &'t str {
        if self.any() { not_done } else { "" }
    }
}

/// Formats a text as a sentence, without the backticks that mark names for API clients.
pub(super) fn sentence(text: &str) -> String {
    let text: String = text.chars().filter(|character| *character != '`').collect();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    let end = if text.ends_with(['.', '?', '…']) { "" } else { "." };
    format!("{}{}{end}", first.unwrap_or_default(), letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_management::error::Part;

    const LABELS: Labels =
        &[("url", "the address"), ("name", "the name"), ("to", "the end"), ("from", "the begin")];

    #[test]
    fn the_error_of_an_action_is_shown_at_its_field() {
        for (error, field, text) in [
            (
                ActionError::named("url", "must be an https URL"),
                Some("url"),
                "The address must be an https URL.",
            ),
            (
                ActionError::of_parts(
                    "to",
                    [
                        Part::Field("to".into()),
                        Part::Words(" must be later than ".into()),
                        Part::Field("from".into()),
                    ],
                ),
                Some("to"),
                "The end must be later than the begin.",
            ),
            (ActionError::field("name", "give it a name"), Some("name"), "Give it a name."),
            (ActionError::bare("to", "to must be a UUID"), Some("to"), "The end must be a UUID."),
            (ActionError::field("to", "tomorrow is late"), Some("to"), "Tomorrow is late."),
            (ActionError::named("other", "is wrong"), None, "Other is wrong."),
            (ActionError::Conflict("it is over"), None, "It is over."),
        ] {
            let problems = Problems::of(&error, LABELS);
            assert_eq!(problems.all(), [FormProblem { field, text: text.to_owned() }]);
            assert_eq!(field.and_then(|field| problems.at(field)), field.map(|_| text));
        }
    }

    #[test]
    fn a_concurrent_change_is_shown_next_to_the_submitted_values() {
        let values = || {
            [
                ("Name", "theirs".to_owned(), "mine".to_owned()),
                ("Address", "same".to_owned(), "same".to_owned()),
                ("Methods", "a\nb".to_owned(), "a\r\nb".to_owned()),
            ]
        };
        let changed = ActionError::Refused(ErrorCode::PreconditionFailed, "it was changed in the meantime");
        let problems = Problems::of(&changed, LABELS).with_values(values());
        assert!(problems.is_changed() && problems.any());
        let value =
            ChangedValue { label: "Name".to_owned(), now: "theirs".to_owned(), sent: "mine".to_owned() };
        assert_eq!(problems.changes(), [value]);
        let other = Problems::of(&ActionError::Conflict("it is over"), LABELS).with_values(values());
        assert!(!other.is_changed() && other.changes().is_empty());
    }

    #[test]
    fn an_error_title_names_the_failed_action() {
        assert_eq!(Problems::default().title("Not saved: "), "");
        let problems = Problems::at_field("url", "No.");
        assert_eq!(problems.title("Not saved: "), "Not saved: ");
        assert_eq!((problems.at("url"), problems.at("other")), (Some("No."), None));
    }
}
