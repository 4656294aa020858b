//! The environment of an operator's command: databases, terminal and user.

use super::command_error::CommandError;
use super::printer::Printer;
use super::{configuration, with_origin};
use crate::cli::options::{CommandOptions, Confirmation};
use rpcgate_config::{LogFormat, Telemetry};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::SystemClock;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::{AppState, AppStateError};
use rpcgate_process::{Failure, LocalAccount, log};
use rpcgate_store::StoreError;
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

/// The log filter. It shows the user warnings of actions, such as a mail that cannot be stored. Database warnings are
/// in the service's log.
const LOG_FILTER: &str = "error,rpcgate_management=warn";
/// The maximum size of an answer to a question in bytes.
const MAX_ANSWER: u64 = 1 << 10;

pub(super) struct Terminal<'t> {
    pub(super) input: &'t mut dyn BufRead,
    /// True if a user types the input.
    pub(super) is_terminal: bool,
    pub(super) messages: &'t mut dyn Write,
}

/// The environment of a command.
pub(super) struct Console<'c> {
    pub(super) app: Arc<AppState>,
    pub(super) printer: Printer<'c>,
    account: LocalAccount,
    terminal: Terminal<'c>,
}

impl<'c> Console<'c> {
    pub(super) fn new(app: Arc<AppState>, printer: Printer<'c>, terminal: Terminal<'c>) -> Self {
        Console { app, printer, account: LocalAccount::current(), terminal }
    }

    /// Returns the local user as an operator.
    pub(super) fn actor(&self) -> Actor {
        Actor::at_command_line(self.account.clone(), None, self.app.now())
    }

    /// Returns the local user for actions of the members of `tenant`.
    pub(super) fn actor_for(&self, tenant: TenantId) -> Actor {
        Actor::at_command_line(self.account.clone(), Some(tenant), self.app.now())
    }

    /// Asks for confirmation, unless `confirmation` already gives it. Fails without a terminal.
    pub(super) fn confirm(&mut self, confirmation: Confirmation, question: &str) -> Result<(), CommandError> {
        if confirmation.yes {
            return Ok(());
        }
        let Terminal { input, is_terminal, messages } = &mut self.terminal;
        if !*is_terminal {
            let text = "standard input is not a terminal, so this cannot be confirmed: add --yes";
            return Err(CommandError::usage(text));
        }
        write!(messages, "{question} [y/N] ")?;
        messages.flush()?;
        let mut answer = String::new();
        Read::take(input, MAX_ANSWER).read_line(&mut answer)?;
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::Other("nothing was changed".into()).into()),
        }
    }
}

/// Opens the databases and runs `command` on them. The schema is not updated, so that a command changes only what it is
/// for.
pub(super) fn run(
    options: &CommandOptions,
    command: impl AsyncFnOnce(&mut Console<'_>) -> Result<(), CommandError>,
) -> ExitCode {
    let done = carry_out(options, command);
    let Err(error) = done else { return ExitCode::SUCCESS };
    if error.is_broken_pipe() {
        return ExitCode::SUCCESS;
    }
    // If standard error is closed too, the error cannot be reported.
    let _ = error.report(options.json, &mut io::stderr().lock());
    ExitCode::from(error.exit_code())
}

fn carry_out(
    options: &CommandOptions,
    command: impl AsyncFnOnce(&mut Console<'_>) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    rpcgate_process::runtime("rpcgate-admin")?.block_on(async {
        let app = Arc::new(open(options).await?);
        let mut out = BufWriter::new(io::stdout().lock());
        let stdin = io::stdin();
        let is_terminal = stdin.is_terminal();
        let mut input = BufReader::new(stdin);
        let mut messages = io::stderr();
        let terminal = Terminal { input: &mut input, is_terminal, messages: &mut messages };
        let printer = Printer::new(&mut out, options.json);
        let mut console = Console::new(app.clone(), printer, terminal);
        let done = command(&mut console).await;
        let flushed = console.printer.flush();
        app.close().await;
        done?;
        Ok(flushed?)
    })
}

async fn open(options: &CommandOptions) -> Result<AppState, CommandError> {
    let file = &options.file.config;
    let mut config = configuration(file).map_err(Failure::from)?;
    let log_filter = LOG_FILTER.into();
    let log_format = LogFormat::Text;
    log::install(&Telemetry { log_filter, log_format, ..config.telemetry.clone() })?;
    config.database.migrate = false;
    let app = AppState::open(config, Arc::new(SystemClock::new())).await;
    app.map_err(|error| match error {
        AppStateError::Store(error @ StoreError::Unavailable(_)) => {
            Failure::Unavailable(error.to_string()).into()
        }
        error => with_origin(file, error).into(),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::manage;
    use super::*;
    use crate::cli::{AdminCli, AdminCommand};
    use crate::testing::Site;
    use clap::Parser;

    /// The output of a command, its exit code, and the error's text.
    #[derive(Debug)]
    pub(crate) struct Outcome {
        pub(crate) out: String,
        pub(crate) messages: String,
        pub(crate) code: u8,
    }

    impl Outcome {
        pub(crate) fn json(&self) -> Vec<serde_json::Value> {
            assert_eq!(self.code, 0, "{}", self.messages);
            self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        }
    }

    /// Runs `rpcgate-admin` with these arguments on the databases of `site`. The user types `typed`, if it is given.
    pub(crate) async fn run(site: &Site, typed: Option<&str>, line: &str) -> Outcome {
        let line = format!("rpcgate-admin {line} --config none.toml");
        let cli = AdminCli::try_parse_from(line.split_whitespace()).unwrap();
        let json = line.contains(" --json ");
        outcome(site, typed, json, async |console: &mut Console<'_>| match &cli.command {
            AdminCommand::Managed(command) => manage(console, command).await,
            other => panic!("{other:?}"),
        })
        .await
    }

    async fn outcome(
        site: &Site,
        typed: Option<&str>,
        json: bool,
        command: impl AsyncFnOnce(&mut Console<'_>) -> Result<(), CommandError>,
    ) -> Outcome {
        let mut out = Vec::new();
        let mut messages = Vec::new();
        let mut input = typed.unwrap_or_default().as_bytes();
        let is_terminal = typed.is_some();
        let terminal = Terminal { input: &mut input, is_terminal, messages: &mut messages };
        let mut console = Console::new(site.app.clone(), Printer::new(&mut out, json), terminal);
        let done = command(&mut console).await;
        drop(console);
        let mut code = 0;
        if let Err(error) = done {
            code = error.exit_code();
            error.report(json, &mut messages).unwrap();
        }
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Outcome { out: text(out), messages: text(messages), code }
    }

    // Shows (Commands and configuration): A destructive command asks at a terminal, and needs `--yes` elsewhere; an
    // ambiguous name is refused with the matching identifiers.
    #[tokio::test]
    async fn a_question_is_asked_only_at_a_terminal_and_only_yes_continues() {
        let site = Site::new().await;
        let ask = async |typed: Option<&'static str>, yes: bool| {
            let confirm = async |console: &mut Console<'_>| console.confirm(Confirmation { yes }, "Suspend?");
            let done = outcome(&site, typed, false, confirm).await;
            (done.code, done.messages)
        };
        for yes in ["y\n", "Yes\n", " y "] {
            assert_eq!(ask(Some(yes), false).await, (0, "Suspend? [y/N] ".into()), "{yes:?}");
        }
        for no in ["n\n", "\n", "", "yesterday\n"] {
            let refused = (1, "Suspend? [y/N] nothing was changed\n".to_owned());
            assert_eq!(ask(Some(no), false).await, refused, "{no:?}");
        }
        let (code, text) = ask(None, false).await;
        assert!(code == 2 && text.contains("add --yes"), "{text}");
        assert_eq!(ask(None, true).await, (0, String::new()));
    }
}
