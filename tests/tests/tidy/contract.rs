//! The tables of promises: each sentence of the contract, and each defence of the threat model, names its test.
//!
//! `tests/contract.md` has tables with the header `| sentence of the contract | test |`, and `SECURITY.md` has some
//! whose second column is called `test`. A test is written as `path::to::test_fn` or `file.rs: test_fn`, between
//! backticks; several are separated by commas.

use std::collections::HashMap;

use crate::source::{Kind, Source};
use crate::{none, tree};

const TABLE: &str = "tests/contract.md";

const THREATS: &str = "SECURITY.md";

/// The locations of the test functions of each name: the file and the modules that it declares.
type Tests = HashMap<String, Vec<TestLocation>>;

#[derive(Debug)]
struct TestLocation {
    path: String,
    modules: Vec<String>,
}

#[derive(PartialEq, Eq, Debug)]
struct Row {
    line: usize,
    sentence: String,
    tests: Vec<String>,
}

fn rows(table: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let (mut inside, mut names_tests) = (false, false);
    for (at, line) in table.lines().enumerate() {
        let Some(cells) = cells(line) else {
            inside = false;
            continue;
        };
        let rule = cells.iter().all(|cell| cell.chars().all(|mark| matches!(mark, '-' | ':' | ' ')));
        if !inside {
            inside = true;
            names_tests = cells.get(1).is_some_and(|title| title == "test");
        } else if !rule && names_tests {
            let named = cells.get(1).map_or("", String::as_str).split(',');
            let tests = named.map(|test| test.trim().trim_matches('`').trim().to_owned());
            let tests = tests.filter(|test| !test.is_empty()).collect();
            rows.push(Row { line: at + 1, sentence: cells[0].clone(), tests });
        }
    }
    rows
}

/// Returns the cells of a table's line. A bar after a backslash is text.
fn cells(line: &str) -> Option<Vec<String>> {
    let line = line.trim().strip_prefix('|')?;
    let line = line.strip_suffix('|').unwrap_or(line).replace("\\|", "\u{0}");
    Some(line.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect())
}

/// Returns functions with an attribute whose path ends in `test`.
fn test_functions(sources: &[Source]) -> Tests {
    let mut tests = Tests::new();
    for source in sources {
        let code: Vec<_> = source.tokens.iter().filter(|token| token.kind != Kind::Doc).collect();
        let named = |at: usize, text: &str| code.get(at).is_some_and(|token| token.text == text);
        let modules: Vec<_> =
            (1..code.len()).filter(|at| named(at - 1, "mod")).map(|at| code[at].text.clone()).collect();
        let mut marked = false;
        let mut at = 0;
        while at < code.len() {
            if named(at, "#") && named(at + 1, "[") {
                let mut last = at + 2;
                while named(last + 1, "::") {
                    last += 2;
                }
                marked |= named(last, "test");
                at = last;
            } else if named(at, "fn") {
                if let Some(name) = code.get(at + 1).filter(|_| std::mem::take(&mut marked)) {
                    let place = TestLocation { path: source.path.clone(), modules: modules.clone() };
                    tests.entry(name.text.clone()).or_default().push(place);
                }
            } else if named(at, "}") || named(at, ";") {
                marked = false;
            }
            at += 1;
        }
    }
    tests
}

fn exists(test: &str, tests: &Tests) -> bool {
    if let Some((file, name)) = test.split_once(": ") {
        let places = tests.get(name.trim()).map_or(&[][..], Vec::as_slice);
        return places.iter().any(|place| place.path == file || place.path.ends_with(&format!("/{file}")));
    }
    let mut segments: Vec<_> = test.split("::").collect();
    let Some(places) = segments.pop().and_then(|name| tests.get(name)) else {
        return false;
    };
    places.iter().any(|place| {
        let stem = place.path.strip_suffix(".rs").unwrap_or(&place.path).replace('-', "_");
        let mut parts: Vec<_> = stem.split('/').collect();
        // A package in the folder of a different one is named after its own folder.
        let nested = stem.split_once("/src/").and_then(|(package, _)| package.rsplit_once('/'));
        let crate_name = nested.map(|(_, folder)| format!("rpcgate_{folder}"));
        parts.extend(crate_name.as_deref());
        segments
            .iter()
            .all(|segment| parts.contains(segment) || place.modules.iter().any(|module| module == segment))
    })
}

fn broken(table: &str, rows: &[Row], tests: &Tests) -> Vec<String> {
    let mut findings = Vec::new();
    for row in rows {
        let start: String = row.sentence.chars().take(60).collect();
        if row.tests.is_empty() {
            findings.push(format!("{table}:{}: no test shows \"{start}\"", row.line));
        }
        let gone = row.tests.iter().filter(|test| !exists(test, tests));
        findings.extend(
            gone.map(|test| format!("{table}:{}: there is no test `{test}` (\"{start}\")", row.line)),
        );
    }
    findings
}

#[test]
fn every_promise_names_tests_that_exist() {
    let tests = test_functions(tree::sources());
    for table in [TABLE, THREATS] {
        let rows = rows(&tree::read(table));
        assert!(!rows.is_empty(), "{table} has no row");
        none(
            &broken(table, &rows, &tests),
            "A promise needs a test: write the test, or remove the sentence.",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planted() -> Tests {
        test_functions(&[
            Source::new(
                "tests/tests/stack/window.rs",
                "#[tokio::test(start_paused = true)]\nasync fn counts() {}\nfn plain() {}",
            ),
            Source::new("rpcgate-core/config/src/secret.rs", "#[test]\nfn masks() {}"),
            Source::new(
                "rpcgate-core/src/quota.rs",
                "#[cfg(test)]\nmod tests {\n #[test]\n #[should_panic]\n fn rolls() {}\n proptest! { #[test] fn adds_up(a in 0..9) {} } }",
            ),
        ])
    }

    fn findings(right: &str) -> Vec<String> {
        let table =
            format!("# T\n\n| sentence of the contract | test |\n|---|---|\n| Says \\| so | {right} |\n");
        broken(TABLE, &rows(&table), &planted())
    }

    #[test]
    fn existing_tests_are_found_in_every_notation() {
        for right in [
            "`counts`",
            "`stack::window::counts`",
            "`window.rs: counts`",
            "`rpcgate_config::secret::masks`",
            "rpcgate_core::quota::tests::rolls, `adds_up`",
        ] {
            assert_eq!(findings(right), [""; 0], "{right}");
        }
    }

    #[test]
    fn a_row_without_a_test_or_with_one_that_is_gone_is_found() {
        assert_eq!(findings(""), ["tests/contract.md:5: no test shows \"Says | so\""]);
        for right in
            ["`window::gone`", "`plain`", "`heavy::counts`", "`heavy.rs: counts`", "`counts`, `gone`"]
        {
            assert_eq!(findings(right).len(), 1, "{right}");
        }
    }

    #[test]
    fn a_table_whose_second_column_is_not_test_has_no_rows() {
        assert_eq!(rows("| actor | trusted with |\n|---|---|\n| anyone | nothing |\n"), []);
    }

    #[test]
    fn rows_are_read_from_several_tables() {
        let table =
            "| a | test |\n|:--|--|\n| one | `x` |\ntext\n\n| b | test |\n|---|---|\n| two | `y`, `z` |\n";
        let rows = rows(table);
        assert_eq!(rows.iter().map(|row| row.line).collect::<Vec<_>>(), [3, 8]);
        assert_eq!(rows[1].tests, ["y", "z"]);
    }
}
