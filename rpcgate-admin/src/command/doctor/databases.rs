//! Checks the databases: their availability, schema, writes and clock.

use super::clocks;
use super::examination::Examination;
use super::finding::{CheckGroup, Finding};
use rpcgate_store::{NEWER, Store, StoreError, UsageStore, files_of};
use std::path::Path;

const CHECK: CheckGroup = CheckGroup::Databases;

/// Returns the findings, and the management database if it can be used.
pub(super) async fn check(examination: &Examination) -> (Vec<Finding>, Option<Store>) {
    let database = &examination.config.database;
    let shown = database.masked_url();
    if let Ok(Some(files)) = files_of(database.url())
        && let Some(missing) = files.iter().find(|file| !file.exists())
    {
        return (vec![absent(missing, database.migrate)], None);
    }
    let mut findings = Vec::new();
    let store = match Store::open(database.url(), false).await {
        Ok(store) => store,
        Err(error) => return (vec![unusable(&shown, &error, database.migrate)], None),
    };
    let before = examination.clock.now();
    match store.condition().await {
        Ok(condition) => {
            let after = examination.clock.now();
            let subject = format!("{shown} (management)");
            let text = format!("{} answers, its schema is up to date", condition.software);
            findings.push(Finding::ok(CHECK, subject, text));
            let clock = condition.now.map(|theirs| clocks::compare("the database", theirs, before, after));
            findings.extend(clock);
        }
        Err(error) => findings.push(unusable(&shown, &error, database.migrate)),
    }
    findings.push(written(&format!("{shown} (management)"), store.try_write().await));
    match UsageStore::open(database.url(), false).await {
        Ok(usage) => {
            let subject = format!("{shown} (usage)");
            findings.push(Finding::ok(CHECK, &*subject, "its schema is up to date"));
            findings.push(written(&subject, usage.try_write().await));
            usage.close().await;
        }
        Err(error) => findings.push(unusable(&shown, &error, database.migrate)),
    }
    (findings, Some(store))
}

/// Checks a file that does not exist. The first start creates it, if its folder exists.
fn absent(file: &Path, migrate: bool) -> Finding {
    let subject = file.display().to_string();
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let text = format!("the folder {} does not exist", folder.display());
        return Finding::failure(CHECK, subject, text, "create it for the account of the service");
    }
    if migrate {
        let advice =
            "nothing before a first start, which creates it; otherwise restore it, or correct database.url";
        return Finding::warning(CHECK, subject, "does not exist", advice);
    }
    let advice = "run rpcgate-admin migrate, since database.migrate = false; or correct database.url";
    Finding::failure(CHECK, subject, "does not exist", advice)
}

fn unusable(shown: &str, error: &StoreError, migrate: bool) -> Finding {
    let text = error.to_string();
    match error {
        StoreError::Outdated(_) if migrate => {
            let text = "its schema is older than this program";
            Finding::warning(CHECK, shown, text, "the next start of a program of this version updates it")
        }
        StoreError::Outdated(_) => {
            let text = "its schema is older than this program";
            Finding::failure(CHECK, shown, text, "run rpcgate-admin migrate before a start")
        }
        StoreError::Unavailable(_) => {
            let advice =
                "start the database server, or correct database.url or the network path (firewall, DNS)";
            Finding::failure(CHECK, shown, text, advice)
        }
        _ if text.ends_with(NEWER) => {
            let advice = "start that version again, or restore the backup from before the update";
            Finding::failure(CHECK, shown, text, advice)
        }
        _ => Finding::failure(CHECK, shown, text, "correct database.url, or the rights of its user"),
    }
}

fn written(subject: &str, tried: Result<(), StoreError>) -> Finding {
    match tried {
        Ok(()) => Finding::ok(CHECK, subject, "takes writes"),
        Err(error @ StoreError::Unavailable(_)) => {
            let advice = "free space on its disk, and let the account of the service write the file and its folder; if \
                          another program was writing for a long time, try again";
            Finding::failure(CHECK, subject, format!("takes no writes: {error}"), advice)
        }
        Err(error) => {
            let advice = "let database.url name the primary server, and a user that may change the tables";
            Finding::failure(CHECK, subject, format!("takes no writes: {error}"), advice)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::examination::tests::{examination, only};
    use super::super::finding::Verdict;
    use super::*;
    use rpcgate_store::url_of;

    fn configured(url: &str, more: &str) -> Examination {
        examination(&format!("[database]\nurl = \"{url}\"\n{more}"))
    }

    #[tokio::test]
    async fn a_database_in_order_is_written_to_without_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let url = url_of(&dir.path().join("rpcgate.db"));
        Store::open(&url, true).await.unwrap().close().await;
        UsageStore::open(&url, true).await.unwrap().close().await;
        let bytes = std::fs::read(dir.path().join("rpcgate.db")).unwrap();
        let (findings, store) = check(&configured(&url, "")).await;
        assert!(findings.iter().all(|finding| finding.verdict == Verdict::Ok), "{findings:?}");
        assert_eq!(findings.len(), 4, "{findings:?}");
        store.unwrap().close().await;
        assert_eq!(std::fs::read(dir.path().join("rpcgate.db")).unwrap(), bytes);
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn a_database_that_is_not_there_yet_is_not_created() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rpcgate.db");
        for (migrate, verdict) in [("true", Verdict::Warning), ("false", Verdict::Failure)] {
            let examination = configured(&url_of(&file), &format!("migrate = {migrate}\n"));
            let (findings, store) = check(&examination).await;
            assert_eq!((only(&findings).verdict, store.is_none()), (verdict, true), "{findings:?}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let (findings, _) = check(&configured(&url_of(&dir.path().join("gone/rpcgate.db")), "")).await;
        assert!(only(&findings).text.contains("gone does not exist"), "{findings:?}");
    }

    #[test]
    fn an_operator_with_an_older_program_gets_advice() {
        let newer = StoreError::File { file: "rpcgate.db".into(), why: NEWER.into() };
        let advice = unusable("sqlite://rpcgate.db", &newer, true).advice.unwrap();
        assert!(advice.contains("restore the backup"), "{advice}");
        let denied = StoreError::File { file: "rpcgate.db".into(), why: "permission denied".into() };
        let advice = unusable("sqlite://rpcgate.db", &denied, true).advice.unwrap();
        assert!(advice.contains("rights of its user"), "{advice}");
    }

    #[tokio::test]
    async fn an_old_schema_and_an_unreachable_server_are_distinguished() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rpcgate.db");
        for name in ["rpcgate.db", "rpcgate-usage.db"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let (findings, _) = check(&configured(&url_of(&file), "migrate = false\n")).await;
        let found = only(&findings);
        assert!(
            found.verdict == Verdict::Failure && found.advice.as_ref().unwrap().contains("migrate"),
            "{found}"
        );
        let (findings, _) = check(&configured("postgres://u:hunter2@127.0.0.1:1/db", "")).await;
        let found = only(&findings);
        assert!(found.verdict == Verdict::Failure && !found.to_string().contains("hunter2"), "{found}");
        assert!(found.advice.as_ref().unwrap().contains("start the database server"), "{found}");
    }
}
