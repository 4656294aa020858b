//! Checks that the mail server would accept a mail, without sending one.

use super::examination::Examination;
use super::finding::{CheckGroup, Finding};
use rpcgate_management::mail::{MailError, Mailer};

const CHECK: CheckGroup = CheckGroup::Mail;

pub(super) async fn check(examination: &Examination) -> Vec<Finding> {
    let mail = &examination.config.admin.mail;
    let Some(url) = &mail.smtp else {
        let text = format!("is not set: mails are written into the folder {}", mail.outbox.display());
        let advice =
            "set it to smtps://user:password@host, so that users get the links by which they set a password";
        return vec![Finding::warning(CHECK, "admin.mail.smtp", text, advice)];
    };
    let subject = url.masked();
    let mut findings = Vec::new();
    let greeted = match Mailer::smtp(url.expose(), mail) {
        Ok(mailer) => mailer.greet().await,
        Err(error) => Err(error),
    };
    findings.push(match greeted {
        Ok(()) => Finding::ok(CHECK, subject, "accepts mails; none was sent"),
        Err(error @ (MailError::Unavailable(_) | MailError::Rejected(_))) => {
            let advice = "start the mail server, or correct admin.mail.smtp with its user and password; mails wait for a day";
            Finding::failure(CHECK, subject, error.to_string(), advice)
        }
        Err(error) => Finding::failure(CHECK, subject, error.to_string(), "correct this setting"),
    });
    if mail.from.contains("@localhost") {
        let text = format!("is {:?}: other mail servers refuse it", mail.from);
        let advice = "set it to an address of your domain";
        findings.push(Finding::warning(CHECK, "admin.mail.from", text, advice));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::examination::tests::{examination, only};
    use super::super::finding::Verdict;
    use super::*;
    use std::sync::Arc;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::TcpListener;

    const FROM: &str = "from = \"rpcgate <post@rpcgate.example>\"\n";

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn a_server_that_would_take_a_mail_gets_none() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let received = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let lines_said = received.clone();
        tokio::spawn(async move {
            let (read, mut write) = listener.accept().await.unwrap().0.into_split();
            write.write_all(b"220 here\r\n").await.unwrap();
            let mut lines = BufReader::new(read).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                lines_said.lock().push(line);
                write.write_all(b"250 ok\r\n").await.unwrap();
            }
        });
        let findings = check(&examination(&format!("[admin.mail]\nsmtp = \"smtp://{addr}\"\n{FROM}"))).await;
        assert_eq!(only(&findings).verdict, Verdict::Ok, "{findings:?}");
        assert!(
            !received.lock().iter().any(|line: &String| line.starts_with("MAIL")),
            "{:?}",
            received.lock()
        );
    }

    #[tokio::test]
    async fn no_server_a_silent_server_and_a_sender_without_a_domain_are_reported_with_advice() {
        assert_eq!(only(&check(&examination("")).await).verdict, Verdict::Warning);
        let away = "[admin.mail]\nsmtp = \"smtp://u:hunter2@127.0.0.1:1\"\n";
        let findings = check(&examination(away)).await;
        let verdicts: Vec<_> = findings.iter().map(|finding| finding.verdict).collect();
        assert_eq!(verdicts, [Verdict::Failure, Verdict::Warning], "{findings:?}");
        assert!(findings.iter().all(|finding| finding.advice.is_some()));
        assert!(!format!("{findings:?}").contains("hunter2"), "{findings:?}");
    }
}
