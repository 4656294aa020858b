//! The way to a database: where its file is, its connections, and the deadline that every call has.
//!
//! SQLite lets one connection write at a time, so there is one for writes and a few for reads, which its write-ahead
//! log keeps apart. A write begins with the lock it needs (`BEGIN IMMEDIATE`): one that reads first and asks for the
//! lock later can fail at once where another process writes too, however long it is willing to wait.

use super::error::{StoreError, is_busy};
use sea_orm::sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};
use sea_orm::{
    ConnectOptions, DatabaseConnection, DatabaseTransaction, DbErr, SqliteTransactionMode,
    TransactionOptions, TransactionTrait,
};
use sea_orm_migration::MigratorTrait;
use std::fs::{self, OpenOptions};
use std::future::Future;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a call may take.
pub(super) const DEADLINE: Duration = Duration::from_secs(2);

/// Connections for reading.
const READERS: u32 = 4;

/// Where a database is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    file: PathBuf,
}

impl Place {
    /// Reads `database.url`: `sqlite://` and the name of a file, relative to the working directory unless it begins
    /// with a slash, `%XX` for characters that a URL cannot have.
    ///
    /// # Errors
    /// [`StoreError::Url`].
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let wrong = |why: &str| StoreError::Url(why.to_owned());
        let (scheme, rest) = url.split_once(':').unwrap_or_default();
        match scheme {
            "sqlite" => {}
            "postgres" | "postgresql" => {
                return Err(wrong("this version keeps its state in SQLite only: use sqlite://rpcgate.db"));
            }
            _ => return Err(wrong("must begin with sqlite://, as in sqlite://rpcgate.db")),
        }
        let name = rest.strip_prefix("//").unwrap_or(rest);
        if name.contains('?') {
            return Err(wrong("takes no parameters (?…)"));
        }
        let name = decode(name).ok_or_else(|| wrong("has a broken percent-escape"))?;
        if name.is_empty() || name == ":memory:" {
            return Err(wrong("must name a file, as in sqlite://rpcgate.db"));
        }
        Ok(Place { file: name.into() })
    }

    /// The file that usage is kept in, beside this one: `rpcgate.db` → `rpcgate-usage.db`.
    pub(super) fn usage(&self) -> Place {
        let mut name = self.file.file_stem().unwrap_or_default().to_owned();
        name.push("-usage");
        if let Some(extension) = self.file.extension() {
            name.push(".");
            name.push(extension);
        }
        Place { file: self.file.with_file_name(name) }
    }

    /// Makes the file if it is missing. Others than its owner may not read it: there are hashes of keys and people's
    /// addresses in it. SQLite gives its log the same permissions.
    fn make(&self) -> Result<(), StoreError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&self.file) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && self.file.is_dir() => {
                Err(self.wrong("is a folder"))
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let folder = self.file.parent().unwrap_or(Path::new(""));
                Err(self.wrong(&format!("the folder {} does not exist", folder.display())))
            }
            Err(error) => Err(self.wrong(&format!("cannot be made: {error}"))),
        }
    }

    fn wrong(&self, why: &str) -> StoreError {
        StoreError::File { file: self.file.display().to_string(), why: why.to_owned() }
    }
}

/// The URL of a database in `file`: what `database.url` says of it.
///
/// ```
/// use rpcgate_admin::store::url_of;
///
/// assert_eq!(url_of("/srv/my gate/rpcgate.db".as_ref()), "sqlite:///srv/my%20gate/rpcgate.db");
/// ```
pub fn url_of(file: &Path) -> String {
    let mut url = "sqlite://".to_owned();
    for c in file.to_string_lossy().chars() {
        if matches!(c, '%' | '?' | '#') || c.is_whitespace() || c.is_control() {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| url.push_str(&format!("%{byte:02X}")));
        } else {
            url.push(c);
        }
    }
    url
}

/// `text` with its percent-escapes resolved; `None` where one is broken or the whole is no text.
fn decode(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let byte = digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(digits)?;
        bytes.push(u8::from_str_radix(byte, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// An open database with an up-to-date schema.
#[derive(Clone, Debug)]
pub(super) struct Database {
    writer: Arc<Writer>,
    readers: DatabaseConnection,
    deadline: Duration,
}

/// The connection for writes.
#[derive(Debug)]
struct Writer {
    place: Place,
    connection: Mutex<DatabaseConnection>,
    /// A transaction on it did not end as it should, or nobody knows. Where SQLite has undone one by itself, because the
    /// disk failed it, the driver takes it for open, and whatever follows for a part of it that is never committed; so
    /// another connection has to take its place.
    broken: AtomicBool,
}

impl Writer {
    fn connection(&self) -> MutexGuard<'_, DatabaseConnection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a new connection in the place of the broken one, which is closed first: it may hold the lock.
    async fn renew(&self, deadline: Duration) -> Result<(), StoreError> {
        let old = self.connection().clone();
        let closed = async { Ok(old.close_by_ref().await?) };
        if let Err::<_, StoreError>(error) = within(deadline, closed).await {
            tracing::debug!(%error, "a broken connection did not end cleanly");
        }
        let fresh = patiently(&self.place, deadline, true).await?;
        *self.connection() = fresh;
        Ok(())
    }
}

/// Says that the connection is broken, unless the transaction on it is known to have ended.
struct Doubt<'a>(&'a AtomicBool);

impl Doubt<'_> {
    fn dispel(self) {
        std::mem::forget(self);
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Database {
    /// Opens the database at `place`, making the file if it is missing, and brings its schema up to date. Its calls
    /// end after `deadline`.
    ///
    /// # Errors
    /// [`StoreError::File`], [`StoreError::Away`], and [`StoreError::Outdated`] if `migrate` is false and the schema
    /// is not up to date.
    pub(super) async fn open<M: MigratorTrait>(
        place: &Place,
        migrate: bool,
        deadline: Duration,
    ) -> Result<Self, StoreError> {
        if migrate {
            place.make()?;
        } else if !fs::exists(&place.file).unwrap_or(true) {
            return Err(StoreError::Outdated(place.file.display().to_string()));
        }
        let writer = within(deadline, patiently(place, deadline, true)).await?;
        let pending = within(deadline, async {
            M::get_pending_migrations_read_only(&writer).await.map_err(|error| match error {
                // The only cause of this kind here: a migration is recorded that this program does not know.
                DbErr::Custom(_) => place.wrong("was made by a newer version of this program"),
                error => error.into(),
            })
        })
        .await?;
        if !pending.is_empty() && !migrate {
            return Err(StoreError::Outdated(place.file.display().to_string()));
        }
        let readers = within(deadline, patiently(place, deadline, false)).await?;
        let writer =
            Writer { place: place.clone(), connection: Mutex::new(writer), broken: AtomicBool::new(false) };
        let database = Database { writer: Arc::new(writer), readers, deadline };
        if !pending.is_empty() {
            // All in one transaction, so that two programs that start together do not both make the same table.
            // Rewriting a large table may take long, so there is no deadline once the lock is held.
            let transaction = within(deadline, database.begin()).await?;
            M::up(&transaction, None).await?;
            transaction.commit().await?;
        }
        Ok(database)
    }

    /// For reads. Nothing can be written by it.
    pub(super) fn reader(&self) -> &DatabaseConnection {
        &self.readers
    }

    /// Begins a write: it holds the lock from the first moment, and is rolled back unless it is committed.
    pub(super) async fn begin(&self) -> Result<DatabaseTransaction, StoreError> {
        let immediate = Some(SqliteTransactionMode::Immediate);
        let options = TransactionOptions { sqlite_transaction_mode: immediate, ..Default::default() };
        if self.writer.broken.swap(false, Ordering::AcqRel)
            && let Err(error) = self.writer.renew(self.deadline).await
        {
            self.writer.broken.store(true, Ordering::Release);
            return Err(error);
        }
        let connection = self.writer.connection().clone();
        connection.begin_with_options(options).await.map_err(|error| {
            if !is_busy(&error) {
                self.writer.broken.store(true, Ordering::Release);
            }
            error.into()
        })
    }

    /// Does `work` in one transaction, within the deadline: all of it or nothing.
    pub(super) async fn transact<T, E: From<StoreError>>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.bounded(async {
            let transaction = self.begin().await?;
            let doubt = Doubt(&self.writer.broken);
            match work(&transaction).await {
                Ok(done) => {
                    transaction.commit().await.map_err(StoreError::from)?;
                    doubt.dispel();
                    Ok(done)
                }
                Err(error) => {
                    if transaction.rollback().await.is_ok() {
                        doubt.dispel();
                    }
                    Err(error)
                }
            }
        })
        .await
    }

    /// `work`, which may take no longer than the deadline: a machine that is stuck answers nothing, not even its own
    /// timeouts. What it has begun by then is rolled back.
    pub(super) async fn bounded<T, E: From<StoreError>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        within(self.deadline, work).await
    }

    /// Ends all connections, which folds the log into the file. Nobody waits longer than the deadline for what is
    /// still under way: it is committed or undone when the file is opened again.
    pub(super) async fn close(&self) {
        let writer = self.writer.connection().clone();
        for connections in [&self.readers, &writer] {
            let closed = async { Ok(connections.close_by_ref().await?) };
            if let Err::<_, StoreError>(error) = self.bounded(closed).await {
                tracing::warn!(%error, "database connections did not end cleanly");
            }
        }
    }
}

async fn within<T, E: From<StoreError>>(
    deadline: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    tokio::time::timeout(deadline, work).await.unwrap_or_else(|_| Err(StoreError::late(deadline).into()))
}

/// [`connect`], tried again as long as the file is locked. Two programs that open a new file together are in each
/// other's way when both turn its log on, and SQLite does not wait by itself there.
async fn patiently(
    place: &Place,
    deadline: Duration,
    writes: bool,
) -> Result<DatabaseConnection, StoreError> {
    loop {
        match connect(place, deadline, writes).await {
            Ok(connection) => return Ok(connection),
            Err(error) if is_busy(&error) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => return Err(place.wrong(&format!("cannot be opened: {error}"))),
        }
    }
}

async fn connect(place: &Place, deadline: Duration, writes: bool) -> Result<DatabaseConnection, DbErr> {
    let file = place.file.clone();
    // The file is set below: in a URL its name would be read as one.
    let mut options = ConnectOptions::new("sqlite://rpcgate.db");
    let connections = if writes { 1 } else { READERS };
    options
        .max_connections(connections)
        .min_connections(1)
        .acquire_timeout(deadline)
        .idle_timeout(None)
        .max_lifetime(None)
        .sqlx_logging(false)
        .record_stmt_in_spans(false)
        .map_sqlx_sqlite_opts(move |sqlite| {
            let sqlite = sqlite
                .filename(&file)
                .create_if_missing(false)
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Normal)
                .foreign_keys(true)
                // SQLite is to give up before we do, so that nobody waits any more when the deadline is over.
                .busy_timeout(deadline.mul_f32(0.8));
            if writes { sqlite } else { sqlite.pragma("query_only", "ON") }
        });
    sea_orm::Database::connect(options).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::migration::Management;
    use rpcgate_core::clock::{Clock, SystemClock};
    use sea_orm::ConnectionTrait;
    use tempfile::TempDir;

    fn place(dir: &TempDir) -> Place {
        Place { file: dir.path().join("rpcgate.db") }
    }

    async fn open(place: &Place, deadline: Duration) -> Database {
        Database::open::<Management>(place, true, deadline).await.unwrap()
    }

    async fn switches(database: &Database) -> usize {
        let all = database.reader().query_all_raw(sea_orm::Statement::from_string(
            sea_orm::DbBackend::Sqlite,
            "SELECT chain FROM chain_switches",
        ));
        all.await.unwrap().len()
    }

    async fn switch(database: &Database, chain: &str) -> Result<(), StoreError> {
        let sql = format!("INSERT INTO chain_switches (chain, enabled) VALUES ('{chain}', 1)");
        database
            .transact(async |transaction| {
                transaction.execute_unprepared(&sql).await?;
                Ok(())
            })
            .await
    }

    #[test]
    fn a_url_names_a_file() {
        for (url, file, usage) in [
            ("sqlite://rpcgate.db", "rpcgate.db", "rpcgate-usage.db"),
            ("sqlite:rpcgate.db", "rpcgate.db", "rpcgate-usage.db"),
            ("sqlite:///var/lib/gate.d/state", "/var/lib/gate.d/state", "/var/lib/gate.d/state-usage"),
            ("sqlite://./a%20b/%C3%A9.x.db", "./a b/é.x.db", "./a b/é.x-usage.db"),
        ] {
            let place = Place::parse(url).unwrap();
            assert_eq!((place.file.as_path(), place.usage().file.as_path()), (file.as_ref(), usage.as_ref()));
        }
        for file in ["rpcgate.db", "/a b/c", "/100%/what?/#1/%20/é\n.db"] {
            assert_eq!(Place::parse(&url_of(file.as_ref())).unwrap().file, Path::new(file));
        }
    }

    #[test]
    fn what_names_no_file_is_refused_without_being_repeated() {
        for (url, why) in [
            (
                "postgres://u:secret@h/db",
                "this version keeps its state in SQLite only: use sqlite://rpcgate.db",
            ),
            (
                "postgresql://u:secret@h/db",
                "this version keeps its state in SQLite only: use sqlite://rpcgate.db",
            ),
            ("mysql://u:secret@h/db", "must begin with sqlite://, as in sqlite://rpcgate.db"),
            ("secret.db", "must begin with sqlite://, as in sqlite://rpcgate.db"),
            ("sqlite://secret.db?mode=ro", "takes no parameters (?…)"),
            ("sqlite://secret%zz", "has a broken percent-escape"),
            ("sqlite://secret%+1", "has a broken percent-escape"),
            ("sqlite://secret%ff", "has a broken percent-escape"),
            ("sqlite://", "must name a file, as in sqlite://rpcgate.db"),
            ("sqlite::memory:", "must name a file, as in sqlite://rpcgate.db"),
        ] {
            assert_eq!(Place::parse(url).unwrap_err().to_string(), format!("database.url: {why}"));
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn nobody_but_its_owner_may_read_the_file_or_its_log() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let database = open(&place(&dir), DEADLINE).await;
        switch(&database, "toy").await.unwrap();
        let mut files = Vec::new();
        for file in fs::read_dir(dir.path()).unwrap().map(Result::unwrap) {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
            files.push(file.file_name().into_string().unwrap());
        }
        files.sort();
        assert_eq!(files, ["rpcgate.db", "rpcgate.db-shm", "rpcgate.db-wal"]);
        database.close().await;
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(left, ["rpcgate.db"], "the log is folded in");
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_opened_is_named_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let why = async |file: &str| {
            let place = Place { file: dir.path().join(file) };
            let error = Database::open::<Management>(&place, true, DEADLINE).await.unwrap_err();
            error.to_string().replace(&*dir.path().to_string_lossy(), "DIR")
        };
        assert_eq!(why("gone/rpcgate.db").await, "DIR/gone/rpcgate.db: the folder DIR/gone does not exist");
        fs::create_dir(dir.path().join("folder")).unwrap();
        assert_eq!(why("folder").await, "DIR/folder: is a folder");
        fs::write(dir.path().join("text"), "not a database, but long enough to look like something").unwrap();
        let text = why("text").await;
        assert!(
            text.starts_with("DIR/text: cannot be opened: ") && text.contains("not a database"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn an_old_schema_is_refused_unless_it_may_be_migrated() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(&dir);
        for made in [false, true] {
            let error = Database::open::<Management>(&place, false, DEADLINE).await.unwrap_err();
            assert!(error.to_string().contains("rpcgate-admin migrate"), "{error}");
            assert_eq!(fs::exists(&place.file).unwrap(), made);
            place.make().unwrap();
        }
        for _ in 0..2 {
            switch(&open(&place, DEADLINE).await, "toy").await.unwrap_or_default();
        }
        let database = Database::open::<Management>(&place, false, DEADLINE).await.unwrap();
        assert_eq!(switches(&database).await, 1, "migrating again leaves what is there");
    }

    #[tokio::test]
    async fn a_schema_of_a_newer_program_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let database = open(&place(&dir), DEADLINE).await;
        let transaction = database.begin().await.unwrap();
        let newer = "INSERT INTO management_migrations (version, applied_at) VALUES ('9999_later', 1)";
        transaction.execute_unprepared(newer).await.unwrap();
        transaction.commit().await.unwrap();
        let error = Database::open::<Management>(&place(&dir), true, DEADLINE).await.unwrap_err();
        assert!(error.to_string().ends_with("was made by a newer version of this program"), "{error}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn programs_that_open_a_new_file_together_all_succeed() {
        for _ in 0..20 {
            let dir = tempfile::tempdir().unwrap();
            let opening: Vec<_> = (0..16)
                .map(|_| {
                    let place = place(&dir);
                    tokio::spawn(async move { open(&place, Duration::from_secs(60)).await })
                })
                .collect();
            for opened in opening {
                opened.await.unwrap();
            }
        }
    }

    #[tokio::test]
    async fn a_write_that_must_wait_too_long_has_not_happened_and_harms_no_later_one() {
        let dir = tempfile::tempdir().unwrap();
        let other = open(&place(&dir), DEADLINE).await;
        let deadline = Duration::from_millis(300);
        let database = open(&place(&dir), deadline).await;
        let clock = SystemClock::new();
        for holder in [&other, &database] {
            let held = holder.begin().await.unwrap();
            let from = clock.elapsed();
            let error = switch(&database, "late").await.unwrap_err();
            let took = clock.elapsed().saturating_sub(from);
            assert!(matches!(error, StoreError::Away(_)), "{error}");
            assert!(took < deadline * 10, "{took:?}");
            assert_eq!(switches(&database).await, 0, "reading goes on");
            held.rollback().await.unwrap();
        }
        switch(&database, "toy").await.unwrap();
        switch(&other, "toy2").await.unwrap();
        assert_eq!((switches(&database).await, switches(&other).await), (2, 2));
    }

    #[tokio::test]
    async fn a_write_that_is_dropped_half_way_is_undone() {
        let dir = tempfile::tempdir().unwrap();
        let database = open(&place(&dir), Duration::from_millis(300)).await;
        let stuck = database.bounded(async {
            let transaction = database.begin().await?;
            transaction.execute_unprepared("INSERT INTO chain_switches VALUES ('half', 1)").await?;
            std::future::pending::<()>().await;
            Ok(())
        });
        let error: StoreError = stuck.await.unwrap_err();
        assert_eq!(error.to_string(), "the database cannot be reached now: no answer within 300ms");
        switch(&database, "toy").await.unwrap();
        assert_eq!(switches(&database).await, 1);
    }

    #[tokio::test]
    async fn what_is_written_after_a_transaction_that_sqlite_undid_itself_is_there_to_stay() {
        let dir = tempfile::tempdir().unwrap();
        let database = open(&place(&dir), DEADLINE).await;
        for (round, chain) in ["a", "b", "c"].into_iter().enumerate() {
            // So it does when the disk fails it. The driver is not told.
            let undone: Result<(), StoreError> = database
                .transact(async |transaction| {
                    transaction.execute_unprepared("ROLLBACK").await?;
                    if round % 2 == 0 { Err(StoreError::NotFound("thing")) } else { Ok(()) }
                })
                .await;
            assert!(undone.is_err());
            // And then it fails it again, at the end of what the driver takes for a part of the first.
            let orphan =
                "INSERT INTO quotas (project_id, cu_per_day) VALUES (x'00112233445566778899aabbccddeeff', 1)";
            let failed: Result<(), StoreError> = database
                .transact(async |transaction| {
                    transaction.execute_unprepared("PRAGMA defer_foreign_keys = ON").await?;
                    transaction.execute_unprepared(orphan).await?;
                    Ok(())
                })
                .await;
            assert!(failed.is_err());
            switch(&database, chain).await.unwrap();
            let other = open(&place(&dir), DEADLINE).await;
            assert_eq!(switches(&other).await, round + 1, "others do not see it");
        }
    }

    #[tokio::test]
    async fn what_ends_in_good_order_keeps_its_connection() {
        let dir = tempfile::tempdir().unwrap();
        let database = open(&place(&dir), DEADLINE).await;
        switch(&database, "a").await.unwrap();
        assert!(switch(&database, "a").await.is_err(), "there is one of this name");
        assert!(!database.writer.broken.load(Ordering::Acquire));
    }

    #[tokio::test]
    async fn closing_waits_no_longer_than_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        // Opening may take its time on a loaded machine; closing is what this is about.
        let patience = Duration::from_secs(60);
        let deadline = Duration::from_millis(100);
        let database = Database { deadline, ..open(&place(&dir), patience).await };
        let held = database.begin().await.unwrap();
        let closed = tokio::time::timeout(Duration::from_secs(30), database.close()).await;
        assert!(closed.is_ok());
        drop(held);
        let again = open(&place(&dir), patience).await;
        switch(&again, "toy").await.unwrap();
    }

    #[tokio::test]
    async fn readers_cannot_write() {
        let dir = tempfile::tempdir().unwrap();
        let database = open(&place(&dir), DEADLINE).await;
        let sql = "INSERT INTO chain_switches VALUES ('toy', 1)";
        assert!(database.reader().execute_unprepared(sql).await.is_err());
        assert_eq!(switches(&database).await, 0);
    }
}
