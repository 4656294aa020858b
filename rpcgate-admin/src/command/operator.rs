//! `rpcgate-admin operator create`: creates an operator's account.

use super::{configuration, store_failure};
use rpcgate_config::secret_of;
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_core::secret::random_text;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::identity::password::{Password, Passwords};
use rpcgate_management::mail::address;
use rpcgate_process::{Failure, LocalAccount};
use rpcgate_store::{Audit, Role, Store, User, UserId, fresh_id};
use std::io::{BufRead, Write};
use std::path::Path;

/// The length of a generated password. Each character is one of 62.
const GENERATED: usize = 24;

/// Creates an operator with the address `email` in the database of the configuration in `file`. The password is the
/// first line of `typed`; without it, one is generated and written to `out` only once.
///
/// # Errors
/// [`Failure::Configuration`] for an unusable configuration, [`Failure::Other`] for an invalid address or password, for
/// an address that is taken, and for an unusable database.
pub async fn create(
    file: &Path,
    email: &str,
    typed: Option<&mut dyn BufRead>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let database = configuration(file)?.database;
    let email = address(email).map_err(|error| Failure::Other(format!("--email: {error}")))?;
    let is_typed = typed.is_some();
    let text = match typed {
        Some(input) => first_line(input)?,
        None => {
            let mut made = String::with_capacity(GENERATED);
            random_text(GENERATED, &mut made).map_err(|error| Failure::Other(error.to_string()))?;
            made
        }
    };
    let password = Password::new(text.as_str()).map_err(|error| Failure::Other(error.to_string()))?;
    let hash =
        Passwords::new(1, 0).hash(password).await.map_err(|error| Failure::Other(error.to_string()))?;
    let now = SystemClock::new().now();
    let user = User {
        id: UserId(fresh_id(now)),
        tenant: None,
        email: email.as_str().to_owned(),
        name: String::new(),
        role: Role::Viewer,
        password: Some(hash),
        confirmed_at: Some(now),
        created_at: now,
    };
    let actor = Actor::at_command_line(LocalAccount::current(), None, now);
    // The entry belongs to the new operator, who sees it in the account's audit log.
    let entry = Audit { user: Some(user.id), ..actor.entry(None, ("operator.created", user.id, ""), now) };
    let store = Store::open(database.url(), database.migrate).await.map_err(store_failure)?;
    let made = store.with_audit_entry(entry).create_user(&user).await;
    store.close().await;
    made.map_err(store_failure)?;
    writeln!(out, "operator {} was created: {}", user.email, user.id)?;
    if !is_typed {
        writeln!(out, "password: {text}")?;
    }
    Ok(out.flush()?)
}

fn first_line(input: &mut dyn BufRead) -> Result<String, Failure> {
    // Longer than a password may be, so that a too long password is reported.
    const MAX: u64 = 64 << 10;
    let mut line = String::new();
    let mut limited = std::io::Read::take(input, MAX);
    limited.read_line(&mut line)?;
    Ok(secret_of(&line).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_store::{AuditSubject, url_of};
    use tempfile::TempDir;

    struct Fixture {
        dir: TempDir,
        url: String,
    }

    impl Fixture {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let url = url_of(&dir.path().join("rpcgate.db"));
            std::fs::write(dir.path().join("rpcgate.toml"), format!("[database]\nurl = \"{url}\"\n"))
                .unwrap();
            Fixture { dir, url }
        }

        async fn create(&self, email: &str, typed: Option<&str>) -> Result<String, (u8, String)> {
            let mut out = Vec::new();
            let mut input = typed.map(str::as_bytes);
            let input = input.as_mut().map(|input| input as &mut dyn BufRead);
            match create(&self.dir.path().join("rpcgate.toml"), email, input, &mut out).await {
                Ok(()) => Ok(String::from_utf8(out).unwrap()),
                Err(failure) => Err((failure.code(), failure.to_string())),
            }
        }

        async fn verify(&self, email: &str, password: &str) -> bool {
            let store = Store::open(&self.url, false).await.unwrap();
            let user = store.user_by_email(email).await.unwrap().unwrap();
            assert!(user.is_operator() && user.confirmed_at.is_some());
            let noted = store.audit(AuditSubject::User(user.id), 10).await.unwrap();
            assert_eq!(noted[0].action, "operator.created");
            assert!(noted[0].address.starts_with("command line ("), "who made it: {noted:?}");
            store.close().await;
            Passwords::new(1, 0).verify(password.to_owned(), user.password.as_deref()).await.unwrap()
        }
    }

    #[tokio::test]
    async fn a_typed_password_is_not_shown_and_works() {
        let fixture = Fixture::new();
        let password = "correct horse battery staple";
        let out = fixture.create("Ops@Example.com", Some(&format!("{password}\r\nmore\n"))).await.unwrap();
        assert!(out.starts_with("operator ops@example.com was created: "), "{out}");
        assert!(!out.contains(password));
        assert!(fixture.verify("ops@example.com", password).await);
        assert!(!fixture.verify("ops@example.com", "correct horse battery stable").await);
    }

    #[tokio::test]
    async fn a_generated_password_is_shown_once_and_works() {
        let fixture = Fixture::new();
        let out = fixture.create("ops@example.com", None).await.unwrap();
        let made = out.lines().nth(1).unwrap().strip_prefix("password: ").unwrap();
        assert_eq!(made.len(), GENERATED);
        assert!(fixture.verify("ops@example.com", made).await);
    }

    #[tokio::test]
    async fn invalid_input_is_refused_and_leaves_nothing_behind() {
        let fixture = Fixture::new();
        let (code, text) = fixture.create("nobody", None).await.unwrap_err();
        assert!(code == 1 && text.starts_with("--email: "), "{text}");
        let (code, text) = fixture.create("ops@example.com", Some("short\n")).await.unwrap_err();
        assert!(code == 1 && !text.contains("short\n"), "{text}");
        fixture.create("ops@example.com", Some("correct horse battery staple")).await.unwrap();
        let (code, text) =
            fixture.create("ops@example.com", Some("correct horse battery staple")).await.unwrap_err();
        assert_eq!((code, text.as_str()), (1, "there is already a user with this e-mail address"));
    }
}
