//! Shell completions and manual pages for packages, made from the definition of the command line.

use super::Failure;
use clap::{Args, Command};
use clap_complete::Shell;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The arguments of `completions`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct CompletionArgs {
    /// The shell
    pub shell: Shell,
}

/// The arguments of `man`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct ManualArgs {
    /// The folder, which is created if it does not exist
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// Writes the completions of `command` for `shell` to `out`.
///
/// # Errors
/// That of `out`.
pub fn write_completions(mut command: Command, shell: Shell, out: &mut dyn Write) -> Result<(), Failure> {
    let name = command.get_name().to_owned();
    // The library panics if it cannot write, so it writes into memory.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    out.write_all(&text)?;
    Ok(out.flush()?)
}

/// Writes a manual page for `command` and for each of its subcommands into the folder `dir`: `rpcgate-admin.1`,
/// `rpcgate-admin-key.1`, `rpcgate-admin-key-create.1` and so on.
///
/// # Errors
/// [`Failure::Other`] with the folder, if the pages cannot be written.
pub fn write_manual(command: Command, dir: &Path) -> Result<(), Failure> {
    fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(command, dir))
        .map_err(|error| Failure::Other(format!("{}: {error}", dir.display())))
}

#[cfg(test)]
mod tests {
    use super::super::ConfigFile;
    use super::*;
    use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

    /// Serve something.
    #[derive(Debug, Parser)]
    #[command(name = "some-server", version = "1.2.3")]
    struct SomeCommand {
        #[command(subcommand)]
        command: Commands,
    }

    #[derive(Debug, Subcommand)]
    enum Commands {
        /// Serve until stopped
        Run(ConfigFile),
        #[command(hide = true)]
        Hidden,
    }

    // Shows (Commands and configuration): Completions and manual pages come from the definitions of the command lines.
    #[test]
    fn every_shell_completes_commands_and_options() {
        for shell in Shell::value_variants() {
            let mut out = Vec::new();
            write_completions(SomeCommand::command(), *shell, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            for word in ["some-server", "run", "config"] {
                assert!(text.contains(word), "{shell}: {word}: {text}");
            }
        }
    }

    #[test]
    fn output_that_is_refused_is_an_error() {
        let mut small = [0_u8; 10];
        let failure =
            write_completions(SomeCommand::command(), Shell::Bash, &mut &mut small[..]).unwrap_err();
        assert_eq!(failure.code(), 1);
    }

    // Shows (Commands and configuration).
    #[test]
    fn every_command_that_is_not_hidden_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("share/man1");
        write_manual(SomeCommand::command(), &below).unwrap();
        let mut names: Vec<_> = fs::read_dir(&below)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["some-server-run.1", "some-server.1"]);
        let page = fs::read_to_string(below.join("some-server-run.1")).unwrap();
        assert!(page.contains("RPCGATE_CONFIG") && page.contains("Serve until stopped"), "{page}");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let taken = dir.path().join("taken");
        fs::write(&taken, "").unwrap();
        let failure = write_manual(SomeCommand::command(), &taken.join("man1")).unwrap_err();
        assert!(failure.code() == 1 && failure.to_string().contains("taken"), "{failure}");
    }
}
