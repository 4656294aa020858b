//! Tests for a server, which can be unreachable, frozen or shared.

use crate::connect::*;
use crate::entity::chain_switches;
use crate::migration::{Management, Usage};
use crate::testing::TestDatabase;
use crate::testing::postgres::Postgres;
use rpcgate_core::clock::{Clock, SystemClock};
use sea_orm::EntityTrait;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};

const ENOUGH: Duration = Duration::from_secs(60);

fn location(url: &str) -> DatabaseLocation {
    DatabaseLocation::parse(url).unwrap()
}

async fn open(url: &str, deadline: Duration) -> Database {
    // Opening may take longer on a loaded machine; the deadline is for the following work.
    let database =
        Database::open::<Management>(&location(url), true, AdvisoryLock::Management, ENOUGH).await.unwrap();
    let pool = |writes| DatabasePool::open(&database.writer.location, writes, deadline);
    let writer = pool(true).await.unwrap();
    let readers = pool(false).await.unwrap();
    Database { writer, readers, deadline, ..database }
}

async fn count(database: &Database) -> Result<usize, StoreError> {
    database.read(async |reader| Ok(chain_switches::Entity::find().all(reader).await?.len())).await
}

async fn switch(database: &Database, chain: &str) -> Result<(), StoreError> {
    let sql = format!("INSERT INTO chain_switches (chain, enabled) VALUES ('{chain}', true)");
    let write = async |transaction: &DatabaseTransaction| {
        transaction.execute_unprepared(&sql).await?;
        Ok(())
    };
    database.transact(write).await
}

async fn until<T>(work: impl AsyncFn() -> Result<T, StoreError>) -> T {
    for _ in 0..600 {
        match work().await {
            Ok(done) => return done,
            Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the database does not come back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn programs_that_open_a_new_database_together_all_succeed() {
    let site = TestDatabase::empty_server();
    let opening: Vec<_> = (0..8)
        .map(|number| {
            let location = location(site.url());
            tokio::spawn(async move {
                let management =
                    Database::open::<Management>(&location, true, AdvisoryLock::Management, ENOUGH);
                let usage = Database::open::<Usage>(&location, true, AdvisoryLock::Usage, ENOUGH);
                let (management, usage) = tokio::join!(management, usage);
                switch(&management.unwrap(), &format!("c{number}")).await.unwrap();
                usage.unwrap();
            })
        })
        .collect();
    for opened in opening {
        opened.await.unwrap();
    }
    assert_eq!(count(&open(site.url(), ENOUGH).await).await.unwrap(), 8);
}

#[tokio::test]
async fn an_old_or_newer_schema_is_refused() {
    let site = TestDatabase::empty_server();
    let at = location(site.url());
    let open_only = || async {
        let opened = Database::open::<Management>(&at, false, AdvisoryLock::Management, ENOUGH);
        opened.await.map(drop)
    };
    let outdated = open_only().await.unwrap_err().to_string();
    assert!(outdated.contains("run rpcgate-admin migrate") && !outdated.contains("secret"), "{outdated}");
    let database = open(site.url(), ENOUGH).await;
    open_only().await.unwrap();
    let newer = "INSERT INTO management_migrations (version, applied_at) VALUES ('9999_later', 1)";
    let write = async |transaction: &DatabaseTransaction| {
        transaction.execute_unprepared(newer).await?;
        Ok::<_, StoreError>(())
    };
    database.transact(write).await.unwrap();
    let error = open_only().await.unwrap_err().to_string();
    assert!(error.ends_with("was made by a newer version of this program"), "{error}");
}

#[tokio::test]
async fn errors_of_a_server_do_not_show_the_password() {
    let url = TestDatabase::empty_server().url().to_owned();
    let address = Postgres::shared().address();
    // It does not listen, and no other socket gets its port.
    let mute = tokio::net::TcpSocket::new_v4().unwrap();
    mute.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let free = mute.local_addr().unwrap();
    for (url, why, is_unavailable) in [
        (format!("{url}x"), "does not exist", false),
        (url.replace("not%20a%20secret", "another%20secret"), "password authentication failed", false),
        (url.replace(&address.to_string(), &free.to_string()), "onnection refused", true),
    ] {
        let at = location(&url);
        let opened = Database::open::<Management>(&at, true, AdvisoryLock::Management, ENOUGH);
        let error = opened.await.unwrap_err();
        assert_eq!(matches!(error, StoreError::Unavailable(_)), is_unavailable, "{error}");
        let text = error.to_string();
        assert!(text.contains(why) && !text.contains("secret"), "{text}");
    }
}

// Shows (Reliability): A frozen or unreachable database delays no request beyond the deadline, and is used again when
// it is back (promise 6).
#[tokio::test]
async fn calls_of_a_frozen_server_end_at_the_deadline_and_later_ones_succeed() {
    let server = Postgres::launch();
    let deadline = Duration::from_millis(700);
    let database = open(&server.database(), deadline).await;
    until(async || switch(&database, "before").await).await;
    let clock = SystemClock::new();
    server.freeze();
    for _ in 0..4 {
        for is_write in [false, true] {
            let from = clock.elapsed();
            let done = if is_write { switch(&database, "x").await } else { count(&database).await.map(drop) };
            let took = clock.elapsed().saturating_sub(from);
            let error = done.unwrap_err();
            assert_eq!(error.to_string(), "the database cannot be reached now: no answer within 700ms");
            assert!(took >= deadline && took < deadline * 8, "{took:?}");
        }
    }
    server.thaw();
    let before = until(async || count(&database).await).await;
    // Work that began while it was frozen may have been done, at most once: each name exists once.
    assert!((1..=2).contains(&before), "{before}");
    until(async || switch(&database, "after").await).await;
    assert!(count(&database).await.unwrap() > before);
}

// Shows (Reliability).
#[tokio::test]
async fn a_server_that_was_stopped_is_used_again_when_it_is_back() {
    let mut server = Postgres::launch();
    let database = open(&server.database(), Duration::from_millis(700)).await;
    until(async || switch(&database, "before").await).await;
    server.stop();
    for _ in 0..3 {
        assert!(matches!(count(&database).await, Err(StoreError::Unavailable(_))));
        assert!(matches!(switch(&database, "x").await, Err(StoreError::Unavailable(_))));
    }
    server.start();
    assert_eq!(until(async || count(&database).await).await, 1, "exactly the committed rows exist");
    until(async || switch(&database, "after").await).await;
}

/// Forwards bytes to `to` on each connection until `mute` changes. Then the existing connections stay open but nothing
/// passes.
async fn relay(to: SocketAddr, mute: tokio::sync::watch::Receiver<u32>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut mute = mute.clone();
            mute.mark_unchanged();
            tokio::spawn(async move {
                let mut far = TcpStream::connect(to).await.unwrap();
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut near, &mut far) => return,
                    _ = mute.changed() => {}
                }
                std::future::pending::<()>().await;
            });
        }
    });
    address
}

// Shows (Reliability).
#[tokio::test]
async fn connections_that_fall_silent_are_replaced() {
    let site = TestDatabase::empty_server();
    let (mute, muted) = tokio::sync::watch::channel(0);
    let server = Postgres::shared().address();
    let near = relay(server, muted).await;
    let url = site.url().replace(&server.to_string(), &near.to_string());
    let database = open(&url, Duration::from_millis(700)).await;
    until(async || switch(&database, "before").await).await;
    assert_eq!(until(async || count(&database).await).await, 1);
    mute.send(1).unwrap();
    // There is one connection for writes. For reads the pool may open a new one.
    assert!(matches!(switch(&database, "x").await, Err(StoreError::Unavailable(_))));
    assert_eq!(until(async || count(&database).await).await, 1);
    until(async || switch(&database, "after").await).await;
    assert_eq!(until(async || count(&database).await).await, 2);
}

#[tokio::test]
async fn a_writer_that_freezes_blocks_others_no_longer_than_the_servers_timeout() {
    let site = TestDatabase::empty_server();
    let frozen = open(site.url(), Duration::from_secs(1)).await;
    let other = open(site.url(), ENOUGH).await;
    let held = frozen.begin().await.unwrap();
    held.execute_unprepared("INSERT INTO chain_switches VALUES ('half', true)").await.unwrap();
    switch(&other, "whole").await.unwrap();
    assert!(held.commit().await.is_err(), "the server has ended it");
    assert_eq!(count(&other).await.unwrap(), 1);
    until(async || switch(&frozen, "again").await).await;
}

#[tokio::test]
async fn readers_cannot_write() {
    let site = TestDatabase::empty_server();
    let database = open(site.url(), ENOUGH).await;
    let written = database.read(async |reader| {
        let sql = "INSERT INTO chain_switches VALUES ('toy', true)";
        Ok::<_, StoreError>(reader.execute_unprepared(sql).await?)
    });
    assert!(written.await.is_err());
    assert_eq!(count(&database).await.unwrap(), 0);
}

#[tokio::test]
async fn exclusive_work_is_skipped_by_a_second_program() {
    let site = TestDatabase::empty_server();
    let one = open(site.url(), ENOUGH).await;
    let other = open(site.url(), ENOUGH).await;
    let nothing = async |_: &DatabaseTransaction| Ok::<_, StoreError>(());
    let both = one.transact_exclusive(AdvisoryLock::Retention, async |_| {
        let left = other.transact_exclusive(AdvisoryLock::Retention, nothing).await?;
        switch(&other, "toy").await?;
        Ok::<_, StoreError>(left)
    });
    assert_eq!(both.await.unwrap(), Some(None), "and writes go on");
    assert_eq!(other.transact_exclusive(AdvisoryLock::Retention, nothing).await.unwrap(), Some(()));
}

/// Returns the number of connections to the database except its own.
async fn connections(watcher: &sea_orm::sqlx::PgPool) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    sea_orm::sqlx::query_scalar(sql).fetch_one(watcher).await.unwrap()
}

// Shows (Management): Many simultaneous clients open no connection beyond the pool (promise 68).
// Shows (Reliability): Many simultaneous writers open no connection beyond the pool, and get 503 with `Retry-After`
// (promise 68).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn five_hundred_parallel_writers_open_no_connection_beyond_the_pool() {
    let site = TestDatabase::empty_server();
    let database = open(site.url(), Duration::from_secs(2)).await;
    until(async || switch(&database, "before").await).await;
    until(async || count(&database).await).await;
    let watcher = Server::parse(site.url()).unwrap().single();
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let watching = tokio::spawn(async move {
        let mut most = 0;
        while stopped.try_recv().is_err() {
            most = most.max(connections(&watcher).await);
        }
        most
    });
    // Run one after another, the waiting writers need longer than the queue's timeout.
    let writers: Vec<_> = (0..500)
        .map(|number| {
            let database = database.clone();
            let sql = format!("INSERT INTO chain_switches SELECT 'c{number}', true FROM pg_sleep(0.03)");
            tokio::spawn(async move {
                let write = async |transaction: &DatabaseTransaction| {
                    transaction.execute_unprepared(&sql).await?;
                    Ok::<_, StoreError>(())
                };
                database.transact(write).await
            })
        })
        .collect();
    let mut done = 0;
    let mut full = 0;
    let mut late = 0;
    for writer in writers {
        match writer.await.unwrap() {
            Ok(()) => done += 1,
            Err(StoreError::Unavailable(why)) if why == "128 calls wait for it already" => full += 1,
            Err(StoreError::Unavailable(why)) if why == "none of its connections was free within 1s" => {
                late += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    stop.send(()).unwrap();
    assert!(watching.await.unwrap() <= 1 + i64::from(server::READERS), "one for writes, and those for reads");
    assert!(done > 0 && late > 0 && done + late <= 500 - full, "{done} {late} {full}");
    assert!(!database.writer.broken.load(Ordering::Acquire), "the server is not taken for frozen");
    assert_eq!(count(&database).await.unwrap(), 1 + done, "refused writers have written nothing");
    switch(&database, "after").await.unwrap();
}

// Shows (Reliability).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn abandoned_writers_open_no_connection_beyond_the_pool() {
    let site = TestDatabase::empty_server();
    let database = open(site.url(), Duration::from_secs(20)).await;
    until(async || switch(&database, "before").await).await;
    let watcher = Server::parse(site.url()).unwrap().single();
    for _ in 0..20 {
        let writer = database.clone();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let writing = tokio::spawn(async move {
            let write = async |transaction: &DatabaseTransaction| {
                begun.send(()).unwrap();
                transaction.execute_unprepared("SELECT pg_sleep(0.1)").await?;
                Ok::<_, StoreError>(())
            };
            writer.transact(write).await
        });
        has_begun.await.unwrap();
        writing.abort();
        assert!(writing.await.unwrap_err().is_cancelled());
        assert_eq!(connections(&watcher).await, 1);
    }
    switch(&database, "after").await.unwrap();
    assert_eq!(connections(&watcher).await, 1);
    assert!(!database.writer.broken.load(Ordering::Acquire));
}

// Shows (Management).
// Shows (Reliability).
#[tokio::test]
async fn a_server_that_acknowledges_writes_before_they_are_durable_is_refused_at_start() {
    let site = TestDatabase::empty_server();
    let set = async |value: &str| {
        let pool = Server::parse(site.url()).unwrap().single();
        let name: String =
            sea_orm::sqlx::query_scalar("SELECT current_database()").fetch_one(&pool).await.unwrap();
        let sql = format!("ALTER DATABASE \"{name}\" SET synchronous_commit = {value}");
        sea_orm::sqlx::raw_sql(sea_orm::sqlx::AssertSqlSafe(sql)).execute(&pool).await.unwrap();
    };
    let open = async || {
        let opened =
            Database::open::<Management>(&location(site.url()), true, AdvisoryLock::Management, ENOUGH).await;
        opened.map(drop)
    };
    set("off").await;
    let refused = open().await.unwrap_err();
    assert!(matches!(refused, StoreError::Server { .. }), "{refused}");
    assert!(refused.to_string().contains("ALTER DATABASE … SET synchronous_commit = on"), "{refused}");
    for durable in ["on", "local", "remote_write", "remote_apply"] {
        set(durable).await;
        open().await.unwrap();
    }
}
