//! Checks the free space and the write access of folders that grow.

use super::examination::Examination;
use super::finding::{CheckGroup, Finding};
use rpcgate_store::files_of;
use std::path::{Path, PathBuf};

const CHECK: CheckGroup = CheckGroup::Disk;

/// The free space below which the databases and the journal may be full within minutes.
const LITTLE: u64 = 256 << 20;

/// The free space below which an operator should act.
const SOME: u64 = 2 << 30;

pub(super) fn check(examination: &Examination) -> Vec<Finding> {
    let config = &examination.config;
    let mut folders = vec![("journal.dir", config.journal.dir.clone())];
    if let Ok(Some([file, _])) = files_of(config.database.url()) {
        folders.push(("database.url", file.parent().map(PathBuf::from).unwrap_or_default()));
    }
    if config.admin.mail.smtp.is_none() {
        folders.push(("admin.mail.outbox", config.admin.mail.outbox.clone()));
    }
    folders.iter().filter_map(|(key, folder)| free_space(key, folder)).collect()
}

/// Checks a folder, or its nearest existing ancestor, because programs create the others.
fn free_space(key: &str, folder: &Path) -> Option<Finding> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let absolute = std::path::absolute(folder).ok()?;
    let ancestor = absolute.ancestors().find(|ancestor| ancestor.exists())?;
    let subject = format!("{key} {}", folder.display());
    if !may_write(ancestor) {
        let text = format!("this account may not write to {}", ancestor.display());
        let advice = "run this as the account of the service, or give the folder to that account (chown)";
        return Some(Finding::failure(CHECK, subject, text, advice));
    }
    let free = free(ancestor)?;
    let text = format!("{} MiB are free", free >> 20);
    let advice = "free space, or move the folder to a larger disk; a full disk loses no usage, but \
                  nothing is stored then";
    Some(match free {
        0..LITTLE => Finding::failure(CHECK, subject, text, advice),
        LITTLE..SOME => Finding::warning(CHECK, subject, text, advice),
        SOME.. => Finding::ok(CHECK, subject, text),
    })
}

#[cfg(target_os = "linux")]
fn may_write(place: &Path) -> bool {
    rustix::fs::access(place, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn may_write(_: &Path) -> bool {
    true
}

/// Returns the bytes that this account may still write there.
#[cfg(target_os = "linux")]
fn free(place: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(place).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(target_os = "linux"))]
fn free(_: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::super::examination::tests::examination;
    use super::*;

    #[test]
    fn each_folder_that_grows_has_a_line_and_nothing_is_created() {
        let dir = tempfile::tempdir().unwrap();
        let journal = dir.path().join("a/journal");
        let outbox = dir.path().join("outbox");
        let text = format!(
            "[journal]\ndir = {journal:?}\n[database]\nurl = \"postgres://h/db\"\n[admin.mail]\noutbox = {outbox:?}\n"
        );
        let findings = check(&examination(&text));
        let subjects: Vec<_> =
            findings.iter().map(|finding| finding.subject.split(' ').next().unwrap()).collect();
        assert_eq!(subjects, ["journal.dir", "admin.mail.outbox"]);
        assert!(findings.iter().all(|finding| finding.text.ends_with("MiB are free")), "{findings:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let findings = check(&examination("[admin.mail]\nsmtp = \"smtp://localhost\"\n"));
        let subjects: Vec<_> = findings.iter().map(|finding| finding.subject.as_str()).collect();
        assert_eq!(subjects, ["journal.dir journal", "database.url ."]);
    }

    #[test]
    fn a_folder_that_cannot_be_written_to_is_a_failure() {
        // No account may write there, not even root.
        let found = free_space("journal.dir", Path::new("/proc/1/task")).unwrap();
        assert!(found.text.contains("may not write to") || found.text.starts_with("0 MiB"), "{found}");
        assert_eq!(found.verdict, super::super::finding::Verdict::Failure);
    }
}
