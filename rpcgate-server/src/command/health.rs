//! `rpcgate-server health`: whether the gateway of this host is well.

use rpcgate_admin::process::health::{ask, local};
use rpcgate_admin::process::proxy_protocol::ProxyPeers;
use rpcgate_admin::process::{Failure, HealthArgs, load};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Asks the gateway that the configuration describes, over TLS if it listens so.
///
/// # Errors
/// [`Failure::Configuration`] for an unusable configuration, [`Failure::Other`] if the gateway is not well.
pub async fn execute(args: &HealthArgs) -> Result<(), Failure> {
    let config = load(Some(&args.file.config), &[], &[])?;
    let addr = local(config.gateway.listen);
    let proxies = ProxyPeers::new(&config.gateway.proxy_protocol);
    let stream = async { proxies.introduce(TcpStream::connect(addr).await?).await };
    if config.gateway.tls.covers_http() {
        ask(addr, args.path(), async { secure(addr, stream.await?).await }).await
    } else {
        ask(addr, args.path(), stream).await
    }
}

async fn secure(addr: SocketAddr, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config)).connect(ServerName::IpAddress(addr.ip().into()), stream).await
}

/// Accepts every certificate: that of a gateway is for its public name, not for the address of its own host; what is asked
/// is no secret, and no answer is trusted further than for the health of this host.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::{Gateway, StartOptions};
    use rpcgate_admin::process::ConfigFile;
    use rpcgate_core::config::Setting;
    use std::path::Path;

    /// A gateway with the settings `text`, and a file that names its address.
    async fn started(dir: &Path, text: &str) -> (Gateway, HealthArgs) {
        let config = dir.join("rpcgate.toml");
        std::fs::write(&config, text).unwrap();
        let anywhere = [Setting::new("--gateway", "gateway.listen", "127.0.0.1:0")];
        let loaded = load(Some(&config), &[], &anywhere).unwrap();
        let gateway = Gateway::start(loaded, StartOptions::default()).await.unwrap();
        std::fs::write(&config, format!("gateway.listen = \"{}\"\n{text}", gateway.addr())).unwrap();
        (gateway, HealthArgs { file: ConfigFile { config }, ready: true })
    }

    #[tokio::test]
    async fn a_gateway_that_serves_is_well_and_one_that_is_gone_is_not() {
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

    #[tokio::test]
    async fn a_gateway_behind_tls_is_asked_over_tls_whatever_name_its_certificate_has() {
        let dir = tempfile::tempdir().unwrap();
        let pair = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["gw.example.com".into()]).unwrap();
        let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
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
