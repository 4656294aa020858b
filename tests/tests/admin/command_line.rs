//! The commands with which operators manage tenants, projects, keys, plans and users: the real program on real
//! databases, with or without a management service that runs at the same time.

use crate::admin_command::{Finished, admin, admin_with, command};
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::clock::{Clock, SystemClock, Time};
use rpcgate_core::plan::Tier;
use rpcgate_management::shape::moment::Moment;
use rpcgate_store::{Audit, AuditSubject, Project, Role, Store, Tenant, User, UserId, fresh_id, url_of};
use rpcgate_tests::TIMEOUT;
use rpcgate_tests::admin::{ApiUser, PASSWORD};
use rpcgate_tests::gateway::START;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::timeout;

struct Databases {
    folder: TempDir,
    file: PathBuf,
    store: Store,
    tenants: AtomicU64,
}

/// Returns the URL of a new database: on PostgreSQL if this file is included under that name.
fn url(folder: &TempDir) -> String {
    #[cfg(have_postgres)]
    if module_path!().contains("on_postgres") {
        return rpcgate_tests::services::postgres::Postgres::shared().database();
    }
    url_of(&folder.path().join("rpcgate.db"))
}

fn now() -> Time {
    SystemClock::new().now()
}

impl Databases {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = url(&folder);
        let file = folder.path().join("rpcgate.toml");
        let outbox = folder.path().join("outbox");
        let text = format!(
            "[gateway]\nkey_secret = \"the same at every host\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
             [admin.jwt]\nsecret = \"the same at every host, and long enough\"\n\
             [admin.mail]\noutbox = \"{}\"\n[database]\nurl = \"{url}\"\n",
            outbox.display()
        );
        fs::write(&file, text).unwrap();
        assert_eq!(admin(&file, "tenant list").await.code, Some(1), "there is no schema yet");
        let migrated = admin(&file, "migrate").await;
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
        let store = Store::open(&url, false).await.unwrap();
        Databases { folder, file, store, tenants: AtomicU64::new(0) }
    }

    async fn admin(&self, line: &str) -> Finished {
        admin(&self.file, line).await
    }

    /// Creates a tenant, each a minute after the one before, since lists are in the order of creation.
    async fn tenant(&self, name: &str) -> TenantId {
        let minutes = self.tenants.fetch_add(1, Relaxed);
        let now = START.plus(Duration::from_secs(60 * minutes));
        let id = TenantId(fresh_id(now));
        let tenant = Tenant::new(id, name, Tier::Free, now);
        self.store.create_tenant(&tenant).await.unwrap();
        id
    }

    async fn project(&self, tenant: TenantId, name: &str) -> ProjectId {
        let now = now();
        let project = Project::new(ProjectId(fresh_id(now)), tenant, name, now);
        self.store.create_project(&project).await.unwrap();
        project.id
    }

    async fn owner(&self, tenant: TenantId, email: &str) -> UserId {
        let now = now();
        let user = User {
            id: UserId(fresh_id(now)),
            tenant: Some(tenant),
            email: email.into(),
            name: String::new(),
            role: Role::Owner,
            password: None,
            confirmed_at: Some(now),
            created_at: now,
        };
        self.store.create_user(&user).await.unwrap();
        user.id
    }

    /// Returns the audit entries of the command line, oldest first. All of them name no user but the account of this
    /// machine.
    async fn audit(&self) -> Vec<Audit> {
        let mut entries = self.store.audit(AuditSubject::Everyone, 100).await.unwrap();
        entries.reverse();
        for entry in &entries {
            let account = entry.address.strip_prefix("command line (").unwrap();
            assert!(entry.user.is_none() && account.len() > 1 && account.ends_with(')'), "{entry:?}");
        }
        entries
    }
}

/// Returns the action and the details of each entry.
fn told(entries: &[Audit]) -> Vec<(&str, &str)> {
    entries.iter().map(|entry| (entry.action.as_str(), entry.detail.as_str())).collect()
}

// Shows (Commands and configuration): `rpcgate-admin tenant|project|key|plan|custom-plan|contract|invoice|user` uses
// the same actions as the API for operators, with or without a running service; `--json` prints the API's answer; the
// audit names the command line and the account of the machine.
// Shows (Management).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_is_suspended_reactivated_moved_and_deleted_with_an_audit_entry_for_each() {
    let databases = Databases::new().await;
    let bank = databases.tenant("Örtliche Bank").await;
    let shop = databases.tenant("shop").await;
    let suspended = databases.admin("tenant suspend shop --json").await;
    let text = "standard input is not a terminal, so this cannot be confirmed: add --yes";
    assert_eq!(suspended.error(), (Some(2), json!({ "error": text, "code": "invalid" })));
    let suspended = databases.admin("tenant suspend shop --yes --json").await.json();
    assert_eq!(
        (&suspended[0]["id"], &suspended[0]["status"]),
        (&json!(shop.to_string()), &json!("suspended"))
    );
    let moved = databases.admin(&format!("tenant set-plan {bank} premium")).await;
    let text = format!("id: {bank}\nname: Örtliche Bank\nplan: premium\nstatus: active\ncreated at: ");
    assert!(moved.code == Some(0) && moved.out.starts_with(&text), "{moved:?}");
    let names = async |line: &str| {
        let listed = databases.admin(&format!("tenant list --json {line}")).await.json();
        listed.iter().map(|tenant| tenant["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("").await, ["Örtliche Bank", "shop"]);
    assert_eq!(names("--limit 1").await, ["Örtliche Bank"]);
    assert_eq!(names("--status suspended").await, ["shop"]);
    assert_eq!(names("--status active --plan premium").await, ["Örtliche Bank"]);
    assert_eq!(names("--plan enterprise").await, [""; 0]);
    assert_eq!(databases.admin("tenant reactivate shop").await.code, Some(0));
    assert!(!databases.store.tenant(shop).await.unwrap().unwrap().suspended);
    let table = databases.admin("tenant list").await.out;
    let lines: Vec<_> = table.lines().collect();
    assert!(lines[0].starts_with("ID") && lines[0].ends_with("NAME"), "{table}");
    assert!(
        lines[2].starts_with(&format!("{shop}  free        active")) && lines[2].ends_with("  shop"),
        "{table}"
    );
    assert_eq!(databases.admin("tenant delete shop").await.code, Some(2), "nobody can confirm it");
    let deleted = databases.admin("tenant delete shop --yes").await;
    assert!(deleted.code == Some(0) && deleted.out.is_empty(), "{deleted:?}");
    assert_eq!(names("").await, ["Örtliche Bank"]);
    assert_eq!(databases.admin(&format!("tenant show {shop}")).await.code, Some(3));
    let audit = databases.audit().await;
    assert_eq!(
        told(&audit),
        [
            ("tenant.changed", "suspended"),
            ("tenant.changed", "premium"),
            ("tenant.changed", "active"),
            ("tenant.deleted", "shop")
        ]
    );
    assert_eq!(
        audit.iter().map(|entry| entry.tenant).collect::<Vec<_>>(),
        [Some(shop), Some(bank), Some(shop), Some(shop)]
    );
}

// Shows (Commands and configuration).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_printed_once_or_written_into_a_file_of_its_owner() {
    let databases = Databases::new().await;
    let tenant = databases.tenant("bank").await;
    let project = databases.project(tenant, "app").await;
    let created = databases.admin("key create app --description first --chains eth,bitcoin").await;
    let text = created.out.trim_end();
    assert!(created.code == Some(0) && created.messages.is_empty(), "{created:?}");
    assert!(text.starts_with("rpcg_") && text.len() > 40 && !text.contains(char::is_whitespace), "{text}");

    let out = databases.folder.path().join("key.txt");
    let line = format!("key create app --out {} --expires-at 2100-01-31T12:00:00Z --json", out.display());
    let written = databases.admin(&line).await.json();
    let second = fs::read_to_string(&out).unwrap();
    assert!(second.starts_with("rpcg_") && second.ends_with('\n'), "{second}");
    assert_eq!(fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!((&written[0]["key"], &written[0]["prefix"]), (&Value::Null, &json!(second[..12])));
    assert_eq!(written[0]["expires_at"], json!("2100-01-31T12:00:00.000Z"));
    let again = databases.admin(&line).await;
    let (code, error) = again.error();
    assert!(code == Some(2) && error["error"].as_str().unwrap().starts_with("--out: "), "{error}");
    assert_eq!(fs::read_to_string(&out).unwrap(), second, "the file stays");

    let unknown = databases.folder.path().join("other.txt");
    let line = format!("key create app --out {} --chains nochain --json", unknown.display());
    let (code, error) = databases.admin(&line).await.error();
    assert_eq!((code, &error["field"]), (Some(2), &json!("chains")));
    assert!(!unknown.exists(), "no file remains without its key");

    let listed = databases.admin("key list --json").await;
    let keys = listed.json();
    assert_eq!(keys.len(), 2);
    assert_eq!((&keys[0]["chains"], &keys[0]["description"]), (&json!(["btc", "eth"]), &json!("first")));
    assert!(!listed.out.contains(text) && !listed.out.contains(second.trim_end()), "{listed:?}");
    let id = keys[0]["id"].as_str().unwrap();
    let revoke = format!("key revoke {id}");
    assert_eq!(databases.admin(&revoke).await.code, Some(2), "a script has to say --yes");
    assert_eq!(databases.admin("key list --usable --json --project app").await.json().len(), 2);
    for _ in 0..2 {
        let revoked = databases.admin(&format!("{revoke} --yes --json")).await.json();
        assert!(revoked[0]["revoked_at"].is_string(), "{revoked:?}");
    }
    assert_eq!(databases.admin("key list --usable --json --tenant bank").await.json().len(), 1);
    assert_eq!(databases.admin("key list --limit 1 --json").await.json().len(), 1);
    let stored = databases.store.keys(tenant, project).await.unwrap();
    assert!(stored[0].revoked_at.is_some() && stored[1].revoked_at.is_none(), "{stored:?}");
    let audit = databases.audit().await;
    let actions: Vec<_> = audit.iter().map(|entry| (entry.action.as_str(), entry.tenant)).collect();
    let expected = ["key.created", "key.created", "key.revoked"].map(|action| (action, Some(tenant)));
    assert_eq!(actions, expected);
}

// Shows (Commands and configuration).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotas_and_plans_change_by_the_rules_of_the_api() {
    let databases = Databases::new().await;
    let tenant = databases.tenant("bank").await;
    let project = databases.project(tenant, "app").await.to_string();
    let quota = |day: u64, month: Option<u64>, rps: Option<u64>, is_set: bool| {
        json!({"project_id": project, "cu_per_day": day, "cu_per_month": month, "rps_limit": rps,
            "has_quota_row": is_set})
    };
    let set = databases.admin("project set-quota app --rps-limit 3 --cu-per-month 9 --json").await.json();
    assert_eq!(set, [quota(100_000, Some(9), Some(3), true)]);
    let shown = databases.admin("project show app --json").await.json();
    assert_eq!((&shown[0]["name"], &shown[1]), (&json!("app"), &set[0]));
    let large = databases.admin(&format!("project set-quota app --cu-per-day {} --json", u64::MAX)).await;
    assert_eq!(large.json()[0]["cu_per_day"], json!(u64::MAX), "every u64");
    assert_eq!(databases.admin("project set-quota app").await.code, Some(2));
    let cleared = databases.admin("project clear-quota app --yes --json").await.json();
    assert_eq!(cleared, [quota(100_000, None, None, false)]);
    let (code, error) = databases.admin("project clear-quota app --yes --json").await.error();
    assert_eq!((code, &error["code"]), (Some(3), &json!("not_found")));
    assert_eq!(
        databases.admin("project list --json").await.json()[0]["tenant_id"],
        json!(tenant.to_string())
    );

    let plan = databases.admin("plan set free --keys-per-project 1 --price-per-cu 0.5 --json").await.json();
    assert_eq!((&plan[0]["keys_per_project"], &plan[0]["price_per_cu"]), (&json!(1), &json!(0.5)));
    assert_eq!(databases.admin("plan show free --json").await.json(), plan);
    let priced =
        databases.admin("plan set free --cu-per-day 7 --rps-limit 2 --monthly-fee-cents 900 --json").await;
    let priced = priced.json().remove(0);
    assert_eq!((&priced["cu_per_day"], &priced["rps_limit"]), (&json!(7), &json!(2)));
    assert_eq!((&priced["cu_per_month"], &priced["monthly_fee_cents"]), (&json!(null), &json!(900)));
    let shown = databases.admin("project show app --json").await.json();
    assert_eq!(shown[1], quota(7, None, Some(2), false), "it has no quota of its own");
    let later =
        databases.admin("plan set premium --monthly-fee-cents 5 --from 2020-01-01T00:00:00Z --json").await;
    assert_eq!(later.error().0, Some(2), "in the past");
    let from = Moment(SystemClock::new().now().plus(Duration::from_secs(86_400)));
    let later =
        databases.admin(&format!("plan set premium --monthly-fee-cents 5 --from {from} --json")).await;
    let waiting = later.json()[0]["scheduled"][0].clone();
    assert_eq!(
        (&waiting["from"], &waiting["figures"]),
        (&json!(from.to_string()), &json!({"monthly_fee_cents": 5}))
    );
    let withdraw = format!("plan withdraw premium {} --json", waiting["id"].as_str().unwrap());
    assert_eq!(databases.admin(&withdraw).await.json()[0]["scheduled"], json!([]));
    let tiers = databases.admin("plan list --json").await.json();
    let tiers: Vec<_> = tiers.iter().map(|plan| plan["tier"].as_str().unwrap()).collect();
    assert_eq!(tiers, ["free", "standard", "premium", "enterprise"]);
    let (code, error) = databases.admin("plan set free --per-minute 0 --json").await.error();
    assert_eq!((code, &error["field"]), (Some(2), &json!("per_minute")));
    assert_eq!(databases.admin("key create app").await.code, Some(0));
    let (code, error) = databases.admin("key create app --json").await.error();
    assert_eq!((code, &error["code"]), (Some(4), &json!("limit_reached")));
    let audit = databases.audit().await;
    let expected = [
        ("quota.set", "cu_per_day 100000, cu_per_month 9, rps_limit 3"),
        ("quota.set", "cu_per_day 18446744073709551615, cu_per_month none, rps_limit none"),
        ("quota.deleted", ""),
        ("plan.changed", "price_per_cu 0.5, keys_per_project 1"),
        ("plan.changed", "cu_per_day 7, rps_limit 2, monthly_fee_cents 900"),
    ];
    assert_eq!(told(&audit)[..5], expected);
}

// Shows (Commands and configuration).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_list_is_printed_whole_and_a_closed_pipe_is_not_an_error() {
    const TENANTS: usize = 1_050;
    let databases = Databases::new().await;
    for number in 0..TENANTS {
        databases.tenant(&format!("tenant {number}")).await;
    }
    let listed = databases.admin("tenant list --json").await.json();
    let ids: Vec<_> = listed.iter().map(|tenant| tenant["id"].as_str().unwrap()).collect();
    assert!(ids.len() == TENANTS && ids.is_sorted(), "{}", ids.len());
    assert_eq!(databases.admin("tenant list --limit 1001 --json").await.json().len(), 1_001);
    let mut command = command(&databases.file, "tenant list --json");
    let head = move || {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        // One line is read, then the pipe is closed.
        BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (line, child.wait_with_output().unwrap())
    };
    let (line, output) = tokio::task::spawn_blocking(head).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), listed[0]);
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

// Shows (Commands and configuration).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_and_a_running_service_see_and_print_the_same() {
    let databases = Databases::new().await;
    let made = admin_with(
        &databases.file,
        "operator create --email operator@example.com --password-stdin",
        Some(&format!("{PASSWORD}\n")),
    )
    .await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let tenant = databases.tenant("bank").await;
    let project = databases.project(tenant, "app").await;
    let owner = databases.owner(tenant, "ada@example.com").await;
    let mut service = Service::start(&databases).await;
    let mut operator = ApiUser::at(service.addr.parse().unwrap());
    operator.log_in("operator@example.com").await;
    for (line, path) in [
        (format!("tenant set-plan {tenant} premium"), format!("/operator/tenants/{tenant}")),
        (
            format!("project set-quota {project} --cu-per-day 7"),
            format!("/operator/projects/{project}/quota"),
        ),
        ("plan set premium --per-minute 77".to_owned(), "/operator/plans/premium".to_owned()),
    ] {
        let printed = databases.admin(&format!("{line} --json")).await.json();
        assert_eq!(printed, [operator.shown(&path).await], "{line}");
    }
    let users = operator.shown(&format!("/operator/users?tenant_id={tenant}")).await;
    assert_eq!(json!(databases.admin("user list --tenant bank --json").await.json()), users);
    operator.put(&format!("/operator/tenants/{tenant}"), &json!({ "status": "suspended" })).await;
    let suspended = databases.admin("tenant list --status suspended --json").await.json();
    assert_eq!(json!(suspended), operator.shown("/operator/tenants").await);
    let disabled = databases.admin("user disable ada@example.com --yes --json").await.json();
    assert!(
        disabled[0]["disabled_at"].is_string() && disabled[0]["id"] == json!(owner.to_string()),
        "{disabled:?}"
    );
    let audit = operator.shown("/operator/audit?action=user").await;
    let address = audit[0]["address"].as_str().unwrap();
    assert!(audit[0]["user_id"].is_null() && address.starts_with("command line ("), "{audit}");
    // The service sends the mail that the command has stored.
    let outbox = databases.folder.path().join("outbox");
    let told = async {
        while fs::read_dir(&outbox).map_or(0, Iterator::count) == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(TIMEOUT, told).await.is_ok(), "no mail was sent");
    service.stop();
}

// Shows (Commands and configuration): Commands have exit codes for usage, not found, refused, and an unreachable
// database; a list of any length is printed whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_missing_or_away_and_a_wrong_file_have_exit_codes_of_their_own() {
    let databases = Databases::new().await;
    let text = fs::read_to_string(&databases.file).unwrap();
    let (code, error) = databases.admin("tenant show nobody --json").await.error();
    assert_eq!(
        (code, error),
        (Some(3), json!({ "error": "there is no tenant `nobody`", "code": "not_found" }))
    );
    fs::write(&databases.file, text.replace("[database]", "[databases]")).unwrap();
    let wrong = databases.admin("tenant list").await;
    assert!(wrong.code == Some(2) && wrong.messages.contains("rpcgate.toml:"), "{wrong:?}");
    // It does not listen, and nothing else gets its port.
    let mute = tokio::net::TcpSocket::new_v4().unwrap();
    mute.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let free = mute.local_addr().unwrap();
    let away = format!("url = \"postgres://ada:not-shown@{free}/rpcgate\"");
    let lines = text.lines().map(|line| if line.starts_with("url = ") { away.as_str() } else { line });
    fs::write(&databases.file, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let (code, error) = databases.admin("tenant list --json").await.error();
    assert_eq!((code, &error["code"]), (Some(5), &json!("unavailable")), "{error}");
    assert!(!error.to_string().contains("not-shown"), "{error}");
}

/// `rpcgate-admin run` as a separate process.
struct Service {
    child: std::process::Child,
    addr: String,
}

impl Service {
    async fn start(databases: &Databases) -> Self {
        let mut child = command(&databases.file, "run").spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let listening = move || {
            loop {
                let mut line = String::new();
                assert!(log.read_line(&mut line).unwrap() > 0, "it does not start");
                let line: Value = serde_json::from_str(&line).unwrap_or_default();
                let addr = line["addr"].as_str().or_else(|| line["listen"].as_str());
                if let Some(addr) =
                    addr.filter(|_| line["message"].as_str().is_some_and(|text| text.contains("serving")))
                {
                    let addr = addr.to_owned();
                    // The log is read on, so that the service never waits for its reader.
                    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
                    return addr;
                }
            }
        };
        let addr = timeout(TIMEOUT, tokio::task::spawn_blocking(listening)).await.unwrap().unwrap();
        Service { child, addr }
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}
