//! A PostgreSQL server: connections to it, and what keeps several programs that write to one database apart.
//!
//! A server that is frozen, or a network that swallows everything, answers nothing on a connection that is open, so each
//! call has its deadline here, and connections that did not keep it are not used again. The server has the same deadline
//! for statements, so that it does not go on with what nobody waits for; and it ends the transaction of a program that
//! is frozen itself, before everybody else has waited for the locks of it in vain.

use super::error::{StoreError, is_away};
use super::tls::Wish;
use sea_orm::sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sea_orm::sqlx::{self, ConnectOptions as _, Connection as _, Error as SqlxError};
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, RuntimeErr, Statement,
};
use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

/// Connections for reading, of each store.
pub(super) const READERS: u32 = 4;

/// A connection that was not used for so long is closed.
const IDLE: Duration = Duration::from_secs(600);

/// A connection is replaced after so long: by then its host's name may stand for another server.
const LIFE: Duration = Duration::from_secs(1_800);

/// What is wrong with a server that acknowledges what it may lose.
const LOSES_COMMITS: &str = "synchronous_commit is off, so what it acknowledges can be lost with the power: set it on, \
                             with ALTER DATABASE … SET synchronous_commit = on";

/// What programs hold while they write, so that one writes at a time. It is let go only when all see what was written.
/// The numbers are the server's names for it, of one database; others may use theirs beside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AdvisoryLock {
    /// Writes of the management database: numbers of changes are given in the order of commits, and whoever counts
    /// before it adds something has counted right.
    Management,
    /// Shipments: sums are added to in one order, and each sees what those before it have added.
    Usage,
    /// Removing usage that is old.
    Retention,
    /// Removing what has expired from the management database.
    Sweep,
}

impl AdvisoryLock {
    /// "rpcg", and a number.
    const fn key(self) -> i64 {
        0x7270_6367_0000_0000
            + match self {
                AdvisoryLock::Management => 1,
                AdvisoryLock::Usage => 2,
                AdvisoryLock::Retention => 3,
                AdvisoryLock::Sweep => 4,
            }
    }

    /// Waits until it is our turn, which it is to the end of `transaction`.
    pub(super) async fn wait(self, transaction: &DatabaseTransaction) -> Result<(), DbErr> {
        let lock = format!("SELECT pg_advisory_xact_lock({})", self.key());
        transaction.execute_unprepared(&lock).await?;
        Ok(())
    }

    /// Takes the turn if nobody has it: whether it is ours, to the end of `transaction`.
    pub(super) async fn take(self, transaction: &DatabaseTransaction) -> Result<bool, DbErr> {
        let lock = format!("SELECT pg_try_advisory_xact_lock({})", self.key());
        let row = transaction.query_one_raw(Statement::from_string(DbBackend::Postgres, lock)).await?;
        row.map_or(Ok(false), |row| row.try_get_by_index(0))
    }
}

/// A database of a PostgreSQL server.
#[derive(Clone)]
pub(super) struct Server {
    options: PgConnectOptions,
    tls: Wish,
}

impl fmt::Debug for Server {
    /// The password is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.to_string()).finish()
    }
}

impl fmt::Display for Server {
    /// Host, port and name of the database.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        let socket = options.get_socket().map(|socket| socket.to_string_lossy());
        let host = socket.as_deref().unwrap_or(options.get_host());
        let name = options.get_database().unwrap_or(options.get_username());
        write!(f, "{host}:{}/{name}", options.get_port())
    }
}

impl Server {
    /// Reads a URL.
    ///
    /// # Errors
    /// The end of a sentence that begins with the key. What the driver says of a URL is not told: it might repeat what
    /// it is about, which may be the password.
    pub(super) fn parse(url: &str) -> Result<Self, &'static str> {
        let options: PgConnectOptions = Wish::plain(url)
            .parse()
            .map_err(|_| "cannot be read: write postgres://user:password@host:5432/name")?;
        let tls = Wish::read(url, options.get_ssl_mode())?;
        Ok(Server { options: options.application_name("rpcgate").disable_statement_logging(), tls })
    }

    /// Connects to it once, to find out why not.
    pub(super) async fn try_out(&self) -> Result<(), StoreError> {
        self.tls.check().map_err(|why| self.wrong(&why))?;
        match PgConnection::connect_with(&self.options).await {
            Ok(mut connection) => {
                if let Some(doubt) = self.tls.doubt() {
                    tracing::warn!("{self}: {doubt}");
                }
                self.check_durability(&mut connection).await?;
                // It was good for an answer, and that is there.
                let _ = connection.close().await;
                Ok(())
            }
            Err(SqlxError::Configuration(error)) => Err(self.wrong(&format!("cannot be used: {error}"))),
            Err(SqlxError::Tls(error)) => Err(self.wrong(&format!("no TLS with it: {error}"))),
            // So the TLS library says that it does not like what it hears. To wait does not help.
            Err(SqlxError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
                Err(self.wrong(&format!("no TLS with it: {error}")))
            }
            Err(error) => {
                let error = DbErr::Conn(RuntimeErr::SqlxError(error.into()));
                let why = error.to_string();
                Err(if is_away(&error) {
                    error.into()
                } else {
                    self.wrong(&format!("cannot be used: {why}"))
                })
            }
        }
    }

    /// Checks that the server has written down what it acknowledges. Whether its disk has it is a thing of the server
    /// alone, which is told.
    async fn check_durability(&self, connection: &mut PgConnection) -> Result<(), StoreError> {
        const SETTINGS: &str = "SELECT current_setting('synchronous_commit'), current_setting('fsync')";
        let settings = sqlx::query_as::<_, (String, String)>(SETTINGS).fetch_one(connection).await;
        let (commit, fsync) = settings.map_err(|error| DbErr::Query(RuntimeErr::SqlxError(error.into())))?;
        if commit == "off" {
            return Err(self.wrong(LOSES_COMMITS));
        }
        if fsync == "off" {
            tracing::warn!("{self}: fsync is off: a loss of power can destroy the database");
        }
        Ok(())
    }

    /// Connections that are made when they are needed: one for writes or some for reads, by which nothing can be
    /// written.
    pub(super) fn connections(&self, deadline: Duration, writes: bool) -> DatabaseConnection {
        let millis = |duration: Duration| duration.as_millis().to_string();
        let options = self.options.clone().options([
            ("statement_timeout", millis(deadline)),
            // The server is to give up before we do, so that its reason is heard.
            ("lock_timeout", millis(deadline.mul_f32(0.8))),
            ("idle_in_transaction_session_timeout", millis(deadline.mul_f32(1.5))),
            ("default_transaction_read_only", if writes { "off".into() } else { "on".into() }),
        ]);
        let pool = PgPoolOptions::new()
            .max_connections(if writes { 1 } else { READERS })
            .min_connections(0)
            // Our own deadline comes first, and with it the end of these connections.
            .acquire_timeout(deadline.saturating_mul(2))
            .idle_timeout(IDLE)
            .max_lifetime(LIFE)
            .connect_lazy_with(options);
        pool.into()
    }

    /// One connection that is made when it is needed, and has no deadlines.
    pub(super) fn single(&self) -> PgPool {
        let pool = PgPoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
        pool.connect_lazy_with(self.options.clone())
    }

    /// A server that is of no use, and why.
    pub(super) fn wrong(&self, why: &str) -> StoreError {
        StoreError::Server { server: self.to_string(), why: why.to_owned() }
    }
}
