//! `rpcgate-admin migrate`: updates the schema of the databases.

use super::{configuration, store_failure};
use rpcgate_process::Failure;
use rpcgate_store::{Store, UsageStore};
use std::io::Write;
use std::path::Path;

/// Updates the schema of the management and the usage database of the configuration in `file`, regardless of
/// `database.migrate`, and reports it on `out`.
///
/// # Errors
/// [`Failure::Configuration`] for an unusable configuration, [`Failure::Other`] for an unusable database.
pub async fn execute(file: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let database = configuration(file)?.database;
    Store::open(database.url(), true).await.map_err(store_failure)?.close().await;
    UsageStore::open(database.url(), true).await.map_err(store_failure)?.close().await;
    writeln!(out, "{}: the schema is up to date", database.masked_url())?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_store::url_of;
    use tempfile::TempDir;

    async fn migrate(dir: &TempDir, url: &str) -> Result<String, (u8, String)> {
        let file = dir.path().join("rpcgate.toml");
        std::fs::write(&file, format!("[database]\nurl = \"{url}\"\nmigrate = false\n")).unwrap();
        let mut out = Vec::new();
        match execute(&file, &mut out).await {
            Ok(()) => Ok(String::from_utf8(out).unwrap()),
            Err(failure) => Err((failure.code(), failure.to_string())),
        }
    }

    // Shows (Commands and configuration): The schema is updated at start-up or by `rpcgate-admin migrate`; an older or
    // a newer one is refused.
    #[tokio::test]
    async fn a_database_that_was_refused_as_outdated_is_opened_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let url = url_of(&dir.path().join("rpcgate.db"));
        assert!(Store::open(&url, false).await.is_err());
        assert!(UsageStore::open(&url, false).await.is_err());
        for _ in 0..2 {
            assert_eq!(migrate(&dir, &url).await, Ok(format!("{url}: the schema is up to date\n")));
        }
        Store::open(&url, false).await.unwrap();
        UsageStore::open(&url, false).await.unwrap();
    }

    #[tokio::test]
    async fn the_exit_code_distinguishes_a_wrong_configuration_from_an_unusable_database() {
        let dir = tempfile::tempdir().unwrap();
        let (code, text) =
            migrate(&dir, "postgres://u:secret@localhost/db?sslmode=secret").await.unwrap_err();
        assert!(code == 2 && text.contains("cannot be read") && !text.contains("secret"), "{text}");
        let (code, text) = migrate(&dir, &url_of(&dir.path().join("gone/rpcgate.db"))).await.unwrap_err();
        assert!(code == 1 && text.contains("does not exist"), "{text}");
    }
}
