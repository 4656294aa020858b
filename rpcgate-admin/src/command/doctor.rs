//! `rpcgate-admin doctor`: checks everything that the service depends on, and advises on problems.
//!
//! It changes nothing: the databases are opened without schema updates, no mail is sent, and nodes only get the
//! requests of probes. All groups of checks run concurrently, each with a timeout.

mod certificates;
mod clocks;
mod counters;
mod databases;
mod disk;
mod examination;
mod files;
mod finding;
mod gateways;
mod limits;
mod mail;
mod node_look;
mod nodes;
mod traces;
mod urls;

use super::printer::Printer;
use crate::cli::doctor::DoctorArgs;
use examination::Examination;
use finding::{CheckGroup, Finding, Verdict};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rpcgate_config::{LogFormat, Telemetry};
use rpcgate_core::clock::SystemClock;
use rpcgate_process::{Failure, load_noting, log};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

const FAILED: u8 = 6;

/// The timeout of a group of checks.
const EACH: Duration = Duration::from_secs(12);

/// The timeout of all groups together.
const TOTAL: Duration = Duration::from_secs(30);

pub(super) fn execute(args: &DoctorArgs) -> ExitCode {
    let runtime = match rpcgate_process::runtime("rpcgate-admin") {
        Ok(runtime) => runtime,
        Err(error) => return rpcgate_process::exit(Err(error.into())),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let done = runtime.block_on(run(&args.options.file.config, args.options.json, &mut out));
    // A file or a name that takes longer than its check is abandoned.
    runtime.shutdown_background();
    match done.and_then(|code| out.flush().map(|()| code)) {
        Ok(code) => ExitCode::from(code),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => rpcgate_process::exit(Err(error.into())),
    }
}

async fn run(file: &Path, json: bool, out: &mut dyn Write) -> io::Result<u8> {
    let telemetry =
        Telemetry { log_filter: "off".into(), log_format: LogFormat::Text, ..Telemetry::default() };
    if let Err(failure) = log::install(&telemetry) {
        return print(&[unreadable(&failure.to_string())], json, out).map(|_| failure.code());
    }
    let (config, files) = load_noting(file);
    let config = match config {
        Ok(config) => config,
        Err(error) => {
            let failure = Failure::from(error);
            let findings: Vec<_> = failure.to_string().lines().map(unreadable).collect();
            return print(&findings, json, out).map(|_| failure.code());
        }
    };
    let read =
        Finding::ok(CheckGroup::Configuration, file.display().to_string(), "can be read and has no errors");
    let clock = Arc::new(SystemClock::new());
    let examination = Examination { config: Arc::new(config), files: files.into(), clock };
    let mut findings = vec![read];
    findings.extend(all(groups(&examination)).await);
    let worst = print(&findings, json, out)?;
    Ok(if worst == Verdict::Failure { FAILED } else { 0 })
}

fn unreadable(line: &str) -> Finding {
    Finding::failure(
        CheckGroup::Configuration,
        "configuration",
        line,
        "correct this line: rpcgate-admin check shows the result",
    )
}

type RunningGroup = (CheckGroup, BoxFuture<'static, Vec<Finding>>);

fn groups(examination: &Examination) -> Vec<RunningGroup> {
    let blocking = |group, check: fn(&Examination) -> Vec<Finding>| -> RunningGroup {
        let examination = examination.clone();
        let work = tokio::task::spawn_blocking(move || check(&examination));
        let broken =
            move |_| vec![Finding::failure(group, "check", "ended by itself", "report this with its output")];
        (group, Box::pin(async move { work.await.unwrap_or_else(broken) }))
    };
    let of_databases = examination.clone();
    let of_counters = examination.clone();
    let of_nodes = examination.clone();
    let of_mail = examination.clone();
    let of_traces = examination.clone();
    vec![
        blocking(CheckGroup::Files, files::check),
        blocking(CheckGroup::Limits, limits::check),
        blocking(CheckGroup::Disk, disk::check),
        blocking(CheckGroup::Certificates, certificates::check),
        blocking(CheckGroup::Urls, urls::check),
        (CheckGroup::Databases, Box::pin(async move { stored(&of_databases).await })),
        (CheckGroup::Counters, Box::pin(async move { counters::check(&of_counters).await })),
        (CheckGroup::Nodes, Box::pin(async move { nodes::check(&of_nodes).await })),
        (CheckGroup::Mail, Box::pin(async move { mail::check(&of_mail).await })),
        (CheckGroup::Traces, Box::pin(async move { traces::check(&of_traces).await })),
    ]
}

/// Checks the databases, and then the objects in them.
async fn stored(examination: &Examination) -> Vec<Finding> {
    let (mut findings, store) = databases::check(examination).await;
    findings.extend(gateways::check(examination, store.as_ref()).await);
    if let Some(store) = store {
        store.close().await;
    }
    findings
}

/// Returns the findings of all groups in order. A group that exceeds its timeout is a failure, and so is the total
/// timeout. The findings of the other groups are kept.
async fn all(groups: Vec<RunningGroup>) -> Vec<Finding> {
    let found = Mutex::new(Vec::new());
    let run = groups.into_iter().map(|(group, work)| {
        let found = &found;
        async move {
            let findings = timeout(EACH, work).await.unwrap_or_else(|_| vec![late(group, EACH)]);
            found.lock().extend(findings);
        }
    });
    if timeout(TOTAL, futures_util::future::join_all(run)).await.is_err() {
        found.lock().push(late(CheckGroup::Configuration, TOTAL));
    }
    let mut findings = found.into_inner();
    findings.sort_by_key(|finding| finding.check);
    findings
}

fn late(group: CheckGroup, limit: Duration) -> Finding {
    let text = format!("no result within {limit:?}");
    let advice = "look for a server that does not answer: a name server, a network file system, or the \
                  checked server";
    Finding::failure(group, "check", text, advice)
}

/// Prints findings and a last line for users. Returns the worst verdict.
fn print(findings: &[Finding], json: bool, out: &mut dyn Write) -> io::Result<Verdict> {
    let mut printer = Printer::new(out, json);
    for finding in findings {
        if json {
            printer.json(finding)?;
        } else {
            printer.text(&finding.to_string())?;
        }
    }
    let number = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    if !json {
        let failures = number(Verdict::Failure);
        let warnings = number(Verdict::Warning);
        printer.text(&format!("failures: {failures}, warnings: {warnings}"))?;
    }
    Ok(findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Ok))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_store::{Store, UsageStore, url_of};
    use serde_json::Value;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    async fn place(more: &str) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        let url = url_of(&dir.path().join("rpcgate.db"));
        Store::open(&url, true).await.unwrap().close().await;
        UsageStore::open(&url, true).await.unwrap().close().await;
        let journal = dir.path().join("journal");
        let text = format!("[database]\nurl = \"{url}\"\n[journal]\ndir = {journal:?}\n{more}");
        let file = dir.path().join("rpcgate.toml");
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        dir
    }

    async fn ran(dir: &TempDir, json: bool) -> (u8, String) {
        let mut out = Vec::new();
        let code = run(&dir.path().join("rpcgate.toml"), json, &mut out).await.unwrap();
        (code, String::from_utf8(out).unwrap())
    }

    // Shows (Commands and configuration): Operators check what the service depends on and get advice; nothing is
    // changed.
    #[tokio::test]
    async fn warnings_end_with_0_and_failures_with_the_code_of_their_own() {
        let dir = place("").await;
        let (code, text) = ran(&dir, false).await;
        assert_eq!(code, 0, "{text}");
        assert!(text.lines().last().unwrap().starts_with("failures: 0, warnings: "), "{text}");
        assert!(text.contains("warning  nodes          chains: no chain has a node. To do: add"), "{text}");
        let dir = place("[chains.eth]\nnodes = [\"http://127.0.0.1:1\"]\n").await;
        let (code, text) = ran(&dir, false).await;
        assert!(code == FAILED && text.contains("failure  nodes"), "{text}");
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn every_group_has_a_line_and_programs_get_an_object_for_each() {
        let dir = place("").await;
        let (_, text) = ran(&dir, true).await;
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for group in [
            "configuration",
            "files",
            "limits",
            "disk",
            "certificates",
            "databases",
            "counters",
            "gateways",
            "nodes",
            "mail",
            "traces",
            "urls",
        ] {
            assert!(lines.iter().any(|line| line["check"] == group), "{group}: {text}");
        }
        for line in &lines {
            assert_eq!(line["advice"].is_null(), line["verdict"] == "ok", "{line}");
        }
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn nothing_is_changed_in_the_folder() {
        let dir = place("").await;
        let names = || {
            let entries = std::fs::read_dir(dir.path()).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let before = names();
        ran(&dir, false).await;
        assert_eq!(names(), before);
    }

    #[tokio::test]
    async fn a_configuration_with_mistakes_has_a_line_for_each_and_ends_with_2() {
        let dir = place("").await;
        std::fs::write(
            dir.path().join("rpcgate.toml"),
            "[gateway]\nlisen = 1\n[shutdown]\ngrace = \"soon\"\n",
        )
        .unwrap();
        let (code, text) = ran(&dir, false).await;
        assert_eq!((code, text.lines().count()), (2, 3), "{text}");
        assert!(text.contains("rpcgate.toml:2: unknown key gateway.lisen"), "{text}");
    }

    // Shows (Commands and configuration).
    #[tokio::test(start_paused = true)]
    async fn a_group_that_does_not_end_is_a_failure_and_the_others_are_kept() {
        let fine = Finding::ok(CheckGroup::Files, "a", "b");
        let findings = vec![fine.clone()];
        let groups: Vec<RunningGroup> = vec![
            (CheckGroup::Mail, Box::pin(std::future::pending())),
            (CheckGroup::Files, Box::pin(std::future::ready(findings))),
        ];
        let findings = all(groups).await;
        assert_eq!(findings, [fine, late(CheckGroup::Mail, EACH)]);
        assert!(EACH < TOTAL);
    }
}
