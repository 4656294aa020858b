//! What people write down: bounds on names, descriptions and lists of methods.

use crate::management::error::ActionError;

/// The most characters of a name or a description.
pub const LONGEST_LINE: usize = 200;
/// The most characters of a reason or a note.
pub const LONGEST_PROSE: usize = 2_000;
/// The most methods of a list.
pub const MOST_METHODS: usize = 200;
/// The most bytes of a method's name (contract, "Gateway: routes and bodies").
pub const LONGEST_METHOD: usize = 256;

fn invalid<T>(text: String) -> Result<T, ActionError> {
    Err(ActionError::Invalid(text))
}

/// A line that may be empty, without the blanks around it.
///
/// # Errors
/// [`ActionError::Invalid`] for one that is too long or holds control characters.
pub fn line(field: &str, text: &str) -> Result<String, ActionError> {
    let text = text.trim();
    if text.chars().count() > LONGEST_LINE {
        return invalid(format!("`{field}` must be at most {LONGEST_LINE} characters long"));
    }
    if text.chars().any(char::is_control) {
        return invalid(format!("`{field}` must not hold control characters"));
    }
    Ok(text.to_owned())
}

/// A line that is not empty.
///
/// # Errors
/// As [`line()`], and for an empty one.
pub fn name(field: &str, text: &str) -> Result<String, ActionError> {
    match line(field, text)? {
        name if name.is_empty() => invalid(format!("`{field}` must not be empty")),
        name => Ok(name),
    }
}

/// Lines that are not empty, without the blanks around them.
///
/// # Errors
/// [`ActionError::Invalid`] for an empty or too long one, or one with control characters other than line breaks and tabs.
pub fn prose(field: &str, text: &str) -> Result<String, ActionError> {
    let text = text.trim();
    if text.is_empty() {
        return invalid(format!("`{field}` must not be empty"));
    }
    if text.chars().count() > LONGEST_PROSE {
        return invalid(format!("`{field}` must be at most {LONGEST_PROSE} characters long"));
    }
    if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        return invalid(format!("`{field}` must not hold control characters"));
    }
    Ok(text.to_owned())
}

/// The name of a method, as it is.
///
/// # Errors
/// [`ActionError::Invalid`] for what no method can be called, which a gateway could never match.
pub fn method(field: &str, name: &str) -> Result<(), ActionError> {
    let is_strange = |c: char| c.is_whitespace() || c.is_control();
    if name.is_empty() || name.len() > LONGEST_METHOD || name.contains(is_strange) {
        return invalid(format!(
            "`{field}` must name methods: 1 to {LONGEST_METHOD} bytes each, without blanks and control characters"
        ));
    }
    if name.contains('*') {
        return invalid(format!("`{field}` must name methods one by one, without *"));
    }
    Ok(())
}

/// A list of methods, each once.
///
/// # Errors
/// [`ActionError::Invalid`] for a list that is too long, and as [`method`].
pub fn methods(field: &str, names: Vec<String>) -> Result<Vec<String>, ActionError> {
    if names.len() > MOST_METHODS {
        return invalid(format!("`{field}` must hold at most {MOST_METHODS} methods"));
    }
    let mut kept = Vec::with_capacity(names.len());
    for name in names {
        method(field, &name)?;
        if !kept.contains(&name) {
            kept.push(name);
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong<T: std::fmt::Debug>(result: Result<T, ActionError>) -> String {
        match result {
            Err(ActionError::Invalid(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_have_bounds_and_no_blanks_around_them() {
        assert_eq!(name("name", "  Übung 1 ").unwrap(), "Übung 1");
        assert_eq!(line("name", "").unwrap(), "");
        assert_eq!(name("name", &"ü".repeat(200)).unwrap().chars().count(), 200);
        assert_eq!(wrong(name("name", &"ü".repeat(201))), "`name` must be at most 200 characters long");
        assert_eq!(wrong(name("name", " \t ")), "`name` must not be empty");
        for strange in ["a\nb", "a\u{0}b", "a\u{9b}b"] {
            assert_eq!(wrong(line("name", strange)), "`name` must not hold control characters");
        }
    }

    #[test]
    fn prose_may_have_several_lines() {
        assert_eq!(prose("reason", " a\r\n\tb ").unwrap(), "a\r\n\tb");
        assert_eq!(wrong(prose("reason", "\n")), "`reason` must not be empty");
        assert_eq!(wrong(prose("reason", "a\u{1b}[0m")), "`reason` must not hold control characters");
        assert!(prose("reason", &"a".repeat(2_000)).is_ok() && prose("reason", &"a".repeat(2_001)).is_err());
    }

    #[test]
    fn lists_hold_names_that_a_call_can_have_each_once() {
        let list = |names: &[&str]| methods("list", names.iter().map(ToString::to_string).collect());
        assert_eq!(list(&["b", "queryNetwork/tip", "b"]).unwrap(), ["b", "queryNetwork/tip"]);
        assert_eq!(list(&[]).unwrap(), Vec::<String>::new());
        for strange in ["", "a b", "a\u{0}", "\u{a0}", &"a".repeat(257)] {
            assert!(wrong(list(&["fine", strange])).starts_with("`list` must name methods: 1 to 256 bytes"));
        }
        assert_eq!(wrong(list(&["debug_*"])), "`list` must name methods one by one, without *");
        let many: Vec<_> = (0..201).map(|n| n.to_string()).collect();
        assert_eq!(wrong(methods("list", many.clone())), "`list` must hold at most 200 methods");
        assert_eq!(methods("list", many[..200].to_vec()).unwrap().len(), 200);
    }
}
