//! An authenticator app and a passkey in software.

use super::{ApiAnswer, TestSite};
use async_trait::async_trait;
use passkey::authenticator::{Authenticator as Device, UiHint, UserCheck, UserValidationMethod};
use passkey::client::{Client, DefaultClientData, WebauthnError};
use passkey::crypto::rust_crypto::RustCryptoBackend;
use passkey_types::Passkey;
use passkey_types::ctap2::{Aaguid, Ctap2Error};
use passkey_types::webauthn::{CredentialCreationOptions, CredentialRequestOptions};
use ring::hmac;
use serde_json::Value;
use std::time::Duration;
use webauthn_rs::prelude::Url;

/// Computes the code of a secret in a time step from RFC 4226, section 5.3, and RFC 6238, section 4, independently
/// of the crate that we use.
pub fn code(secret: &[u8], step: u64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let tag = hmac::sign(&key, &step.to_be_bytes());
    let tag = tag.as_ref();
    let offset = usize::from(tag[19] & 15);
    let word: [u8; 4] = tag[offset..offset + 4].try_into().unwrap();
    format!("{:06}", (u32::from_be_bytes(word) & 0x7fff_ffff) % 1_000_000)
}

/// Decodes base32: RFC 4648, section 6.
pub fn from_base32(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut bits = 0_u32;
    let mut held = 0_u32;
    for letter in text.bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'2'..=b'7' => letter - b'2' + 26,
            _ => panic!("{text} is not base32"),
        };
        (held, bits) = ((held << 5) | u32::from(value), bits + 5);
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    bytes
}

/// The period of a code.
pub const STEP: Duration = Duration::from_secs(30);

/// An authenticator app.
#[derive(Clone, Debug)]
pub struct Authenticator(Vec<u8>);

impl Authenticator {
    /// Returns an app with a secret, in base32.
    pub fn of(secret: &str) -> Self {
        Authenticator(from_base32(secret))
    }

    /// Returns an app with the secret of an answer.
    pub fn typed(answer: &ApiAnswer) -> Self {
        Self::of(answer.body["secret"].as_str().unwrap())
    }

    /// Returns the current code.
    pub fn shows<R>(&self, site: &TestSite<R>) -> String {
        self.shows_at(site, 0)
    }

    /// Returns the code at `steps` periods from now.
    pub fn shows_at<R>(&self, site: &TestSite<R>, steps: i64) -> String {
        code(&self.0, (site.app.now().secs() / STEP.as_secs()).checked_add_signed(steps).unwrap())
    }

    /// Returns a code that it does not show around now.
    pub fn wrong<R>(&self, site: &TestSite<R>) -> String {
        let shown: Vec<_> = (-2..=2).map(|steps| self.shows_at(site, steps)).collect();
        (0..).map(|number| format!("{number:06}")).find(|code| !shown.contains(code)).unwrap()
    }
}

/// The origin of the pages for which [`SoftwareKey`] makes passkeys.
pub const ORIGIN: &str = "https://dash.example.com";

/// A person who touches the authenticator and unlocks it.
struct ApprovingUser;

#[async_trait]
impl UserValidationMethod for ApprovingUser {
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

/// A browser with an authenticator that holds one passkey.
#[derive(Clone, Debug, Default)]
pub struct SoftwareKey {
    held: Option<Passkey>,
}

impl SoftwareKey {
    /// Returns the browser's answer to options to create a passkey.
    pub async fn make(&mut self, options: &Value) -> Value {
        let options: CredentialCreationOptions = serde_json::from_value(options.clone()).unwrap();
        let mut device = Device::new(Aaguid::new_empty(), self.held.take(), ApprovingUser, RustCryptoBackend);
        device.set_make_credentials_with_signature_counter(true);
        let mut client = Client::new(device);
        let origin = Url::parse(ORIGIN).unwrap();
        let made = client.register(&origin, options, DefaultClientData).await.unwrap();
        self.held = client.authenticator().store().clone();
        serde_json::to_value(made).unwrap()
    }

    /// Returns the browser's answer to options to use a passkey, on a page of `origin`.
    pub async fn use_at(&mut self, origin: &str, options: &Value) -> Result<Value, WebauthnError> {
        let options: CredentialRequestOptions = serde_json::from_value(options.clone()).unwrap();
        let device = Device::new(Aaguid::new_empty(), self.held.take(), ApprovingUser, RustCryptoBackend);
        let mut client = Client::new(device);
        let origin = Url::parse(origin).unwrap();
        let used = client.authenticate(&origin, options, DefaultClientData).await;
        self.held = client.authenticator().store().clone();
        used.map(|used| serde_json::to_value(used).unwrap())
    }

    /// Returns the browser's answer to options to use the passkey, on a page of [`ORIGIN`].
    pub async fn use_here(&mut self, options: &Value) -> Value {
        self.use_at(ORIGIN, options).await.unwrap()
    }
}
