//! The files that a published package may include or cite: its own, since a reader of the package has no others.

use crate::source::{Kind, Source};
use crate::{none, tree};

const LIBRARIES: &[&str] = &["rpcgate-core", "rpcgate-layers", "rpcgate-chains"];

/// The beginnings of citations of documents outside of the package.
const PAPERS: &[&str] = &["(specification", "(contract", "the specification's", "the contract's section"];

/// Returns the path of `target` from the repository's root, seen from the folder of the file at `from`. `None` above
/// the root.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<_> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Returns files outside of the package that a source includes, as text, bytes or module.
fn outside(source: &Source) -> Vec<String> {
    let package = source.path.split('/').next().unwrap_or_default();
    if !LIBRARIES.contains(&package) {
        return Vec::new();
    }
    let code: Vec<_> = source.tokens.iter().filter(|token| token.kind != Kind::Doc).collect();
    let word = |at: usize, text: &str| code.get(at).is_some_and(|token| token.text == text);
    let mut findings = Vec::new();
    for (at, token) in code.iter().enumerate().filter(|(_, token)| token.kind == Kind::Text) {
        let includes = at >= 3
            && word(at - 1, "(")
            && word(at - 2, "!")
            && ["include_str", "include_bytes", "include"].iter().any(|name| word(at - 3, name));
        let is_module = at >= 2 && word(at - 1, "=") && word(at - 2, "path");
        let inside = || {
            resolve(&source.path, &token.text).is_some_and(|path| path.starts_with(&format!("{package}/")))
        };
        if (includes || is_module) && !inside() {
            findings.push(source.at(token.line, &token.text));
        }
    }
    findings
}

/// Returns lines of documentation that cite a document which a reader of the package cannot open.
fn cites(source: &Source) -> Vec<String> {
    let package = source.path.split('/').next().unwrap_or_default();
    if !LIBRARIES.contains(&package) {
        return Vec::new();
    }
    let docs = source.tokens.iter().filter(|token| token.kind == Kind::Doc);
    docs.filter(|token| PAPERS.iter().any(|paper| token.text.contains(paper)))
        .map(|token| source.at(token.line, token.text.trim()))
        .collect()
}

#[test]
fn packaged_libraries_read_only_their_own_files() {
    let findings: Vec<_> = tree::sources().iter().flat_map(outside).collect();
    none(&findings, "Move the file into the package, or the test into the tests crate.");
}

#[test]
fn documentation_of_packaged_libraries_states_its_rules_itself() {
    let findings: Vec<_> = tree::sources().iter().flat_map(cites).collect();
    none(&findings, "State the rule itself, or link to a page of docs/ in the public repository.");
}

#[test]
fn packaged_libraries_have_their_licences_and_a_readme() {
    let names = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];
    let files = LIBRARIES.iter().flat_map(|package| names.map(|name| format!("{package}/{name}")));
    let missing: Vec<_> = files.filter(|path| !tree::root().join(path).is_file()).collect();
    none(&missing, "A package carries its licences (as links to those of the root) and says what it is.");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_outside_of_the_package_is_found() {
        let found = |path: &str, text: &str| outside(&Source::new(path, text)).len();
        let file = "rpcgate-core/src/json/tests.rs";
        assert_eq!(found(file, "include_str!(\"../../../docs/a.md\")"), 1);
        assert_eq!(found(file, "include_str!(\"../../../rpcgate-core-more/a.md\")"), 1);
        assert_eq!(found(file, "#[path = \"../../../tests/src/a.rs\"] mod a;"), 1);
        assert_eq!(found(file, "include_str!(\"../../README.md\"); let path = \"a\"; f(\"../../../b\");"), 0);
        assert_eq!(found("rpcgate-server/src/reload.rs", "include_str!(\"../../docs/a.md\")"), 0);
    }

    #[test]
    fn a_citation_is_found_in_documentation_alone() {
        let found = |path: &str, text: &str| cites(&Source::new(path, text)).len();
        let cited = "/// One a minute (specification, \"Plans\").\nfn f() {}";
        assert_eq!(found("rpcgate-core/src/a.rs", cited), 1);
        assert_eq!(found("rpcgate-server/src/a.rs", cited), 0);
        assert_eq!(found("rpcgate-core/src/a.rs", "/// RFC 9112.\nconst A: &str = \"(contract\";"), 0);
    }
}
