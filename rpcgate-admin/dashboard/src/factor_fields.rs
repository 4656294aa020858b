//! The form fields for a second factor: a field for a code, and a button for a passkey, which a script reveals.

use super::form::FieldList;
use rpcgate_management::action::factors::GivenFactor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::identity::passkey::PasskeyAnswer;
use rpcgate_management::identity::typed_code::code_of;
use rpcgate_store::Factors;

pub(super) const CODE: &str = "factor";

/// The consequence of the removal of a factor that may be the last one.
pub(super) const LAST_FACTOR: &str =
    "Without another factor, your password alone logs you in, and your recovery codes are invalid.";

/// The digits of an app's code. A recovery code is longer.
const APP_DIGITS: usize = 6;

/// The kinds of factor that a user can give.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FactorChoice {
    pub(crate) app: bool,
    pub(crate) recovery_code: bool,
    pub(crate) passkey: bool,
}

impl FactorChoice {
    pub(crate) fn of(app: &AppState, factors: Factors) -> Self {
        FactorChoice {
            app: factors.totp,
            recovery_code: factors.recovery_codes > 0,
            passkey: factors.passkeys > 0 && takes_passkeys(app),
        }
    }

    pub(crate) fn any(self) -> bool {
        self.code() || self.passkey
    }

    /// Reports whether the form has a field for a code.
    pub(crate) fn code(self) -> bool {
        self.app || self.recovery_code
    }

    pub(crate) fn hint(self) -> &'static str {
        match (self.app, self.recovery_code) {
            (true, true) => "The six digits that your authenticator app shows, or a recovery code.",
            (true, false) => "The six digits that your authenticator app shows.",
            (false, _) => "One of your recovery codes.",
        }
    }
}

/// Reports whether passkeys are available at the address of the dashboard.
pub(crate) fn takes_passkeys(app: &AppState) -> bool {
    app.passkeys.is_some()
}

/// Reads a code: six digits are a code of an app, anything else is a recovery code.
pub(super) fn code(text: &str) -> GivenFactor {
    let plain = code_of(text);
    let is_of_app = plain.len() == APP_DIGITS && plain.bytes().all(|byte| byte.is_ascii_digit());
    if is_of_app { GivenFactor::Code(plain) } else { GivenFactor::RecoveryCode(text.to_owned()) }
}

/// Returns the factor in a form: a passkey if the script has added one, or the code in the field `name`.
///
/// # Errors
/// [`ActionError::Invalid`] if the form has no factor or a malformed passkey response.
pub(super) fn of_form(fields: &FieldList, name: &'static str) -> Result<GivenFactor, ActionError> {
    if let Some(ceremony) = fields.filled("ceremony") {
        let answer = Box::new(PasskeyAnswer::read(credential(fields)?)?);
        return Ok(GivenFactor::Passkey { ceremony: ceremony.to_owned(), answer });
    }
    let given = fields.filled(name).ok_or_else(|| ActionError::field(name, "enter a code"))?;
    Ok(code(given))
}

/// Reads the browser's response to a passkey ceremony, which a script puts into the form.
///
/// # Errors
/// [`ActionError::Invalid`].
pub(super) fn credential(fields: &FieldList) -> Result<serde_json::Value, ActionError> {
    let text = fields.one("credential");
    serde_json::from_str(text).map_err(|_| ActionError::named("credential", "is not what a browser returns"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits_are_of_an_app_and_the_rest_are_recovery_codes() {
        for (text, is_of_app) in [
            ("123456", true),
            ("123 456", true),
            ("123\u{a0}456", true),
            ("１２３-４５６", true),
            ("12345", false),
            ("0123-4567-89ab-cdef", false),
        ] {
            assert_eq!(matches!(code(text), GivenFactor::Code(_)), is_of_app, "{text}");
        }
    }

    #[test]
    fn a_form_asks_for_the_factors_of_the_user() {
        let choice = |app, recovery_code| FactorChoice { app, recovery_code, passkey: true };
        assert!(choice(true, false).code() && choice(false, true).code() && !choice(false, false).code());
        assert!(
            choice(true, true).hint().contains("recovery")
                && !choice(true, false).hint().contains("recovery")
        );
    }
}
