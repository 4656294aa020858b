//! `acme.dir`: the files of programs that share a certificate. Each file is written whole, by a rename.

use rpcgate_core::clock::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The key and the certificate with its chain, in one file, so that they always match.
const CERTIFICATE: &str = "certificate.pem";
const ACCOUNT: &str = "account.json";
/// The directory URL of the authority that signed the certificate. It is not only in the state, because operators
/// remove the state to start an order at once.
const AUTHORITY: &str = "authority";
/// The authority that signed the certificate, and the failures since.
const STATE: &str = "state.json";
const ANSWERS: &str = "answers.json";
const LOCK: &str = "lock";
const UNFINISHED: &str = "the program ended while it ran";
/// The number of orders for other names that are kept.
const OTHERS: usize = 16;
/// The time that they are kept after their pause.
const RETENTION: Duration = Duration::from_secs(24 * 3_600);

/// The folder of an account and its certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcmeFolder(PathBuf);

/// The state of the certificate in the folder, and of the orders since.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OrderState {
    /// The directory URL of the authority that signed the certificate.
    pub signed_by: Option<String>,
    /// The last order.
    pub last: Option<LastOrder>,
    /// The last orders for other names or of other authorities, the latest first. Without them, programs with this
    /// folder and different settings would replace each other's certificate in turns without a pause.
    pub others: Vec<LastOrder>,
}

impl OrderState {
    /// Returns the last order for these names from the authority with this directory URL.
    pub fn order(&self, directory: &str, domains: &[String]) -> Option<&LastOrder> {
        self.last.iter().chain(&self.others).find(|order| order.is_for(directory, domains))
    }

    pub(super) fn with(&self, order: LastOrder, now: Time) -> Self {
        let former = self.last.iter().chain(&self.others);
        let others = former.filter(|other| {
            !other.is_for(&order.directory, &order.domains) && other.next().plus(RETENTION) > now
        });
        let others = others.take(OTHERS).cloned().collect();
        OrderState { signed_by: self.signed_by.clone(), last: Some(order), others }
    }
}

/// An order that has begun. Until it succeeds it counts as failed: a program that dies meanwhile must not order again
/// at each start.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LastOrder {
    /// The authority's directory URL.
    pub directory: String,
    /// The names.
    pub domains: Vec<String>,
    /// The consecutive failures for these names, including this order.
    pub failures: u32,
    /// The earliest start of the next order for the names, in seconds since 1970.
    pub next: u64,
    /// The reason of the failure.
    pub why: String,
}

impl LastOrder {
    /// Returns an order that begins, stored as failed until it succeeds.
    pub(super) fn begun(directory: &str, domains: &[String], failures: u32, next: Time) -> Self {
        LastOrder {
            directory: directory.to_owned(),
            domains: domains.to_vec(),
            failures,
            next: next.secs(),
            why: UNFINISHED.to_owned(),
        }
    }

    /// Reports whether it was begun and not finished: it is running, or its program has ended.
    pub fn is_unfinished(&self) -> bool {
        self.failures > 0 && self.why == UNFINISHED
    }

    fn is_for(&self, directory: &str, domains: &[String]) -> bool {
        self.directory == directory && self.domains == domains
    }

    /// Returns the earliest time of the next order for the same names.
    pub fn next(&self) -> Time {
        Time::from_secs(self.next)
    }
}

impl AcmeFolder {
    /// The folder at this path.
    pub fn new(path: &Path) -> Self {
        AcmeFolder(path.to_owned())
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the file with the certificate and its key.
    pub fn certificate(&self) -> PathBuf {
        self.0.join(CERTIFICATE)
    }

    /// Returns the file with the account's key.
    pub fn account_file(&self) -> PathBuf {
        self.0.join(ACCOUNT)
    }

    /// Creates the folder, for its owner alone, if it is missing.
    pub fn make(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)
    }

    /// Locks the folder while the returned file is open; `None` if another program holds the lock.
    pub(super) fn lock(&self) -> io::Result<Option<File>> {
        let mut options = OpenOptions::new();
        let lock = options.write(true).create(true).truncate(false).mode(0o600).open(self.0.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Reads the state. An unreadable file counts as missing.
    pub fn state(&self) -> OrderState {
        let text = fs::read(self.0.join(STATE)).unwrap_or_default();
        let mut state: OrderState = serde_json::from_slice(&text).unwrap_or_default();
        let authority = fs::read_to_string(self.0.join(AUTHORITY)).ok().filter(|text| !text.is_empty());
        state.signed_by = authority.or(state.signed_by);
        state
    }

    pub(super) fn set_authority(&self, directory: &str) -> io::Result<()> {
        self.write(AUTHORITY, directory.as_bytes())
    }

    pub(super) fn set_state(&self, state: &OrderState) -> io::Result<()> {
        self.write(STATE, &serde_json::to_vec_pretty(state)?)
    }

    /// Returns the stored account with the authority of this directory URL.
    pub(super) fn account(&self, directory: &str) -> Option<Vec<u8>> {
        #[derive(Deserialize)]
        struct Owner {
            directory: Option<String>,
        }
        let text = fs::read(self.account_file()).ok()?;
        let owner: Owner = serde_json::from_slice(&text).ok()?;
        (owner.directory.as_deref() == Some(directory)).then_some(text)
    }

    pub(super) fn set_account(&self, account: &[u8]) -> io::Result<()> {
        self.write(ACCOUNT, account)
    }

    pub(super) fn forget_account(&self) -> io::Result<()> {
        remove(&self.account_file())
    }

    pub(super) fn set_certificate(&self, pem: &str) -> io::Result<()> {
        self.write(CERTIFICATE, pem.as_bytes())
    }

    /// Returns, for each name that is being checked, the proof of the ordering account (RFC 8555, section 8.1).
    pub(super) fn answers(&self) -> BTreeMap<String, String> {
        let text = fs::read(self.0.join(ANSWERS)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub(super) fn set_answers(&self, answers: &BTreeMap<String, String>) -> io::Result<()> {
        self.write(ANSWERS, &serde_json::to_vec(answers)?)
    }

    pub(super) fn clear_answers(&self) -> io::Result<()> {
        remove(&self.0.join(ANSWERS))
    }

    /// Replaces a file atomically, readable by its owner alone. Readers see the old file until then.
    fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let part = self.0.join(format!("{name}.part"));
        remove(&part)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&part, self.0.join(name))?;
        File::open(&self.0)?.sync_all()
    }
}

/// Removes a file that may be missing.
fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn files_are_replaced_whole_and_for_their_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let folder = AcmeFolder::new(&dir.path().join("a/acme"));
        folder.make().unwrap();
        folder.make().unwrap();
        fs::write(folder.path().join("certificate.pem.part"), "left by a program that was killed").unwrap();
        for text in ["first", "second"] {
            folder.set_certificate(text).unwrap();
            folder.set_account(text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(folder.certificate()).unwrap(), text);
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(folder.path()), 0o700);
        for file in [folder.certificate(), folder.account_file()] {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
        let names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[test]
    fn one_program_has_the_lock_until_it_drops_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = AcmeFolder::new(dir.path());
        let first = folder.lock().unwrap();
        assert!(first.is_some() && folder.lock().unwrap().is_none());
        drop(first);
        assert!(folder.lock().unwrap().is_some());
    }

    #[test]
    fn broken_files_count_as_missing_and_an_account_belongs_to_its_authority() {
        let dir = tempfile::tempdir().unwrap();
        let folder = AcmeFolder::new(dir.path());
        for name in [STATE, ANSWERS, ACCOUNT] {
            fs::write(dir.path().join(name), "{\"signed_by\": 7").unwrap();
        }
        assert_eq!(folder.state(), OrderState::default());
        assert!(folder.answers().is_empty() && folder.account("https://a").is_none());
        folder.set_account(b"{\"id\":\"x\",\"directory\":\"https://a\"}").unwrap();
        assert!(folder.account("https://a").is_some() && folder.account("https://b").is_none());
        folder.forget_account().unwrap();
        folder.forget_account().unwrap();
        assert!(folder.account("https://a").is_none());
    }
}
