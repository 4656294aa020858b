//! An authenticator app, written from RFC 6238 (TOTP), RFC 4226 (HOTP) and RFC 4648 (base32), independently of the
//! service.

#![expect(clippy::unwrap_used, reason = "an app of the tests that gets no secret fails its test")]

use ring::hmac::{HMAC_SHA1_FOR_LEGACY_USE_ONLY, Key, sign};
use rpcgate_core::clock::Time;
use std::time::Duration;

/// The period of one code.
pub const STEP: Duration = Duration::from_secs(30);

/// An app that holds one secret.
#[derive(Clone, Debug)]
pub struct AuthenticatorApp(Vec<u8>);

impl AuthenticatorApp {
    /// Creates an app that has scanned an `otpauth` URI.
    ///
    /// # Panics
    /// When the URI is invalid.
    pub fn scanned(uri: &str) -> Self {
        let (kind, parameters) = uri.split_once('?').unwrap();
        assert!(kind.starts_with("otpauth://totp/"), "{uri}");
        let secret = parameters.split('&').find_map(|parameter| parameter.strip_prefix("secret="));
        AuthenticatorApp::typed(secret.unwrap())
    }

    /// Creates an app into which a secret was typed.
    ///
    /// # Panics
    /// When it is not base32.
    pub fn typed(secret: &str) -> Self {
        const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        let mut bytes = Vec::new();
        let mut held = 0_u32;
        let mut bits = 0;
        for letter in secret.trim_end_matches('=').chars() {
            held = (held << 5 | ALPHABET.find(letter).unwrap() as u32) & 0xfff;
            bits += 5;
            if bits >= 8 {
                bits -= 8;
                bytes.push((held >> bits) as u8);
            }
        }
        AuthenticatorApp(bytes)
    }

    /// Returns the six-digit code for `now`.
    ///
    /// # Panics
    /// Never.
    pub fn shows(&self, now: Time) -> String {
        let counter = now.secs() / STEP.as_secs();
        let tag = sign(&Key::new(HMAC_SHA1_FOR_LEGACY_USE_ONLY, &self.0), &counter.to_be_bytes());
        let tag = tag.as_ref();
        let at = usize::from(tag[tag.len() - 1] & 0xf);
        let number = u32::from_be_bytes(tag[at..at + 4].try_into().unwrap()) & 0x7fff_ffff;
        format!("{:06}", number % 1_000_000)
    }

    /// Returns a code that is invalid around `now`.
    ///
    /// # Panics
    /// Never.
    pub fn wrong(&self, now: Time) -> String {
        let around = (0..5).map(|steps| self.shows(Time::from_secs(now.secs() + steps * 30 - 60)));
        let around: Vec<_> = around.collect();
        (0..).map(|number| format!("{number:06}")).find(|code| !around.contains(code)).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_app_shows_the_codes_of_the_standards_appendix() {
        let app = AuthenticatorApp(b"12345678901234567890".to_vec());
        for (at, code) in
            [(59, "287082"), (1_111_111_109, "081804"), (1_234_567_890, "005924"), (20_000_000_000, "353130")]
        {
            assert_eq!(app.shows(Time::from_secs(at)), code);
        }
        assert_eq!(AuthenticatorApp::typed("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ").0, app.0);
    }
}
