//! The files that install and run the programs (the image, `compose.yaml`, `examples/deploy`, `.ci/package`), checked
//! against the programs: commands, settings, ports, paths, users, probes and times.

mod compose;
mod image;
mod kubernetes;
mod packages;
mod units;

use std::time::Duration;

use clap::Parser;
use rpcgate_admin::cli::AdminCli;
use rpcgate_config::{Config, PREFIX, Sources};
use rpcgate_core::chain::Facts;
use rpcgate_server::cli::ServerCli;
use serde_json::Value;

use crate::source::{Kind, Source};
use crate::{none, tree};

/// The maximum time of a drain in addition to `shutdown.grace`: five seconds each for the journal, the last shipment
/// and the databases.
const AFTER_GRACE: Duration = Duration::from_secs(15);

const USER: u64 = 10_001;

/// The content of every secret.
const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// The working folder of the programs, and the only one in which both write.
const STATE: &str = "/var/lib/rpcgate";

/// The path of the configuration in the image and in packages.
const CONFIG: &str = "/etc/rpcgate/rpcgate.toml";

/// Returns the configuration of a program with the file `text` and the variables `env`, as if all files of secrets
/// existed.
fn effective(text: &str, env: &[(String, String)]) -> Result<Config, String> {
    let read = |name: &str| Ok(if name == CONFIG { text } else { SECRET }.to_owned());
    let adapters: Vec<_> = rpcgate_chains::catalog().collect();
    let chains: Vec<&Facts> = adapters.iter().map(|adapter| adapter.facts()).collect();
    let sources = Sources { file: Some(CONFIG), chains: &chains, base: &[], env, flags: &[], read: &read };
    sources.load().map_err(|error| error.to_string())
}

/// Returns `text` without the comment marks before keys and headers, as for a reader who follows its comments.
fn uncommented(text: &str) -> String {
    let line = |line: &str| {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        let is_key = bare.split_once(" = ").is_some_and(|(key, _)| !key.contains([' ', ':', '`']));
        if is_key || bare.starts_with('[') { bare.to_owned() } else { line.to_owned() }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the faults of a configuration file, unchanged and as its comments propose it.
fn wrong_configuration(text: &str, env: &[(String, String)]) -> Vec<String> {
    [text.to_owned(), uncommented(text)].iter().filter_map(|text| effective(text, env).err()).collect()
}

/// Returns variables in `text` that look like settings but are not.
fn unknown_variables(path: &str, text: &str) -> Vec<String> {
    let starts = text.match_indices(PREFIX).map(|(at, _)| &text[at..]);
    let names = starts.map(|from| {
        let end =
            from.find(|mark: char| !(mark.is_ascii_uppercase() || mark.is_ascii_digit() || mark == '_'));
        &from[..end.unwrap_or(from.len())]
    });
    // A prefix alone is a phrase about variables.
    let unknown = names.filter(|name| *name != PREFIX).filter(|name| {
        let env = [((*name).to_owned(), "1".to_owned())];
        effective("", &env).is_err_and(|faults| faults.contains("unknown name"))
    });
    unknown.map(|name| format!("{path}: {name} sets nothing")).collect()
}

/// Returns the reason why the programs would not accept these words. The first is a program or its path.
fn wrong_command(words: &[&str]) -> Option<String> {
    let (program, rest) = words.split_first()?;
    let needs_file = !matches!(rest.first(), Some(&("completions" | "man")));
    let file: &[&str] = if needs_file { &["--config", CONFIG] } else { &[] };
    let words = words.iter().chain(file).copied();
    let error = match program.rsplit('/').next() {
        Some("rpcgate-server") => ServerCli::try_parse_from(words).err(),
        Some("rpcgate-admin") => AdminCli::try_parse_from(words).err(),
        _ => return Some(format!("{program} is not a program of ours")),
    };
    error.map(|error| format!("{program} {}: {error}", rest.join(" ")))
}

/// Reports whether a source of `package` contains `path`, which means that it serves it.
fn serves(package: &str, path: &str) -> bool {
    let names = |source: &Source| {
        source.is_shipped()
            && source.path.starts_with(package)
            && source.code().any(|token| token.kind == Kind::Text && token.text == path)
    };
    tree::sources().iter().any(names)
}

/// Returns the reason why the content of an image may change.
fn unpinned(image: &str) -> Option<String> {
    let tag = image.rsplit('/').next().and_then(|name| name.split_once(':')).map_or("", |(_, tag)| tag);
    let number = tag.split('-').next().unwrap_or_default();
    let is_exact =
        number.split('.').count() >= 2 && number.split('.').all(|part| part.parse::<u32>().is_ok());
    (!is_exact).then(|| format!("{image}: no version of its own"))
}

fn version() -> String {
    let manifest: toml::Table = tree::read("Cargo.toml").parse().unwrap();
    manifest["workspace"]["package"]["version"].as_str().unwrap().to_owned()
}

fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}"))
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

/// Reads `30s` or `2m` as Compose, Docker and HAProxy write it, and a bare number of seconds as systemd does.
fn duration(text: &str) -> Duration {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let number: u64 = digits.parse().unwrap_or_else(|_| panic!("{text} is no time"));
    match &text[digits.len()..] {
        "ms" => Duration::from_millis(number),
        "" | "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(60 * number),
        "h" => Duration::from_secs(3_600 * number),
        unit => panic!("{text}: {unit} is no unit"),
    }
}

/// Returns the files of this kind with their text.
fn deployed() -> impl Iterator<Item = (String, String)> {
    tree::files().into_iter().filter_map(|file| {
        let ours = file.path.starts_with("examples/deploy/")
            || [".ci/package", ".ci/dist", "Containerfile", "compose.yaml"].contains(&file.path.as_str());
        Some((file.path, file.text?)).filter(|_| ours)
    })
}

/// Returns relative links and paths of the repository in `text` that do not exist.
fn dead_paths(path: &str, text: &str) -> Vec<String> {
    let words = text.split(|mark: char| mark.is_whitespace() || "\"'`,;()[]{}".contains(mark));
    words
        .map(|word| {
            word.trim_start_matches("./").trim_end_matches(['.', ':']).split(':').next().unwrap_or_default()
        })
        .filter(|word| ["examples/deploy/", "docs/", ".ci/"].iter().any(|start| word.starts_with(start)))
        .filter(|word| !word.contains(['$', '{', '*']) && !tree::root().join(word).exists())
        .map(|word| format!("{path}: {word} does not exist"))
        .collect()
}

// Shows (Packaging): The commands, settings, files, ports, health paths and times in the image, compose.yaml, units,
// packages and manifests exist in the programs.
#[test]
fn deployed_variables_are_settings() {
    let files: Vec<_> = deployed().collect();
    assert!(files.len() > 15, "{} files", files.len());
    let findings: Vec<_> = files.iter().flat_map(|(path, text)| unknown_variables(path, text)).collect();
    none(&findings, "docs/rpcgate.example.toml has every key; a variable spells its path.");
}

// Shows (Packaging).
#[test]
fn deployed_files_name_files_that_exist() {
    let findings: Vec<_> = deployed().flat_map(|(path, text)| dead_paths(&path, &text)).collect();
    none(&findings, "A path is written from the root of the repository.");
}

#[test]
fn every_file_of_deploy_is_reached_by_its_readme() {
    let readme = tree::read("examples/deploy/README.md");
    let folders = std::fs::read_dir(tree::root().join("examples/deploy")).unwrap();
    let names = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let unnamed: Vec<_> =
        names.filter(|name| name != "README.md" && !readme.contains(&format!("`{name}/`"))).collect();
    none(&unnamed, "A folder that nobody is told of is not used.");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_sets_nothing_is_found() {
        let found = |text: &str| unknown_variables("x", text);
        assert_eq!(found("RPCGATE_GATEWAY__LISEN=0.0.0.0:1"), ["x: RPCGATE_GATEWAY__LISEN sets nothing"]);
        assert_eq!(found("- name: RPCGATE_PORTS\n  value: RPCGATE_SERVICE_HOSTS").len(), 2);
        let fine = "RPCGATE_GATEWAY__LISTEN, RPCGATE_CHAINS__ETH__NODES=http://a, RPCGATE_CONFIG; RPCGATE_ settings, \
                    RPCGATE_GATEWAY__KEY_SECRET__FILE=/a";
        assert_eq!(found(fine), [""; 0]);
    }

    #[test]
    fn a_command_that_a_program_refuses_is_found() {
        for fine in [
            &["rpcgate-server", "run"][..],
            &["/usr/bin/rpcgate-admin", "run", "--role", "janitor,dispatcher,watcher"],
            &["rpcgate-server", "health", "--ready"],
            &["rpcgate-admin", "completions", "zsh"],
            &["rpcgate-admin", "man", "/tmp/man1"],
        ] {
            assert_eq!(wrong_command(fine), None, "{fine:?}");
        }
        for wrong in [
            &["rpcgate-server", "serve"][..],
            &["rpcgate-admin", "run", "--role", "cook"],
            &["rpcgate-server", "run", "--role", "api"],
            &["curl", "run"],
        ] {
            assert!(wrong_command(wrong).is_some(), "{wrong:?}");
        }
    }

    // Shows (Packaging).
    #[test]
    fn an_image_without_a_version_is_found() {
        for fine in ["a:1.2", "docker.io/library/postgres:17.6-bookworm", "r.example.com:5000/b:1.2.3"] {
            assert_eq!(unpinned(fine), None, "{fine}");
        }
        for wrong in ["a", "a:latest", "a:17", "a:1.x", "r.example.com:5000/b", "a:1-bookworm"] {
            assert!(unpinned(wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn a_fault_of_a_configuration_is_found_in_its_comments_too() {
        assert_eq!(wrong_configuration("[gateway]\n# listen = \"127.0.0.1:1\"\n", &[]), [""; 0]);
        assert_eq!(wrong_configuration("[gateway]\n# lisen = \"127.0.0.1:1\"\n", &[]).len(), 1);
        assert_eq!(wrong_configuration("[gateway]\nlisen = \"127.0.0.1:1\"\n", &[]).len(), 2);
        assert_eq!(wrong_configuration("[gateway]\n# key_secret = { env = \"K\" }\n", &[]).len(), 1);
    }

    #[test]
    fn a_path_that_leads_nowhere_is_found() {
        let found = |text: &str| dead_paths("x", text).len();
        assert_eq!(found("see docs/installing.md, or (docs/chains.md)."), 0);
        assert_eq!(found("`docs/none.md` ./examples/deploy/none:/etc/rpcgate:ro"), 2);
        assert_eq!(found("docs/$name.md, https://example.com/docs/none.md"), 0);
    }

    #[test]
    fn a_path_is_served_if_a_program_names_it() {
        assert!(serves("rpcgate-server/", "/readyz") && serves("rpcgate-admin/", "/healthz"));
        assert!(serves("rpcgate-admin/", "/metrics"));
        assert!(!serves("rpcgate-server/", "/ready") && !serves("rpcgate-admin/", "/livez"));
    }

    #[test]
    fn times_are_read() {
        assert_eq!(duration("60s"), duration("1m"));
        assert_eq!((duration("200ms").as_millis(), duration("60").as_secs()), (200, 60));
    }
}
