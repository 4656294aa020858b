//! The contract with its tests, and the table of the threat model.
//!
//! A comment directly above a test, `// Shows (section): statement.`, names what the test shows. Further tests of a
//! section have `// Shows (section).` These comments are written into `tests/contract.md`, which
//! `RPCGATE_WRITE_DOCS=1 cargo test -p rpcgate-tests --test tidy contract` regenerates.
//!
//! `SECURITY.md` has tables whose second column is called `test`. A test is written as `path::to::test_fn` or
//! `file.rs: test_fn`, between backticks; several are separated by commas.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::source::Source;
use crate::{none, tree};

const DOCUMENT: &str = "tests/contract.md";

const THREATS: &str = "SECURITY.md";

const MARK: &str = "// Shows (";

/// The sections of the specification that have statements, in its order.
const SPECIFICATION: &[&str] = &[
    "States and transitions",
    "Gateway addressing",
    "Per-chain surface",
    "WebSocket",
    "gRPC",
    "Webhook delivery",
    "Authentication",
    "Webhook event types",
    "Errors",
    "Plans",
    "Heavy-method budget",
    "Compute Units",
    "Caching",
    "Other limits",
];

/// The sections of the contract: behaviour that the specification leaves open.
const CONTRACT: &[&str] = &[
    "Commands and configuration",
    "Order of decisions",
    "Keys",
    "Routes and bodies",
    "Limits, budget and quota",
    "Nodes and cache",
    "Streams",
    "Usage",
    "Management",
    "Hostile and odd traffic",
    "Accounts and second factors",
    "Plans, bills and payments",
    "Mails and notifications",
    "Webhooks",
    "Events of chains",
    "Dashboard",
    "Traces, logs and metrics",
    "Reliability",
    "Packaging",
    "Import and transfer",
];

const HEAD: &str = "\
# The contract and its tests

Each statement about the behaviour of rpcgate, with the test that shows it in parentheses. Further tests show a part of the
statements of their section. This file is generated from the comments `// Shows (section)` above the tests:
`RPCGATE_WRITE_DOCS=1 cargo test -p rpcgate-tests --test tidy contract` writes it.

`tests/promises.py` measures the figures that need full size; its numbers are those of the promises named here.
";

/// A test with a statement that it shows, or a further test of a section.
#[derive(PartialEq, Eq, Debug)]
struct Shown {
    section: &'static str,
    statement: Option<String>,
    path: String,
    test: String,
}

/// Reads the comments above the tests of a file. A comment that cannot be read is a finding.
fn shown(path: &str, text: &str, source: &Source, findings: &mut Vec<String>) -> Vec<Shown> {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let mut marks = lines.iter().filter(|line| line.starts_with(MARK)).count();
    let mut all = Vec::new();
    for test in source.test_functions() {
        let above = lines[..test.line - 1].iter().rev();
        let block: Vec<_> =
            above.take_while(|line| line.starts_with("//") && !line.starts_with("///")).collect();
        let mut comments: Vec<String> = Vec::new();
        for line in block.into_iter().rev() {
            match (line.strip_prefix(MARK), comments.last_mut()) {
                (Some(first), _) => comments.push(first.to_owned()),
                (None, Some(comment)) => *comment += line.trim_start_matches('/'),
                (None, None) => {}
            }
        }
        marks -= comments.len();
        for comment in comments {
            let sections = SPECIFICATION.iter().chain(CONTRACT);
            let read = comment.split_once(')').and_then(|(section, rest)| {
                let section = sections.copied().find(|name| *name == section)?;
                let statement = match rest {
                    "." => None,
                    _ => Some(rest.strip_prefix(": ")?.strip_suffix('.')?.to_owned()),
                };
                Some(Shown { section, statement, path: path.to_owned(), test: test.name.clone() })
            });
            match read {
                Some(read) => all.push(read),
                None => findings
                    .push(source.at(test.line, &format!("not `section)` or `section): text.`: {comment}"))),
            }
        }
    }
    if marks > 0 {
        findings.push(format!("{path}: {marks} comments `{MARK}` are not directly above a test"));
    }
    all
}

/// Returns sections without a statement and statements that occur twice.
fn incomplete(shown: &[Shown]) -> Vec<String> {
    let stated: Vec<_> =
        shown.iter().filter_map(|one| Some((one.section, one.statement.as_ref()?))).collect();
    let sections: BTreeSet<_> = stated.iter().map(|(section, _)| *section).collect();
    let missing = SPECIFICATION.iter().chain(CONTRACT).filter(|section| !sections.contains(*section));
    let mut findings: Vec<_> =
        missing.map(|section| format!("no test shows a statement of \"{section}\"")).collect();
    let mut seen = BTreeSet::new();
    let twice = stated.iter().filter(|(_, statement)| !seen.insert(statement));
    findings.extend(twice.map(|(section, statement)| format!("{section}: \"{statement}\" is stated twice")));
    findings
}

/// Writes the document: for each section the statements by file, then its further tests by file.
fn document(shown: &[Shown]) -> String {
    let mut text = HEAD.to_owned();
    for (title, sections) in [("Specification", SPECIFICATION), ("Contract", CONTRACT)] {
        text += &format!("\n## {title}\n");
        for section in sections {
            text += &format!("\n### {section}\n");
            let (mut stated, mut further) = (BTreeMap::<_, String>::new(), BTreeMap::<_, Vec<_>>::new());
            for one in shown.iter().filter(|one| one.section == *section) {
                let test = format!("`{}`", one.test);
                match &one.statement {
                    Some(statement) => {
                        *stated.entry(&one.path).or_default() += &format!("- {statement} ({test})\n");
                    }
                    None => further.entry(&one.path).or_default().push(test),
                }
            }
            for (path, statements) in stated {
                text += &format!("\n{path}\n\n{statements}");
            }
            if !further.is_empty() {
                text += "\nFurther tests\n\n";
            }
            for (path, tests) in further {
                text += &format!("- {path}: {}\n", tests.join(", "));
            }
        }
    }
    text
}

#[test]
fn the_contract_is_generated_from_the_tests() {
    let mut all = Vec::new();
    let mut findings = Vec::new();
    for source in tree::sources() {
        all.extend(shown(&source.path, &tree::read(&source.path), source, &mut findings));
    }
    findings.extend(incomplete(&all));
    none(&findings, "Each statement is above one test; others of its section have `// Shows (section).`");
    let written = document(&all);
    if std::env::var_os("RPCGATE_WRITE_DOCS").is_some() {
        std::fs::write(tree::root().join(DOCUMENT), &written).unwrap();
    }
    assert!(tree::read(DOCUMENT) == written, "{DOCUMENT} is not what RPCGATE_WRITE_DOCS=1 writes");
}

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
    let mut inside = false;
    let mut names_tests = false;
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

/// Returns the test functions of all sources by name.
fn locations(sources: &[Source]) -> Tests {
    let mut tests = Tests::new();
    for source in sources {
        let words: Vec<_> = source.tokens.iter().map(|token| token.text.as_str()).collect();
        let modules: Vec<_> =
            words.windows(2).filter(|pair| pair[0] == "mod").map(|pair| pair[1].to_owned()).collect();
        for test in source.test_functions() {
            let location = TestLocation { path: source.path.clone(), modules: modules.clone() };
            tests.entry(test.name).or_default().push(location);
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

// Shows (Reliability): Each defence of the threat model names tests that exist.
#[test]
fn every_defence_names_tests_that_exist() {
    let rows = rows(&tree::read(THREATS));
    assert!(!rows.is_empty(), "{THREATS} has no row");
    none(
        &broken(THREATS, &rows, &locations(tree::sources())),
        "A defence needs a test: write the test, or remove the sentence.",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = "#[test]\n#[ignore = \"[slow]\"]\nasync fn counts() {}\n";

    fn read(text: &str) -> (Vec<Shown>, usize) {
        let mut findings = Vec::new();
        let read = shown("a.rs", text, &Source::new("a.rs", text), &mut findings);
        (read, findings.len())
    }

    #[test]
    fn statements_and_further_tests_are_read_and_written() {
        let comments = "// Why.\n// Shows (Keys): A key is\n// long.\n// Shows (Plans).\n";
        let (read, findings) = read(&format!("fn f() {{}}\n\n/// Doc.\n{comments}{TEST}"));
        assert_eq!(findings, 0);
        let parts: Vec<_> = read.iter().map(|one| (one.section, one.statement.as_deref())).collect();
        assert_eq!(parts, [("Keys", Some("A key is long")), ("Plans", None)]);
        let written = document(&read);
        assert!(written.contains("### Keys\n\na.rs\n\n- A key is long (`counts`)\n"), "{written}");
        assert!(written.contains("### Plans\n\nFurther tests\n\n- a.rs: `counts`\n"), "{written}");
        assert!(incomplete(&read).iter().any(|finding| finding.contains("\"Plans\"")));
    }

    #[test]
    fn a_comment_that_cannot_be_read_is_found() {
        for comment in ["// Shows (Keis): A.", "// Shows (Keys) A.", "// Shows (Keys): A"] {
            assert_eq!(read(&format!("{comment}\n{TEST}")), (Vec::new(), 1), "{comment}");
        }
        for apart in ["// Shows (Keys): A.\n\n", "// Shows (Keys): A.\nfn f() {}\n"] {
            assert_eq!(read(&format!("{apart}{TEST}")), (Vec::new(), 1), "{apart}");
        }
    }

    #[test]
    fn a_statement_that_occurs_twice_is_found() {
        let twice = "// Shows (Keys): A.\n// Shows (Plans): A.\n";
        let (read, _) = read(&format!("{twice}{TEST}"));
        assert!(incomplete(&read).iter().any(|finding| finding.contains("stated twice")));
    }

    fn planted() -> Tests {
        locations(&[
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
        broken(THREATS, &rows(&table), &planted())
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
        assert_eq!(findings(""), ["SECURITY.md:5: no test shows \"Says | so\""]);
        for right in
            ["`window::gone`", "`plain`", "`heavy::counts`", "`heavy.rs: counts`", "`counts`, `gone`"]
        {
            assert_eq!(findings(right).len(), 1, "{right}");
        }
    }

    // Shows (Reliability).
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
