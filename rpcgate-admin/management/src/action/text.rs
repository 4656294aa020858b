//! Checks of texts written by users: names, descriptions and lists of methods.

use crate::error::ActionError;
use rpcgate_core::clock::Time;
use std::borrow::Cow;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// The maximum number of characters of a name or a description.
pub const MAX_LINE: usize = 200;
/// The maximum number of characters of a reason or a note.
pub const MAX_PROSE: usize = 2_000;
/// The maximum number of characters of a ticket or of a comment on one.
pub const MAX_LETTER: usize = 5_000;
/// The maximum number of methods in a list.
pub const MAX_METHODS: usize = 200;
/// The maximum bytes of a method's name (contract, "Gateway: routes and bodies").
pub const MAX_METHOD: usize = 256;

fn invalid<T>(field: &'static str, why: impl Into<Cow<'static, str>>) -> Result<T, ActionError> {
    Err(ActionError::named(field, why))
}

/// Checks a single line, which may be empty, and trims it.
///
/// # Errors
/// [`ActionError::Invalid`] if it is too long, contains control characters, line separators or characters that change
/// the direction of text, or has no visible character.
pub fn line(field: &'static str, text: &str) -> Result<String, ActionError> {
    let text = text.trim();
    if text.chars().count() > MAX_LINE {
        return invalid(field, format!("must be at most {MAX_LINE} characters long"));
    }
    if text.chars().any(|c| separates_lines(c) || controls(c)) {
        return invalid(field, "must not contain control characters");
    }
    if text.chars().any(reorders) {
        return invalid(field, "must not contain characters that change the direction of text");
    }
    if !text.is_empty() {
        expect_visible(field, text)?;
    }
    Ok(text.to_owned())
}

/// Reports whether programs begin a new line at a character: U+2028 and U+2029 in addition to some control characters.
fn separates_lines(c: char) -> bool {
    matches!(c.general_category(), GeneralCategory::LineSeparator | GeneralCategory::ParagraphSeparator)
}

/// Reports whether a character is a control character or is treated like one: deprecated format characters, those of
/// annotations and of musical scores, code points that Unicode reserves for format characters, and noncharacters.
/// Joiners, variation selectors and the tags in flags are allowed, because scripts and emoji need them.
fn controls(c: char) -> bool {
    let is_format = matches!(c, '\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{fff0}'..='\u{fffb}')
        || matches!(c, '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e001f}')
        || matches!(c, '\u{e0080}'..='\u{e00ff}' | '\u{e01f0}'..='\u{e0fff}');
    let is_noncharacter = matches!(c, '\u{fdd0}'..='\u{fdef}') || u32::from(c) & 0xfffe == 0xfffe;
    c.is_control() || is_format || is_noncharacter
}

/// Reports whether a character reorders the text around it, so that a name looks like another one. The marks that
/// right-to-left writing needs (U+200E, U+200F, U+061C) do not.
fn reorders(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Checks that a text has a visible character: a link with an invisible name cannot be opened. Joiners and marks are
/// allowed next to visible characters, because emoji and many scripts need them.
fn expect_visible(field: &'static str, text: &str) -> Result<(), ActionError> {
    if text.chars().any(is_visible) {
        return Ok(());
    }
    invalid(field, "must have at least one visible character")
}

fn is_visible(c: char) -> bool {
    // Letters and symbols without a glyph: Hangul fillers, and the blank pattern of braille.
    let is_blank = matches!(c, '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}');
    let is_tag = matches!(c, '\u{e0020}'..='\u{e007f}');
    let draws = !matches!(
        c.general_category_group(),
        GeneralCategoryGroup::Mark | GeneralCategoryGroup::Separator | GeneralCategoryGroup::Other
    );
    // An emoji newer than our tables counts as visible.
    let is_unknown = c.general_category() == GeneralCategory::Unassigned;
    (draws || is_unknown) && !is_blank && !is_tag
}

/// Checks a line that must not be empty.
///
/// # Errors
/// Those of [`line()`], and for an empty line.
pub fn name(field: &'static str, text: &str) -> Result<String, ActionError> {
    match line(field, text)? {
        name if name.is_empty() => invalid(field, "must not be empty"),
        name => Ok(name),
    }
}

/// Checks a text of one or more lines that must not be empty, and trims it.
///
/// # Errors
/// [`ActionError::Invalid`] if it is empty, too long, or contains control characters other than line breaks and tabs.
pub fn prose(field: &'static str, text: &str) -> Result<String, ActionError> {
    prose_within(field, text, MAX_PROSE)
}

/// Formats a time for the audit log, in UTC and to the second.
pub fn moment(at: Time) -> String {
    let moment =
        i64::try_from(at.secs()).ok().and_then(|secs| OffsetDateTime::from_unix_timestamp(secs).ok());
    moment.and_then(|moment| moment.format(&Rfc3339).ok()).unwrap_or_else(|| at.secs().to_string())
}

/// Checks a text of one or more lines like [`prose`], of at most [`MAX_LETTER`] characters.
///
/// # Errors
/// Those of [`prose`].
pub fn letter(field: &'static str, text: &str) -> Result<String, ActionError> {
    prose_within(field, text, MAX_LETTER)
}

fn prose_within(field: &'static str, text: &str, max: usize) -> Result<String, ActionError> {
    let text = text.trim();
    if text.is_empty() {
        return invalid(field, "must not be empty");
    }
    if text.chars().count() > max {
        return invalid(field, format!("must be at most {max} characters long"));
    }
    if text.chars().any(|c| controls(c) && !matches!(c, '\n' | '\r' | '\t')) {
        return invalid(field, "must not contain control characters");
    }
    expect_visible(field, text)?;
    Ok(text.to_owned())
}

/// Checks the name of a method.
///
/// # Errors
/// [`ActionError::Invalid`] for a text that cannot be a method's name, because a gateway would never match it.
pub fn method(field: &'static str, name: &str) -> Result<(), ActionError> {
    let is_forbidden = |c: char| c.is_whitespace() || c.is_control();
    if name.is_empty() || name.len() > MAX_METHOD || name.contains(is_forbidden) {
        return invalid(
            field,
            format!("must name methods: 1 to {MAX_METHOD} bytes each, without blanks and control characters"),
        );
    }
    if name.contains('*') {
        return invalid(field, "must name methods one by one, without *");
    }
    Ok(())
}

/// Checks a list of methods and removes duplicates.
///
/// # Errors
/// [`ActionError::Invalid`] for a list that is too long, and those of [`method`].
pub fn methods(field: &'static str, names: Vec<String>) -> Result<Vec<String>, ActionError> {
    if names.len() > MAX_METHODS {
        return invalid(field, format!("must have at most {MAX_METHODS} methods"));
    }
    let mut distinct = Vec::with_capacity(names.len());
    for name in names {
        method(field, &name)?;
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    Ok(distinct)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong<T: std::fmt::Debug>(result: Result<T, ActionError>) -> String {
        match result {
            Err(error @ ActionError::Invalid(_)) => error.to_string(),
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
            assert_eq!(wrong(line("name", strange)), "`name` must not contain control characters");
        }
    }

    // Shows (Accounts and second factors): A name is one line for every program that shows it (promise 53).
    #[test]
    fn a_name_is_one_line_for_every_program() {
        for strange in [
            '\u{85}',
            '\u{2028}',
            '\u{2029}',
            '\u{2065}',
            '\u{206a}',
            '\u{206f}',
            '\u{fdd0}',
            '\u{fff0}',
            '\u{fff9}',
            '\u{fffb}',
            '\u{ffff}',
            '\u{1d173}',
            '\u{e0000}',
            '\u{e0001}',
            '\u{e0080}',
            '\u{e0fff}',
            '\u{10fffe}',
        ] {
            let text = format!("a{strange}b");
            assert_eq!(
                wrong(name("name", &text)),
                "`name` must not contain control characters",
                "{strange:?}"
            );
            assert_eq!(
                wrong(line("name", &text)),
                "`name` must not contain control characters",
                "{strange:?}"
            );
            // A text of several lines may have line separators.
            let is_line_end = matches!(strange, '\u{2028}' | '\u{2029}');
            assert_eq!(prose("reason", &text).is_ok(), is_line_end, "{strange:?}");
        }
        // Variation selectors of ideographs, the replacement character, and letters of private fonts.
        for text in ["\u{8fba}\u{e0100}", "a\u{fffd}b", "a\u{e000}b"] {
            assert_eq!(name("name", text).unwrap(), text);
        }
    }

    // Shows (Accounts and second factors): A name has a visible character, and no character that changes the direction
    // of text.
    #[test]
    fn a_name_is_seen_and_reads_in_its_own_order() {
        let unseen = "`name` must have at least one visible character";
        for text in [
            "\u{200b}\u{200b}",
            "\u{2060}",
            "\u{ad}",
            "\u{e0041}\u{e0042}",
            "\u{feff}",
            "\u{200d}",
            "\u{200e}\u{200f}",
            "\u{fe0f}",
            "\u{34f}",
            "\u{115f}\u{3164}",
            "\u{2800}",
            "\u{180e}",
            "a\u{300}".trim_start_matches('a'),
        ] {
            assert_eq!(wrong(name("name", text)), unseen, "{text:?}");
            assert_eq!(wrong(line("name", text)), unseen, "{text:?}");
        }
        let turned = "`name` must not contain characters that change the direction of text";
        for text in ["a\u{202e}b", "\u{202d}a", "\u{2067}a\u{2069}", "\u{202a}a"] {
            assert_eq!(wrong(name("name", text)), turned, "{text:?}");
        }
        for text in [
            "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} team",
            "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
            "\u{2764}\u{fe0f}",
            "\u{1f3f4}\u{e0067}\u{e0062}\u{e007f}",
            "o\u{308}",
            "\u{200f}\u{5d0}",
            "7",
            "-",
        ] {
            assert_eq!(name("name", text).unwrap(), text);
        }
        assert_eq!(wrong(prose("reason", "\u{200b}")), "`reason` must have at least one visible character");
    }

    #[test]
    fn prose_may_have_several_lines() {
        assert_eq!(prose("reason", " a\r\n\tb ").unwrap(), "a\r\n\tb");
        assert_eq!(wrong(prose("reason", "\n")), "`reason` must not be empty");
        assert_eq!(wrong(prose("reason", "a\u{1b}[0m")), "`reason` must not contain control characters");
        assert!(letter("text", &"ü".repeat(5_000)).is_ok() && letter("text", &"ü".repeat(5_001)).is_err());
        assert!(prose("reason", &"a".repeat(2_000)).is_ok() && prose("reason", &"a".repeat(2_001)).is_err());
    }

    #[test]
    fn lists_contain_only_possible_method_names_each_once() {
        let list = |names: &[&str]| methods("list", names.iter().map(ToString::to_string).collect());
        assert_eq!(list(&["b", "queryNetwork/tip", "b"]).unwrap(), ["b", "queryNetwork/tip"]);
        assert_eq!(list(&[]).unwrap(), Vec::<String>::new());
        for strange in ["", "a b", "a\u{0}", "\u{a0}", &"a".repeat(257)] {
            assert!(wrong(list(&["fine", strange])).starts_with("`list` must name methods: 1 to 256 bytes"));
        }
        assert_eq!(wrong(list(&["debug_*"])), "`list` must name methods one by one, without *");
        let many: Vec<_> = (0..201).map(|n| n.to_string()).collect();
        assert_eq!(wrong(methods("list", many.clone())), "`list` must have at most 200 methods");
        assert_eq!(methods("list", many[..200].to_vec()).unwrap().len(), 200);
    }
}
