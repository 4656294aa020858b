//! The Debian package and the archive: `.ci/package` and `examples/deploy/debian`.

use clap::{Command, CommandFactory, Parser};
use rpcgate_admin::cli::AdminCli;
use rpcgate_process::CompletionArgs;
use rpcgate_process::command_docs::{write_completions, write_manual};
use rpcgate_server::cli::ServerCli;

use super::{CONFIG, STATE, units, wrong_command, wrong_configuration};
use crate::{none, tree};

const PACKAGE: &str = ".ci/package";
const FOLDER: &str = "examples/deploy/debian/";
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// A command line that takes only a shell, like `completions`.
#[derive(Debug, Parser)]
struct Completed {
    #[command(flatten)]
    args: CompletionArgs,
}

/// Returns lines that remove files without a request, or more than the package's own.
fn careless(name: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let mut purges = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("if ") {
            purges = line == "if [ \"$1\" = purge ]; then";
        } else if line == "fi" {
            purges = false;
        }
        let removes =
            ["rm ", "rmdir ", "find ", "userdel ", "deluser "].iter().any(|word| line.starts_with(word));
        let folder = CONFIG.strip_suffix("/rpcgate.toml").unwrap_or_default();
        if removes && (name != "postrm" || !purges || line != format!("rm -rf {STATE} {folder}")) {
            findings.push(format!("{FOLDER}{name}:{}: {line}", at + 1));
        }
    }
    if !text.starts_with("#!/bin/sh\nset -e\n") {
        findings.push(format!("{FOLDER}{name}: goes on after an error"));
    }
    findings
}

/// Returns units and accounts in a script that are not those of the package.
fn foreign(name: &str, text: &str) -> Vec<String> {
    let known =
        |word: &str| units::UNITS.iter().any(|unit| word == *unit || word == format!("{unit}.service"));
    let words = text.split(|mark: char| mark.is_whitespace() || "\"';:".contains(mark));
    let named = words.filter(|word| word.starts_with("rpcgate-") || word.ends_with(".service"));
    named
        .filter(|word| !known(word) && *word != "$unit.service")
        .map(|word| format!("{FOLDER}{name}: {word} is no unit of ours"))
        .collect()
}

/// Returns the words after one of our programs in the packaging script, with a folder for its variables.
fn commands(text: &str) -> Vec<String> {
    let calls = text.split("\"$bin/$program\" ").skip(1).filter_map(|rest| rest.lines().next());
    let words = calls.map(|call| call.split(['>', ')', ']']).next().unwrap_or_default());
    words.map(|call| call.trim().trim_end_matches('"').replace("\"$at", "/usr").replace('"', "")).collect()
}

/// Adds the names of the manual pages of a command and its subcommands.
fn pages(command: &Command, above: &str, found: &mut Vec<String>) {
    let name = format!("{above}{}", command.get_name());
    for below in command.get_subcommands() {
        pages(below, &format!("{name}-"), found);
    }
    found.push(format!("{name}.1"));
}

// Shows (Commands and configuration).
#[test]
fn every_command_of_the_programs_has_a_manual_page_and_completions() {
    for command in [ServerCli::command(), AdminCli::command()] {
        let mut expected = Vec::new();
        pages(&command, "", &mut expected);
        let dir = tempfile::tempdir().unwrap();
        write_manual(command.clone(), dir.path()).unwrap();
        let files = std::fs::read_dir(dir.path()).unwrap();
        let mut written: Vec<_> =
            files.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        written.sort();
        expected.sort();
        assert_eq!(written, expected);
        for shell in ["bash", "zsh", "fish"] {
            let shell = Completed::try_parse_from(["x", shell]).unwrap().args.shell;
            let mut out = Vec::new();
            write_completions(command.clone(), shell, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            let missing: Vec<_> =
                command.get_subcommands().filter(|below| !text.contains(below.get_name())).collect();
            assert!(missing.is_empty(), "{shell}: {missing:?}");
        }
    }
}

// Shows (Packaging): Removing the Debian package leaves all data; only a purge deletes it.
#[test]
fn maintainer_scripts_remove_data_only_when_purged() {
    let of = |name: &&str| {
        let text = tree::read(&format!("{FOLDER}{name}"));
        [careless(name, &text), foreign(name, &text)].concat()
    };
    none(
        &SCRIPTS.iter().flat_map(of).collect::<Vec<_>>(),
        "Databases, the journal and secrets outlive a removal.",
    );
}

#[test]
fn the_package_creates_the_account_that_the_units_run_under() {
    let script = tree::read(&format!("{FOLDER}postinst"));
    for unit in units::UNITS {
        let user = units::user(&tree::read(&units::path(unit))).to_owned();
        assert!(script.contains(&format!("--home {STATE} --no-create-home {user}\n")), "{unit}: {user}");
        assert!(script.contains(&format!("-o {user} -g {user} -m 0700 {STATE}\n")), "{unit}: {user}");
    }
    assert!(script.contains(&format!("chown root:rpcgate {CONFIG}\n")));
}

// Shows (Packaging): Packaged configurations are accepted as shipped and as their comments propose.
#[test]
fn the_packaged_configuration_is_accepted_with_what_its_comments_propose() {
    none(
        &wrong_configuration(&tree::read(&format!("{FOLDER}rpcgate.toml")), &[]),
        "It is installed as it stands.",
    );
}

// Shows (Packaging).
#[test]
fn the_packages_have_what_the_programs_write_and_the_repository_has() {
    let text = tree::read(PACKAGE);
    let called = commands(&text);
    for needed in
        ["--version", "completions bash", "completions zsh", "completions fish", "man /usr/share/man/man1"]
    {
        assert!(called.iter().any(|call| call == needed), "{needed}: {called:?}");
    }
    for call in called.iter().filter(|call| *call != "--version") {
        for program in units::UNITS {
            let words: Vec<_> = std::iter::once(program).chain(call.split(' ')).collect();
            assert_eq!(wrong_command(&words), None);
        }
    }
    assert!(text.contains("deploy=examples/deploy\n"));
    let named = text.split("$deploy/").skip(1).chain(text.split("$deploy\"/").skip(1));
    for rest in named {
        let path = rest.split(['"', ' ', '{', '$']).next().unwrap_or_default();
        assert!(tree::root().join("examples/deploy").join(path).exists(), "{path}");
    }
    for name in SCRIPTS.iter().chain(&["control", "copyright", "rpcgate.toml"]) {
        assert!(tree::root().join(FOLDER).join(name).is_file() && text.contains(name), "{name}");
    }
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        assert!(text.contains(licence), "{licence}");
    }
    assert!(tree::read(".ci/dist").contains("bash .ci/package \"$out\" \"$out\""));
    assert!(text.contains(&format!("echo {CONFIG} >\"$root/DEBIAN/conffiles\"")), "an update keeps the file");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_removes_too_much_is_found() {
        let found = |name, body: &str| careless(name, &format!("#!/bin/sh\nset -e\n{body}\n")).len();
        let purge = "if [ \"$1\" = purge ]; then\n    rm -rf /var/lib/rpcgate /etc/rpcgate\nfi";
        assert_eq!(found("postrm", purge), 0);
        assert_eq!(found("prerm", purge), 1);
        assert_eq!(found("postrm", &purge.replace("purge ]", "remove ]")), 1);
        assert_eq!(found("postrm", &purge.replace("/etc/rpcgate", "/etc")), 1);
        assert_eq!(found("postrm", &format!("{purge}\nuserdel rpcgate")), 1);
        assert_eq!(careless("postrm", "#!/bin/sh\n").len(), 1);
    }

    #[test]
    fn a_unit_that_is_not_ours_is_found() {
        let known = "systemctl stop rpcgate-server.service rpcgate-admin; systemctl start \"$unit.service\"";
        assert_eq!(foreign("prerm", known).len(), 0);
        assert_eq!(foreign("prerm", "systemctl stop rpcgate-gateway postgresql.service").len(), 2);
    }
}
