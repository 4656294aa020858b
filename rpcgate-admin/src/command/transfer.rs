//! `rpcgate-admin transfer`: moves all data from one database to another.

use super::store_failure;
use crate::cli::transfer::TransferArgs;
use rpcgate_config::secret_of;
use rpcgate_core::clock::Time;
use rpcgate_process::Failure;
use rpcgate_store::{MovedTable, StoreError, TransferError, transfer};
use std::io::Write;

fn failure(error: TransferError) -> Failure {
    let text = error.to_string();
    match error {
        TransferError::InUse(_) | TransferError::NotEmpty(_) => Failure::Refused(text),
        TransferError::Same => Failure::Configuration(text),
        TransferError::Store(StoreError::Unavailable(_)) => Failure::Unavailable(text),
        TransferError::Store(error) => store_failure(error),
        _ => Failure::Other(text),
    }
}

/// Moves all data as `args` say, reports progress on `messages`, and writes the tables with their counts and checksums
/// to `out`.
///
/// # Errors
/// [`Failure::Configuration`] for an unusable argument, [`Failure::Refused`] for a source that is in use and a target
/// that is not empty.
pub async fn execute(
    args: &TransferArgs,
    now: Time,
    out: &mut dyn Write,
    messages: &mut dyn Write,
) -> Result<(), Failure> {
    let from = url("--from", &args.from)?;
    let to = url("--to", &args.to)?;
    let messages = std::cell::RefCell::new(messages);
    let began = |table: &str| {
        // Progress that cannot be shown is no reason to stop.
        let _ = writeln!(messages.borrow_mut(), "moving {table}");
    };
    let moved = transfer(&from, &to, args.force, now, began).await.map_err(failure)?;
    for table in &moved {
        if args.json {
            let line =
                serde_json::json!({ "table": table.name, "rows": table.rows, "checksum": table.checksum });
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "{:<26} {:>12}  {}", table.name, table.rows, table.checksum)?;
        }
    }
    if !args.json {
        writeln!(out, "{}", total(&moved))?;
    }
    Ok(out.flush()?)
}

fn total(moved: &[MovedTable]) -> String {
    let rows: u64 = moved.iter().map(|table| table.rows).sum();
    format!("{rows} rows of {} tables were moved; both sides have these counts and checksums.", moved.len())
}

/// Returns the URL that an argument contains or refers to. An argument must not contain a password, because every user
/// of the machine can see it.
fn url(argument: &str, given: &str) -> Result<String, Failure> {
    let wrong = |why: &str| Failure::Configuration(format!("{argument}: {why}"));
    if let Some(name) = given.strip_prefix("env:") {
        let value = std::env::var_os(name).and_then(|value| value.into_string().ok());
        return value.ok_or_else(|| wrong(&format!("the variable {name} is not set")));
    }
    if let Some(file) = given.strip_prefix("file:") {
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|error| wrong(&format!("{file} cannot be read: {error}")))?;
        return Ok(secret_of(&text).to_owned());
    }
    let authority = given.split("//").nth(1).unwrap_or_default().split('/').next().unwrap_or_default();
    let login = authority.rsplit_once('@').map_or("", |(login, _)| login);
    let in_query = given.split('?').nth(1).is_some_and(|query| query.contains("password="));
    if login.contains(':') || in_query {
        return Err(wrong(
            "a password in an argument can be seen by every user of this machine: write the URL into a variable or a file, \
             and give env:NAME or file:PATH",
        ));
    }
    Ok(given.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::NOON;
    use rpcgate_store::{Store, UsageStore, url_of};

    fn args(from: &str, to: &str) -> TransferArgs {
        TransferArgs { from: from.into(), to: to.into(), force: false, json: false }
    }

    async fn run(args: &TransferArgs) -> Result<(String, String), (u8, String)> {
        let mut out = Vec::new();
        let mut messages = Vec::new();
        let done = execute(args, NOON, &mut out, &mut messages).await;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        done.map(|()| (text(out), text(messages))).map_err(|failure| (failure.code(), failure.to_string()))
    }

    #[tokio::test]
    async fn the_tables_are_listed_with_their_counts_and_checksums() {
        let dir = tempfile::tempdir().unwrap();
        let url = |name: &str| url_of(&dir.path().join(name));
        Store::open(&url("a.db"), true).await.unwrap().close().await;
        UsageStore::open(&url("a.db"), true).await.unwrap().close().await;
        let named = dir.path().join("from.txt");
        std::fs::write(&named, format!("{}\n", url("a.db"))).unwrap();
        let (out, messages) = run(&args(&format!("file:{}", named.display()), &url("b.db"))).await.unwrap();
        assert!(out.contains("tenants ") && out.contains("ledger "), "{out}");
        let line = out.lines().find(|line| line.starts_with("summed ")).unwrap();
        assert_eq!(line.split_whitespace().nth(1), Some("1"), "{line}");
        assert!(out.ends_with("these counts and checksums.\n"), "{out}");
        assert!(messages.starts_with("moving ") && messages.contains("moving users\n"), "{messages}");
        let json = TransferArgs { json: true, ..args(&url("b.db"), &url("c.db")) };
        let (out, _) = run(&json).await.unwrap();
        for line in out.lines() {
            let table: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(table["rows"].is_u64() && table["checksum"].as_str().unwrap().len() == 32, "{line}");
        }
    }

    #[tokio::test]
    async fn data_that_cannot_be_moved_is_refused_with_its_exit_code() {
        let dir = tempfile::tempdir().unwrap();
        let url = |name: &str| url_of(&dir.path().join(name));
        let (code, text) = run(&args("postgres://u:hunter2@h/db", &url("a.db"))).await.unwrap_err();
        assert!(code == 2 && text.starts_with("--from: a password") && !text.contains("hunter2"), "{text}");
        let (code, text) = run(&args("env:NOT_SET_ANYWHERE", &url("a.db"))).await.unwrap_err();
        assert!(code == 2 && text.ends_with("the variable NOT_SET_ANYWHERE is not set"), "{text}");
        let (code, text) = run(&args(&url("a.db"), &url("b.db"))).await.unwrap_err();
        assert!(code == 1 && text.contains("not up to date"), "{text}");
        Store::open(&url("a.db"), true).await.unwrap().close().await;
        UsageStore::open(&url("a.db"), true).await.unwrap().close().await;
        let (code, text) = run(&args(&url("a.db"), &url("a.db"))).await.unwrap_err();
        assert!(code == 2 && text.contains("the same database"), "{text}");
    }
}
