//! The length of files.

use crate::source::Source;
use crate::{none, tree};

const CEILING: usize = 500;

/// Files that may be longer, each with its reason.
const LONG: &[(&str, &str)] = &[];

fn too_long(source: &Source) -> Vec<String> {
    let measured =
        source.is_shipped() || source.path.starts_with("tests/src/") || source.path.starts_with("examples/");
    let listed = LONG.iter().any(|(path, _)| *path == source.path);
    if measured && !listed && source.lines > CEILING {
        return vec![format!("{}: {} lines without its tests", source.path, source.lines)];
    }
    Vec::new()
}

#[test]
fn no_file_is_too_long() {
    let findings: Vec<_> = tree::sources().iter().flat_map(too_long).collect();
    none(
        &findings,
        "Move the second noun of this file to a file of its own, or list this one in LONG with the reason.",
    );
}

#[test]
fn listed_files_are_still_long() {
    let sources = tree::sources();
    let still = |path: &str| sources.iter().any(|source| source.path == path && source.lines > CEILING);
    let short: Vec<_> =
        LONG.iter().filter(|(path, _)| !still(path)).map(|(path, _)| (*path).to_owned()).collect();
    none(&short, "The file is gone or short enough: remove it from LONG.");
}

#[test]
fn a_long_file_is_found_and_its_tests_do_not_count() {
    let long = "fn a() {}\n".repeat(CEILING + 1);
    let tested = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
    assert_eq!(too_long(&Source::new("rpcgate-core/src/a.rs", &long)).len(), 1);
    assert_eq!(too_long(&Source::new("rpcgate-core/src/a.rs", &tested)).len(), 0);
    assert_eq!(too_long(&Source::new("tests/tests/stack/a.rs", &long)).len(), 0);
}
