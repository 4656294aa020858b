//! Signed tokens that state who is logged in, verified without a look-up.
//!
//! A token is a JWT signed with HS256. Exactly one algorithm, header, issuer and audience are accepted; any other token
//! is refused even if its signature is valid. A token does not show whether its session has ended, so each request also
//! checks the store.

use super::derive;
use super::role::Role;
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error as JwtError, ErrorKind};
use jsonwebtoken::signature::{Error as SignatureError, Signer, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, EncodingKey, Header, Validation};
use ring::hmac;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_store::UserId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use uuid::Uuid;

const ISSUER: &str = "rpcgate";
/// The allowed clock difference between management hosts.
const LEEWAY: Duration = Duration::from_secs(5);
/// The maximum length of a token in bytes. Ours have about 500.
const MAX_LEN: usize = 4096;
const MIN_SECRET: usize = 32;

/// The purpose of a token. A token of one kind is invalid as another: each has its own audience, type and key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenKind {
    /// An access token for the API, in `Authorization`: RFC 9068.
    Access,
    /// A token for pages, in a cookie.
    Page,
}

impl TokenKind {
    fn audience(self) -> &'static str {
        match self {
            TokenKind::Access => "rpcgate-management",
            TokenKind::Page => "rpcgate-pages",
        }
    }

    fn header_type(self) -> &'static str {
        match self {
            TokenKind::Access => "at+jwt",
            TokenKind::Page => "page+jwt",
        }
    }

    fn purpose(self) -> &'static str {
        match self {
            TokenKind::Access => "rpcgate access token",
            TokenKind::Page => "rpcgate page token",
        }
    }
}

/// The contents of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claims {
    /// The user.
    pub sub: UserId,
    /// The session (a UUID) for which the token was issued.
    pub sid: u128,
    /// The user's tenant.
    pub tenant: TenantId,
    /// The user's role in the tenant.
    pub role: Role,
    /// True if the user is an operator.
    pub operator: bool,
}

/// The reason why a token is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadToken {
    /// It cannot be parsed, or a claim is missing.
    #[error("the token is malformed")]
    Malformed,
    /// Its header is not the expected one: another algorithm, another type, or a critical extension.
    #[error("the token is of another kind")]
    Header,
    /// It was not signed with our key, or has been changed.
    #[error("the token's signature is wrong")]
    Signature,
    /// It has another issuer.
    #[error("the token has another issuer")]
    Issuer,
    /// It has another audience.
    #[error("the token is for another audience")]
    Audience,
    /// It is not valid yet.
    #[error("the token is not valid yet")]
    Early,
    /// It has expired.
    #[error("the token has expired")]
    Expired,
}

/// The reason why tokens cannot be issued.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The secret is too short to be safe from guessing.
    #[error("the secret of the tokens must have at least {MIN_SECRET} bytes")]
    ShortSecret,
    /// Signing failed.
    #[error("a token cannot be signed: {0}")]
    Signing(String),
}

/// Issues and checks tokens of one kind.
pub struct Tokens {
    kind: TokenKind,
    sign: EncodingKey,
    verify: DecodingKey,
    /// Keys of former secrets, which only verify.
    former: Vec<DecodingKey>,
    header: Header,
    rules: Validation,
    ttl: Duration,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("kind", &self.kind).field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Signs tokens of this kind with a key derived from `secret` (`admin.jwt.secret`, the same on all hosts), valid
    /// for `ttl`.
    ///
    /// # Errors
    /// [`TokenError::ShortSecret`]; [`TokenError::Signing`] if the process has already installed another provider in
    /// the `jsonwebtoken` crate that cannot sign with HS256.
    pub fn new(kind: TokenKind, secret: &[u8], ttl: Duration) -> Result<Self, TokenError> {
        if secret.len() < MIN_SECRET {
            return Err(TokenError::ShortSecret);
        }
        // The provider is global. A provider that was installed before serves as well, or the trial below fails.
        let _ = RING.install_default();
        let key = derive(secret, kind.purpose());
        let mut rules = Validation::new(Algorithm::HS256);
        rules.set_issuer(&[ISSUER]);
        rules.set_audience(&[kind.audience()]);
        rules.set_required_spec_claims(&["iss", "aud", "sub", "exp", "nbf"]);
        // The crate uses the system clock. Ours is passed in, so the times are checked below.
        rules.validate_exp = false;
        rules.validate_nbf = false;
        let mut header = Header::new(Algorithm::HS256);
        header.typ = Some(kind.header_type().into());
        let sign = EncodingKey::from_secret(&key);
        let verify = DecodingKey::from_secret(&key);
        let tokens = Tokens { kind, sign, verify, former: Vec::new(), header, rules, ttl };
        tokens.write(&tokens.header, &())?;
        Ok(tokens)
    }

    /// Also accepts tokens that were signed with one of the `former` secrets (`admin.jwt.former_secrets`).
    #[must_use]
    pub fn accepting<'s>(self, former: impl IntoIterator<Item = &'s [u8]>) -> Self {
        let key = |secret| DecodingKey::from_secret(&derive(secret, self.kind.purpose()));
        let former = former.into_iter().map(key).collect();
        Tokens { former, ..self }
    }

    /// Returns the lifetime of a token.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Issues a token with `claims`, valid from `now`. Its lifetime is rounded up to a whole second.
    ///
    /// # Errors
    /// [`TokenError::Signing`].
    pub fn issue(&self, claims: &Claims, now: Time) -> Result<String, TokenError> {
        let uuid = |id: u128| Uuid::from_u128(id).to_string();
        let raw = RawClaims {
            iss: ISSUER.into(),
            aud: self.kind.audience().into(),
            sub: uuid(claims.sub.0),
            sid: uuid(claims.sid),
            tenant: uuid(claims.tenant.0),
            role: claims.role.as_str().into(),
            operator: claims.operator,
            iat: now.secs(),
            nbf: now.secs(),
            exp: now.plus(self.ttl).micros().div_ceil(1_000_000),
        };
        self.write(&self.header, &raw)
    }

    /// Returns the claims of `token` if it is valid at `now`.
    ///
    /// # Errors
    /// [`BadToken`] says what is wrong. Callers should only tell a client that the token is invalid or has expired.
    pub fn check(&self, token: &str, now: Time) -> Result<Claims, BadToken> {
        if token.len() > MAX_LEN {
            return Err(BadToken::Malformed);
        }
        let decode =
            |key| jsonwebtoken::decode::<RawClaims>(token, key, &self.rules).map_err(|error| bad(&error));
        let mut decoded = decode(&self.verify);
        for key in &self.former {
            if !matches!(decoded, Err(BadToken::Signature)) {
                break;
            }
            decoded = decode(key);
        }
        let token = decoded?;
        if token.header != self.header {
            return Err(BadToken::Header);
        }
        let raw = token.claims;
        if Time::from_secs(raw.nbf.max(raw.iat)) > now.plus(LEEWAY) {
            return Err(BadToken::Early);
        }
        if Time::from_secs(raw.exp).plus(LEEWAY) <= now {
            return Err(BadToken::Expired);
        }
        Ok(Claims {
            sub: UserId(uuid(&raw.sub)?),
            sid: uuid(&raw.sid)?,
            tenant: TenantId(uuid(&raw.tenant)?),
            role: raw.role.parse().map_err(|_| BadToken::Malformed)?,
            operator: raw.operator,
        })
    }

    fn write(&self, header: &Header, claims: &impl Serialize) -> Result<String, TokenError> {
        jsonwebtoken::encode(header, claims, &self.sign)
            .map_err(|error| TokenError::Signing(error.to_string()))
    }
}

fn uuid(text: &str) -> Result<u128, BadToken> {
    Uuid::try_parse(text).map(|id| id.as_u128()).map_err(|_| BadToken::Malformed)
}

fn bad(error: &JwtError) -> BadToken {
    match error.kind() {
        ErrorKind::InvalidSignature => BadToken::Signature,
        ErrorKind::InvalidAlgorithm | ErrorKind::UnsupportedAlgorithm => BadToken::Header,
        ErrorKind::InvalidIssuer => BadToken::Issuer,
        ErrorKind::InvalidAudience => BadToken::Audience,
        _ => BadToken::Malformed,
    }
}

/// The serialised claims. Unknown claims are ignored, because a newer version may have added them.
#[derive(Serialize, Deserialize)]
struct RawClaims {
    iss: String,
    aud: String,
    sub: String,
    sid: String,
    tenant: String,
    role: String,
    operator: bool,
    iat: u64,
    nbf: u64,
    exp: u64,
}

/// HMAC-SHA256 as the only algorithm for the `jsonwebtoken` crate, whose own providers would add a second cryptography
/// library.
static RING: CryptoProvider = CryptoProvider {
    signer_factory: |algorithm, key| {
        Ok(Box::new(Hs256::new(*algorithm, key.family(), || Ok(key.as_bytes()))?))
    },
    verifier_factory: |algorithm, key| {
        Ok(Box::new(Hs256::new(*algorithm, key.family(), || key.try_get_as_bytes())?))
    },
    key_utils: KeyUtils::new_unimplemented(),
};

struct Hs256(hmac::Key);

impl Hs256 {
    fn new<'k>(
        algorithm: Algorithm,
        family: AlgorithmFamily,
        key: impl FnOnce() -> Result<&'k [u8], JwtError>,
    ) -> Result<Self, JwtError> {
        if algorithm != Algorithm::HS256 || family != AlgorithmFamily::Hmac {
            return Err(ErrorKind::UnsupportedAlgorithm.into());
        }
        Ok(Hs256(hmac::Key::new(hmac::HMAC_SHA256, key()?)))
    }
}

impl Signer<Vec<u8>> for Hs256 {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, SignatureError> {
        Ok(hmac::sign(&self.0, message).as_ref().to_vec())
    }
}

impl JwtSigner for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl Verifier<Vec<u8>> for Hs256 {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), SignatureError> {
        hmac::verify(&self.0, message, signature).map_err(|_| SignatureError::new())
    }
}

impl JwtVerifier for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
    use proptest::prelude::*;
    use ring::hmac::{HMAC_SHA256, HMAC_SHA384, HMAC_SHA512};
    use serde_json::{Value, json};

    const SECRET: &[u8] = b"a secret of at least thirty-two bytes";
    const NOW: Time = Time::from_secs(1_800_000_000);

    fn tokens() -> Tokens {
        Tokens::new(TokenKind::Access, SECRET, Duration::from_secs(900)).unwrap()
    }

    fn claims() -> Claims {
        Claims { sub: UserId(1), sid: 2, tenant: TenantId(3), role: Role::Developer, operator: false }
    }

    fn said() -> Value {
        json!({
            "iss": ISSUER, "aud": TokenKind::Access.audience(), "sub": Uuid::from_u128(1).to_string(),
            "sid": Uuid::from_u128(2).to_string(), "tenant": Uuid::from_u128(3).to_string(),
            "role": "developer", "operator": false,
            "iat": NOW.secs(), "nbf": NOW.secs(), "exp": NOW.secs() + 900,
        })
    }

    fn with(name: &str, value: Value) -> String {
        let mut claims = said();
        claims[name] = value;
        claims.to_string()
    }

    /// Makes a token of these parts, signed with our own key, which an attacker does not have.
    fn forge(header: &str, claims: &str, algorithm: hmac::Algorithm, key: &[u8]) -> String {
        let message = format!("{}.{}", BASE64.encode(header), BASE64.encode(claims));
        let tag = hmac::sign(&hmac::Key::new(algorithm, key), message.as_bytes());
        format!("{message}.{}", BASE64.encode(tag))
    }

    fn ours() -> [u8; 32] {
        derive(SECRET, "rpcgate access token")
    }

    const HEADER: &str = r#"{"typ":"at+jwt","alg":"HS256"}"#;

    fn signed(header: &str, claims: &str) -> String {
        forge(header, claims, HMAC_SHA256, &ours())
    }

    #[test]
    fn a_token_returns_its_claims() {
        let tokens = tokens();
        let mut claims = claims();
        for role in Role::ALL {
            claims.role = role;
            claims.operator = !claims.operator;
            let token = tokens.issue(&claims, NOW).unwrap();
            assert!(token.len() < 1024);
            assert_eq!(tokens.check(&token, NOW), Ok(claims));
        }
        assert_eq!(tokens.check(&signed(HEADER, &said().to_string()), NOW), Ok(self::claims()));
    }

    #[test]
    fn a_token_is_good_from_5_seconds_before_its_issue_to_5_after_its_end() {
        let tokens = tokens();
        let token = tokens.issue(&claims(), NOW.plus(Duration::from_micros(1))).unwrap();
        let at = |micros: i64| {
            tokens.check(&token, Time::from_micros(NOW.micros().checked_add_signed(micros).unwrap())).err()
        };
        assert_eq!(at(-5_000_001), Some(BadToken::Early));
        assert_eq!(at(-5_000_000), None);
        // The lifetime was rounded up to a whole second.
        assert_eq!(at(905_999_999), None);
        assert_eq!(at(906_000_000), Some(BadToken::Expired));
    }

    #[test]
    fn every_forged_or_altered_token_is_refused() {
        let good = tokens().issue(&claims(), NOW).unwrap();
        let parts: Vec<&str> = good.split('.').collect();
        let plain = said().to_string();
        let without = |name: &str| {
            let mut claims = said();
            claims.as_object_mut().unwrap().remove(name);
            signed(HEADER, &claims.to_string())
        };
        let unsigned = |header: &str| format!("{}.{}.", BASE64.encode(header), parts[1]);
        let twice = plain.replacen('{', r#"{"role":"owner","#, 1);
        let long = with("note", Value::from("x".repeat(MAX_LEN)));
        let cases = [
            // The algorithm.
            ("alg none", unsigned(r#"{"typ":"at+jwt","alg":"none"}"#), BadToken::Malformed),
            ("alg None", unsigned(r#"{"typ":"at+jwt","alg":"None"}"#), BadToken::Malformed),
            ("alg NONE, signed", signed(r#"{"typ":"at+jwt","alg":"NONE"}"#, &plain), BadToken::Malformed),
            ("alg hs256", signed(r#"{"typ":"at+jwt","alg":"hs256"}"#, &plain), BadToken::Malformed),
            ("no alg", signed(r#"{"typ":"at+jwt"}"#, &plain), BadToken::Malformed),
            ("alg null", signed(r#"{"typ":"at+jwt","alg":null}"#, &plain), BadToken::Malformed),
            ("ALG", signed(r#"{"typ":"at+jwt","ALG":"HS256"}"#, &plain), BadToken::Malformed),
            (
                "two algs",
                signed(r#"{"typ":"at+jwt","alg":"none","alg":"HS256"}"#, &plain),
                BadToken::Malformed,
            ),
            ("RS256", signed(r#"{"typ":"at+jwt","alg":"RS256"}"#, &plain), BadToken::Header),
            ("ES256", signed(r#"{"typ":"at+jwt","alg":"ES256"}"#, &plain), BadToken::Header),
            ("EdDSA", signed(r#"{"typ":"at+jwt","alg":"EdDSA"}"#, &plain), BadToken::Header),
            (
                "HS384",
                forge(r#"{"typ":"at+jwt","alg":"HS384"}"#, &plain, HMAC_SHA384, &ours()),
                BadToken::Header,
            ),
            (
                "HS512",
                forge(r#"{"typ":"at+jwt","alg":"HS512"}"#, &plain, HMAC_SHA512, &ours()),
                BadToken::Header,
            ),
            ("SHA-512 under HS256", forge(HEADER, &plain, HMAC_SHA512, &ours()), BadToken::Signature),
            // The rest of the header.
            ("typ JWT", signed(r#"{"typ":"JWT","alg":"HS256"}"#, &plain), BadToken::Header),
            ("typ AT+JWT", signed(r#"{"typ":"AT+JWT","alg":"HS256"}"#, &plain), BadToken::Header),
            ("no typ", signed(r#"{"alg":"HS256"}"#, &plain), BadToken::Header),
            (
                "crit",
                signed(r#"{"typ":"at+jwt","alg":"HS256","crit":["b64"],"b64":false}"#, &plain),
                BadToken::Header,
            ),
            ("kid", signed(r#"{"typ":"at+jwt","alg":"HS256","kid":"/dev/null"}"#, &plain), BadToken::Header),
            (
                "jku",
                signed(r#"{"typ":"at+jwt","alg":"HS256","jku":"http://evil/"}"#, &plain),
                BadToken::Header,
            ),
            (
                "jwk",
                signed(r#"{"typ":"at+jwt","alg":"HS256","jwk":{"kty":"oct","k":"AA"}}"#, &plain),
                BadToken::Header,
            ),
            ("zip", signed(r#"{"typ":"at+jwt","alg":"HS256","zip":"DEF"}"#, &plain), BadToken::Header),
            // The key.
            ("another key", forge(HEADER, &plain, HMAC_SHA256, &[7; 32]), BadToken::Signature),
            ("the empty key", forge(HEADER, &plain, HMAC_SHA256, b""), BadToken::Signature),
            ("the secret itself", forge(HEADER, &plain, HMAC_SHA256, SECRET), BadToken::Signature),
            (
                "another purpose's key",
                forge(HEADER, &plain, HMAC_SHA256, &derive(SECRET, "rpcgate challenge")),
                BadToken::Signature,
            ),
            ("no signature", format!("{}.{}.", parts[0], parts[1]), BadToken::Signature),
            ("half a signature", good[..good.len() - 22].to_owned(), BadToken::Malformed),
            (
                "another token's claims",
                format!("{}.{}.{}", parts[0], BASE64.encode(with("role", json!("owner"))), parts[2]),
                BadToken::Signature,
            ),
            // Subject and audience.
            ("issuer", signed(HEADER, &with("iss", json!("RPCGATE"))), BadToken::Issuer),
            ("issuers", signed(HEADER, &with("iss", json!([ISSUER]))), BadToken::Malformed),
            ("audience", signed(HEADER, &with("aud", json!("rpcgate-gateway"))), BadToken::Audience),
            (
                "audience in capitals",
                signed(HEADER, &with("aud", json!("RPCGATE-management"))),
                BadToken::Audience,
            ),
            (
                "audiences",
                signed(HEADER, &with("aud", json!([TokenKind::Access.audience(), "x"]))),
                BadToken::Malformed,
            ),
            ("no audience", without("aud"), BadToken::Malformed),
            ("no issuer", without("iss"), BadToken::Malformed),
            ("no subject", without("sub"), BadToken::Malformed),
            ("no session", without("sid"), BadToken::Malformed),
            ("no tenant", without("tenant"), BadToken::Malformed),
            ("no role", without("role"), BadToken::Malformed),
            ("no operator", without("operator"), BadToken::Malformed),
            ("no iat", without("iat"), BadToken::Malformed),
            ("no nbf", without("nbf"), BadToken::Malformed),
            ("no exp", without("exp"), BadToken::Malformed),
            ("claims in capitals", signed(HEADER, &plain.to_uppercase()), BadToken::Malformed),
            ("role in capitals", signed(HEADER, &with("role", json!("Developer"))), BadToken::Malformed),
            ("two roles", signed(HEADER, &twice), BadToken::Malformed),
            ("an unknown role", signed(HEADER, &with("role", json!("root"))), BadToken::Malformed),
            ("a subject that is no UUID", signed(HEADER, &with("sub", json!("1"))), BadToken::Malformed),
            // Times.
            ("exp as text", signed(HEADER, &with("exp", json!("1900000000"))), BadToken::Malformed),
            ("exp as fraction", signed(HEADER, &with("exp", json!(1.9e9))), BadToken::Malformed),
            ("exp below zero", signed(HEADER, &with("exp", json!(-1))), BadToken::Malformed),
            ("exp null", signed(HEADER, &with("exp", Value::Null)), BadToken::Malformed),
            ("expired", signed(HEADER, &with("exp", json!(NOW.secs() - 5))), BadToken::Expired),
            ("not yet valid", signed(HEADER, &with("nbf", json!(NOW.secs() + 6))), BadToken::Early),
            ("from the future", signed(HEADER, &with("iat", json!(NOW.secs() + 6))), BadToken::Early),
            ("nbf at the end of time", signed(HEADER, &with("nbf", json!(u64::MAX))), BadToken::Early),
            // The form.
            ("nothing", String::new(), BadToken::Malformed),
            ("dots", "..".into(), BadToken::Malformed),
            ("two parts", format!("{}.{}", parts[0], parts[1]), BadToken::Malformed),
            ("four parts", format!("{good}.x"), BadToken::Malformed),
            ("a blank after it", format!("{good} "), BadToken::Malformed),
            ("padding", format!("{good}="), BadToken::Malformed),
            ("too long", signed(HEADER, &long), BadToken::Malformed),
            ("in small letters", good.to_lowercase(), BadToken::Malformed),
        ];
        let tokens = tokens();
        for (name, token, why) in cases {
            assert_eq!(tokens.check(&token, NOW), Err(why), "{name}: {token}");
        }
    }

    #[test]
    fn a_token_of_other_hosts_is_not_ours() {
        let other = Tokens::new(
            TokenKind::Access,
            b"another secret of some thirty-two bytes",
            Duration::from_secs(900),
        )
        .unwrap();
        let token = other.issue(&claims(), NOW).unwrap();
        assert_eq!(tokens().check(&token, NOW), Err(BadToken::Signature));
    }

    #[test]
    fn tokens_of_a_former_secret_are_accepted_until_it_is_removed() {
        let current = b"another secret of some thirty-two bytes".as_slice();
        let with = |secret| Tokens::new(TokenKind::Access, secret, Duration::from_secs(900)).unwrap();
        let before = tokens();
        let after = with(current);
        let during = with(current).accepting([[3; 40].as_slice(), SECRET]);
        let old = before.issue(&claims(), NOW).unwrap();
        assert_eq!(during.check(&old, NOW), Ok(claims()));
        assert_eq!(during.check(&old, NOW.plus(Duration::from_secs(1_000))), Err(BadToken::Expired));
        assert_eq!(after.check(&old, NOW), Err(BadToken::Signature));
        let new = during.issue(&claims(), NOW).unwrap();
        assert_eq!(after.check(&new, NOW), Ok(claims()), "new ones are signed with the current secret");
        assert_eq!(before.check(&new, NOW), Err(BadToken::Signature));
        let page = Tokens::new(TokenKind::Page, SECRET, Duration::from_secs(900)).unwrap();
        assert!(during.check(&page.issue(&claims(), NOW).unwrap(), NOW).is_err(), "of its own kind alone");
    }

    #[test]
    fn a_secret_that_can_be_guessed_is_refused() {
        let found = Tokens::new(TokenKind::Access, &[1; 31], Duration::from_secs(1)).unwrap_err();
        assert_eq!(found.to_string(), "the secret of the tokens must have at least 32 bytes");
        assert!(!format!("{:?}", tokens()).contains("secret"));
    }

    #[test]
    fn nothing_but_hs256_is_signed() {
        let tokens = tokens();
        for algorithm in [Algorithm::HS384, Algorithm::HS512, Algorithm::RS256] {
            assert!(matches!(tokens.write(&Header::new(algorithm), &()), Err(TokenError::Signing(_))));
        }
    }

    proptest! {
        #[test]
        fn a_token_with_any_byte_changed_is_refused(at in any::<prop::sample::Index>(), to in "[ -~]") {
            let tokens = tokens();
            let token = tokens.issue(&claims(), NOW).unwrap();
            let at = at.index(token.len());
            let mut changed = token.clone();
            changed.replace_range(at..=at, &to);
            prop_assert_eq!(tokens.check(&changed, NOW).is_ok(), changed == token);
        }

        #[test]
        fn no_text_makes_the_check_panic(text in "\\PC*", header in "\\PC*", claims in "\\PC*", at: u64) {
            let at = Time::from_micros(at);
            prop_assert!(tokens().check(&text, at).is_err());
            prop_assert!(tokens().check(&signed(&header, &claims), at).is_err());
            prop_assert!(tokens().check(&signed(HEADER, &claims), at).is_err());
        }
    }
}
