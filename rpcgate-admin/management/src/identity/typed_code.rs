//! One-time codes and recovery codes as users type or paste them.
//!
//! Apps show codes in groups, separated by various blanks or hyphens, and some keyboards write digits of other scripts.
//! These differences are ignored.

use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

const MAX_TYPED: usize = 100;

/// Returns the typed code without separators and invisible characters, with ASCII digits instead of those of other
/// scripts, and with letters of the usual width.
///
/// ```
/// use rpcgate_management::identity::typed_code::code_of;
///
/// assert_eq!(code_of("123\u{a0}456"), "123456");
/// assert_eq!(code_of("１２３‑４５６"), "123456");
/// ```
pub fn code_of(typed: &str) -> String {
    let shown = typed.chars().take(MAX_TYPED).nfkc().filter(|c| !is_separator(*c));
    shown.map(|c| digit(c).unwrap_or(c)).collect()
}

fn is_separator(c: char) -> bool {
    // The minus sign is a symbol, although it looks like a hyphen.
    c.is_whitespace()
        || c == '\u{2212}'
        || matches!(
            c.general_category(),
            GeneralCategory::DashPunctuation | GeneralCategory::Format | GeneralCategory::Control
        )
}

/// Returns the ASCII digit with the value of a decimal digit of any script.
fn digit(c: char) -> Option<char> {
    let is_digit = |c: char| c.general_category() == GeneralCategory::DecimalNumber;
    if !is_digit(c) {
        return None;
    }
    // The ten digits of a script are consecutive, and the character before its zero is not a digit.
    let value = (1..=9).take_while(|back| before(c, *back).is_some_and(is_digit)).count();
    char::from_digit(u32::try_from(value).ok()?, 10)
}

/// Returns the character `back` code points before `c`.
fn before(c: char, back: u32) -> Option<char> {
    char::from_u32(u32::from(c).checked_sub(back)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Accounts and second factors).
    #[test]
    fn separators_and_scripts_of_a_code_do_not_matter() {
        for typed in [
            "123456",
            " 123 456\n",
            "123\u{a0}456",
            "123\u{202f}456",
            "123\u{3000}456",
            "123-456",
            "123\u{2011}456",
            "123\u{2013}456",
            "123\u{2212}456",
            "\u{200b}123\u{2060}456\u{feff}",
            "\u{200e}1\u{ff12}3456",
            "１２３４５６",
            "\u{661}\u{662}\u{663}\u{664}\u{665}\u{666}",
            "\u{6f1}\u{6f2}\u{6f3}\u{6f4}\u{6f5}\u{6f6}",
            "\u{967}\u{968}\u{969}\u{96a}\u{96b}\u{96c}",
            "𝟏𝟐𝟑𝟺𝟻𝟼",
        ] {
            assert_eq!(code_of(typed), "123456", "{typed:?}");
        }
        assert_eq!(code_of("\u{660}\u{669}\u{ff10}９"), "0909");
    }

    #[test]
    fn an_invalid_code_stays_invalid_and_is_bounded() {
        assert_eq!(code_of("12a456"), "12a456");
        assert_eq!(code_of("ＡＢ-cd"), "ABcd");
        assert_eq!(code_of(&"7".repeat(10_000)).len(), MAX_TYPED);
    }
}
