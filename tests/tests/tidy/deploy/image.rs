//! The image: `Containerfile` and `.dockerignore`.

use std::time::Duration;

use rpcgate_process::health::ANSWER_WITHIN;
use toml::Table;

use super::{CONFIG, STATE, USER, duration, effective, unpinned, wrong_command, wrong_configuration};
use crate::{none, tree};

const IMAGE: &str = "Containerfile";
const IGNORED: &str = ".dockerignore";
const IMAGE_CONFIG: &str = "examples/deploy/image/rpcgate.toml";

#[derive(Debug)]
struct Stage {
    name: String,
    base: String,
    steps: Vec<(String, String)>,
}

fn stages(text: &str) -> Vec<Stage> {
    let whole = text.replace("\\\n", " ");
    let lines = whole.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut stages: Vec<Stage> = Vec::new();
    for line in lines {
        let (keyword, rest) = line.split_once(' ').unwrap_or((line, ""));
        if keyword == "FROM" {
            let (base, name) = rest.split_once(" AS ").unwrap_or((rest, ""));
            stages.push(Stage { name: name.to_owned(), base: base.to_owned(), steps: Vec::new() });
        } else if let Some(stage) = stages.last_mut() {
            stage.steps.push((keyword.to_owned(), rest.trim().to_owned()));
        }
    }
    stages
}

/// Returns the stages that no other one begins with or copies from: the images that are built.
pub(super) fn targets(text: &str) -> Vec<String> {
    let stages = stages(text);
    let is_used = |name: &str| {
        stages.iter().any(|stage| {
            stage.base == name
                || stage.steps.iter().any(|(_, rest)| rest.contains(&format!("--from={name} ")))
        })
    };
    stages.iter().filter(|stage| !is_used(&stage.name)).map(|stage| stage.name.clone()).collect()
}

/// Returns all steps of an image. Those of the stages that it begins with come first.
fn steps<'s>(stages: &'s [Stage], name: &str) -> Vec<&'s (String, String)> {
    let Some(stage) = stages.iter().find(|stage| stage.name == name) else { return Vec::new() };
    let mut all = steps(stages, &stage.base);
    all.extend(&stage.steps);
    all
}

fn last<'s>(steps: &[&'s (String, String)], keyword: &str) -> &'s str {
    steps.iter().rev().find(|(found, _)| found == keyword).map_or("", |(_, rest)| rest.as_str())
}

/// Returns the words of the exec form, which no shell reads.
fn words(text: &str) -> Vec<String> {
    text.find('[').and_then(|at| serde_json::from_str(&text[at..]).ok()).unwrap_or_default()
}

/// Returns the faults of the image of the stage `name`.
fn wrong_image(stages: &[Stage], name: &str) -> Vec<String> {
    let steps = steps(stages, name);
    let mut findings = Vec::new();
    if last(&steps, "USER") != format!("{USER}:{USER}") {
        findings.push(format!("USER {}", last(&steps, "USER")));
    }
    if !steps.iter().any(|(keyword, rest)| keyword == "ENV" && *rest == format!("RPCGATE_CONFIG={CONFIG}")) {
        findings.push(format!("RPCGATE_CONFIG is not {CONFIG}"));
    }
    if !steps.iter().any(|(keyword, rest)| keyword == "COPY" && rest.ends_with(&format!(" {CONFIG}"))) {
        findings.push(format!("there is no {CONFIG}"));
    }
    if last(&steps, "WORKDIR") != STATE || words(last(&steps, "VOLUME")) != [STATE] {
        findings.push(format!("it does not work in the volume {STATE}"));
    }
    let started: Vec<_> = [words(last(&steps, "ENTRYPOINT")), words(last(&steps, "CMD"))].concat();
    let health = last(&steps, "HEALTHCHECK");
    let asked = words(health);
    for command in [&started, &asked] {
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        findings.extend(wrong_command(&command));
    }
    if started.is_empty()
        || started.first() != asked.first()
        || asked.get(1).is_none_or(|word| word != "health")
    {
        findings.push(format!("it starts {started:?} and asks {asked:?}"));
    }
    let option = |name: &str| {
        let value = health.split(' ').find_map(|word| word.strip_prefix(&format!("--{name}=")));
        value.map_or(Duration::ZERO, duration)
    };
    if option("timeout") <= ANSWER_WITHIN || option("interval") < option("timeout") {
        findings.push(format!("the health check ends before the command does: {health}"));
    }
    findings.iter().map(|finding| format!("{IMAGE}: {name}: {finding}")).collect()
}

/// Returns the faults of the stages: their bases and copied files.
fn wrong_stages(stages: &[Stage], toolchain: &str, ignored: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (at, stage) in stages.iter().enumerate() {
        if !stages[..at].iter().any(|earlier| earlier.name == stage.base) {
            findings.extend(unpinned(&stage.base));
            let rust = stage.base.split_once("/rust:").map(|(_, tag)| tag);
            if rust.is_some_and(|tag| !tag.starts_with(&format!("{toolchain}-"))) {
                findings.push(format!("{} is not the toolchain {toolchain}", stage.base));
            }
        }
        let copies =
            stage.steps.iter().filter(|(keyword, rest)| keyword == "COPY" && !rest.starts_with("--from="));
        for (_, rest) in copies {
            let mut sources: Vec<_> = rest.split_whitespace().collect();
            sources.pop();
            for source in sources.into_iter().filter(|source| *source != ".") {
                let first = source.split('/').next().unwrap_or_default();
                if !tree::root().join(source).exists()
                    || !ignored.lines().any(|line| line == format!("!{first}"))
                {
                    findings.push(format!("{source} cannot be copied"));
                }
            }
        }
    }
    findings.iter().map(|finding| format!("{IMAGE}: {finding}")).collect()
}

/// Returns files that a source includes but the build context lacks.
fn wrong_includes(ignored: &str, path: &str, text: &str) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let included = text.split("include_").skip(1).filter_map(|rest| {
        let rest = rest.strip_prefix("str!(").or_else(|| rest.strip_prefix("bytes!("))?;
        rest.trim_start().strip_prefix('"')?.split('"').next()
    });
    let mut findings = Vec::new();
    for file in included {
        let mut parts: Vec<_> = folder.split('/').collect();
        for part in file.split('/') {
            if part == ".." {
                parts.pop();
            } else {
                parts.push(part);
            }
        }
        let first = parts.first().copied().unwrap_or_default();
        if !ignored.lines().any(|line| line == format!("!{first}")) {
            findings.push(format!("{path}: {} is not sent", parts.join("/")));
        }
    }
    findings
}

/// Returns required files that the build context lacks, and files that it must not contain.
fn wrong_context(ignored: &str, workspace: &Table) -> Vec<String> {
    let is_sent = |name: &str| ignored.lines().any(|line| line == format!("!{name}"));
    let members =
        workspace["workspace"]["members"].as_array().unwrap().iter().filter_map(toml::Value::as_str);
    let folders = members.map(|member| member.split('/').next().unwrap_or_default().to_owned());
    let needed = folders.chain(["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"].map(str::to_owned));
    let mut findings: Vec<_> =
        needed.filter(|name| !is_sent(name)).map(|name| format!("{IGNORED}: {name} is not sent")).collect();
    if ignored.lines().find(|line| !line.is_empty() && !line.starts_with('#')) != Some("*") || is_sent(".env")
    {
        findings.push(format!("{IGNORED}: secrets are sent"));
    }
    findings
}

fn channel() -> String {
    let toolchain: Table = tree::read("rust-toolchain.toml").parse().unwrap();
    toolchain["toolchain"]["channel"].as_str().unwrap().to_owned()
}

// Shows (Packaging).
#[test]
fn the_image_starts_the_programs_as_a_user_without_rights() {
    let text = tree::read(IMAGE);
    assert_eq!(targets(&text), ["admin", "server"]);
    let stages = stages(&text);
    let findings: Vec<_> = targets(&text).iter().flat_map(|name| wrong_image(&stages, name)).collect();
    none(&findings, "The image runs `run`, asks `health`, and writes into its volume alone.");
}

// Shows (Packaging): Images are pinned to versions, and the compiler's to that of the toolchain file.
#[test]
fn the_image_is_built_from_versions_that_are_named() {
    let stages = stages(&tree::read(IMAGE));
    none(&wrong_stages(&stages, &channel(), &tree::read(IGNORED)), "Name the whole version of each image.");
    let build = stages.iter().flat_map(|stage| &stage.steps).find(|(_, rest)| rest.contains("cargo build"));
    let (_, build) = build.unwrap();
    for words in ["--locked", "--release", "-p rpcgate-server", "-p rpcgate-admin"] {
        assert!(build.contains(words), "{words}: {build}");
    }
    for program in ["rpcgate-server", "rpcgate-admin"] {
        assert!(build.contains(&format!("target/release/{program}")), "{program}: {build}");
    }
}

// Shows (Packaging).
#[test]
fn the_build_is_sent_what_it_needs_and_no_secret() {
    let manifest = tree::read("Cargo.toml").parse().unwrap();
    none(&wrong_context(&tree::read(IGNORED), &manifest), "A new member needs a line that begins with `!`.");
}

// Shows (Packaging).
#[test]
fn the_build_is_sent_what_sources_include() {
    let ignored = tree::read(IGNORED);
    let sources = tree::files().into_iter().filter(|file| file.path.ends_with(".rs"));
    let built = sources.filter(|file| !file.path.starts_with("tests/"));
    let findings: Vec<_> =
        built.flat_map(|file| wrong_includes(&ignored, &file.path, &file.text.unwrap_or_default())).collect();
    none(&findings, "A folder that sources include from needs a line that begins with `!`.");
}

// Shows (Packaging).
#[test]
fn the_ports_of_the_image_are_those_of_its_configuration() {
    let text = tree::read(IMAGE_CONFIG);
    none(&wrong_configuration(&text, &[]), IMAGE_CONFIG);
    let config = effective(&text, &[]).unwrap();
    let usual = effective("", &[]).unwrap();
    assert_eq!(
        (config.gateway.listen.port(), config.admin.listen.port()),
        (usual.gateway.listen.port(), usual.admin.listen.port())
    );
    assert!(config.gateway.listen.ip().is_unspecified() && config.admin.listen.ip().is_unspecified());
    let stages = stages(&tree::read(IMAGE));
    let exposed =
        |name| last(&steps(&stages, name), "EXPOSE").split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert!(exposed("server").contains(&config.gateway.listen.port().to_string()));
    assert!(exposed("admin").contains(&config.admin.listen.port().to_string()));
    // Ports that the image does not enable itself are exposed as the example has them.
    let shown = tree::read("docs/rpcgate.example.toml");
    for port in exposed("server").iter().chain(&exposed("admin")) {
        assert!(shown.contains(&format!(":{port}\"")), "{port} is in no address of the example");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Packaging): No container or service runs as root, and none is killed while it drains.
    #[test]
    fn a_fault_of_an_image_is_found() {
        let text = tree::read(IMAGE);
        for (good, bad) in [
            ("USER 10001:10001", "USER root"),
            ("USER 10001:10001", "USER 0:0"),
            ("RPCGATE_CONFIG=/etc/rpcgate/rpcgate.toml", "RPCGATE_CONFIG=/etc/rpcgate.toml"),
            ("VOLUME [\"/var/lib/rpcgate\"]", "VOLUME [\"/data\"]"),
            ("CMD [\"rpcgate-server\", \"health\"]", "CMD [\"curl\", \"http://127.0.0.1:8080/healthz\"]"),
            ("CMD [\"rpcgate-server\", \"health\"]", "CMD [\"rpcgate-admin\", \"health\"]"),
            ("CMD [\"rpcgate-server\", \"health\"]", "CMD [\"rpcgate-server\", \"health\", \"--now\"]"),
            ("--timeout=5s", "--timeout=3s"),
            ("CMD [\"run\"]", "CMD [\"serve\"]"),
        ] {
            assert!(text.contains(good), "{good}");
            let stages = stages(&text.replace(good, bad));
            let findings = [wrong_image(&stages, "server"), wrong_image(&stages, "admin")].concat();
            assert!(!findings.is_empty(), "{bad}");
        }
    }

    #[test]
    fn a_base_or_a_copy_that_is_wrong_is_found() {
        let found = |text: &str| wrong_stages(&stages(text), "1.95.0", "*\n!docs\n").len();
        assert_eq!(found("FROM a/rust:1.95.0-slim AS b\nFROM b AS c\nCOPY --from=b /x /y\nCOPY docs/ /z"), 0);
        assert_eq!(found("FROM a/rust:1.94.0-slim AS b"), 1);
        assert_eq!(found("FROM a/debian:latest AS b\nFROM b"), 1);
        assert_eq!(found("FROM a/debian:12.1\nCOPY docs/none.md /a\nCOPY README.md \\\n  /a"), 2);
    }

    #[test]
    fn a_member_that_is_not_sent_is_found() {
        let workspace: Table = "workspace.members = [\"a\", \"b/c\"]".parse().unwrap();
        let all = "# x\n*\n!Cargo.toml\n!Cargo.lock\n!rust-toolchain.toml\n!a\n!b\n";
        assert_eq!(wrong_context(all, &workspace), [""; 0]);
        assert_eq!(wrong_context(&all.replace("!b\n", ""), &workspace).len(), 1);
        assert_eq!(wrong_context(&all.replace("*\n", "target\n"), &workspace).len(), 1);
        assert_eq!(wrong_context(&format!("{all}!.env\n"), &workspace).len(), 1);
    }
    #[test]
    fn a_file_that_is_included_and_not_sent_is_found() {
        let found = |text: &str| wrong_includes("*\n!a\n!docs\n", "a/src/page/of.rs", text);
        assert_eq!(found("x = include_str!(\"../../../docs/b.md\"); y = include_bytes!(\"c.png\")"), [""; 0]);
        assert_eq!(
            found("x = include_str!(\"../../../other/b.md\");"),
            ["a/src/page/of.rs: other/b.md is not sent"]
        );
        assert_eq!(found("include_bytes!(\"../../../b.png\") include_str!(\"c\")").len(), 1);
    }
}
