//! Names: one public type for each name, no word that the project has retired, and short sentences for tests.

use std::collections::BTreeMap;

use crate::source::{Kind, Source};
use crate::{none, tree};

const TYPE_KEYWORDS: &[&str] = &["struct", "enum", "union", "trait", "type"];

/// Words that no identifier may contain, each with the standard term that replaces it. A word is one part of a name in
/// `snake_case` or `CamelCase`; its plural counts too.
const RETIRED: &[(&str, &str)] = &[
    ("aim", "target"),
    ("bell", "notify or wake"),
    ("blame", "record_failure"),
    ("books", "accounting, usage or ledger"),
    ("departure", "pending response"),
    ("desk", "fixture"),
    ("door", "guard, listener or service"),
    ("fittings", "settings"),
    ("flight", "request; `in_flight` and `single_flight` are terms of the field"),
    ("guest", "connection handle, member"),
    ("hall", "connections"),
    ("harbour", "destination"),
    ("house", "app state"),
    ("informant", "status source"),
    ("journey", "future"),
    ("lender", "service pool"),
    ("loan", "pooled service"),
    ("nudge", "notify or wake"),
    ("praise", "record_success"),
    ("refitted", "reloaded"),
    ("road", "stack"),
    ("rope", "waker"),
    ("seam", "backend"),
    ("shelf", "segments or shared"),
    ("station", "layer or service"),
    ("stranger", "foreign, unknown or anonymous"),
    ("tape", "segment writer"),
    ("trip", "attempt or round trip"),
    ("volume", "segment file"),
    ("witness", "observer"),
];

/// Folders and files in which a retired word is correct.
const RETIRED_EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "rpcgate-chains/simulate/",
        "witness",
        "the term of Bitcoin, Cardano and TRON for signatures and block producers",
    ),
    (
        "tests/tests/tidy/deploy/",
        "volume",
        "the term of Kubernetes and of Compose for a folder that is mounted",
    ),
];

/// The parts of names after which a word has its standard meaning.
const ACCEPTED_AFTER: &[(&str, &str)] = &[("in", "flight"), ("single", "flight"), ("round", "trip")];

/// The number of characters that the name of a test may have: a longer one cannot be read at a glance.
const LONGEST_TEST_NAME: usize = 80;

/// Returns public types with all places that declare a type of that name.
fn public_types(sources: &[Source]) -> BTreeMap<&str, Vec<String>> {
    let mut types: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for source in sources {
        let code: Vec<_> = source.tokens.iter().filter(|token| token.kind != Kind::Doc).collect();
        for window in code.windows(3) {
            let [public, keyword, name] = window else { continue };
            let declares = public.text == "pub" && TYPE_KEYWORDS.contains(&keyword.text.as_str());
            // sea-orm requires these names; the store exports a model under the name of what it is.
            let is_generated = source.path.starts_with("rpcgate-admin/store/src/entity/")
                && ["Model", "Relation"].contains(&name.text.as_str());
            if declares && !is_generated && window.iter().all(|token| token.kind == Kind::Word) {
                types.entry(name.text.as_str()).or_default().push(source.at(name.line, &name.text));
            }
        }
    }
    types
}

fn named_twice(sources: &[Source]) -> Vec<String> {
    let types = public_types(sources);
    types.into_values().filter(|places| places.len() > 1).flatten().collect()
}

/// Returns the words of an identifier in lower case: `HTTPServer_max2` is `http`, `server`, `max2`.
fn words(identifier: &str) -> Vec<String> {
    let letters: Vec<char> = identifier.chars().collect();
    let mut words = vec![String::new()];
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| letters[at]);
        let follows = |is: fn(char) -> bool| before.is_some_and(is);
        let acronym_ends =
            follows(char::is_uppercase) && letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        let starts = letter.is_uppercase() && (follows(|before| !before.is_uppercase()) || acronym_ends);
        if *letter == '_' || starts {
            words.push(String::new());
        }
        if *letter != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the retired word in a name, and its replacement.
fn retired(path: &str, identifier: &str) -> Option<(&'static str, &'static str)> {
    let words = words(identifier);
    words.iter().enumerate().find_map(|(at, word)| {
        let singular = word.strip_suffix('s').unwrap_or(word);
        let (found, instead) = RETIRED.iter().find(|(retired, _)| retired == word || *retired == singular)?;
        let before = at.checked_sub(1).map_or("", |at| words[at].as_str());
        let accepted = ACCEPTED_AFTER.iter().any(|(first, second)| *first == before && second == found);
        let excepted =
            RETIRED_EXCEPTIONS.iter().any(|(below, word, _)| path.starts_with(below) && word == found);
        (!accepted && !excepted).then_some((*found, *instead))
    })
}

fn retired_words(source: &Source) -> Vec<String> {
    let identifiers = source.tokens.iter().filter(|token| token.kind == Kind::Word);
    identifiers
        .filter_map(|token| {
            let (word, instead) = retired(&source.path, &token.text)?;
            Some(source.at(token.line, &format!("{}: \"{word}\" is retired; say {instead}", token.text)))
        })
        .collect()
}

fn long_test_names(source: &Source) -> Vec<String> {
    let long = source.test_functions().into_iter().filter(|test| test.name.len() > LONGEST_TEST_NAME);
    long.map(|test| source.at(test.line, &format!("{} has {} characters", test.name, test.name.len())))
        .collect()
}

#[test]
fn every_public_type_has_a_name_of_its_own() {
    none(
        &named_twice(tree::sources()),
        "One name, one thing, in all crates: say in the name which of the two it is.",
    );
}

#[test]
fn no_identifier_contains_a_retired_word() {
    let findings: Vec<_> = tree::sources().iter().flat_map(retired_words).collect();
    none(&findings, "Use the term that readers of tower, hyper and JSON-RPC know.");
}

#[test]
fn names_of_tests_have_at_most_80_characters() {
    let findings: Vec<_> = tree::sources().iter().flat_map(long_test_names).collect();
    none(&findings, "Name the subject and one active verb; the rest is in the test.");
}

#[test]
fn listed_exceptions_are_still_needed() {
    let used = |below: &str, retired: &str| {
        let mut files = tree::sources().iter().filter(|source| source.path.starts_with(below));
        files.any(|source| {
            source.tokens.iter().any(|token| {
                token.kind == Kind::Word && words(&token.text).iter().any(|word| word.starts_with(retired))
            })
        })
    };
    let unused = RETIRED_EXCEPTIONS.iter().filter(|(below, word, _)| !used(below, word));
    let gone: Vec<_> = unused.map(|(below, word, _)| format!("{word} in {below}")).collect();
    none(&gone, "Nothing needs this exception any more: take it out of the list.");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_two_public_types_is_found() {
        let twice = |first: &str, second: &str| {
            named_twice(&[Source::new("a.rs", first), Source::new("b.rs", second)]).len()
        };
        assert_eq!(twice("pub struct Gate;", "pub enum Gate {}"), 2);
        assert_eq!(twice("pub trait Gate {}", "mod x { pub type Gate = u8; }"), 2);
        assert_eq!(twice("pub struct Gate;", "pub(crate) struct Gate; struct Door; // pub struct Gate"), 0);
        assert_eq!(
            twice("pub struct Gate;", "impl X { type Gate = u8; } fn f() { \"pub struct Gate\"; }"),
            0
        );
    }

    #[test]
    fn an_identifier_is_cut_into_its_words() {
        let cut = |identifier: &str| words(identifier).join(" ");
        assert_eq!(cut("OnRoad"), "on road");
        assert_eq!(cut("HTTPServer"), "http server");
        assert_eq!(cut("MAX_IN_FLIGHT"), "max in flight");
        assert_eq!(cut("_h2_frame"), "h2 frame");
        assert_eq!(cut("a"), "a");
    }

    #[test]
    fn a_retired_word_is_found_in_any_spelling() {
        let found = |text: &str| retired_words(&Source::new("rpcgate-core/src/a.rs", text)).len();
        for text in
            ["struct Stranger;", "let strangers = 1;", "fn ring_the_bell() {}", "const DOORS: u8;", "OnRoad"]
        {
            assert_eq!(found(text), 1, "{text}");
        }
        let fine =
            "// a stranger at the door\nlet in_flight = SingleFlight; f(\"door\"); let indoor = broad;";
        assert_eq!(found(fine), 0);
    }

    #[test]
    fn an_exception_holds_in_its_folder_alone() {
        let found = |path: &str| retired_words(&Source::new(path, "let witness = 1;")).len();
        assert_eq!(
            (found("rpcgate-chains/simulate/src/utxo/tx.rs"), found("rpcgate-chains/src/btc.rs")),
            (0, 1)
        );
    }

    #[test]
    fn a_test_name_of_more_than_80_characters_is_found() {
        let found = |length: usize| {
            let name = "n".repeat(length);
            let code = format!("#[test]\n#[ignore = \"x\"]\nasync fn {name}() {{}}\nfn {name}{name}() {{}}");
            long_test_names(&Source::new("a.rs", &code)).len()
        };
        assert_eq!((found(80), found(81)), (0, 1));
    }
}
