//! Detects programs that use a database: by their connections or SQLite's log, by gateway reports, and by watcher
//! leases.

use super::TransferError;
use crate::database_location::DatabaseLocation;
use crate::entity::{gateways, watched_chains};
use crate::query::value::moment;
use crate::server::Server;
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::sqlx;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use std::fs;
use std::time::Duration;

/// A gateway that has reported within this time counts as running.
const FRESH: Duration = Duration::from_secs(60);
/// The number of checks after which the connections of a program that has just ended are gone.
const LOOKS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(200);

pub(super) async fn refuse_connected(location: &DatabaseLocation) -> Result<(), TransferError> {
    match location {
        DatabaseLocation::File(_) => {
            for file in [location.clone(), location.usage()] {
                let DatabaseLocation::File(file) = file else { continue };
                let mut log = file.clone().into_os_string();
                log.push("-wal");
                // The last program that closes a database removes its log.
                if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
                    let file = file.display();
                    return Err(TransferError::InUse(format!(
                        "{file} is in use, or the last program that used it was killed (then `rpcgate-admin migrate` \
                         completes it)"
                    )));
                }
            }
            Ok(())
        }
        DatabaseLocation::Server(server) => {
            server.test_connection().await?;
            for look in 0..LOOKS {
                if look > 0 {
                    tokio::time::sleep(PAUSE).await;
                }
                if others(server).await? == 0 {
                    return Ok(());
                }
            }
            Err(TransferError::InUse(format!("programs of rpcgate are connected to {server}")))
        }
    }
}

async fn others(server: &Server) -> Result<i64, StoreError> {
    const COUNT: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                         AND application_name = 'rpcgate' AND pid <> pg_backend_pid()";
    let pool = server.single();
    let found = sqlx::query_as::<_, (i64,)>(COUNT).fetch_one(&pool).await;
    pool.close().await;
    let (others,) =
        found.map_err(|error| sea_orm::DbErr::Query(sea_orm::RuntimeErr::SqlxError(error.into())))?;
    Ok(others)
}

/// Refuses a database to which a gateway has reported recently, or in which a watcher has a lease.
pub(super) async fn refuse_reporting(store: &Store, now: Time) -> Result<(), TransferError> {
    let fresh = moment(now).saturating_sub(i64::try_from(FRESH.as_micros()).unwrap_or(i64::MAX));
    let (gateways, chains) = store
        .read(async |database| {
            let reported = gateways::Entity::find().filter(gateways::Column::SeenAt.gt(fresh));
            let watched =
                watched_chains::Entity::find().filter(watched_chains::Column::WatchedUntil.gt(moment(now)));
            Ok((reported.count(database).await?, watched.count(database).await?))
        })
        .await?;
    if gateways > 0 {
        return Err(TransferError::InUse(format!(
            "{gateways} gateways have reported within the last minute"
        )));
    }
    if chains > 0 {
        return Err(TransferError::InUse(format!("{chains} chains are being watched")));
    }
    Ok(())
}
