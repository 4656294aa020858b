//! Passwords that are tried first by whoever guesses: words that everybody thinks of, runs of the keyboard, and one thing
//! again and again.
//!
//! A new password has ten characters or more, so most of what is common is so with something added: figures and signs
//! before and behind, and letters written as figures. That is taken away before it is looked for.

/// Words, one in a line, in lower case and without what is taken away.
const WORDS: &str = include_str!("common_passwords.txt");

/// What is run along: forwards, backwards, from anywhere and around the end.
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

/// The longest piece that counts as one thing when it is repeated.
const LONGEST_REPEATED: usize = 4;
/// The fewest characters of a run.
const SHORTEST_RUN: usize = 3;

/// Whether `password` is one of those that are tried first.
pub(super) fn is_common(password: &str) -> bool {
    let typed: Vec<char> = password.to_lowercase().chars().filter(|c| !c.is_whitespace()).collect();
    let once = once(&typed);
    if once.is_empty() {
        return false;
    }
    if typed.len() >= 2 * once.len() && once.len() <= LONGEST_REPEATED {
        return true;
    }
    let read: Vec<char> = once.iter().copied().map(meant).collect();
    let read_between: Vec<char> = between(once).iter().copied().map(meant).collect();
    is_run(once)
        || [between(once), &read_between, between(&read)]
            .into_iter()
            .any(|bare| is_word(bare) || is_run(bare))
}

/// The piece that the whole is made of, again and again; the last may be cut off.
fn once(text: &[char]) -> &[char] {
    let same = |length: &usize| text.iter().zip(&text[*length..]).all(|(earlier, later)| earlier == later);
    let length = (1..=text.len() / 2).find(same);
    length.map_or(text, |length| &text[..length])
}

/// What stands from the first letter to the last.
fn between(text: &[char]) -> &[char] {
    let begin = text.iter().position(|c| c.is_alphabetic()).unwrap_or(text.len());
    let end = text.iter().rposition(|c| c.is_alphabetic()).map_or(begin, |last| last + 1);
    &text[begin..end]
}

/// The letter that a figure or sign is written for.
fn meant(c: char) -> char {
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

/// Whether there is something and nothing but runs.
fn is_run(text: &[char]) -> bool {
    let mut left = text;
    while !left.is_empty() {
        let longest = RUNS.iter().flat_map(|run| {
            let forwards: Vec<char> = run.chars().collect();
            let backwards: Vec<char> = run.chars().rev().collect();
            [along(left, &forwards), along(left, &backwards)]
        });
        let longest = longest.max().unwrap_or(0);
        if longest < SHORTEST_RUN {
            return false;
        }
        left = &left[longest..];
    }
    !text.is_empty()
}

/// How far `text` follows `run`.
fn along(text: &[char], run: &[char]) -> usize {
    let Some(begin) = text.first().and_then(|first| run.iter().position(|c| c == first)) else { return 0 };
    text.iter().zip(run[begin..].iter().chain(run)).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_everybody_thinks_of_is_common_however_it_is_dressed() {
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

    #[test]
    fn what_somebody_has_thought_of_is_not() {
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
    fn the_words_are_written_as_they_are_looked_for() {
        for word in WORDS.lines() {
            assert!(word.len() >= 3 && word.chars().all(|c| c.is_ascii_lowercase()), "{word}");
        }
        assert!(WORDS.lines().count() > 150);
    }

    proptest! {
        #[test]
        fn anything_can_be_asked(text in ".{0,300}") {
            is_common(&text);
        }
    }
}
