//! JSON shapes of the caller's authenticator app.

use crate::action::totp::OfferedTotp;
use crate::identity::password::Typed;
use crate::shape::factors::GivePasskey;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// The secret of a new authenticator app, which is not shown again.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = TotpSecret)]
pub struct TotpSecretJson {
    /// The secret in base32, for typing into an app. Codes have 6 digits, change every 30 seconds, and use SHA-1.
    #[schema(example = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP")]
    pub secret: String,
    /// The secret as an `otpauth` URI, for an app on the same device.
    #[schema(
        example = "otpauth://totp/rpcgate:ada%40example.com?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&issuer=rpcgate"
    )]
    pub uri: String,
    /// The URI as a QR code, an SVG image.
    pub qr_svg: String,
}

impl fmt::Debug for TotpSecretJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TotpSecretJson")
    }
}

impl From<OfferedTotp> for TotpSecretJson {
    fn from(OfferedTotp { secret, uri, qr_svg }: OfferedTotp) -> Self {
        let [secret, uri, qr_svg] = [secret, uri, qr_svg].map(|form| form.expose().to_owned());
        TotpSecretJson { secret, uri, qr_svg }
    }
}

/// The activation of an authenticator app.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ActivateTotp {
    /// The code that the app shows.
    #[schema(example = "123456")]
    pub code: String,
    /// The password of the account, unless the session has a recent proof.
    #[schema(value_type = Option<String>, format = Password)]
    #[serde(default)]
    pub current_password: Option<Typed>,
    /// A recovery code, if the caller has another second factor.
    #[schema(example = "0123-4567-89ab-cdef")]
    #[serde(default)]
    pub recovery_code: Option<String>,
    /// A passkey, if the caller has another second factor.
    #[serde(default)]
    pub passkey: Option<GivePasskey>,
}

impl fmt::Debug for ActivateTotp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ActivateTotp")
    }
}
