//! The plain-text and HTML parts of a mail.

use super::{Mail, MailError};
use askama::Template;
use lettre::message::header::{ContentTransferEncoding, ContentType};
use lettre::message::{Body, SinglePart};

pub(super) fn text_part(text: &str) -> SinglePart {
    SinglePart::builder().header(ContentType::TEXT_PLAIN).body(body(text))
}

/// Returns the HTML part: the paragraphs of the text, with each line that is a URL as a link. It loads nothing.
pub(super) fn html_part(mail: &Mail) -> Result<SinglePart, MailError> {
    let html = html(mail)?;
    Ok(SinglePart::builder().header(ContentType::TEXT_HTML).body(body(&html)))
}

#[derive(Template)]
#[template(path = "mail.html")]
struct HtmlMail<'m> {
    subject: &'m str,
    paragraphs: Vec<Vec<Line<'m>>>,
}

struct Line<'m> {
    text: &'m str,
    is_link: bool,
}

fn html(mail: &Mail) -> Result<String, MailError> {
    let text = mail.text.replace("\r\n", "\n");
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let lines = paragraph.lines().filter(|line| !line.trim().is_empty());
        lines.map(|text| Line { text, is_link: is_url(text) }).collect::<Vec<_>>()
    });
    let page = HtmlMail {
        subject: &mail.subject,
        paragraphs: paragraphs.filter(|lines| !lines.is_empty()).collect(),
    };
    page.render().map_err(|error| MailError::Compose(error.to_string()))
}

/// Reports whether a line is only a web address.
fn is_url(line: &str) -> bool {
    let web = line.starts_with("https://") || line.starts_with("http://");
    web && line.chars().all(|c| c.is_ascii_graphic())
}

/// Returns the text unchanged if SMTP can carry it (RFC 5321, 4.5.3.1.6: lines of 998 characters). The crate would
/// encode a text with lines longer than 76 characters, which splits links in the file. Single carriage returns, which
/// only some servers treat as line ends, become line ends; other control characters become spaces.
fn body(text: &str) -> Body {
    let text: String = text
        .replace("\r\n", "\n")
        .chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            '\r' => '\n',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect();
    if !text.is_ascii() || text.lines().any(|line| line.len() > 998) {
        return Body::new(text);
    }
    let lines = text.lines().flat_map(|line| [line, "\r\n"]).collect::<String>();
    Body::dangerous_pre_encoded(lines.into_bytes(), ContentTransferEncoding::SevenBit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::address;

    // Shows (Mails and notifications): A mail has a plain and an HTML form; typed text in it is never markup or a link.
    #[test]
    fn the_html_form_has_the_same_paragraphs_and_links_and_nothing_is_markup() {
        let text = "Dear <b>Ada</b> & \"others\",\nhello.\n\n\nhttps://a.example/confirm?token=x&y=1\n\n\
            javascript:alert(1)\n\nhttps://a.example/ is no line of its own.\n";
        let mail = Mail::new(address("ada@example.com").unwrap(), "A <script>", text);
        let html = html(&mail).unwrap();
        for part in [
            "<title>A &#60;script&#62;</title>",
            "<p>Dear &#60;b&#62;Ada&#60;/b&#62; &#38; &#34;others&#34;,<br>hello.</p>",
            "<p><a href=\"https://a.example/confirm?token=x&#38;y=1\">https://a.example/confirm?token=x&#38;y=1</a></p>",
            "<p>javascript:alert(1)</p>",
            "<p>https://a.example/ is no line of its own.</p>",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
        assert_eq!(html.matches("<p>").count(), 4, "{html}");
        assert_eq!(html.matches("<a ").count(), 1, "{html}");
        assert!(!html.contains("<script") && !html.contains("src=") && !html.contains("<b>"), "{html}");
    }

    #[test]
    fn text_that_smtp_cannot_carry_is_encoded() {
        for (text, encoding) in [
            ("", ContentTransferEncoding::SevenBit),
            ("a\r\nb\tc\n", ContentTransferEncoding::SevenBit),
            (&"x".repeat(998), ContentTransferEncoding::SevenBit),
            (&"x".repeat(999), ContentTransferEncoding::QuotedPrintable),
            ("a\rb\r\r\n.\r", ContentTransferEncoding::SevenBit),
            ("a\0b\u{7f}", ContentTransferEncoding::SevenBit),
            ("Grüße", ContentTransferEncoding::Base64),
        ] {
            let body = body(text);
            assert_eq!(body.encoding(), encoding, "{text:?}");
            let bytes = body.into_vec();
            assert!(bytes.is_ascii() && !bytes.contains(&0), "{text:?}");
            let lone = |(at, byte): (usize, &u8)| match byte {
                b'\r' => bytes.get(at + 1) != Some(&b'\n'),
                b'\n' => at == 0 || bytes[at - 1] != b'\r',
                _ => false,
            };
            assert!(!bytes.iter().enumerate().any(lone), "{text:?}");
        }
    }
}
