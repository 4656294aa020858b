//! One-time codes of an authenticator app (TOTP, RFC 6238): six digits that change every 30 seconds.
//!
//! SHA-1, six digits and 30 seconds are the only parameters that all apps implement. Collisions of SHA-1 do not help an
//! attacker against HMAC (RFC 4226, appendix B.2).

use super::typed_code::code_of;
use fast_qr::convert::svg::SvgBuilder;
use fast_qr::qr::{QRBuilder, QRCodeError};
use ring::rand::{SecureRandom, SystemRandom};
use rpcgate_config::Secret;
use rpcgate_core::clock::Time;
use rpcgate_core::secret::NoRandomness;
use std::fmt;
use totp_rs::{Algorithm, Builder, Totp, TotpError};

/// The length of a secret in bytes: the output length of SHA-1, which RFC 4226, section 4, recommends.
const BYTES: usize = 20;
const DIGITS: u8 = 6;
/// The number of seconds for which an app shows a code.
const STEP: u64 = 30;
/// The number of steps before and after the current one whose codes are accepted, because clocks differ and typing
/// takes time.
const TOLERATED_STEPS: u16 = 1;
const ISSUER: &str = "rpcgate";

/// The reason why an app's secret cannot be shown.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the secret of an authenticator app cannot be shown: {0}")]
pub struct UnshownSecret(String);

impl From<TotpError> for UnshownSecret {
    fn from(error: TotpError) -> Self {
        UnshownSecret(error.to_string())
    }
}

impl From<QRCodeError> for UnshownSecret {
    fn from(error: QRCodeError) -> Self {
        UnshownSecret(format!("{error:?}"))
    }
}

/// The secret that an authenticator app shares with us.
#[derive(Clone)]
pub struct TotpSecret(Totp);

impl fmt::Debug for TotpSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl TotpSecret {
    /// Makes a new secret for the user with this address.
    ///
    /// # Errors
    /// [`NoRandomness`] if the system provides none.
    pub fn make(email: &str) -> Result<Self, NoRandomness> {
        let mut bytes = [0; BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
        Ok(Self::of(&bytes, email))
    }

    /// Makes a secret of these bytes.
    ///
    /// ```
    /// use rpcgate_management::identity::totp::TotpSecret;
    /// use rpcgate_core::clock::Time;
    ///
    /// // The first line of RFC 6238, appendix B: at 59 s, in the step that began at 30 s.
    /// let secret = TotpSecret::of(b"12345678901234567890", "ada@example.com");
    /// assert_eq!(secret.step_of("287082", Time::from_secs(59)), Some(1));
    /// ```
    pub fn of(bytes: &[u8], email: &str) -> Self {
        let totp = Builder::new()
            .with_algorithm(Algorithm::SHA1)
            .with_digits(DIGITS)
            .with_skew(TOLERATED_STEPS)
            .with_step_duration(STEP)
            .with_secret(bytes)
            .with_issuer(Some(ISSUER))
            // A colon separates the issuer from the account.
            .with_account_name(email.replace(':', "."));
        TotpSecret(totp.build_noncompliant())
    }

    /// Returns the bytes, to be sealed and stored.
    pub fn bytes(&self) -> &[u8] {
        self.0.secret().as_ref()
    }

    /// Returns the secret in base32 (RFC 4648), for users who type it.
    pub fn base32(&self) -> Secret {
        Secret::new(self.0.secret().to_base32())
    }

    /// Returns the secret as an `otpauth` URI with the issuer and the user's address.
    ///
    /// # Errors
    /// [`UnshownSecret`] without an address.
    pub fn uri(&self) -> Result<Secret, UnshownSecret> {
        Ok(Secret::new(self.0.to_url()?))
    }

    /// Returns the QR code of the [`uri`](Self::uri) as an SVG image.
    ///
    /// # Errors
    /// [`UnshownSecret`] without an address, or if the address is too long for a QR code.
    pub fn qr_svg(&self) -> Result<Secret, UnshownSecret> {
        let code = QRBuilder::new(self.0.to_url()?).build()?;
        Ok(Secret::new(SvgBuilder::default().to_str(&code)))
    }

    /// Returns the time step of a code if an app shows it at `now` or one step before or after. Each step must be
    /// accepted only once (RFC 6238, section 5.2). Separators and scripts of the code do not matter ([`code_of`]).
    pub fn step_of(&self, code: &str, now: Time) -> Option<u64> {
        let digits = code_of(code);
        if digits.len() != usize::from(DIGITS) {
            return None;
        }
        self.0.check(&digits, now.secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::second_factors::{code, from_base32};
    use proptest::prelude::*;

    fn secret() -> TotpSecret {
        TotpSecret::of(b"12345678901234567890", "ada@example.com")
    }

    // Shows (Accounts and second factors): Codes are those of RFC 6238 and of another implementation.
    #[test]
    fn the_vectors_of_the_standard_are_accepted() {
        // RFC 6238, appendix B, SHA-1: the last six of eight digits.
        for (second, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(secret().step_of(code, Time::from_secs(second)), Some(second / 30), "{second}");
            assert_eq!(super::tests::code(b"12345678901234567890", second / 30), code, "{second}");
        }
    }

    proptest! {
        // Shows (Accounts and second factors).
        #[test]
        fn codes_of_another_implementation_are_accepted_one_step_around(
            bytes in proptest::collection::vec(any::<u8>(), 20),
            second in 100_u64..40_000_000_000,
            shift in -3_i64..=3,
        ) {
            let secret = TotpSecret::of(&bytes, "ada@example.com");
            let step = (second / 30).saturating_add_signed(shift);
            let given = code(&bytes, step);
            let around = |step: u64| (step - 1..=step + 1).find(|step| code(&bytes, *step) == given);
            // Two steps have the same code once in a million.
            prop_assert_eq!(secret.step_of(&given, Time::from_secs(second)), around(second / 30));
            if shift.abs() <= 1 {
                prop_assert!(secret.step_of(&given, Time::from_secs(second)).is_some());
            }
        }

        #[test]
        fn no_text_makes_it_fail(text in ".{0,40}") {
            let _ = secret().step_of(&text, Time::from_secs(59));
        }
    }

    #[test]
    fn a_code_is_six_digits_and_spaces_do_not_matter() {
        let at = Time::from_secs(59);
        for good in ["287082", "287 082", " 287082 ", "287082\n", "287-082", "28708２"] {
            assert_eq!(secret().step_of(good, at), Some(1), "{good}");
        }
        for bad in ["", "28708", "2870820", "287082２", "+87082", "28708a", "28708ａ", "28708l", "O87082"] {
            assert_eq!(secret().step_of(bad, at), None, "{bad}");
        }
    }

    #[test]
    fn an_app_can_read_the_secret_in_each_of_its_forms() {
        let secret = TotpSecret::make("ada@example.com").unwrap();
        let text = secret.base32();
        assert_eq!(from_base32(text.expose()), secret.bytes());
        assert_eq!(secret.bytes().len(), 20);
        let uri = secret.uri().unwrap();
        let expected =
            format!("otpauth://totp/rpcgate:ada%40example.com?secret={}&issuer=rpcgate", text.expose());
        assert_eq!(uri.expose(), expected);
        let image = secret.qr_svg().unwrap();
        assert!(image.expose().starts_with("<svg ") && image.expose().ends_with("</svg>"));
        assert!(!image.expose().contains("<script"));
        assert_ne!(TotpSecret::make("ada@example.com").unwrap().bytes(), secret.bytes());
        assert_eq!(format!("{secret:?}"), "***");
    }

    #[test]
    fn the_longest_address_fits_a_qr_code() {
        let address = format!("\"{}:\"@{}.example", "ä".repeat(60), "x".repeat(180));
        let secret = TotpSecret::make(&address).unwrap();
        secret.qr_svg().unwrap();
        assert_eq!(secret.uri().unwrap().expose().matches(':').count(), 2, "of the scheme and of the label");
    }
}
