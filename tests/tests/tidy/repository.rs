//! The repository as a whole: the content of its root, and texts that no file may contain.

use std::path::Path;

use crate::tree::File;
use crate::{none, tree};

const FOLDERS: &[&str] = &[
    ".ci",
    "docs",
    "examples",
    "rpcgate-admin",
    "rpcgate-chains",
    "rpcgate-core",
    "rpcgate-layers",
    "rpcgate-server",
    "tests",
];

const FILES: &[&str] = &[
    ".dockerignore",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "Containerfile",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "clippy.toml",
    "compose.yaml",
    "deny.toml",
    "rust-toolchain.toml",
    "rustfmt.toml",
];

/// The first folders of absolute paths that exist only on the writer's machine.
const MACHINE_ROOTS: &[&str] = &["Users", "farm", "home", "root", "work"];

fn strange_at_the_top(names: &[String]) -> Vec<String> {
    let known: Vec<_> = FOLDERS.iter().chain(FILES).collect();
    let strange = names
        .iter()
        .filter(|name| !known.contains(&&name.as_str()))
        .map(|name| format!("{name}: not a part"));
    let missing = known
        .iter()
        .filter(|known| !names.iter().any(|name| name == **known))
        .map(|name| format!("{name}: missing"));
    strange.chain(missing).collect()
}

/// Returns lines with paths of one machine. `own` are paths of the machine that the test runs on.
fn machine_paths(file: &File, own: &[String]) -> Vec<String> {
    let lines = file.text.iter().flat_map(|text| text.lines().enumerate());
    lines
        .filter(|(_, line)| own.iter().any(|path| line.contains(path)) || has_machine_path(line))
        .map(|(at, line)| format!("{}:{}: {}", file.path, at + 1, line.trim()))
        .collect()
}

fn has_machine_path(line: &str) -> bool {
    line.match_indices('/').any(|(at, _)| {
        let starts =
            !line[..at].ends_with(|before: char| before.is_alphanumeric() || ".-_~*{}<>/:".contains(before));
        let (first, rest) = line[at + 1..].split_once('/').unwrap_or_default();
        let goes_on =
            rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '.' || next == '_');
        starts && goes_on && MACHINE_ROOTS.contains(&first)
    })
}

fn test_command(readme: &str) -> Option<&str> {
    readme
        .lines()
        .map(|line| line.trim().trim_start_matches("$ "))
        .find(|line| line.starts_with("cargo test --workspace"))
}

#[test]
fn the_top_folder_has_the_parts_of_the_project_and_nothing_else() {
    none(
        &strange_at_the_top(&tree::top()),
        "Every part has its place below these; a new one is a decision for docs/decisions.",
    );
}

#[test]
fn no_file_contains_a_path_of_a_particular_machine() {
    let home = std::env::var("HOME").unwrap_or_default();
    let mut own = vec![tree::root().display().to_string(), home];
    // A single folder may be a word with another meaning.
    own.retain(|path| Path::new(path).components().count() > 2);
    let findings: Vec<_> = tree::files().iter().flat_map(|file| machine_paths(file, &own)).collect();
    none(
        &findings,
        "It means nothing on another machine: write it relative to the repository, or as a variable.",
    );
}

#[test]
fn the_gate_runs_the_tests_listed_in_the_readme() {
    let readme = tree::read("README.md");
    let command =
        test_command(&readme).expect("README.md shows `cargo test --workspace` on a line of its own");
    let gate = tree::read(".ci/run");
    let runs = |line: &str| line.starts_with("readme_test()") && line.contains(&format!(" {command} "));
    assert!(
        gate.lines().any(runs) && gate.contains("\nstep \"tests\" readme_test\n"),
        ".ci/run does not run `{command}`"
    );
    assert!(
        gate.contains("\nexport RPCGATE_REQUIRE_SERVICES=1\n"),
        ".ci/run does not set RPCGATE_REQUIRE_SERVICES=1"
    );
}

/// Returns the sources that a document names in backticks and that do not exist. Documents shorten paths: `core/src/a.rs`
/// is in `rpcgate-core`, and folders may be left out.
fn missing_sources(document: &File, paths: &[String]) -> Vec<String> {
    let text = document.text.as_deref().unwrap_or_default();
    let named = text.split('`').skip(1).step_by(2).filter(|name| {
        let is_path = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
        is_path && (name.ends_with(".rs") || name.ends_with(".html"))
    });
    let exists = |name: &&str| {
        paths.iter().any(|path| {
            let mut folders = path.split('/').rev();
            let last = folders.next() == name.rsplit('/').next();
            let is_in = |wanted: &str| {
                folders.by_ref().any(|own| own == wanted || own.strip_prefix("rpcgate-") == Some(wanted))
            };
            last && name.rsplit('/').skip(1).all(is_in)
        })
    };
    named.filter(|name| !exists(name)).map(|name| format!("{}: {name}", document.path)).collect()
}

#[test]
fn documents_name_sources_that_exist() {
    let files = tree::files();
    let paths: Vec<_> = files.iter().map(|file| file.path.clone()).collect();
    let documents = files.iter().filter(|file| file.path.ends_with(".md"));
    let findings: Vec<_> = documents.flat_map(|document| missing_sources(document, &paths)).collect();
    none(&findings, "The source has another name: write that one.");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn unexpected_and_missing_entries_at_the_top_are_found() {
        let mut top = names(FOLDERS);
        top.extend(names(FILES));
        assert_eq!(strange_at_the_top(&top), [""; 0]);
        top.push("rpcgate-utils".to_owned());
        top.retain(|name| name != "docs");
        assert_eq!(strange_at_the_top(&top), ["rpcgate-utils: not a part", "docs: missing"]);
    }

    #[test]
    fn a_path_of_a_machine_is_found() {
        let found = |line: &str| {
            let file = File { path: "a.md".to_owned(), text: Some(format!("fine\n{line}\n")) };
            machine_paths(&file, &names(&["/srv/checkout"])).len()
        };
        for first in MACHINE_ROOTS {
            assert_eq!(found(&format!("see `/{first}/ann/rpcgate`")), 1, "{first}");
            let elsewhere = format!(
                "docs/{first}/ann, https://{first}/a, $X/{first}/b, GET /{first}/, https://x.org/{first}/a"
            );
            assert_eq!(found(&elsewhere), 0, "{first}");
        }
        assert_eq!(found("cd /srv/checkout/tests"), 1);
        assert_eq!(found("/usr/lib/postgresql, ./tests, //"), 0);
    }

    #[test]
    fn a_source_that_does_not_exist_is_found() {
        let paths = names(&["rpcgate-core/src/plan/table.rs", "rpcgate-admin/dashboard/templates/key.html"]);
        let found = |text: &str| {
            let document = File { path: "docs/a.md".to_owned(), text: Some(text.to_owned()) };
            missing_sources(&document, &paths)
        };
        let right = "`core/src/plan/table.rs`, `plan/table.rs`, `table.rs`, `key.html`, `a b.rs` and gone.rs";
        assert_eq!(found(right), [""; 0]);
        assert_eq!(found("`layers/src/plan/table.rs`"), ["docs/a.md: layers/src/plan/table.rs"]);
        assert_eq!(found("`gone.rs`"), ["docs/a.md: gone.rs"]);
    }

    #[test]
    fn the_test_command_is_read_from_the_readme() {
        assert_eq!(test_command("Run\n\n    $ cargo test --workspace\n"), Some("cargo test --workspace"));
        assert_eq!(test_command("Run `cargo test --workspace`"), None);
    }
}
