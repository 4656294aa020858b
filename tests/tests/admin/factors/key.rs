//! A browser with a software authenticator that holds one passkey.

use async_trait::async_trait;
use passkey::authenticator::{Authenticator, UiHint, UserCheck, UserValidationMethod};
use passkey::client::{Client, DefaultClientData};
use passkey::crypto::rust_crypto::RustCryptoBackend;
use passkey_types::Passkey;
use passkey_types::ctap2::{Aaguid, Ctap2Error};
use passkey_types::webauthn::{CredentialCreationOptions, CredentialRequestOptions};
use serde_json::Value;
use webauthn_rs::prelude::Url;

/// The origin of the open page.
pub(crate) const ORIGIN: &str = "https://dash.example.com";

/// A person who touches the authenticator and unlocks it.
struct Person;

#[async_trait]
impl UserValidationMethod for Person {
    type PasskeyItem = Passkey;

    async fn check_user<'a>(
        &self,
        _: UiHint<'a, Passkey>,
        presence: bool,
        verification: bool,
    ) -> Result<UserCheck, Ctap2Error> {
        Ok(UserCheck { presence, verification })
    }

    fn is_presence_enabled(&self) -> bool {
        true
    }

    fn is_verification_enabled(&self) -> Option<bool> {
        Some(true)
    }
}

/// The browser. A clone copies the passkey, which a real authenticator does not allow.
#[derive(Clone, Default)]
pub(crate) struct Browser(Option<Passkey>);

impl Browser {
    /// Creates a passkey for these options and returns the credential.
    pub(crate) async fn make(&mut self, options: &Value) -> Value {
        let options: CredentialCreationOptions = serde_json::from_value(options.clone()).unwrap();
        let mut device = Authenticator::new(Aaguid::new_empty(), self.0.take(), Person, RustCryptoBackend);
        device.set_make_credentials_with_signature_counter(true);
        let mut client = Client::new(device);
        let made = client.register(&Url::parse(ORIGIN).unwrap(), options, DefaultClientData).await.unwrap();
        self.0 = client.authenticator().store().clone();
        serde_json::to_value(made).unwrap()
    }

    /// Uses the passkey for these options and returns the credential.
    pub(crate) async fn give(&mut self, options: &Value) -> Value {
        let options: CredentialRequestOptions = serde_json::from_value(options.clone()).unwrap();
        let device = Authenticator::new(Aaguid::new_empty(), self.0.take(), Person, RustCryptoBackend);
        let mut client = Client::new(device);
        let used = client.authenticate(&Url::parse(ORIGIN).unwrap(), options, DefaultClientData).await;
        self.0 = client.authenticator().store().clone();
        serde_json::to_value(used.unwrap()).unwrap()
    }
}
