//! Checks the URLs at which users reach the service against the other settings.

use super::examination::Examination;
use super::finding::{CheckGroup, Finding};
use rpcgate_config::{Admin, Config, Url};

const CHECK: CheckGroup = CheckGroup::Urls;

pub(super) fn check(examination: &Examination) -> Vec<Finding> {
    let config = &*examination.config;
    let mut findings = dashboard(&config.admin);
    if config.admin.gateway_url.is_none() {
        let text = format!("is not set: the dashboard shows users {}", config.gateway.listen);
        let advice = "set it to the URL at which clients reach the gateways";
        findings.push(Finding::warning(CHECK, "admin.gateway_url", text, advice));
    }
    findings.extend(proxies(config));
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, "admin.dash_url", "all URLs are set and fit each other"));
    }
    findings
}

fn dashboard(admin: &Admin) -> Vec<Finding> {
    let key = "admin.dash_url";
    let Some(url) = &admin.dash_url else {
        let scheme = if admin.tls.is_served() { "https" } else { "http" };
        let text = format!("is not set: mails link to {scheme}://{}", admin.listen);
        let advice = "set it to the https URL at which users open the dashboard";
        return vec![Finding::warning(CHECK, key, text, advice)];
    };
    let mut findings = Vec::new();
    let host = host(url);
    if url.scheme() != "https" && !is_local(&host) {
        let text =
            format!("is {}: passwords travel unencrypted, and browsers create no passkeys", url.masked());
        findings.push(Finding::warning(
            CHECK,
            key,
            text,
            "serve the dashboard over https, and write https:// here",
        ));
    }
    let hostnames = &admin.challenge.hostnames;
    if !hostnames.is_empty() && !hostnames.iter().any(|name| name.eq_ignore_ascii_case(&host)) {
        let text = format!(
            "its host {host} is not among admin.challenge.hostnames: registration does not work there"
        );
        findings.push(Finding::failure(CHECK, key, text, "add the host to admin.challenge.hostnames"));
    }
    if let Some(api) = &admin.api_url
        && api.scheme() != url.scheme()
    {
        let text = format!("is {}, but admin.dash_url is {}", api.masked(), url.masked());
        findings.push(Finding::warning(CHECK, "admin.api_url", text, "use https for both"));
    }
    findings
}

/// Checks the proxy settings of a service that users reach over https but that has no TLS itself: it is behind a proxy.
fn proxies(config: &Config) -> Option<Finding> {
    let is_secure = config.admin.dash_url.as_ref().is_some_and(|url| url.scheme() == "https");
    let is_proxied = is_secure && !config.admin.tls.is_served();
    let names_clients = !config.gateway.trusted_proxies.is_empty() || !config.admin.proxy_protocol.is_empty();
    if !is_proxied || names_clients {
        return None;
    }
    let text = "is empty, but the dashboard is served over https, so by a proxy: all users share its address and its limits";
    let advice =
        "set it to the addresses of the proxy, which must set X-Forwarded-For, or admin.proxy_protocol";
    Some(Finding::warning(CHECK, "gateway.trusted_proxies", text, advice))
}

fn host(url: &Url) -> String {
    let url: Option<http::Uri> = url.expose().parse().ok();
    let host = url.as_ref().and_then(http::Uri::host).unwrap_or_default();
    host.trim_start_matches('[').trim_end_matches(']').to_lowercase()
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::super::examination::tests::examination;
    use super::super::finding::Verdict;
    use super::*;

    fn found(text: &str) -> Vec<(String, Verdict)> {
        let findings = check(&examination(text));
        assert!(findings.iter().all(|finding| finding.verdict == Verdict::Ok || finding.advice.is_some()));
        findings.into_iter().map(|finding| (finding.subject, finding.verdict)).collect()
    }

    #[test]
    fn urls_that_fit_are_one_line() {
        let text = "[gateway]\ntrusted_proxies = [\"10.0.0.0/8\"]\n[admin]\ndash_url = \"https://dash.example/\"\n\
                    api_url = \"https://api.example\"\ngateway_url = \"https://rpc.example\"\n";
        assert_eq!(found(text), [("admin.dash_url".into(), Verdict::Ok)]);
        let passed_on = "[admin]\nproxy_protocol = [\"10.0.0.7\"]\ndash_url = \"https://dash.example/\"\n\
                         gateway_url = \"https://rpc.example\"\n";
        assert_eq!(found(passed_on), [("admin.dash_url".into(), Verdict::Ok)]);
        let own_tls = "[admin]\ntls.cert = \"c.pem\"\ntls.key = \"k.pem\"\ndash_url = \"https://dash.example/\"\n\
                       gateway_url = \"https://rpc.example\"\n";
        assert_eq!(found(own_tls), [("admin.dash_url".into(), Verdict::Ok)]);
        let local =
            "[admin]\ndash_url = \"http://localhost:8081\"\ngateway_url = \"http://localhost:8080\"\n";
        assert_eq!(found(local), [("admin.dash_url".into(), Verdict::Ok)]);
    }

    #[test]
    fn a_missing_or_unfitting_url_is_named_by_its_key() {
        let keys = |text: &str| -> Vec<_> {
            found(text).into_iter().map(|(key, verdict)| (key, verdict == Verdict::Failure)).collect()
        };
        assert_eq!(keys(""), [("admin.dash_url".into(), false), ("admin.gateway_url".into(), false)]);
        let base = "[admin]\ngateway_url = \"https://rpc.example\"\n";
        for (more, key, fails) in [
            ("dash_url = \"http://dash.example\"\n", "admin.dash_url", false),
            ("dash_url = \"https://dash.example\"\n", "gateway.trusted_proxies", false),
            ("dash_url = \"http://[::1]\"\napi_url = \"https://h\"\n", "admin.api_url", false),
            (
                "dash_url = \"http://localhost\"\nchallenge.hostnames = [\"a.example\"]\n",
                "admin.dash_url",
                true,
            ),
        ] {
            assert_eq!(keys(&format!("{base}{more}")), [(key.to_owned(), fails)], "{more}");
        }
    }
}
