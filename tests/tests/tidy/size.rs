//! Files: their length, the length of the imports of examples, and the file of a module with children.

use crate::source::{Kind, Source};
use crate::{none, tree};

const CEILING: usize = 500;

/// Files that may be longer, each with a reason.
const LONG: &[(&str, &str)] = &[];

/// The maximum lines of imports in an example, so that a reader soon sees its subject.
const IMPORTS: usize = 10;

/// Files named `mod.rs` that a `#[path]` loads: loaded so, a file of another name would have its children elsewhere.
const LOADED_BY_PATH: &[&str] =
    &["rpcgate-admin/store/src/query/tests/mod.rs", "tests/tests/admin/factors/mod.rs"];

fn is_inside_its_folder(source: &Source) -> bool {
    source.path.ends_with("/mod.rs") && !LOADED_BY_PATH.contains(&source.path.as_str())
}

#[test]
fn a_module_with_children_is_a_file_next_to_its_folder() {
    let inside = tree::sources().iter().filter(|source| is_inside_its_folder(source));
    let findings: Vec<_> = inside.map(|source| source.path.clone()).collect();
    none(&findings, "Write foo.rs next to the folder foo.");
    let exists = |path: &&&str| tree::sources().iter().any(|source| source.path == **path);
    assert_eq!(LOADED_BY_PATH.iter().filter(exists).count(), LOADED_BY_PATH.len());
    assert!(is_inside_its_folder(&Source::new("rpcgate-core/src/a/mod.rs", "")));
    assert!(!is_inside_its_folder(&Source::new("rpcgate-core/src/a.rs", "")));
}

/// Returns examples with more lines of imports outside of their tests.
fn too_many_imports(source: &Source) -> Vec<String> {
    let is_example = source.path.strip_prefix("examples/").is_some_and(|name| !name.contains('/'));
    if !is_example {
        return Vec::new();
    }
    let code: Vec<_> = source.code().collect();
    let mut lines = 0;
    for (at, token) in code.iter().enumerate() {
        let is_use = token.kind == Kind::Word && token.text == "use";
        if is_use && let Some(end) = code[at..].iter().find(|token| token.text == ";") {
            lines += end.line - token.line + 1;
        }
    }
    if lines > IMPORTS { vec![format!("{}: {lines} lines of imports", source.path)] } else { Vec::new() }
}

#[test]
fn no_example_has_many_imports() {
    let sources = tree::sources().iter();
    let findings: Vec<_> = sources.flat_map(too_many_imports).collect();
    none(&findings, "Import the preludes, or add what is missing in them.");
}

#[test]
fn imports_are_counted_by_the_line_and_outside_of_tests() {
    let found = |path: &str, text: &str| too_many_imports(&Source::new(path, text)).len();
    let ten = "use a::B;\n".repeat(10);
    let tests = format!("#[cfg(test)]\nmod tests {{\n{ten}}}\n");
    assert_eq!(found("examples/a.rs", &format!("{ten}fn a() {{}}\n{tests}")), 0);
    assert_eq!(found("examples/a.rs", &format!("{ten}use c;\n")), 1);
    assert_eq!(
        found(
            "examples/a.rs",
            &format!("use a::{{\n    b,\n    c,\n}};\n{}", ten.replacen("use a::B;\n", "", 3))
        ),
        1
    );
    assert_eq!(found("examples/src/a.rs", &format!("{ten}use c;\n")), 0);
}

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
