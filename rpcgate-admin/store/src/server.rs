//! A PostgreSQL server: its connections, and the locks that separate the programs that write to one database.
//!
//! A frozen server, or a network that drops everything, answers nothing on an open connection, so each call has a
//! deadline on our side, and connections that missed it are not used again. The server has the same deadline for
//! statements, so that it does not continue work whose caller has gone. It also ends the transaction of a frozen
//! program before others have waited in vain for its locks.

use super::error::{StoreError, is_unavailable};
use super::tls::TlsOptions;
use sea_orm::sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sea_orm::sqlx::{self, ConnectOptions as _, Connection as _, Error as SqlxError};
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, RuntimeErr, Statement,
};
use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

pub(super) const READERS: u32 = 4;

const IDLE: Duration = Duration::from_secs(600);

/// The age at which a connection is replaced, because its host name may then resolve to another server.
const LIFE: Duration = Duration::from_secs(1_800);

const LOSES_COMMITS: &str = "synchronous_commit is off, so what it acknowledges can be lost with the power: set it on, \
                             with ALTER DATABASE … SET synchronous_commit = on";

/// An advisory lock that a program holds while it writes, so that one program writes at a time. It is released only
/// when all others can see the write. Its number identifies it within one database; other applications may use their
/// own numbers there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AdvisoryLock {
    /// Writes to the management database: change numbers follow the order of commits, and row counts stay valid until
    /// the write adds a row.
    Management,
    /// Shipments of usage: sums are updated in one order, and each shipment sees the additions of earlier ones.
    Usage,
    Retention,
    Sweep,
}

impl AdvisoryLock {
    const fn key(self) -> i64 {
        0x7270_6367_0000_0000
            + match self {
                AdvisoryLock::Management => 1,
                AdvisoryLock::Usage => 2,
                AdvisoryLock::Retention => 3,
                AdvisoryLock::Sweep => 4,
            }
    }

    /// Waits for the lock and holds it until the end of `transaction`.
    pub(super) async fn wait(self, transaction: &DatabaseTransaction) -> Result<(), DbErr> {
        let lock = format!("SELECT pg_advisory_xact_lock({})", self.key());
        transaction.execute_unprepared(&lock).await?;
        Ok(())
    }

    /// Takes the lock until the end of `transaction` if it is free, and reports whether it was.
    pub(super) async fn try_take(self, transaction: &DatabaseTransaction) -> Result<bool, DbErr> {
        let lock = format!("SELECT pg_try_advisory_xact_lock({})", self.key());
        let row = transaction.query_one_raw(Statement::from_string(DbBackend::Postgres, lock)).await?;
        row.map_or(Ok(false), |row| row.try_get_by_index(0))
    }
}

#[derive(Clone)]
pub(super) struct Server {
    options: PgConnectOptions,
    tls: TlsOptions,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.to_string()).finish()
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        let socket = options.get_socket().map(|socket| socket.to_string_lossy());
        let host = socket.as_deref().unwrap_or(options.get_host());
        let name = options.get_database().unwrap_or(options.get_username());
        write!(f, "{host}:{}/{name}", options.get_port())
    }
}

impl Server {
    /// Parses a URL.
    ///
    /// # Errors
    /// The end of a sentence that begins with the name of the setting. The driver's own error is not shown, because it
    /// might quote the password.
    pub(super) fn parse(url: &str) -> Result<Self, &'static str> {
        let options: PgConnectOptions = TlsOptions::without_system_roots(url)
            .parse()
            .map_err(|_| "cannot be read: write postgres://user:password@host:5432/name")?;
        let tls = TlsOptions::read(url, options.get_ssl_mode())?;
        Ok(Server { options: options.application_name("rpcgate").disable_statement_logging(), tls })
    }

    /// Connects once, to report why the server cannot be used.
    pub(super) async fn test_connection(&self) -> Result<(), StoreError> {
        self.tls.check().map_err(|why| self.refused(&why))?;
        match PgConnection::connect_with(&self.options).await {
            Ok(mut connection) => {
                if let Some(warning) = self.tls.warning() {
                    tracing::warn!("{self}: {warning}");
                }
                self.check_durability(&mut connection).await?;
                // The connection is no longer needed, so an error in closing it does not matter.
                let _ = connection.close().await;
                Ok(())
            }
            Err(SqlxError::Configuration(error)) => Err(self.refused(&format!("cannot be used: {error}"))),
            Err(SqlxError::Tls(error)) => Err(self.refused(&format!("TLS failed: {error}"))),
            // The TLS library reports a failed handshake like this. A retry does not help.
            Err(SqlxError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
                Err(self.refused(&format!("TLS failed: {error}")))
            }
            Err(error) => {
                let error = DbErr::Conn(RuntimeErr::SqlxError(error.into()));
                let why = error.to_string();
                Err(if is_unavailable(&error) {
                    error.into()
                } else {
                    self.refused(&format!("cannot be used: {why}"))
                })
            }
        }
    }

    /// Checks that the server persists a commit before it acknowledges it. `fsync = off` only causes a warning, because
    /// the disk is the server's responsibility.
    async fn check_durability(&self, connection: &mut PgConnection) -> Result<(), StoreError> {
        const SETTINGS: &str = "SELECT current_setting('synchronous_commit'), current_setting('fsync')";
        let settings = sqlx::query_as::<_, (String, String)>(SETTINGS).fetch_one(connection).await;
        let (commit, fsync) = settings.map_err(|error| DbErr::Query(RuntimeErr::SqlxError(error.into())))?;
        if commit == "off" {
            return Err(self.refused(LOSES_COMMITS));
        }
        if fsync == "off" {
            tracing::warn!("{self}: fsync is off: a loss of power can destroy the database");
        }
        Ok(())
    }

    /// Creates a pool that connects on demand: one connection for writes, or several read-only ones.
    pub(super) fn connections(&self, deadline: Duration, writes: bool) -> DatabaseConnection {
        let millis = |duration: Duration| duration.as_millis().to_string();
        let options = self.options.clone().options([
            ("statement_timeout", millis(deadline)),
            // The server gives up before our deadline, so that we get its reason.
            ("lock_timeout", millis(deadline.mul_f32(0.8))),
            ("idle_in_transaction_session_timeout", millis(deadline.mul_f32(1.5))),
            // After its wait for a lock, a write must read what others have committed meanwhile, whatever the default
            // of the database or of the role.
            ("default_transaction_isolation", "read committed".into()),
            ("default_transaction_read_only", if writes { "off".into() } else { "on".into() }),
        ]);
        let pool = PgPoolOptions::new()
            .max_connections(if writes { 1 } else { READERS })
            .min_connections(0)
            // Our own deadline comes first and closes these connections.
            .acquire_timeout(deadline.saturating_mul(2))
            .idle_timeout(IDLE)
            .max_lifetime(LIFE)
            .connect_lazy_with(options);
        pool.into()
    }

    /// Creates a pool of one connection, opened on demand and without deadlines.
    pub(super) fn single(&self) -> PgPool {
        let pool = PgPoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
        pool.connect_lazy_with(self.options.clone())
    }

    pub(super) fn refused(&self, why: &str) -> StoreError {
        StoreError::Server { server: self.to_string(), why: why.to_owned() }
    }
}
