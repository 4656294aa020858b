use super::*;
use crate::Swept;

/// The number of old audit entries, enough for several steps.
const OLD: u64 = 3_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_sweep_at_once_remove_everything_once() {
    let (site, store) = empty().await;
    let other = site.store_within(Duration::from_secs(60)).await.unwrap();
    let noted = entry("old");
    store
        .transact(async |transaction| {
            for _ in 0..OLD {
                super::super::audit::append(transaction, &noted).await?;
            }
            Ok(())
        })
        .await
        .unwrap();
    let late = later(400 * 86_400);
    let sweep = |store: Store| tokio::spawn(async move { store.sweep(late).await.unwrap().audit });
    let one = sweep(store.clone());
    let two = sweep(other);
    assert_eq!(one.await.unwrap() + two.await.unwrap(), OLD);
    assert_eq!(store.sweep(late).await.unwrap(), Swept::default(), "nothing is left");
}

/// The tables of a sweep, with the columns that make a row old where the value 1 in each number does not.
const SWEPT: [(&str, &[(&str, &str)]); 28] = [
    ("access_tokens", &[]),
    ("attempts", &[]),
    ("audit", &[]),
    ("changes", &[]),
    ("checkouts", &[]),
    ("config_versions", &[]),
    ("confirmations", &[]),
    ("contracts", &[("ends_at", "1")]),
    ("custom_plans", &[("deleted_at", "1")]),
    ("explanation_requests", &[]),
    ("idempotency", &[]),
    ("invitations", &[]),
    ("keys", &[("revoked_at", "1")]),
    ("known_devices", &[]),
    ("limit_requests", &[("reviewed_at", "1")]),
    ("mail_tokens", &[]),
    ("mailed_notifications", &[]),
    ("notices", &[]),
    ("notification_reads", &[]),
    ("pending_log_ins", &[]),
    ("projects", &[("deleted_at", "1")]),
    ("refreshes", &[]),
    ("sessions", &[]),
    ("solved", &[]),
    ("tenants", &[("deleted_at", "1"), ("is_empty", "0"), ("tier", "'free'")]),
    ("ticket_attachments", &[]),
    ("tier_changes", &[]),
    ("users", &[("tenant_id", "(SELECT id FROM tenants ORDER BY id LIMIT 1)")]),
];

const STUCK: &str = "this row stays";

struct TableColumn {
    name: String,
    kind: String,
    is_required: bool,
    is_key: bool,
}

/// Adds two old rows to each swept table. A trigger refuses to remove the first one. (A reference to it does not
/// suffice: rows here have no parents, and SQLite lets a statement break one reference if it also removes a row without
/// a parent.) Tables whose newest row always stays get a third one.
async fn put_stuck_rows(file: &std::path::Path) {
    let url = format!("sqlite://{}", file.display());
    let mut options = sea_orm::ConnectOptions::new(url);
    let database = sea_orm::Database::connect(options.max_connections(1).to_owned()).await.unwrap();
    database.execute_unprepared("PRAGMA foreign_keys = OFF").await.unwrap();
    for (table, old) in SWEPT {
        let sql = format!("SELECT name, type, \"notnull\", pk FROM pragma_table_info('{table}')");
        let rows = database.query_all_raw(Statement::from_string(database.get_database_backend(), sql)).await;
        let columns: Vec<_> = rows
            .unwrap()
            .iter()
            .map(|row| TableColumn {
                name: row.try_get_by_index(0).unwrap(),
                kind: row.try_get_by_index::<String>(1).unwrap().to_lowercase(),
                is_required: row.try_get_by_index::<i32>(2).unwrap() == 1,
                is_key: row.try_get_by_index::<i32>(3).unwrap() > 0,
            })
            .collect();
        let keeps_newest = ["changes", "config_versions"].contains(&table);
        for number in 1..=(2 + i32::from(keeps_newest)) {
            let values: Vec<_> = columns
                .iter()
                .map(|column| match old.iter().find(|(name, _)| *name == column.name) {
                    Some((_, value)) => (*value).to_owned(),
                    None if !column.is_required && !column.is_key => "NULL".to_owned(),
                    None if column.kind.contains("int") && column.is_key => number.to_string(),
                    None if column.kind.contains("int") || column.kind.contains("bool") => "1".to_owned(),
                    None if column.kind.contains("uuid") || column.kind.contains("blob") => {
                        "randomblob(16)".to_owned()
                    }
                    None if keeps_newest => "'same'".to_owned(),
                    None => format!("'text {number}'"),
                })
                .collect();
            let sql = format!("INSERT INTO {table} VALUES ({})", values.join(", "));
            database.execute_unprepared(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        let keys: Vec<_> =
            columns.iter().filter(|column| column.is_key).map(|column| column.name.as_str()).collect();
        let same: Vec<_> = keys.iter().map(|key| format!("stuck_{table}.{key} = OLD.{key}")).collect();
        let same = same.join(" AND ");
        let keys = keys.join(", ");
        let trigger = format!(
            "CREATE TABLE stuck_{table} AS SELECT {keys} FROM {table} ORDER BY {keys} LIMIT 1;
             CREATE TRIGGER refused_{table} BEFORE DELETE ON {table}
             WHEN EXISTS (SELECT 1 FROM stuck_{table} WHERE {same})
             BEGIN SELECT RAISE(ABORT, '{STUCK}'); END"
        );
        database.execute_unprepared(&trigger).await.unwrap_or_else(|error| panic!("{trigger}: {error}"));
    }
    database.close().await.unwrap();
}

// Shows (Accounts and second factors): Registration, log-in and cleanup continue if single rows cannot be removed
// (promise 81).
#[tokio::test]
async fn a_row_that_cannot_be_removed_blocks_no_other_row_registration_or_log_in() {
    let site = TestDatabase::file();
    let store = site.store_within(Duration::from_secs(60)).await.unwrap();
    put_stuck_rows(&site.folder().unwrap().join(crate::testing::FILE)).await;
    let now = later(500 * 86_400);
    let failed = store.sweep(now).await.unwrap_err();
    for (table, _) in SWEPT {
        let stuck = 1 + i64::from(["changes", "config_versions"].contains(&table));
        assert_eq!(rows(&store, table).await, stuck, "{table}: {failed}");
    }
    assert_eq!(failed.steps.len(), SWEPT.len(), "{failed}");
    assert!(failed.to_string().contains(STUCK), "{failed}");
    // The account that cannot be removed gives up its address nevertheless.
    let sql = "SELECT email FROM users";
    let stuck = store.read(async |database| {
        let row = Statement::from_string(database.get_database_backend(), sql);
        Ok(database.query_one_raw(row).await?.unwrap().try_get_by_index::<String>(0)?)
    });
    let taken = stuck.await.unwrap();
    let tenant = tenant(TenantId(77));
    let user = User { tenant: Some(tenant.id), ..user(77, &taken) };
    let registration = crate::Registration {
        tenant: &tenant,
        user: &user,
        confirmation: Digest::of("confirmation"),
        confirmation_expires_at: now.plus(Duration::from_secs(60)),
        solved: Some((Digest::of("solution"), now)),
    };
    let registered = store.register(&registration, &entry("user.registered"), now).await.unwrap();
    assert_eq!(registered, crate::Registered::Done);
    assert_eq!(store.user_by_email(&taken).await.unwrap().unwrap().id, user.id);
    let counted = store.begin_attempt(crate::AttemptKind::LogIns(&taken), now).await.unwrap();
    assert!(matches!(counted, crate::Attempt::Allowed(_)), "{counted:?}");
}
