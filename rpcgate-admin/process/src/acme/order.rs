//! One order of a certificate, from the account to the signed chain (RFC 8555, section 7).

use super::BadAcme;
use super::answer::HttpAnswers;
use super::folder::AcmeFolder;
use super::https::AcmeHttp;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Error, ExternalAccountKey, Identifier, NewAccount, NewOrder,
    Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rpcgate_config::{AcmeChallenge, AcmeSettings};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::time::Duration;

const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";
const LONGEST_REASON: usize = 1_000;
const POLLS: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(500))
    .backoff(1.5)
    .timeout(Duration::from_secs(180));

pub(super) struct AcmeClient {
    pub(super) settings: AcmeSettings,
    pub(super) folder: AcmeFolder,
    pub(super) http: AcmeHttp,
    /// The key of the operator's account with the authority (external account binding).
    eab: Option<(String, Vec<u8>)>,
}

impl AcmeClient {
    pub(super) fn new(settings: &AcmeSettings) -> Result<Self, BadAcme> {
        let http = AcmeHttp::new(settings.ca_file.as_deref())?;
        let eab = match (&settings.eab_key_id, &settings.eab_key) {
            (Some(id), Some(key)) => {
                let text = key.expose().trim().trim_end_matches('=');
                let key = URL_SAFE_NO_PAD.decode(text).map_err(|_| BadAcme {
                    key: "eab_key",
                    why: "must be base64url (A-Z, a-z, 0-9, - and _)".into(),
                })?;
                Some((id.clone(), key))
            }
            _ => None,
        };
        let folder = AcmeFolder::new(&settings.dir);
        Ok(AcmeClient { settings: settings.clone(), folder, http, eab })
    }

    /// Orders a certificate. Returns its key and chain as PEM, or the reason of the failure.
    pub(super) async fn order(&self) -> Result<String, String> {
        let done = self.attempt().await;
        if let Err(OrderError::Acme(Error::Api(problem))) = &done
            && problem.r#type.as_deref() == Some(NO_ACCOUNT)
        {
            // The next order registers again.
            self.folder.forget_account().map_err(|error| error.to_string())?;
        }
        done.map_err(|error| bounded(&error.to_string()))
    }

    async fn attempt(&self) -> Result<String, OrderError> {
        let account = self.account().await?;
        let names: Vec<_> = self.settings.domains.iter().cloned().map(Identifier::Dns).collect();
        let mut order = account.new_order(&NewOrder::new(&names)).await?;
        let answers = self.answers(&mut order).await?;
        let proved = self.prove(&mut order, &answers).await;
        if !answers.is_empty() {
            self.folder.clear_answers()?;
        }
        proved?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(self.settings.domains.clone())?;
        params.distinguished_name = DistinguishedName::new();
        order.finalize_csr(params.serialize_request(&key)?.der()).await?;
        let chain = order.poll_certificate(&POLLS).await?;
        Ok(format!("{}{chain}", key.serialize_pem()))
    }

    async fn account(&self) -> Result<Account, OrderError> {
        let directory = self.settings.directory_url();
        let builder = || Account::builder_with_http(Box::new(self.http.clone()));
        if let Some(stored) = self.folder.account(directory)
            && let Ok(credentials) = serde_json::from_slice(&stored)
        {
            match builder().from_credentials(credentials).await {
                Err(Error::KeyRejected) => {
                    tracing::warn!(
                        "the key of the account in acme.dir is broken, another account is registered"
                    );
                }
                found => return Ok(found?),
            }
        }
        let contacts: Vec<_> = self.settings.contacts.iter().map(|mail| format!("mailto:{mail}")).collect();
        let contacts: Vec<_> = contacts.iter().map(String::as_str).collect();
        let new_account =
            NewAccount { contact: &contacts, terms_of_service_agreed: true, only_return_existing: false };
        let eab = self.eab.as_ref().map(|(id, key)| ExternalAccountKey::new(id.clone(), key));
        let (account, credentials) =
            builder().create(&new_account, directory.to_owned(), eab.as_ref()).await?;
        self.folder.set_account(&serde_json::to_vec(&credentials).map_err(io::Error::other)?)?;
        tracing::info!(directory, "registered with the certificate authority");
        Ok(account)
    }

    /// Returns the answers to the checks of this order. Names that the authority has checked recently need no answer.
    async fn answers(&self, order: &mut Order) -> Result<BTreeMap<String, String>, OrderError> {
        let mut answers = BTreeMap::new();
        let mut names = order.authorizations();
        while let Some(name) = names.next().await {
            let mut name = name?;
            if name.status == AuthorizationStatus::Valid {
                continue;
            }
            let called = name.identifier().to_string();
            let kind = self.kind();
            let Some(challenge) = name.challenge(kind) else {
                let why =
                    format!("{called}: the authority offers no check of the kind that acme.challenge names");
                return Err(OrderError::Refused(why));
            };
            answers.insert(called, challenge.key_authorization().as_str().to_owned());
        }
        Ok(answers)
    }

    /// Has the authority check the names, and waits for the result.
    async fn prove(&self, order: &mut Order, answers: &BTreeMap<String, String>) -> Result<(), OrderError> {
        let is_http = self.settings.challenge == AcmeChallenge::Http01 && !answers.is_empty();
        let _listener = match self.settings.http_listen.filter(|_| is_http) {
            Some(addr) => {
                let listening = HttpAnswers::listen(addr, self.folder.clone());
                Some(
                    listening
                        .map_err(|error| OrderError::Refused(format!("acme.http_listen: {addr}: {error}")))?,
                )
            }
            None => None,
        };
        if !answers.is_empty() {
            self.folder.set_answers(answers)?;
        }
        let checked = match self.ask(order).await {
            Ok(()) => order.poll_ready(&POLLS).await,
            Err(error) => Err(error),
        };
        match checked {
            Ok(OrderStatus::Ready) => Ok(()),
            Ok(_) => Err(refusals(order, "the authority has refused the order".to_owned()).await),
            Err(Error::Api(problem)) => Err(refusals(order, problem.to_string()).await),
            Err(error) => Err(error.into()),
        }
    }

    async fn ask(&self, order: &mut Order) -> Result<(), Error> {
        let mut names = order.authorizations();
        while let Some(name) = names.next().await {
            let mut name = name?;
            if name.status == AuthorizationStatus::Valid {
                continue;
            }
            if let Some(mut challenge) = name.challenge(self.kind()) {
                challenge.set_ready().await?;
            }
        }
        Ok(())
    }

    fn kind(&self) -> ChallengeType {
        match self.settings.challenge {
            AcmeChallenge::Http01 => ChallengeType::Http01,
            _ => ChallengeType::TlsAlpn01,
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum OrderError {
    #[error("{0}")]
    Acme(#[from] Error),
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Folder(#[from] io::Error),
    #[error("{0}")]
    Request(#[from] rcgen::Error),
}

/// Returns the authority's errors about the names that it could not check, or else `reason`.
async fn refusals(order: &mut Order, reason: String) -> OrderError {
    let mut text = String::new();
    let mut names = order.authorizations();
    while let Some(name) = names.next().await {
        let Ok(mut name) = name else { continue };
        if name.status == AuthorizationStatus::Valid || name.refresh().await.is_err() {
            continue;
        }
        let errors = name.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
        for error in errors {
            let separator = if text.is_empty() { "" } else { "; " };
            // Writing to a text cannot fail.
            let _ = write!(text, "{separator}{}: {error}", name.identifier());
        }
    }
    OrderError::Refused(if text.is_empty() { reason } else { text })
}

/// Returns a reason as one line of bounded length, because the authority chooses the text.
pub(super) fn bounded(why: &str) -> String {
    why.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_REASON).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_config::Secret;

    #[test]
    fn a_key_of_an_account_is_base64url_with_or_without_its_end() {
        let with = |key: &str| {
            let mut settings = AcmeSettings::default();
            (settings.eab_key_id, settings.eab_key) = (Some("kid".into()), Some(Secret::new(key)));
            AcmeClient::new(&settings).map(|client| client.eab).map_err(|bad| bad.to_string())
        };
        let key: Vec<u8> = (0..17).map(|n| 255 - n).collect();
        let text = URL_SAFE_NO_PAD.encode(&key);
        for text in [text.clone(), format!("{text}="), format!("{text}\n")] {
            assert_eq!(with(&text).unwrap(), Some(("kid".to_owned(), key.clone())), "{text:?}");
        }
        assert_eq!(
            with("not/base64+url==").unwrap_err(),
            "acme.eab_key: must be base64url (A-Z, a-z, 0-9, - and _)"
        );
    }

    #[test]
    fn the_message_of_an_authority_is_one_line_of_bounded_length() {
        assert_eq!(bounded("a\nb\tc\u{1b}[31m"), "a b c [31m");
        assert_eq!(bounded(&"é".repeat(5_000)).chars().count(), LONGEST_REASON);
    }
}
