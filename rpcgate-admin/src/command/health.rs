//! `rpcgate-admin health`: whether the management API of this host is well.

use super::configuration;
use crate::process::health::{ask, local};
use crate::process::proxy_protocol::ProxyPeers;
use crate::process::{Failure, HealthArgs};
use tokio::net::TcpStream;

/// Asks the management API that the configuration describes.
///
/// # Errors
/// [`Failure::Configuration`] for an unusable configuration, [`Failure::Other`] if the API is not well.
pub async fn execute(args: &HealthArgs) -> Result<(), Failure> {
    let admin = configuration(&args.file.config)?.admin;
    let (addr, proxies) = (local(admin.listen), ProxyPeers::new(&admin.proxy_protocol));
    ask(addr, args.path(), async { proxies.introduce(TcpStream::connect(addr).await?).await }).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::management::app_state::tests::Site;
    use crate::process::ConfigFile;
    use crate::services::api::Api;

    #[tokio::test]
    async fn the_api_at_the_configured_address_is_asked() {
        let site = Site::new().await;
        let api = Api::start(&site.app, "127.0.0.1:0".parse().unwrap()).unwrap();
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
        let api = Api::start(&site.app, "127.0.0.1:0".parse().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("rpcgate.toml");
        let text = format!("[admin]\nlisten = \"{}\"\n", api.addr());
        for (more, code) in [("proxy_protocol = [\"127.0.0.1\"]\n", None), ("", Some(1))] {
            std::fs::write(&config, format!("{text}{more}")).unwrap();
            let args = HealthArgs { file: ConfigFile { config: config.clone() }, ready: false };
            assert_eq!(execute(&args).await.err().map(|failure| failure.code()), code, "{more}");
        }
    }
}
