//! Common passwords, which attackers try first: well-known words, keyboard runs and repetitions.
//!
//! A new password has at least ten characters, so most common ones are words with digits and signs before or after
//! them, or with letters replaced by digits. The look-up removes these additions first.

/// The words, one per line, in lower case and without additions.
const WORDS: &str = include_str!("common_passwords.txt");

/// The sequences that contain runs. A run goes forwards or backwards from any position and may wrap around.
const RUNS: [&str; 12] = [
    "abcdefghijklmnopqrstuvwxyz",
    "0123456789",
    "1234567890",
    "qwertyuiop",
    "asdfghjkl",
    "zxcvbnm",
    "qwertzuiop",
    "yxcvbnm",
    "azertyuiop",
    "qsdfghjklm",
    "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik9ol0p",
    "1q2w3e4r5t6y7u8i9o0p",
];

/// The length of the longest unit whose repetition counts as common.
const MAX_REPEATED_UNIT: usize = 4;
const MIN_RUN: usize = 3;

pub(super) fn is_common(password: &str) -> bool {
    let typed: Vec<char> = password.to_lowercase().chars().filter(|c| !c.is_whitespace()).collect();
    let repeated_unit = repeated_unit(&typed);
    if repeated_unit.is_empty() {
        return false;
    }
    if typed.len() >= 2 * repeated_unit.len() && repeated_unit.len() <= MAX_REPEATED_UNIT {
        return true;
    }
    let read: Vec<char> = repeated_unit.iter().copied().map(unsubstituted).collect();
    let unsubstituted_trimmed: Vec<char> =
        trimmed(repeated_unit).iter().copied().map(unsubstituted).collect();
    is_run(repeated_unit)
        || [trimmed(repeated_unit), &unsubstituted_trimmed, trimmed(&read)]
            .into_iter()
            .any(|bare| is_word(bare) || is_run(bare))
}

/// Returns the unit that `text` repeats. The last repetition may be cut short.
fn repeated_unit(text: &[char]) -> &[char] {
    let same = |length: &usize| text.iter().zip(&text[*length..]).all(|(earlier, later)| earlier == later);
    let length = (1..=text.len() / 2).find(same);
    length.map_or(text, |length| &text[..length])
}

/// Returns the part from the first letter to the last.
fn trimmed(text: &[char]) -> &[char] {
    let begin = text.iter().position(|c| c.is_alphabetic()).unwrap_or(text.len());
    let end = text.iter().rposition(|c| c.is_alphabetic()).map_or(begin, |last| last + 1);
    &text[begin..end]
}

/// Returns the letter that a digit or sign replaces.
fn unsubstituted(c: char) -> char {
    match c {
        '0' => 'o',
        '1' | '!' => 'i',
        '3' => 'e',
        '4' | '@' => 'a',
        '5' | '$' => 's',
        '7' => 't',
        _ => c,
    }
}

fn is_word(text: &[char]) -> bool {
    let text: String = text.iter().collect();
    WORDS.lines().any(|word| word == text)
}

fn is_run(text: &[char]) -> bool {
    let mut left = text;
    while !left.is_empty() {
        let longest = RUNS.iter().flat_map(|run| {
            let forwards: Vec<char> = run.chars().collect();
            let backwards: Vec<char> = run.chars().rev().collect();
            [run_length(left, &forwards), run_length(left, &backwards)]
        });
        let longest = longest.max().unwrap_or(0);
        if longest < MIN_RUN {
            return false;
        }
        left = &left[longest..];
    }
    !text.is_empty()
}

/// Returns the number of characters for which `text` follows `run`.
fn run_length(text: &[char], run: &[char]) -> usize {
    let Some(begin) = text.first().and_then(|first| run.iter().position(|c| c == first)) else { return 0 };
    text.iter().zip(run[begin..].iter().chain(run)).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Shows (Accounts and second factors): Common passwords are refused.
    #[test]
    fn common_passwords_are_recognised_under_additions() {
        for common in [
            "1234567890",
            "0987654321",
            "123123123123",
            "qwertyuiop",
            "Qwertyuiop123",
            "qwerty123456",
            "1q2w3e4r5t6y",
            "1qaz2wsx3edc",
            "aaaaaaaaaaaa",
            "abcabcabcabc",
            "abcdefghij",
            "password123",
            "Password1234!",
            "P@ssw0rd123",
            "passwordpassword",
            "!!iloveyou!!",
            "letmein12345",
            "administrator",
            "changeme2026",
            "Welcome2026!",
            "111111111111",
            "asdfghjkl;12",
            "trustno1trustno1",
            "football 1234",
            "dragon123456",
        ] {
            assert!(is_common(common), "{common}");
        }
    }

    // Shows (Accounts and second factors).
    #[test]
    fn uncommon_passwords_are_accepted() {
        for own in [
            "correct horse",
            "correct horse battery staple",
            "another password",
            "kR8#vv2!pLq0",
            "my dragon eats 7 melons",
            "passwords are hard",
            "Xylophon-Tag",
            "тихий океан",
            "0x9f3a77c1e2",
            "",
        ] {
            assert!(!is_common(own), "{own}");
        }
    }

    #[test]
    fn the_listed_words_are_in_the_normalised_form() {
        for word in WORDS.lines() {
            assert!(word.len() >= 3 && word.chars().all(|c| c.is_ascii_lowercase()), "{word}");
        }
        assert!(WORDS.lines().count() > 150);
    }

    proptest! {
        #[test]
        fn any_text_can_be_checked(text in ".{0,300}") {
            is_common(&text);
        }
    }
}
