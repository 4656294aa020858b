//! PostgreSQL and Redis servers with TLS.

use crate::cluster::all_reports;
use crate::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rpcgate_store::{Store, StoreError};
use rpcgate_tests::services::postgres::Postgres;
use rpcgate_tests::services::redis::RedisServer;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        // Clients find it by its name, which must be unique.
        authority.distinguished_name.push(DnType::CommonName, format!("authority {number}"));
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Authority { folder, issuer }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Returns a certificate for `name`, and its key.
    fn certificate(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (certificate.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// Returns the files of a certificate, its key and the authority's certificate.
    fn files(&self, name: &str) -> [PathBuf; 3] {
        let (certificate, key) = self.certificate(name);
        let files = ["crt", "key"].map(|end| self.folder.path().join(format!("{name}.{end}")));
        fs::write(&files[0], certificate).unwrap();
        fs::write(&files[1], key).unwrap();
        let [certificate, key] = files;
        [certificate, key, self.file()]
    }

    fn postgres(&self) -> Postgres {
        let (certificate, key) = self.certificate("localhost");
        Postgres::secure(&certificate, &key)
    }

    fn redis(&self, requires_client_certificate: bool) -> RedisServer {
        RedisServer::secure(&self.files("localhost"), requires_client_certificate)
    }
}

/// Returns the URL of a database with this host name of its server and these parameters.
fn by_name(url: &str, host: &str, parameters: &str) -> String {
    format!("{}?{parameters}", url.replace("127.0.0.1", host))
}

/// Returns the URL of a Redis server with the host name in its certificate.
fn redis_url(redis: &RedisServer, parameters: &str) -> String {
    format!("rediss://localhost:{}/0?{parameters}", redis.secure_port())
}

/// Opens a database; tries again if that takes too long on a busy machine.
async fn open(url: &str) -> Result<(), StoreError> {
    loop {
        match Store::open(url, true).await {
            Err(StoreError::Unavailable(why)) if why.starts_with("no answer within") => {}
            opened => return opened.map(drop),
        }
    }
}

/// Waits until a gateway has logged `words`, and returns the message of that line.
async fn said(process: &Process, words: &str) -> String {
    let message = || Some(process.log().lines(words).first()?["message"].as_str()?.to_owned());
    let look = async {
        while message().is_none() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let is_said = tokio::time::timeout(TIMEOUT, look).await.is_ok();
    assert!(is_said, "it never says {words:?}:\n{}", process.log().text());
    message().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn gateways_count_together_and_bill_over_tls_as_they_do_without() {
    let seed = TestSeed::new();
    let numbers = Arc::<AtomicU64>::default();
    let nodes = Nodes::start().await;
    let authority = Authority::new();
    let postgres = authority.postgres();
    let redis = authority.redis(false);
    let trust = format!("sslrootcert={}", authority.file().display());
    let url = by_name(&postgres.database(), "localhost", &format!("sslmode=verify-full&{trust}"));
    let urls = (url, redis_url(&redis, &trust));
    let cluster = Cluster::on(postgres, redis, urls, 2, nodes.setup()).await;
    let processes = cluster.start().await;
    let key = cluster.key(Tier::Enterprise).await;
    let loads: Vec<_> =
        processes.iter().map(|process| Load::start(process.addr(), 4, &seed, &numbers)).collect();
    until("some answers", || loads.iter().all(|load| load.answered() > 100)).await;
    let clients: Vec<_> = processes.iter().map(|process| key.client(process.addr())).collect();
    for client in &clients {
        assert_eq!(client.call("eth", "eth_chainId", "[]").await.status, 200);
    }
    cluster.store.revoke_key(key.tenant, key.key, now()).await.unwrap();
    let look = async {
        for client in &clients {
            while client.call("eth", "eth_chainId", "[]").await.status != 401 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, look).await.is_ok(), "a change is not published");
    let report = all_reports(loads).await;
    ledger::agrees(&cluster.stored_usage().await, &report).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_postgres), ignore = "needs postgresql (apt install postgresql)")]
async fn a_postgresql_server_is_trusted_exactly_according_to_its_url() {
    let authority = Authority::new();
    let other = Authority::new();
    let server = authority.postgres();
    let url = server.database();
    let its = authority.file();
    let others = other.file();
    let its = its.display();
    let others = others.display();
    for (host, parameters) in [
        ("localhost", format!("sslmode=verify-full&sslrootcert={its}")),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={its}")),
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", "sslmode=prefer".to_owned()),
    ] {
        let opened = open(&by_name(&url, host, &parameters)).await;
        assert!(opened.is_ok(), "{host} {parameters}: {opened:?}");
    }
    for (host, parameters, why) in [
        ("localhost", format!("sslmode=verify-full&sslrootcert={others}"), "UnknownIssuer"),
        ("localhost", "sslmode=verify-full".to_owned(), "UnknownIssuer"),
        ("localhost", "sslmode=verify-full&sslrootcert=system".to_owned(), "UnknownIssuer"),
        ("127.0.0.1", format!("sslmode=verify-full&sslrootcert={its}"), "not valid for name"),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={others}"), "UnknownIssuer"),
        ("localhost", format!("sslmode=verify-full&sslrootcert={its}.gone"), "ca.pem.gone: No such file"),
        ("127.0.0.1", "sslmode=disable".to_owned(), "no encryption"),
    ] {
        let error = open(&by_name(&url, host, &parameters)).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, StoreError::Server { .. }), "{host} {parameters}: {text}");
        assert!(text.starts_with(&format!("{host}:")) && text.contains(why), "{host} {parameters}: {text}");
        assert!(!text.contains("secret"), "{text}");
    }
    let bare = Postgres::shared().database();
    let error = open(&by_name(&bare, "127.0.0.1", "sslmode=require")).await.unwrap_err().to_string();
    assert!(error.contains("does not support TLS") && !error.contains("secret"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_postgres), ignore = "needs postgresql (apt install postgresql)")]
async fn a_gateway_logs_that_it_does_not_trust_its_database_and_starts_once_it_does() {
    let authority = Authority::new();
    let other = Authority::new();
    let server = authority.postgres();
    let file = other.folder.path().join("trusted.pem");
    fs::copy(other.file(), &file).unwrap();
    let parameters = format!("sslmode=verify-full&sslrootcert={}", file.display());
    let url = by_name(&server.database(), "localhost", &parameters);
    let node = Node::evm().await;
    let site = Site::on(&url, Setup::of("eth", &node.url()));
    let process = site.begin().await;
    // On a busy machine an earlier attempt may have been too slow.
    let line = said(&process, "TLS failed").await;
    assert!(line.starts_with("waiting for the database, unready until then: localhost:"), "{line}");
    assert!(line.contains("UnknownIssuer"), "{line}");
    fs::copy(authority.file(), &file).unwrap();
    process.ready().await;
    assert_eq!(process.client().call("eth", "eth_chainId", "[]").await.status, 200);
    assert!(!process.log().text().contains("secret"), "{}", process.log().text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn an_untrusted_redis_is_logged_and_fails_no_call() {
    let authority = Authority::new();
    let other = Authority::new();
    let redis = authority.redis(false);
    let its = authority.file();
    let others = other.file();
    let at = |host: &str, parameters: &str| {
        format!("rediss://user:secret@{host}:{}/0?{parameters}", redis.secure_port())
    };
    let node = Node::evm().await;
    for (url, why) in [
        (at("localhost", &format!("sslrootcert={}", others.display())), "UnknownIssuer"),
        (at("localhost", ""), "UnknownIssuer"),
        (at("127.0.0.1", &format!("sslrootcert={}", its.display())), "not valid for name"),
    ] {
        let setup = Setup::of("eth", &node.url()).set("redis", &format!("url = \"{url}\""));
        let process = Site::new(setup).start().await;
        let line = said(&process, why).await;
        assert!(line.starts_with("redis: ") && line.ends_with("; this gateway counts alone"), "{line}");
        assert_eq!(process.client().call("eth", "eth_chainId", "[]").await.status, 200);
        assert!(!process.log().text().contains("secret"), "{}", process.log().text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn a_redis_that_requires_a_client_certificate_gets_one() {
    let authority = Authority::new();
    let redis = authority.redis(true);
    let [certificate, key, roots] = authority.files("gateway");
    let trust = format!("sslrootcert={}", roots.display());
    let shown = format!("{trust}&sslcert={}&sslkey={}", certificate.display(), key.display());
    let node = Node::evm().await;
    for (parameters, words) in [(shown, "redis: counting together"), (trust, "this gateway counts alone")] {
        let url = redis_url(&redis, &parameters);
        let setup = Setup::of("eth", &node.url()).set("redis", &format!("url = \"{url}\""));
        let process = Site::new(setup).start().await;
        said(&process, words).await;
    }
}
