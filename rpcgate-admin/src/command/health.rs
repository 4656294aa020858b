//! `rpcgate-admin health`: checks the health of the management API on this host.

use super::configuration;
use rpcgate_config::ClientAuth;
use rpcgate_process::health::{ANSWER_WITHIN, ask, awaiting, local, secure};
use rpcgate_process::proxy_protocol::ProxyPeers;
use rpcgate_process::{Failure, HealthArgs};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Asks the management API that the configuration describes, over TLS if the API uses it.
///
/// # Errors
/// [`Failure::Configuration`] for an unusable configuration, [`Failure::Other`] if the API is not healthy.
pub async fn execute(args: &HealthArgs) -> Result<(), Failure> {
    let admin = configuration(&args.file.config)?.admin;
    let addr = local(admin.listen);
    let proxies = ProxyPeers::new(&admin.proxy_protocol);
    let stream = async { proxies.introduce(TcpStream::connect(addr).await?).await };
    if !admin.tls.is_served() {
        return ask(addr, args.path(), stream).await;
    }
    let connected = async { secure(addr, stream.await?).await };
    if admin.tls.client_ca.is_none() || admin.tls.client_auth == ClientAuth::Optional {
        let probed = ask(addr, args.path(), connected).await;
        return probed.map_err(|failure| awaiting(failure, admin.tls.acme));
    }
    // Without a client certificate no request is answered, but the handshake is.
    if args.ready {
        let why = "it asks for a certificate; omit --ready, or set admin.tls.client_auth to \"optional\"";
        return Err(Failure::Refused(format!("{addr}{}: {why}", args.path())));
    }
    match timeout(ANSWER_WITHIN, connected).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(awaiting(Failure::Other(format!("{addr}: {error}")), admin.tls.acme)),
        Err(_) => Err(Failure::Other(format!("{addr}: no answer in time"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::api::Api;
    use crate::testing::Site;
    use rpcgate_config::AcmeSettings;
    use rpcgate_process::ConfigFile;
    use rpcgate_process::tls::{Certificate, CertificatePaths};
    use std::sync::Arc;

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn the_api_at_the_configured_address_is_asked() {
        let site = Site::new().await;
        let api = Api::start(&site.app, "127.0.0.1:0".parse().unwrap(), None).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("rpcgate.toml");
        std::fs::write(&config, format!("[admin]\nlisten = \"{}\"\n", api.addr())).unwrap();
        for ready in [false, true] {
            let args = HealthArgs { file: ConfigFile { config: config.clone() }, ready };
            execute(&args).await.unwrap();
        }
        assert_eq!(api.drain().await, 0);
        let args = HealthArgs { file: ConfigFile { config }, ready: false };
        assert_eq!(execute(&args).await.unwrap_err().code(), 1);
        let args = HealthArgs { file: ConfigFile { config: dir.path().join("none.toml") }, ready: false };
        assert_eq!(execute(&args).await.unwrap_err().code(), 2);
    }

    #[tokio::test]
    async fn an_api_that_requires_headers_of_this_host_gets_one() {
        let site = Site::of("[admin]\nproxy_protocol = [\"127.0.0.1\"]\n").await;
        let api = Api::start(&site.app, "127.0.0.1:0".parse().unwrap(), None).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("rpcgate.toml");
        let text = format!("[admin]\nlisten = \"{}\"\n", api.addr());
        for (more, code) in [("proxy_protocol = [\"127.0.0.1\"]\n", None), ("", Some(1))] {
            std::fs::write(&config, format!("{text}{more}")).unwrap();
            let args = HealthArgs { file: ConfigFile { config: config.clone() }, ready: false };
            assert_eq!(execute(&args).await.err().map(|failure| failure.code()), code, "{more}");
        }
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn an_api_with_tls_is_asked_over_tls_and_with_client_auth_a_handshake_suffices() {
        let site = Site::new().await;
        let dir = tempfile::tempdir().unwrap();
        let pair = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["admin.example".into()]).unwrap();
        let cert = dir.path().join("cert.pem");
        let key = dir.path().join("key.pem");
        let config = dir.path().join("rpcgate.toml");
        std::fs::write(&cert, params.self_signed(&pair).unwrap().pem()).unwrap();
        std::fs::write(&key, pair.serialize_pem()).unwrap();
        for (clients, ready) in [
            ("", None),
            ("client_ca = CERT\nclient_auth = \"optional\"\n", None),
            ("client_ca = CERT\n", Some(4)),
        ] {
            let clients = clients.replace("CERT", &format!("{cert:?}"));
            let text = format!("[admin.tls]\ncert = {cert:?}\nkey = {key:?}\n{clients}");
            std::fs::write(&config, &text).unwrap();
            let tls = configuration(&config).unwrap().admin.tls;
            let paths = CertificatePaths::of_management(&tls, &AcmeSettings::default()).unwrap();
            let certificate = Arc::new(Certificate::load(&paths).unwrap());
            let api = Api::start(&site.app, "127.0.0.1:0".parse().unwrap(), Some(certificate)).unwrap();
            std::fs::write(&config, format!("[admin]\nlisten = \"{}\"\n{text}", api.addr())).unwrap();
            let probe = async |ready| {
                let args = HealthArgs { file: ConfigFile { config: config.clone() }, ready };
                execute(&args).await.err().map(|failure| failure.code())
            };
            assert_eq!((probe(false).await, probe(true).await), (None, ready), "{clients}");
            api.drain().await;
            assert_eq!(probe(false).await, Some(1), "{clients}");
        }
    }
}
