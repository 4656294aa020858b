use super::*;
use crate::entity::chain_switches;
use crate::migration::Management;
use rpcgate_core::clock::{Clock, SystemClock};
use sea_orm::{ConnectionTrait, DbBackend, EntityTrait, Statement};
use tempfile::TempDir;

#[cfg(have_postgres)]
mod on_server;

fn place(dir: &TempDir) -> DatabaseLocation {
    DatabaseLocation::File(dir.path().join("rpcgate.db"))
}

async fn open(place: &DatabaseLocation, deadline: Duration) -> Database {
    try_open(place, true, deadline).await.unwrap()
}

async fn try_open(
    place: &DatabaseLocation,
    migrate: bool,
    deadline: Duration,
) -> Result<Database, StoreError> {
    Database::open::<Management>(place, migrate, AdvisoryLock::Management, deadline).await
}

async fn switches(database: &Database) -> usize {
    let all = chain_switches::Entity::find();
    let all = database.read(async |reader| Ok::<_, StoreError>(all.all(reader).await?));
    all.await.unwrap().len()
}

async fn switch(database: &Database, chain: &str) -> Result<(), StoreError> {
    let sql = format!("INSERT INTO chain_switches (chain, enabled) VALUES ('{chain}', true)");
    database
        .transact(async |transaction| {
            transaction.execute_unprepared(&sql).await?;
            Ok(())
        })
        .await
}

#[cfg(unix)]
#[tokio::test]
async fn only_its_owner_may_read_the_file_and_its_log() {
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
        let place = DatabaseLocation::File(dir.path().join(file));
        let error = try_open(&place, true, DEADLINE).await.unwrap_err();
        error.to_string().replace(&*dir.path().to_string_lossy(), "DIR")
    };
    assert_eq!(why("gone/rpcgate.db").await, "DIR/gone/rpcgate.db: the folder DIR/gone does not exist");
    fs::create_dir(dir.path().join("folder")).unwrap();
    assert_eq!(why("folder").await, "DIR/folder: is a folder");
    fs::write(dir.path().join("text"), "not a database, but long enough to look like something").unwrap();
    let text = why("text").await;
    assert!(text.starts_with("DIR/text: cannot be opened: ") && text.contains("not a database"), "{text}");
}

// Shows (Commands and configuration).
#[tokio::test]
async fn an_old_schema_is_refused_unless_it_may_be_migrated() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(&dir);
    for made in [false, true] {
        let error = try_open(&place, false, DEADLINE).await.unwrap_err();
        assert!(error.to_string().contains("rpcgate-admin migrate"), "{error}");
        assert_eq!(fs::exists(dir.path().join("rpcgate.db")).unwrap(), made);
        create(&dir.path().join("rpcgate.db")).unwrap();
    }
    for _ in 0..2 {
        switch(&open(&place, DEADLINE).await, "toy").await.unwrap_or_default();
    }
    let database = try_open(&place, false, DEADLINE).await.unwrap();
    assert_eq!(switches(&database).await, 1, "migrating again leaves existing rows");
}

// Shows (Commands and configuration).
#[tokio::test]
async fn a_schema_of_a_newer_program_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&place(&dir), DEADLINE).await;
    let transaction = database.begin().await.unwrap();
    let newer = "INSERT INTO management_migrations (version, applied_at) VALUES ('9999_later', 1)";
    transaction.execute_unprepared(newer).await.unwrap();
    transaction.commit().await.unwrap();
    let error = try_open(&place(&dir), true, DEADLINE).await.unwrap_err();
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
    let deadline = Duration::from_secs(2);
    let database = open(&place(&dir), deadline).await;
    let clock = SystemClock::new();
    for holder in [&other, &database] {
        let held = holder.begin().await.unwrap();
        let from = clock.elapsed();
        let error = switch(&database, "late").await.unwrap_err();
        let took = clock.elapsed().saturating_sub(from);
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
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
    let deadline = Duration::from_secs(2);
    let database = open(&place(&dir), deadline).await;
    let stuck = database.with_connection(
        &database.writer,
        Box::pin(async {
            let transaction = database.begin().await?;
            transaction.execute_unprepared("INSERT INTO chain_switches VALUES ('half', 1)").await?;
            std::future::pending::<()>().await;
            Ok(())
        }),
    );
    let error: StoreError = stuck.await.unwrap_err();
    assert_eq!(error.to_string(), "the database cannot be reached now: no answer within 2s");
    switch(&database, "toy").await.unwrap();
    assert_eq!(switches(&database).await, 1);
}

#[tokio::test]
async fn writes_after_a_rollback_by_sqlite_are_committed() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&place(&dir), DEADLINE).await;
    for (round, chain) in ["a", "b", "c"].into_iter().enumerate() {
        // SQLite does this when the disk fails, without informing the driver.
        let undone: Result<(), StoreError> = database
            .transact(async |transaction| {
                transaction.execute_unprepared("ROLLBACK").await?;
                if round % 2 == 0 { Err(StoreError::NotFound("thing")) } else { Ok(()) }
            })
            .await;
        assert!(undone.is_err());
        // The disk fails again, at the end of statements that the driver counts to the first transaction.
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
async fn work_that_ends_properly_keeps_its_connection() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&place(&dir), DEADLINE).await;
    switch(&database, "a").await.unwrap();
    assert!(switch(&database, "a").await.is_err(), "there is one of this name");
    assert!(!database.writer.broken.load(Ordering::Acquire));
}

#[tokio::test]
async fn closing_waits_no_longer_than_the_deadline() {
    let dir = tempfile::tempdir().unwrap();
    // Opening may take longer on a loaded machine; this test is about closing.
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
    let written = database.read(async |reader| Ok::<_, StoreError>(reader.execute_unprepared(sql).await?));
    assert!(written.await.is_err());
    assert_eq!(switches(&database).await, 0);
}

// Shows (Management): Acknowledged management writes survive a loss of power (promise 71).
// Shows (Reliability): Acknowledged changes are on the disk; a server that may lose them is refused at start-up
// (promise 71).
#[tokio::test]
async fn acknowledged_writes_are_on_the_disk_and_in_a_copy_of_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&place(&dir), DEADLINE).await;
    for turn in 0..2 {
        let level = async |transaction: &DatabaseTransaction| {
            let pragma = sea_orm::Statement::from_string(sea_orm::DbBackend::Sqlite, "PRAGMA synchronous");
            let row = transaction.query_one_raw(pragma).await?.unwrap();
            Ok::<_, StoreError>(row.try_get_by_index::<i32>(0)?)
        };
        assert_eq!(database.transact(level).await.unwrap(), 2, "FULL");
        switch(&database, &format!("c{turn}")).await.unwrap();
        let copy = tempfile::tempdir().unwrap();
        for file in ["rpcgate.db", "rpcgate.db-wal"] {
            fs::copy(dir.path().join(file), copy.path().join(file)).unwrap();
        }
        assert_eq!(switches(&open(&place(&copy), DEADLINE).await).await, turn + 1);
        // The connection that replaces it syncs too.
        database.writer.broken.store(true, Ordering::Release);
    }
}

// Shows (Reliability).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_of_500_parallel_writers_is_served_or_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&place(&dir), DEADLINE).await;
    let lock = database.begin().await.unwrap();
    let writers: Vec<_> = (0..500)
        .map(|number| {
            let database = database.clone();
            tokio::spawn(async move { switch(&database, &format!("c{number}")).await })
        })
        .collect();
    while !writers.iter().any(tokio::task::JoinHandle::is_finished) {
        tokio::task::yield_now().await;
    }
    lock.rollback().await.unwrap();
    let mut done = 0;
    let mut refused = 0;
    for writer in writers {
        match writer.await.unwrap() {
            Ok(()) => done += 1,
            Err(StoreError::Unavailable(why)) => {
                assert!(why.contains("wait for it already") || why.contains("was free within"), "{why}");
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(done > 0 && refused > 0, "{done} {refused}");
    assert_eq!(switches(&database).await, done);
}

const ENDLESS: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

const ENDLESS_WRITE: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
                             INSERT INTO chain_switches SELECT 'endless', true FROM n WHERE i < 0";

// Shows (Usage): An abandoned statement of SQLite ends and frees its connection and the lock (promise 67).
#[tokio::test]
async fn abandoned_statements_end_and_free_their_connections() {
    let dir = TempDir::new().unwrap();
    let database = open(&place(&dir), Duration::from_secs(30)).await;
    for _ in 0..2 {
        let mut reads: Vec<_> = (0..READERS)
            .map(|_| {
                Box::pin(database.read(async |connection| -> Result<_, StoreError> {
                    Ok(connection.query_one_raw(Statement::from_string(DbBackend::Sqlite, ENDLESS)).await?)
                }))
            })
            .collect();
        let mut under_way = Vec::new();
        for read in &mut reads {
            under_way.push(tokio::time::timeout(Duration::from_millis(50), read).await.is_err());
        }
        assert_eq!(under_way, [true; READERS as usize], "the statement ends by itself");
        drop(reads);
        // All connections are available again, and none of them is broken.
        let again = || switches(&database);
        assert_eq!(tokio::join!(again(), again(), again(), again()), (0, 0, 0, 0));
    }
    database.close().await;
}

// Shows (Usage).
#[tokio::test]
async fn an_abandoned_write_ends_and_releases_its_lock() {
    let dir = TempDir::new().unwrap();
    let database = open(&place(&dir), Duration::from_secs(30)).await;
    let mut write = Box::pin(database.transact(async |transaction| -> Result<_, StoreError> {
        transaction.execute_unprepared(ENDLESS_WRITE).await?;
        Ok(())
    }));
    let under_way = tokio::time::timeout(Duration::from_millis(50), &mut write).await;
    assert!(under_way.is_err(), "the statement ends by itself: {under_way:?}");
    drop(write);
    switch(&database, "after").await.unwrap();
    assert_eq!(switches(&database).await, 1);
    database.close().await;
}
