//! The gateway's URLs for its users.

use rpcgate_config::Config;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// The gateway's URLs for its users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewayUrls {
    http: String,
    grpc: Option<String>,
}

impl GatewayUrls {
    /// Takes the URLs from `admin.gateway_url` and `admin.grpc_url`, or else from the gateway's own listeners.
    pub fn of(config: &Config) -> Self {
        let Config { gateway, admin, .. } = config;
        let http = match &admin.gateway_url {
            Some(url) => url.expose().trim_end_matches('/').to_owned(),
            None if gateway.tls.covers_http() => format!("https://{}", reachable(gateway.listen)),
            None => format!("http://{}", reachable(gateway.listen)),
        };
        let grpc = match &admin.grpc_url {
            Some(url) => Some(authority(url.expose())),
            None => gateway.grpc_listen.map(|listen| reachable(listen).to_string()),
        };
        GatewayUrls { http, grpc }
    }

    /// Returns the HTTP URL of a chain.
    pub fn http(&self, chain: &str) -> String {
        format!("{}/{chain}", self.http)
    }

    /// Returns the WebSocket URL of a chain.
    pub fn ws(&self, chain: &str) -> String {
        let rest = self.http.strip_prefix("http").unwrap_or(&self.http);
        format!("ws{rest}/ws/{chain}")
    }

    /// Returns host and port of gRPC, if the gateway serves it.
    pub fn grpc(&self) -> Option<&str> {
        self.grpc.as_deref()
    }
}

/// Returns the address at which this machine reaches a listener: the loopback address for one on all addresses.
fn reachable(mut listen: SocketAddr) -> SocketAddr {
    if listen.ip().is_unspecified() {
        let loopback = if listen.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
        listen.set_ip(loopback);
    }
    listen
}

/// Returns host and port of a URL, because gRPC clients expect neither scheme nor path.
fn authority(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    let host = rest.split('/').next().unwrap_or_default();
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    match (has_port, scheme) {
        (true, _) => host.to_owned(),
        (false, "http") => format!("{host}:80"),
        (false, _) => format!("{host}:443"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_config::Input;

    fn urls(text: &str) -> GatewayUrls {
        GatewayUrls::of(&Config::read(&Input { file: Some(("f", text)), ..Input::default() }).unwrap())
    }

    #[test]
    fn urls_that_are_configured_are_shown() {
        let urls = urls(
            "[admin]\ngateway_url = \"https://gw.example.com/rpc/\"\ngrpc_url = \"https://grpc.example.com:8443\"\n",
        );
        assert_eq!(urls.http("eth"), "https://gw.example.com/rpc/eth");
        assert_eq!(urls.ws("eth"), "wss://gw.example.com/rpc/ws/eth");
        assert_eq!(urls.grpc(), Some("grpc.example.com:8443"));
    }

    #[test]
    fn others_are_those_of_the_listeners() {
        let own = urls("[gateway]\nlisten = \"0.0.0.0:8090\"\n");
        assert_eq!(own.http("btc"), "http://127.0.0.1:8090/btc");
        assert_eq!((own.ws("btc").as_str(), own.grpc()), ("ws://127.0.0.1:8090/ws/btc", None));
        let over_tls = urls(
            "[gateway]\nlisten = \"[::]:443\"\ngrpc_listen = \"192.0.2.1:8443\"\n\
             [gateway.tls]\ncert = \"c\"\nkey = \"k\"\n",
        );
        assert_eq!(over_tls.http("btc"), "https://[::1]:443/btc");
        assert_eq!(over_tls.grpc(), Some("192.0.2.1:8443"));
    }

    #[test]
    fn the_address_of_grpc_always_has_a_port() {
        for (url, expected) in [
            ("https://grpc.example.com", "grpc.example.com:443"),
            ("http://grpc.example.com/", "grpc.example.com:80"),
            ("https://[2001:db8::1]", "[2001:db8::1]:443"),
            ("https://[2001:db8::1]:8443/x", "[2001:db8::1]:8443"),
        ] {
            assert_eq!(authority(url), expected);
        }
    }
}
