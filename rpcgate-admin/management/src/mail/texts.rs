//! The texts of the mails.

use super::{Address, Mail, MailObject, ends_line};
use rpcgate_store::SupportTicket;
use std::time::Duration;

impl Mail {
    /// Makes the mail that lets a new user confirm the address. It links to `{dash_url}/confirm` with `token`, valid
    /// for `life`. It contains no user input, so it cannot be abused to send messages to others.
    pub fn confirmation(to: Address, dash_url: &str, token: &str, life: Duration) -> Self {
        let dash_url = dash_url.trim_end_matches('/');
        let hours = life.as_secs().div_ceil(3_600);
        let within = if hours == 1 { "1 hour".to_owned() } else { format!("{hours} hours") };
        let text = format!(
            "Welcome to rpcgate.\n\n\
             Please confirm that this e-mail address is yours. Open this link within {within}:\n\n\
             {dash_url}/confirm?token={token}\n\n\
             Until the address is confirmed, you cannot create API keys.\n\n\
             If you did not register, you can ignore this mail: without the link the account cannot be used.\n"
        );
        Mail::new(to, "Confirm your e-mail address", text).useful_for(life)
    }

    /// Makes the mail to an address that is being registered but has an account. The answer to the request must not
    /// reveal this.
    pub fn registered_already(to: Address, dash_url: &str) -> Self {
        let link = MailObject::LogIn.url(dash_url);
        let text = format!(
            "Someone tried to register at rpcgate with this e-mail address. You have an account already; nothing was \
             changed.\n\n\
             If that was you, log in here:\n\n\
             {link}\n\n\
             If it was not you, you can ignore this mail.\n"
        );
        Mail::new(to, "You have an account already", text)
    }

    /// Makes the mail whose `link`, valid for `life`, lets its reader set a new password.
    pub fn password_reset(to: Address, link: &str, life: Duration) -> Self {
        let minutes = life.as_secs().div_ceil(60);
        let text = format!(
            "A new password was requested for your account at rpcgate.\n\n\
             To choose one, open this link within {minutes} minutes:\n\n\
             {link}\n\n\
             This also ends all sessions of the account.\n\n\
             If you did not request it, you can ignore this mail: your password does not change.\n"
        );
        Mail::new(to, "Choose a new password", text).useful_for(life)
    }

    /// Makes the mail to the new address of an account. It links to `{dash_url}/confirm` with `token`, valid for
    /// `life`.
    pub fn email_change(to: Address, dash_url: &str, token: &str, life: Duration) -> Self {
        let dash_url = dash_url.trim_end_matches('/');
        let hours = life.as_secs().div_ceil(3_600);
        let text = format!(
            "This e-mail address was entered for an account at rpcgate.\n\n\
             Please confirm that the address is yours. Open this link within {hours} hours:\n\n\
             {dash_url}/confirm?token={token}\n\n\
             If you did not request this, you can ignore this mail: nothing changes until the link is opened.\n"
        );
        Mail::new(to, "Confirm your new e-mail address", text).useful_for(life)
    }

    /// Makes the mail to the requested new address if another account has it. The requesting user must not learn this.
    pub fn email_change_in_vain(to: Address, before: &Address) -> Self {
        let text = format!(
            "This e-mail address was entered for the account of {before} at rpcgate, but it belongs to another \
             account. Nothing was changed.\n\n\
             If you do not know {before}, you can ignore this mail.\n"
        );
        Mail::new(to, "This e-mail address has an account already", text)
    }

    /// Makes the mail to the current address about a requested change of address.
    pub fn email_change_requested(to: Address, after: &Address, dash_url: &str) -> Self {
        let link = MailObject::Account.url(dash_url);
        let text = format!(
            "Another e-mail address was entered for your account at rpcgate: {after}. The change takes effect when the \
             mail to that address is confirmed.\n\n\
             If you did not request this, change your password now. That cancels the change of address.\n\n\
             {link}\n"
        );
        Mail::new(to, "Your e-mail address is to be changed", text)
    }

    /// Makes the mail to the former address about its replacement.
    pub fn email_changed(to: Address, after: &Address, dash_url: &str) -> Self {
        let link = MailObject::Account.url(dash_url);
        let text = format!(
            "The e-mail address of your account at rpcgate is now {after}. This is the last mail to the previous \
             address.\n\n\
             Your account:\n\n\
             {link}\n\n\
             If you did not change it, contact the operators of the service.\n"
        );
        Mail::new(to, "Your e-mail address was changed", text)
    }

    /// Makes the mail that invites its reader to join the organisation of `host` as `role`, by a `link` that is valid
    /// for `life`. The only user input in it is `host`, a confirmed address.
    pub fn invitation(to: Address, host: &Address, role: &str, link: &str, life: Duration) -> Self {
        let days = life.as_secs().div_ceil(86_400);
        let text = format!(
            "{host} invites you to join an organisation at rpcgate, in the role \"{role}\".\n\n\
             To join, open this link within {days} days and choose a password:\n\n\
             {link}\n\n\
             If you do not know {host}, you can ignore this mail.\n"
        );
        Mail::new(to, "You are invited to rpcgate", text).useful_for(life)
    }

    /// Makes the mail to an invited address that already has an account. The inviting user must not learn this.
    pub fn invited_in_vain(to: Address, host: &Address) -> Self {
        let text = format!(
            "{host} invites you to join an organisation at rpcgate, but this e-mail address belongs to an account \
             already, and an account cannot join a second organisation. Nothing was changed.\n\n\
             If you want to join, ask {host} to invite another one of your addresses.\n"
        );
        Mail::new(to, "You are invited to rpcgate", text)
    }

    /// Makes the mail that notifies operators about `news` of a support ticket. Of the author's input it contains only
    /// the subject, in a line that cannot pass for a link.
    pub fn ticket_waits(to: Address, news: &str, ticket: &SupportTicket, api_url: &str) -> Self {
        let SupportTicket { id, tenant, category, subject, .. } = ticket;
        let text = format!(
            "{news}, and waits for an answer.\n\n\
             Subject: {subject}\nCategory: {category}\nOrganisation: {tenant}\nTicket: {id}\n\n\
             Operators read and answer it through the API:\n\n\
             {api_url}/api/v1/operator/tickets/{id}\n"
        );
        Mail::new(to, news, text)
    }

    /// Makes the mail that sends an operator's answer, `text`, to the author of a support ticket.
    pub fn ticket_answered(to: Address, dash_url: &str, ticket: &SupportTicket, text: &str) -> Self {
        let SupportTicket { id, subject, .. } = ticket;
        let link = MailObject::Ticket(*id).url(dash_url);
        let text = format!(
            "Your support ticket at rpcgate was answered:\n\n\
             {subject}\n\n\
             The answer:\n\n\
             {text}\n\n\
             To reply, comment on the ticket. Replies to this mail are not read:\n\n\
             {link}\n"
        );
        Mail::new(to, "Your support ticket was answered", text)
    }

    /// Makes the mail that notifies the author of a support ticket that an operator has closed it.
    pub fn ticket_closed(to: Address, dash_url: &str, ticket: &SupportTicket) -> Self {
        let SupportTicket { id, subject, .. } = ticket;
        let link = MailObject::Ticket(*id).url(dash_url);
        let text = format!(
            "Your support ticket at rpcgate was closed:\n\n\
             {subject}\n\n\
             If your problem is not solved, reopen the ticket. You can also rate our support there:\n\n\
             {link}\n"
        );
        Mail::new(to, "Your support ticket was closed", text)
    }

    /// Makes the mail about calls that cost more from `day` on. `changes` has a line for each. The user can switch it
    /// off.
    pub fn prices_changed(to: Address, day: &str, changes: &[String], dash_url: &str) -> Self {
        let link = MailObject::Chains.url(dash_url);
        let changes = changes.join("\n");
        let text = format!(
            "From {day} (UTC), some calls at rpcgate cost more. At the new prices, your organisation would have \
             paid more for its calls of the last 30 days.\n\n\
             {changes}\n\n\
             Your dashboard lists the price of each method:\n\n\
             {link}\n\n\
             You get this mail because your notification preferences allow mails of this kind.\n"
        );
        Mail::new(to, format!("Call prices change on {day}"), text)
    }

    /// Makes the mail about the decision on a request for another plan. `text` is a sentence without its full stop, and
    /// `note` is the operator's comment. The user can switch it off.
    pub fn limit_request_decided(to: Address, text: &str, note: Option<&str>, dash_url: &str) -> Self {
        let link = MailObject::LimitRequests.url(dash_url);
        let note = note.map(|note| format!("{note}\n\n")).unwrap_or_default();
        let body = format!(
            "{text}.\n\n\
             {note}Your requests and the decisions about them are in your dashboard:\n\n\
             {link}\n\n\
             You get this mail because your notification preferences allow mails of this kind.\n"
        );
        let subject: String = text.chars().filter(|c| !ends_line(*c)).take(150).collect();
        Mail::new(to, subject, body)
    }

    /// Makes the mail with the text of a notification about `object`. The user can switch it off.
    pub fn notification(to: Address, text: &str, dash_url: &str, object: MailObject) -> Self {
        let link = object.url(dash_url);
        let body = format!(
            "{text}.\n\n\
             You can find the details in your dashboard:\n\n\
             {link}\n\n\
             You get this mail because your notification preferences allow mails of this kind.\n"
        );
        let subject: String = text.chars().filter(|c| !ends_line(*c)).take(150).collect();
        Mail::new(to, subject, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::{Mailer, address};
    use rpcgate_core::clock::Time;

    fn shown(mail: &Mail) -> String {
        let folder = tempfile::tempdir().unwrap();
        let mailer = Mailer::outbox(folder.path(), "rpcgate <post@rpcgate.example>").unwrap();
        let message = mailer.compose(mail, 7, Time::from_secs(1_800_000_000)).unwrap();
        String::from_utf8(message.formatted()).unwrap()
    }

    // Shows (Accounts and second factors).
    #[test]
    fn a_notification_about_a_name_of_several_lines_can_be_sent() {
        let to = address("ada@example.com").unwrap();
        let text = "the project a\u{2028}b\u{85}c is suspended";
        let url = "https://dash.rpcgate.example";
        let mails = [
            Mail::notification(to.clone(), text, url, MailObject::LimitRequests),
            Mail::limit_request_decided(to, text, None, url),
        ];
        for mail in &mails {
            assert!(shown(mail).contains("\r\nSubject: the project abc is suspended\r\n"), "{mail:?}");
        }
    }

    #[test]
    fn the_links_in_a_mail_are_complete() {
        let to = address("ada@example.com").unwrap();
        let token = format!("rpcgc_{}", "x".repeat(43));
        for dash_url in ["http://127.0.0.1:8081", "https://dash.rpcgate.example/some/deeper/path/"] {
            let mail = Mail::confirmation(to.clone(), dash_url, &token, Duration::from_secs(86_400));
            assert!(!format!("{mail:?}").contains(&token));
            let text = shown(&mail);
            let url = format!("{}/confirm?token={token}", dash_url.trim_end_matches('/'));
            assert!(text.contains(&format!("\r\n{url}\r\n")) && text.contains("within 24 hours"), "{text}");
            assert!(text.contains(&format!("<a href=\"{url}\">{url}</a>")), "{text}");
        }
        let mail = Mail::registered_already(to.clone(), "http://127.0.0.1:8081/");
        assert!(mail.text.contains("\nhttp://127.0.0.1:8081/login\n"), "{}", mail.text);
        let host = address("host@example.com").unwrap();
        let link = format!("https://dash.rpcgate.example/some/deeper/path/invitation?token={token}");
        let life = Duration::from_secs(7 * 86_400);
        let mail = Mail::invitation(to.clone(), &host, "developer", &link, life);
        assert!(!format!("{mail:?}").contains(&token));
        let text = shown(&mail);
        assert!(text.contains(&format!("\r\n{link}\r\n")) && text.contains("within 7 days"), "{text}");
        assert!(text.contains("host@example.com invites you") && text.contains("\"developer\""), "{text}");
        let mail = Mail::invited_in_vain(to, &host);
        assert!(mail.text.contains("host@example.com") && !mail.text.contains("http"), "{}", mail.text);
    }
}
