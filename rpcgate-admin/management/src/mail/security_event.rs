//! The mails that notify users about changes to their accounts.

use super::{Address, Mail, MailObject, ends_line};
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use rpcgate_store::{ATTEMPTS, LOCK, Role};
use std::net::IpAddr;
use time::OffsetDateTime;

/// An event that concerns the security of an account. Users are notified about each, also if they seem to have caused
/// it themselves, because a thief would not tell them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SecurityEvent<'e> {
    /// The user changed the password while logged in.
    PasswordChanged,
    /// The password was set through a mailed link.
    PasswordReset,
    /// The account's e-mail address was changed.
    EmailChanged {
        /// The former address.
        before: &'e str,
    },
    /// A log-in came from a device and network that the account had not used before.
    NewDevice {
        /// The client's user agent, unchanged.
        agent: &'e str,
    },
    /// The user ended all sessions, or all but the current one.
    SessionsEnded,
    /// The user ended one session other than the current one.
    SessionEnded,
    /// Wrong passwords or wrong second factors have locked the account for a time.
    Locked {
        /// The wrong tries, in the plural: `wrong passwords at log-ins`.
        tries: &'static str,
    },
    /// A refresh token was used twice, and its session was ended.
    RefreshTokenReused,
    /// A second factor was added.
    FactorAdded {
        /// The factor, as a noun without article: `authenticator app` or `passkey "Phone"`.
        factor: &'e str,
    },
    /// A second factor was removed.
    FactorRemoved {
        /// The factor, as a noun without article.
        factor: &'e str,
    },
    /// An operator has removed all second factors because the user has lost them.
    FactorsReset {
        /// The operator's reason.
        reason: &'e str,
    },
    /// New recovery codes replace the former ones.
    RecoveryCodesRenewed,
    /// A recovery code was used instead of a second factor.
    RecoveryCodeUsed {
        /// The number of unused codes.
        left: u64,
    },
    /// The user has created an API key.
    KeyCreated {
        /// The key's first characters.
        prefix: &'e str,
        /// The key's project.
        project: ProjectId,
    },
    /// The user has revoked an API key.
    KeyRevoked {
        /// The key's first characters.
        prefix: &'e str,
        /// The key's project.
        project: ProjectId,
    },
    /// The user has created an access token for automation.
    AccessTokenCreated {
        /// Its name.
        name: &'e str,
    },
    /// Another member has changed the user's role.
    RoleChanged {
        /// The name of the new role.
        role: &'e str,
    },
    /// A member has invited an address, as owner or admin, to an organisation that the user owns.
    MemberInvited {
        /// The role of the new member.
        role: Role,
        /// The invited address.
        invited: &'e str,
        /// The address of the inviting member.
        by: &'e str,
    },
    /// A member of an organisation that the user owns has become an owner or an admin.
    RoleRaised {
        /// The new role.
        role: Role,
        /// The address of the member.
        member: &'e str,
        /// The address of the member who changed the role.
        by: &'e str,
    },
    /// Another member has removed the user from the organisation, which deletes the account.
    MemberRemoved,
    /// Operators have disabled the account.
    Disabled,
    /// Operators have enabled the account again.
    Enabled,
}

impl SecurityEvent<'_> {
    /// Describes the event in a sentence without its full stop.
    pub fn summary(&self) -> String {
        match self {
            SecurityEvent::PasswordChanged => "Your password was changed".into(),
            SecurityEvent::PasswordReset => "Your password was set by a mailed link".into(),
            SecurityEvent::EmailChanged { .. } => "Your e-mail address was changed".into(),
            SecurityEvent::NewDevice { .. } => "Your account was used from a new device".into(),
            SecurityEvent::SessionsEnded => "Your sessions were ended".into(),
            SecurityEvent::SessionEnded => "One of your sessions was ended".into(),
            SecurityEvent::Locked { .. } => "Your account was locked temporarily".into(),
            SecurityEvent::RefreshTokenReused => {
                "A session was ended because its token was used twice".into()
            }
            SecurityEvent::FactorAdded { .. } => "A second factor was added to your account".into(),
            SecurityEvent::FactorRemoved { .. } => "A second factor was removed from your account".into(),
            SecurityEvent::FactorsReset { .. } => "An operator has removed your second factors".into(),
            SecurityEvent::RecoveryCodesRenewed => "Your recovery codes were replaced".into(),
            SecurityEvent::RecoveryCodeUsed { .. } => "A recovery code of your account was used".into(),
            SecurityEvent::KeyCreated { .. } => "An API key was created".into(),
            SecurityEvent::KeyRevoked { .. } => "An API key was revoked".into(),
            SecurityEvent::AccessTokenCreated { .. } => "An access token was created".into(),
            SecurityEvent::RoleChanged { .. } => "Your role was changed".into(),
            SecurityEvent::MemberInvited { role, .. } => {
                format!("A new {role} was invited to your organisation")
            }
            SecurityEvent::RoleRaised { role, .. } => {
                format!("A member of your organisation has the role {role} now")
            }
            SecurityEvent::MemberRemoved => "You were removed from an organisation".into(),
            SecurityEvent::Disabled => "Your account was disabled".into(),
            SecurityEvent::Enabled => "Your account was enabled again".into(),
        }
    }

    /// Returns details for the reader in addition to the summary.
    fn details(&self) -> Option<String> {
        Some(match self {
            SecurityEvent::PasswordReset => "All sessions of the account were ended.".into(),
            SecurityEvent::PasswordChanged => "All other sessions of the account were ended.".into(),
            SecurityEvent::EmailChanged { before } => format!("It was {} before.", plain(before)),
            SecurityEvent::NewDevice { agent: "" } => "The client did not send a user agent.".into(),
            SecurityEvent::NewDevice { agent } => format!("The program calls itself \"{}\".", plain(agent)),
            SecurityEvent::RefreshTokenReused => {
                "Either someone has copied the token, or a program has used it twice. Log in again.".into()
            }
            SecurityEvent::Locked { tries } => {
                let minutes = LOCK.as_secs() / 60;
                format!("There were {ATTEMPTS} {tries}, so no more are accepted for {minutes} minutes.")
            }
            SecurityEvent::FactorAdded { factor } => {
                format!("It is the {}. From now on, a log-in requires a second factor.", plain(factor))
            }
            SecurityEvent::FactorRemoved { factor } => {
                format!("It was the {}. All other sessions of the account were ended.", plain(factor))
            }
            SecurityEvent::FactorsReset { reason } => format!(
                "The reason is \"{}\". All sessions of the account were ended. Log in with your password, and add \
                 a second factor again. If you did not ask for this, contact the operators of the service.",
                plain(reason)
            ),
            SecurityEvent::RecoveryCodeUsed { left } => format!("{left} of them can still be used."),
            SecurityEvent::KeyCreated { prefix, .. } | SecurityEvent::KeyRevoked { prefix, .. } => {
                format!("The key begins with {}.", plain(prefix))
            }
            SecurityEvent::AccessTokenCreated { name } => format!("Its name is \"{}\".", plain(name)),
            SecurityEvent::RoleChanged { role } => format!("It is \"{}\" now.", plain(role)),
            SecurityEvent::MemberInvited { invited, by, .. } => format!(
                "{} was invited from the account of {}. If you did not expect this, withdraw the invitation, and ask \
                 the owner of that account to set a new password.",
                plain(invited),
                plain(by)
            ),
            SecurityEvent::RoleRaised { member, by, .. } => format!(
                "The role of {} was changed from the account of {}. If you did not expect this, change it back, and \
                 ask the owner of that account to set a new password.",
                plain(member),
                plain(by)
            ),
            SecurityEvent::MemberRemoved => "Your account there was deleted.".into(),
            SecurityEvent::Disabled => "Contact the operators of the service if you do not know why.".into(),
            SecurityEvent::SessionsEnded
            | SecurityEvent::SessionEnded
            | SecurityEvent::RecoveryCodesRenewed
            | SecurityEvent::Enabled => return None,
        })
    }

    /// Returns the object that the mail links to, or `None` for a removed or disabled account, which can open no page.
    pub const fn object(&self) -> Option<MailObject> {
        Some(match self {
            SecurityEvent::PasswordChanged
            | SecurityEvent::PasswordReset
            | SecurityEvent::EmailChanged { .. } => MailObject::Account,
            SecurityEvent::NewDevice { .. }
            | SecurityEvent::SessionsEnded
            | SecurityEvent::SessionEnded
            | SecurityEvent::Locked { .. }
            | SecurityEvent::RefreshTokenReused
            | SecurityEvent::FactorAdded { .. }
            | SecurityEvent::FactorRemoved { .. }
            | SecurityEvent::FactorsReset { .. }
            | SecurityEvent::RecoveryCodesRenewed
            | SecurityEvent::RecoveryCodeUsed { .. } => MailObject::Security,
            SecurityEvent::KeyCreated { project, .. } | SecurityEvent::KeyRevoked { project, .. } => {
                MailObject::Project(*project)
            }
            SecurityEvent::AccessTokenCreated { .. } => MailObject::AccessTokens,
            SecurityEvent::RoleChanged { .. }
            | SecurityEvent::MemberInvited { .. }
            | SecurityEvent::RoleRaised { .. } => MailObject::Team,
            SecurityEvent::Enabled => MailObject::Start,
            SecurityEvent::MemberRemoved | SecurityEvent::Disabled => return None,
        })
    }

    /// Reports whether there is a notification in addition to the mail. Events that a tenant's programs cause routinely
    /// have none, and neither does a user whose account was removed.
    pub const fn is_listed(&self) -> bool {
        !matches!(
            self,
            SecurityEvent::KeyCreated { .. }
                | SecurityEvent::KeyRevoked { .. }
                | SecurityEvent::MemberRemoved
        )
    }

    /// Reports whether a user's program may cause many of these events, so that the user is notified about some of them
    /// only. A new personal access token is not such an event: it has its owner's rights, so each one is reported.
    pub const fn is_frequent(&self) -> bool {
        matches!(self, SecurityEvent::KeyCreated { .. } | SecurityEvent::KeyRevoked { .. })
    }

    /// Reports whether the user may have caused the event, so that the mail says what to do if not.
    const fn is_by_user(&self) -> bool {
        !matches!(
            self,
            SecurityEvent::RefreshTokenReused
                | SecurityEvent::FactorsReset { .. }
                | SecurityEvent::RoleChanged { .. }
                | SecurityEvent::MemberInvited { .. }
                | SecurityEvent::RoleRaised { .. }
                | SecurityEvent::MemberRemoved
                | SecurityEvent::Disabled
                | SecurityEvent::Enabled
        )
    }
}

/// Reduces user input to one line of bounded length, so that it cannot pass for our text.
fn plain(text: &str) -> String {
    text.chars().map(|c| if ends_line(c) { ' ' } else { c }).take(200).collect()
}

/// Formats a time for readers: `2026-12-31 12:00 UTC`.
fn minute(at: Time) -> String {
    let seconds = i64::try_from(at.secs()).unwrap_or(i64::MAX);
    let date = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let year = date.year();
    let month = u8::from(date.month());
    let day = date.day();
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", date.hour(), date.minute())
}

impl Mail {
    /// Makes the mail about `event`, which a client with this `address` caused at the time `at`.
    pub fn security(
        to: Address,
        event: SecurityEvent<'_>,
        address: IpAddr,
        at: Time,
        dash_url: &str,
    ) -> Self {
        let summary = event.summary();
        let mut text = format!("{summary}.");
        if let Some(details) = event.details() {
            text = format!("{text} {details}");
        }
        text = format!("{text}\n\nTime: {}\n", minute(at));
        if event.is_by_user() {
            text = format!("{text}Address: {address}\n");
        }
        if let Some(object) = event.object() {
            text =
                format!("{text}\nYou can find the details in your dashboard:\n\n{}\n", object.url(dash_url));
        }
        if event.is_by_user() {
            let forgotten = MailObject::ForgottenPassword.url(dash_url);
            text = format!(
                "{text}\n\
                 If that was you, you can ignore this mail. If it was not you, set a new password, which ends all \
                 sessions:\n\n\
                 {forgotten}\n"
            );
        }
        Mail::new(to, summary, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::{Mailer, address};

    const EVENTS: [SecurityEvent<'_>; 22] = [
        SecurityEvent::PasswordChanged,
        SecurityEvent::PasswordReset,
        SecurityEvent::EmailChanged { before: HOSTILE },
        SecurityEvent::NewDevice { agent: HOSTILE },
        SecurityEvent::SessionsEnded,
        SecurityEvent::SessionEnded,
        SecurityEvent::Locked { tries: "wrong passwords at log-ins" },
        SecurityEvent::RefreshTokenReused,
        SecurityEvent::FactorAdded { factor: HOSTILE },
        SecurityEvent::FactorRemoved { factor: HOSTILE },
        SecurityEvent::FactorsReset { reason: HOSTILE },
        SecurityEvent::RecoveryCodesRenewed,
        SecurityEvent::RecoveryCodeUsed { left: 9 },
        SecurityEvent::KeyCreated { prefix: HOSTILE, project: PROJECT },
        SecurityEvent::KeyRevoked { prefix: HOSTILE, project: PROJECT },
        SecurityEvent::AccessTokenCreated { name: HOSTILE },
        SecurityEvent::RoleChanged { role: HOSTILE },
        SecurityEvent::MemberInvited { role: Role::Owner, invited: HOSTILE, by: HOSTILE },
        SecurityEvent::RoleRaised { role: Role::Admin, member: HOSTILE, by: HOSTILE },
        SecurityEvent::MemberRemoved,
        SecurityEvent::Disabled,
        SecurityEvent::Enabled,
    ];

    const PROJECT: ProjectId = ProjectId(7);

    const HOSTILE: &str = "<b>x</b>\r\n\r\nhttps://evil.example/\r\n\r\n";

    #[test]
    fn text_that_others_typed_is_one_line_and_no_link() {
        let mailer = Mailer::outbox(tempfile::tempdir().unwrap().path(), "a@rpcgate.example").unwrap();
        let at = Time::from_secs(1_798_718_400);
        for event in EVENTS {
            let to = address("ada@example.com").unwrap();
            let mail = Mail::security(to, event, "192.0.2.7".parse().unwrap(), at, "https://dash.example/");
            let message = mailer.compose(&mail, 7, at).unwrap().formatted();
            let text = String::from_utf8(message).unwrap();
            let (_, html) = text.split_once("text/html").unwrap();
            assert!(!html.contains("<b>"), "{html}");
            assert!(
                !text.contains("\r\nhttps://evil.example") && !text.contains("href=\"https://evil"),
                "{text}"
            );
            assert!(mail.text.contains("Time: 2026-12-31 12:00 UTC"), "{}", mail.text);
            assert_eq!(
                mail.text.contains("\n\nhttps://dash.example/password/forgot\n"),
                event.is_by_user(),
                "{}",
                mail.text
            );
        }
        assert!(plain(&"x".repeat(1_000)).len() == 200);
    }

    // Shows (Mails and notifications).
    #[test]
    fn each_mail_links_to_what_it_is_about() {
        let at = Time::from_secs(1_798_718_400);
        for event in EVENTS {
            let to = address("ada@example.com").unwrap();
            let mail = Mail::security(to, event, "192.0.2.7".parse().unwrap(), at, "https://dash.example/a/");
            let page = match event {
                SecurityEvent::KeyCreated { .. } | SecurityEvent::KeyRevoked { .. } => {
                    format!("projects/{PROJECT}")
                }
                SecurityEvent::AccessTokenCreated { .. } => "account/tokens".into(),
                SecurityEvent::RoleChanged { .. }
                | SecurityEvent::MemberInvited { .. }
                | SecurityEvent::RoleRaised { .. } => "team".into(),
                SecurityEvent::PasswordChanged
                | SecurityEvent::PasswordReset
                | SecurityEvent::EmailChanged { .. } => "account".into(),
                SecurityEvent::Enabled => String::new(),
                SecurityEvent::MemberRemoved | SecurityEvent::Disabled => {
                    assert!(!mail.text.contains("https://dash.example"), "{}", mail.text);
                    continue;
                }
                _ => "account/security".into(),
            };
            let link = format!("\n\nhttps://dash.example/a/{page}\n");
            assert!(mail.text.contains(&link), "{event:?}: {}", mail.text);
        }
    }
}
