//! `rpcgate-server health`: checks the gateway of this host.

use rpcgate_process::health::{ask, awaiting, local, secure};
use rpcgate_process::proxy_protocol::ProxyPeers;
use rpcgate_process::{Failure, HealthArgs, load};
use tokio::net::TcpStream;

/// Asks the configured gateway for its readiness, over TLS if it listens so.
///
/// # Errors
/// [`Failure::Configuration`] for an unusable configuration, [`Failure::Other`] if the gateway is not well.
pub async fn execute(args: &HealthArgs) -> Result<(), Failure> {
    let config = load(Some(&args.file.config), &[], &[])?;
    let addr = local(config.gateway.listen);
    let proxies = ProxyPeers::new(&config.gateway.proxy_protocol);
    let stream = async { proxies.introduce(TcpStream::connect(addr).await?).await };
    if config.gateway.tls.covers_http() {
        let outcome = ask(addr, args.path(), async { secure(addr, stream.await?).await }).await;
        outcome.map_err(|failure| awaiting(failure, config.gateway.tls.acme))
    } else {
        ask(addr, args.path(), stream).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::{Gateway, StartOptions};
    use rpcgate_config::Setting;
    use rpcgate_process::ConfigFile;
    use std::path::Path;

    /// Starts a gateway with the settings `text`, and writes a file that names its address.
    async fn started(dir: &Path, text: &str) -> (Gateway, HealthArgs) {
        let config = dir.join("rpcgate.toml");
        std::fs::write(&config, text).unwrap();
        let anywhere = [Setting::new("--gateway", "gateway.listen", "127.0.0.1:0")];
        let loaded = load(Some(&config), &[], &anywhere).unwrap();
        let gateway = Gateway::start(loaded, StartOptions::default()).await.unwrap();
        std::fs::write(&config, format!("gateway.listen = \"{}\"\n{text}", gateway.addr())).unwrap();
        (gateway, HealthArgs { file: ConfigFile { config }, ready: true })
    }

    // Shows (Commands and configuration): `health` asks the process on the same host, over TLS if it listens with TLS,
    // with a bound on time and bytes.
    #[tokio::test]
    async fn a_serving_gateway_is_healthy_and_a_stopped_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (gateway, args) = started(dir.path(), "").await;
        execute(&args).await.unwrap();
        execute(&HealthArgs { ready: false, ..args.clone() }).await.unwrap();
        gateway.drain().await;
        assert_eq!(execute(&args).await.unwrap_err().code(), 1);
    }

    #[tokio::test]
    async fn a_gateway_that_requires_headers_of_this_host_gets_one() {
        let dir = tempfile::tempdir().unwrap();
        let (gateway, args) = started(dir.path(), "gateway.proxy_protocol = [\"127.0.0.0/8\"]\n").await;
        execute(&args).await.unwrap();
        let plain = ask(gateway.addr(), args.path(), TcpStream::connect(gateway.addr())).await;
        assert!(plain.is_err(), "others are not answered");
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn a_gateway_behind_tls_is_asked_over_tls_for_any_name_in_its_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let pair = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["gw.example.com".into()]).unwrap();
        let cert = dir.path().join("cert.pem");
        let key = dir.path().join("key.pem");
        std::fs::write(&cert, params.self_signed(&pair).unwrap().pem()).unwrap();
        std::fs::write(&key, pair.serialize_pem()).unwrap();
        let text =
            format!("gateway.tls.cert = \"{}\"\ngateway.tls.key = \"{}\"\n", cert.display(), key.display());
        let (_gateway, args) = started(dir.path(), &text).await;
        execute(&args).await.unwrap();
        let plain = local(load(Some(&args.file.config), &[], &[]).unwrap().gateway.listen);
        assert!(ask(plain, args.path(), TcpStream::connect(plain)).await.is_err(), "it speaks TLS alone");
    }

    #[tokio::test]
    async fn a_configuration_with_a_fault_is_reported_as_such() {
        let config = "/nonexistent/rpcgate.toml".into();
        let args = HealthArgs { file: ConfigFile { config }, ready: false };
        assert_eq!(execute(&args).await.unwrap_err().code(), 2);
    }
}
