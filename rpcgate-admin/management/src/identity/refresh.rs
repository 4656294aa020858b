//! Opaque tokens that refer to a database row: refresh tokens, personal access tokens, log-ins that wait for a second
//! factor, and mailed tokens that confirm an address, set a password, change an address or invite a user.
//!
//! A token is a prefix that names its kind, and 32 random bytes in base64url. It contains no information; its rights
//! are stored under its SHA-256, so that a stolen copy of the database contains no usable token.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use rpcgate_core::secret::NoRandomness;
use std::fmt;

const BYTES: usize = 32;
/// The length of 32 bytes in base64 without padding.
const CHARACTERS: usize = 43;

/// The purpose of a token. A token of one kind is never accepted as another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum OpaqueKind {
    /// Exchanged for a new access token.
    Refresh,
    /// Confirms that a mail has reached its reader.
    Confirmation,
    /// Lets the reader of a mail join a tenant.
    Invitation,
    /// Lets the reader of a mail set a password.
    Reset,
    /// Changes an account's address to the one at which the mail was read.
    EmailChange,
    /// Lets a program call the API as the user who made the token.
    Access,
    /// Identifies a log-in that waits for its second factor.
    PendingLogIn,
}

impl OpaqueKind {
    /// Returns the prefix of this kind's tokens.
    pub const fn prefix(self) -> &'static str {
        match self {
            OpaqueKind::Refresh => "rpcgr_",
            OpaqueKind::Confirmation => "rpcgc_",
            OpaqueKind::Invitation => "rpcgi_",
            OpaqueKind::Reset => "rpcgp_",
            OpaqueKind::EmailChange => "rpcge_",
            OpaqueKind::Access => "rpcga_",
            OpaqueKind::PendingLogIn => "rpcgm_",
        }
    }
}

/// A new token. It is handed out once and not stored.
pub struct Opaque {
    text: String,
    hash: OpaqueHash,
}

impl Opaque {
    /// Makes a new token.
    ///
    /// ```
    /// use rpcgate_management::identity::refresh::{OpaqueKind, Opaque, OpaqueHash};
    ///
    /// let token = Opaque::make(OpaqueKind::Refresh)?;
    /// assert!(token.expose().starts_with("rpcgr_"));
    /// assert_eq!(OpaqueHash::of(OpaqueKind::Refresh, token.expose()), Some(token.hash()));
    /// assert_eq!(OpaqueHash::of(OpaqueKind::Confirmation, token.expose()), None);
    /// # Ok::<(), rpcgate_core::secret::NoRandomness>(())
    /// ```
    ///
    /// # Errors
    /// [`NoRandomness`] if the system provides none.
    pub fn make(kind: OpaqueKind) -> Result<Self, NoRandomness> {
        let mut bytes = [0; BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
        let mut text = kind.prefix().to_owned();
        URL_SAFE_NO_PAD.encode_string(bytes, &mut text);
        Ok(Opaque { hash: sha_256(&text), text })
    }

    /// Returns the token itself, for the answer or the mail.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Returns the hash under which the token is stored.
    pub fn hash(&self) -> OpaqueHash {
        self.hash
    }
}

impl fmt::Debug for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The SHA-256 under which a token is stored. A token has 256 bits of randomness, so no salt is needed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpaqueHash(pub [u8; 32]);

impl OpaqueHash {
    /// Returns the hash of a received token, or `None` if it does not have the form of a `kind` and needs no look-up.
    pub fn of(kind: OpaqueKind, token: &str) -> Option<Self> {
        let random = token.strip_prefix(kind.prefix())?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (random.len() == CHARACTERS && random.bytes().all(plain)).then(|| sha_256(token))
    }
}

impl fmt::Debug for OpaqueHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpaqueHash({})", hex::encode(self.0))
    }
}

fn sha_256(text: &str) -> OpaqueHash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
    OpaqueHash(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_name_their_kind() {
        for (kind, prefix) in [
            (OpaqueKind::Refresh, "rpcgr_"),
            (OpaqueKind::Confirmation, "rpcgc_"),
            (OpaqueKind::Invitation, "rpcgi_"),
            (OpaqueKind::Reset, "rpcgp_"),
            (OpaqueKind::EmailChange, "rpcge_"),
            (OpaqueKind::Access, "rpcga_"),
            (OpaqueKind::PendingLogIn, "rpcgm_"),
        ] {
            let a = Opaque::make(kind).unwrap();
            let b = Opaque::make(kind).unwrap();
            assert!(a.expose().starts_with(prefix) && a.expose().len() == 49, "{}", a.expose());
            assert_ne!(a.expose(), b.expose());
            assert_ne!(a.hash(), b.hash());
            assert_eq!(OpaqueHash::of(kind, a.expose()), Some(a.hash()));
        }
    }

    #[test]
    fn a_hash_is_the_sha_256_of_the_whole_token() {
        let token = format!("rpcgr_{}", "A".repeat(43));
        let hash = OpaqueHash::of(OpaqueKind::Refresh, &token).unwrap();
        assert_eq!(
            format!("{hash:?}"),
            "OpaqueHash(d8c013c2049c922527f872a744005afb14b25aa5541f3a1b08d701455a00d665)"
        );
    }

    #[test]
    fn a_text_that_is_not_a_token_is_not_looked_up() {
        let token = Opaque::make(OpaqueKind::Refresh).unwrap().expose().to_owned();
        for bad in [
            String::new(),
            "rpcgr_".into(),
            token.replace("rpcgr_", "rpcgc_"),
            token.replace("rpcgr_", "RPCGR_"),
            token.replace("rpcgr_", ""),
            format!("{token}="),
            format!(" {token}"),
            token[..48].to_owned(),
            format!("{}é", &token[..47]),
            format!("{}+", &token[..48]),
        ] {
            assert_eq!(OpaqueHash::of(OpaqueKind::Refresh, &bad), None, "{bad}");
        }
    }

    #[test]
    fn debug_output_contains_no_token() {
        let token = Opaque::make(OpaqueKind::Refresh).unwrap();
        assert_eq!(format!("{token:?}"), "***");
    }
}
