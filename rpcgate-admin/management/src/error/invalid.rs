//! The error of an invalid request: the wrong field and the words about it, in which fields are values.

use super::ActionError;
use std::borrow::Cow;
use std::fmt::{self, Display};

/// The text about times of API clients. Browsers send neither seconds nor a zone.
pub const API_MOMENT: &str = "an RFC 3339 moment since 1970, such as 2027-01-31T12:00:00Z";
const FORM_MOMENT: &str = "a day and a time in UTC, such as 2027-01-31T12:00";

/// The reason why a request is invalid, and the field or the parameter that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidRequest {
    field: Option<Cow<'static, str>>,
    parts: Vec<Part>,
}

/// A part of the text about an invalid request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// Words of the sentence.
    Words(Cow<'static, str>),
    /// A field, which API clients read in backticks and users by its label.
    Field(Cow<'static, str>),
    /// A field, which API clients read without backticks and users by its label.
    Bare(&'static str),
    /// The form of a time.
    Moment,
}

impl InvalidRequest {
    /// Returns the wrong field or parameter, if one is wrong.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// Returns the text for a form in which fields have these labels.
    pub fn labelled(&self, labels: &[(&str, &str)]) -> String {
        let label = |name: &str| {
            labels.iter().find(|(own, _)| *own == name).map_or(name, |(_, label)| *label).to_owned()
        };
        let part = |part: &Part| match part {
            Part::Words(words) => words.to_string(),
            Part::Field(name) => label(name),
            Part::Bare(name) => label(name),
            Part::Moment => FORM_MOMENT.to_owned(),
        };
        self.parts.iter().map(part).collect()
    }

    /// Renames a field, for a form that calls it differently.
    pub fn renamed(self, from: &str, to: &'static str) -> Self {
        let part = |part| match part {
            Part::Field(name) if name == from => Part::Field(to.into()),
            part => part,
        };
        let field = self.field.map(|name| if name == from { to.into() } else { name });
        InvalidRequest { field, parts: self.parts.into_iter().map(part).collect() }
    }
}

impl Display for InvalidRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Words(words) => f.write_str(words),
            Part::Field(name) => write!(f, "`{name}`"),
            Part::Bare(name) => f.write_str(name),
            Part::Moment => f.write_str(API_MOMENT),
        })
    }
}

impl ActionError {
    /// Makes the error of a request that is wrong as a whole, not in one field.
    pub fn invalid(text: impl Into<Cow<'static, str>>) -> Self {
        ActionError::Invalid(InvalidRequest { field: None, parts: vec![Part::Words(text.into())] })
    }

    /// Makes the error of a wrong `field`. The text `why` does not begin with the field.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "functions that make errors take ownership of their values"
    )]
    pub fn field(field: impl Into<Cow<'static, str>>, why: impl ToString) -> Self {
        ActionError::of_parts(field, [Part::Words(why.to_string().into())])
    }

    /// Makes the error of a wrong `field` with a text that begins with it: "`field` why".
    pub fn named(field: impl Into<Cow<'static, str>>, why: impl Into<Cow<'static, str>>) -> Self {
        let field = field.into();
        let why = why.into();
        ActionError::of_parts(field.clone(), [Part::Field(field), Part::Words(format!(" {why}").into())])
    }

    /// Makes the error of something in `field`: "`field`: why".
    pub(crate) fn inside(field: impl Into<Cow<'static, str>>, why: impl Into<Cow<'static, str>>) -> Self {
        let field = field.into();
        let why = why.into();
        ActionError::of_parts(field.clone(), [Part::Field(field), Part::Words(format!(": {why}").into())])
    }

    /// Makes the error of a wrong `field` with a text that begins with it, without backticks.
    pub fn bare(field: &'static str, text: &str) -> Self {
        let why = text.strip_prefix(field).unwrap_or(text).to_owned();
        ActionError::of_parts(field, [Part::Bare(field), Part::Words(why.into())])
    }

    /// Makes the error of a wrong `field` with a text that names several fields.
    pub fn of_parts(field: impl Into<Cow<'static, str>>, parts: impl IntoIterator<Item = Part>) -> Self {
        ActionError::Invalid(InvalidRequest { field: Some(field.into()), parts: parts.into_iter().collect() })
    }
}
