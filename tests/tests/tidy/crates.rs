//! The crates: their permitted dependencies, and the required parts of each manifest.

use std::process::Command;

use serde_json::Value;
use toml::Table;

use crate::{none, tree};

/// Each of our crates, and those of ours that it may depend on.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("rpcgate-core", &[]),
    ("rpcgate-config", &["rpcgate-core"]),
    ("rpcgate-layers", &["rpcgate-core"]),
    ("rpcgate-chains", &["rpcgate-core"]),
    ("rpcgate-simulate", &["rpcgate-core"]),
    ("rpcgate-import", &["rpcgate-core", "rpcgate-config", "rpcgate-chains"]),
    ("rpcgate-store", &["rpcgate-core", "rpcgate-config"]),
    ("rpcgate-process", &["rpcgate-core", "rpcgate-config", "rpcgate-layers", "rpcgate-chains"]),
    (
        "rpcgate-management",
        &[
            "rpcgate-core",
            "rpcgate-config",
            "rpcgate-layers",
            "rpcgate-chains",
            "rpcgate-store",
            "rpcgate-process",
        ],
    ),
    (
        "rpcgate-dashboard",
        &[
            "rpcgate-core",
            "rpcgate-config",
            "rpcgate-layers",
            "rpcgate-chains",
            "rpcgate-store",
            "rpcgate-management",
        ],
    ),
    (
        "rpcgate-admin",
        &[
            "rpcgate-core",
            "rpcgate-config",
            "rpcgate-layers",
            "rpcgate-chains",
            "rpcgate-store",
            "rpcgate-process",
            "rpcgate-management",
            "rpcgate-dashboard",
        ],
    ),
    (
        "rpcgate-server",
        &[
            "rpcgate-core",
            "rpcgate-config",
            "rpcgate-layers",
            "rpcgate-chains",
            "rpcgate-simulate",
            "rpcgate-store",
            "rpcgate-process",
            "rpcgate-import",
            "rpcgate-management",
            "rpcgate-admin",
        ],
    ),
    ("rpcgate-examples", &["rpcgate-core", "rpcgate-layers", "rpcgate-chains", "rpcgate-simulate"]),
    (
        "rpcgate-tests",
        &[
            "rpcgate-core",
            "rpcgate-config",
            "rpcgate-layers",
            "rpcgate-chains",
            "rpcgate-simulate",
            "rpcgate-store",
            "rpcgate-process",
            "rpcgate-server",
            "rpcgate-management",
            "rpcgate-admin",
        ],
    ),
];

/// Crates of ours that the tests of a different one need. The manifest has only their path, so that the published
/// manifest does not contain them.
const FOR_TESTS: &[(&str, &str)] = &[
    ("rpcgate-chains", "rpcgate-simulate"),
    ("rpcgate-import", "rpcgate-layers"),
    ("rpcgate-import", "rpcgate-server"),
];

/// Our packages without input and output.
const WITHOUT_IO: &[&str] = &["rpcgate-core", "rpcgate-config"];

/// The traits of columns, which core implements with its feature `sql`. Without that feature it has no such dependency.
const COLUMNS_OF_CORE: (&str, &str) = ("rpcgate-core", "sea-orm");

/// Crates that do input or output.
const INPUT_OUTPUT: &[&str] = &[
    "async-nats",
    "axum",
    "fastwebsockets",
    "hyper",
    "hyper-rustls",
    "hyper-util",
    "lettre",
    "mio",
    "redis",
    "reqwest",
    "rustls",
    "sea-orm",
    "sea-orm-migration",
    "socket2",
    "sqlx",
    "tokio",
    "tokio-rustls",
    "tokio-util",
    "tonic",
    "tower-http",
];

const NOT_PUBLISHED: &[&str] = &["rpcgate-examples", "rpcgate-simulate", "rpcgate-tests"];

const INHERITED: &[&str] = &["version", "edition", "rust-version", "license"];

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(tree::root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn manifest(path: &str) -> Table {
    tree::read(path).parse().unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn members() -> Vec<(String, Table)> {
    let root = manifest("Cargo.toml");
    let members = root["workspace"]["members"].as_array().unwrap();
    let paths = members.iter().map(|member| format!("{}/Cargo.toml", member.as_str().unwrap()));
    paths.map(|path| (path.clone(), manifest(&path))).collect()
}

fn items<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn wrong_directions(metadata: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    for package in items(metadata, "packages") {
        let name = text(package, "name");
        let Some((_, known)) = MAY_KNOW.iter().find(|(ours, _)| *ours == name) else {
            findings.push(format!("{name}: not in the list of our crates"));
            continue;
        };
        for dependency in items(package, "dependencies") {
            let needed = text(dependency, "name");
            if text(dependency, "kind") == "dev" && FOR_TESTS.contains(&(name, needed)) {
                continue;
            }
            let ours = MAY_KNOW.iter().any(|(ours, _)| *ours == needed);
            // A crate may name itself among its dev-dependencies, to enable a feature for its tests.
            if ours && needed != name && !known.contains(&needed) {
                findings.push(format!("{name} must not know {needed}"));
            }
        }
    }
    findings
}

fn input_output(metadata: &Value) -> Vec<String> {
    let used = |package| {
        let kept = items(package, "dependencies").filter(|dependency| text(dependency, "kind") != "dev");
        let kept = kept.filter(|dependency| {
            let name = (text(package, "name"), text(dependency, "name"));
            name != COLUMNS_OF_CORE || dependency["optional"] != true
        });
        kept.map(move |dependency| (text(package, "name"), text(dependency, "name")))
    };
    items(metadata, "packages")
        .flat_map(used)
        .filter(|(package, dependency)| WITHOUT_IO.contains(package) && INPUT_OUTPUT.contains(dependency))
        .map(|(package, dependency)| format!("{package} must not use {dependency}"))
        .collect()
}

/// Returns the packages that a server without its demo must not compile.
fn only_for_the_demo(metadata: &Value) -> Vec<String> {
    let server = items(metadata, "packages").filter(|package| text(package, "name") == "rpcgate-server");
    server
        .flat_map(|package| items(package, "dependencies"))
        .filter(|dependency| {
            let is_management = ["rpcgate-admin", "rpcgate-management"].contains(&text(dependency, "name"));
            is_management && text(dependency, "kind") != "dev"
        })
        .filter(|dependency| dependency["optional"] != true)
        .map(|dependency| format!("rpcgate-server always needs the management: {dependency}"))
        .collect()
}

/// Libraries of the management side: HTML, its HTTP framework, mail, OpenAPI and passkeys.
const MANAGEMENT: &[&str] = &["askama", "axum", "lettre", "utoipa", "webauthn-rs"];

/// The libraries of the management side in the lines of a dependency tree.
fn management_libraries(tree: &str) -> Vec<String> {
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    names.filter(|name| MANAGEMENT.contains(name)).map(str::to_owned).collect()
}

fn published(metadata: &Value) -> Vec<String> {
    let packages =
        items(metadata, "packages").filter(|package| NOT_PUBLISHED.contains(&text(package, "name")));
    packages
        .filter(|package| package["publish"].as_array().is_none_or(|registries| !registries.is_empty()))
        .map(|package| format!("{}: publish = false is missing", text(package, "name")))
        .collect()
}

fn own_words(path: &str, manifest: &Table) -> Vec<String> {
    let mut findings = Vec::new();
    let inherits =
        |value: Option<&toml::Value>| value.and_then(|value| value.get("workspace")?.as_bool()) == Some(true);
    if !inherits(manifest.get("lints")) {
        findings.push(format!("{path}: [lints] workspace = true is missing"));
    }
    for key in INHERITED {
        if !inherits(manifest.get("package").and_then(|package| package.get(key))) {
            findings.push(format!("{path}: {key}.workspace = true is missing"));
        }
    }
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let tables = std::iter::once(manifest)
        .chain(targets.into_iter().flat_map(|targets| targets.values().filter_map(toml::Value::as_table)));
    for table in tables {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (name, dependency) in table.get(kind).and_then(toml::Value::as_table).into_iter().flatten() {
                let by_path = kind == "dev-dependencies"
                    && FOR_TESTS.iter().any(|(_, needed)| needed == name)
                    && dependency.as_table().is_some_and(|table| table.keys().eq(["path"]));
                if !by_path && !inherits(Some(dependency)) {
                    findings.push(format!("{path}: {kind}.{name} has a version of its own"));
                }
            }
        }
    }
    findings
}

#[test]
fn crates_know_each_other_in_one_direction() {
    none(
        &wrong_directions(&metadata()),
        "Core depends on none of ours; config, layers and chains on core; store and process on these; management on these, the dashboard and admin on management; the server on all.",
    );
}

#[test]
fn core_and_configuration_need_no_input_or_output() {
    none(
        &input_output(&metadata()),
        "Put it behind a backend: the trait stays in core, the implementation goes elsewhere.",
    );
}

#[test]
fn the_server_needs_the_management_side_only_for_its_demo() {
    none(
        &only_for_the_demo(&metadata()),
        "What both binaries need belongs in rpcgate-process; rpcgate-admin and rpcgate-management are dependencies of the feature `demo`.",
    );
}

#[test]
fn a_gateway_without_its_demo_compiles_nothing_of_the_management_side() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", "rpcgate-server", "--no-default-features"])
        .args(["--edges", "normal,build", "--prefix", "none"])
        .current_dir(tree::root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    assert!(tree.lines().any(|line| line.starts_with("hyper ")), "{tree}");
    none(
        &management_libraries(&tree),
        "Only the feature `demo` of rpcgate-server may need the management side.",
    );
}

#[test]
fn examples_simulated_nodes_and_tests_are_not_published() {
    none(&published(&metadata()), "These packages are for this repository alone.");
}

#[test]
fn manifests_leave_versions_and_lints_to_the_workspace() {
    let findings: Vec<_> = members().iter().flat_map(|(path, manifest)| own_words(path, manifest)).collect();
    none(&findings, "Versions stand in [workspace.dependencies], lints in [workspace.lints], once for all.");
}

#[test]
fn the_workspace_starts_the_gateway() {
    let root = manifest("Cargo.toml");
    assert!(!root.contains_key("package"), "the root holds no package, so that every crate is an equal");
    assert_eq!(root["workspace"]["default-members"].as_array().unwrap()[0].as_str(), Some("rpcgate-server"));
    let mut named: Vec<_> = members()
        .iter()
        .map(|(_, manifest)| manifest["package"]["name"].as_str().unwrap_or_default().to_owned())
        .collect();
    let mut known: Vec<_> = MAY_KNOW.iter().map(|(name, _)| (*name).to_owned()).collect();
    named.sort();
    known.sort();
    assert_eq!(named, known, "the workspace's members are not the crates that this test knows");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn planted(package: &str, dependency: &Value) -> Value {
        json!({ "packages": [{ "name": package, "dependencies": [dependency], "publish": null }] })
    }

    #[test]
    fn a_wrong_direction_is_found() {
        let wrong = |from, to| wrong_directions(&planted(from, &json!({ "name": to, "kind": null }))).len();
        assert_eq!(wrong("rpcgate-core", "rpcgate-layers"), 1);
        assert_eq!(wrong("rpcgate-layers", "rpcgate-chains"), 1);
        assert_eq!(wrong("rpcgate-chains", "rpcgate-layers"), 1);
        assert_eq!(wrong("rpcgate-admin", "rpcgate-server"), 1);
        assert_eq!(wrong("rpcgate-common", "serde"), 1);
        assert_eq!(wrong("rpcgate-layers", "rpcgate-core"), 0);
        let simulated = |kind: Value| {
            let dependency = json!({ "name": "rpcgate-simulate", "kind": kind });
            wrong_directions(&planted("rpcgate-chains", &dependency)).len()
        };
        assert_eq!((simulated(Value::Null), simulated(json!("dev"))), (1, 0));
    }

    #[test]
    fn input_in_a_package_without_it_is_found_unless_tests_alone_need_it() {
        let needs =
            |package, kind| input_output(&planted(package, &json!({ "name": "tokio", "kind": kind }))).len();
        for package in ["rpcgate-core", "rpcgate-config"] {
            let kinds = [Value::Null, json!("build"), json!("dev")];
            assert_eq!(kinds.map(|kind| needs(package, kind)), [1, 1, 0], "{package}");
        }
        assert_eq!(needs("rpcgate-layers", Value::Null), 0);
    }

    #[test]
    fn a_library_of_the_management_side_is_found_in_a_tree() {
        assert_eq!(management_libraries("rpcgate-server v0.1.0\nhyper v1.0.0\naxum v0.8.0 (*)\n"), ["axum"]);
        assert!(management_libraries("rpcgate-server v0.1.0\naxum-core v0.5.0\n").is_empty());
    }

    #[test]
    fn a_server_that_always_has_the_management_side_is_found() {
        let always = |optional: bool| {
            let dependency = json!({ "name": "rpcgate-admin", "kind": null, "optional": optional });
            only_for_the_demo(&planted("rpcgate-server", &dependency)).len()
        };
        assert_eq!((always(false), always(true)), (1, 0));
    }

    #[test]
    fn a_package_that_could_be_published_is_found() {
        let package =
            |publish: Value| json!({ "packages": [{ "name": "rpcgate-tests", "publish": publish }] });
        assert_eq!((published(&package(Value::Null)).len(), published(&package(json!([]))).len()), (1, 0));
    }

    #[test]
    fn a_version_or_lint_of_a_crates_own_is_found() {
        let good = "lints.workspace = true\n[package]\nversion.workspace = true\nedition.workspace = true\n\
            rust-version.workspace = true\nlicense.workspace = true\n[dependencies]\na.workspace = true\n";
        let found = |text: &str| own_words("x", &text.parse().unwrap()).len();
        assert_eq!(found(good), 0);
        assert_eq!(found(&good.replace("lints.workspace = true", "")), 1);
        assert_eq!(found(&good.replace("a.workspace = true", "a = \"1\"\nb = { version = \"1\" }")), 2);
        assert_eq!(found(&format!("{good}[target.'cfg(unix)'.dev-dependencies]\nc = \"1\"\n")), 1);
        let for_tests = |dependency: &str| found(&format!("{good}[dev-dependencies]\n{dependency}\n"));
        assert_eq!(for_tests("rpcgate-simulate = { path = \"simulate\" }"), 0);
        assert_eq!(for_tests("rpcgate-simulate = { path = \"simulate\", version = \"1\" }"), 1);
        assert_eq!(for_tests("rpcgate-core = { path = \"core\" }"), 1);
        assert_eq!(found(&good.replace("edition.workspace = true", "edition = \"2024\"")), 1);
    }
}
