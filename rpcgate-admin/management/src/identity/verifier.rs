//! Hosted challenge verifiers: hCaptcha and Cloudflare Turnstile.
//!
//! The browser shows the provider's widget, which returns a token. We post the token with our secret to the provider,
//! whose answer decides. Both providers document the same protocol (docs.hcaptcha.com, "Verify the User Response Server
//! Side"; developers.cloudflare.com/turnstile, "Server-side validation"): a form with `secret`, `response` and
//! `remoteip` (hCaptcha also takes `sitekey`), and an answer with `success`, `hostname` and `error-codes` (Turnstile
//! also has `action`). Without an answer, no user can register.

use crate::identity::challenge::Solved;
use crate::outgoing::{OutgoingClient, OutgoingError, ServiceUrl};
use http::HeaderMap;
use ring::digest;
use rpcgate_config::{ChallengeKind, ChallengeSettings, Secret, Url};
use rpcgate_core::clock::Time;
use serde::Deserialize;
use std::net::IpAddr;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The action that the registration page gives to Turnstile's widget. A token must have been obtained for it.
pub const ACTION: &str = "register";

/// The time for which a token is remembered so that it is accepted once. Providers accept a token for less time:
/// Turnstile 300 s, hCaptcha 120 s.
const TOKEN_LIFE: Duration = Duration::from_secs(600);

/// The maximum length of a token in bytes. Turnstile's have at most 2,048, hCaptcha's a few thousand.
const MAX_TOKEN: usize = 8 << 10;

/// The number of tokens that are verified concurrently.
const AT_ONCE: usize = 16;

/// The provider of a hosted verifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Provider {
    /// hCaptcha.
    Hcaptcha,
    /// Cloudflare Turnstile.
    Turnstile,
}

impl Provider {
    const fn verify_url(self) -> &'static str {
        match self {
            Provider::Hcaptcha => "https://api.hcaptcha.com/siteverify",
            Provider::Turnstile => "https://challenges.cloudflare.com/turnstile/v0/siteverify",
        }
    }
}

/// The reason why a token is not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenRefused {
    /// It is too long, or contains characters that no token has.
    #[error("the challenge's solution is malformed")]
    Malformed,
    /// It is missing, or the provider does not know it.
    #[error("the challenge is not solved")]
    Wrong,
    /// It has expired or was used before.
    #[error("the challenge has expired or its solution was used before, solve it again")]
    Used,
    /// It was obtained on another site, or for an action other than a registration.
    #[error("the challenge was not solved here")]
    Elsewhere,
    /// The provider gave no answer that decides. The text is for the log.
    #[error("{0}")]
    Undecided(String),
}

impl From<OutgoingError> for TokenRefused {
    fn from(error: OutgoingError) -> Self {
        TokenRefused::Undecided(error.to_string())
    }
}

#[derive(Deserialize)]
struct Verdict {
    success: bool,
    #[serde(default)]
    hostname: Option<String>,
    #[serde(default)]
    action: Option<String>,
    #[serde(default, rename = "error-codes")]
    error_codes: Vec<String>,
}

/// Verifies the tokens of one provider.
#[derive(Debug)]
pub struct HostedVerifier {
    provider: Provider,
    site_key: String,
    secret: Secret,
    url: ServiceUrl,
    /// The host names on which a token may have been obtained. An empty list allows all.
    hostnames: Vec<String>,
    timeout: Duration,
    client: OutgoingClient,
    running: Semaphore,
}

impl HostedVerifier {
    /// Builds the verifier from `settings`, for a dashboard at `dash_url`. Returns `None` if they select our own
    /// challenge.
    ///
    /// # Errors
    /// [`OutgoingError`] if the provider cannot be called at the configured URL.
    pub fn new(settings: &ChallengeSettings, dash_url: Option<&Url>) -> Result<Option<Self>, OutgoingError> {
        let provider = match settings.kind {
            ChallengeKind::Hcaptcha => Provider::Hcaptcha,
            ChallengeKind::Turnstile => Provider::Turnstile,
            _ => return Ok(None),
        };
        let url = settings.verify_url.as_ref().map_or(provider.verify_url(), Url::expose);
        let mut hostnames: Vec<_> = settings.hostnames.iter().map(|name| name.to_ascii_lowercase()).collect();
        if hostnames.is_empty() {
            hostnames.extend(dash_url.and_then(host));
        }
        Ok(Some(HostedVerifier {
            provider,
            // The configuration requires both for these kinds.
            site_key: settings.site_key.clone().unwrap_or_default(),
            secret: settings.secret.clone().unwrap_or_else(|| Secret::new("")),
            url: ServiceUrl::parse(url)?,
            hostnames,
            timeout: settings.timeout,
            client: OutgoingClient::new()?,
            running: Semaphore::new(AT_ONCE),
        }))
    }

    /// Returns the provider.
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// Returns the public key that the widget needs.
    pub fn site_key(&self) -> &str {
        &self.site_key
    }

    /// Verifies a token that a client at `address` sent. The result identifies the token, so that it is accepted once
    /// even if the provider accepts it again.
    ///
    /// # Errors
    /// [`TokenRefused`]; [`TokenRefused::Undecided`] says nothing about the token.
    pub async fn check(&self, token: &str, address: IpAddr, now: Time) -> Result<Solved, TokenRefused> {
        if token.is_empty() {
            return Err(TokenRefused::Wrong);
        }
        if token.len() > MAX_TOKEN || !token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(TokenRefused::Malformed);
        }
        let busy = || TokenRefused::Undecided("too many tokens are verified at once".into());
        let _permit = self.running.try_acquire().map_err(|_| busy())?;
        let address = address.to_string();
        let mut form = vec![("secret", self.secret.expose()), ("response", token), ("remoteip", &address)];
        if self.provider == Provider::Hcaptcha {
            form.push(("sitekey", &self.site_key));
        }
        let posted = self.client.post_form(&self.url, HeaderMap::new(), &form, self.timeout);
        let (status, body) = posted.await?;
        let verdict: Verdict = match serde_json::from_slice(&body) {
            Ok(verdict) if !status.is_server_error() => verdict,
            _ => {
                return Err(TokenRefused::Undecided(format!(
                    "the verifier answers {status} without a verdict"
                )));
            }
        };
        self.decide(&verdict)?;
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
        Ok(Solved { digest: hash, expires_at: now.plus(TOKEN_LIFE) })
    }

    fn decide(&self, verdict: &Verdict) -> Result<(), TokenRefused> {
        if !verdict.success {
            return Err(refusal(&verdict.error_codes));
        }
        let hostname = verdict.hostname.as_deref().unwrap_or_default();
        let is_ours = self.hostnames.iter().any(|name| name.eq_ignore_ascii_case(hostname));
        if !self.hostnames.is_empty() && !is_ours {
            return Err(TokenRefused::Elsewhere);
        }
        // hCaptcha has no actions.
        if self.provider == Provider::Turnstile && verdict.action.as_deref() != Some(ACTION) {
            return Err(TokenRefused::Elsewhere);
        }
        Ok(())
    }
}

/// Maps the providers' error codes. Codes about the token are the client's fault; all others, such as a wrong secret,
/// are ours or the provider's.
fn refusal(codes: &[String]) -> TokenRefused {
    let used = [
        "timeout-or-duplicate",
        "already-seen-response",
        "invalid-or-already-seen-response",
        "expired-input-response",
    ];
    let wrong = ["invalid-input-response", "missing-input-response"];
    let is_one_of = |known: &[&str]| codes.iter().any(|code| known.contains(&code.as_str()));
    let is_about_token =
        codes.iter().all(|code| used.contains(&code.as_str()) || wrong.contains(&code.as_str()));
    if codes.is_empty() || !is_about_token {
        let codes: Vec<_> =
            codes.iter().map(|code| code.chars().filter(|c| !c.is_control()).collect()).collect();
        let codes: String = <[String]>::join(&codes, ", ").chars().take(200).collect();
        return TokenRefused::Undecided(format!("the verifier refuses to decide: {codes}"));
    }
    if is_one_of(&used) { TokenRefused::Used } else { TokenRefused::Wrong }
}

fn host(url: &Url) -> Option<String> {
    let url: http::Uri = url.expose().parse().ok()?;
    url.host().map(|host| host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::service::{json, service};
    use rpcgate_config::{Config, Input};

    const NOW: Time = Time::from_secs(1_800_000_000);

    fn verifier(kind: &str, url: &str, more: &str) -> HostedVerifier {
        let text = format!(
            "[admin]\ndash_url = \"https://dash.example.com/app\"\n[admin.challenge]\nkind = \"{kind}\"\n\
             site_key = \"the site\"\nsecret = \"the secret\"\nverify_url = \"{url}\"\n{more}\n"
        );
        let config = Config::read(&Input { file: Some(("f", &text)), ..Input::default() }).unwrap();
        let admin = config.admin;
        HostedVerifier::new(&admin.challenge, admin.dash_url.as_ref()).unwrap().unwrap()
    }

    async fn check(verifier: &HostedVerifier) -> Result<Solved, TokenRefused> {
        verifier.check("a.token", "192.0.2.7".parse().unwrap(), NOW).await
    }

    /// Checks a token against a provider that answers `text`.
    async fn answered(kind: &str, text: &'static str) -> Result<Solved, TokenRefused> {
        let (url, _requests) = service(move |_| Some(json(text))).await;
        check(&verifier(kind, &url, "")).await
    }

    // Shows (Accounts and second factors): A hosted verifier (hCaptcha, Turnstile) can be configured instead, with
    // success, failure, duplicate token, wrong host name or action, and 503 without a verdict.
    #[tokio::test]
    async fn the_providers_get_what_they_document() {
        let good = r#"{"success":true,"hostname":"dash.example.com","action":"register","challenge_ts":"x"}"#;
        for (kind, form) in [
            ("turnstile", "secret=the+secret&response=a.token&remoteip=192.0.2.7"),
            ("hcaptcha", "secret=the+secret&response=a.token&remoteip=192.0.2.7&sitekey=the+site"),
        ] {
            let (url, mut requests) = service(move |_| Some(json(good))).await;
            let solved = check(&verifier(kind, &url, "")).await.unwrap();
            assert_eq!(hex::encode(solved.digest), hex::encode(digest::digest(&digest::SHA256, b"a.token")));
            assert_eq!(solved.expires_at, NOW.plus(TOKEN_LIFE));
            let request = requests.recv().await.unwrap();
            assert!(request.ends_with(&format!("\r\n\r\n{form}")), "{request}");
        }
    }

    // Shows (Accounts and second factors).
    #[tokio::test]
    async fn a_token_of_another_site_or_action_is_refused() {
        for (kind, text) in [
            ("turnstile", r#"{"success":true,"hostname":"evil.example","action":"register"}"#),
            ("turnstile", r#"{"success":true,"action":"register"}"#),
            ("turnstile", r#"{"success":true,"hostname":"dash.example.com","action":"login"}"#),
            ("turnstile", r#"{"success":true,"hostname":"dash.example.com"}"#),
            ("hcaptcha", r#"{"success":true,"hostname":"dash.example.com.evil.example"}"#),
        ] {
            let refused = answered(kind, text).await;
            assert!(matches!(refused, Err(TokenRefused::Elsewhere)), "{text} {refused:?}");
        }
        assert!(answered("hcaptcha", r#"{"success":true,"hostname":"DASH.example.com"}"#).await.is_ok());
        let text = r#"{"success":true,"hostname":"other.example"}"#;
        let (url, _requests) = service(move |_| Some(json(text))).await;
        assert!(check(&verifier("hcaptcha", &url, "hostnames = [\"other.example\"]")).await.is_ok());
    }

    // Shows (Accounts and second factors).
    #[tokio::test]
    async fn a_token_that_the_provider_refuses_is_the_clients_matter() {
        for (text, is_used) in [
            (r#"{"success":false,"error-codes":["timeout-or-duplicate"]}"#, true),
            (r#"{"success":false,"error-codes":["invalid-or-already-seen-response"]}"#, true),
            (r#"{"success":false,"error-codes":["already-seen-response"]}"#, true),
            (r#"{"success":false,"error-codes":["expired-input-response"]}"#, true),
            (r#"{"success":false,"error-codes":["invalid-input-response"]}"#, false),
        ] {
            let refused = answered("turnstile", text).await.unwrap_err();
            assert_eq!(matches!(refused, TokenRefused::Used), is_used, "{text}");
            assert_eq!(matches!(refused, TokenRefused::Wrong), !is_used, "{text}");
        }
    }

    // Shows (Accounts and second factors).
    #[tokio::test]
    async fn without_a_verdict_no_token_is_accepted() {
        for text in [
            r#"{"success":false,"error-codes":["invalid-input-secret"]}"#,
            r#"{"success":false,"error-codes":["invalid-input-response","internal-error"]}"#,
            r#"{"success":false,"error-codes":["sitekey-secret-mismatch"]}"#,
            r#"{"success":false}"#,
            r#"{"success":"true"}"#,
            "{}",
            "[]",
            "<html>",
            "",
        ] {
            let refused = answered("hcaptcha", text).await;
            assert!(matches!(refused, Err(TokenRefused::Undecided(_))), "{text} {refused:?}");
        }
        let failing =
            json(r#"{"success":true,"hostname":"dash.example.com"}"#).replace("200 OK", "502 Bad Gateway");
        let (url, _requests) = service(move |_| Some(failing.clone())).await;
        assert!(matches!(check(&verifier("hcaptcha", &url, "")).await, Err(TokenRefused::Undecided(_))));
        let (silent, _requests) = service(|_| None).await;
        let late = check(&verifier("turnstile", &silent, "timeout = \"1s\"")).await;
        assert!(
            matches!(&late, Err(TokenRefused::Undecided(why)) if why == "no answer within 1s"),
            "{late:?}"
        );
        let nobody = check(&verifier("turnstile", "http://127.0.0.1:1/", "")).await;
        assert!(matches!(nobody, Err(TokenRefused::Undecided(_))), "{nobody:?}");
    }

    #[tokio::test]
    async fn an_impossible_token_is_not_sent() {
        let (url, mut requests) = service(|_| Some(json("{}"))).await;
        let verifier = verifier("turnstile", &url, "");
        let empty = verifier.check("", "192.0.2.7".parse().unwrap(), NOW).await;
        assert!(matches!(empty, Err(TokenRefused::Wrong)));
        for token in ["a b", "a\nb", "größe", &"x".repeat(MAX_TOKEN + 1)] {
            let refused = verifier.check(token, "192.0.2.7".parse().unwrap(), NOW).await;
            assert!(matches!(refused, Err(TokenRefused::Malformed)), "{token}");
        }
        assert!(requests.try_recv().is_err());
    }
}
